"""Fills in a bundle's digests of its own content (5.6, 5.7, 5.11), in the order in which they rest on each other."""

from __future__ import annotations

from dataclasses import replace

from dcpflow.bundles.dcp_audit import digests
from dcpflow.bundles.dcp_audit.decode import Decoded
from dcpflow.bundles.dcp_audit.envelope import Envelope
from dcpflow.protocol.model import Adequacy, Branch, Gate3Evidence


def bind(unbound: Decoded) -> Decoded:
    """The same evidence with every digest that the format recomputes, whatever stood in their places.

    Args:
        unbound: evidence, and an envelope with what is attested and with the digests that are bound to nothing
            (``verifier_hash``, ``p_hash``, ``lineage_manifest_hash``, ``claim_family_manifest_hash``,
            ``audit_slot_registry_entry_hash``) filled in.
    """
    gate2 = replace(unbound.gate2, adequacy=_adequacy(unbound.gate2.adequacy))
    rule = unbound.registration.checkpoint_rule_digest or "no-checkpoint"
    gate3 = None if unbound.gate3 is None else _gate3(unbound.gate3, rule)
    return replace(
        unbound, gate2=gate2, gate3=gate3, envelope=_envelope(replace(unbound, gate2=gate2, gate3=gate3), rule)
    )


def _adequacy(row: Adequacy) -> Adequacy:
    return replace(row, checks_digest=digests.adequacy(row))


def _gate3(evidence: Gate3Evidence, rule: str) -> Gate3Evidence:
    pairs = tuple(
        replace(pair, truthful=_branch(pair.truthful), neutral=_branch(pair.neutral)) for pair in evidence.pairs
    )
    null_pairs = tuple(
        replace(pair, reference=_branch(pair.reference), proposed=_branch(pair.proposed))
        for pair in evidence.null.pairs
    )
    bound = replace(
        evidence,
        pairs=pairs,
        pairs_digest=digests.feedback_pairs(pairs),
        null=replace(evidence.null, pairs=null_pairs, confirmatory_digest=digests.null_pairs(null_pairs)),
        neutral_adequacy=None if evidence.neutral_adequacy is None else _adequacy(evidence.neutral_adequacy),
    )
    return replace(bound, neutral_scope_digest=digests.neutral_scope(bound, rule))


def _branch(row: Branch) -> Branch:
    return replace(row, result_digest=digests.branch(row))


def _envelope(bound: Decoded, rule: str) -> Envelope:
    gate1, gate2, gate3, given = bound.gate1, bound.gate2, bound.gate3, bound.gate2.conditions
    return replace(
        bound.envelope,
        astar_hash=gate1.claimed.digest,
        baseline_hash=gate1.baseline.digest,
        astar_results_hash=digests.artifact(gate1.claimed),
        baseline_results_hash=digests.artifact(gate1.baseline),
        private_unit_manifest_hash=digests.units(gate1.claimed.unit_ids),
        private_results_manifest_hash=digests.private_results(gate1, bound.envelope.verifier_hash),
        gate2_recovery_ledger_manifest_hash=digests.challenger_ledger(gate2.attempts),
        recovery_ledger_manifest_hash=digests.recovery_ledger(gate2.attempts, gate3),
        gate3_neutral_scope_manifest_hash=gate3.neutral_scope_digest if gate3 else "",
        gate3_neutral_recovery_ledger_manifest_hash=digests.neutral_ledger(gate3.pairs) if gate3 else "",
        gate3_contract_preseal_receipt_hash=gate3.preseal_receipt if gate3 else "",
        sham_contract_preseal_receipt_hash=gate3.null.preseal_receipt if gate3 else "",
        alpha_ledger_receipt_hash=bound.registration.slot_receipt,
        selection_rule_hash=rule,
        resource_contract_hash=given.resource_digest,
        opportunity_contract_hash=given.opportunity_digest,
        challenger_policy_hash=given.policy_digest,
        k_manifest_hash=given.knowledge_digest,
        e0_manifest_hash=given.initial_evidence_digest,
        observed_web_manifest_hash=given.web_digest,
    )
