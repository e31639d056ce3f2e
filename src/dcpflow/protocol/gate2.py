"""Gate 2: did a challenger without the feedback recover the outcome? (G2.1 to G2.18)

The same rules read the neutral branches of Gate 3 as challengers (G3.20), so :func:`evaluate_recovery` takes
the contract, the distribution and the alphas of the arm that it judges.

Two points go beyond the reference. An artifact with A*'s own digest is a hit, or unresolved if its recorded
scores contradict A*'s, but never a miss (:func:`_same_artifact`). And beside the registered zero-hit bound stands
the bound without model failures, since an agent that produced nothing is weak evidence of "not recovered".
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dcpflow.protocol.faults import Fault
from dcpflow.protocol.intervals import (
    Interval,
    differences,
    interval,
    success_lower_bound,
    zero_hit_upper_bound,
)
from dcpflow.protocol.model import (
    Adequacy,
    Attempt,
    AttemptStatus,
    Gate2Evidence,
    Outcome,
    Recovery,
    ScoredArtifact,
    Validity,
)
from dcpflow.protocol.registration import Registration
from dcpflow.protocol.text import is_explicit

COUNTED = frozenset({AttemptStatus.CONFIRMED_HIT, AttemptStatus.CONFIRMED_MISS, AttemptStatus.MODEL_FAILURE})
"""Statuses in the denominator: the attempt had its chance, and it is known what came of it."""

SAME_ARTIFACT = "same_artifact"
"""In place of a rule number: the attempt was decided by the identity of its artifact with A*."""


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """What one attempt came to.

    Attributes:
        attempt_id: Of the attempt.
        artifact_digest: Of its artifact.
        independent_unit: Its independent draw.
        status: G2.1 to G2.8.
        difference: Attempt minus A*; None where there was nothing to compare.
        counted: In the denominator.
        independent: The first counted attempt of its independent draw, and so in the bound's n.
        rule: The rule that decided.
        reason: In words.
    """

    attempt_id: str
    artifact_digest: str
    independent_unit: str
    status: AttemptStatus
    difference: Interval | None
    counted: bool
    independent: bool
    rule: str
    reason: str


@dataclass(frozen=True, slots=True)
class RecoveryResult:
    """What all attempts of one arm came to.

    Attributes:
        recovery: The answer.
        rule: The rule that decided it.
        reason: In words.
        attempts: One row for each attempt, in order.
        started: Number of attempts.
        counted: Number in the denominator.
        independent: Number of independent draws among them.
        hits: Confirmed hits.
        unresolved: Attempts of which it is not known what they came to.
        unresolved_straddling: Those among them whose interval contains the recovery line.
        bound: Upper bound on the probability of recovery; None where it may not be computed (G2.18).
        bound_without_failures: The same counting only draws that ended in a confirmed miss.
        best_margin: Largest mean difference to A* among the attempts that can be compared; None for none.
        adequacy_faults: Failures of G2.10 to G2.15.
        control_recall_bound: Lower bound on the positive controls' success rate; None without controls.
        control_successes: Positive controls that succeeded.
        control_trials: Positive controls.
        attempt_alpha: Error of one comparison.
    """

    recovery: Recovery
    rule: str
    reason: str
    attempts: tuple[AttemptResult, ...]
    started: int
    counted: int
    independent: int
    hits: int
    unresolved: int
    unresolved_straddling: int
    bound: float | None
    bound_without_failures: float | None
    best_margin: float | None
    adequacy_faults: tuple[Fault, ...]
    control_recall_bound: float | None
    control_successes: int
    control_trials: int
    attempt_alpha: float

    @property
    def adequate(self) -> bool:
        """Whether the attempts could have recovered at all."""
        return not self.adequacy_faults


def evaluate_gate2(reg: Registration, evidence: Gate2Evidence, claimed: ScoredArtifact) -> RecoveryResult:
    """Apply 1.4 to the challengers."""
    return evaluate_recovery(
        reg,
        evidence.attempts,
        claimed,
        evidence.adequacy,
        contract_digest=reg.challenger_contract_digest,
        distribution_digest=reg.challenge_distribution_digest,
        bound_alpha=reg.alpha_recovery,
        rho=reg.rho,
    )


def evaluate_recovery(
    reg: Registration,
    attempts: Sequence[Attempt],
    claimed: ScoredArtifact,
    adequacy: Adequacy,
    *,
    contract_digest: str,
    distribution_digest: str,
    bound_alpha: float,
    rho: float,
) -> RecoveryResult:
    """Classify every attempt and decide whether the outcome was recovered.

    Args:
        reg: The registration.
        attempts: All attempts of the arm, in order.
        claimed: A*.
        adequacy: Whether the arm could have recovered at all.
        contract_digest: The contract that the arm must have run under.
        distribution_digest: The distribution that its draws must come from.
        bound_alpha: Error of the zero-hit bound.
        rho: Largest bound that still counts as "not recovered".
    """
    rows = classify_all(reg, attempts, claimed, contract_digest, distribution_digest)
    statuses = Counter(row.status for row in rows)
    hits, unresolved = statuses[AttemptStatus.CONFIRMED_HIT], statuses[AttemptStatus.UNRESOLVED]
    independent = sum(row.independent for row in rows)
    recall = _control_recall(reg, adequacy)
    adequacy_faults = (
        *_adequacy_faults(reg, adequacy, recall),
        *_composition_faults(reg, attempts),
        *rate_faults(reg, rows, statuses),
    )
    bound = bound_without_failures = None
    if not hits and not adequacy_faults and not unresolved:  # G2.18, second sentence
        bound = zero_hit_upper_bound(independent, bound_alpha)
        bound_without_failures = zero_hit_upper_bound(_missed_draws(attempts, rows), bound_alpha)
    recovery, rule, reason = _decide(
        reg, hits, bool(adequacy_faults), unresolved, independent=independent, bound=bound, rho=rho
    )
    margins = [row.difference.mean for row in rows if row.difference is not None]
    return RecoveryResult(
        recovery=recovery,
        rule=rule,
        reason=reason,
        attempts=rows,
        started=len(rows),
        counted=sum(row.counted for row in rows),
        independent=independent,
        hits=hits,
        unresolved=unresolved,
        unresolved_straddling=sum(
            row.status is AttemptStatus.UNRESOLVED and row.difference is not None for row in rows
        ),
        bound=bound,
        bound_without_failures=bound_without_failures,
        best_margin=max(margins, default=None),
        adequacy_faults=adequacy_faults,
        control_recall_bound=recall,
        control_successes=adequacy.positive_control_successes,
        control_trials=adequacy.positive_control_trials,
        attempt_alpha=reg.attempt_alpha,
    )


# --- one attempt (G2.1 to G2.9) ----------------------------------------------------------------------------


def classify_all(
    reg: Registration,
    attempts: Sequence[Attempt],
    claimed: ScoredArtifact,
    contract_digest: str,
    distribution_digest: str,
) -> tuple[AttemptResult, ...]:
    """Classify the attempts of one arm; of each independent draw the first counted one counts (G2.9)."""
    seen: set[str] = set()
    rows = []
    for attempt in attempts:
        row = classify(reg, attempt, claimed, contract_digest, distribution_digest)
        if row.counted and _is_independent(attempt) and attempt.independent_unit not in seen:
            seen.add(attempt.independent_unit)
            row = replace(row, independent=True)
        rows.append(row)
    return tuple(rows)


def classify(
    reg: Registration,
    attempt: Attempt,
    claimed: ScoredArtifact,
    contract_digest: str,
    distribution_digest: str,
) -> AttemptResult:
    """Apply G2.1 to G2.3, then :func:`classify_outcome`; the first match wins."""
    # G2.1
    if attempt.stratum != reg.challenger_stratum:
        return _row(attempt, AttemptStatus.UNRESOLVED, "G2.1", f"stratum is {attempt.stratum!r}")
    # G2.2
    if attempt.contract_digest != contract_digest:
        status = AttemptStatus.EXECUTION_CONTRACT_VIOLATION
        return _row(attempt, status, "G2.2", "ran under another contract")
    # G2.3
    if attempt.distribution_digest != distribution_digest:
        status = AttemptStatus.EXECUTION_CONTRACT_VIOLATION
        return _row(attempt, status, "G2.3", "was drawn from another distribution")
    return classify_outcome(reg, attempt, claimed)


def classify_outcome(  # noqa: PLR0911  (one return for each rule)
    reg: Registration, attempt: Attempt, claimed: ScoredArtifact
) -> AttemptResult:
    """Apply G2.4 to G2.8: what an attempt that belongs to the arm came to; the first match wins."""
    # G2.4
    if attempt.outcome is Outcome.INFRASTRUCTURE_INVALID:
        if attempt.scores is None and attempt.infrastructure_independent:
            status = AttemptStatus.INFRASTRUCTURE_INVALID
            return _row(attempt, status, "G2.4", "lost to infrastructure, independently of the agent")
        return _row(attempt, AttemptStatus.UNRESOLVED, "G2.4", "loss not shown to be independent of the agent")
    # G2.5
    if attempt.outcome is Outcome.MODEL_FAILURE:
        if attempt.scores is None and attempt.validity is not Validity.VALID:
            return _row(attempt, AttemptStatus.MODEL_FAILURE, "G2.5", "the agent committed no artifact")
        return _row(attempt, AttemptStatus.UNRESOLVED, "G2.5", "a failure that has a valid or scored artifact")
    # G2.6
    if attempt.outcome is Outcome.EXECUTION_CONTRACT_VIOLATION:
        status = AttemptStatus.EXECUTION_CONTRACT_VIOLATION
        return _row(attempt, status, "G2.6", "left the contract while running")
    if attempt.outcome is not Outcome.ARTIFACT:
        return _row(attempt, AttemptStatus.UNRESOLVED, "G2.6", "not known how it ended")
    # Beyond the reference, before G2.7
    if is_explicit(claimed.digest) and attempt.artifact_digest == claimed.digest:
        return _same_artifact(attempt, claimed)
    # G2.7
    if attempt.validity is Validity.INVALID:
        return _row(attempt, AttemptStatus.MODEL_FAILURE, "G2.7", "the artifact breaks the task's rules")
    missing = _why_incomparable(attempt, claimed)
    if missing:
        return _row(attempt, AttemptStatus.UNRESOLVED, "G2.7", missing)
    # G2.8
    return _compare(reg, attempt, claimed)


def _same_artifact(attempt: Attempt, claimed: ScoredArtifact) -> AttemptResult:
    """An attempt that committed A* itself, by its digest: it has recovered the outcome.

    That holds whatever an interval over few units could show. Where the two records of that one artifact's
    result differ, one of them is wrong: unresolved. Never a miss.
    """
    result = (attempt.validity, attempt.scores, attempt.unit_ids)
    if result == (Validity.VALID, claimed.scores, claimed.unit_ids) and claimed.validity is Validity.VALID:
        same = Interval(0.0, 0.0, 0.0, len(claimed.scores))
        return _row(attempt, AttemptStatus.CONFIRMED_HIT, SAME_ARTIFACT, "the artifact is A* itself", same)
    reason = "the artifact is A* itself, but its result differs from A*'s"
    return _row(attempt, AttemptStatus.UNRESOLVED, SAME_ARTIFACT, reason)


def _why_incomparable(attempt: Attempt, claimed: ScoredArtifact) -> str:
    """G2.7: why an artifact cannot be compared with A*; empty if it can."""
    if attempt.validity is not Validity.VALID:
        return "the artifact's validity is not known"
    if attempt.scores is None:
        return "the artifact has no scores"
    if not is_explicit(attempt.artifact_digest):
        return "the artifact has no digest"
    if attempt.unit_ids != claimed.unit_ids:
        return "scored on other units than A*, or in another order"
    if len(attempt.scores) != len(claimed.scores) or not all(map(math.isfinite, attempt.scores)):
        return "scores are not one finite number for each unit"
    return ""


def _compare(reg: Registration, attempt: Attempt, claimed: ScoredArtifact) -> AttemptResult:
    """G2.8."""
    values = differences(attempt.scores or (), claimed.scores)
    difference = interval(reg.interval_method, values, 1.0 - reg.attempt_alpha)
    line = -reg.epsilon
    if difference.lower >= line:
        status, reason = AttemptStatus.CONFIRMED_HIT, "lower end at or above the recovery line"
    elif difference.upper < line:
        status, reason = AttemptStatus.CONFIRMED_MISS, "upper end below the recovery line"
    else:
        status, reason = AttemptStatus.UNRESOLVED, "the interval contains the recovery line"
    return _row(attempt, status, "G2.8", reason, difference)


def _row(
    attempt: Attempt, status: AttemptStatus, rule: str, reason: str, difference: Interval | None = None
) -> AttemptResult:
    return AttemptResult(
        attempt_id=attempt.attempt_id,
        artifact_digest=attempt.artifact_digest,
        independent_unit=attempt.independent_unit,
        status=status,
        difference=difference,
        counted=status in COUNTED,
        independent=False,
        rule=rule,
        reason=reason,
    )


def _is_independent(attempt: Attempt) -> bool:
    return attempt.independent and bool(attempt.independent_unit)


def _missed_draws(attempts: Sequence[Attempt], rows: Sequence[AttemptResult]) -> int:
    """Number of independent draws with a confirmed miss, model failures left out."""
    return len(
        {
            attempt.independent_unit
            for attempt, row in zip(attempts, rows, strict=True)
            if row.status is AttemptStatus.CONFIRMED_MISS and _is_independent(attempt)
        }
    )


# --- adequacy (G2.10 to G2.15) -----------------------------------------------------------------------------


def _adequacy_faults(reg: Registration, adequacy: Adequacy, recall: float | None) -> tuple[Fault, ...]:
    # G2.10
    shown = (
        ("matched_model_present", "no challenger used the claimant's model and interface"),
        ("materials_readable", "it is not shown that the challengers could read their materials"),
        ("opportunity_floor_met", "a challenger did not have the registered budget"),
        ("health_audit_pass", "the health audit failed"),
    )
    found = [Fault("G2.10", f"adequacy.{key}", text) for key, text in shown if not getattr(adequacy, key)]
    if not is_explicit(adequacy.checks_digest):
        found.append(Fault("G2.10", "adequacy.checks_digest", "no record of these checks"))
    # G2.12
    place = "adequacy.positive_controls"
    if recall is None:
        found.append(Fault("G2.12", place, "no positive controls on record"))
    elif recall < reg.min_control_recall:
        detail = f"recall is at least {recall:.4f}, registered floor {reg.min_control_recall}"
        found.append(Fault("G2.12", place, detail))
    return tuple(found)


def _control_recall(reg: Registration, adequacy: Adequacy) -> float | None:
    if not adequacy.controls_on_record:
        return None
    return success_lower_bound(
        adequacy.positive_control_successes, adequacy.positive_control_trials, reg.alpha_adequacy
    )


def _composition_faults(reg: Registration, attempts: Sequence[Attempt]) -> tuple[Fault, ...]:
    found = []
    # G2.11
    strata = {attempt.stratum for attempt in attempts}
    if reg.challenger_stratum not in strata:
        found.append(Fault("G2.11", "attempts", f"none in the stratum {reg.challenger_stratum!r}"))
    if any(not is_explicit(stratum) for stratum in strata):
        found.append(Fault("G2.11", "attempts", "one names no stratum"))
    if len(strata) > 1:
        found.append(Fault("G2.11", "attempts", f"{len(strata)} strata in one arm"))
    # G2.13
    if len(attempts) > reg.max_attempts:
        detail = f"{len(attempts)} attempts, registered maximum {reg.max_attempts}"
        found.append(Fault("G2.13", "attempts", detail))
    return tuple(found)


def rate_faults(
    reg: Registration, rows: Sequence[AttemptResult], statuses: Counter[AttemptStatus]
) -> tuple[Fault, ...]:
    """Shares of the attempts that are outside of what is registered (G2.14, G2.15)."""
    total = len(rows)
    ran = total - statuses[AttemptStatus.INFRASTRUCTURE_INVALID]
    found = []
    # G2.14: an attempt whose interval contains the line is a valid candidate too
    valid = _rate(sum(row.difference is not None for row in rows), ran)
    if valid < reg.min_valid_candidate_rate:
        detail = f"share of comparable artifacts {valid:.3f}, floor {reg.min_valid_candidate_rate}"
        found.append(Fault("G2.14", "attempts", detail))
    # G2.15
    violations = statuses[AttemptStatus.EXECUTION_CONTRACT_VIOLATION]
    for name, rate, cap in (
        ("infrastructure losses", _rate(total - ran, total), reg.max_infrastructure_rate),
        ("model failures", _rate(statuses[AttemptStatus.MODEL_FAILURE], ran), reg.max_model_failure_rate),
        ("contract violations", _rate(violations, total), reg.max_contract_violation_rate),
    ):
        if rate > cap:
            found.append(Fault("G2.15", "attempts", f"share of {name} {rate:.3f}, cap {cap}"))
    return tuple(found)


def _rate(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


# --- the decision (G2.16 to G2.18) -------------------------------------------------------------------------


def _decide(
    reg: Registration,
    hits: int,
    inadequate: bool,
    unresolved: int,
    *,
    independent: int,
    bound: float | None,
    rho: float,
) -> tuple[Recovery, str, str]:
    # G2.16: one hit refutes, however few or poor the other attempts were. (A neutral branch whose hit is not
    # admissible never gets here: neutral_recovery keeps the arm out.)
    if hits:
        return Recovery.RECOVERED, "G2.16", f"attempts that recovered the outcome: {hits}"
    # G2.17
    if bound is None:
        reason = "the attempts were not adequate" if inadequate else f"attempts unresolved: {unresolved}"
        return Recovery.INCONCLUSIVE, "G2.17", reason
    if independent < reg.min_independent:
        reason = f"independent attempts: {independent}, registered minimum {reg.min_independent}"
        return Recovery.INCONCLUSIVE, "G2.17", reason
    words = f"no recovery in {independent} independent attempts, bound {bound:.6f}"
    if bound > rho:
        return Recovery.INCONCLUSIVE, "G2.17", f"{words} above rho {rho}"
    # G2.18
    return Recovery.NOT_RECOVERED_WITHIN_SCOPE, "G2.18", f"{words} at most rho {rho}"
