"""Holds an audit against the registry that it was noted in: reservation, start, amendments.

What was listed later (certificates, revocations, recoveries) is :mod:`dcpflow.authority.certificate`'s to weigh.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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
from dcpflow.records.registration import Registered
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
    _require_ours(path)
    log = registry.open_place(place)
    kept = Checkpoint.read(older) if older else None
    log.verify(kept)
    noted = hold(path, log)
    if kept is None:
        return noted
    line = ("consistency", f"continues the checkpoint of {kept.size} entries in {older}")
    return Noted((*noted.recomputed, line), noted.remarks)


def hold(path: Path, log: Log) -> Noted:
    """Hold an audit, whose own digests have been followed, against a registry that was read.

    Args:
        path: a results folder or a bundle of ours.
        log: the registry.

    Raises:
        UsageError: the path is no audit of ours.
        EvidenceError: as for :func:`verify`.
    """
    kind = _require_ours(path)
    layout = audit.open_folder(path).layout if kind is Kind.RESULTS else audit.open_bundle(path).layout
    name = f"the registry {log.head.origin!r}"
    registered = registration.read_registration(layout.registration)
    past = {
        entry.registration: Registered(entry.registration, entry.contract, entry.parts)
        for entry in history.entries(layout)
    }
    possible = _starts(log, registered, past)
    held = _reservation(log, name, registered, {*past, *(entry.body["registration"] for entry in possible)})
    start = _start(log, layout, name, possible)
    _require_same(name, held, past, registered)
    _require_same(name, start, past, registered)
    noted_here = slots.of_run(log.entries, start.body, kinds.STARTED, kinds.AMENDED)
    known = {entry.body["new" if entry.kind == kinds.AMENDED else "registration"] for entry in noted_here}
    if registered.digest not in known:
        raise EvidenceError(f"{name} was not told of the amendment to the registration in force, {registered.digest}")
    decided = canonical.digest(layout.decision.read_bytes())
    where = f"slot reserved by entry {held.number}, started by entry {start.number}"
    lines = [("registry", f"{log.head.origin!r}, {len(log.entries)} entries: {where}"), *_included(log, (held, start))]
    remarks = _remarks(log, name, start, decided)
    if start.body["registration"] not in past:
        remarks.append(
            f"entry {start.number} of {name} is of a registration that was amended before the first one in the history"
        )
    return Noted(tuple(lines), tuple(remarks))


def _require_ours(path: Path) -> Kind:
    kind = recognise(path)
    if kind not in {Kind.RESULTS, Kind.BUNDLE}:
        raise UsageError(f"{path} is a {kind.value}, which no registry of dcpflow notes", "Leave --registry out")
    return kind


def _starts(log: Log, registered: Registered, past: Collection[str]) -> list[Entry]:
    """The starts of the slot that could be this audit's: under a registration of its history, or amended to one.

    A run that was stopped between reservation and registration may be edited before it goes on: what it reserved the
    slot for never came into its history.
    """
    claim = registered.config("claim")
    found = []
    for entry in log.entries:
        if entry.kind == kinds.STARTED and (entry.body["family"], entry.body["slot"]) == (
            claim["family"],
            claim["slot"],
        ):
            amended = slots.of_run(log.entries, entry.body, kinds.AMENDED)
            if not {entry.body["registration"], *(one.body["new"] for one in amended)}.isdisjoint(past):
                found.append(entry)
    return found


def _reservation(log: Log, name: str, registered: Registered, mine: Collection[str]) -> Entry:
    claim = registered.config("claim")
    held = slots.holder(log.entries, claim)
    if held is None:
        raise EvidenceError(f"{name} has not reserved the slot {claim['slot']} of the family {claim['family']}")
    if held.body["registration"] not in mine:
        raise EvidenceError(
            f"{name} has reserved the slot {claim['slot']} of the family {claim['family']} for another registration: "
            f"entry {held.number}, claim {held.body['claim']}, {held.body['registration']}"
        )
    return held


def _start(log: Log, layout: Layout, name: str, possible: Sequence[Entry]) -> Entry:
    """The entry that notes the audit's start, as the audit itself says, or else the first that could."""
    said = snapshot.read(layout.registration)
    found = next((entry for entry in possible if said is None or entry.number == said.number), None)
    if found is None:
        raise EvidenceError(f"{name} has no start of this audit{f' as entry {said.number}' if said else ''}")
    knew = slots.before(log.head, log.entries, found)
    if said is None and knew.speaks:
        raise EvidenceError(
            f"the results do not say what {name} knew at the start: registration/{snapshot.NAME} is missing"
        )
    if said not in {None, knew}:
        raise EvidenceError(f"{name} knew something else at the start than registration/{snapshot.NAME} says")
    return found


def _require_same(name: str, entry: Entry, past: Mapping[str, Registered], registered: Registered) -> None:
    """See that a reservation or start says of its registration what that says itself."""
    of = past.get(entry.body["registration"])
    expected = {"claim": (of or registered).config("claim")["id"]}
    if of:
        said = registry.reservation(of) if entry.kind == kinds.REGISTERED else {"what": registry.started(of)}
        expected |= {"contract": of.contract, **said}
    for field, value in expected.items():
        if entry.body[field] != value:
            raise EvidenceError(
                f"{name}: entry {entry.number} gives another {field} than the registration: {entry.body[field]!r:.80}, "
                f"not {value!r:.80}"
            )


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
        starts = "another start" if len(elsewhere) == 1 else f"{len(elsewhere)} other starts"
        found.append(f"{name} has {starts} of the claim or its family: {shown}{more}")
    own = slots.of_run(log.entries, start.body, kinds.DECIDED)
    if not any(entry.body["decision"] == decided for entry in own):
        found.append(f"{name} was not told of this decision")
    return found
