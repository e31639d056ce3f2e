"""The decision as it is written: statuses, every number, reasons, what it rests on, what is not claimed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dcpflow.evidence import checks, gates, looks, policies, strata
from dcpflow.evidence.checks import Check
from dcpflow.evidence.facts import AuditFacts
from dcpflow.evidence.policies import Policy
from dcpflow.evidence.strata import Stratum
from dcpflow.evidence.view import AuditView, Episode
from dcpflow.protocol import intervals
from dcpflow.protocol.advice import registration_warnings
from dcpflow.protocol.campaign import campaign_risk
from dcpflow.protocol.decision import Decision, decide
from dcpflow.protocol.model import AttemptStatus, Recovery
from dcpflow.protocol.registration import LINEAGE_EMPTY, Registration
from dcpflow.protocol.verdicts import Verdict
from dcpflow.records.canonical import digest_of
from dcpflow.records.history import STRATA
from dcpflow.records.packet import places

if TYPE_CHECKING:
    from dcpflow.protocol.config import Config

SCHEMA = "dcpflow.decision/1"

NOT_CLAIMED = (
    "historical priority",
    "other models, budgets or information than the registered ones",
    "that challengers try their best: an agent that recognises the challenger's seat can hold back "
    "(an independent stratum with another agent is the remedy)",
    "sampling error beyond the registered sealed units, where inference is exact on a finite set",
)
NOT_CLAIMED_OF_A_RUN = ("completeness of the Web beyond what the target run saw",)
NOT_CLAIMED_LOOKING_BACK = {
    "retrospective_prepub": (
        "that challengers did not know the publication: they were not given it, but a model that was trained after it "
        "may know the outcome (contamination), so that a recovery need not have been possible at that time",
    ),
    "retrospective_present": (
        "anything about the time before the publication: challengers had today's information, and a model that was "
        "trained after the publication may know the outcome (contamination)",
    ),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """A decision with the checks behind it.

    Attributes:
        decision: of the engine.
        checks: all checks.
        checks_digest: of them.
        reg: what was registered, as the engine read it.
        view: the evidence.
        facts: recomputed facts.
        episode_facts: and those of each episode, by record digest.
        config: the registered configuration.
        strata: what was found of each stratum beside the challengers that decide, by name.
        policies: and of each neutral policy beside the one that decides.
    """

    decision: Decision
    checks: tuple[Check, ...]
    checks_digest: str
    reg: Registration
    view: AuditView
    facts: AuditFacts
    episode_facts: gates.Facts
    config: Config
    strata: Mapping[str, Stratum] = field(default_factory=dict)
    policies: Mapping[str, Policy] = field(default_factory=dict)


def reach(
    view: AuditView, facts: AuditFacts, episode_facts: gates.Facts, registrations: Sequence[str], config: Config
) -> Outcome:
    """Decide an audit from its evidence: a pure function.

    Args:
        view: records and scores.
        facts: recomputed facts of the audit.
        episode_facts: and of each episode, by record digest.
        registrations: every R in the history, oldest first.
        config: the registered configuration.
    """
    reg = gates.registration(config, view.registered.contract, view.checkpoint)
    found = checks.run(checks.Context(view, facts, episode_facts, registrations, config, reg))
    passed = {check.name: check.result == checks.PASS for check in found}
    standing = stands(passed, view, registrations, checks.digest(found))
    gate3 = gates.gate3(view, episode_facts, reg, standing, reg.epsilon) if view.checkpoint else None
    decision = decide(
        reg,
        gates.gate1(view),
        gates.gate2(view, episode_facts, reg, standing, reg.epsilon),
        gate3,
        [fault for check in found if (fault := check.fault())],
    )
    return Outcome(decision, found, standing.checks_digest, reg, view, facts, episode_facts, config)


def stands(
    passed: Mapping[str, bool], view: AuditView, registrations: Sequence[str], checks_digest: str
) -> gates.Standing:
    """What the checks say of the evidence as a whole.

    Args:
        passed: whether each check passed, by name; those that do not apply to the grade are absent.
        view: the evidence.
        registrations: every R in the history, oldest first.
        checks_digest: of all checks.
    """
    return gates.Standing(
        contract_matched=passed["contract_matched"],
        materials_readable=passed["materials_readable"],
        opportunity=passed["opportunity"],
        healthy=passed["parser_and_scorer_health"],
        neutral_channel=passed.get("channels_alike", False) and passed.get("neutral_channels_replay", False),
        truthful_channel=passed.get("truthful_channels_replay", False),
        ledger_complete=passed["ledger_complete"],
        null_fresh=passed.get("null_instances_fresh", False),
        null_sealed_first=all(
            episode.record.prior_seal in registrations for episode in view.of("null_pairs", "null_pair_replacements")
        ),
        checks_digest=checks_digest,
    )


def document(outcome: Outcome) -> dict[str, Any]:
    """The decision's JSON object, without what the history adds."""
    view = outcome.view
    return {
        **_informative(outcome),
        **_retrospective(outcome),
        "schema": SCHEMA,
        "core": _core(outcome.decision),
        "evidence": _verdict(outcome.decision.evidence),
        "roles": view.registered.config("claim")["roles"],
        "claim": {key: view.registered.config("claim")[key] for key in ("id", "statement", "family", "slot", "grade")},
        "scope": _scope(outcome),
        "registration": {
            "digest": view.registered.digest,
            "contract": view.registered.contract,
            "public_demonstration": view.registered.parts["task"]["seal"]["public_demonstration"],
        },
        "rests_on": {
            "episodes": digest_of([episode.digest for episode in view.episodes]),
            "scores": dict(view.inputs),
            "checkpoint": view.checkpoint.get("digest"),
            "checks": outcome.checks_digest,
        },
        "web": _web(outcome),
        "target_runs_started": outcome.facts.target_runs,
        "gate1": _gate1(outcome),
        "gate2": _gate2(outcome),
        "controls": _controls(outcome),
        "gate3": _gate3(outcome),
        "checks": [
            {"name": c.name, "result": c.result, "needed_for": c.needed_for, "reason": c.reason} for c in outcome.checks
        ],
        "faults": [str(fault) for fault in outcome.decision.faults],
        "notes": [str(note) for note in outcome.decision.notes],
        "warnings": [str(warning) for warning in registration_warnings(outcome.reg, _units(view))],
        "formal_certificate_issued": False,
        "not_claimed": [*NOT_CLAIMED, *_not_claimed_of_its_mode(outcome)],
    }


def _informative(outcome: Outcome) -> dict[str, Any]:
    """What the decision says of strata and of further neutral policies: nothing where there are none."""
    found: dict[str, Any] = {}
    if outcome.strata:
        found["strata"] = {name: strata.document(stratum) for name, stratum in outcome.strata.items()}
        found["headline"] = strata.headline(found["strata"])
    if outcome.policies:
        found["neutral_policies"] = policies.document(_deciding(outcome), outcome.policies)
        told = policies.headline(
            policies.blocks(found),
            outcome.view.checkpoint["scope"],
            necessity=outcome.config.claim.necessity,
        )
        found["headline"] = [*found.get("headline", ()), *told]
    return found


def _deciding(outcome: Outcome) -> dict[str, Any]:
    """The pairs of the neutral policy that decides, for those who compare it with others."""
    effect = outcome.decision.gate3.effect if outcome.decision.gate3 else None
    return {
        "pairs": len(_branches(outcome, "neutral")),
        "neutral_hits": _hits(outcome, "neutral"),
        "effect": gates.interval_of(effect.difference if effect else None),
        "complete": effect is not None and effect.healthy and not effect.unresolved,
    }


def _retrospective(outcome: Outcome) -> dict[str, Any]:
    """What the decision of a retrospective audit says of what it looks back at; nothing in a prospective one."""
    view = outcome.view
    if view.target:
        return {}
    claim, seal = view.registered.config("claim"), view.registered.parts["task"]["seal"]
    found = claim["retrospective"]
    return {
        "retrospective": {
            "mode": claim["mode"],
            "published": found["published"],
            "artifact": view.registered.artifact,
            "presentation": found["presentation"],
            "boundary": found["boundary"],
            "known": {"background": seal["background"], "public": seal["public"]},
        }
    }


def _not_claimed_of_its_mode(outcome: Outcome) -> tuple[str, ...]:
    return NOT_CLAIMED_OF_A_RUN if outcome.view.target else NOT_CLAIMED_LOOKING_BACK[outcome.config.claim.mode]


def _units(view: AuditView) -> int:
    return len(view.registered.parts["task"]["seal"]["units"])


def _verdict(verdict: Verdict) -> dict[str, Any]:
    kind = verdict.inconclusive_class
    return {
        "status": verdict.status.value,
        "class": kind.value if kind else None,
        "exploratory": False,
        "rule": verdict.rule,
        "reason": verdict.reason,
    }


def _core(decision: Decision) -> dict[str, Any]:
    """Core's verdict; where the challengers were not adequate, with what was missing."""
    core = _verdict(decision.core)
    gate2 = decision.gate2
    rules = {"V15", "V17"} if gate2 and gate2.recovery is not Recovery.RECOVERED else {"V15"}
    if core["rule"] in rules and gate2 and gate2.adequacy_faults:
        core["reason"] += f" ({'; '.join(fault.detail for fault in gate2.adequacy_faults)})"
    return core


def _scope(outcome: Outcome) -> dict[str, Any]:
    limits, agent = outcome.config.limits, outcome.config.agent
    return {
        "agent": f"{agent.kind} {agent.name}",
        "model": agent.model_id,
        "budget": {"experiments": limits.experiments, "candidates": limits.candidates},
        "information": outcome.config.task.name,
        "isolation": outcome.config.isolation.backend,
    }


def _web(outcome: Outcome) -> dict[str, Any] | None:
    """What was fetched from where, by the target run alone; None where the Web is no part of the audit."""
    web = outcome.view.registered.web
    if not web:
        return None
    site = web["site"]
    return {
        "packet": outcome.view.packet.digest,
        "fetched": [
            {"url": page.url, "status": page.status, "content_type": page.content_type, "body": page.body}
            for page in outcome.view.packet.pages
        ],
        "permitted": [f"{scheme}://{host}/" for scheme, host in places(web)],
        "on_loopback": f"{site}: pages that ship with dcpflow, the one host whose address is not public"
        if site
        else None,
    }


def _gate1(outcome: Outcome) -> dict[str, Any]:
    found = outcome.decision.gate1
    base = [row for row in outcome.view.scores["target"] if row.role == "baseline" and row.validity == "valid"]
    return {
        "x": gates.number(found.claimed_score) if found else None,
        "baseline": base[0].mean if base else None,
        "gain": gates.interval_of(found.gain if found else None),
        "delta_min": outcome.reg.delta_min,
        "units": _units(outcome.view),
    }


def _gate2(outcome: Outcome) -> dict[str, Any]:
    found, reg, view = outcome.decision.gate2, outcome.reg, outcome.view
    rows = [view.score_of(episode) for episode in view.of("challengers")]
    scores = [row.mean for row in rows if row and row.validity == "valid"]
    statuses = [attempt.status for attempt in found.attempts] if found else []
    return {
        "epsilon": reg.epsilon,
        "recovery_line": recovery_line(view, reg),
        "challengers": {
            "started": len(rows),
            "independent": found.independent if found else None,
            "hits": found.hits if found else None,
            "unresolved": found.unresolved if found else None,
            "model_failures": statuses.count(AttemptStatus.MODEL_FAILURE),
            "infrastructure": statuses.count(AttemptStatus.INFRASTRUCTURE_INVALID),
            "violations": statuses.count(AttemptStatus.EXECUTION_CONTRACT_VIOLATION),
        },
        "best_score": max(scores) if scores else None,
        "recovery_upper_bound": gates.number(found.bound) if found else None,
        "recovery_upper_bound_without_failures": gates.number(found.bound_without_failures) if found else None,
        "campaign": campaign_risk(gates.number(found.bound), found.independent) if found else campaign_risk(None, None),
        "rho": reg.rho,
        "recovery": found.recovery.value if found else None,
        "reason": found.reason if found else "Gate 2 could not be evaluated",
        "adequacy": [fault.detail for fault in found.adequacy_faults] if found else [],
        "witnesses": [a.attempt_id for a in found.attempts if a.status is AttemptStatus.CONFIRMED_HIT] if found else [],
        **_looks(outcome, "challengers"),
    }


def _looks(outcome: Outcome, stage: str) -> dict[str, Any]:
    taken = looks.taken(stage, outcome.view, outcome.episode_facts, outcome.reg)
    return looks.summary(stage, outcome.view, taken)


def _controls(outcome: Outcome) -> dict[str, Any]:
    view, reg = outcome.view, outcome.reg
    episodes = view.of("controls")
    successes = sum(gates.control_succeeded(view, e, outcome.episode_facts[e.digest], reg.epsilon) for e in episodes)
    return {
        "successes": successes,
        "trials": len(episodes),
        "recall_lower_bound": intervals.success_lower_bound(successes, len(episodes), reg.alpha_adequacy),
        "recall_min": reg.min_control_recall,
    }


def _gate3(outcome: Outcome) -> dict[str, Any] | None:
    view, reg, found = outcome.view, outcome.reg, outcome.decision.gate3
    if not view.checkpoint:
        return None
    effect, null = (found.effect, found.null) if found else (None, None)
    neutral = found.neutral if found else None
    hits = {arm: _hits(outcome, arm) for arm in ("truthful", "neutral")}
    lower = gates.number(effect.difference.lower) if effect else None
    return {
        "pairs": {"registered": reg.feedback_pairs, "analysed": effect.analysed if effect else 0},
        "replaced": {
            "pairs": len(view.of("pair_replacements")) // 2,
            "null_pairs": len(view.of("null_pair_replacements")) // 2,
        },
        "checkpoint_scope": view.checkpoint["scope"],
        "truthful_hits": hits["truthful"],
        "neutral_hits": hits["neutral"],
        "neutral_upper_bound": _neutral_bound(outcome, hits["neutral"]),
        "neutral_recovery": neutral.recovery.value if neutral else None,
        "effect": gates.interval_of(effect.difference if effect else None),
        "effect_status": effect.effect.value if effect else None,
        "null": {
            "pairs": null.analysed if null else 0,
            **gates.interval_of(null.difference if null else None),
            "status": null.adequacy.value if null else None,
        },
        "delta_evidence": reg.delta_evidence,
        "delta_sham": reg.delta_null,
        "margin": lower - reg.delta_null if lower is not None else None,
        "reason": effect.reason if effect else "the feedback experiment could not be evaluated",
        **_looks(outcome, "pairs"),
    }


def _hits(outcome: Outcome, arm: str) -> int:
    """Branches of an arm whose artifact is valid and reaches the recovery line, replaced pairs left out."""
    return gates.reaching(outcome.view, _branches(outcome, arm), recovery_line(outcome.view, outcome.reg))


def _branches(outcome: Outcome, arm: str) -> list[Episode]:
    """The branches of an arm, replaced pairs left out."""
    view = outcome.view
    replaced = {e.record.replacement_of for e in view.of("pair_replacements")}
    return [
        e
        for e in view.of("pairs", "pair_replacements")
        if e.record.arm == arm and f"{e.record.stage}/{e.record.slot}" not in replaced
    ]


def recovery_line(view: AuditView, reg: Registration) -> float | None:
    """The score from which on an artifact recovers the outcome; None where A* has none."""
    claimed = view.claimed_score
    return claimed.mean - reg.epsilon if claimed and claimed.validity == "valid" else None


def _neutral_bound(outcome: Outcome, hits: int) -> float | None:
    """What the neutral arm says of recovery without feedback, where their number was fixed and none recovered."""
    found = outcome.decision.gate3
    terminal = found.neutral.terminal if found else None
    if terminal is None or hits or outcome.reg.feedback_looks:
        return None
    return intervals.zero_hit_upper_bound(terminal.independent, outcome.reg.alpha_neutral)


def mark_exploratory(decision: dict[str, Any], changes: Sequence[Mapping[str, Any]], checkpoint_scope: str) -> None:
    """Mark the statuses that rest on an amended key; Evidence rests on Core, a stratum on Core and on its own keys, a
    further neutral policy on Evidence and on its own key.

    No status rests on a stratum or on a further policy. Core rests on the keys of Gate 3 too where neutral branches are
    challengers: which of them are started, and so which could have recovered the outcome, follows from these keys.

    Args:
        decision: the decision, in which ``exploratory`` is set.
        changes: what was amended since the first registration.
        checkpoint_scope: scope of the checkpoint; empty without Gate 3.
    """
    keys = [str(change["key"]) for change in changes]
    touched = [key for key in keys if not f"{key}.".startswith((STRATA_KEYS, *POLICY_KEYS))]
    core = any(checkpoint_scope == LINEAGE_EMPTY or not key.startswith(GATE3_KEYS) for key in touched)
    decision["core"]["exploratory"] = core
    decision["evidence"]["exploratory"] = bool(touched)
    for name, block in decision.get("strata", {}).items():
        own = f"{STRATA_KEYS}{name}."
        block["exploratory"] = core or any(f"{key}.".startswith(own) or f"{key}." == STRATA_KEYS for key in keys)
    if "neutral_policies" in decision:
        found = decision["neutral_policies"]
        for name, block in found["further"].items():
            block["exploratory"] = bool(touched) or bool({PAIRS_OF_POLICIES, f"{PAIRS_OF_POLICIES}.{name}"} & {*keys})
        # also where one was taken out: which policies are spread out was chosen anew then
        listed = any(f"{key}.".startswith(POLICY_KEYS) for key in keys)
        found["spread"]["exploratory"] = listed or any(block["exploratory"] for block in found["further"].values())


def complete_headline(decision: dict[str, Any], no_longer_shown: Iterable[str]) -> None:
    """Let the headline say, too, what stood in that of the decision under the first registration, and which strata and
    neutral policies are no longer shown; a decision that has nothing to say there, and neither, has none.

    Args:
        decision: the decision, with the confirmatory one in it where it was amended.
        no_longer_shown: a sentence for each of these.
    """
    own = decision.get("headline", [])
    first = (decision["confirmatory"] or {}).get("headline", ())
    added = [*(f"under the first registration: {text}" for text in first if text not in own), *no_longer_shown]
    if added:
        decision["headline"] = [*own, *added]


STRATA_KEYS = f"{STRATA}."
PAIRS_OF_POLICIES = "design.neutral_policy_pairs"
POLICY_KEYS = ("design.neutral_policies.", f"{PAIRS_OF_POLICIES}.")
"""Keys that only further neutral policies rest on."""


GATE3_KEYS = (
    "thresholds.gate3.",
    "thresholds.alpha.evidence",
    "thresholds.alpha.sham",
    "thresholds.alpha.neutral",
    "design.pairs",
    "design.pair_looks",
    "design.pair_replacements",
    "design.null_pairs",
    "design.null_pair_replacements",
    "design.misled_null_episodes",
)
