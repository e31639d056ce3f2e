"""A dcp-audit bundle as a results-shaped folder: the bundle itself, its decision in our form, its evidence as tables.

The decision is the reference's: what the bundle's certificate says, after our own replay has agreed with it. It is
labelled ``self-attested``, since nothing in such a bundle can be held against records. Tables have null where the
format has nothing; such a bundle has no records, so that the digest of a result stands in their place.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dcpflow.bundles.dcp_audit import Bundle, Decoded, decide_bundle, decode, read_bundle, verify
from dcpflow.bundles.dcp_audit.errors import BundleError
from dcpflow.bundles.folders import new_folder, write
from dcpflow.bundles.imported_decision import document
from dcpflow.bundles.imported_tables import all_rows
from dcpflow.bundles.kinds import IMPORTED
from dcpflow.errors import EvidenceError
from dcpflow.evidence import tables
from dcpflow.protocol.decision import Decision
from dcpflow.records import canonical, stagefile

SCHEMA: Final = "dcpflow.imported/1"


@dataclass(frozen=True, slots=True)
class Imported:
    """An imported bundle, read and decided.

    Attributes:
        bundle: the bundle.
        decoded: what it holds, in the protocol's terms: what sensitivity analyses vary and decide again.
        decision: our decision on it.
    """

    bundle: Bundle
    decoded: Decoded
    decision: Decision

    def document(self) -> dict[str, Any]:
        """The content of ``decision.json``."""
        return document(self.bundle, self.decoded, self.decision)

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """The rows of every table."""
        checks = [
            {**check, "records": 0, "records_digest": canonical.digest_of([])} for check in self.document()["checks"]
        ]
        return {**all_rows(self.decoded), "checks": checks}


def read(folder: Path) -> Imported:
    """Read a dcp-audit bundle whose certificate follows from its evidence.

    Raises:
        EvidenceError: it cannot be read, or its certificate does not follow.
    """
    report = verify(folder)
    if report.error is not None:
        raise report.error
    if not report.ok:
        first = report.comparison.differences[0] if report.comparison else "no decision could be reached"
        raise BundleError("payload/certificate.json", "", "replay", str(first))
    bundle = read_bundle(folder)
    decoded = decode(bundle.payloads)
    return Imported(bundle, decoded, decide_bundle(decoded))


def import_bundle(folder: Path, out: Path) -> Imported:
    """Write the results-shaped folder of a dcp-audit bundle.

    Args:
        folder: the bundle.
        out: the folder to make; must not exist, or be empty.

    Raises:
        EvidenceError: the bundle cannot be read, or does not replay. Nothing is written.
        UsageError: there is something at ``out``.
    """
    names = ["manifest.json", *(f"payload/{name}.json" for name in read(folder).bundle.payloads)]
    with new_folder(out, outside=folder) as made:
        for name in names:
            write(made / IMPORTED / name, (folder / name).read_bytes())
        found = read(made / IMPORTED)
        digests = {
            name: tables.write(made / "evidence" / f"{name}.parquet", name, rows, found.bundle.bundle_id)
            for name, rows in found.tables().items()
        }
        body = {"bundle": found.bundle.bundle_id, "tables": digests}
        stagefile.write(made / "evidence" / "manifest.json", SCHEMA, body)
        write(made / "decision.json", canonical.encode(found.document()) + b"\n")
    return found


def check(folder: Path) -> None:
    """Hold the decision and the tables of an imported bundle's folder against the bundle that lies in it.

    Raises:
        EvidenceError: they are not what importing it gives.
    """
    found = read(folder / IMPORTED)
    path = folder / "decision.json"
    if not path.exists() or path.read_bytes() != canonical.encode(found.document()) + b"\n":
        raise EvidenceError(f"{path} is not the decision that importing the bundle gives")
    for name, rows in found.tables().items():
        path = folder / "evidence" / f"{name}.parquet"
        if tables.rows_digest(name, tables.read(path, name)) != tables.rows_digest(name, rows):
            raise EvidenceError(f"the table {path} is not what importing the bundle gives")
