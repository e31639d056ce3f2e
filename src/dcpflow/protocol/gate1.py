"""Gate 1: is the claimed artifact valid, and better than the baseline by the registered margin?"""

from __future__ import annotations

from dataclasses import dataclass

from dcpflow.protocol.intervals import Interval, differences, interval, mean
from dcpflow.protocol.model import Check, Gate1Evidence, Validity
from dcpflow.protocol.registration import Registration
from dcpflow.protocol.text import is_explicit


@dataclass(frozen=True, slots=True)
class Gate1Result:
    """What Gate 1 found.

    Attributes:
        claimed_score: Mean score of A*; NaN where it has none.
        gain: A* minus baseline, unit-paired.
        recovery_of_baseline: Baseline minus A*, unit-paired.
        gain_reached: PASS if the gain is at least ``delta_min``, FAIL if it is certainly below.
        baseline_fails: PASS if the baseline certainly does not recover A*'s outcome, FAIL if it does.
        result_valid: PASS, FAIL or INCONCLUSIVE as A* is valid, invalid or unresolved.
        baseline_validity: As recorded.
    """

    claimed_score: float
    gain: Interval
    recovery_of_baseline: Interval
    gain_reached: Check
    baseline_fails: Check
    result_valid: Check
    baseline_validity: Validity


def evaluate_gate1(reg: Registration, evidence: Gate1Evidence) -> Gate1Result:
    """Apply G1.1 to G1.4. Which of the four answers comes first is the verdict's business (V3 to V9).

    Beyond the reference: a baseline that is A* itself, by its digest and its scores, differs from it by exactly
    nothing, whatever an interval over few units could show.
    """
    claimed, baseline = evidence.claimed, evidence.baseline
    coverage = 1.0 - reg.alpha_main
    # G1.1
    gain = interval(reg.interval_method, differences(claimed.scores, baseline.scores), coverage)
    # G1.3
    behind = interval(reg.interval_method, differences(baseline.scores, claimed.scores), coverage)
    if is_explicit(claimed.digest) and (claimed.digest, claimed.scores) == (baseline.digest, baseline.scores):
        gain = behind = Interval(0.0, 0.0, 0.0, len(claimed.scores))
    return Gate1Result(
        claimed_score=mean(claimed.scores),
        gain=gain,
        recovery_of_baseline=behind,
        gain_reached=_gain_reached(gain, reg.delta_min),
        baseline_fails=_baseline_fails(behind, reg.epsilon),
        result_valid=_RESULT_VALID[claimed.validity],
        baseline_validity=baseline.validity,
    )


def _gain_reached(gain: Interval, delta_min: float) -> Check:
    """G1.2."""
    if gain.lower >= delta_min:
        return Check.PASS
    return Check.FAIL if gain.upper < delta_min else Check.INCONCLUSIVE


def _baseline_fails(behind: Interval, epsilon: float) -> Check:
    """G1.3: whether the baseline lies below the recovery line."""
    if behind.upper < -epsilon:
        return Check.PASS
    return Check.FAIL if behind.lower >= -epsilon else Check.INCONCLUSIVE


_RESULT_VALID = {  # G1.4
    Validity.VALID: Check.PASS,
    Validity.INVALID: Check.FAIL,
    Validity.UNRESOLVED: Check.INCONCLUSIVE,
}
