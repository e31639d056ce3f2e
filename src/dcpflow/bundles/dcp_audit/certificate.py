"""What a bundle's certificate has to say, given its evidence and our decision on it (5.10).

Statuses, classes, counts, numbers, digests and every value repeated from the evidence are given; wording is
not (:class:`~dcpflow.bundles.dcp_audit.comparison.Words`).
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from dcpflow.bundles.dcp_audit import digests
from dcpflow.bundles.dcp_audit.comparison import Echo, Reasons, Words
from dcpflow.bundles.dcp_audit.decode import Decoded, registration_payload
from dcpflow.protocol.decision import Decision
from dcpflow.protocol.faults import Stake, blocking
from dcpflow.protocol.gate2 import AttemptResult, RecoveryResult
from dcpflow.protocol.gate3 import Gate3Result
from dcpflow.protocol.intervals import Interval
from dcpflow.protocol.model import (
    Adequacy,
    Attempt,
    AttemptStatus,
    Branch,
    Check,
    Effect,
    FeedbackPair,
    Gate3Evidence,
    NullPair,
    Recovery,
    Status,
)
from dcpflow.protocol.neutral_recovery import neutral_attempt
from dcpflow.protocol.pairs import PairResult, PairStatus
from dcpflow.protocol.registration import NO_REPLACEMENT, Registration
from dcpflow.protocol.verdicts import Verdict

_REPLACEMENT_KEYS: Final = (
    "gate3_pair_replacement_policy",
    "max_feedback_pair_replacements",
    "max_sham_pair_replacements",
)
_SCOPE_KEYS: Final = (
    "alpha_total",
    "audit_family_id",
    "audit_slot_id",
    "audit_slot_reservation_receipt_hash",
    "challenge_distribution_hash",
    "ci_method",
    "delta_evidence",
    "delta_min",
    "delta_sham",
    "family_alpha_total",
    "family_max_audits",
    "feedback_ci_method",
    "feedback_inference_scope",
    "gate2_control_contract_hash",
    "gate3_checkpoint_scope",
    "gate3_neutral_arm_contract_hash",
    "gate3_neutral_recovery_contract_hash",
    "gate3_pair_randomization_distribution_hash",
    "gate3_paired_arm_contract_hash",
    "gate3_truthful_arm_contract_hash",
    "inference_scope",
    "interface_hash",
    "kappa",
    "m_max",
    "max_execution_contract_violation_rate",
    "max_model_failure_rate",
    "recovery_stratum",
    "registered_n_feedback_pairs",
    "registered_n_sham_pairs",
    "rho",
    "rho_placebo",
    "score_range_id",
    "sham_ci_method",
    "sham_inference_scope",
    "sham_randomization_distribution_hash",
    "task_family_profile",
)
_ALPHA_NAMES: Final = {"alpha_null": "alpha_sham"}
_OPEN: Final = (AttemptStatus.UNRESOLVED, AttemptStatus.EXECUTION_CONTRACT_VIOLATION)
_PAIR_STATUS: Final = {PairStatus.ANALYSED: "analyzed"}


def expected_certificate(decoded: Decoded, decision: Decision) -> dict[str, Any]:
    """The certificate that goes with a bundle's evidence, wording left open."""
    reg = decoded.registration
    expected: dict[str, Any] = {
        "protocol": _protocol(decoded, decision),
        "claim": {"claim_id": reg.claim_id, "necessity_claim_requested": reg.necessity_claimed},
        "scope": _scope(reg),
        "registration": {
            "complete": not decision.violations,
            "errors": Reasons(not decision.violations),
            "frozen": _frozen(reg),
        },
        "integrity": _integrity(decoded, decision),
        "fields": _fields(decoded, decision),
        "validity": _validity(decoded, decision),
        "no_feedback_recovery": _no_feedback_recovery(decoded, decision),
        "verdict": _verdict(decision),
    }
    if decoded.gate3 is not None:
        expected["feedback_test"] = _feedback_test(decoded, decoded.gate3, decision)
    return expected


def _protocol(decoded: Decoded, decision: Decision) -> dict[str, Any]:
    return {
        "name": "DCP-v2",
        "implementation": Words(),
        "grade_requested": decoded.registration.grade,
        "record_type": _record_type(decoded, decision),
        "formal_certificate_issued": False,
        "registry_status": Words(),
        "issuance_note": Words(),
    }


def _record_type(decoded: Decoded, decision: Decision) -> str:
    if decision.violations or blocking(decision.faults, Stake.CORE):
        return "inconclusive_audit"
    witness = decision.gate3 is not None and decision.gate3.neutral.witnesses
    missing = decoded.gate3 is None and decoded.registration.grade == "evidence"
    if missing or (blocking(decision.faults, Stake.EVIDENCE) and not witness):
        return "complete_core_with_inconclusive_evidence"
    return "complete_kernel_decision_record"


def _scope(reg: Registration) -> dict[str, Any]:
    payload = registration_payload(reg)
    keys = _SCOPE_KEYS if reg.replacement_policy == NO_REPLACEMENT else _SCOPE_KEYS + _REPLACEMENT_KEYS
    return {
        **{key: payload[key] for key in keys},
        "model": reg.model_id,
        "score_range": [0.0, 1.0],
        "epsilon": reg.epsilon,
        "gate2_profile": "single_matched_stratum_v1",
        "alpha_allocation": {_ALPHA_NAMES.get(key, key): getattr(reg, key) for key in reg.active_alphas},
    }


def _frozen(reg: Registration) -> dict[str, Any]:
    payload = registration_payload(reg)
    if (reg.replacement_policy, reg.max_feedback_replacements, reg.max_null_replacements) == (
        NO_REPLACEMENT,
        0,
        0,
    ):
        for key in _REPLACEMENT_KEYS:
            del payload[key]
    return payload


def _integrity(decoded: Decoded, decision: Decision) -> dict[str, Any]:
    faults = decision.faults
    core = blocking(faults, Stake.CORE)
    expected: dict[str, Any] = {
        "complete": not core,
        "errors": Reasons(not core),
        "neutral_positive_witness_preserved": bool(decision.gate3 and decision.gate3.neutral.witnesses),
        "evidence": dataclasses.asdict(decoded.envelope),
    }
    for complete, errors, stake in (
        ("gate3_complete", "gate3_errors", Stake.EVIDENCE),
        ("neutral_candidate_integrity_complete", "neutral_candidate_errors", Stake.NEUTRAL_HIT),
        ("neutral_ledger_integrity_complete", "neutral_ledger_errors", Stake.NEUTRAL_LEDGER),
    ):
        clean = not blocking(faults, stake)
        # A broken Gate 1 or envelope reaches these lists too, in ways that decide nothing any more.
        expected[complete] = Echo(True, False) if core else clean
        expected[errors] = Reasons(None if core else clean)
    return expected


def _fields(decoded: Decoded, decision: Decision) -> dict[str, Any]:
    gate3 = decision.gate3
    tested = decoded.gate3 is not None
    null = gate3.null.adequacy if gate3 and gate3.null else Check.INCONCLUSIVE
    effect = gate3.effect.effect if gate3 and gate3.effect else Effect.INCONCLUSIVE
    neutral = gate3.neutral.recovery if gate3 else Recovery.INCONCLUSIVE
    return {
        "result_validity": (decision.gate1.result_valid if decision.gate1 else Check.INCONCLUSIVE).value,
        "no_feedback_recovery": _recovery(decision.gate2).value,
        "feedback_effect": effect.value if tested else Status.NOT_TESTED.value,
        "sham_adequacy": null.value if tested else Status.NOT_TESTED.value,
        "neutral_recovery": neutral.value if tested else Status.NOT_TESTED.value,
        "initial_evidence_effect": "not_tested",
        "external_recovery": "not_assessed",
        "human_assistance": decoded.envelope.human_assistance,
        "attribution_subject": decoded.envelope.attribution_subject,
        "historical_novelty": "not_assessed",
    }


def _recovery(result: RecoveryResult | None) -> Recovery:
    return result.recovery if result else Recovery.INCONCLUSIVE


def _validity(decoded: Decoded, decision: Decision) -> dict[str, Any]:
    gate1 = decision.gate1
    return {
        "status": (gate1.result_valid if gate1 else Check.INCONCLUSIVE).value,
        "astar_validity": decoded.gate1.claimed.validity.value,
        "baseline_validity": decoded.gate1.baseline.validity.value,
        "x": _finite(gate1.claimed_score) if gate1 else None,
        "effect_mean": _finite(gate1.gain.mean) if gate1 else None,
        "effect_ci": _ends(gate1.gain if gate1 else None),
        "delta_min": decoded.registration.delta_min,
        "epsilon": decoded.registration.epsilon,
        "alpha_main": decoded.registration.alpha_main,
        "baseline_fails_p": (gate1.baseline_fails if gate1 else Check.INCONCLUSIVE).value,
        "reason": Words(),
    }


def _no_feedback_recovery(decoded: Decoded, decision: Decision) -> dict[str, Any]:
    reg, result = decoded.registration, decision.gate2
    attempts = {attempt.attempt_id: attempt for attempt in decoded.gate2.attempts}
    rows = result.attempts if result else ()
    return {
        **_recovery_counts(result, decoded.gate2.adequacy, reg.alpha_adequacy),
        "a_i": result.attempt_alpha if result else None,
        "n_started": result.started if result else 0,
        "n_evaluable": result.counted if result else 0,
        "hit_admissibility_pass": result is not None,
        "hit_admissibility_reasons": Reasons(result is not None),
        "best_control_margin": _finite(result.best_margin) if result else None,
        "rho": reg.rho,
        "alpha_score": reg.alpha_score,
        "alpha_recovery": reg.alpha_recovery,
        "attempt_breakdown": dict(Counter(row.status.value for row in rows)),
        "attempts": [_attempt(attempts[row.attempt_id], row) for row in rows],
    }


def _recovery_counts(result: RecoveryResult | None, adequacy: Adequacy | None, alpha_adequacy: float) -> dict[str, Any]:
    """What the two recovery blocks of a certificate have in common."""
    adequacy = adequacy or Adequacy()
    return {
        "status": _recovery(result).value,
        "adequacy_pass": bool(result and result.adequate),
        "adequacy_reasons": Reasons(bool(result and result.adequate)),
        "positive_control": {
            "successes": adequacy.positive_control_successes if result else 0,
            "trials": adequacy.positive_control_trials if result else 0,
            "lcb": result.control_recall_bound if result else None,
            "alpha": alpha_adequacy,
            "calibration_id": adequacy.calibration_id if result else "",
            "manifest_hash": adequacy.checks_digest if result else "",
        },
        "n_ind": result.independent if result else 0,
        "hits": result.hits if result else 0,
        "admissible_hits": result.hits if result else 0,
        "unresolved": result.unresolved if result else 0,
        "p_upper": result.bound if result else None,
        "reason": Words(),
    }


def _attempt(attempt: Attempt, row: AttemptResult) -> dict[str, Any]:
    return {
        "attempt_id": attempt.attempt_id,
        "artifact_hash": attempt.artifact_digest,
        "verifier_result_hash": digests.attempt(attempt),
        "stratum": attempt.stratum,
        "scope_contract_hash": attempt.contract_digest,
        "prestart_contract_receipt_hash": attempt.prestart_receipt,
        "challenge_distribution_hash": attempt.distribution_digest,
        "independent_draw_receipt_hash": attempt.draw_receipt,
        "independent_unit_id": attempt.independent_unit,
        "status": row.status.value,
        "d_mean": _finite(row.difference.mean) if row.difference else None,
        "adjusted_ci": _ends(row.difference),
        "counts_in_denominator": row.counted,
        "counts_in_n_ind": row.independent,
        "reason": Words(),
    }


def _verdict(decision: Decision) -> dict[str, Any]:
    def kind(verdict: Verdict) -> str:
        return verdict.inconclusive_class.value if verdict.inconclusive_class else "null"

    return {
        "core": decision.core.status.value,
        "evidence": decision.evidence.status.value,
        "core_inconclusive_class": kind(decision.core),
        "evidence_inconclusive_class": kind(decision.evidence),
        "statement": Words(),
        "reason": Words(),
    }


# --- the feedback experiment -------------------------------------------------------------------------------


def _feedback_test(decoded: Decoded, evidence: Gate3Evidence, decision: Decision) -> dict[str, Any]:
    reg, result = decoded.registration, decision.gate3
    expected = {
        **_echoes(reg, evidence),
        **_null_block(evidence, result),
        **_effect_block(evidence, result),
        "neutral_in_gate2_scope": _in_scope(decision),
        "lineage_empty_hit_refutes_core": bool(result and result.neutral.refutes_core),
        "estimand": reg.feedback_estimand,
        "utility_mapping": reg.utility_mapping,
        "utility_scale_id": reg.utility_scale_id,
        "sham_calibration_id": reg.null_calibration_id,
        "delta_sham": reg.delta_null,
        "alpha_sham": reg.alpha_null,
        "delta_evidence": reg.delta_evidence,
        "alpha_evidence": reg.alpha_evidence,
        "neutral_recovery": _neutral_block(decoded, evidence, result),
        "reason": Words(),
    }
    if evidence.neutral_contract_audit_pass is not None:
        expected["neutral_contract_audit_pass"] = evidence.neutral_contract_audit_pass
    return expected


def _in_scope(decision: Decision) -> bool:
    """The format says so only where the experiment was evaluated or one of its hits was kept."""
    result = decision.gate3
    shown = result is not None and (result.effect is not None or bool(result.neutral.witnesses))
    return bool(shown and result and result.neutral.in_challenger_scope)


def _echoes(reg: Registration, evidence: Gate3Evidence) -> dict[str, Any]:
    given, null = evidence.neutral_conditions, evidence.null
    texts = {
        "checkpoint_scope": evidence.checkpoint_scope,
        "checkpoint_hash": evidence.checkpoint_digest,
        "window_hash": evidence.window_digest,
        "feedback_pairs_manifest_hash": evidence.pairs_digest,
        "paired_arm_contract_hash": evidence.paired_contract_digest,
        "truthful_arm_contract_hash": evidence.truthful_contract_digest,
        "neutral_arm_contract_hash": evidence.neutral_contract_digest,
        "neutral_recovery_contract_hash": evidence.neutral_recovery_contract_digest,
        "truthful_feedback_generator_hash": evidence.truthful_generator_digest,
        "neutral_sham_generator_hash": evidence.neutral_generator_digest,
        "contract_preseal_receipt_hash": evidence.preseal_receipt,
        "neutral_scope_audit_manifest_hash": evidence.neutral_scope_digest,
        "neutral_challenger_policy_hash": given.policy_digest,
        "development_manifest_hash": null.development_digest,
        "confirmatory_manifest_hash": null.confirmatory_digest,
    }
    flags = {
        "design_checks_pass": evidence.design_checks_pass,
        "stopping_rule_pass": evidence.stopping_rule_pass,
        "registered_pairs_complete": evidence.registered_pairs_complete,
        "all_started_pairs_disclosed": evidence.all_started_disclosed,
        "no_pair_replacements": evidence.no_replacements,
        "paired_contract_audit_pass": evidence.paired_contract_audit_pass,
        "truthful_channel_audit_pass": evidence.truthful_channel_audit_pass,
        "neutral_channel_audit_pass": evidence.neutral_channel_audit_pass,
        "contract_sealed_before_branches_pass": evidence.sealed_before_branches,
        "sham_all_started_pairs_disclosed": null.all_started_disclosed,
        "sham_no_pair_replacements": null.no_replacements,
    }
    counts = {
        "started_pair_count": evidence.started_pairs,
        "sham_started_pair_count": null.started_pairs,
    }
    null_contract = {
        "paired_arm_contract_hash": null.paired_contract_digest,
        "reference_arm_contract_hash": null.reference_contract_digest,
        "proposed_arm_contract_hash": null.proposed_contract_digest,
        "reference_null_generator_hash": null.reference_generator_digest,
        "contract_preseal_receipt_hash": null.preseal_receipt,
    }
    conditions = {
        "model_id": given.model_id,
        "interface_hash": given.interface_digest,
        "resource_contract_hash": given.resource_digest,
        "k_manifest_hash": given.knowledge_digest,
        "e0_manifest_hash": given.initial_evidence_digest,
        "web_manifest_hash": given.web_digest,
        "opportunity_contract_hash": given.opportunity_digest,
        "challenger_policy_hash": given.policy_digest,
    }
    return {
        **{key: Echo(value, "") for key, value in texts.items()},
        **{key: Echo(value, False) for key, value in flags.items()},
        **{key: Echo(value, 0) for key, value in counts.items()},
        "contract_sealed_event_index": Echo(evidence.sealed_event_index, -1),
        "first_branch_started_event_index": Echo(evidence.first_branch_event_index, -1),
        "neutral_scope_contract": Echo(conditions, {}),
        "sham_contract": {
            **{key: Echo(value, "") for key, value in null_contract.items()},
            "proposed_sham_generator_hash": Echo(reg.neutral_operator_digest, ""),
            "contract_sealed_event_index": Echo(null.sealed_event_index, -1),
            "first_branch_started_event_index": Echo(null.first_branch_event_index, -1),
        },
    }


def _null_block(evidence: Gate3Evidence, result: Gate3Result | None) -> dict[str, Any]:
    null = result.null if result else None
    difference = null.difference if null else None
    return {
        "sham_adequacy": (null.adequacy if null else Check.INCONCLUSIVE).value,
        "sham_delta_null_mean": _finite(difference.mean) if difference else None,
        "sham_delta_null_ci": _ends(difference),
        "sham_n": Echo(null.analysed, 0) if null else 0,
        "sham_pair_records": Echo(
            [_null_pair(pair, row) for pair, row in zip(evidence.null.pairs, null.pairs, strict=True)], []
        )
        if null
        else [],
    }


def _effect_block(evidence: Gate3Evidence, result: Gate3Result | None) -> dict[str, Any]:
    effect = result.effect if result else None
    analysed = [row for row in effect.pairs if row.status is PairStatus.ANALYSED] if effect else []
    lost = [row for row in effect.pairs if row.status in (PairStatus.EXCLUDED, PairStatus.REPLACED)] if effect else []
    rates = effect.rates if effect else None
    return {
        "feedback_effect": (effect.effect if effect else Effect.INCONCLUSIVE).value,
        "effect_mean": _finite(effect.difference.mean) if effect else None,
        "effect_ci": _ends(effect.difference if effect else None),
        "n_pairs_started": effect.started if effect else 0,
        "n_pairs_analyzed": effect.analysed if effect else 0,
        "pair_ids_analyzed": [row.pair_id for row in analysed],
        "pairs_unresolved": effect.unresolved if effect else 0,
        "pairs_infrastructure_excluded": len(lost),
        "branch_health": {
            "pass": bool(effect and effect.healthy),
            "reasons": Reasons(bool(effect and effect.healthy)),
            "truthful_valid_rate": rates.valid[0] if rates else 0.0,
            "neutral_valid_rate": rates.valid[1] if rates else 0.0,
            "truthful_model_failure_rate": rates.failed[0] if rates else 1.0,
            "neutral_model_failure_rate": rates.failed[1] if rates else 1.0,
            "pair_infrastructure_failure_rate": rates.infrastructure if rates else 1.0,
        },
        "pair_records": Echo(
            [_feedback_pair(pair, row) for pair, row in zip(evidence.pairs, effect.pairs, strict=True)], []
        )
        if effect
        else [],
    }


def _pair_identity(pair: FeedbackPair | NullPair, row: PairResult, arms: Sequence[str]) -> dict[str, Any]:
    named: dict[str, Any] = {
        "pair_id": pair.pair_id,
        "replacement_of": pair.replacement_of,
        "block_id": pair.block_id,
        "randomization_distribution_hash": pair.distribution_digest,
        "randomization_draw_receipt_hash": pair.draw_receipt,
        "status": _PAIR_STATUS.get(row.status, row.status.value),
        "reason": Words(),
    }
    for arm, branch in zip(arms, pair.branches, strict=True):
        named[f"{arm}_branch_id"] = branch.branch_id
        named[f"{arm}_result_hash"] = branch.result_digest
    if row.difference is not None:
        named["difference"] = row.difference
    return named


def _null_pair(pair: NullPair, row: PairResult) -> dict[str, Any]:
    named = _pair_identity(pair, row, ("reference", "proposed"))
    if row.utilities is not None:
        named["reference_utility"], named["proposed_utility"] = row.utilities
    return named


def _feedback_pair(pair: FeedbackPair, row: PairResult) -> dict[str, Any]:
    arms = ("truthful", "neutral")
    named = _pair_identity(pair, row, arms)
    for index, arm in enumerate(arms):
        branch: Branch = pair.branches[index]
        named[f"{arm}_artifact_hash"] = branch.artifact_digest
        named[f"{arm}_raw_utility"] = branch.utility
        if row.utilities is not None:
            named[f"{arm}_analysis_utility"] = row.utilities[index]
        comparison = row.comparisons[index]
        if comparison is not None:
            mean = comparison.difference.mean if comparison.difference else None
            lower, upper = _ends(comparison.difference)
            named[f"{arm}_p_classification"] = {
                "status": comparison.status.value,
                "d_mean": _finite(mean),
                "d_lcb": lower,
                "d_ucb": upper,
                "reason": Words(),
            }
    return named


def _neutral_block(decoded: Decoded, evidence: Gate3Evidence, result: Gate3Result | None) -> dict[str, Any]:
    reg = decoded.registration
    neutral = result.neutral if result else None
    # Shown are the terminal pairs of an evaluated experiment; with a hit, all branches with clean records.
    evaluated = neutral.terminal if neutral and result and result.effect else None
    block = _recovery_counts(evaluated, evidence.neutral_adequacy, reg.alpha_adequacy)
    rows: Sequence[AttemptResult] = evaluated.attempts if evaluated else ()
    if neutral and neutral.witnesses:
        rows = neutral.rows
        block |= {
            "status": neutral.recovery.value,
            "hits": len(neutral.witnesses),
            "admissible_hits": len(neutral.witnesses),
            "n_ind": sum(row.independent for row in rows),
            # Here the format also counts branches out of contract, and those without clean records.
            "unresolved": sum(row.status in _OPEN for row in rows) + len(evidence.pairs) - len(rows),
        }
    attempts = {pair.neutral.branch_id: neutral_attempt(reg, evidence, pair) for pair in evidence.pairs}
    return {
        **block,
        "rho_placebo": reg.rho_neutral,
        "alpha_neutral": reg.alpha_neutral,
        "attempts": [_attempt(attempts[row.attempt_id], row) for row in rows],
    }


def _ends(interval: Interval | None) -> list[float | None]:
    return [_finite(interval.lower), _finite(interval.upper)] if interval else [None, None]


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
