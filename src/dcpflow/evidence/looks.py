"""The looks at challengers and pairs, recomputed: which had to be run, and what each of their records has to name.

Nothing here is read from the files by which the workflow went on or stopped: what these had to say follows from
records, scores and thresholds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dcpflow.evidence import gates
from dcpflow.evidence.view import AuditView
from dcpflow.protocol.feedback_effect import effect_interval, effect_side, paired_result
from dcpflow.protocol.gate2 import classify_all
from dcpflow.protocol.model import AttemptStatus, Effect
from dcpflow.protocol.registration import Registration
from dcpflow.records import plan


@dataclass(frozen=True, slots=True)
class Look:
    """One of several registered looks.

    Attributes:
        slots: of the episodes that are new in it.
        before: what each of their records holds as prior seal: the digest of the scores of the look before, or, in the
            first look, of what had to be fixed before the stage.
        reached: whether it had to be run, since no earlier look was the end.
        ends: whether it is the end: a challenger of it recovered the outcome, or the pairs up to it decide the effect.
    """

    slots: range
    before: str
    reached: bool
    ends: bool


def taken(stage: str, view: AuditView, facts: gates.Facts, reg: Registration) -> tuple[Look, ...]:
    """The looks that have been scored, in order; none where all of the stage is looked at once.

    Args:
        stage: the stage.
        view: records and scores, perhaps of the first looks alone.
        facts: recomputed facts of each episode, by record digest.
        reg: what was registered.
    """
    looked_at = plan.looks(view.registered.config("design"), stage) if stage in plan.LOOKS else []
    if len(looked_at) < 2:
        return ()
    ends = _recovered(view, facts, reg) if stage == plan.CHALLENGERS else _decided(view, facts, reg)
    found: list[Look] = []
    before = view.claim_seal if stage == plan.CHALLENGERS else str(view.checkpoint["digest"])
    for number, slots in enumerate(looked_at, 1):
        scores = view.inputs.get(plan.look_phase(stage, number))
        if scores is None:
            break
        found.append(Look(slots, before, not any(look.ends for look in found), ends(slots)))
        before = scores
    return tuple(found)


def _recovered(view: AuditView, facts: gates.Facts, reg: Registration) -> Callable[[range], bool]:
    """Whether a challenger of some slots has recovered the outcome."""
    attempts = gates.challengers(view, facts, reg)
    contract, distribution = reg.challenger_contract_digest, reg.challenge_distribution_digest
    rows = classify_all(reg, attempts, gates.gate1(view).claimed, contract, distribution)
    recovered = {
        episode.key.slot
        for episode, row in zip(view.of(plan.CHALLENGERS), rows, strict=True)
        if row.status is AttemptStatus.CONFIRMED_HIT
    }
    return lambda slots: not recovered.isdisjoint(slots)


def _decided(view: AuditView, facts: gates.Facts, reg: Registration) -> Callable[[range], bool]:
    """Whether the pairs up to the last of some slots decide the effect."""
    claimed = gates.gate1(view).claimed
    rows = {
        arms[0].key.slot: paired_result(reg, pair, claimed).difference
        for arms, pair in zip(gates.paired(view, plan.PAIRS), gates.feedback_pairs(view, facts, reg), strict=True)
    }

    def decided(slots: range) -> bool:
        found = [value for slot, value in rows.items() if slot < slots.stop]
        values = [value for value in found if value is not None]
        return effect_side(reg, effect_interval(reg, values, len(found) - len(values))) is not Effect.INCONCLUSIVE

    return decided


def alike(first: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether scores are looked at under a registered design as they were to be under the first one, perhaps with more
    episodes in its last look or after it. No phase of the first lacks a score then."""
    if not plan.phases(first).keys() <= plan.phases(now).keys():
        return False
    for stage in plan.LOOKS:
        one, other = (plan.looks(design, stage) for design in (first, now))
        *before, last = one
        if other[: len(before)] != before or other[len(before)].stop < last.stop:
            return False
    return True


def missing(stage: str, view: AuditView, taken: Sequence[Look]) -> list[int]:
    """The slots that had to be started and have no episode."""
    started = _started(stage, view)
    return [slot for look in taken if look.reached for slot in look.slots if slot not in started]


def superfluous(stage: str, view: AuditView, taken: Sequence[Look]) -> list[int]:
    """The slots that were started though an earlier look was the end."""
    started = _started(stage, view)
    return [slot for look in taken if not look.reached for slot in look.slots if slot in started]


def summary(stage: str, view: AuditView, taken: Sequence[Look]) -> dict[str, object]:
    """The looks for the decision, with what the end has saved; nothing where there is one look."""
    if not taken:
        return {}
    started = _started(stage, view)
    after = sum(len(look.slots) for look in taken if not look.reached)
    return {
        "looks": [
            {
                stage: len(look.slots),
                "started": len(started.intersection(look.slots)),
                "ends": look.reached and look.ends,
            }
            for look in taken
        ],
        "not_started": after - len(superfluous(stage, view, taken)),
    }


def _started(stage: str, view: AuditView) -> set[int]:
    return {episode.key.slot for episode in view.of(stage)}
