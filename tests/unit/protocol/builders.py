"""Evidence for tests, in the interchange form of dcp-audit bundles: plain dictionaries.

One dictionary feeds both engines: ``reference(case)`` gives the objects of the installed dcp-audit package,
``dcpflow.bundles.dcp_audit`` decodes the same payloads into ours. ``seal(case)`` recomputes every dependent
digest with the reference's own functions, so that ours are tested against them.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

Case = dict[str, Any]

EVIDENCE_NAMES = (
    "scaffold_hash",
    "feedback_schema_hash",
    "sham_operator_hash",
    "utility_scale_id",
    "sham_calibration_id",
    "gate3_paired_arm_contract_hash",
    "gate3_truthful_arm_contract_hash",
    "gate3_neutral_arm_contract_hash",
    "gate3_neutral_recovery_contract_hash",
    "gate3_checkpoint_selection_rule_hash",
    "gate3_resource_contract_hash",
    "gate3_opportunity_contract_hash",
    "gate3_branch_policy_hash",
    "truthful_feedback_generator_hash",
    "gate3_pair_randomization_distribution_hash",
    "sham_randomization_distribution_hash",
    "sham_paired_arm_contract_hash",
    "sham_reference_arm_contract_hash",
    "sham_proposed_arm_contract_hash",
    "reference_null_generator_hash",
)
TRUE_FLAGS = (
    "registration_frozen",
    "claim_frozen",
    "provenance_pass",
    "iterative_lineage_eligible",
    "lineage_dataflow_audit_pass",
    "challenger_contract_pass",
    "private_isolation_pass",
    "symmetric_verifier_pass",
    "inference_assumptions_pass",
    "feedback_inference_assumptions_pass",
    "sham_inference_assumptions_pass",
    "familywise_budget_audit_pass",
    "recovery_ledger_complete",
)
FREE_HASHES = (
    "verifier_hash",
    "p_hash",
    "resource_contract_hash",
    "selection_rule_hash",
    "k_manifest_hash",
    "e0_manifest_hash",
    "lineage_manifest_hash",
    "observed_web_manifest_hash",
    "challenger_policy_hash",
    "opportunity_contract_hash",
    "claim_family_manifest_hash",
    "audit_slot_registry_entry_hash",
)


def noisy(mean: float, n: int, sd: float = 0.0, seed: int = 0) -> list[float]:
    """``n`` scores around ``mean``, clipped to [0, 1]; the same for the same arguments."""
    if not sd:
        return [mean] * n
    rng = random.Random(f"{mean}/{n}/{sd}/{seed}")
    return [min(1.0, max(0.0, rng.gauss(mean, sd))) for _ in range(n)]


def unit_ids(n: int) -> list[str]:
    return [f"unit-{i:04d}" for i in range(n)]


def artifact(name: str, scores: Sequence[float], **changes: Any) -> dict[str, Any]:
    return {
        "name": name,
        "per_unit": list(scores),
        "validity": "valid",
        "artifact_hash": f"digest-of-{name}",
        "unit_ids": unit_ids(len(scores)),
        **changes,
    }


def control(index: int, scores: Sequence[float] | None, **changes: Any) -> dict[str, Any]:
    """A challenger that committed an artifact with these scores; without scores, a model failure."""
    return {
        "attempt_id": f"attempt-{index:04d}",
        "outcome": "artifact" if scores is not None else "model_failure",
        "per_unit": list(scores) if scores is not None else None,
        "validity": "valid" if scores is not None else "unresolved",
        "artifact_hash": f"digest-of-attempt-{index}" if scores is not None else "",
        "unit_ids": unit_ids(len(scores)) if scores is not None else [],
        "stratum": "matched",
        "scope_contract_hash": "challenger-contract",
        "prestart_contract_receipt_hash": f"prestart-{index:04d}",
        "challenge_distribution_hash": "challenge-distribution",
        "independent_draw_receipt_hash": f"draw-{index:04d}",
        "independent_unit_id": f"presentation-{index:04d}",
        "independence_ok": True,
        "infrastructure_outcome_independent": False,
        **changes,
    }


def lost(row: dict[str, Any], *, independent: bool = True) -> dict[str, Any]:
    """The same attempt or branch, lost to infrastructure."""
    row = {**row, "outcome": "infrastructure_invalid", "validity": "unresolved", "artifact_hash": ""}
    row |= {"per_unit": None, "unit_ids": [], "infrastructure_outcome_independent": independent}
    return row | ({"utility": None} if "utility" in row else {})


def failed(row: dict[str, Any]) -> dict[str, Any]:
    """The same attempt or branch, without an artifact through the agent's own fault."""
    row = {**row, "outcome": "model_failure", "validity": "unresolved", "artifact_hash": ""}
    row |= {"per_unit": None, "unit_ids": [], "infrastructure_outcome_independent": False}
    return row | ({"utility": None} if "utility" in row else {})


def adequacy(successes: int = 99, trials: int = 100) -> dict[str, Any]:
    return {
        "matched_model_present": True,
        "materials_readable": True,
        "opportunity_floor_met": True,
        "health_audit_pass": True,
        "positive_control_successes": successes,
        "positive_control_trials": trials,
        "calibration_id": "positive-controls",
        "checks_manifest_hash": "",
    }


def branch(name: str, contract: str, scores: Sequence[float] | None, *, utility: float | None = None) -> dict[str, Any]:
    return {
        "outcome": "artifact",
        "utility": utility,
        "validity": "valid",
        "branch_id": name,
        "artifact_hash": f"digest-of-{name}",
        "verifier_result_hash": "",
        "execution_contract_hash": contract,
        "prestart_contract_receipt_hash": f"prestart-{name}",
        "per_unit": list(scores) if scores is not None else None,
        "unit_ids": unit_ids(len(scores)) if scores is not None else [],
        "infrastructure_outcome_independent": False,
    }


def _pair(index: int, family: str, distribution: str, arms: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "pair_id": f"{family}-{index:04d}",
        **arms,
        "block_id": f"{family}-block-{index:04d}",
        "randomization_distribution_hash": distribution,
        "randomization_draw_receipt_hash": f"{family}-draw-{index:04d}",
        "assignment_frozen": True,
        "independence_ok": True,
        "replacement_of": "",
        **changes,
    }


def feedback_pair(index: int, truthful: Sequence[float], neutral: Sequence[float], **changes: Any) -> dict[str, Any]:
    arms = {
        "truthful": branch(f"truthful-{index:04d}", "gate3_truthful_arm_contract_hash", truthful),
        "neutral": branch(f"neutral-{index:04d}", "gate3_neutral_arm_contract_hash", neutral),
    }
    return _pair(index, "pair", "gate3_pair_randomization_distribution_hash", arms, **changes)


def null_pair(index: int, reference_utility: float, proposed_utility: float, **changes: Any) -> dict[str, Any]:
    arms = {
        "reference_null": branch(
            f"reference-{index:04d}", "sham_reference_arm_contract_hash", None, utility=reference_utility
        ),
        "proposed_sham": branch(
            f"proposed-{index:04d}", "sham_proposed_arm_contract_hash", None, utility=proposed_utility
        ),
    }
    return _pair(index, "null", "sham_randomization_distribution_hash", arms, **changes)


def core_registration(**changes: Any) -> dict[str, Any]:
    return {
        "claim_id": "claim",
        "audit_family_id": "family",
        "model_id": "model",
        "interface_hash": "interface",
        "task_family_profile": "profile",
        "inference_scope": "exhaustive_finite_set",
        "ci_method": "finite_set_exact",
        "delta_min": 0.10,
        "kappa": 0.5,
        "m_max": 100,
        "gate2_control_contract_hash": "challenger-contract",
        "challenge_distribution_hash": "challenge-distribution",
        "audit_slot_id": "slot",
        "audit_slot_reservation_receipt_hash": "slot-receipt",
        "notes": {},
        **changes,
    }


def evidence_registration(**changes: Any) -> dict[str, Any]:
    """Grade evidence. Every digest is the name of its own field, so that a mix-up shows."""
    return core_registration(
        **{
            "grade_requested": "evidence",
            "m_max": 500,
            "registered_n_feedback_pairs": 200,
            "registered_n_sham_pairs": 1600,
            **{name: name for name in EVIDENCE_NAMES},
            "neutral_sham_generator_hash": "sham_operator_hash",
            **changes,
        }
    )


def envelope(**changes: Any) -> dict[str, Any]:
    return {
        **dict.fromkeys(TRUE_FLAGS, True),
        **{name: name for name in FREE_HASHES},
        "astar_hash": "",
        "baseline_hash": "",
        "astar_results_hash": "",
        "baseline_results_hash": "",
        "private_unit_manifest_hash": "",
        "private_results_manifest_hash": "",
        "recovery_ledger_manifest_hash": "",
        "gate2_recovery_ledger_manifest_hash": "",
        "gate3_neutral_scope_manifest_hash": "",
        "gate3_neutral_recovery_ledger_manifest_hash": "",
        "gate3_contract_preseal_receipt_hash": "",
        "sham_contract_preseal_receipt_hash": "",
        "alpha_ledger_receipt_hash": "slot-receipt",
        "human_assistance": "none",
        "attribution_subject": "autonomous_agent",
        "web_access_used": False,
        "web_replay_scope": "not_used",
        **changes,
    }


def null_calibration(pairs: Sequence[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    return {
        "pairs": list(pairs),
        "calibration_id": "sham_calibration_id",
        "development_manifest_hash": "development-manifest",
        "confirmatory_manifest_hash": "",
        "task_family_profile": "profile",
        "model_id": "model",
        "interface_hash": "interface",
        "scaffold_hash": "scaffold_hash",
        "feedback_schema_hash": "feedback_schema_hash",
        "operator_hash": "sham_operator_hash",
        "reference_null_generator_hash": "reference_null_generator_hash",
        "utility_scale_id": "utility_scale_id",
        "paired_arm_contract_hash": "sham_paired_arm_contract_hash",
        "reference_arm_contract_hash": "sham_reference_arm_contract_hash",
        "proposed_arm_contract_hash": "sham_proposed_arm_contract_hash",
        "contract_preseal_receipt_hash": "null-preseal",
        "contract_sealed_before_branches_pass": True,
        "contract_sealed_event_index": 3,
        "first_branch_started_event_index": 4,
        "channel_checks_pass": True,
        "freshness_pass": True,
        "operator_frozen_before_confirmatory": True,
        "development_confirmatory_disjoint": True,
        "all_started_pairs_disclosed": True,
        "no_pair_replacements": all(not p["replacement_of"] for p in pairs),
        "started_pair_count": len(pairs),
        **changes,
    }


def feedback_experiment(pairs: Sequence[dict[str, Any]], null: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "pairs": list(pairs),
        "sham": null,
        "neutral_adequacy": adequacy(),
        "design_checks_pass": True,
        "stopping_rule_pass": True,
        "registered_pairs_complete": True,
        "all_started_pairs_disclosed": True,
        "no_pair_replacements": all(not p["replacement_of"] for p in pairs),
        "paired_contract_audit_pass": True,
        "truthful_channel_audit_pass": True,
        "neutral_channel_audit_pass": True,
        "started_pair_count": len(pairs),
        "checkpoint_scope": "lineage_prefix",
        "checkpoint_hash": "checkpoint",
        "window_hash": "window",
        "feedback_pairs_manifest_hash": "",
        "paired_arm_contract_hash": "gate3_paired_arm_contract_hash",
        "truthful_arm_contract_hash": "gate3_truthful_arm_contract_hash",
        "neutral_arm_contract_hash": "gate3_neutral_arm_contract_hash",
        "neutral_recovery_contract_hash": "gate3_neutral_recovery_contract_hash",
        "truthful_feedback_generator_hash": "truthful_feedback_generator_hash",
        "neutral_sham_generator_hash": "sham_operator_hash",
        "contract_preseal_receipt_hash": "gate3-preseal",
        "contract_sealed_before_branches_pass": True,
        "contract_sealed_event_index": 1,
        "first_branch_started_event_index": 2,
        "neutral_model_id": "model",
        "neutral_interface_hash": "interface",
        "neutral_resource_contract_hash": "gate3_resource_contract_hash",
        "neutral_k_manifest_hash": "k_manifest_hash",
        "neutral_e0_manifest_hash": "e0_manifest_hash",
        "neutral_web_manifest_hash": "observed_web_manifest_hash",
        "neutral_opportunity_contract_hash": "gate3_opportunity_contract_hash",
        "neutral_challenger_policy_hash": "gate3_branch_policy_hash",
        "neutral_scope_audit_manifest_hash": "",
        **changes,
    }


def core_case(
    *,
    claimed: Sequence[float] | None = None,
    baseline: Sequence[float] | None = None,
    controls: Iterable[dict[str, Any]] | None = None,
    **registration: Any,
) -> Case:
    """The base of the numbered scenarios: 200 units, A* .90, baseline .70, 80 controls at .70."""
    claimed = noisy(0.90, 200, 0.01) if claimed is None else claimed
    baseline = noisy(0.70, 200, 0.01) if baseline is None else baseline
    if controls is None:
        controls = [control(i, noisy(0.70, len(claimed), 0.01, seed=i + 1)) for i in range(80)]
    return seal(
        {
            "registration": core_registration(**registration),
            "integrity": envelope(),
            "gate1": {"astar": artifact("claimed", claimed), "baseline": artifact("baseline", baseline)},
            "gate2": {"controls": list(controls), "adequacy": adequacy()},
            "gate3": None,
        }
    )


def evidence_case(
    *,
    truthful: float = 0.90,
    neutral: float = 0.60,
    pairs: int = 200,
    null_utilities: tuple[float, float] = (0.80, 0.80),
    null_sd: float = 0.001,
    null_pairs: int = 1600,
    units: int = 200,
    challengers: int = 80,
    **registration: Any,
) -> Case:
    """The Evidence base: 200 pairs .90 v .60, 1600 null pairs .80 v .80, checkpoint ``lineage_prefix``."""
    case = core_case(
        claimed=noisy(0.90, units, 0.01),
        baseline=noisy(0.70, units, 0.01),
        controls=[control(i, noisy(0.70, units, 0.01, seed=i + 1)) for i in range(challengers)],
    )
    case["registration"] = evidence_registration(
        **{"registered_n_feedback_pairs": pairs, "registered_n_sham_pairs": null_pairs, **registration}
    )
    case["integrity"]["selection_rule_hash"] = "gate3_checkpoint_selection_rule_hash"
    left, right = (noisy(u, null_pairs, null_sd, seed=s) for s, u in enumerate(null_utilities))
    case["gate3"] = feedback_experiment(
        [
            feedback_pair(i, noisy(truthful, units, 0.01, seed=-2 * i), noisy(neutral, units, 0.01, seed=-2 * i - 1))
            for i in range(pairs)
        ],
        null_calibration([null_pair(i, left[i], right[i]) for i in range(null_pairs)]),
    )
    return seal(case)


def lineage_empty(case: Case) -> Case:
    """Make the neutral arm part of the challengers' scope: empty checkpoint, same contract and conditions."""
    registration, integrity, gate3 = case["registration"], case["integrity"], case["gate3"]
    registration["gate3_checkpoint_scope"] = gate3["checkpoint_scope"] = "lineage_empty"
    for name, value in (
        ("gate3_neutral_recovery_contract_hash", registration["gate2_control_contract_hash"]),
        ("gate3_pair_randomization_distribution_hash", registration["challenge_distribution_hash"]),
        ("gate3_resource_contract_hash", integrity["resource_contract_hash"]),
        ("gate3_opportunity_contract_hash", integrity["opportunity_contract_hash"]),
        ("gate3_branch_policy_hash", integrity["challenger_policy_hash"]),
    ):
        registration[name] = value
    gate3["neutral_recovery_contract_hash"] = registration["gate2_control_contract_hash"]
    gate3["neutral_resource_contract_hash"] = integrity["resource_contract_hash"]
    gate3["neutral_opportunity_contract_hash"] = integrity["opportunity_contract_hash"]
    gate3["neutral_challenger_policy_hash"] = integrity["challenger_policy_hash"]
    for pair in gate3["pairs"]:
        pair["randomization_distribution_hash"] = registration["challenge_distribution_hash"]
    return seal(case)


def neutral_hits(case: Case, indices: Iterable[int]) -> Case:
    """Give these pairs' neutral branches A*'s scores."""
    scores = case["gate1"]["astar"]["per_unit"]
    for index in indices:
        case["gate3"]["pairs"][index]["neutral"]["per_unit"] = list(scores)
    return seal(case)


def reference(case: Case) -> dict[str, Any]:
    """The same evidence as objects of the reference: reg, integrity, gate1_ev, gate2_ev, gate3_ev."""
    from dcp import types as t
    from dcp.registration import Registration

    def scored(row: dict[str, Any]) -> Any:
        return t.ArtifactScores(**{**row, "validity": t.Validity(row["validity"])})

    def attempt(row: dict[str, Any]) -> Any:
        enums = {"validity": t.Validity(row["validity"]), "outcome": t.RawAttemptOutcome(row["outcome"])}
        return t.ControlAttempt(**{**row, **enums})

    def outcome(row: dict[str, Any]) -> Any:
        enums = {"validity": t.Validity(row["validity"]), "outcome": t.RawAttemptOutcome(row["outcome"])}
        return t.BranchOutcome(**{**row, **enums})

    def pair(row: dict[str, Any], kind: Callable[..., Any], *arms: str) -> Any:
        return kind(**{**row, **{arm: outcome(row[arm]) for arm in arms}})

    gate3 = None
    if case["gate3"] is not None:
        raw = case["gate3"]
        null = {
            **raw["sham"],
            "pairs": [pair(p, t.ShamPair, "reference_null", "proposed_sham") for p in raw["sham"]["pairs"]],
        }
        neutral = raw["neutral_adequacy"]
        gate3 = t.Gate3Evidence(
            **{
                **raw,
                "pairs": [pair(p, t.FeedbackPair, "truthful", "neutral") for p in raw["pairs"]],
                "sham": t.ShamCalibration(**null),
                "neutral_adequacy": None if neutral is None else t.AdequacyEvidence(**neutral),
            }
        )
    return {
        "reg": Registration(**copy.deepcopy(case["registration"])),
        "gate1_ev": t.Gate1Evidence(astar=scored(case["gate1"]["astar"]), baseline=scored(case["gate1"]["baseline"])),
        "gate2_ev": t.Gate2Evidence(
            controls=[attempt(c) for c in case["gate2"]["controls"]],
            adequacy=t.AdequacyEvidence(**case["gate2"]["adequacy"]),
        ),
        "gate3_ev": gate3,
        "integrity": None if case["integrity"] is None else t.IntegrityEvidence(**case["integrity"]),
    }


def seal(case: Case) -> Case:
    """Recompute every digest that depends on other fields, in the order of construction. Returns ``case``."""
    from dcp import integrity as digests
    from dcp import types as t

    integrity, gate3 = case["integrity"], case["gate3"]
    for block in (case["gate2"]["adequacy"], gate3["neutral_adequacy"] if gate3 else None):
        if block is not None:
            block["checks_manifest_hash"] = digests.adequacy_evidence_hash(t.AdequacyEvidence(**block))
    objects = reference(case)
    if gate3 is not None:
        evidence = objects["gate3_ev"]
        for rows, pairs, arms in (
            (gate3["pairs"], evidence.pairs, ("truthful", "neutral")),
            (gate3["sham"]["pairs"], evidence.sham.pairs, ("reference_null", "proposed_sham")),
        ):
            for row, pair in zip(rows, pairs, strict=True):
                for arm in arms:
                    row[arm]["verifier_result_hash"] = digests.branch_result_hash(getattr(pair, arm))
        gate3["feedback_pairs_manifest_hash"] = digests.feedback_pairs_manifest_hash(evidence.pairs)
        gate3["sham"]["confirmatory_manifest_hash"] = digests.sham_pairs_manifest_hash(evidence.sham.pairs)
    if integrity is None:
        return case
    one, two = objects["gate1_ev"], objects["gate2_ev"]
    integrity |= {
        "astar_hash": one.astar.artifact_hash,
        "baseline_hash": one.baseline.artifact_hash,
        "astar_results_hash": digests.artifact_results_hash(one.astar),
        "baseline_results_hash": digests.artifact_results_hash(one.baseline),
        "private_unit_manifest_hash": digests.unit_manifest_hash(one.astar.unit_ids),
        "private_results_manifest_hash": digests.private_results_manifest_hash(
            one.astar, one.baseline, integrity["verifier_hash"]
        ),
        "gate2_recovery_ledger_manifest_hash": digests.recovery_ledger_manifest_hash(two.controls),
        "recovery_ledger_manifest_hash": digests.recovery_ledger_manifest_hash(two.controls, objects["gate3_ev"]),
    }
    if gate3 is not None:
        scope = digests.gate3_neutral_scope_manifest_hash(objects["gate3_ev"], integrity["selection_rule_hash"])
        ledger = digests.gate3_neutral_recovery_ledger_manifest_hash(objects["gate3_ev"])
        gate3["neutral_scope_audit_manifest_hash"] = scope
        integrity |= {
            "gate3_neutral_scope_manifest_hash": scope,
            "gate3_neutral_recovery_ledger_manifest_hash": ledger,
            "gate3_contract_preseal_receipt_hash": gate3["contract_preseal_receipt_hash"],
            "sham_contract_preseal_receipt_hash": gate3["sham"]["contract_preseal_receipt_hash"],
        }
    return case


def small_core_case(**registration: Any) -> Case:
    """A Core case that certifies with few records: 80 attempts, four units."""
    controls = [control(i, noisy(0.70, 4, 0.01, seed=i + 1)) for i in range(80)]
    return core_case(claimed=noisy(0.90, 4, 0.01), baseline=noisy(0.70, 4, 0.01), controls=controls, **registration)


def small_evidence_case(**registration: Any) -> Case:
    """An Evidence case that certifies with few and short records: 170 pairs of each kind, two units.

    Margins are wider than in the published base, since the continuous interval needs pairs in proportion to
    1 / margin; everything else is the same.
    """
    return evidence_case(
        **{
            "neutral": 0.05,
            "pairs": 170,
            "null_pairs": 170,
            "units": 2,
            "delta_evidence": 0.4,
            "delta_sham": 0.2,
            **registration,
        }
    )


def decoded(case: Case) -> Any:
    """The evidence in the vocabulary of our protocol."""
    from dcpflow.bundles.dcp_audit import decode

    return decode({name: payload for name, payload in case.items() if payload is not None})


def decided(case: Case, *, verifier_flaw: bool = False) -> Any:
    """Our decision on a case, its envelope and digests included."""
    from dcpflow.bundles.dcp_audit import envelope_faults
    from dcpflow.protocol.decision import decide

    parts = decoded(case)
    return decide(
        parts.registration,
        parts.gate1,
        parts.gate2,
        parts.gate3,
        envelope_faults(parts),
        verifier_flaw=verifier_flaw,
    )
