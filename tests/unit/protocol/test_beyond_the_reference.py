"""Where our rules deliberately do better than the reference, and what faults of either kind block."""

from __future__ import annotations

import ast
import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from dcp.evaluate import evaluate

from dcpflow.protocol.decision import Decision, decide
from dcpflow.protocol.faults import CORE_ONLY, EVERY_HIT, EVIDENCE_ONLY, NEUTRAL_DISCLOSURE, Fault, Stake
from dcpflow.protocol.model import AttemptStatus, InconclusiveClass, Recovery, Status
from dcpflow.protocol.pairs import PairStatus
from dcpflow.protocol.plain import plain
from protocol.builders import (
    Case,
    decided,
    decoded,
    failed,
    lineage_empty,
    neutral_hits,
    reference,
    seal,
    small_core_case,
    small_evidence_case,
)


def with_fault(case: Case, blocks: frozenset[Stake], index: int | None = None) -> Decision:
    """A decision on our own evidence: no envelope, one fault that a check of ours found."""
    parts = decoded(case)
    fault = Fault("a_check", "somewhere", "does not hold", blocks, index)
    return decide(parts.registration, parts.gate1, parts.gate2, parts.gate3, [fault])


def reference_core(case: Case) -> str:
    return str(evaluate(**reference(case)).verdict.core.value)


# --- identity of artifacts ---------------------------------------------------------------------------------


def test_a_challenger_that_commits_the_claimed_artifact_has_recovered_it() -> None:
    """Also where so few units could never show it by an interval."""
    case = small_core_case(inference_scope="sampled_population", ci_method="bounded_empirical_bernstein")
    claimed = case["gate1"]["astar"]
    case["gate2"]["controls"][3] |= {
        "artifact_hash": claimed["artifact_hash"],
        "per_unit": list(claimed["per_unit"]),
    }
    row = decided(seal(case)).gate2.attempts[3]
    assert (row.status, row.rule) == (AttemptStatus.CONFIRMED_HIT, "same_artifact")
    theirs = evaluate(**reference(case)).gate2.classifications[3]
    assert theirs.status.value == "unresolved"


@pytest.mark.parametrize("change", [{"per_unit": [0.1] * 4}, {"validity": "invalid"}])
def test_the_claimed_artifact_is_never_counted_as_a_miss(change: dict[str, Any]) -> None:
    """Pitfall B13."""
    case = small_core_case()
    case["gate2"]["controls"][3] |= {"artifact_hash": case["gate1"]["astar"]["artifact_hash"], **change}
    decision = decided(seal(case))
    assert reference_core(case) == "certified"
    assert decision.gate2.attempts[3].status is AttemptStatus.UNRESOLVED
    assert decision.core.status is Status.INCONCLUSIVE
    assert decision.core.inconclusive_class is InconclusiveClass.AUDIT_INCOMPLETE


def test_a_baseline_that_is_the_claimed_artifact_recovers_it() -> None:
    case = small_core_case(inference_scope="sampled_population", ci_method="bounded_empirical_bernstein")
    claimed = case["gate1"]["astar"]
    case["gate1"]["baseline"] |= {
        "artifact_hash": claimed["artifact_hash"],
        "per_unit": list(claimed["per_unit"]),
    }
    decision = decided(seal(case))
    assert (decision.core.status, decision.core.rule) == (Status.REFUTED, "V6")


def test_a_baseline_with_the_claimed_digest_and_other_scores_is_a_fault() -> None:
    case = small_core_case()
    case["gate1"]["baseline"]["artifact_hash"] = case["gate1"]["astar"]["artifact_hash"]
    decision = decided(seal(case))
    assert reference_core(case) == "certified"
    assert decision.core.status is Status.INCONCLUSIVE
    assert [fault.check for fault in decision.faults] == ["artifact_identity"]


def test_one_artifact_with_two_score_records_is_remarked() -> None:
    case = small_core_case()
    for index in (3, 4):
        case["gate2"]["controls"][index]["artifact_hash"] = "the-same"
    decision = decided(seal(case))
    assert decision.core.status is Status.CERTIFIED
    assert "artifact_scored_twice" in [note.check for note in decision.notes]


# --- witnesses ---------------------------------------------------------------------------------------------


def test_a_neutral_hit_in_scope_survives_an_unrelated_fault_like_a_challengers_hit() -> None:
    """Pitfall B8."""
    case = neutral_hits(lineage_empty(small_evidence_case()), [3])
    case["integrity"]["provenance_pass"] = False
    decision = decided(case)
    assert reference_core(case) == "inconclusive"
    assert (decision.core.status, decision.core.rule) == (Status.REFUTED, "V12")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda case: case["integrity"].update(claim_frozen=False),
        lambda case: case["gate3"]["pairs"][3].update(assignment_frozen=False),
        lambda case: case["gate3"].update(neutral_channel_audit_pass=False),
    ],
)
def test_a_neutral_hit_without_clean_records_does_not(spoil: Any) -> None:
    case = neutral_hits(lineage_empty(small_evidence_case()), [3])
    case["integrity"]["provenance_pass"] = False
    spoil(case)
    assert decided(seal(case)).core.status is Status.INCONCLUSIVE


def test_a_neutral_hit_out_of_scope_does_not_refute_core() -> None:
    case = neutral_hits(small_evidence_case(), [3])
    case["integrity"]["provenance_pass"] = False
    assert decided(case).core.status is Status.INCONCLUSIVE


def test_an_unresolved_neutral_branch_in_scope_counts_beside_a_broken_effect() -> None:
    """The reference certifies Core here, although a branch that is a challenger may have recovered."""
    case = lineage_empty(small_evidence_case())
    case["gate3"]["pairs"][3]["neutral"]["validity"] = "unresolved"
    case["gate3"]["truthful_channel_audit_pass"] = False
    decision = decided(seal(case))
    assert reference_core(case) == "certified"
    assert (decision.core.status, decision.core.rule) == (Status.INCONCLUSIVE, "V13")


def test_attempts_without_an_independent_unit_are_not_one_unit() -> None:
    """Pitfall B7."""
    case = small_core_case()
    for attempt in case["gate2"]["controls"][:2]:
        attempt |= {"independence_ok": False, "independent_unit_id": ""}
    decision = decided(seal(case))
    assert reference_core(case) == "inconclusive"
    assert decision.core.status is Status.CERTIFIED
    assert (decision.gate2.counted, decision.gate2.independent) == (80, 78)


# --- what is reported beside the decision ------------------------------------------------------------------


def test_the_bound_without_model_failures_stands_beside_the_bound() -> None:
    """Pitfall B15."""
    case = small_core_case()
    for index in range(10):
        case["gate2"]["controls"][index] = failed(case["gate2"]["controls"][index])
    decision = decided(seal(case))
    assert decision.core.status is Status.CERTIFIED
    assert decision.gate2.bound == 1 - 0.02 ** (1 / 80)
    assert decision.gate2.bound_without_failures == 1 - 0.02 ** (1 / 70)
    assert "bound_rests_on_failures" in [note.check for note in decision.notes]


def test_a_null_study_that_could_not_have_shown_a_difference_is_remarked() -> None:
    case = small_evidence_case()
    assert "null_without_spread" not in [note.check for note in decided(case).notes]
    for pair in case["gate3"]["sham"]["pairs"]:
        pair["reference_null"]["utility"] = pair["proposed_sham"]["utility"] = 1.0
    decision = decided(seal(case))
    assert decision.evidence.status is Status.CERTIFIED
    assert "null_without_spread" in [note.check for note in decision.notes]


def test_a_null_utility_has_to_agree_with_its_scores() -> None:
    case = small_evidence_case()
    proposed = case["gate3"]["sham"]["pairs"][3]["proposed_sham"]
    proposed |= {"per_unit": [0.25, 0.75], "unit_ids": ["n1", "n2"], "utility": 0.5}
    assert decided(seal(case)).evidence.status is Status.CERTIFIED
    proposed["utility"] = 0.8
    decision = decided(seal(case))
    assert decision.gate3.null.pairs[3].status is PairStatus.UNRESOLVED
    assert decision.evidence.status is Status.INCONCLUSIVE


def test_a_verifier_flaw_is_part_of_the_decision() -> None:
    """Pitfall B2."""
    decision = decided(small_core_case(), verifier_flaw=True)
    assert (decision.core.status, decision.core.rule) == (Status.INCONCLUSIVE, "V10")
    assert plain(decision)["verifier_flaw"] is True


# --- faults from our own checks ----------------------------------------------------------------------------


def test_without_faults_our_own_evidence_needs_no_envelope() -> None:
    parts = decoded(small_core_case())
    assert decide(parts.registration, parts.gate1, parts.gate2).core.status is Status.CERTIFIED


def with_hit(case: Case, index: int = 5) -> Case:
    case["gate2"]["controls"][index]["per_unit"] = list(case["gate1"]["astar"]["per_unit"])
    return seal(case)


def test_a_fault_of_core_keeps_it_from_being_certified_but_not_refuted() -> None:
    assert with_fault(small_core_case(), CORE_ONLY).core.status is Status.INCONCLUSIVE
    assert with_fault(with_hit(small_core_case()), CORE_ONLY).core.status is Status.REFUTED
    assert with_fault(with_hit(small_core_case()), EVERY_HIT).core.status is Status.INCONCLUSIVE


def test_a_fault_of_one_attempt_blocks_that_hit_alone() -> None:
    blocks = frozenset({Stake.CORE, Stake.CHALLENGER_HIT})
    assert with_fault(with_hit(small_core_case(), 5), blocks, 5).core.status is Status.INCONCLUSIVE
    assert with_fault(with_hit(small_core_case(), 5), blocks, 6).core.status is Status.REFUTED


def test_a_fault_of_the_feedback_leaves_core_alone() -> None:
    decision = with_fault(small_evidence_case(), EVIDENCE_ONLY)
    assert (decision.core.status, decision.evidence.status) == (Status.CERTIFIED, Status.INCONCLUSIVE)
    assert decision.gate3.effect is None
    assert decision.gate3.neutral.recovery is Recovery.INCONCLUSIVE


def test_undisclosed_neutral_branches_block_core_only_where_they_are_challengers() -> None:
    assert with_fault(small_evidence_case(), NEUTRAL_DISCLOSURE).core.status is Status.CERTIFIED
    in_scope = with_fault(lineage_empty(small_evidence_case()), NEUTRAL_DISCLOSURE)
    assert (in_scope.core.status, in_scope.core.rule) == (Status.INCONCLUSIVE, "V14")
    unknown_scope = with_fault(small_evidence_case(), NEUTRAL_DISCLOSURE | {Stake.NEUTRAL_SCOPE})
    assert unknown_scope.core.rule == "V14"


@pytest.mark.parametrize(
    "absurd",
    [
        {"null_interval_method": "student_t"},
        {"feedback_interval_method": ""},
        {"alpha_evidence": 0.0, "alpha_null": 7.0},
        {"alpha_neutral": -1.0},
        {"alpha_neutral": 2.0, "alpha_evidence": 2.0, "feedback_pairs": -3, "null_pairs": 10**9},
    ],
)
def test_absurd_feedback_numbers_of_a_core_audit_do_not_crash(absurd: dict[str, Any]) -> None:
    """They are not validated for a core grade, yet neutral branches may bear on Core."""
    for hits, expected in (([], None), ([3], Status.REFUTED)):
        parts = decoded(neutral_hits(lineage_empty(small_evidence_case()), hits))
        registration = dataclasses.replace(parts.registration, grade="core", **absurd)
        decision = decide(registration, parts.gate1, parts.gate2, parts.gate3)
        assert decision.violations == ()
        assert decision.evidence.status is Status.NOT_TESTED
        if expected:
            assert decision.core.status is expected


# --- the package itself ------------------------------------------------------------------------------------


def test_a_decision_is_plain_data() -> None:
    for case in (small_core_case(), small_evidence_case()):
        record = plain(decided(case))
        assert json.loads(json.dumps(record, allow_nan=False)) == record


def test_deciding_loads_nothing_but_the_protocol_itself() -> None:
    """No other room of ours, no package, and nothing that reads files, clocks or random numbers by itself."""
    program = (
        "import sys; before = set(sys.modules)\n"
        "import dcpflow.protocol.decision\n"
        "loaded = {name for name in set(sys.modules) - before}\n"
        "print(*sorted(n for n in loaded if n.split('.')[0] not in sys.stdlib_module_names))\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = run.stdout.split()
    assert "dcpflow.protocol.decision" in loaded
    assert [n for n in loaded if n != "dcpflow" and not n.startswith("dcpflow.protocol")] == []
    for name in loaded:
        source = Path(sys.modules[name].__file__ or "").read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Import):
                assert not {alias.name for alias in node.names} & {"os", "pathlib", "time", "random", "secrets"}
