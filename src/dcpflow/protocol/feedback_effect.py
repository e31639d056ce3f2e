"""The feedback effect: truthful against neutral replies, with arm health (G3.5 to G3.10, G3.18, G3.19)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dcpflow.protocol.betting import betting_interval
from dcpflow.protocol.faults import Fault
from dcpflow.protocol.intervals import Interval, interval
from dcpflow.protocol.model import Branch, Check, Effect, FeedbackPair, Gate3Evidence, ScoredArtifact
from dcpflow.protocol.null_calibration import NullResult
from dcpflow.protocol.pairs import (
    ArmRates,
    PairResult,
    PairStatus,
    Utility,
    analyse_pair,
    arm_rates,
    binary_utility,
    continuous_utility,
    replaced_pair,
    unresolved_pair,
)
from dcpflow.protocol.registration import BETTING_SEQUENCE, BINARY, Registration
from dcpflow.protocol.replacements import Ledger


@dataclass(frozen=True, slots=True)
class EffectResult:
    """What the feedback pairs showed.

    Attributes:
        effect: SUPPORTED if the lower end, less the band of the null calibration, reaches ``delta_evidence``.
        rule: The rule that decided.
        reason: In words.
        difference: Truthful minus neutral.
        pairs: One row for each started pair, in order.
        started: Number of pairs on record.
        analysed: Number of differences.
        unresolved: Unresolved pairs, and one more if the registered number of differences is missed; a
            decision needs 0.
        excluded: Pairs left out as lost to infrastructure.
        rates: Health of the arms (truthful, neutral).
        health_faults: Failures of G3.10.
    """

    effect: Effect
    rule: str
    reason: str
    difference: Interval
    pairs: tuple[PairResult, ...]
    started: int
    analysed: int
    unresolved: int
    excluded: int
    rates: ArmRates
    health_faults: tuple[Fault, ...]

    @property
    def healthy(self) -> bool:
        """Whether both arms could show an effect (G3.10)."""
        return not self.health_faults


def evaluate_effect(
    reg: Registration, evidence: Gate3Evidence, claimed: ScoredArtifact, ledger: Ledger, null: NullResult
) -> EffectResult:
    """Apply G3.5 to G3.10, then G3.18 and G3.19.

    Args:
        reg: The registration.
        evidence: The feedback experiment.
        claimed: A*, which the binary estimand compares with.
        ledger: The replacement ledger of its pairs.
        null: The null calibration.
    """

    replaced = set(ledger.replaced)
    complete = _design_complete(evidence)
    rows = tuple(
        replaced_pair(pair)
        if index in replaced
        else (paired_result(reg, pair, claimed) if complete else unresolved_pair(pair, "the design is not complete"))
        for index, pair in enumerate(evidence.pairs)
    )
    values = [row.difference for row in rows if row.difference is not None]
    difference = effect_interval(reg, values, lost=len(rows) - len(values))
    unresolved = _unresolved(reg, rows, difference) if complete else len(ledger.terminal)
    terminal = [evidence.pairs[index] for index in ledger.terminal]
    rates = arm_rates(evidence.pairs, terminal, whole_pairs=True)
    health = tuple(health_faults(reg, rates))
    effect, rule, reason = _decide(reg, difference, health, null, unresolved)
    return EffectResult(
        effect=effect,
        rule=rule,
        reason=reason,
        difference=difference,
        pairs=rows,
        started=len(rows),
        analysed=len(values),
        unresolved=unresolved,
        excluded=sum(row.status is PairStatus.EXCLUDED for row in rows),
        rates=rates,
        health_faults=health,
    )


def paired_result(reg: Registration, pair: FeedbackPair, claimed: ScoredArtifact) -> PairResult:
    """What one feedback pair came to (G3.5 to G3.8)."""

    def utility(branch: Branch) -> Utility:
        if reg.feedback_estimand == BINARY:
            return binary_utility(reg, branch, claimed)
        return continuous_utility(branch, reg.worst_utility, scores_required=True)

    return analyse_pair(pair, utility)


def effect_interval(reg: Registration, values: Sequence[float], lost: int = 0) -> Interval:
    """The interval of truthful minus neutral, of the registered method.

    Args:
        reg: The registration.
        values: The differences of the analysed pairs.
        lost: Pairs without a difference. Where the effect is looked at more than once, each counts as the least
            difference for the lower end and as the largest for the upper one: whoever loses pairs, perhaps because of
            what one arm came to, widens the interval and no more. A fixed number of pairs is missed by them instead.
    """
    coverage = 1.0 - reg.alpha_evidence
    if reg.feedback_interval_method != BETTING_SEQUENCE:
        return interval(reg.feedback_interval_method, values, coverage)
    found = betting_interval(values, coverage, reg.bet)
    if not (lost and found.bounded):
        return found
    low, high = (betting_interval([*values, *[end] * lost], coverage, reg.bet) for end in (-1.0, 1.0))
    return replace(found, lower=low.lower, upper=high.upper)


def effect_side(reg: Registration, difference: Interval) -> Effect:
    """On which side of the registered effect the interval lies, the null band taken off (G3.19)."""
    if difference.lower - reg.delta_null >= reg.delta_evidence:
        return Effect.SUPPORTED
    if difference.upper + reg.delta_null < reg.delta_evidence:
        return Effect.NOT_SUPPORTED
    return Effect.INCONCLUSIVE


def _design_complete(evidence: Gate3Evidence) -> bool:
    """G3.9, first half: without a complete design no pair is analysed."""
    return evidence.design_checks_pass and evidence.stopping_rule_pass and evidence.registered_pairs_complete


def _unresolved(reg: Registration, rows: tuple[PairResult, ...], difference: Interval) -> int:
    """G3.9, second half: unresolved pairs, and one more if the registered number of differences is missed.

    Where the effect is looked at more than once, it may end at a registered look that decides it, and at the last.
    Pairs that were lost are then no differences, and widen the interval.
    """
    unresolved = sum(row.status is PairStatus.UNRESOLVED for row in rows)
    if not reg.feedback_looks:
        return unresolved + (difference.n != reg.feedback_pairs)
    decided = effect_side(reg, difference) is not Effect.INCONCLUSIVE
    ended = len(rows) == reg.feedback_pairs or (decided and len(rows) in reg.feedback_looks)
    return unresolved + (not ended)


def health_faults(reg: Registration, rates: ArmRates) -> Iterator[Fault]:
    """What keeps the arms from showing an effect (G3.10)."""
    for name, value, line, bad in (
        (
            "valid artifacts",
            min(rates.valid),
            reg.min_arm_valid_rate,
            min(rates.valid) < reg.min_arm_valid_rate,
        ),
        (
            "model failures",
            max(rates.failed),
            reg.max_arm_model_failure_rate,
            max(rates.failed) > reg.max_arm_model_failure_rate,
        ),
        (
            "pairs lost to infrastructure",
            rates.infrastructure,
            reg.max_pair_infrastructure_rate,
            rates.infrastructure > reg.max_pair_infrastructure_rate,
        ),
    ):
        if bad:
            yield Fault("G3.10", "pairs", f"share of {name} {value:.3f}, registered line {line}")


def _decide(
    reg: Registration, difference: Interval, health: tuple[Fault, ...], null: NullResult, unresolved: int
) -> tuple[Effect, str, str]:
    # G3.18
    reason = ""
    if health:
        reason = str(health[0])
    elif null.adequacy is not Check.PASS:
        reason = f"the null calibration: {null.adequacy.value}"
    elif unresolved:
        reason = f"{unresolved} pairs unresolved or missing, or the design is not complete"
    elif not difference.bounded:
        reason = "the pairs bound nothing"
    if reason:
        return Effect.INCONCLUSIVE, "G3.18", reason
    # G3.19
    low, high = difference.lower - reg.delta_null, difference.upper + reg.delta_null
    words = f"[{low:.6f}, {high:.6f}] with the null band, against {reg.delta_evidence}"
    return effect_side(reg, difference), "G3.19", words
