"""The decision on an imported dcp-audit bundle, in the form in which our own decisions are written."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Final

from dcpflow.bundles.dcp_audit import Bundle, Decoded, strict_json
from dcpflow.evidence.decision import NOT_CLAIMED, NOT_CLAIMED_OF_A_RUN, SCHEMA
from dcpflow.protocol.advice import registration_warnings
from dcpflow.protocol.campaign import campaign_risk
from dcpflow.protocol.decision import Decision
from dcpflow.protocol.gate3 import Gate3Result
from dcpflow.protocol.intervals import Interval, mean, success_lower_bound, zero_hit_upper_bound
from dcpflow.protocol.model import AttemptStatus, Branch, Gate3Evidence, Validity
from dcpflow.protocol.verdicts import Verdict

PROVENANCE: Final = "self-attested"
NOT_RECORDED: Final = "not recorded in the bundle"
SELF_ATTESTED: Final = "that any record stands behind this evidence: it is the bundle author's word"


def document(bundle: Bundle, decoded: Decoded, decision: Decision) -> dict[str, Any]:
    """The content of ``decision.json``: the certificate's verdicts, our numbers, which agree with its own.

    Args:
        bundle: the bundle, whose certificate follows from its evidence.
        decoded: what it holds.
        decision: ours on it.
    """
    reg, payloads = decoded.registration, bundle.payloads
    verdict = payloads["certificate"]["verdict"]
    return {
        "schema": SCHEMA,
        "provenance": PROVENANCE,
        "imported": {"format": "dcp-audit", "profile": bundle.profile, "bundle": bundle.bundle_id},
        "core": _verdict(verdict, "core", decision.core),
        "evidence": _verdict(verdict, "evidence", decision.evidence),
        "roles": {**dict.fromkeys(("claimant", "auditor", "registry"), NOT_RECORDED), "self_audited": None},
        "claim": {
            "id": reg.claim_id,
            "statement": NOT_RECORDED,
            "family": reg.claim_family_id,
            "slot": reg.audit_slot_id,
            "grade": reg.grade,
        },
        "scope": {
            "agent": NOT_RECORDED,
            "model": reg.model_id,
            "budget": {"experiments": None, "candidates": None},
            "information": reg.task_profile,
            "isolation": "attested" if decoded.envelope.private_isolation_pass else "not attested",
        },
        "registration": {
            "digest": strict_json.digest(strict_json.stored_form(payloads["registration"])),
            "contract": reg.challenger_contract_digest,
            "public_demonstration": "",
            "amendments": [],
        },
        "confirmatory": None,
        "rests_on": {"bundle": bundle.bundle_id},
        "target_runs_started": None,
        "gate1": _gate1(decoded, decision),
        "gate2": _gate2(decoded, decision),
        "controls": _controls(decoded),
        "gate3": _gate3(decoded, decoded.gate3, decision.gate3) if decoded.gate3 is not None else None,
        "checks": _checks(decoded),
        "faults": [str(fault) for fault in decision.faults],
        "notes": [str(note) for note in decision.notes],
        "warnings": [str(warning) for warning in registration_warnings(reg, len(decoded.gate1.claimed.unit_ids))],
        "formal_certificate_issued": False,
        "not_claimed": [*NOT_CLAIMED, *NOT_CLAIMED_OF_A_RUN, SELF_ATTESTED],
    }


def _verdict(saved: Mapping[str, Any], name: str, replayed: Verdict) -> dict[str, Any]:
    """Status and class as the certificate has them; the rule and the reason of our replay."""
    kind = saved[f"{name}_inconclusive_class"]
    return {
        "status": saved[name],
        "class": None if kind == "null" else kind,
        "exploratory": False,
        "rule": replayed.rule,
        "reason": replayed.reason,
    }


def _gate1(decoded: Decoded, decision: Decision) -> dict[str, Any]:
    found, baseline = decision.gate1, decoded.gate1.baseline
    return {
        "x": _number(found.claimed_score) if found else None,
        "baseline": _number(mean(baseline.scores)) if baseline.validity is Validity.VALID else None,
        "gain": _interval(found.gain if found else None),
        "delta_min": decoded.registration.delta_min,
        "units": len(decoded.gate1.claimed.unit_ids),
    }


def _gate2(decoded: Decoded, decision: Decision) -> dict[str, Any]:
    found, reg, claimed = decision.gate2, decoded.registration, decoded.gate1.claimed
    x = _number(mean(claimed.scores)) if claimed.validity is Validity.VALID else None
    attempts = decoded.gate2.attempts
    scores = [mean(row.scores) for row in attempts if row.scores and row.validity is Validity.VALID]
    statuses = [row.status for row in found.attempts] if found else []
    return {
        "epsilon": reg.epsilon,
        "recovery_line": x - reg.epsilon if x is not None else None,
        "challengers": {
            "started": len(attempts),
            "independent": found.independent if found else None,
            "hits": found.hits if found else None,
            "unresolved": found.unresolved if found else None,
            "model_failures": statuses.count(AttemptStatus.MODEL_FAILURE),
            "infrastructure": statuses.count(AttemptStatus.INFRASTRUCTURE_INVALID),
            "violations": statuses.count(AttemptStatus.EXECUTION_CONTRACT_VIOLATION),
        },
        "best_score": _number(max(scores)) if scores else None,
        "recovery_upper_bound": _number(found.bound) if found else None,
        "recovery_upper_bound_without_failures": _number(found.bound_without_failures) if found else None,
        "campaign": campaign_risk(_number(found.bound), found.independent) if found else campaign_risk(None, None),
        "rho": reg.rho,
        "recovery": found.recovery.value if found else None,
        "reason": found.reason if found else "Gate 2 could not be evaluated",
        "adequacy": [fault.detail for fault in found.adequacy_faults] if found else [],
        "witnesses": [a.attempt_id for a in found.attempts if a.status is AttemptStatus.CONFIRMED_HIT] if found else [],
    }


def _controls(decoded: Decoded) -> dict[str, Any]:
    reg, adequacy = decoded.registration, decoded.gate2.adequacy
    successes, trials = adequacy.positive_control_successes, adequacy.positive_control_trials
    known = adequacy.controls_on_record and 0 < reg.alpha_adequacy < 1
    return {
        "successes": successes,
        "trials": trials,
        "recall_lower_bound": success_lower_bound(successes, trials, reg.alpha_adequacy) if known else None,
        "recall_min": reg.min_control_recall,
    }


def _gate3(decoded: Decoded, evidence: Gate3Evidence, found: Gate3Result | None) -> dict[str, Any]:
    reg = decoded.registration
    effect, null, neutral = (found.effect, found.null, found.neutral) if found else (None, None, None)
    lower = _number(effect.difference.lower) if effect else None
    terminal = neutral.terminal if neutral else None
    hits = {arm: _hits(decoded, [getattr(pair, arm) for pair in evidence.pairs]) for arm in ("truthful", "neutral")}
    bounded = terminal is not None and not hits["neutral"] and 0 < reg.alpha_neutral < 1
    return {
        "pairs": {"registered": reg.feedback_pairs, "analysed": effect.analysed if effect else 0},
        "replaced": {
            "pairs": sum(bool(pair.replacement_of) for pair in evidence.pairs),
            "null_pairs": sum(bool(pair.replacement_of) for pair in evidence.null.pairs),
        },
        "checkpoint_scope": evidence.checkpoint_scope,
        "truthful_hits": hits["truthful"],
        "neutral_hits": hits["neutral"],
        "neutral_upper_bound": zero_hit_upper_bound(terminal.independent, reg.alpha_neutral)
        if bounded and terminal
        else None,
        "neutral_recovery": neutral.recovery.value if neutral else None,
        "effect": _interval(effect.difference if effect else None),
        "effect_status": effect.effect.value if effect else None,
        "null": {
            "pairs": null.analysed if null else 0,
            **_interval(null.difference if null else None),
            "status": null.adequacy.value if null else None,
        },
        "delta_evidence": reg.delta_evidence,
        "delta_sham": reg.delta_null,
        "margin": lower - reg.delta_null if lower is not None else None,
        "reason": effect.reason if effect else "the feedback experiment could not be evaluated",
    }


def _hits(decoded: Decoded, branches: list[Branch]) -> int:
    """Branches whose valid artifact reaches the recovery line."""
    line = mean(decoded.gate1.claimed.scores) - decoded.registration.epsilon
    return sum(bool(b.scores) and b.validity is Validity.VALID and mean(b.scores or ()) >= line for b in branches)


def _checks(decoded: Decoded) -> list[dict[str, Any]]:
    """What the author attests, each as a check of its own."""
    envelope = dataclasses.asdict(decoded.envelope)
    return [
        {
            "name": name,
            "result": "pass" if value else "fail",
            "needed_for": "evidence" if name.startswith(("feedback_", "sham_")) else "core",
            "reason": f"{'attested' if value else 'not attested'} by the bundle's author",
        }
        for name, value in envelope.items()
        if isinstance(value, bool) and name != "web_access_used"
        if decoded.gate3 is not None or not name.startswith(("feedback_", "sham_"))
    ]


def _interval(found: Interval | None) -> dict[str, Any]:
    if found is None:
        return dict.fromkeys(("mean", "lower", "upper"))
    return {"mean": _number(found.mean), "lower": _number(found.lower), "upper": _number(found.upper)}


def _number(value: float | None) -> float | None:
    """A number that JSON can hold."""
    return value if value is not None and math.isfinite(value) else None
