"""Registration: every floor and cap, and the same verdict as the reference on every altered value."""

from __future__ import annotations

import dataclasses
from typing import Any

import dcp.registration
import pytest

from dcpflow.bundles.dcp_audit.decode import registration_payload
from dcpflow.protocol.advice import registration_warnings
from dcpflow.protocol.registration import Registration, registration_violations
from protocol.builders import core_registration, decoded, evidence_registration, small_evidence_case

BINARY = {
    "feedback_estimand": "binary",
    "feedback_utility_mapping": "canonical_p_wrapper_v1",
    "feedback_ci_method": "paired_binary_exact",
    "sham_ci_method": "paired_binary_exact",
}
REPLACING = {
    "gate3_pair_replacement_policy": "preaction_transport_pair_replacement_v1",
    "max_feedback_pair_replacements": 20,
    "max_sham_pair_replacements": 320,
}
ADMISSIBLE = {
    "core": core_registration(),
    "continuous": evidence_registration(),
    "binary": evidence_registration(**BINARY),
    "replacing": evidence_registration(**REPLACING),
}
VALUES: dict[str, list[Any]] = {
    "str": [
        *("", " ", "x", "a b", "unspecified", "is UNSPECIFIED yet", "core", "evidence", "none"),
        *("sampled_population", "exhaustive_finite_set", "bounded_empirical_bernstein", "finite_set_exact"),
        *("paired_binary_exact", "student_t", "continuous", "binary", "lineage_empty", "lineage_prefix"),
        *("preaction_transport_pair_replacement_v1", "canonical_p_wrapper_v1"),
        *("e\u0301", "\u200b", "a\u00a0b", "x\u0000", "\ue000"),
    ],
    "float": [
        *(-1, 0, 0.0, 5e-324, 1e-300, 0.005, 0.01, 0.02, 0.025, 0.05, 0.0500001, 0.1, 0.2, 0.2000001),
        *(0.4999, 0.5, 0.79, 0.8, 0.999, 1, 1.0, 1.0001, 2, 1e300),
    ],
    "int": [-1, 0, 1, 2, 3, 100, 10**6],
    "bool": [True, False],
}


def ours(payload: dict[str, Any]) -> Registration:
    case = {**small_case(), "registration": payload}
    registration: Registration = decoded(case).registration
    return registration


def small_case() -> dict[str, Any]:
    empty = {"name": "x", "per_unit": []}
    return {
        "integrity": {},
        "gate1": {"astar": empty, "baseline": empty},
        "gate2": {"controls": [], "adequacy": {}},
        "gate3": None,
    }


@pytest.mark.parametrize("base", ADMISSIBLE)
def test_every_altered_value_is_judged_as_by_the_reference(base: str) -> None:
    payload = ADMISSIBLE[base]
    assert registration_violations(ours(payload)) == ()
    judged = 0
    for field in dataclasses.fields(dcp.registration.Registration):
        for value in VALUES.get(str(field.type), []):
            altered = {**payload, field.name: value}
            theirs = dcp.registration.validate_registration(dcp.registration.Registration(**altered))
            found = registration_violations(ours(altered))
            assert bool(theirs) == bool(found), (field.name, value, theirs, [str(v) for v in found])
            judged += 1
    assert judged > 1500


def test_defaults_are_the_format_defaults() -> None:
    theirs = dcp.registration.Registration(claim_id="claim")
    assert registration_payload(Registration(claim_id="claim")) == dataclasses.asdict(theirs)


@pytest.mark.parametrize(
    ("change", "key", "rule"),
    [
        ({"claim_id": "a claim"}, "claim_id", "R1"),
        ({"slot_receipt": ""}, "slot_receipt", "R1"),
        ({"model_id": "unspecified"}, "model_id", "R2"),
        ({"grade": "platinum"}, "grade", "R3"),
        ({"interval_method": "bounded_empirical_bernstein"}, "interval_method", "R4"),
        ({"delta_min": 0.0}, "delta_min", "R5"),
        ({"kappa": 1.0}, "kappa", "R5"),
        ({"rho": 0.051}, "rho", "R6"),
        ({"max_attempts": 0}, "max_attempts", "R6"),
        ({"min_control_recall": 0.79}, "min_control_recall", "R7"),
        ({"max_model_failure_rate": 0.21}, "max_model_failure_rate", "R7"),
        ({"max_contract_violation_rate": 0.01}, "max_contract_violation_rate", "R7"),
        ({"alpha_score": 0.04}, "alpha_total", "R8"),
        ({"alpha_evidence": 0.0}, "alpha_evidence", "R8"),
        ({"family_max_audits": 2}, "family_alpha_total", "R9"),
        ({"grade": "core", "necessity_claimed": True}, "necessity_claimed", "R10"),
        ({"notes": {"a": float("nan")}}, "notes", "R11"),
        ({"notes": {1: "integer keys become text"}}, "notes", "R11"),
        ({"notes": {"a": "\ud800"}}, "notes", "R11"),
        ({"delta_null": 0.026}, "delta_null", "R12"),
        ({"utility_mapping": "canonical_p_wrapper_v1"}, "utility_mapping", "R13"),
        ({"feedback_pairs": 1}, "feedback_pairs", "R14"),
        ({"max_null_replacements": 1}, "max_null_replacements", "R15"),
        ({"branch_policy_digest": " "}, "branch_policy_digest", "R16"),
        ({"neutral_generator_digest": "another"}, "neutral_generator_digest", "R17"),
        ({"checkpoint_scope": "lineage"}, "checkpoint_scope", "R18"),
        ({"min_arm_valid_rate": 0.4}, "min_arm_valid_rate", "R19"),
    ],
)
def test_a_violation_names_key_value_and_rule(change: dict[str, Any], key: str, rule: str) -> None:
    registration = dataclasses.replace(ours(evidence_registration()), **change)
    found = registration_violations(registration)
    assert [(violation.key, violation.rule) for violation in found] == [(key, rule)]
    shown = type(change["notes"]).__name__ if key == "notes" else getattr(registration, key)
    assert found[0].value == shown
    assert key in str(found[0])
    assert rule in str(found[0])


@pytest.mark.parametrize("value", [None, "100", 100.0, True, [], 10**400, 2**53 + 1])
def test_a_value_of_a_wrong_type_is_a_violation_not_a_crash(value: Any) -> None:
    registration = dataclasses.replace(ours(core_registration()), max_attempts=value)
    assert [violation.key for violation in registration_violations(registration)] == ["max_attempts"]


@pytest.mark.parametrize("value", [None, "0.05", True, float("nan"), float("inf"), []])
def test_every_number_may_be_garbage(value: Any) -> None:
    base = ours(evidence_registration())
    numbers = [f.name for f in dataclasses.fields(Registration) if f.type in ("float", "int")]
    everything = dataclasses.replace(base, **dict.fromkeys(numbers, value))
    assert set(numbers) <= {violation.key for violation in registration_violations(everything)}
    for name in numbers:
        altered = dataclasses.replace(base, **{name: value})
        assert name in {violation.key for violation in registration_violations(altered)}


def test_a_core_audit_may_leave_the_feedback_fields_open() -> None:
    registration = dataclasses.replace(
        ours(core_registration()), feedback_pairs=0, delta_null=9.0, checkpoint_scope="", worst_utility=3.0
    )
    assert registration_violations(registration) == ()


def test_epsilon_that_rounds_up_to_the_margin_is_refused() -> None:
    registration = dataclasses.replace(ours(core_registration()), delta_min=5e-324, kappa=0.9)
    assert [violation.rule for violation in registration_violations(registration)] == ["R5"]


def warned(**change: Any) -> dict[str, str]:
    registration = dataclasses.replace(decoded(small_evidence_case()).registration, **change)
    assert registration_violations(registration) == ()
    return {caution.key: caution.advice for caution in registration_warnings(registration)}


def test_margins_without_meaning_are_warned_about() -> None:
    assert "delta_min" not in warned()
    assert "delta_min" in warned(delta_min=1e-9)
    assert "delta_min" in warned(delta_min=1.5)


def test_numbers_that_cannot_certify_are_warned_about() -> None:
    """Pitfalls B16 (necessity) and pitfall B17 (pairs for a continuous interval)."""
    assert "104" in warned(necessity_claimed=True, feedback_pairs=100, alpha_neutral=0.005)["feedback_pairs"]
    assert "77" in warned(min_independent=60)["min_independent"]
    assert "77" in warned(max_attempts=70)["max_attempts"]
    assert "340 branches" in warned(min_independent=80, max_attempts=419)["max_attempts"]
    assert "max_attempts" not in warned(min_independent=80, max_attempts=420)
    assert "1561" in warned(delta_null=0.02)["null_pairs"]
    assert "null_pairs" not in warned(delta_null=0.02, null_pairs=1561)
    assert "max_feedback_replacements" in warned()
    looked = warned(feedback_looks=(15, 30), bet=0.9, feedback_interval_method="betting_sequence", feedback_pairs=30)
    assert "one null pair lost in transport" in looked["max_null_replacements"]
    assert "max_feedback_replacements" not in looked, "a lost pair is not missed beside looks"


def test_an_inadmissible_registration_is_not_also_warned_about() -> None:
    assert registration_warnings(dataclasses.replace(ours(core_registration()), rho=0.2)) == ()
