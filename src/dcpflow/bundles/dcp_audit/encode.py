"""From the vocabulary of the protocol to a bundle's payloads (5.5): the inverse of ``decode``.

Every field is written, also where it has its default; only ``neutral_contract_audit_pass`` is left out where there
was no such audit, as the format has it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from dcpflow.bundles.dcp_audit.decode import Decoded, registration_payload
from dcpflow.protocol.model import (
    Adequacy,
    Attempt,
    Branch,
    FeedbackPair,
    Gate3Evidence,
    NullCalibration,
    NullPair,
    ScoredArtifact,
)
from dcpflow.protocol.plain import plain

Names = Mapping[str, str]
"""Field of the format to attribute of ours."""

_ARTIFACT: Final[Names] = {
    "name": "name",
    "per_unit": "scores",
    "validity": "validity",
    "artifact_hash": "digest",
    "unit_ids": "unit_ids",
}
_RESULT: Final[Names] = {
    "outcome": "outcome",
    "per_unit": "scores",
    "validity": "validity",
    "artifact_hash": "artifact_digest",
    "unit_ids": "unit_ids",
    "prestart_contract_receipt_hash": "prestart_receipt",
    "infrastructure_outcome_independent": "infrastructure_independent",
}
_ATTEMPT: Final[Names] = {
    **_RESULT,
    "attempt_id": "attempt_id",
    "stratum": "stratum",
    "scope_contract_hash": "contract_digest",
    "challenge_distribution_hash": "distribution_digest",
    "independent_draw_receipt_hash": "draw_receipt",
    "independent_unit_id": "independent_unit",
    "independence_ok": "independent",
}
_BRANCH: Final[Names] = {
    **_RESULT,
    "utility": "utility",
    "branch_id": "branch_id",
    "verifier_result_hash": "result_digest",
    "execution_contract_hash": "contract_digest",
}
_ADEQUACY: Final[Names] = {
    **{field.name: field.name for field in dataclasses.fields(Adequacy) if field.name != "checks_digest"},
    "checks_manifest_hash": "checks_digest",
}
_PAIR: Final[Names] = {
    "pair_id": "pair_id",
    "block_id": "block_id",
    "randomization_distribution_hash": "distribution_digest",
    "randomization_draw_receipt_hash": "draw_receipt",
    "assignment_frozen": "assignment_frozen",
    "independence_ok": "independent",
    "replacement_of": "replacement_of",
}
_SEALING: Final[Names] = {
    "paired_arm_contract_hash": "paired_contract_digest",
    "contract_preseal_receipt_hash": "preseal_receipt",
    "contract_sealed_before_branches_pass": "sealed_before_branches",
    "contract_sealed_event_index": "sealed_event_index",
    "first_branch_started_event_index": "first_branch_event_index",
    "all_started_pairs_disclosed": "all_started_disclosed",
    "no_pair_replacements": "no_replacements",
    "started_pair_count": "started_pairs",
}
_NULL: Final[Names] = {
    **_SEALING,
    "calibration_id": "calibration_id",
    "development_manifest_hash": "development_digest",
    "confirmatory_manifest_hash": "confirmatory_digest",
    "task_family_profile": "task_profile",
    "model_id": "model_id",
    "interface_hash": "interface_digest",
    "scaffold_hash": "scaffold_digest",
    "feedback_schema_hash": "feedback_schema_digest",
    "operator_hash": "operator_digest",
    "reference_null_generator_hash": "reference_generator_digest",
    "utility_scale_id": "utility_scale_id",
    "reference_arm_contract_hash": "reference_contract_digest",
    "proposed_arm_contract_hash": "proposed_contract_digest",
    "channel_checks_pass": "channel_checks_pass",
    "freshness_pass": "fresh",
    "operator_frozen_before_confirmatory": "operator_frozen_first",
    "development_confirmatory_disjoint": "development_disjoint",
}
_GATE3: Final[Names] = {
    **_SEALING,
    "design_checks_pass": "design_checks_pass",
    "stopping_rule_pass": "stopping_rule_pass",
    "registered_pairs_complete": "registered_pairs_complete",
    "paired_contract_audit_pass": "paired_contract_audit_pass",
    "truthful_channel_audit_pass": "truthful_channel_audit_pass",
    "neutral_channel_audit_pass": "neutral_channel_audit_pass",
    "checkpoint_scope": "checkpoint_scope",
    "checkpoint_hash": "checkpoint_digest",
    "window_hash": "window_digest",
    "feedback_pairs_manifest_hash": "pairs_digest",
    "truthful_arm_contract_hash": "truthful_contract_digest",
    "neutral_arm_contract_hash": "neutral_contract_digest",
    "neutral_recovery_contract_hash": "neutral_recovery_contract_digest",
    "truthful_feedback_generator_hash": "truthful_generator_digest",
    "neutral_sham_generator_hash": "neutral_generator_digest",
    "neutral_scope_audit_manifest_hash": "neutral_scope_digest",
}
_CONDITIONS: Final[Names] = {
    "neutral_model_id": "model_id",
    "neutral_interface_hash": "interface_digest",
    "neutral_resource_contract_hash": "resource_digest",
    "neutral_opportunity_contract_hash": "opportunity_digest",
    "neutral_challenger_policy_hash": "policy_digest",
    "neutral_k_manifest_hash": "knowledge_digest",
    "neutral_e0_manifest_hash": "initial_evidence_digest",
    "neutral_web_manifest_hash": "web_digest",
}


def encode(decoded: Decoded) -> dict[str, Any]:
    """All payloads but the certificate, by name; ``gate3`` only where there is a feedback experiment."""
    gate1, gate2 = decoded.gate1, decoded.gate2
    payloads: dict[str, Any] = {
        "registration": plain(registration_payload(decoded.registration)),
        "integrity": dataclasses.asdict(decoded.envelope),
        "gate1": {"astar": artifact(gate1.claimed), "baseline": artifact(gate1.baseline)},
        "gate2": {"controls": [attempt(row) for row in gate2.attempts], "adequacy": adequacy(gate2.adequacy)},
    }
    if decoded.gate3 is not None:
        payloads["gate3"] = _gate3(decoded.gate3)
    return payloads


def artifact(row: ScoredArtifact) -> dict[str, Any]:
    """A* or the baseline."""
    return _fields(row, _ARTIFACT)


def attempt(row: Attempt) -> dict[str, Any]:
    """A challenger."""
    return _fields(row, _ATTEMPT)


def adequacy(row: Adequacy) -> dict[str, Any]:
    """Whether challengers could have recovered at all."""
    return _fields(row, _ADEQUACY)


def branch(row: Branch) -> dict[str, Any]:
    """One arm of a pair."""
    return _fields(row, _BRANCH)


def _gate3(evidence: Gate3Evidence) -> dict[str, Any]:
    payload = {
        **_fields(evidence, _GATE3),
        **_fields(evidence.neutral_conditions, _CONDITIONS),
        "pairs": [_pair(pair, "truthful", "neutral") for pair in evidence.pairs],
        "sham": _null(evidence.null),
        "neutral_adequacy": None if evidence.neutral_adequacy is None else adequacy(evidence.neutral_adequacy),
    }
    if evidence.neutral_contract_audit_pass is not None:
        payload["neutral_contract_audit_pass"] = evidence.neutral_contract_audit_pass
    return payload


def _null(null: NullCalibration) -> dict[str, Any]:
    pairs = [_pair(pair, "reference_null", "proposed_sham") for pair in null.pairs]
    return {**_fields(null, _NULL), "pairs": pairs}


def _pair(pair: FeedbackPair | NullPair, *arms: str) -> dict[str, Any]:
    branches = {arm: branch(row) for arm, row in zip(arms, pair.branches, strict=True)}
    return {**_fields(pair, _PAIR), **branches}


def _fields(row: Any, names: Names) -> dict[str, Any]:
    return {name: plain(getattr(row, attribute)) for name, attribute in names.items()}
