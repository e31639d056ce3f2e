"""Makes a results folder of a bundle again, so that everything that works on results works on what was received."""

from __future__ import annotations

from pathlib import Path

from dcpflow.bundles import audit, contents, imported
from dcpflow.bundles.folders import new_folder, write
from dcpflow.bundles.format import MANIFEST
from dcpflow.bundles.kinds import Kind, recognise
from dcpflow.bundles.verify import named
from dcpflow.errors import UsageError
from dcpflow.evidence import rows, tables


def import_bundle(path: Path, out: Path) -> Kind:
    """Verify a bundle, of ours or of dcp-audit, and make a folder of it.

    Args:
        path: which of them it is, is recognised.
        out: the folder to make; must not exist, or be empty.

    Returns:
        What it was.

    Raises:
        EvidenceError: the bundle does not verify. Nothing is written.
        UsageError: it is none, or there is something at ``out``.
    """
    kind = recognise(path)
    if kind not in (Kind.DCP_AUDIT, Kind.BUNDLE):
        raise UsageError(f"{path} is no bundle, but a {kind.value} already", "It can be used as it is")
    with named(path, kind):
        if kind is Kind.DCP_AUDIT:
            imported.import_bundle(path, out)
        else:
            unpack(path, out)
    return kind


def unpack(path: Path, out: Path) -> None:
    """Verify a bundle of ours and write the results folder that it was made of, as far as the decision rests on it.

    Raises:
        EvidenceError: the bundle does not verify. Nothing is written.
        UsageError: there is something at ``out``.
    """
    opened = audit.open_bundle(path)
    replayed = audit.replay(opened)
    members = dict(opened.members or {})
    evidence = replayed.evidence
    registration = evidence.view.registered.digest
    # the bundle's tables hold, of what an artifact scored on each unit, the digest; the scores hold the numbers
    found = rows.all_rows(evidence.view, evidence.episode_facts) | {"checks": replayed.decided.checks}
    with new_folder(out) as made:
        for name in contents.TABLES:
            del members[contents.table_member(name)]
            tables.write(made / "evidence" / f"{name}.parquet", name, found[name], registration)
        for name, data in members.items():
            if name != MANIFEST:
                write(made / name, data)
