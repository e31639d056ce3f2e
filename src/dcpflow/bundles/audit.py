"""Opens an audit of ours, as a results folder or a bundle, and reaches its decision again."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from dcpflow.bundles import archive, contents, forms, revealed
from dcpflow.bundles.dcp_audit.errors import BundleError
from dcpflow.bundles.format import MANIFEST, Manifest, check_manifest
from dcpflow.bundles.tree import in_memory
from dcpflow.errors import DcpflowError, EvidenceError
from dcpflow.evidence import folder, tables
from dcpflow.records import canonical, history, plan
from dcpflow.records.draws import Nonce
from dcpflow.records.layout import Layout

UNFORESEEN: Final = (ArithmeticError, AttributeError, LookupError, OSError, RecursionError, TypeError, ValueError)
"""What content can make fail that is of the right form everywhere and yet no audit's, e.g. one without controls."""
_KNOWN_BY_DIGEST: Final = ("store/", "objects/", "task/public/")


@dataclass(frozen=True, slots=True)
class Opened:
    """An audit that can be read.

    Attributes:
        layout: where its files lie, on disk or in memory.
        members: of a bundle, as they stand in it; None for a folder.
        manifest: of a bundle; None for a folder.
    """

    layout: Layout
    members: Mapping[str, bytes] | None = None
    manifest: Manifest | None = None


@dataclass(frozen=True, slots=True)
class Replayed:
    """A decision that was reached again.

    Attributes:
        decided: the decision and the table of checks.
        evidence: what it rests on.
        registrations: number of registrations in the history.
        secrets: what is known of what was sealed; None where nothing is.
        opened: what was recomputed with it; None likewise.
        source: where it was read.
    """

    decided: folder.Decided
    evidence: folder.Evidence
    registrations: int
    secrets: revealed.Secrets | None
    opened: revealed.Recomputed | None
    source: Opened

    @property
    def identity(self) -> str:
        """Digest of the bundle, or of the decision's bytes."""
        manifest = self.source.manifest
        return manifest.digest if manifest else canonical.digest(self.decided.to_bytes())


def open_folder(results: Path) -> Opened:
    """A results folder."""
    return Opened(Layout(results))


def open_bundle(path: Path) -> Opened:
    """A bundle, whole and in memory.

    Raises:
        BundleError: it is not what its manifest says.
    """
    return open_members(str(path), archive.read(path))


def open_members(called: str, members: Mapping[str, bytes]) -> Opened:
    """The members of a bundle as an audit that can be read.

    Args:
        called: how the bundle is called in messages.
        members: its members, the manifest included.

    Raises:
        BundleError: they are not what the manifest says.
    """
    manifest = check_manifest(members)
    files = {name: data for name, data in members.items() if name != MANIFEST}
    for table in contents.TABLES:
        member = contents.table_member(table)
        if member in files:
            files[f"evidence/{table}.parquet"] = files.pop(member)
    return Opened(Layout(in_memory(called, files)), members, manifest)


def replay(opened: Opened, nonce: Nonce | None = None) -> Replayed:
    """Reach the decision again and hold it against the one that stands there; follow every digest on the way.

    Args:
        opened: the audit.
        nonce: to recompute what follows from it; by default the revealed or public one, if there is one.

    Raises:
        EvidenceError: something is missing, altered, foreign or superfluous, or does not follow.
    """
    try:
        return _replay(opened, nonce)
    except DcpflowError:
        raise
    except UNFORESEEN as error:
        with suppress(*UNFORESEEN):
            forms.check(opened.layout, thorough=True)
        root, kind = opened.layout.root, type(error).__name__
        raise EvidenceError(f"{root}: is no audit that can be decided ({kind}: {error})") from error


def _replay(opened: Opened, nonce: Nonce | None) -> Replayed:
    layout = opened.layout
    _check_forms(opened)
    decided = folder.verify(layout) if opened.members is not None else folder.verify(layout, partial(_hold, layout))
    evidence = decided.evidence
    if opened.members is not None and opened.manifest is not None:
        _check_members(layout, opened.members, opened.manifest, evidence, decided.checks)
    secrets = revealed.find(layout, evidence.view, nonce)
    return Replayed(
        decided=decided,
        evidence=evidence,
        registrations=len(history.entries(layout)),
        secrets=secrets,
        opened=revealed.recompute(evidence, secrets) if secrets else None,
        source=opened,
    )


def _hold(layout: Layout, evidence: folder.Evidence) -> None:
    for place, part in {"": evidence.view, **evidence.view.parts}.items():
        forms.check_read(layout, part, plan.stratum_of(place))


def _check_forms(opened: Opened) -> None:
    """Refuse what has another form than an audit's files have.

    In a results folder such a file was altered, as a rule: then its own reader names it first, with the command that
    brings it back.
    """
    try:
        forms.check(opened.layout, thorough=opened.members is not None)
    except BundleError:
        if opened.members is None:
            with suppress(*UNFORESEEN):
                folder.verify(opened.layout)
        raise


def _check_members(
    layout: Layout,
    members: Mapping[str, bytes],
    manifest: Manifest,
    evidence: folder.Evidence,
    checks: list[dict[str, Any]],
) -> None:
    """The bundle is the one that exporting its content again gives: nothing superfluous, one form for everything."""
    registered = evidence.view.registered
    if (manifest.contract, manifest.registration) != (registered.contract, registered.digest):
        raise BundleError(MANIFEST, "body", "registration", "names another contract or registration than the one in it")
    expected = contents.records(layout, evidence.view) | revealed.members(layout, None, reveal=False)
    digests = {name: canonical.digest(data) for name, data in expected.items()}
    tables_digests = evidence.digests | {"checks": tables.rows_digest("checks", checks)}
    digests |= {contents.table_member(name): digest for name, digest in tables_digests.items()}
    for name in sorted(members.keys() - {MANIFEST}):
        if name not in digests:
            raise BundleError(name, "", "superfluous", "belongs to nothing that the decision rests on")
        if canonical.digest(members[name]) != digests[name] or not _is_canonical(name, members[name]):
            raise BundleError(name, "", "form", "is not in its canonical form")
    if manifest.revealed is not (revealed.NONCE in expected):
        raise BundleError(MANIFEST, "body.revealed", "revealed", f"{manifest.revealed}, but the bundle says otherwise")


def _is_canonical(name: str, data: bytes) -> bool:
    """Whether a stage file has the bytes that writing its content gives; all else is known by its bytes' digest."""
    if not name.endswith(".json") or name.startswith(_KNOWN_BY_DIGEST):
        return True
    return canonical.encode(canonical.decode(data, name)) + b"\n" == data
