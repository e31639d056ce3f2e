"""From randomized pairs to differences, by intention to treat (G3.5 to G3.8, G3.14), and the arms' rates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from dcpflow.protocol.gate2 import AttemptResult, classify_outcome
from dcpflow.protocol.intervals import mean, within_unit_interval
from dcpflow.protocol.model import (
    Attempt,
    AttemptStatus,
    Branch,
    FeedbackPair,
    NullPair,
    Outcome,
    ScoredArtifact,
    Validity,
)
from dcpflow.protocol.registration import Registration
from dcpflow.protocol.replacements import is_clean_loss, lost_independently

UTILITY_SLACK: Final = 1e-12
"""Largest difference between a recorded utility and the mean of the scores that it stands for."""


class PairStatus(StrEnum):
    """What became of a pair in the analysis."""

    ANALYSED = "analysed"
    REPLACED = "replaced_infrastructure"
    EXCLUDED = "infrastructure_excluded"
    UNRESOLVED = "unresolved"


@dataclass(frozen=True, slots=True)
class Utility:
    """The utility of one branch.

    Attributes:
        value: In [0, 1]; None if it is not known.
        reason: In words.
        comparison: With A*, under the binary estimand.
    """

    value: float | None
    reason: str
    comparison: AttemptResult | None = None


@dataclass(frozen=True, slots=True)
class PairResult:
    """What one pair came to; the arms are in the order of ``pair.branches``.

    Attributes:
        pair_id: Of the pair.
        status: What became of it.
        utilities: Of both arms; None where it was not analysed.
        difference: First minus second arm; None where it was not analysed.
        comparisons: Of both arms with A*, under the binary estimand.
        reason: In words.
    """

    pair_id: str
    status: PairStatus
    utilities: tuple[float, float] | None
    difference: float | None
    comparisons: tuple[AttemptResult | None, AttemptResult | None]
    reason: str


def analyse_pair(pair: FeedbackPair | NullPair, utility: Callable[[Branch], Utility]) -> PairResult:
    """Apply G3.5, then map both branches to utilities and take the difference (G3.8)."""
    # G3.5
    if not (pair.assignment_frozen and pair.independent):
        return _row(pair, PairStatus.UNRESOLVED, "assignment not frozen, or not shown to be independent")
    lost = [branch for branch in pair.branches if branch.outcome is Outcome.INFRASTRUCTURE_INVALID]
    if lost:
        if all(map(is_clean_loss, lost)):
            return _row(pair, PairStatus.EXCLUDED, "lost to infrastructure, independently of the agent")
        return _row(pair, PairStatus.UNRESOLVED, "loss not shown to be independent of the agent")
    first, second = (utility(branch) for branch in pair.branches)
    comparisons = (first.comparison, second.comparison)
    if first.value is None or second.value is None:
        reason = f"{first.reason}; {second.reason}"
        return PairResult(pair.pair_id, PairStatus.UNRESOLVED, None, None, comparisons, reason)
    # G3.8
    difference = first.value - second.value
    values = (first.value, second.value)
    return PairResult(pair.pair_id, PairStatus.ANALYSED, values, difference, comparisons, "analysed")


def replaced_pair(pair: FeedbackPair | NullPair) -> PairResult:
    """The row of a replaced pair: on record, not analysed (G3.2)."""
    return _row(pair, PairStatus.REPLACED, "lost to infrastructure; the pair that replaces it is analysed")


def unresolved_pair(pair: FeedbackPair | NullPair, reason: str) -> PairResult:
    """The row of a pair that cannot be analysed."""
    return _row(pair, PairStatus.UNRESOLVED, reason)


def _row(pair: FeedbackPair | NullPair, status: PairStatus, reason: str) -> PairResult:
    return PairResult(pair.pair_id, status, None, None, (None, None), reason)


def continuous_utility(  # noqa: PLR0911  (one return for each case)
    branch: Branch, worst: float, *, scores_required: bool
) -> Utility:
    """G3.6 and G3.14: the utility of a branch on the unit interval.

    Args:
        branch: A branch that was not lost to infrastructure.
        worst: The registered utility of a branch without a valid artifact.
        scores_required: True for a feedback branch, whose utility is the mean of its sealed scores. A null
            branch may state its utility; where it has scores too, the two have to agree.
    """
    failure = failed_utility(branch, worst)
    if failure is not None:
        return failure
    if branch.scores is None:
        if scores_required:
            return Utility(None, "no scores")
        if branch.utility is None or not within_unit_interval((branch.utility,)):
            return Utility(None, "no utility within [0, 1]")
        return Utility(branch.utility, "utility as recorded")
    if not branch.scores or not within_unit_interval(branch.scores):
        return Utility(None, "scores are not all within [0, 1]")
    value = mean(branch.scores)
    if branch.utility is not None and not abs(branch.utility - value) <= UTILITY_SLACK:
        return Utility(None, "the recorded utility is not the mean of the scores")
    return Utility(value, "mean of the scores")


def failed_utility(branch: Branch, worst: float) -> Utility | None:
    """G3.6: the utility of a branch whose outcome already decides it; None for a valid artifact."""
    if branch.outcome is Outcome.MODEL_FAILURE:
        if branch.utility is None and branch.scores is None and branch.validity is not Validity.VALID:
            return Utility(worst, "the agent committed no artifact")
        return Utility(None, "a failure that has results")
    if branch.outcome is not Outcome.ARTIFACT:
        return Utility(None, f"ended as {branch.outcome.value}")
    if branch.validity is Validity.INVALID:
        return Utility(worst, "the artifact breaks the task's rules")
    if branch.validity is not Validity.VALID:
        return Utility(None, "the artifact's validity is not known")
    return None


def binary_utility(reg: Registration, branch: Branch, claimed: ScoredArtifact) -> Utility:
    """G3.7: 1 if the branch recovers A*'s outcome, 0 if it certainly does not or committed nothing."""
    row = classify_outcome(reg, branch_as_attempt(branch), claimed)
    value = _BINARY_UTILITY.get(row.status)
    return Utility(value, row.reason, row)


_BINARY_UTILITY: Final = {
    AttemptStatus.CONFIRMED_HIT: 1.0,
    AttemptStatus.CONFIRMED_MISS: 0.0,
    AttemptStatus.MODEL_FAILURE: 0.0,
}


def branch_as_attempt(branch: Branch) -> Attempt:
    """A branch in the terms of Gate 2, without the fields that say which arm it belongs to."""
    return Attempt(
        attempt_id=branch.branch_id,
        outcome=branch.outcome,
        validity=branch.validity,
        artifact_digest=branch.artifact_digest,
        scores=branch.scores,
        unit_ids=branch.unit_ids,
        prestart_receipt=branch.prestart_receipt,
        infrastructure_independent=branch.infrastructure_independent,
    )


@dataclass(frozen=True, slots=True)
class ArmRates:
    """Health of the two arms of a family.

    Attributes:
        valid: Share of valid artifacts in each arm.
        failed: Share of model failures and invalid artifacts in each arm.
        infrastructure: Share of all started pairs that were lost to infrastructure. (A loss not shown to be
            independent of the agent leaves its pair unresolved instead.)
    """

    valid: tuple[float, float]
    failed: tuple[float, float]
    infrastructure: float


def arm_rates(
    started: Sequence[FeedbackPair | NullPair],
    terminal: Sequence[FeedbackPair | NullPair],
    *,
    whole_pairs: bool,
) -> ArmRates:
    """The rates of G3.10 and G3.15.

    Args:
        started: All pairs on record, replaced ones included.
        terminal: Those that were not replaced.
        whole_pairs: Whether a branch lost to infrastructure takes its partner out of the rates too: so for
            feedback pairs (G3.10), not for null pairs (G3.15).
    """
    arms: list[list[Branch]] = [[], []]
    for pair in terminal:
        lost = [branch.outcome is Outcome.INFRASTRUCTURE_INVALID for branch in pair.branches]
        for arm, branch in enumerate(pair.branches):
            if not (any(lost) if whole_pairs else lost[arm]):
                arms[arm].append(branch)

    def share(arm: int, test: Callable[[Branch], bool]) -> float:
        return sum(map(test, arms[arm])) / len(arms[arm]) if arms[arm] else 0.0

    return ArmRates(
        valid=(share(0, _is_valid), share(1, _is_valid)),
        failed=(share(0, _is_failure), share(1, _is_failure)),
        infrastructure=sum(map(lost_independently, started)) / len(started) if started else 0.0,
    )


def _is_valid(branch: Branch) -> bool:
    return branch.outcome is Outcome.ARTIFACT and branch.validity is Validity.VALID


def _is_failure(branch: Branch) -> bool:
    invalid = branch.outcome is Outcome.ARTIFACT and branch.validity is Validity.INVALID
    return invalid or branch.outcome is Outcome.MODEL_FAILURE
