"""What a registry's entries say of an audit's slot: who holds it, what has still to be noted, what was known before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dcpflow.authority import kinds
from dcpflow.authority.entry import Entry, Head
from dcpflow.errors import UsageError
from dcpflow.records.snapshot import Snapshot

Note = tuple[str, dict[str, Any]]
"""Kind and body of an entry that is to be added."""
NOTED: Final = frozenset({kinds.REGISTERED, kinds.STARTED, kinds.AMENDED, kinds.DECIDED})
"""What audits note themselves."""


@dataclass(frozen=True, slots=True)
class Audit:
    """An audit as a registry notes it.

    Attributes:
        claim: name of the claim.
        family: of audits that share an error budget.
        slot: this audit's within the family.
        run: token of the results folder.
        contract: C in force.
        registration: R in force.
    """

    claim: str
    family: str
    slot: str
    run: str
    contract: str
    registration: str

    @property
    def place(self) -> dict[str, str]:
        """Claim, family, slot and results folder, with which bodies begin."""
        return {"claim": self.claim, "family": self.family, "slot": self.slot, "run": self.run}

    @property
    def digests(self) -> dict[str, str]:
        """Contract and registration."""
        return {"contract": self.contract, "registration": self.registration}


def holder(entries: Sequence[Entry], slot: Mapping[str, Any]) -> Entry | None:
    """The entry that has reserved a slot, given with its family: the first one, whatever came after it."""
    reserved = (entry for entry in entries if entry.kind == kinds.REGISTERED)
    return next((entry for entry in reserved if _same(entry, slot, "family", "slot")), None)


def of_run(entries: Sequence[Entry], run: Mapping[str, Any], *which: str) -> list[Entry]:
    """The entries of some kinds about one slot, given with its family, from one results folder."""
    found = (entry for entry in entries if entry.kind in which)
    return [entry for entry in found if _same(entry, run, "family", "slot", "run")]


def missing(
    entries: Sequence[Entry],
    audit: Audit,
    asked: Sequence[Note],
    reservation: Mapping[str, Any],
    start: Mapping[str, Any],
    keys: Sequence[str],
) -> list[Note]:
    """What has to be noted before an audit may go on under its registration, in order; nothing where all stands there.

    Args:
        entries: of the registry.
        audit: the audit.
        asked: what the registry's operator was asked to add, as :func:`unanswered` gives it.
        reservation: what a reservation says beyond the audit itself: alpha, family_alpha, roles, mode.
        start: what a start says beyond it: what, episodes.
        keys: registered keys that differ from the registration that was in force here before.

    Raises:
        UsageError: the slot belongs to another registration.
    """
    own = of_run([*entries, *map(_requested, asked)], audit.place, kinds.STARTED, kinds.AMENDED)
    begin: Note = (kinds.STARTED, {**audit.place, **audit.digests, **start})
    if own:
        in_force = _in_force(own)
        change = {**audit.place, "old": in_force, "new": audit.registration, "keys": list(keys)}
        amended: list[Note] = [(kinds.AMENDED, change)] if in_force != audit.registration else []
        # another contract has another target run
        return amended if _began(own, audit.contract) else [*amended, begin]
    slot = {name: value for name, value in audit.place.items() if name != "run"}
    reserve: Note = (kinds.REGISTERED, {**slot, **audit.digests, **reservation})
    return [reserve, begin] if admit(entries, *reserve) else [begin]


def unanswered(entries: Sequence[Entry], audit: Audit, asked: Sequence[Note]) -> list[Note]:
    """What of a request the log does not say yet, in order.

    A request of an audit that the log does not know at all is made anew: under it nothing can have begun.
    """
    noted = of_run(entries, audit.place, kinds.STARTED, kinds.AMENDED, kinds.DECIDED)
    own = [(entry.kind, entry.body) for entry in noted]
    wanted = [note for note in asked if note[0] != kinds.REGISTERED] if own else []
    # its first notes are the last ones that were added
    added = next(count for count in range(len(wanted), -1, -1) if own[len(own) - count :] == wanted[:count])
    return wanted[added:]


def _requested(note: Note) -> Entry:
    """A note as an entry that is still to be added."""
    kind, body = note
    return Entry(0, "", kind, "", body, b"")


def outcome(audit: Audit, decision: str, core: str, evidence: str) -> Note:
    """What is noted of a decision.

    Args:
        audit: the audit.
        decision: digest of the decision's file.
        core: its status, in words.
        evidence: likewise.
    """
    found = {"registration": audit.registration, "decision": decision, "core": core, "evidence": evidence}
    return kinds.DECIDED, {**audit.place, **found}


def admit(entries: Sequence[Entry], kind: str, body: Mapping[str, Any]) -> bool:
    """Whether an entry is to be added; False where the log says the same already.

    Raises:
        UsageError: it contradicts what is there: the slot belongs to another registration, or nobody has reserved it.
    """
    if kind not in NOTED:
        return not any(entry.kind == kind and entry.body == body for entry in entries)
    held = holder(entries, body)
    if kind == kinds.REGISTERED:
        if held and held.body["registration"] != body["registration"]:
            raise _taken(held, body)
        return held is None
    if held is None:
        raise UsageError(
            f"the slot {body['slot']} of the family {body['family']} was not reserved",
            "Reserve it first: a request begins with its registration",
        )
    if held.body["claim"] != body["claim"]:
        raise _taken(held, body)
    own = of_run(entries, body, kinds.STARTED, kinds.AMENDED)
    if kind == kinds.STARTED:
        if body["registration"] != (_in_force(own) if own else held.body["registration"]):
            raise _taken(held, body)
        return not _began(own, body["contract"])
    if kind == kinds.AMENDED:
        if not own:
            raise UsageError(
                f"nothing was started in the slot {body['slot']} of the family {body['family']} from the results "
                f"folder {body['run']}, so that nothing can be amended",
                "A request begins with its start",
            )
        in_force = _in_force(own)
        if in_force not in {body["old"], body["new"]}:
            raise UsageError(
                f"the amendment is of {body['old']}, and {in_force} is in force",
                "Add the amendments of a results folder in their order",
            )
        return in_force != str(body["new"])
    decided = of_run(entries, body, kinds.DECIDED)
    return not decided or decided[-1].body["decision"] != body["decision"]


def snapshot(head: Head, entries: Sequence[Entry], audit: Audit) -> Snapshot | None:
    """What the registry knew when the audit was first started in its results folder and slot; None if it was not."""
    own = of_run(entries, audit.place, kinds.STARTED)
    return before(head, entries, own[0]) if own else None


def before(head: Head, entries: Sequence[Entry], start: Entry) -> Snapshot:
    """What the registry knew when an audit was started, from the entry that notes it."""
    slot = start.body
    related = [
        entry
        for entry in entries[: start.number - 1]
        if entry.kind in {kinds.REGISTERED, kinds.STARTED}
        and (_same(entry, slot, "family") or _same(entry, slot, "claim"))
    ]
    reserved = (entry for entry in related if entry.kind == kinds.REGISTERED)
    others = [entry.body["slot"] for entry in reserved if not _same(entry, slot, "family", "slot")]
    starts = [entry for entry in related if entry.kind == kinds.STARTED and not _same(entry, slot, "run")]
    return Snapshot(
        origin=head.origin,
        key=head.key.line if head.key else "",
        number=start.number,
        earlier=tuple(dict.fromkeys(others)),
        starts=len(starts),
        episodes=slot["episodes"],
    )


def _same(entry: Entry, body: Mapping[str, Any], *names: str) -> bool:
    return all(entry.body[name] == body[name] for name in names)


def _in_force(own: Sequence[Entry]) -> str:
    """R after these starts and amendments of one results folder."""
    last = own[-1]
    found: str = last.body["new"] if last.kind == kinds.AMENDED else last.body["registration"]
    return found


def _began(own: Sequence[Entry], contract: str) -> bool:
    return any(entry.kind == kinds.STARTED and entry.body["contract"] == contract for entry in own)


def _taken(held: Entry, body: Mapping[str, Any]) -> UsageError:
    return UsageError(
        f"the slot {body['slot']} of the family {body['family']} is taken: entry {held.number} has reserved it for the "
        f"claim {held.body['claim']} under the registration {held.body['registration']}, and this is the claim "
        f"{body['claim']} under {body.get('registration') or body['new']}",
        "Go on in the results folder that holds it, where an edit is an amendment; or give this audit a slot of its "
        "own (claim.slot) and name the taken one in claim.earlier_audits. What is only a trial can run without a "
        "registry: --config 'execution={registry: none}'",
    )
