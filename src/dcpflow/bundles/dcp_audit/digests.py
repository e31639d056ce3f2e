"""The digests inside a bundle (5.2, 5.6): D1 to D12, recomputed from the decoded evidence.

Each is the bare hexadecimal SHA-256 of compact sorted JSON without a newline. Scores and utilities enter as
Python's hexadecimal floats, so that no decimal rounding comes between two implementations.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from dcpflow.bundles.dcp_audit.strict_json import compact
from dcpflow.protocol.model import (
    Adequacy,
    Attempt,
    Branch,
    FeedbackPair,
    Gate1Evidence,
    Gate3Evidence,
    NullPair,
    ScoredArtifact,
)


def units(unit_ids: Sequence[str]) -> str:
    """D1: the sealed units, in order."""
    return _digest({"unit_ids": list(unit_ids)})


def artifact(scored: ScoredArtifact) -> str:
    """D2: an artifact's sealed results."""
    return _digest(
        {
            "artifact_hash": scored.digest,
            "validity": scored.validity.value,
            "unit_ids": list(scored.unit_ids),
            "scores": _hex(scored.scores),
        }
    )


def private_results(gate1: Gate1Evidence, verifier_hash: str) -> str:
    """D3: both artifacts' results under one scorer."""
    return _digest(
        {
            "verifier_hash": verifier_hash,
            "astar_results_hash": artifact(gate1.claimed),
            "baseline_results_hash": artifact(gate1.baseline),
        }
    )


def attempt(row: Attempt) -> str:
    """D4: one attempt and its result."""
    return _digest(
        {
            "attempt_id": row.attempt_id,
            "outcome": row.outcome.value,
            "validity": row.validity.value,
            "artifact_hash": row.artifact_digest,
            "unit_ids": list(row.unit_ids),
            "scores": None if row.scores is None else _hex(row.scores),
            "stratum": row.stratum,
            "scope_contract_hash": row.contract_digest,
            "prestart_contract_receipt_hash": row.prestart_receipt,
            "challenge_distribution_hash": row.distribution_digest,
            "independent_draw_receipt_hash": row.draw_receipt,
            "independent_unit_id": row.independent_unit,
            "independence_ok": row.independent,
            "infrastructure_outcome_independent": row.infrastructure_independent,
        }
    )


def branch(row: Branch) -> str:
    """D5: one branch and its result."""
    return _digest(
        {
            "branch_id": row.branch_id,
            "outcome": row.outcome.value,
            "validity": row.validity.value,
            "artifact_hash": row.artifact_digest,
            "execution_contract_hash": row.contract_digest,
            "prestart_contract_receipt_hash": row.prestart_receipt,
            "utility": None if row.utility is None else float(row.utility).hex(),
            "unit_ids": list(row.unit_ids),
            "scores": None if row.scores is None else _hex(row.scores),
            "infrastructure_outcome_independent": row.infrastructure_independent,
        }
    )


def adequacy(row: Adequacy) -> str:
    """D6: the adequacy checks, without the digest that names them."""
    return _digest(
        {
            "matched_model_present": row.matched_model_present,
            "materials_readable": row.materials_readable,
            "opportunity_floor_met": row.opportunity_floor_met,
            "health_audit_pass": row.health_audit_pass,
            "positive_control_successes": row.positive_control_successes,
            "positive_control_trials": row.positive_control_trials,
            "calibration_id": row.calibration_id,
        }
    )


def feedback_pairs(pairs: Sequence[FeedbackPair]) -> str:
    """D7: the feedback pairs, in order."""
    rows = [
        {
            **_pair(pair),
            "independence_ok": pair.independent,
            "truthful_result_hash": branch(pair.truthful),
            "neutral_result_hash": branch(pair.neutral),
        }
        for pair in pairs
    ]
    return _digest({"pairs": _with_replacements(pairs, rows)})


def null_pairs(pairs: Sequence[NullPair]) -> str:
    """D8: the null pairs, in order."""
    rows = [
        {
            **_pair(pair),
            "independence_ok": pair.independent,
            "reference_result_hash": branch(pair.reference),
            "proposed_result_hash": branch(pair.proposed),
        }
        for pair in pairs
    ]
    return _digest({"pairs": _with_replacements(pairs, rows)})


def neutral_ledger(pairs: Sequence[FeedbackPair]) -> str:
    """D9: the neutral branches, in order, without the truthful ones."""
    rows = [{**_pair(pair), "neutral_result_hash": branch(pair.neutral)} for pair in pairs]
    return _digest({"neutral_pairs": _with_replacements(pairs, rows)})


def challenger_ledger(attempts: Iterable[Attempt]) -> str:
    """D10: the challengers, in order."""
    return _digest(_challengers(attempts))


def recovery_ledger(attempts: Iterable[Attempt], gate3: Gate3Evidence | None) -> str:
    """D11: the challengers together with the neutral branches; D10 without a feedback experiment."""
    ledger = _challengers(attempts)
    if gate3 is not None:
        ledger["gate3_neutral_ledger"] = {
            "checkpoint_scope": gate3.checkpoint_scope,
            "checkpoint_hash": gate3.checkpoint_digest,
            "window_hash": gate3.window_digest,
            "paired_arm_contract_hash": gate3.paired_contract_digest,
            "truthful_arm_contract_hash": gate3.truthful_contract_digest,
            "neutral_arm_contract_hash": gate3.neutral_contract_digest,
            "neutral_recovery_contract_hash": gate3.neutral_recovery_contract_digest,
            "truthful_feedback_generator_hash": gate3.truthful_generator_digest,
            "neutral_sham_generator_hash": gate3.neutral_generator_digest,
            "contract_preseal_receipt_hash": gate3.preseal_receipt,
            "contract_sealed_event_index": gate3.sealed_event_index,
            "first_branch_started_event_index": gate3.first_branch_event_index,
            "paired_contract_audit_pass": gate3.paired_contract_audit_pass,
            "truthful_channel_audit_pass": gate3.truthful_channel_audit_pass,
            "neutral_channel_audit_pass": gate3.neutral_channel_audit_pass,
            "neutral_result_hashes": [branch(pair.neutral) for pair in gate3.pairs],
            **_neutral_audit(gate3),
        }
    return _digest(ledger)


def neutral_scope(gate3: Gate3Evidence, selection_rule_hash: str) -> str:
    """D12: what the neutral arm was, and under which audit."""
    given = gate3.neutral_conditions
    audit = _neutral_audit(gate3) or {"paired_contract_audit_pass": gate3.paired_contract_audit_pass}
    return _digest(
        {
            "selection_rule_hash": selection_rule_hash,
            "checkpoint_scope": gate3.checkpoint_scope,
            "checkpoint_hash": gate3.checkpoint_digest,
            "window_hash": gate3.window_digest,
            "paired_arm_contract_hash": gate3.paired_contract_digest,
            "neutral_arm_contract_hash": gate3.neutral_contract_digest,
            "neutral_recovery_contract_hash": gate3.neutral_recovery_contract_digest,
            "neutral_sham_generator_hash": gate3.neutral_generator_digest,
            "contract_preseal_receipt_hash": gate3.preseal_receipt,
            "contract_sealed_before_branches_pass": gate3.sealed_before_branches,
            "contract_sealed_event_index": gate3.sealed_event_index,
            "first_branch_started_event_index": gate3.first_branch_event_index,
            "neutral_channel_audit_pass": gate3.neutral_channel_audit_pass,
            "neutral_model_id": given.model_id,
            "neutral_interface_hash": given.interface_digest,
            "neutral_resource_contract_hash": given.resource_digest,
            "neutral_k_manifest_hash": given.knowledge_digest,
            "neutral_e0_manifest_hash": given.initial_evidence_digest,
            "neutral_web_manifest_hash": given.web_digest,
            "neutral_opportunity_contract_hash": given.opportunity_digest,
            "neutral_challenger_policy_hash": given.policy_digest,
            **audit,
        }
    )


def _neutral_audit(gate3: Gate3Evidence) -> dict[str, bool]:
    """The separate audit of the neutral side enters digests only where there was one."""
    passed = gate3.neutral_contract_audit_pass
    return {} if passed is None else {"neutral_contract_audit_pass": passed}


def _challengers(attempts: Iterable[Attempt]) -> dict[str, Any]:
    return {"gate2_attempt_result_hashes": [attempt(row) for row in attempts]}


def _pair(pair: FeedbackPair | NullPair) -> dict[str, Any]:
    return {
        "pair_id": pair.pair_id,
        "block_id": pair.block_id,
        "randomization_distribution_hash": pair.distribution_digest,
        "randomization_draw_receipt_hash": pair.draw_receipt,
        "assignment_frozen": pair.assignment_frozen,
    }


def _with_replacements(pairs: Sequence[FeedbackPair | NullPair], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every row names what it replaces as soon as one does; ledgers without replacements are as they were."""
    if any(pair.replacement_of for pair in pairs):
        for pair, row in zip(pairs, rows, strict=True):
            row["replacement_of"] = pair.replacement_of
    return rows


def _hex(values: Sequence[float]) -> list[str]:
    return [float(value).hex() for value in values]


def _digest(value: dict[str, Any]) -> str:
    return hashlib.sha256(compact(value)).hexdigest()
