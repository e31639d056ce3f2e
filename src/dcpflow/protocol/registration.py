"""What a claimant registers before the audit starts, and within which limits (R1 to R19).

Every floor and every cap of the protocol stands in this module and nowhere else.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeGuard

from dcpflow.protocol.text import is_canonical, is_explicit

GRADES: Final = ("core", "evidence")
PROSPECTIVE: Final = "prospective"
"""The mode of an audit that runs its target; a registration leaves it out."""
SAMPLED_POPULATION: Final = "sampled_population"
EXHAUSTIVE_FINITE_SET: Final = "exhaustive_finite_set"
EMPIRICAL_BERNSTEIN: Final = "bounded_empirical_bernstein"
FINITE_SET_EXACT: Final = "finite_set_exact"
PAIRED_BINARY_EXACT: Final = "paired_binary_exact"
BETTING_SEQUENCE: Final = "betting_sequence"
CONTINUOUS: Final = "continuous"
BINARY: Final = "binary"
UNIT_INTERVAL: Final = "normalized_unit_interval_v1"
UTILITY_MAPPINGS: Final = {CONTINUOUS: "mean_normalized_private_units_v1", BINARY: "canonical_p_wrapper_v1"}
FEEDBACK_METHODS: Final = {CONTINUOUS: EMPIRICAL_BERNSTEIN, BINARY: PAIRED_BINARY_EXACT}
NO_REPLACEMENT: Final = "none"
TRANSPORT_REPLACEMENT: Final = "preaction_transport_pair_replacement_v1"
LINEAGE_EMPTY: Final = "lineage_empty"
LINEAGE_PREFIX: Final = "lineage_prefix"

RHO_CAP: Final = 0.05
ALPHA_TOTAL_CAP: Final = 0.05
CONTROL_RECALL_FLOOR: Final = 0.80
VALID_RATE_FLOOR: Final = 0.50
FAILURE_RATE_CAP: Final = 0.20
MIN_PAIRS: Final = 2
BUDGET_SLACK: Final = 1e-12
"""Absolute slack of the budget sums (R8, R9, R15): registered decimals are not exact in binary."""

MAX_INTEGER: Final = 2**53
"""Largest integer that is a number in JSON everywhere."""

CORE_ALPHAS: Final = ("alpha_main", "alpha_score", "alpha_recovery", "alpha_adequacy")
EVIDENCE_ALPHAS: Final = ("alpha_evidence", "alpha_null", "alpha_neutral")


@dataclass(frozen=True, slots=True)
class Registration:
    """Everything that the gates compare the evidence with.

    Rates, alphas, scores and margins are fractions in [0, 1] (a margin is a difference of scores). Fields
    that only Gate 3 reads are not validated for a ``core`` grade.

    Attributes:
        claim_id: Name of the claim.
        claim_family_id: Name of the family of audits that shares one error budget.
        audit_slot_id: The slot of that family which this audit uses.
        slot_receipt: Digest of the record that reserved the slot.
        grade: ``core``, or ``evidence`` to ask for the feedback claim too.
        retrospective: An existing result is audited, without a target run: a witness may refute it, and nothing
            certifies it. Beyond the reference.
        model_id: Model behind the claimant's agent.
        interface_digest: Of its action interface.
        task_profile: Task family.
        inference_scope: What Gate 1 and Gate 2 infer to: a ``sampled_population`` of units, or the
            ``exhaustive_finite_set`` of the sealed units themselves.
        interval_method: The interval that goes with it.
        score_range_id: Name of the score range; only the unit interval exists.
        delta_min: Least gain over the baseline that counts as a discovery.
        kappa: Share of ``delta_min`` that an attempt may fall short of A* and still recover it.
        alpha_main: Error of the gain interval.
        rho: Largest probability of recovery without feedback that "not recovered" may leave open.
        alpha_score: Error of all attempts' comparisons with A* together; split evenly over ``max_attempts``.
        alpha_recovery: Error of the zero-hit bound.
        alpha_adequacy: Error of the positive controls' bound.
        max_attempts: Most attempts that may be compared with A*, neutral branches included.
        min_independent: Least number of independent attempts.
        challenger_stratum: The kind of challenger that decides.
        challenger_contract_digest: Of the contract of a challenger episode.
        challenge_distribution_digest: Of the distribution that presentations are drawn from.
        min_control_recall: Least lower bound of the positive controls' success rate.
        min_valid_candidate_rate: Least share of attempts that can be compared with A*.
        max_infrastructure_rate: Largest share of attempts lost to infrastructure.
        max_model_failure_rate: Largest share of attempts without an artifact.
        max_contract_violation_rate: Always 0.
        necessity_claimed: Also claim that neutral feedback does not suffice (evidence grade).
        delta_evidence: Least gain of truthful over neutral feedback.
        delta_null: Half-width of the band in which the null difference must lie; it is taken off the effect.
        rho_neutral: As ``rho``, for neutral branches.
        alpha_evidence: Error of the effect interval.
        alpha_null: Error of the null interval.
        alpha_neutral: Error of the neutral branches' zero-hit bound.
        feedback_estimand: ``continuous`` (mean utility) or ``binary`` (recovers the outcome or not).
        utility_mapping: How scores become a utility.
        feedback_inference_scope: Of the effect.
        feedback_interval_method: Of the effect.
        null_inference_scope: Of the null calibration.
        null_interval_method: Of the null calibration.
        feedback_pairs: Number of feedback pairs that are analysed; the most where there are looks.
        feedback_looks: After how many pairs the effect is looked at, beyond the reference: it ends once it is decided.
            Empty for a fixed number of pairs.
        bet: Of the betting sequence that goes with looks; 0 without.
        null_pairs: Number of null pairs that are analysed.
        replacement_policy: ``none``, or replacement of pairs that failed in transport before any action.
        max_feedback_replacements: Most replaced feedback pairs.
        max_null_replacements: Most replaced null pairs.
        worst_utility: Utility of a branch without a valid artifact; always 0.
        min_arm_valid_rate: Least share of valid artifacts in each arm.
        max_arm_model_failure_rate: Largest share of failed branches in each arm.
        max_pair_infrastructure_rate: Largest share of feedback pairs lost to infrastructure.
        scaffold_digest: Of the scaffold.
        feedback_schema_digest: Of the form of a reply.
        neutral_operator_digest: Of the neutral policy that is calibrated.
        utility_scale_id: Name of the utility scale.
        null_calibration_id: Name of the null study.
        checkpoint_scope: ``lineage_empty`` or ``lineage_prefix``.
        checkpoint_rule_digest: Of the rule that selects the checkpoint.
        paired_contract_digest: Of the contract that both feedback arms share.
        truthful_contract_digest: Of the truthful arm's contract.
        neutral_contract_digest: Of the neutral arm's contract.
        neutral_recovery_contract_digest: Of the contract under which neutral branches count as challengers.
        branch_resource_digest: Of a branch's budget.
        branch_opportunity_digest: Of a branch's candidate opportunities.
        branch_policy_digest: Of a branch's scaffold policy.
        truthful_generator_digest: Of the truthful channel.
        neutral_generator_digest: Of the neutral channel; equals ``neutral_operator_digest``.
        pair_distribution_digest: Of the distribution of the feedback pairs' assignments.
        null_distribution_digest: Of the distribution of the null pairs' assignments.
        null_paired_contract_digest: Of the contract that both null arms share.
        null_reference_contract_digest: Of the reference arm's contract.
        null_proposed_contract_digest: Of the proposed arm's contract.
        reference_generator_digest: Of the reference-null channel.
        alpha_total: Error budget of this audit.
        family_alpha_total: Error budget of the family.
        family_max_audits: Number of audits that share it.
        notes: Free text and values for people; no rule reads them.
    """

    claim_id: str
    claim_family_id: str = ""
    audit_slot_id: str = ""
    slot_receipt: str = ""
    grade: str = "core"
    retrospective: bool = False
    model_id: str = ""
    interface_digest: str = ""
    task_profile: str = ""
    # Gate 1
    inference_scope: str = SAMPLED_POPULATION
    interval_method: str = EMPIRICAL_BERNSTEIN
    score_range_id: str = UNIT_INTERVAL
    delta_min: float = 0.05
    kappa: float = 0.0
    alpha_main: float = 0.005
    # Gate 2
    rho: float = 0.05
    alpha_score: float = 0.005
    alpha_recovery: float = 0.02
    alpha_adequacy: float = 0.005
    max_attempts: int = 100
    min_independent: int = 1
    challenger_stratum: str = "matched"
    challenger_contract_digest: str = ""
    challenge_distribution_digest: str = ""
    min_control_recall: float = 0.80
    min_valid_candidate_rate: float = 0.50
    max_infrastructure_rate: float = 0.20
    max_model_failure_rate: float = 0.20
    max_contract_violation_rate: float = 0.0
    # Gate 3: numbers
    necessity_claimed: bool = False
    delta_evidence: float = 0.05
    delta_null: float = 0.02
    rho_neutral: float = 0.05
    alpha_evidence: float = 0.005
    alpha_null: float = 0.005
    alpha_neutral: float = 0.005
    feedback_estimand: str = CONTINUOUS
    utility_mapping: str = "mean_normalized_private_units_v1"
    feedback_inference_scope: str = SAMPLED_POPULATION
    feedback_interval_method: str = EMPIRICAL_BERNSTEIN
    null_inference_scope: str = SAMPLED_POPULATION
    null_interval_method: str = EMPIRICAL_BERNSTEIN
    feedback_pairs: int = 2
    feedback_looks: tuple[int, ...] = ()
    bet: float = 0.0
    null_pairs: int = 2
    replacement_policy: str = NO_REPLACEMENT
    max_feedback_replacements: int = 0
    max_null_replacements: int = 0
    worst_utility: float = 0.0
    min_arm_valid_rate: float = 0.80
    max_arm_model_failure_rate: float = 0.10
    max_pair_infrastructure_rate: float = 0.10
    # Gate 3: what the arms are
    scaffold_digest: str = ""
    feedback_schema_digest: str = ""
    neutral_operator_digest: str = ""
    utility_scale_id: str = ""
    null_calibration_id: str = ""
    checkpoint_scope: str = LINEAGE_PREFIX
    checkpoint_rule_digest: str = ""
    paired_contract_digest: str = ""
    truthful_contract_digest: str = ""
    neutral_contract_digest: str = ""
    neutral_recovery_contract_digest: str = ""
    branch_resource_digest: str = ""
    branch_opportunity_digest: str = ""
    branch_policy_digest: str = ""
    truthful_generator_digest: str = ""
    neutral_generator_digest: str = ""
    pair_distribution_digest: str = ""
    null_distribution_digest: str = ""
    null_paired_contract_digest: str = ""
    null_reference_contract_digest: str = ""
    null_proposed_contract_digest: str = ""
    reference_generator_digest: str = ""
    # The family's budget
    alpha_total: float = 0.05
    family_alpha_total: float = 0.05
    family_max_audits: int = 1
    notes: Mapping[str, object] = field(default_factory=dict)

    @property
    def epsilon(self) -> float:
        """How far below A*'s mean score an attempt may lie and still recover the outcome (R5)."""
        return self.kappa * self.delta_min

    @property
    def attempt_alpha(self) -> float:
        """Error of one attempt's comparison with A*: Bonferroni over all attempts that may be made (G2.8)."""
        return self.alpha_score / self.max_attempts

    @property
    def active_alphas(self) -> tuple[str, ...]:
        """Names of the alphas that this grade spends (R8)."""
        return CORE_ALPHAS + (EVIDENCE_ALPHAS if self.grade == "evidence" else ())


@dataclass(frozen=True, slots=True)
class Violation:
    """A registered value outside what the protocol allows.

    Attributes:
        key: Field of :class:`Registration`.
        value: What was registered.
        allowed: What may be registered, in words.
        rule: R1 to R19.
    """

    key: str
    value: object
    allowed: str
    rule: str

    def __str__(self) -> str:
        return f"{self.key} = {self.value!r}: must be {self.allowed} ({self.rule})"


def registration_violations(reg: Registration) -> tuple[Violation, ...]:
    """All violations of R1 to R19, in the order of the rules; empty for an admissible registration.

    Never raises on values of a wrong type: they are violations. Gate 3's fields (R12 to R19) are looked at
    for the evidence grade only.
    """
    found = [*_identity(reg), *_gate1(reg), *_gate2(reg), *_budgets(reg), *_claims(reg)]
    if reg.grade == "evidence":
        found += [*_effect(reg), *_pair_numbers(reg), *_arms(reg), *_arm_health(reg)]
    return tuple(found)


# --- what a value may be -----------------------------------------------------------------------------------


def is_number(value: object) -> TypeGuard[float]:
    """A finite int or float; a bool is no number."""
    return math.isfinite(value) if isinstance(value, float) else is_integer(value)


def is_integer(value: object) -> TypeGuard[int]:
    """An int that a float can hold exactly; a bool is none, and neither is 2.0."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_INTEGER


def _within(low: float, high: float, *, open_low: bool = False, open_high: bool = False) -> Callable[[object], bool]:
    def test(value: object) -> bool:
        return (
            is_number(value)
            and (low < value if open_low else low <= value)
            and (value < high if open_high else value <= high)
        )

    return test


def _one_of(*allowed: str) -> Callable[[object], bool]:
    return lambda value: isinstance(value, str) and value in allowed


def _integer_from(low: int) -> Callable[[object], bool]:
    return lambda value: is_integer(value) and value >= low


def _strict_json(value: object) -> bool:
    if not isinstance(value, Mapping):
        return False
    try:
        text = json.dumps(dict(value), allow_nan=False, ensure_ascii=False)
        text.encode("utf-8")
        return bool(json.loads(text) == value)  # integer keys and tuples would come back as something else
    except (TypeError, ValueError, RecursionError):
        return False


def _check(
    reg: Registration, rule: str, keys: Iterable[str], test: Callable[[object], bool], allowed: str
) -> Iterator[Violation]:
    for key in keys:
        value = getattr(reg, key)
        if not test(value):
            yield Violation(key, value, allowed, rule)


# --- the rules, in their order -----------------------------------------------------------------------------


def _identity(reg: Registration) -> Iterator[Violation]:
    canonical = ("claim_id", "claim_family_id", "challenger_stratum", "audit_slot_id", "slot_receipt")
    yield from _check(reg, "R1", canonical, is_canonical, "a name without blanks or invisible characters")
    explicit = (
        "model_id",
        "interface_digest",
        "task_profile",
        "challenger_contract_digest",
        "challenge_distribution_digest",
    )
    yield from _check(reg, "R2", explicit, is_explicit, "given")
    yield from _check(reg, "R3", ("grade",), _one_of(*GRADES), "core or evidence")
    if reg.retrospective and reg.grade != "core":
        yield Violation("grade", reg.grade, "core where there is no target run to branch from", "R3")


def _gate1(reg: Registration) -> Iterator[Violation]:
    method = {SAMPLED_POPULATION: EMPIRICAL_BERNSTEIN, EXHAUSTIVE_FINITE_SET: FINITE_SET_EXACT}
    scopes = _one_of(*method)
    yield from _check(reg, "R4", ("inference_scope",), scopes, " or ".join(method))
    if scopes(reg.inference_scope):
        required = method[reg.inference_scope]
        yield from _check(reg, "R4", ("interval_method",), _one_of(required), f"{required} for {reg.inference_scope}")
    yield from _check(reg, "R4", ("score_range_id",), _one_of(UNIT_INTERVAL), UNIT_INTERVAL)
    yield from _check(reg, "R5", ("delta_min",), _within(0, math.inf, open_low=True), "finite and above 0")
    yield from _check(reg, "R5", ("kappa",), _within(0, 1, open_high=True), "at least 0 and below 1")
    admissible = is_number(reg.delta_min) and is_number(reg.kappa) and 0 <= reg.kappa < 1 and reg.delta_min > 0
    # The product can round up to delta_min, and then "recovers" would not mean "beats the baseline".
    if admissible and not reg.epsilon < reg.delta_min:
        yield Violation("kappa", reg.kappa, "such that kappa * delta_min < delta_min", "R5")


def _gate2(reg: Registration) -> Iterator[Violation]:
    cap = _within(0, RHO_CAP, open_low=True)
    yield from _check(reg, "R6", ("rho",), cap, f"above 0 and at most {RHO_CAP}")
    yield from _check(reg, "R6", ("max_attempts", "min_independent"), _integer_from(1), "an integer of at least 1")
    recall, valid = _within(CONTROL_RECALL_FLOOR, 1), _within(VALID_RATE_FLOOR, 1)
    failures = _within(0, FAILURE_RATE_CAP)
    yield from _check(reg, "R7", ("min_control_recall",), recall, f"between {CONTROL_RECALL_FLOOR} (floor) and 1")
    yield from _check(reg, "R7", ("min_valid_candidate_rate",), valid, f"between {VALID_RATE_FLOOR} (floor) and 1")
    yield from _check(
        reg,
        "R7",
        ("max_infrastructure_rate", "max_model_failure_rate"),
        failures,
        f"between 0 and {FAILURE_RATE_CAP} (cap)",
    )
    yield from _check(reg, "R7", ("max_contract_violation_rate",), _within(0, 0), "exactly 0")


def _budgets(reg: Registration) -> Iterator[Violation]:
    total = _within(0, ALPHA_TOTAL_CAP, open_low=True)
    allowed = f"above 0 and at most {ALPHA_TOTAL_CAP}"
    single = _within(0, 1, open_low=True, open_high=True)
    yield from _check(reg, "R8", ("alpha_total",), total, allowed)
    yield from _check(reg, "R8", reg.active_alphas, single, "above 0 and below 1")
    alphas = [getattr(reg, key) for key in reg.active_alphas]
    if all(map(is_number, alphas)) and is_number(reg.alpha_total):
        spent = math.fsum(alphas)
        if spent > reg.alpha_total + BUDGET_SLACK:
            yield Violation(
                "alpha_total", reg.alpha_total, f"at least the sum of the active alphas, {spent:.12g}", "R8"
            )
    yield from _check(reg, "R9", ("family_alpha_total",), total, allowed)
    yield from _check(reg, "R9", ("family_max_audits",), _integer_from(1), "an integer of at least 1")
    if is_number(reg.alpha_total) and is_integer(reg.family_max_audits) and is_number(reg.family_alpha_total):
        needed = reg.alpha_total * reg.family_max_audits
        if needed > reg.family_alpha_total + BUDGET_SLACK:
            yield Violation(
                "family_alpha_total",
                reg.family_alpha_total,
                f"at least alpha_total * family_max_audits, {needed:.12g}",
                "R9",
            )


def _claims(reg: Registration) -> Iterator[Violation]:
    if not isinstance(reg.necessity_claimed, bool):
        yield Violation("necessity_claimed", reg.necessity_claimed, "true or false", "R10")
    elif reg.necessity_claimed and reg.grade != "evidence":
        yield Violation("necessity_claimed", True, "false unless the grade is evidence", "R10")
    if not _strict_json(reg.notes):
        yield Violation("notes", type(reg.notes).__name__, "an object that strict JSON can hold", "R11")


def _effect(reg: Registration) -> Iterator[Violation]:
    positive = _within(0, math.inf, open_low=True)
    yield from _check(reg, "R12", ("delta_evidence", "delta_null"), positive, "finite and above 0")
    if positive(reg.delta_evidence) and positive(reg.delta_null) and reg.delta_null > reg.delta_evidence / 2:
        yield Violation("delta_null", reg.delta_null, "at most half of delta_evidence", "R12")
    cap = _within(0, RHO_CAP, open_low=True)
    yield from _check(reg, "R12", ("rho_neutral",), cap, f"above 0 and at most {RHO_CAP}")
    yield from _check(reg, "R12", ("worst_utility",), _within(0, 0), "exactly 0")
    stake, allowed = (0, "exactly 0 without looks") if not reg.feedback_looks else (1, "above 0 and below 1")
    yield from _check(reg, "R13", ("bet",), _within(0, stake, open_low=stake > 0, open_high=stake > 0), allowed)
    estimands = _one_of(*UTILITY_MAPPINGS)
    yield from _check(reg, "R13", ("feedback_estimand",), estimands, "continuous or binary")
    if estimands(reg.feedback_estimand):
        mapping, method = UTILITY_MAPPINGS[reg.feedback_estimand], FEEDBACK_METHODS[reg.feedback_estimand]
        yield from _check(reg, "R13", ("utility_mapping",), _one_of(mapping), f"{mapping} for {reg.feedback_estimand}")
        scopes = ("feedback_inference_scope", "null_inference_scope")
        # a number of pairs that is not fixed takes an interval that holds at every look
        looked = (("feedback_interval_method", BETTING_SEQUENCE if reg.feedback_looks else method),)
        yield from _check(
            reg,
            "R13",
            scopes,
            _one_of(SAMPLED_POPULATION),
            f"{SAMPLED_POPULATION}: pairs are always a sample",
        )
        for key, required in (*looked, ("null_interval_method", method)):
            yield from _check(reg, "R13", (key,), _one_of(required), f"{required} for {reg.feedback_estimand}")


def _pair_numbers(reg: Registration) -> Iterator[Violation]:
    yield from _check(
        reg,
        "R14",
        ("feedback_pairs", "null_pairs"),
        _integer_from(MIN_PAIRS),
        f"an integer of at least {MIN_PAIRS}",
    )
    policies = _one_of(NO_REPLACEMENT, TRANSPORT_REPLACEMENT)
    yield from _check(reg, "R15", ("replacement_policy",), policies, f"{NO_REPLACEMENT} or {TRANSPORT_REPLACEMENT}")
    for key, pairs, rate in (
        ("max_feedback_replacements", reg.feedback_pairs, reg.max_pair_infrastructure_rate),
        ("max_null_replacements", reg.null_pairs, reg.max_infrastructure_rate),
    ):
        value = getattr(reg, key)
        if not is_integer(value) or value < 0:
            yield Violation(key, value, "an integer of at least 0", "R15")
        elif reg.replacement_policy == NO_REPLACEMENT and value:
            yield Violation(key, value, f"0 under the policy {NO_REPLACEMENT}", "R15")
        elif value and is_integer(pairs) and is_number(rate) and value > (most := replacement_cap(pairs, rate)):
            yield Violation(key, value, f"at most {most}, the registered share of the registered pairs", "R15")


def replacement_cap(pairs: int, rate: float) -> int:
    """The most pairs that may be replaced: ``rate`` of ``pairs``, rounded down (R15)."""
    return math.floor(pairs * rate + BUDGET_SLACK)


def _arms(reg: Registration) -> Iterator[Violation]:
    explicit = (
        "scaffold_digest",
        "feedback_schema_digest",
        "neutral_operator_digest",
        "utility_scale_id",
        "null_calibration_id",
        "paired_contract_digest",
        "truthful_contract_digest",
        "neutral_contract_digest",
        "neutral_recovery_contract_digest",
        "checkpoint_rule_digest",
        "branch_resource_digest",
        "branch_opportunity_digest",
        "branch_policy_digest",
        "truthful_generator_digest",
        "neutral_generator_digest",
        "pair_distribution_digest",
        "null_distribution_digest",
        "null_paired_contract_digest",
        "null_reference_contract_digest",
        "null_proposed_contract_digest",
        "reference_generator_digest",
    )
    yield from _check(reg, "R16", explicit, is_explicit, "given")
    if reg.neutral_generator_digest != reg.neutral_operator_digest:
        # Otherwise the null study would have calibrated another channel than the one that Gate 3 uses.
        yield Violation(
            "neutral_generator_digest",
            reg.neutral_generator_digest,
            "equal to neutral_operator_digest",
            "R17",
        )
    scopes = _one_of(LINEAGE_EMPTY, LINEAGE_PREFIX)
    yield from _check(reg, "R18", ("checkpoint_scope",), scopes, f"{LINEAGE_EMPTY} or {LINEAGE_PREFIX}")


def _arm_health(reg: Registration) -> Iterator[Violation]:
    yield from _check(
        reg,
        "R19",
        ("min_arm_valid_rate",),
        _within(VALID_RATE_FLOOR, 1),
        f"between {VALID_RATE_FLOOR} (floor) and 1",
    )
    yield from _check(
        reg,
        "R19",
        ("max_arm_model_failure_rate", "max_pair_infrastructure_rate"),
        _within(0, FAILURE_RATE_CAP),
        f"between 0 and {FAILURE_RATE_CAP} (cap)",
    )
