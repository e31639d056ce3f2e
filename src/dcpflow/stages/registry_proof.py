"""Holds an audit against the registry that it was noted in: reservation, start, amendments.

What was listed later (certificates, revocations, recoveries) is :mod:`dcpflow.authority.certificate`'s to weigh.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from dcpflow.authority import kinds, slots
from dcpflow.authority.entry import Checkpoint, Entry
from dcpflow.authority.log import Log, verify_proof
from dcpflow.bundles import audit
from dcpflow.bundles.kinds import Kind, recognise
from dcpflow.bundles.verify import Verification
from dcpflow.errors import EvidenceError, UsageError
from dcpflow.records import canonical, history, registration, snapshot
from dcpflow.records.layout import Layout
from dcpflow.stages import registry


@dataclass(frozen=True, slots=True)
class Noted:
    """What a registry says of an audit that was verified.

    Attributes:
        recomputed: what was held against it, as name and detail.
        remarks: what a reader should know.
    """

    recomputed: tuple[tuple[str, str], ...]
    remarks: tuple[str, ...]


def with_registry(found: Verification, place: str, older: Path | None = None) -> Verification:
    """What came of a verification, once a registry has had its say too; of what did not verify, the same.

    Args:
        found: what came of it without one.
        place: the registry's folder or address.
        older: a checkpoint of it that somebody has kept.

    Raises:
        UsageError: this is no audit of ours, or there is no registry.
    """
    if not found.ok:
        return found
    try:
        noted = verify(Path(found.path), place, older)
    except EvidenceError as error:
        return found.failed(error)
    return found.with_registry(noted.recomputed, noted.remarks)


def verify(path: Path, place: str, older: Path | None = None) -> Noted:
    """Hold an audit, whose own digests have been followed, against a registry.

    Args:
        path: a results folder or a bundle of ours.
        place: the registry's folder or address.
        older: a checkpoint of it that somebody has kept.

    Raises:
        UsageError: the path is no audit of ours, or there is no registry.
        EvidenceError: the registry was cut or altered, does not know the audit, knows another one in its slot, or says
            something else than the audit says of it.
    """
    kind = recognise(path)
    if kind not in {Kind.RESULTS, Kind.BUNDLE}:
        raise UsageError(f"{path} is a {kind.value}, which no registry of dcpflow notes", "Leave --registry out")
    layout = audit.open_folder(path).layout if kind is Kind.RESULTS else audit.open_bundle(path).layout
    log = registry.open_place(place)
    kept = Checkpoint.read(older) if older else None
    log.verify(kept)
    name = f"the registry {log.head.origin!r}"
    registered = registration.read_registration(layout.registration)
    mine = {entry.registration for entry in history.entries(layout)}
    held, start = _reservation(log, layout, name, mine), _start(log, layout, name, mine)
    noted_here = slots.of_run(log.entries, start.body, kinds.STARTED, kinds.AMENDED)
    known = {entry.body["new" if entry.kind == kinds.AMENDED else "registration"] for entry in noted_here}
    if registered.digest not in known:
        raise EvidenceError(f"{name} was not told of the amendment to the registration in force, {registered.digest}")
    decided = canonical.digest(layout.decision.read_bytes())
    where = f"slot reserved by entry {held.number}, started by entry {start.number}"
    lines = [("registry", f"{log.head.origin!r}, {len(log.entries)} entries: {where}"), *_included(log, (held, start))]
    if kept:
        lines.append(("consistency", f"continues the checkpoint of {kept.size} entries in {older}"))
    return Noted(tuple(lines), tuple(_remarks(log, name, start, decided)))


def _reservation(log: Log, layout: Layout, name: str, mine: Collection[str]) -> Entry:
    claim = registration.read_registration(layout.registration).config("claim")
    held = slots.holder(log.entries, claim)
    if held is None:
        raise EvidenceError(f"{name} has not reserved the slot {claim['slot']} of the family {claim['family']}")
    if held.body["registration"] not in mine:
        raise EvidenceError(
            f"{name} has reserved the slot {claim['slot']} of the family {claim['family']} for another registration: "
            f"entry {held.number}, claim {held.body['claim']}, {held.body['registration']}"
        )
    return held


def _start(log: Log, layout: Layout, name: str, mine: Collection[str]) -> Entry:
    """The entry that notes the audit's start, as the audit itself says, or else the first that could."""
    claim = registration.read_registration(layout.registration).config("claim")
    place = (claim["family"], claim["slot"])
    possible = [
        entry
        for entry in log.entries
        if entry.kind == kinds.STARTED
        and (entry.body["family"], entry.body["slot"]) == place
        and entry.body["registration"] in mine
    ]
    said = snapshot.read(layout.registration)
    found = next((entry for entry in possible if said is None or entry.number == said.number), None)
    if found is None:
        raise EvidenceError(f"{name} has no start of this audit{f' as entry {said.number}' if said else ''}")
    if said is not None and slots.before(log.head, log.entries, found) != said:
        raise EvidenceError(f"{name} knew something else at the start than registration/{snapshot.NAME} says")
    return found


def _included(log: Log, entries: Collection[Entry]) -> list[tuple[str, str]]:
    """What the last signed checkpoint covers, by Merkle proof."""
    point, key = log.checkpoint, log.head.key
    if point is None or key is None or any(entry.number > point.size for entry in entries):
        return []
    for entry in entries:
        verify_proof(log.prove(entry.number), [key], log.source.place(f"entry {entry.number}"))
    return [("inclusion", f"both are among the {point.size} entries that {key.id} has signed, by Merkle proof")]


def _remarks(log: Log, name: str, start: Entry, decided: str) -> list[str]:
    found = []
    if log.head.key is None:
        found.append(f"{name} is signed by nobody: whoever keeps it can write it anew")
    elif log.checkpoint is None or log.checkpoint.size < start.number:
        found.append(f"no checkpoint of {name} covers this audit yet")
    if start.body["episodes"]:
        found.append(f"{start.body['episodes']} episodes had been started before {name} was told")
    elsewhere = [
        entry
        for entry in log.entries
        if entry.kind == kinds.STARTED
        and entry.body["run"] != start.body["run"]
        and (entry.body["claim"] == start.body["claim"] or entry.body["family"] == start.body["family"])
    ]
    if elsewhere:
        shown = ", ".join(f"{e.body['slot']} (entry {e.number}, {e.date})" for e in elsewhere[:3])
        more = f" and {len(elsewhere) - 3} more" if len(elsewhere) > 3 else ""
        found.append(f"{name} has {len(elsewhere)} other starts of the claim or its family: {shown}{more}")
    own = slots.of_run(log.entries, start.body, kinds.DECIDED)
    if not any(entry.body["decision"] == decided for entry in own):
        found.append(f"{name} was not told of this decision")
    return found
