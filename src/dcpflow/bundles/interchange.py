"""Our audit in the terms of a dcp-audit bundle: the evidence as our engine reads it, our checks as its attestations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from dcpflow.bundles.dcp_audit.bind import bind
from dcpflow.bundles.dcp_audit.certify import certificate
from dcpflow.bundles.dcp_audit.decode import Decoded
from dcpflow.bundles.dcp_audit.encode import encode
from dcpflow.bundles.dcp_audit.envelope import Envelope
from dcpflow.bundles.dcp_audit.strict_json import loads
from dcpflow.bundles.dcp_audit.write import bundle_files
from dcpflow.bundles.export import replay_results
from dcpflow.bundles.folders import new_folder, write
from dcpflow.errors import EvidenceError
from dcpflow.evidence import checks, decision, folder, gates, policies, strata
from dcpflow.evidence.view import AuditView
from dcpflow.protocol.model import Gate1Evidence
from dcpflow.protocol.registration import Registration
from dcpflow.records import canonical, history
from dcpflow.records.layout import Layout

ATTESTED_BY: Final[Mapping[str, tuple[str, ...]]] = {
    "registration_frozen": ("registration_frozen_first",),
    "claim_frozen": ("claim_frozen",),
    "provenance_pass": ("scored_after_commit",),
    "iterative_lineage_eligible": ("target_learned_from_experiments",),
    "lineage_dataflow_audit_pass": ("lineage_withheld", "challenger_channel_withheld", "same_web_packet"),
    "challenger_contract_pass": ("same_information", "models_registered"),
    "private_isolation_pass": ("private_isolation",),
    "symmetric_verifier_pass": ("symmetric_scoring", "commitments_open"),
    "inference_assumptions_pass": ("draws_follow_nonce",),
    "feedback_inference_assumptions_pass": ("pairs_share_their_draw", "neutral_harm"),
    "sham_inference_assumptions_pass": ("null_instances_fresh", "null_task_sensitivity", "null_assay_sensitivity"),
    "familywise_budget_audit_pass": ("error_budget",),
    "recovery_ledger_complete": ("ledger_complete",),
}
"""Attestation of the format to the checks that it stands for here: each blocks what the attestation blocks there."""


@dataclass(frozen=True, slots=True)
class Interchanged:
    """A dcp-audit bundle that was written.

    Attributes:
        bundle_id: its name.
        profile: ``full_audit_v1``, or ``core`` where the audit has no Gate 3.
        core: the Core verdict in its certificate.
        evidence: the Evidence verdict in it.
        left_out: names of strata and of further neutral policies, those that are no longer registered too: such a
            bundle holds the challengers and pairs that decide, and no others.
    """

    bundle_id: str
    profile: str
    core: str
    evidence: str
    left_out: tuple[str, ...] = ()


def export(results: Path, out: Path) -> Interchanged:
    """Verify a results folder and write it as the folder of a dcp-audit bundle.

    Args:
        results: the results folder.
        out: the bundle's folder; must not exist, or be empty.

    Raises:
        EvidenceError: the folder does not verify, or its decision cannot be said in that format: the registration was
            amended, or the kernel decides otherwise on the same evidence. Nothing is written.
        UsageError: dcp-audit is not installed, or a path is not what it has to be.
    """
    replayed = replay_results(results)
    document = replayed.decided.document
    if document["core"]["exploratory"] or document["evidence"]["exploratory"]:
        raise EvidenceError(
            "the registration was amended, so the decision is exploratory, which a dcp-audit bundle cannot say",
            "Use dcpflow's own format, which holds the amendments: dcpflow bundle export RESULTS claim.dcp",
        )
    if replayed.evidence.view.registered.config("design").get("pair_looks"):
        raise EvidenceError(
            "the effect was looked at after several numbers of pairs, for which dcp-audit has no interval",
            "Use dcpflow's own format, which holds the looks: dcpflow bundle export RESULTS claim.dcp",
        )
    if replayed.evidence.view.registered.artifact:
        raise EvidenceError(
            "the audit is retrospective, which a dcp-audit bundle cannot say: its verifier might certify the claim",
            "Use dcpflow's own format: dcpflow bundle export RESULTS claim.dcp",
        )
    past = history.entries(Layout(results))
    left_out = not_held(document, past)
    registrations = [entry.registration for entry in past]
    payloads = encode(bind(interchanged(replayed.evidence, document, registrations, left_out)))
    payloads["certificate"] = certificate(payloads)
    verdict = payloads["certificate"]["verdict"]
    _require_agreement(verdict, document)
    files = bundle_files(payloads)
    with new_folder(out, outside=results) as made:
        for name, data in files.items():
            write(made / name, data)
    manifest = loads(files["manifest.json"], "manifest.json")
    profile = manifest.get("profile", "core")
    names = tuple(name for kind in left_out.values() for name in kind)
    return Interchanged(manifest["bundle_id"], profile, verdict["core"], verdict["evidence"], names)


def not_held(document: Mapping[str, Any], past: Sequence[history.Entry]) -> dict[str, tuple[str, ...]]:
    """Names of what is informative and has no place in such a bundle, those no longer registered too, by what they are.

    Args:
        document: the decision.
        past: every registration, oldest first.
    """
    since = history.since_the_first_episode(past)
    return {
        "strata of challengers": tuple(document.get("strata", {}) | strata.no_longer_shown(since)),
        "neutral policies": tuple(policies.blocks(document) | policies.no_longer_shown(since)),
    }


def _require_agreement(verdict: Mapping[str, str], document: Mapping[str, Any]) -> None:
    for name in ("core", "evidence"):
        ours = (document[name]["status"], document[name]["class"] or "null")
        theirs = (verdict[name], verdict[f"{name}_inconclusive_class"])
        if ours != theirs:
            raise EvidenceError(
                f"dcp-audit decides {name} as {theirs[0]} ({theirs[1]}), dcpflow as {ours[0]} ({ours[1]}): "
                f"{document[name]['reason']}",
                "Where the rules deliberately differ, only dcpflow's own format can hold the decision",
            )


def interchanged(
    evidence: folder.Evidence,
    document: Mapping[str, Any],
    registrations: Sequence[str],
    left_out: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Decoded:
    """An audit's evidence and attestations as a dcp-audit bundle holds them, its own digests not yet filled in.

    Args:
        evidence: the evidence.
        document: the decision that was reached from it.
        registrations: every R in the history, oldest first.
        left_out: names of the strata and neutral policies that the bundle does not hold, by what they are.
    """
    seen, facts = evidence.view, evidence.episode_facts
    config = folder.config_of(seen.registered)
    reg = gates.registration(config, seen.registered.contract, seen.checkpoint)
    passed = {check["name"]: check["result"] == checks.PASS for check in document["checks"]}
    standing = decision.stands(passed, seen, registrations, checks_digest="")
    gate1 = gates.gate1(seen)
    names = {
        "contract": seen.registered.contract,
        "registration": seen.registered.digest,
        "decision": canonical.digest(canonical.encode(document) + b"\n"),
    }
    if any(left_out.values()):
        names["left_out"] = "; ".join(
            f"informative {kind}, which decide nothing: {', '.join(found)}" for kind, found in left_out.items() if found
        )
    return Decoded(
        registration=replace(reg, notes={"dcpflow": names}),
        envelope=_envelope(passed, seen, reg, gate1),
        gate1=gate1,
        gate2=gates.gate2(seen, facts, reg, standing, reg.epsilon),
        gate3=gates.gate3(seen, facts, reg, standing, reg.epsilon) if seen.checkpoint else None,
    )


def _envelope(passed: Mapping[str, bool], seen: AuditView, reg: Registration, gate1: Gate1Evidence) -> Envelope:
    """Our checks as attestations, and digests that the format binds to nothing."""
    task, claim = seen.registered.parts["task"], seen.registered.config("claim")
    family = {name: claim[name] for name in ("family", "earlier_audits")}
    slot = {"registry": claim["roles"]["registry"], "family": claim["family"], "slot": claim["slot"]}
    attested: dict[str, Any] = {
        name: all(passed.get(check, False) for check in found) for name, found in ATTESTED_BY.items()
    }
    # is asked only where a registry tells something, and blocks what an incomplete ledger blocks
    attested["recovery_ledger_complete"] &= passed.get("earlier_audits_disclosed", True)
    return Envelope(
        **attested,
        verifier_hash=canonical.digest_of({"sources": task["sources"], "engine": task["seal"]["engine"]}),
        p_hash=canonical.digest_of({"claimed": gate1.claimed.digest, "epsilon": reg.epsilon}),
        lineage_manifest_hash=seen.claim_seal,
        claim_family_manifest_hash=canonical.digest_of(family),
        audit_slot_registry_entry_hash=canonical.digest_of(slot),
        human_assistance=claim["human_assistance"],
        attribution_subject=claim["attribution"],
        web_access_used=bool(seen.packet.pages),
        web_replay_scope="observed_request_response_frozen" if seen.packet.pages else "not_used",
    )
