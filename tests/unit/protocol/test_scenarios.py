"""The published scenarios with their expected decisions, under their own row numbers.

Left out, since they test only the reference's own Python surface: 2 and the first half of 3 (Student-t helpers,
which no rule uses); ``evaluate(None)`` of 64 (our decoders refuse such input, and the type checker refuses such
calls); F1 to F8 (its facade); P1 to P8 (its command line and published release). Rows that put a value of a
wrong type somewhere (15, 31, 32, 54) are refused when reading. Rows B1 to B12 are in ``test_dcp_audit``.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
import math
from collections.abc import Callable
from typing import Any

import pytest

from dcpflow.bundles.dcp_audit import BundleError, digests
from dcpflow.protocol import gate3
from dcpflow.protocol.decision import Decision, decide
from dcpflow.protocol.intervals import finite_set_exact, paired_binary_exact, zero_hit_upper_bound
from dcpflow.protocol.model import AttemptStatus, Check, Effect, InconclusiveClass, Recovery, Status
from dcpflow.protocol.pairs import PairStatus
from dcpflow.protocol.plain import plain
from dcpflow.protocol.replacements import read_ledger
from protocol.builders import (
    Case,
    control,
    core_case,
    decided,
    decoded,
    evidence_case,
    failed,
    feedback_pair,
    lineage_empty,
    lost,
    neutral_hits,
    noisy,
    null_pair,
    seal,
    small_evidence_case,
)

CERTIFIED, REFUTED, INCONCLUSIVE = Status.CERTIFIED, Status.REFUTED, Status.INCONCLUSIVE
NOT_TESTED = Status.NOT_TESTED
AUDIT, STATISTICAL = InconclusiveClass.AUDIT_INCOMPLETE, InconclusiveClass.STATISTICAL_UNCERTAINTY

UNITS = 20
"""Sealed units where the inference is exact; the published base has 200, which changes nothing but the time."""

Scenario = Callable[[], None]
ROWS: dict[str, Scenario] = {}


def row(number: str) -> Callable[[Scenario], Scenario]:
    """Register a scenario under its row number."""

    def register(scenario: Scenario) -> Scenario:
        assert number not in ROWS, f"row {number} twice"
        ROWS[number] = scenario
        return scenario

    return register


@functools.cache
def _base(kind: str) -> Case:
    if kind == "core":
        return core_case(claimed=noisy(0.90, UNITS, 0.01), baseline=noisy(0.70, UNITS, 0.01))
    return small_evidence_case() if kind == "small" else evidence_case(units=20)


def core() -> Case:
    """The base of the numbered cases."""
    return copy.deepcopy(_base("core"))


def registered(**registration: Any) -> Case:
    """The Core base under a changed registration."""
    case = core()
    case["registration"].update(registration)
    return case


def small(**registration: Any) -> Case:
    """An Evidence base with fewer pairs and wider margins, where only the logic matters."""
    case = copy.deepcopy(_base("small"))
    case["registration"].update(registration)
    return case


def published() -> Case:
    """The Evidence base with the published numbers of pairs and margins."""
    return copy.deepcopy(_base("published"))


def hit(index: int, case: Case) -> dict[str, Any]:
    return control(index, case["gate1"]["astar"]["per_unit"])


def checks(decision: Decision) -> set[str]:
    return {fault.check for fault in decision.faults}


def core_is(decision: Decision, status: Status, kind: InconclusiveClass | None = None) -> Decision:
    assert (decision.core.status, decision.core.inconclusive_class) == (status, kind), decision.core
    return decision


def evidence_is(decision: Decision, status: Status, kind: InconclusiveClass | None = None) -> Decision:
    assert (decision.evidence.status, decision.evidence.inconclusive_class) == (status, kind), decision.evidence
    return decision


# --- numbers -----------------------------------------------------------------------------------------------


@row("1")
def zero_hit_bounds() -> None:
    assert zero_hit_upper_bound(59, 0.05) == pytest.approx(0.05, abs=1e-3)
    assert zero_hit_upper_bound(72, 0.025) == pytest.approx(0.05, abs=1e-3)
    assert zero_hit_upper_bound(0, 0.05) == 1.0


@row("3")
def exact_interval_of_one_value() -> None:
    exact = finite_set_exact([0.3], 0.95)
    assert exact.lower == exact.upper == 0.3


@row("4")
def evidence_registration_is_admissible() -> None:
    assert decided(published()).violations == ()


@row("61a")
def binary_interval_is_not_too_narrow() -> None:
    assert paired_binary_exact([1.0] * 199 + [0.0], 0.995).lower < 0.97


# --- Core --------------------------------------------------------------------------------------------------


@row("5")
def base_certifies() -> None:
    decision = core_is(decided(core()), CERTIFIED)
    assert decision.gate2.recovery is Recovery.NOT_RECOVERED_WITHIN_SCOPE
    assert decision.complete


@row("6")
def one_hit_refutes() -> None:
    case = core()
    case["gate2"]["controls"][-1]["per_unit"] = noisy(0.90, UNITS, 0.01, seed=9)
    assert core_is(decided(seal(case)), REFUTED).gate2.hits == 1


@row("7")
def too_few_misses() -> None:
    case = core()
    case["registration"]["m_max"] = 40
    del case["gate2"]["controls"][40:]
    decision = core_is(decided(seal(case)), INCONCLUSIVE, STATISTICAL)
    assert decision.gate2.bound > 0.05


@row("8")
def straddling_attempt() -> None:
    controls = [control(i, noisy(0.5, 200, 0.01, seed=i + 1)) for i in range(80)]
    controls.append(control(80, noisy(0.80, 200, 0.02, seed=99)))
    case = core_case(
        baseline=noisy(0.5, 200, 0.01),
        controls=controls,
        inference_scope="sampled_population",
        ci_method="bounded_empirical_bernstein",
    )
    decision = core_is(decided(case), INCONCLUSIVE, STATISTICAL)
    assert decision.gate2.unresolved == decision.gate2.unresolved_straddling == 1


@row("9")
def attempts_with_unknown_end() -> None:
    case = core()
    case["gate2"]["controls"] = [
        {**lost(c, independent=False), "outcome": "unresolved"} for c in case["gate2"]["controls"]
    ]
    assert core_is(decided(seal(case)), INCONCLUSIVE, AUDIT).gate2.unresolved == 80


@row("10")
def failure_that_carries_an_artifact() -> None:
    case = core()
    case["gate2"]["controls"].append({**control(80, noisy(0.70, UNITS)), "outcome": "model_failure"})
    decision = core_is(decided(seal(case)), INCONCLUSIVE, AUDIT)
    assert "outcome_conflict" in checks(decision)


@row("11")
def more_attempts_than_registered() -> None:
    decision = core_is(decided(registered(m_max=1)), INCONCLUSIVE, AUDIT)
    assert "attempt_number" in checks(decision)


@row("12")
def attempt_id_twice() -> None:
    case = core()
    case["gate2"]["controls"][1]["attempt_id"] = case["gate2"]["controls"][0]["attempt_id"]
    assert "attempt_id_unique" in checks(core_is(decided(seal(case)), INCONCLUSIVE, AUDIT))


@row("13")
def two_strata() -> None:
    case = core()
    for attempt in case["gate2"]["controls"][40:]:
        attempt["stratum"] = "stronger"
    decision = core_is(decided(seal(case)), INCONCLUSIVE, AUDIT)
    assert "G2.11" in {fault.check for fault in decision.gate2.adequacy_faults}


@row("14")
def units_in_another_order() -> None:
    case = core()
    for attempt in case["gate2"]["controls"]:
        attempt["unit_ids"] = attempt["unit_ids"][::-1]
    assert core_is(decided(seal(case)), INCONCLUSIVE, AUDIT).gate2.unresolved == 80


@row("15")
def no_envelope() -> None:
    with pytest.raises(BundleError) as refused:
        decoded({**core(), "integrity": []})
    assert refused.value.file == "payload/integrity.json"


@row("16")
def no_attempts_registered() -> None:
    decision = core_is(decided(registered(m_max=0)), INCONCLUSIVE, AUDIT)
    assert [violation.key for violation in decision.violations] == ["max_attempts"]


@row("17")
def score_that_is_no_number() -> None:
    parts = decoded(core())
    scores = (math.nan, *parts.gate1.claimed.scores[1:])
    claimed = dataclasses.replace(parts.gate1.claimed, scores=scores)
    decision = decide(parts.registration, dataclasses.replace(parts.gate1, claimed=claimed), parts.gate2)
    assert "scores" in checks(core_is(decision, INCONCLUSIVE, AUDIT))


@row("18a")
def gain_too_small() -> None:
    core_is(decided(core_case(claimed=noisy(0.78, 200, 0.001), baseline=noisy(0.70, 200, 0.001))), REFUTED)


@row("18b")
def claimed_artifact_invalid() -> None:
    case = core()
    case["gate1"]["astar"]["validity"] = "invalid"
    core_is(decided(seal(case)), REFUTED)


@row("18c")
def both_artifacts_invalid() -> None:
    case = core()
    case["gate1"]["astar"]["validity"] = case["gate1"]["baseline"]["validity"] = "invalid"
    core_is(decided(seal(case)), INCONCLUSIVE, AUDIT)


@row("30")
def record_of_an_invalid_registration() -> None:
    decision = decided(registered(rho=0.2))
    record = json.loads(json.dumps(plain(decision), allow_nan=False))
    assert record["core"]["status"] == "inconclusive"
    assert record["violations"][0]["key"] == "rho"


@row("31a")
def text_for_a_boolean() -> None:
    case = core()
    case["integrity"]["registration_frozen"] = "false"
    with pytest.raises(BundleError) as refused:
        decoded(case)
    assert (refused.value.rule, refused.value.place) == ("type", "registration_frozen")


@row("31b")
def unknown_validity() -> None:
    case = core()
    case["gate1"]["astar"]["validity"] = "not_checked"
    with pytest.raises(BundleError) as refused:
        decoded(case)
    assert (refused.value.rule, refused.value.place) == ("word", "astar.validity")


@row("31c")
def unknown_outcome() -> None:
    case = core()
    case["gate2"]["controls"][3]["outcome"] = "totally_invalid_tag"
    with pytest.raises(BundleError) as refused:
        decoded(case)
    assert (refused.value.rule, refused.value.place) == ("word", "controls[3].outcome")


@row("32")
def artifacts_missing() -> None:
    with pytest.raises(BundleError):
        decoded({**core(), "gate1": {"astar": None, "baseline": None}})


@row("40a")
def baseline_scores_swapped() -> None:
    case = core()
    case["gate1"]["baseline"]["per_unit"] = noisy(0.5, UNITS, 0.01)
    assert "baseline_results_hash" in checks(core_is(decided(case), INCONCLUSIVE, AUDIT))


@row("40b")
def baseline_swapped() -> None:
    case = core()
    case["gate1"]["baseline"]["artifact_hash"] = "another-baseline"
    assert "baseline_hash" in checks(core_is(decided(case), INCONCLUSIVE, AUDIT))


@row("41")
def half_of_the_attempts_failed() -> None:
    case = core()
    for index in range(40):
        case["gate2"]["controls"][index] = failed(case["gate2"]["controls"][index])
    decision = core_is(decided(seal(case)), INCONCLUSIVE, AUDIT)
    assert any("model failures" in fault.detail for fault in decision.gate2.adequacy_faults)


@row("44")
def validity_flipped_after_freezing() -> None:
    case = core()
    case["gate1"]["astar"]["validity"] = "invalid"
    seal(case)
    case["gate1"]["astar"]["validity"] = "valid"
    assert "astar_results_hash" in checks(core_is(decided(case), INCONCLUSIVE, AUDIT))


@row("63a")
def family_budget_overspent() -> None:
    assert decided(registered(family_max_audits=2)).violations[0].rule == "R9"


@row("63b")
def free_form_utility_mapping() -> None:
    decision = decided(small(feedback_utility_mapping="as seems best"))
    assert [violation.rule for violation in decision.violations] == ["R13"]


@row("64")
def later_mutation_changes_nothing() -> None:
    case = core()
    parts = decoded(case)
    before = plain(decide(parts.registration, parts.gate1, parts.gate2))
    case["registration"]["rho"] = 0.5
    case["gate1"]["astar"]["per_unit"][0] = 0.0
    case["gate2"]["controls"].clear()
    assert plain(decide(parts.registration, parts.gate1, parts.gate2)) == before


@row("65")
def unit_name_of_blanks() -> None:
    case = core()
    case["gate2"]["controls"][0]["independent_unit_id"] = "   "
    assert "independent_unit_canonical" in checks(core_is(decided(seal(case)), INCONCLUSIVE, AUDIT))


@row("66")
def unit_name_with_a_trailing_blank() -> None:
    case = core()
    case["gate2"]["controls"][0]["independent_unit_id"] += " "
    assert "independent_unit_canonical" in checks(core_is(decided(seal(case)), INCONCLUSIVE, AUDIT))


@row("67")
def sealed_unit_with_a_trailing_blank() -> None:
    case = core()
    rows = [case["gate1"]["astar"], case["gate1"]["baseline"], *case["gate2"]["controls"]]
    for scored in rows:
        scored["unit_ids"][0] += " "
    assert "unit_canonical" in checks(core_is(decided(seal(case)), INCONCLUSIVE, AUDIT))


@row("68a")
def hit_of_a_challenger_said_not_to_match() -> None:
    case = core()
    case["gate2"]["controls"][0] = hit(0, case)
    case["gate2"]["adequacy"]["matched_model_present"] = False
    assert "matched_model" in checks(core_is(decided(seal(case)), INCONCLUSIVE, AUDIT))


@row("68b")
def hit_under_another_contract() -> None:
    case = core()
    case["gate2"]["controls"] = [{**hit(0, case), "scope_contract_hash": "another-contract"}]
    decision = core_is(decided(seal(case)), INCONCLUSIVE, AUDIT)
    assert decision.gate2.hits == 0
    assert decision.gate2.attempts[0].status is AttemptStatus.EXECUTION_CONTRACT_VIOLATION


def _hit_of_inadequate_challengers(key: str) -> None:
    case = core()
    case["gate2"]["controls"][0] = hit(0, case)
    case["gate2"]["adequacy"][key] = False
    decision = core_is(decided(seal(case)), REFUTED)
    assert (decision.gate2.hits, decision.gate2.bound) == (1, None)


row("68c")(lambda: _hit_of_inadequate_challengers("materials_readable"))
row("68d")(lambda: _hit_of_inadequate_challengers("health_audit_pass"))


@row("69")
def hit_survives_unrelated_faults() -> None:
    case = core()
    case["gate2"]["controls"][0] = hit(0, case)
    case["gate2"]["controls"][1]["independent_unit_id"] = " "
    seal(case)
    case["integrity"]["recovery_ledger_complete"] = False
    decision = core_is(decided(case), REFUTED)
    assert {"recovery_ledger_complete", "independent_unit_canonical"} <= checks(decision)
    assert decision.gate2.recovery is Recovery.RECOVERED


def _lone_hit(spoil: Callable[[Case], None]) -> None:
    case = core()
    case["gate2"]["controls"] = [hit(0, case)]
    core_is(decided(seal(case)), REFUTED)
    spoil(case)
    core_is(decided(case), INCONCLUSIVE, AUDIT)


def _without_prestart(case: Case) -> None:
    case["gate2"]["controls"][0]["prestart_contract_receipt_hash"] = ""
    seal(case)


row("70")(lambda: _lone_hit(_without_prestart))
row("71")(lambda: _lone_hit(lambda case: case["integrity"].update(astar_results_hash="0" * 64)))
row("72")(lambda: _lone_hit(lambda case: case["integrity"].update(gate2_recovery_ledger_manifest_hash="0" * 64)))


@row("75a")
def drawn_from_another_distribution() -> None:
    case = core()
    case["gate2"]["controls"][0]["challenge_distribution_hash"] = "another-distribution"
    decision = core_is(decided(seal(case)), INCONCLUSIVE, AUDIT)
    assert decision.gate2.attempts[0].status is AttemptStatus.EXECUTION_CONTRACT_VIOLATION
    assert (decision.gate2.independent, decision.gate2.bound) == (79, None)


@row("75b")
def draw_used_for_two_units() -> None:
    case = core()
    draws = [c["independent_draw_receipt_hash"] for c in case["gate2"]["controls"]]
    case["gate2"]["controls"][1]["independent_draw_receipt_hash"] = draws[0]
    assert "draw_reused" in checks(core_is(decided(seal(case)), INCONCLUSIVE, AUDIT))


@row("75c")
def two_attempts_for_each_draw() -> None:
    case = core()
    for index, attempt in enumerate(case["gate2"]["controls"]):
        attempt["independent_unit_id"] = f"presentation-{index // 2}"
        attempt["independent_draw_receipt_hash"] = f"draw-{index // 2}"
    decision = core_is(decided(seal(case)), INCONCLUSIVE, STATISTICAL)
    assert (decision.gate2.counted, decision.gate2.independent) == (80, 40)


# --- Evidence ----------------------------------------------------------------------------------------------


@row("19")
def evidence_base_certifies() -> None:
    decision = evidence_is(core_is(decided(published()), CERTIFIED), CERTIFIED)
    assert decision.gate3.null.adequacy is Check.PASS
    assert decision.gate3.effect.effect is Effect.SUPPORTED


@row("20a")
def null_difference_out_of_band() -> None:
    decision = decided(evidence_case(units=2, pairs=2, null_utilities=(0.90, 0.70)))
    assert decision.gate3.null.adequacy is Check.FAIL
    evidence_is(decision, INCONCLUSIVE, AUDIT)


@row("20b")
def null_pairs_not_fresh() -> None:
    case = small()
    case["gate3"]["sham"]["freshness_pass"] = False
    decision = evidence_is(decided(seal(case)), INCONCLUSIVE, AUDIT)
    assert decision.gate3.null.adequacy is Check.INCONCLUSIVE


@row("21")
def no_effect() -> None:
    case = evidence_case(units=1, pairs=1600, m_max=3280)
    for pair in case["gate3"]["pairs"]:
        pair["truthful"]["per_unit"], pair["neutral"]["per_unit"] = [0.61], [0.60]
    decision = decided(seal(case))
    assert decision.gate3.effect.effect is Effect.NOT_SUPPORTED
    evidence_is(core_is(decision, CERTIFIED), REFUTED)


@row("22")
def binary_estimand() -> None:
    case = evidence_case(
        units=2,
        pairs=200,
        null_pairs=400,
        null_utilities=(1.0, 1.0),
        null_sd=0,
        feedback_estimand="binary",
        feedback_utility_mapping="canonical_p_wrapper_v1",
        feedback_ci_method="paired_binary_exact",
        sham_ci_method="paired_binary_exact",
    )
    decision = evidence_is(decided(neutral_hits(case, range(150, 200))), CERTIFIED)
    assert decision.gate3.effect.pairs[0].comparisons[1].status is AttemptStatus.CONFIRMED_MISS
    assert len(decision.gate3.neutral.witnesses) == 50


def _all_neutral_branches_fail() -> Case:
    case = small()
    for pair in case["gate3"]["pairs"]:
        pair["truthful"]["per_unit"] = [0.30, 0.30]
        pair["neutral"] = failed(pair["neutral"])
    return seal(case)


@row("23a")
def neutral_arm_without_artifacts() -> None:
    effect = decided(_all_neutral_branches_fail()).gate3.effect
    assert (effect.analysed, effect.healthy, effect.effect) == (170, False, Effect.INCONCLUSIVE)


@row("23b")
def neutral_arm_with_an_unresolved_branch() -> None:
    case = _all_neutral_branches_fail()
    case["gate3"]["pairs"][5]["neutral"]["outcome"] = "unresolved"
    decision = evidence_is(decided(seal(case)), INCONCLUSIVE, AUDIT)
    assert decision.gate3.effect.unresolved >= 1


@row("24")
def utility_out_of_range() -> None:
    case = small()
    case["gate3"]["pairs"][0]["truthful"]["utility"] = 1.2
    evidence_is(decided(seal(case)), INCONCLUSIVE, AUDIT)


@row("25a")
def neutral_adequacy_absent() -> None:
    case = small()
    case["gate3"]["neutral_adequacy"] = None
    assert decided(seal(case)).gate3.neutral.recovery is Recovery.INCONCLUSIVE


@row("25b")
def neutral_adequacy_present() -> None:
    neutral = decided(small()).gate3.neutral
    assert neutral.recovery is Recovery.NOT_RECOVERED_WITHIN_SCOPE
    assert neutral.terminal.bound == zero_hit_upper_bound(170, 0.005)


@row("26")
def neutral_hit_of_an_empty_checkpoint() -> None:
    case = lineage_empty(small())
    case["gate3"]["neutral_adequacy"] = None
    decision = core_is(decided(neutral_hits(case, [3])), REFUTED)
    assert decision.gate3.neutral.recovery is Recovery.RECOVERED


@row("27a")
def necessity_with_a_neutral_hit() -> None:
    evidence_is(core_is(decided(neutral_hits(small(necessity_claim_requested=True), [3])), CERTIFIED), REFUTED)


@row("27b")
def necessity_with_a_neutral_hit_of_an_empty_checkpoint() -> None:
    core_is(decided(neutral_hits(lineage_empty(small(necessity_claim_requested=True)), [3])), REFUTED)


@row("28")
def too_many_comparisons() -> None:
    decision = core_is(decided(small(m_max=80 + 2 * 170 - 1)), CERTIFIED)
    evidence_is(decision, INCONCLUSIVE, AUDIT)
    assert checks(decision) == {"attempt_number"}


@row("29")
def record_of_the_evidence_base() -> None:
    record = json.loads(json.dumps(plain(decided(published())), allow_nan=False))
    assert len(record["gate2"]["attempts"]) == 80
    assert len(record["gate3"]["effect"]["pairs"]) == 200
    assert len(record["gate3"]["null"]["pairs"]) == 1600


@row("33a")
def one_feedback_pair_too_many() -> None:
    case = small()
    extra = feedback_pair(170, noisy(0.9, 2), noisy(0.05, 2))
    case["gate3"]["pairs"].append(extra)
    case["gate3"]["started_pair_count"] += 1
    decision = evidence_is(core_is(decided(seal(case)), CERTIFIED), INCONCLUSIVE, AUDIT)
    assert checks(decision) == {"pair_number"}


@row("33b")
def one_null_pair_too_many() -> None:
    case = small()
    case["gate3"]["sham"]["pairs"].append(null_pair(170, 0.8, 0.8))
    case["gate3"]["sham"]["started_pair_count"] += 1
    decision = evidence_is(core_is(decided(seal(case)), CERTIFIED), INCONCLUSIVE, AUDIT)
    assert checks(decision) == {"pair_number"}


TRANSPORT = {
    "gate3_pair_replacement_policy": "preaction_transport_pair_replacement_v1",
    "max_feedback_pair_replacements": 1,
    "max_sham_pair_replacements": 1,
}


def _replace(pairs: list[dict[str, Any]], index: int, arms: tuple[str, str]) -> dict[str, Any]:
    """Put a lost pair before this one, which becomes its replacement. Returns the lost pair."""
    parent = copy.deepcopy(pairs[index])
    for key in ("pair_id", "block_id", "randomization_draw_receipt_hash"):
        parent[key] += "-first"
    for arm in arms:
        parent[arm]["branch_id"] += "-first"
        parent[arm]["prestart_contract_receipt_hash"] += "-first"
    parent[arms[0]] = lost(parent[arms[0]])
    pairs[index]["replacement_of"] = parent["pair_id"]
    pairs.insert(index, parent)
    return parent


def _with_replacements(case: Case, *, null_too: bool = True) -> Case:
    families = [(case["gate3"], ("truthful", "neutral"))]
    if null_too:
        families.append((case["gate3"]["sham"], ("reference_null", "proposed_sham")))
    for family, arms in families:
        _replace(family["pairs"], 4, arms)
        family["no_pair_replacements"] = False
        family["started_pair_count"] += 1
    return seal(case)


@row("34")
def pairs_replaced_after_transport_failures() -> None:
    decision = decided(_with_replacements(small(**TRANSPORT)))
    evidence_is(decision, CERTIFIED)
    assert decision.complete
    effect, null = decision.gate3.effect, decision.gate3.null
    assert (effect.started, effect.analysed) == (null.started, null.analysed) == (171, 170)
    assert effect.pairs[4].status is null.pairs[4].status is PairStatus.REPLACED


@row("35")
def replacement_of_a_model_failure() -> None:
    case = _with_replacements(small(**TRANSPORT), null_too=False)
    parent = case["gate3"]["pairs"][4]
    parent["truthful"] = failed(parent["truthful"])
    case["registration"]["max_sham_pair_replacements"] = 0
    decision = evidence_is(decided(seal(case)), INCONCLUSIVE, AUDIT)
    assert "replacement_reason" in checks(decision)


@row("36")
def replacement_out_of_order() -> None:
    pairs = _with_replacements(small(**TRANSPORT))["gate3"]["pairs"][:8]
    pairs[4], pairs[3] = pairs[3], pairs[4]
    case = {**small(**TRANSPORT)}
    case["gate3"]["pairs"] = pairs
    ledger = read_ledger(
        decoded(case).gate3.pairs,
        registered=7,
        most_replacements=1,
        policy=TRANSPORT["gate3_pair_replacement_policy"],
        place="pairs",
    )
    assert {"replacement_order"} <= {fault.check for fault in ledger.faults}


@row("37")
def lost_pair_not_replaced() -> None:
    case = small(
        **TRANSPORT,
    )
    case["registration"]["max_sham_pair_replacements"] = 0
    pair = case["gate3"]["pairs"][4]
    pair["truthful"] = lost(pair["truthful"])
    decision = evidence_is(decided(seal(case)), INCONCLUSIVE, AUDIT)
    assert checks(decision) == {"replacement_missing"}


@row("38")
def hit_in_a_replaced_pair() -> None:
    case = _with_replacements(small(**TRANSPORT, necessity_claim_requested=True))
    decision = evidence_is(decided(neutral_hits(case, [4])), REFUTED)
    assert decision.complete
    assert len(decision.gate3.neutral.witnesses) == 1
    assert decision.gate3.neutral.terminal.hits == 0


@row("39")
def necessity_with_one_hit_among_all() -> None:
    decision = evidence_is(decided(neutral_hits(small(necessity_claim_requested=True), [17])), REFUTED)
    assert [hit.attempt_id for hit in decision.gate3.neutral.witnesses] == ["neutral-0017"]


@row("42a")
def neutral_hit_in_a_core_audit() -> None:
    core_is(decided(neutral_hits(lineage_empty(small(grade_requested="core")), [3])), REFUTED)


@row("42b")
def neutral_hit_in_a_core_audit_without_a_window() -> None:
    case = neutral_hits(lineage_empty(small(grade_requested="core")), [3])
    case["gate3"]["window_hash"] = ""
    assert "window_digest" in checks(core_is(decided(seal(case)), INCONCLUSIVE, AUDIT))


@row("43a")
def exhaustive_units_with_sampled_pairs() -> None:
    case = small()
    assert case["registration"]["inference_scope"] == "exhaustive_finite_set"
    evidence_is(decided(case), CERTIFIED)


@row("43b")
def pairs_registered_as_exhaustive() -> None:
    assert {v.rule for v in decided(small(feedback_ci_method="finite_set_exact")).violations} == {"R13"}


@row("45a")
def branch_scored_on_one_unit_less() -> None:
    case = small()
    case["gate3"]["pairs"][0]["truthful"]["per_unit"].pop()
    decision = evidence_is(decided(seal(case)), INCONCLUSIVE, AUDIT)
    assert checks(decision) == {"unit_alignment"}


@row("45b")
def utility_other_than_the_mean() -> None:
    case = small()
    case["gate3"]["pairs"][0]["truthful"]["utility"] = 0.10
    assert decided(seal(case)).gate3.effect.effect is Effect.INCONCLUSIVE


@row("46a")
def failed_branch_with_an_artifact() -> None:
    case = small()
    case["gate3"]["pairs"][0]["neutral"]["outcome"] = "model_failure"
    decision = evidence_is(decided(seal(case)), INCONCLUSIVE, AUDIT)
    assert "outcome_conflict" in checks(decision)


@row("46b")
def lost_attempt_with_an_artifact() -> None:
    case = core()
    case["gate2"]["controls"][0]["outcome"] = "infrastructure_invalid"
    core_is(decided(seal(case)), INCONCLUSIVE, AUDIT)


@row("47")
def neutral_branch_straddles() -> None:
    case = lineage_empty(
        evidence_case(
            units=300,
            pairs=2,
            null_pairs=2,
            challengers=80,
            neutral=0.05,
            inference_scope="sampled_population",
            ci_method="bounded_empirical_bernstein",
            delta_min=0.4,
        )
    )
    case["gate1"]["baseline"]["per_unit"] = noisy(0.05, 300, 0.01)
    for index, attempt in enumerate(case["gate2"]["controls"]):
        attempt["per_unit"] = noisy(0.05, 300, 0.01, seed=index)
    core_is(decided(seal(case)), CERTIFIED)
    case["gate3"]["pairs"][0]["neutral"]["per_unit"] = noisy(0.70, 300, 0.01)
    decision = core_is(decided(seal(case)), INCONCLUSIVE, STATISTICAL)
    assert (decision.core.rule, decision.gate3.neutral.unresolved) == ("V13", 1)


@row("48")
def scope_relabelled() -> None:
    case = lineage_empty(small())
    case["gate3"]["checkpoint_scope"] = case["registration"]["gate3_checkpoint_scope"] = "lineage_prefix"
    decision = core_is(decided(case), INCONCLUSIVE, AUDIT)
    assert (decision.core.rule, "neutral_scope_digest" in checks(decision)) == ("V14", True)


@row("49")
def truthful_branch_unresolved_beside_a_neutral_hit() -> None:
    case = small(necessity_claim_requested=True)
    case["gate3"]["pairs"][0]["truthful"]["validity"] = "unresolved"
    decision = evidence_is(decided(neutral_hits(case, [9])), REFUTED)
    assert decision.gate3.effect.effect is Effect.INCONCLUSIVE
    assert decision.gate3.neutral.recovery is Recovery.RECOVERED


@row("50")
def neutral_hit_beside_a_crippled_null_arm() -> None:
    case = small(necessity_claim_requested=True)
    case["gate3"]["pairs"][3]["independence_ok"] = False
    for pair in case["gate3"]["sham"]["pairs"]:
        pair["reference_null"]["execution_contract_hash"] = "crippled"
    case["gate3"]["sham"]["reference_arm_contract_hash"] = "crippled"
    decision = evidence_is(core_is(decided(neutral_hits(case, [3])), CERTIFIED), REFUTED)
    assert "null_reference_contract_digest" in checks(decision)


@row("51")
def neutral_hit_beside_a_foreign_truthful_branch() -> None:
    case = lineage_empty(small())
    case["gate3"]["pairs"][0]["truthful"]["execution_contract_hash"] = "another-contract"
    decision = core_is(decided(neutral_hits(case, [3])), REFUTED)
    assert checks(decision) == {"branch_contract"}


def _failed_paired_audit(flag: bool | None) -> Case:
    case = lineage_empty(small())
    case["gate3"]["paired_contract_audit_pass"] = False
    if flag is not None:
        case["gate3"]["neutral_contract_audit_pass"] = flag
    return neutral_hits(case, [3])


@row("52")
def neutral_audit_stands_for_the_paired_one() -> None:
    decision = core_is(decided(_failed_paired_audit(True)), REFUTED)
    assert checks(decision) == {"paired_contract_audit_pass"}


@row("53")
def no_audit_of_the_neutral_contract() -> None:
    decision = core_is(decided(_failed_paired_audit(None)), INCONCLUSIVE, AUDIT)
    assert "neutral_contract_audit" in checks(decision)


@row("54")
def audit_flag_that_is_no_boolean() -> None:
    case = small()
    case["gate3"]["neutral_contract_audit_pass"] = "yes"
    with pytest.raises(BundleError) as refused:
        decoded(case)
    assert (refused.value.rule, refused.value.place) == ("type", "neutral_contract_audit_pass")


@row("55")
def what_the_neutral_scope_digest_depends_on() -> None:
    evidence = decoded(small()).gate3

    def scope(**changes: Any) -> str:
        return digests.neutral_scope(dataclasses.replace(evidence, **changes), "rule")

    audited = {"neutral_contract_audit_pass": True}
    assert scope(**audited) == scope(**audited, paired_contract_audit_pass=False)
    assert scope(**audited) != scope(neutral_contract_audit_pass=False)
    assert scope() != scope(paired_contract_audit_pass=False)


@row("56")
def neutral_hit_under_another_contract() -> None:
    case = lineage_empty(small())
    case["gate3"]["pairs"][3]["neutral"]["execution_contract_hash"] = "another-contract"
    decision = core_is(decided(neutral_hits(case, [3])), INCONCLUSIVE, AUDIT)
    assert decision.gate3.neutral.recovery is Recovery.INCONCLUSIVE
    assert checks(decision) == {"branch_contract"}


def _assignment_not_frozen(case: Case) -> Decision:
    case["gate3"]["pairs"][3]["assignment_frozen"] = False
    decision = decided(neutral_hits(case, [3]))
    assert checks(decision) == {"assignment_frozen"}
    return decision


@row("57")
def neutral_hit_of_an_unfrozen_assignment() -> None:
    decision = core_is(_assignment_not_frozen(small(necessity_claim_requested=True)), CERTIFIED)
    evidence_is(decision, INCONCLUSIVE, AUDIT)
    assert decision.gate3.neutral.recovery is Recovery.INCONCLUSIVE


@row("58")
def neutral_hit_of_an_unfrozen_assignment_in_scope() -> None:
    core_is(_assignment_not_frozen(lineage_empty(small(necessity_claim_requested=True))), INCONCLUSIVE, AUDIT)


def _not_all_disclosed(case: Case) -> Case:
    case["gate3"]["all_started_pairs_disclosed"] = False
    return seal(case)


@row("59a")
def neutral_ledger_incomplete_in_scope() -> None:
    decision = core_is(decided(_not_all_disclosed(lineage_empty(small()))), INCONCLUSIVE, AUDIT)
    assert checks(decision) == {"pairs_disclosed"}


@row("59b")
def neutral_ledger_incomplete_with_a_hit() -> None:
    decision = core_is(decided(_not_all_disclosed(neutral_hits(lineage_empty(small()), [3]))), REFUTED)
    assert decision.gate3.neutral.recovery is Recovery.RECOVERED


@row("59c")
def neutral_ledger_incomplete_out_of_scope() -> None:
    evidence_is(core_is(decided(_not_all_disclosed(small())), CERTIFIED), INCONCLUSIVE, AUDIT)


@row("60")
def effect_cannot_be_computed() -> None:
    def broken(*_: Any) -> None:
        raise ArithmeticError("overflow")

    case = neutral_hits(small(necessity_claim_requested=True), [3])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gate3, "evaluate_effect", broken)
        decision = evidence_is(core_is(decided(case), CERTIFIED), REFUTED)
    assert checks(decision) == {"evaluation_error"}


@row("61b")
def half_a_success() -> None:
    case = small(
        feedback_estimand="binary",
        feedback_utility_mapping="canonical_p_wrapper_v1",
        feedback_ci_method="paired_binary_exact",
        sham_ci_method="paired_binary_exact",
    )
    for pair in case["gate3"]["sham"]["pairs"]:
        pair["reference_null"]["utility"] = pair["proposed_sham"]["utility"] = 1.0
    evidence_is(decided(seal(case)), CERTIFIED)
    case["gate3"]["sham"]["pairs"][0]["proposed_sham"]["utility"] = 0.5
    decision = evidence_is(decided(seal(case)), INCONCLUSIVE, AUDIT)
    assert decision.gate3.null.adequacy is Check.INCONCLUSIVE


@row("62a")
def one_pair_not_independent() -> None:
    case = small()
    case["gate3"]["pairs"][0]["independence_ok"] = False
    evidence_is(decided(seal(case)), INCONCLUSIVE, AUDIT)


@row("62b")
def started_pairs_not_disclosed() -> None:
    decision = evidence_is(decided(_not_all_disclosed(small())), INCONCLUSIVE, AUDIT)
    assert checks(decision) == {"pairs_disclosed"}


@row("73")
def weaker_neutral_arm() -> None:
    case = small()
    case["gate3"] |= {
        "neutral_model_id": "weaker-model",
        "neutral_interface_hash": "weaker-interface",
        "neutral_resource_contract_hash": "fewer-resources",
    }
    decision = evidence_is(core_is(decided(seal(case)), CERTIFIED), INCONCLUSIVE, AUDIT)
    assert checks(decision) == {"neutral_model_id", "neutral_interface_digest", "neutral_resource_digest"}


@row("74")
def scope_changed_against_the_registration() -> None:
    case = small()
    case["gate3"]["checkpoint_scope"] = "lineage_empty"
    assert checks(core_is(decided(seal(case)), INCONCLUSIVE, AUDIT)) == {"checkpoint_scope"}


@row("76")
def pair_drawn_from_another_distribution() -> None:
    case = small()
    case["gate3"]["pairs"][0]["randomization_distribution_hash"] = "another-distribution"
    assert checks(evidence_is(decided(seal(case)), INCONCLUSIVE, AUDIT)) == {"pair_distribution"}


@row("77")
def null_reference_arm_recontracted() -> None:
    case = small()
    case["gate3"]["sham"]["reference_arm_contract_hash"] = "another-contract"
    for pair in case["gate3"]["sham"]["pairs"]:
        pair["reference_null"]["execution_contract_hash"] = "another-contract"
    found = checks(evidence_is(decided(seal(case)), INCONCLUSIVE, AUDIT))
    assert found == {"null_reference_contract_digest", "branch_contract"}


@row("78")
def neutral_channel_other_than_the_calibrated_one() -> None:
    decision = evidence_is(decided(small(neutral_sham_generator_hash="another-channel")), NOT_TESTED)
    assert [violation.rule for violation in decision.violations] == ["R17"]


@pytest.mark.parametrize("scenario", [pytest.param(s, id=f"row{n}") for n, s in ROWS.items()])
def test_scenario(scenario: Scenario) -> None:
    scenario()
