"""Writes the bundle of a finished audit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dcpflow.bundles import archive, audit, contents, revealed
from dcpflow.bundles.format import with_manifest
from dcpflow.bundles.kinds import Kind, check_folder, recognise
from dcpflow.bundles.verify import named
from dcpflow.errors import UsageError
from dcpflow.evidence import tables
from dcpflow.records import files
from dcpflow.records.draws import Nonce
from dcpflow.records.layout import Layout


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
    layout = Layout(results)
    replayed = replay_results(results, reveal)
    view = replayed.evidence.view
    members = contents.records(layout, view)
    for name in contents.TABLES:
        rows = tables.read(layout.evidence / f"{name}.parquet", name)
        members[contents.table_member(name)] = tables.encode_rows(name, rows)
    shown = revealed.members(layout, replayed.secrets, reveal=reveal is not None)
    registered = view.registered
    members = with_manifest(members | shown, registered.contract, registered.digest, revealed=bool(shown))
    data = archive.encode(members)
    # what is handed to others has been verified as they will verify it
    again = audit.replay(audit.open_members(str(out), members))
    files.write_atomic(out, data)
    return Exported(again.identity, len(members) - 1, len(data), bool(shown))


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
