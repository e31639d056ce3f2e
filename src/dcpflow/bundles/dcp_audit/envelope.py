"""The integrity envelope of a bundle: what its author attests, field for field (5.5, 5.7)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Envelope:
    """``integrity.json`` under the format's own names.

    All of it is self-attested: fourteen booleans, three words, and digests of which only those that
    :mod:`~dcpflow.bundles.dcp_audit.integrity` recomputes are bound to anything.
    """

    registration_frozen: bool = False
    claim_frozen: bool = False
    provenance_pass: bool = False
    iterative_lineage_eligible: bool = False
    lineage_dataflow_audit_pass: bool = False
    challenger_contract_pass: bool = False
    private_isolation_pass: bool = False
    symmetric_verifier_pass: bool = False
    inference_assumptions_pass: bool = False
    feedback_inference_assumptions_pass: bool = False
    sham_inference_assumptions_pass: bool = False
    familywise_budget_audit_pass: bool = False
    astar_hash: str = ""
    baseline_hash: str = ""
    verifier_hash: str = ""
    astar_results_hash: str = ""
    baseline_results_hash: str = ""
    private_unit_manifest_hash: str = ""
    private_results_manifest_hash: str = ""
    p_hash: str = ""
    resource_contract_hash: str = ""
    selection_rule_hash: str = ""
    k_manifest_hash: str = ""
    e0_manifest_hash: str = ""
    lineage_manifest_hash: str = ""
    observed_web_manifest_hash: str = ""
    challenger_policy_hash: str = ""
    opportunity_contract_hash: str = ""
    recovery_ledger_complete: bool = False
    recovery_ledger_manifest_hash: str = ""
    gate2_recovery_ledger_manifest_hash: str = ""
    gate3_neutral_scope_manifest_hash: str = ""
    gate3_neutral_recovery_ledger_manifest_hash: str = ""
    gate3_contract_preseal_receipt_hash: str = ""
    sham_contract_preseal_receipt_hash: str = ""
    claim_family_manifest_hash: str = ""
    alpha_ledger_receipt_hash: str = ""
    audit_slot_registry_entry_hash: str = ""
    human_assistance: str = ""
    attribution_subject: str = ""
    web_access_used: bool = False
    web_replay_scope: str = ""
