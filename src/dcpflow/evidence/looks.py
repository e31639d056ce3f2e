"""The looks at the challengers, recomputed: which had to be run, and what each of their records has to name.

Nothing here is read from the files by which the workflow went on or stopped: what these had to say follows from
records, scores and thresholds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dcpflow.evidence import gates
from dcpflow.evidence.view import AuditView
from dcpflow.protocol.gate2 import classify_all
from dcpflow.protocol.model import AttemptStatus
from dcpflow.protocol.registration import Registration
from dcpflow.records import plan


@dataclass(frozen=True, slots=True)
class Look:
    """One of several registered looks.

    Attributes:
        slots: its challengers.
        before: what each of their records holds as prior seal: the digest of the scores of the look before, or, in the
            first look, of the target's record.
        reached: whether it had to be run, since no challenger of an earlier look recovered the outcome.
        hits: its challengers that did.
    """

    slots: range
    before: str
    reached: bool
    hits: int


def taken(view: AuditView, facts: gates.Facts, reg: Registration) -> tuple[Look, ...]:
    """The looks that have been scored, in order; none where all challengers are looked at once.

    Args:
        view: records and scores, perhaps of the first looks alone.
        facts: recomputed facts of each episode, by record digest.
        reg: what was registered.
    """
    looked_at = plan.looks(view.registered.config("design"))
    if len(looked_at) == 1:
        return ()
    attempts = gates.challengers(view, facts, reg)
    contract, distribution = reg.challenger_contract_digest, reg.challenge_distribution_digest
    rows = classify_all(reg, attempts, gates.gate1(view).claimed, contract, distribution)
    recovered = {
        episode.key.slot
        for episode, row in zip(view.of(plan.CHALLENGERS), rows, strict=True)
        if row.status is AttemptStatus.CONFIRMED_HIT
    }
    found: list[Look] = []
    before, hit = view.target.digest, False
    for number, slots in enumerate(looked_at, 1):
        scores = view.inputs.get(plan.look_phase(number))
        if scores is None:
            break
        found.append(Look(slots, before, not hit, len(recovered.intersection(slots))))
        before, hit = scores, hit or found[-1].hits > 0
    return tuple(found)


def missing(view: AuditView, taken: Sequence[Look]) -> list[int]:
    """The challengers that had to be started and have no episode."""
    started = _started(view)
    return [slot for look in taken if look.reached for slot in look.slots if slot not in started]


def superfluous(view: AuditView, taken: Sequence[Look]) -> list[int]:
    """The challengers that were started though one of an earlier look had recovered."""
    started = _started(view)
    return [slot for look in taken if not look.reached for slot in look.slots if slot in started]


def unstarted(view: AuditView, taken: Sequence[Look]) -> int:
    """How many challengers a recovery has saved."""
    after = sum(len(look.slots) for look in taken if not look.reached)
    return after - len(superfluous(view, taken))


def started(view: AuditView, look: Look) -> int:
    """How many of a look's challengers were started."""
    return len(_started(view).intersection(look.slots))


def _started(view: AuditView) -> set[int]:
    return {episode.key.slot for episode in view.of(plan.CHALLENGERS)}
