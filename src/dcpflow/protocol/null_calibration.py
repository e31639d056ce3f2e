"""The null calibration: does the neutral channel neither help nor harm? (G3.11 to G3.17)

Both channels of a null pair carry nothing, on tasks that E0 alone answers. The difference between them bounds
the bias that the neutral channel can bring into the feedback effect, and is taken off it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dcpflow.protocol.faults import EVIDENCE_ONLY, Fault
from dcpflow.protocol.intervals import Interval, interval
from dcpflow.protocol.model import Branch, Check, NullCalibration
from dcpflow.protocol.pairs import (
    ArmRates,
    PairResult,
    PairStatus,
    Utility,
    analyse_pair,
    arm_rates,
    continuous_utility,
    replaced_pair,
)
from dcpflow.protocol.registration import BINARY, Registration
from dcpflow.protocol.replacements import Ledger, read_ledger
from dcpflow.protocol.text import is_explicit


@dataclass(frozen=True, slots=True)
class NullResult:
    """What the null calibration showed.

    Attributes:
        adequacy: PASS if the null difference certainly lies within the registered band.
        rule: The rule that decided.
        reason: In words.
        difference: Reference minus proposed; None where it was not computed.
        pairs: One row for each started pair, in order.
        started: Number of pairs on record.
        analysed: Number of differences.
        unresolved: Registered pairs without a difference.
        rates: Health of the arms (reference, proposed).
    """

    adequacy: Check
    rule: str
    reason: str
    difference: Interval | None
    pairs: tuple[PairResult, ...]
    started: int
    analysed: int
    unresolved: int
    rates: ArmRates


def evaluate_null(reg: Registration, null: NullCalibration) -> NullResult:
    """Apply G3.11 to G3.17; the first match wins."""
    ledger = null_ledger(reg, null)
    terminal = [null.pairs[index] for index in ledger.terminal]
    replaced = set(ledger.replaced)
    rows = tuple(
        replaced_pair(pair) if index in replaced else analyse_pair(pair, lambda b: _utility(reg, b))
        for index, pair in enumerate(null.pairs)
    )
    values = [row.difference for row in rows if row.difference is not None]
    unresolved = max(
        reg.null_pairs - len(values),
        sum(row.status in (PairStatus.UNRESOLVED, PairStatus.EXCLUDED) for row in rows),
    )
    rates = arm_rates(null.pairs, terminal, whole_pairs=False)
    adequacy, rule, reason = _before_the_interval(reg, null, ledger, rates, unresolved)
    difference = None
    if adequacy is None:
        # G3.17
        difference = interval(reg.null_interval_method, values, 1.0 - reg.alpha_null)
        adequacy, rule, reason = _within_band(difference, reg.delta_null)
    return NullResult(
        adequacy=adequacy,
        rule=rule,
        reason=reason,
        difference=difference,
        pairs=rows,
        started=len(null.pairs),
        analysed=len(values),
        unresolved=unresolved,
        rates=rates,
    )


def null_ledger(reg: Registration, null: NullCalibration) -> Ledger:
    """The replacement ledger of the null pairs."""
    return read_ledger(
        null.pairs,
        registered=reg.null_pairs,
        most_replacements=reg.max_null_replacements,
        policy=reg.replacement_policy,
        place="null.pairs",
        blocks=EVIDENCE_ONLY,
    )


def null_contract_faults(reg: Registration, null: NullCalibration) -> Iterator[Fault]:
    """G3.11: whether the study calibrated the channel, agent and task family that were registered."""
    registered = (
        ("calibration_id", reg.null_calibration_id),
        ("task_profile", reg.task_profile),
        ("model_id", reg.model_id),
        ("interface_digest", reg.interface_digest),
        ("scaffold_digest", reg.scaffold_digest),
        ("feedback_schema_digest", reg.feedback_schema_digest),
        ("operator_digest", reg.neutral_operator_digest),
        ("reference_generator_digest", reg.reference_generator_digest),
        ("paired_contract_digest", reg.null_paired_contract_digest),
        ("reference_contract_digest", reg.null_reference_contract_digest),
        ("proposed_contract_digest", reg.null_proposed_contract_digest),
        ("utility_scale_id", reg.utility_scale_id),
    )
    for key, expected in registered:
        if (value := getattr(null, key)) != expected:
            detail = f"{value!r}, registered {expected!r}"
            yield Fault(f"null_{key}", f"null.{key}", detail, EVIDENCE_ONLY)
    digests = (null.development_digest, null.confirmatory_digest)
    if not all(map(is_explicit, digests)) or digests[0] == digests[1]:
        detail = "development and confirmatory pairs are not shown to be different"
        yield Fault("null_development", "null.development_digest", detail, EVIDENCE_ONLY)


def _before_the_interval(  # noqa: PLR0911  (one return for each rule)
    reg: Registration, null: NullCalibration, ledger: Ledger, rates: ArmRates, unresolved: int
) -> tuple[Check | None, str, str]:
    """G3.11 to G3.16: why the interval is not looked at; None if it is."""
    # G3.11
    foreign = next(null_contract_faults(reg, null), None)
    if foreign is not None:
        return Check.INCONCLUSIVE, "G3.11", str(foreign)
    # G3.12
    if not (null.fresh and null.operator_frozen_first and null.development_disjoint):
        return Check.INCONCLUSIVE, "G3.12", "not fresh, not frozen first, or not disjoint from development"
    # G3.13
    if not null.channel_checks_pass:
        return Check.FAIL, "G3.13", "the channel checks failed"
    if ledger.faults:
        return Check.INCONCLUSIVE, "G3.13", str(ledger.faults[0])
    # G3.15
    if (
        min(rates.valid) < reg.min_valid_candidate_rate
        or max(rates.failed) > reg.max_model_failure_rate
        or rates.infrastructure > reg.max_infrastructure_rate
    ):
        return Check.FAIL, "G3.15", "an arm has too few valid artifacts, or too many losses"
    # G3.16
    if unresolved:
        return Check.INCONCLUSIVE, "G3.16", f"{unresolved} registered pairs without a difference"
    return None, "", ""


def _within_band(difference: Interval, delta: float) -> tuple[Check, str, str]:
    """G3.17."""
    words = f"[{difference.lower:.6f}, {difference.upper:.6f}] against the band of +-{delta}"
    if -delta <= difference.lower and difference.upper <= delta:
        return Check.PASS, "G3.17", words
    if difference.lower > delta or difference.upper < -delta:
        return Check.FAIL, "G3.17", words
    return Check.INCONCLUSIVE, "G3.17", words


def _utility(reg: Registration, branch: Branch) -> Utility:
    """G3.14."""
    utility = continuous_utility(branch, reg.worst_utility, scores_required=False)
    if reg.feedback_estimand == BINARY and utility.value not in (0.0, 1.0, None):
        return Utility(None, f"utility {utility.value} under the binary estimand")
    return utility
