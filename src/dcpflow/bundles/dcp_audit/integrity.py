"""What a bundle's envelope and digests say against its evidence (5.7, 5.8), as faults for ``decide``.

Conditions on the evidence alone are the protocol's own and are checked by ``decide``. Everything here rests
on what the bundle's author attests: that is why the decision on a bundle is called self-attested.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dcpflow.bundles.dcp_audit import digests
from dcpflow.bundles.dcp_audit.decode import Decoded
from dcpflow.protocol.faults import (
    CHALLENGERS,
    CORE_ONLY,
    EVERY_HIT,
    EVIDENCE_ONLY,
    NEUTRAL_ARM,
    NEUTRAL_SCOPE,
    Fault,
    Stake,
)
from dcpflow.protocol.model import Gate3Evidence
from dcpflow.protocol.text import is_canonical, is_explicit

_ATTESTATIONS: Final[dict[str, frozenset[Stake]]] = {
    "registration_frozen": EVERY_HIT,
    "claim_frozen": EVERY_HIT,
    "iterative_lineage_eligible": EVERY_HIT,
    "lineage_dataflow_audit_pass": EVERY_HIT,
    "symmetric_verifier_pass": EVERY_HIT,
    "familywise_budget_audit_pass": EVERY_HIT,
    "provenance_pass": CORE_ONLY,
    "challenger_contract_pass": CORE_ONLY,
    "private_isolation_pass": CORE_ONLY,
    "inference_assumptions_pass": CORE_ONLY,
    "recovery_ledger_complete": CORE_ONLY,
}
_FEEDBACK_ATTESTATIONS: Final = ("feedback_inference_assumptions_pass", "sham_inference_assumptions_pass")

_NAMED: Final = (
    "astar_hash",
    "baseline_hash",
    "verifier_hash",
    "astar_results_hash",
    "baseline_results_hash",
    "private_unit_manifest_hash",
    "private_results_manifest_hash",
    "p_hash",
    "resource_contract_hash",
    "selection_rule_hash",
    "k_manifest_hash",
    "e0_manifest_hash",
    "lineage_manifest_hash",
    "observed_web_manifest_hash",
    "challenger_policy_hash",
    "opportunity_contract_hash",
    "gate2_recovery_ledger_manifest_hash",
    "claim_family_manifest_hash",
    "alpha_ledger_receipt_hash",
    "audit_slot_registry_entry_hash",
)
"""Digests that the envelope has to give, bound to something or not. The ledger's own is apart."""

_ASSISTANCE: Final = {
    "autonomous_agent": ("none", "operational"),
    "agent_given_fixed_human_input": ("none", "operational", "fixed_scientific"),
    "human_agent_joint": ("none", "operational", "fixed_scientific", "adaptive_scientific"),
}
"""Which human help goes with which attribution."""

_WEB_SCOPES: Final = {
    False: ("not_used",),
    True: ("observed_bytes_frozen", "observed_request_response_frozen"),
}


def envelope_faults(decoded: Decoded) -> tuple[Fault, ...]:
    """All faults of a decoded bundle that its evidence alone does not show."""
    found = [*_attestations(decoded), *_gate1_bindings(decoded), *_gate2_bindings(decoded)]
    if decoded.gate3 is not None:
        found += [*_gate3_bindings(decoded, decoded.gate3), *_branch_bindings(decoded.gate3)]
    return tuple(found)


def _attestations(decoded: Decoded) -> Iterator[Fault]:
    envelope = decoded.envelope
    for key, blocks in _ATTESTATIONS.items():
        if not getattr(envelope, key):
            yield _fault(key, "is not attested", blocks)
    for key in _NAMED:
        if not is_explicit(getattr(envelope, key)):
            yield _fault(key, "is not given", EVERY_HIT)
    if not is_explicit(envelope.recovery_ledger_manifest_hash):
        yield _fault("recovery_ledger_manifest_hash", "is not given", CORE_ONLY)
    receipt = envelope.alpha_ledger_receipt_hash
    if receipt != decoded.registration.slot_receipt or not is_canonical(receipt):
        yield _fault("alpha_ledger_receipt_hash", "is not the registered slot's receipt", EVERY_HIT)
    if envelope.human_assistance not in _ASSISTANCE.get(envelope.attribution_subject, ()):
        detail = f"{envelope.human_assistance!r} does not go with {envelope.attribution_subject!r}"
        yield _fault("human_assistance", detail, CORE_ONLY)
    if envelope.web_replay_scope not in _WEB_SCOPES[envelope.web_access_used]:
        used = "used" if envelope.web_access_used else "not used"
        yield _fault("web_replay_scope", f"{envelope.web_replay_scope!r} with the Web {used}", EVERY_HIT)


def _gate1_bindings(decoded: Decoded) -> Iterator[Fault]:
    gate1, verifier = decoded.gate1, decoded.envelope.verifier_hash
    yield from _compare(
        decoded,
        {
            "astar_hash": gate1.claimed.digest,
            "baseline_hash": gate1.baseline.digest,
            "astar_results_hash": digests.artifact(gate1.claimed),
            "baseline_results_hash": digests.artifact(gate1.baseline),
            "private_unit_manifest_hash": digests.units(gate1.claimed.unit_ids),
            "private_results_manifest_hash": digests.private_results(gate1, verifier),
        },
        EVERY_HIT,
    )


def _gate2_bindings(decoded: Decoded) -> Iterator[Fault]:
    gate2 = decoded.gate2
    ledger = digests.challenger_ledger(gate2.attempts)
    yield from _compare(decoded, {"gate2_recovery_ledger_manifest_hash": ledger}, CHALLENGERS)
    if gate2.adequacy.checks_digest != digests.adequacy(gate2.adequacy):
        detail = "is not the digest of the adequacy checks"
        yield Fault("adequacy_digest", "gate2.adequacy.checks_manifest_hash", detail, CORE_ONLY)


def _gate3_bindings(decoded: Decoded, gate3: Gate3Evidence) -> Iterator[Fault]:
    envelope = decoded.envelope
    for key in _FEEDBACK_ATTESTATIONS:
        if not getattr(envelope, key):
            yield _fault(key, "is not attested", EVIDENCE_ONLY)
    if envelope.selection_rule_hash != decoded.registration.checkpoint_rule_digest:
        yield _fault("selection_rule_hash", "is not the registered checkpoint rule", NEUTRAL_ARM)
    scope = digests.neutral_scope(gate3, envelope.selection_rule_hash)
    if gate3.neutral_scope_digest != scope:
        detail = "is not the digest of the neutral scope"
        yield Fault("neutral_scope_digest", "gate3.neutral_scope_audit_manifest_hash", detail, NEUTRAL_SCOPE)
    yield from _compare(
        decoded,
        {
            "gate3_neutral_scope_manifest_hash": scope,
            "gate3_neutral_recovery_ledger_manifest_hash": digests.neutral_ledger(gate3.pairs),
            "gate3_contract_preseal_receipt_hash": gate3.preseal_receipt,
        },
        NEUTRAL_ARM,
    )
    yield from _compare(
        decoded,
        {
            "recovery_ledger_manifest_hash": digests.recovery_ledger(decoded.gate2.attempts, gate3),
            "sham_contract_preseal_receipt_hash": gate3.null.preseal_receipt,
        },
        EVIDENCE_ONLY,
    )
    for check, place, value, expected in (
        (
            "pairs_digest",
            "feedback_pairs_manifest_hash",
            gate3.pairs_digest,
            digests.feedback_pairs(gate3.pairs),
        ),
        (
            "null_pairs_digest",
            "sham.confirmatory_manifest_hash",
            gate3.null.confirmatory_digest,
            digests.null_pairs(gate3.null.pairs),
        ),
    ):
        if value != expected:
            yield Fault(check, f"gate3.{place}", "is not the digest of the pairs", EVIDENCE_ONLY)
    adequacy = gate3.neutral_adequacy
    if adequacy is not None and adequacy.checks_digest != digests.adequacy(adequacy):
        detail = "is not the digest of the adequacy checks"
        yield Fault("adequacy_digest", "gate3.neutral_adequacy", detail, EVIDENCE_ONLY)


def _branch_bindings(gate3: Gate3Evidence) -> Iterator[Fault]:
    arms = [
        (f"gate3.pairs[{index}].{arm}", index, branch, blocks)
        for index, pair in enumerate(gate3.pairs)
        for arm, branch, blocks in (
            ("truthful", pair.truthful, EVIDENCE_ONLY),
            ("neutral", pair.neutral, NEUTRAL_ARM),
        )
    ] + [
        (f"gate3.sham.pairs[{index}].{arm}", index, branch, EVIDENCE_ONLY)
        for index, null_pair in enumerate(gate3.null.pairs)
        for arm, branch in (("reference_null", null_pair.reference), ("proposed_sham", null_pair.proposed))
    ]
    for place, index, branch, blocks in arms:
        if branch.result_digest != digests.branch(branch):
            detail = "is not the digest of the branch's result"
            yield Fault("branch_digest", f"{place}.verifier_result_hash", detail, blocks, index)


def _compare(decoded: Decoded, expected: dict[str, str], blocks: frozenset[Stake]) -> Iterator[Fault]:
    for key, value in expected.items():
        found = getattr(decoded.envelope, key)
        if found != value:
            yield _fault(key, f"is {found!r}, the evidence has {value!r}", blocks)


def _fault(key: str, detail: str, blocks: frozenset[Stake]) -> Fault:
    return Fault(key, f"integrity.{key}", detail, blocks)
