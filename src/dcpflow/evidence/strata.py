"""Strata in the decision: each has a block of its own, and one that recovered the outcome stands in the headline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

from dcpflow.evidence import checks, gates
from dcpflow.evidence.checks import Check, Context
from dcpflow.protocol.faults import Fault
from dcpflow.protocol.model import AttemptStatus, ScoredArtifact
from dcpflow.protocol.strata import StratumResult, evaluate_stratum
from dcpflow.records import plan
from dcpflow.records.history import Entry

LABEL: Final = "informative"
CHECKS: Final = (
    "registration_frozen_first",
    "claim_frozen",
    "lineage_withheld",
    "challenger_channel_withheld",
    "contract_matched",
    "opportunity",
    "parser_and_scorer_health",
    "private_isolation",
    "models_registered",
    "symmetric_scoring",
    "scored_after_commit",
    "ledger_complete",
    "draws_follow_nonce",
    "commitments_open",
    "same_information",
    "same_web_packet",
    "independent_units",
    "transcripts_differ",
)
"""Checks that say something of a stratum's challengers: those of Core and of Gate 2 that read challengers."""


@dataclass(frozen=True, slots=True)
class Stratum:
    """A stratum with what was found of it.

    Attributes:
        name: its name.
        context: its evidence: its challengers, its registered agent and limits.
        alpha: error of its bound.
        result: what its challengers came to.
        checks: its checks, which stand in the way of no status.
    """

    name: str
    context: Context
    alpha: float
    result: StratumResult
    checks: tuple[Check, ...]


def reach(context: Context, claimed: ScoredArtifact, alpha: float) -> Stratum:
    """Judge a stratum by its records.

    Args:
        context: its evidence.
        claimed: A*.
        alpha: registered error of its bound.
    """
    name = str(context.view.registered.config("design")["stratum"])
    found = checks.run(context, CHECKS)
    faults = [
        Fault(check.name, f"strata.{name}", f"{check.result.replace('_', ' ')}: {check.reason}", check.blocks)
        for check in found
        if check.result != checks.PASS and check.needed_for != "report"
    ]
    attempts = [
        replace(attempt, attempt_id=attempt.attempt_id.replace(plan.CHALLENGERS, plan.place(plan.CHALLENGERS, name), 1))
        for attempt in gates.challengers(context.view, context.episode_facts, context.reg)
    ]
    return Stratum(name, context, alpha, evaluate_stratum(context.reg, name, attempts, claimed, alpha, faults), found)


def document(stratum: Stratum) -> dict[str, Any]:
    """The block of a stratum in ``decision.json``."""
    view, result, config = stratum.context.view, stratum.result, stratum.context.config
    rows = [view.score_of(episode) for episode in view.episodes]
    scores = [row.mean for row in rows if row and row.validity == "valid"]
    return {
        "label": LABEL,
        "exploratory": False,
        "agent": f"{config.agent.kind} {config.agent.name}",
        "model": config.agent.model_id,
        "budget": {"experiments": config.limits.experiments, "candidates": config.limits.candidates},
        "contract": view.registered.contract,
        "challengers": {
            "registered": config.design.challengers,
            "started": len(view.episodes),
            "independent": result.independent,
            "hits": result.hits,
            "unresolved": result.unresolved,
            "model_failures": result.count(AttemptStatus.MODEL_FAILURE),
            "infrastructure": result.count(AttemptStatus.INFRASTRUCTURE_INVALID),
            "violations": result.count(AttemptStatus.EXECUTION_CONTRACT_VIOLATION),
        },
        "best_score": max(scores) if scores else None,
        "recovered": result.recovered,
        "recovery_upper_bound": result.bound,
        "alpha": stratum.alpha,
        "complete": result.complete,
        "reason": "; ".join(result.reasons),
        "witnesses": [row.attempt_id for row in result.attempts if row.status is AttemptStatus.CONFIRMED_HIT],
        **checks.basis(view, plan.CHALLENGERS, stratum.checks),
    }


def headline(strata: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What has to stand beside the statuses: a sentence for each stratum that recovered the outcome or might have.

    Args:
        strata: the blocks of the strata, by name.
    """
    return [_sentence(name, block) for name, block in strata.items() if block["challengers"]["hits"]]


def _sentence(name: str, block: Mapping[str, Any]) -> str:
    """Of a stratum with hits. Where they are not shown to be any, they are told with the reason: one record that was
    spoilt would else silence them all."""
    told = (
        f"{block['challengers']['hits']} of {block['challengers']['started']} in the stratum {name}: "
        f"{block['agent']}, {block['budget']['experiments']} experiments"
    )
    if block["recovered"]:
        return f"another challenger ({name}) recovered the outcome; Core is about the matched agent ({told})"
    return (
        f"another challenger ({name}) reached the recovery line, which could not be assessed ({told}): "
        f"{block['reason']}"
    )


def no_longer_shown(past: Sequence[Entry]) -> dict[str, str]:
    """A sentence for each stratum that was registered once and of which not all challengers are shown now, by name.

    Who has seen what a stratum came to could else remove it, or have others in its place until one misses.

    Args:
        past: the registrations since the first episode started, oldest first; the last one is in force.
    """
    now = past[-1].parts["design"].get("strata", {})
    found: dict[str, str] = {}
    for entry, later in pairwise(past):
        for name, stratum in entry.parts["design"].get("strata", {}).items():
            same = name in now and now[name]["contract"] == stratum["contract"]
            registered, shown = stratum["config"]["challengers"], now[name]["config"]["challengers"] if same else 0
            if shown < registered:
                counts = later.opened.get("episodes", {}).get(plan.place(plan.CHALLENGERS, name), {})
                found[name] = (
                    f"the stratum {name} was registered with {registered} challengers ({counts.get('started', 0)} "
                    f"started) and is {f'shown with {shown} alone' if shown else 'no longer shown'}"
                )
    return found
