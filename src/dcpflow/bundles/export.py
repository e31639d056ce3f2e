"""Writes the bundle of a finished audit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dcpflow.bundles import archive, audit, contents, revealed
from dcpflow.bundles.format import MANIFEST, with_manifest
from dcpflow.bundles.kinds import Kind, check_folder, recognise
from dcpflow.bundles.verify import named
from dcpflow.errors import UsageError
from dcpflow.evidence import tables
from dcpflow.records import files
from dcpflow.records.draws import Nonce


@dataclass(frozen=True, slots=True)
class Exported:
    """A bundle that was written.

    Attributes:
        digest: its name.
        members: number of members, its manifest not counted.
        size: in bytes.
        revealed: whether it holds what was sealed.
    """

    digest: str
    members: int
    size: int
    revealed: bool


def export(results: Path, out: Path, reveal: Nonce | None = None) -> Exported:
    """Verify a results folder, verify its bundle and write it; an older file is replaced, at once and whole.

    Two exports of one audit have the same bytes, wherever it lies.

    Args:
        results: the results folder.
        out: the bundle's file.
        reveal: the audit's nonce, to include it with hidden state and sealed units; None to leave them sealed.

    Raises:
        EvidenceError: the folder does not verify, or is more than a bundle holds. Nothing is written.
        UsageError: it is no results folder, or the file would lie inside of it.
    """
    if out.resolve().is_relative_to(results.resolve()):
        raise UsageError(f"{out} lies in the results folder that it is made of", "Give a place outside of it")
    if out.is_dir():
        raise UsageError(f"{out} is a folder", "A bundle is one file: give its name, e.g. claim.dcp")
    replayed = replay_results(results, reveal)
    shown = revealed.members(replayed.source.layout, replayed.secrets, reveal=reveal is not None)
    members = _whole(replayed, _of_folder(replayed) | shown, shown=bool(shown))
    data = archive.encode(members)
    # what is handed to others has been verified as they will verify it
    again = audit.replay(audit.open_members(str(out), members))
    files.write_atomic(out, data)
    return Exported(again.identity, len(members) - 1, len(data), bool(shown))


def sealed(replayed: audit.Replayed) -> bytes:
    """The bytes of an audit's bundle without what was revealed: the same before and after, from folder and bundle.

    Args:
        replayed: the audit, as it was verified.
    """
    members = replayed.source.members
    if members is None:
        own = _of_folder(replayed)
    else:
        shown = (MANIFEST, f"{contents.REVEALED}/")
        own = {name: data for name, data in members.items() if not name.startswith(shown)}
    return archive.encode(_whole(replayed, own, shown=False))


def _of_folder(replayed: audit.Replayed) -> dict[str, bytes]:
    """The members of a results folder's bundle, but for the manifest and what is revealed."""
    layout = replayed.source.layout
    members = contents.records(layout, replayed.evidence.view)
    for name in contents.TABLES:
        rows = tables.read(layout.evidence / f"{name}.parquet", name)
        members[contents.table_member(name)] = tables.encode_rows(name, rows)
    return members


def _whole(replayed: audit.Replayed, members: Mapping[str, bytes], *, shown: bool) -> dict[str, bytes]:
    registered = replayed.evidence.view.registered
    return with_manifest(members, registered.contract, registered.digest, revealed=shown)


def replay_results(results: Path, nonce: Nonce | None = None) -> audit.Replayed:
    """Verify a results folder.

    Raises:
        UsageError: it is none.
        EvidenceError: it does not verify, in one line that names it.
    """
    kind = recognise(results)
    if kind is not Kind.RESULTS:
        raise UsageError(f"{results} is no results folder, but a {kind.value}", "Give the folder of a finished audit")
    with named(results, kind):
        check_folder(results)
        return audit.replay(audit.open_folder(results), nonce)
