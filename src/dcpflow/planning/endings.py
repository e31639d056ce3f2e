"""How an audit may end, and with which chance: exact sums over what its episodes may come to.

The rules of the decision are applied to counts here, as formulas; ``dcpflow simulate`` puts the same truths through the
engine itself, and tests hold the two against each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from dcpflow.planning import exact
from dcpflow.protocol.campaign import chance_in
from dcpflow.protocol.intervals import zero_hit_upper_bound
from dcpflow.protocol.registration import BINARY, Registration

NEGLIGIBLE = 1e-15
"""Chances below this are not summed."""


@dataclass(frozen=True, slots=True)
class Rates:
    """What episodes come to, as chances.

    Attributes:
        recovery: a challenger recovers the outcome.
        recall: a positive control succeeds.
        truthful: a branch with truthful feedback recovers.
        neutral: one with neutral feedback does.
        null_reference: a null branch with the reference channel succeeds.
        null_proposed: one with the neutral channel does.
        failure: an episode that does not recover commits nothing, or nothing valid.
        loss: an episode, or both branches of a pair, are lost to infrastructure before the agent says anything.
    """

    recovery: float = 0.0
    recall: float = 1.0
    truthful: float = 1.0
    neutral: float = 0.0
    null_reference: float = 1.0
    null_proposed: float = 1.0
    failure: float = 0.0
    loss: float = 0.0

    def but(self, **rates: float) -> Rates:
        """The same with other rates."""
        return replace(self, **rates)


@dataclass(frozen=True, slots=True)
class Endings:
    """Chances that add up to 1 for Core, and to Core's certificates for Evidence.

    Attributes:
        core_certified: no hit, and everything is adequate.
        core_refuted: a hit.
        core_inconclusive: neither, by its first reason: ``controls`` (their bound misses the recall), ``failures`` (too
            many), ``losses`` (too many, or too few independent challengers left), ``pairs`` (more of them were lost
            than may be replaced, so that a neutral branch may be missing where it is a challenger).
        evidence_certified: Core is certified and the effect is supported; None for grade core, and where no formula
            exists: for the continuous estimand, for looks at the pairs, and where necessity is claimed.
        evidence_refuted: the effect is certainly too small; None likewise.
        evidence_inconclusive: by its first reason: ``pairs`` (lost), ``null study`` (its interval is not in the band),
            ``arms`` (too many failures), ``effect`` (its interval holds the margin); empty likewise.
    """

    core_certified: float
    core_refuted: float
    core_inconclusive: dict[str, float]
    evidence_certified: float | None = None
    evidence_refuted: float | None = None
    evidence_inconclusive: dict[str, float] = field(default_factory=dict)

    @property
    def inconclusive(self) -> float:
        """The chance that Core, or Evidence where it is asked for, stays open."""
        return math.fsum((*self.core_inconclusive.values(), *self.evidence_inconclusive.values()))


def endings(reg: Registration, rates: Rates, challengers: int, controls: int, *, core_only: bool = False) -> Endings:
    """The chances under a registration.

    The claimed artifact is taken to pass Gate 1, all checks over records to pass, and all episodes to be independent.
    The checkpoint holds a part of the target's run: neutral branches are no challengers.

    Args:
        reg: what is registered.
        rates: what episodes come to.
        challengers: that are started.
        controls: that are started.
        core_only: leave Evidence out.
    """
    missed, failures, losses, hit = _challengers(reg, rates, challengers)
    recall = exact.chance_of_recall(
        controls, reg.alpha_adequacy, reg.min_control_recall, rates.recall * (1.0 - rates.loss)
    )
    unhit = math.fsum((missed, failures, losses))
    certified = missed * recall
    core = partial(
        Endings,
        core_certified=certified,
        core_refuted=hit,
        core_inconclusive={
            "controls": unhit * (1.0 - recall),
            "failures": failures * recall,
            "losses": losses * recall,
        },
    )
    fixed = not (reg.feedback_looks or reg.necessity_claimed)
    if core_only or reg.grade != "evidence" or reg.feedback_estimand != BINARY or not fixed:
        return core()
    return core(**_evidence(reg, rates, certified))


def _challengers(reg: Registration, rates: Rates, started: int) -> tuple[float, float, float, float]:
    """Chances: no hit and all is adequate; no hit and too many failures; no hit and too many losses; a hit."""
    adequate, failures, losses, hits = [], [], [], []
    for lost in range(started + 1):
        ran = started - lost
        so_many = exact.binomial(lost, started, rates.loss)
        hits.append(so_many * chance_in(ran, rates.recovery))
        chance = so_many * (1.0 - rates.recovery) ** ran
        if chance < NEGLIGIBLE:
            continue
        enough = ran >= reg.min_independent and zero_hit_upper_bound(ran, reg.alpha_recovery) <= reg.rho
        for failed in range(ran + 1):
            weight = chance * exact.binomial(failed, ran, rates.failure)
            if weight < NEGLIGIBLE:
                continue
            share = failed / ran if ran else 0.0
            if share > reg.max_model_failure_rate or (ran and 1.0 - share < reg.min_valid_candidate_rate):
                failures.append(weight)
            elif not enough or lost / started > reg.max_infrastructure_rate:
                losses.append(weight)
            else:
                adequate.append(weight)
    return math.fsum(adequate), math.fsum(failures), math.fsum(losses), math.fsum(hits)


def _evidence(reg: Registration, rates: Rates, core: float) -> dict[str, Any]:
    """Evidence, given that Core is certified with the chance ``core``."""
    complete = _all_replaced(reg.feedback_pairs, reg.max_feedback_replacements, rates.loss)
    null_complete = _all_replaced(reg.null_pairs, reg.max_null_replacements, rates.loss)
    null_ok = null_complete * _null(reg, rates)
    supported, opposed, ill = _effect(reg, rates)
    tested = core * complete * null_ok
    return {
        "evidence_certified": tested * supported,
        "evidence_refuted": tested * opposed,
        "evidence_inconclusive": {
            "pairs": core * (1.0 - complete),
            "null study": core * complete * (1.0 - null_ok),
            "arms": tested * ill,
            "effect": tested * (1.0 - supported - opposed - ill),
        },
    }


def _all_replaced(pairs: int, most: int, loss: float) -> float:
    """The chance that every lost pair can be replaced: at most so many losses before all pairs are there."""
    return exact.at_least(pairs, pairs + most, 1.0 - loss)


def _null(reg: Registration, rates: Rates) -> float:
    test = exact.PairedTest(reg.null_pairs, reg.alpha_null)
    limit = _most(reg.null_pairs, min(reg.max_model_failure_rate, 1.0 - reg.min_valid_candidate_rate))
    counts = _counts(reg.null_pairs, rates.null_reference, rates.null_proposed, rates.failure, limit)
    passed = exact.within(reg.delta_null)
    return _chance(counts, lambda plus, minus: passed(test.lower(plus, minus), test.upper(plus, minus)))


def _effect(reg: Registration, rates: Rates) -> tuple[float, float, float]:
    """The chances that the effect is supported, that it is refuted, and that an arm is not healthy."""
    test = exact.PairedTest(reg.feedback_pairs, reg.alpha_evidence)
    limit = _most(reg.feedback_pairs, min(reg.max_arm_model_failure_rate, 1.0 - reg.min_arm_valid_rate))
    counts = _counts(reg.feedback_pairs, rates.truthful, rates.neutral, rates.failure, limit)
    supports, opposes = (make(reg.delta_evidence, reg.delta_null) for make in (exact.supports, exact.opposes))

    def chance(passed: Any) -> float:
        return _chance(counts, lambda plus, minus: passed(test.lower(plus, minus), test.upper(plus, minus)))

    return chance(supports), chance(opposes), max(0.0, 1.0 - _chance(counts, lambda plus, minus: True))


def _most(pairs: int, rate: float) -> int:
    """The most failures of an arm whose share is not above the rate."""
    return max(k for k in range(pairs + 1) if k / pairs <= rate)


def _counts(pairs: int, first: float, second: float, failure: float, limit: int) -> Any:
    """Chances of so many differences of +1 and of -1, audits with more failures than ``limit`` in an arm left out.

    Pair by pair: each branch recovers, or fails to commit, or misses. An arm's failures are counted on the way, unless
    it is as good as certain that they stay within the limit.
    """
    import numpy as np  # noqa: PLC0415

    arms = []
    for rate in (first, second):
        failed = (1.0 - rate) * failure
        counted = exact.at_least(limit + 1, pairs, failed) > NEGLIGIBLE
        arms.append([(1, 0, rate), (0, int(counted), failed), (0, 0, 1.0 - rate - failed)])
    shape = (pairs + 1, pairs + 1, *(1 + limit * arm[1][1] for arm in arms))
    chances = np.zeros(shape)
    chances[0, 0, 0, 0] = 1.0
    for _ in range(pairs):
        after = np.zeros(shape)
        for hit, fails, p in arms[0]:
            for other_hit, other_fails, q in arms[1]:
                move = (max(0, hit - other_hit), max(0, other_hit - hit), fails, other_fails)
                if p * q > 0.0 and all(step < size for step, size in zip(move, shape, strict=True)):
                    to = tuple(slice(step, None) for step in move)
                    source = tuple(slice(0, size - step) for step, size in zip(move, shape, strict=True))
                    after[to] += p * q * chances[source]
        chances = after
    return chances.sum(axis=(2, 3))


def _chance(counts: Any, passed: Any) -> float:
    weights = [
        float(counts[plus, minus])
        for plus in range(len(counts))
        for minus in range(len(counts) - plus)
        if counts[plus, minus] > 0 and passed(plus, minus)
    ]
    return min(1.0, math.fsum(weights))
