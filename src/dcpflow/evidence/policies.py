"""Neutral policies beside the one that decides: a block in the decision, and a recovery that stands in the headline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from dcpflow.evidence import checks, gates
from dcpflow.evidence.checks import Check, Context
from dcpflow.evidence.strata import LABEL
from dcpflow.protocol.faults import Fault
from dcpflow.protocol.model import AttemptStatus, ScoredArtifact
from dcpflow.protocol.pairs import PairStatus
from dcpflow.protocol.policies import DECIDING, PolicyResult, evaluate_policy, spread
from dcpflow.protocol.registration import LINEAGE_EMPTY
from dcpflow.records import plan
from dcpflow.records.history import Entry

CALIBRATION: Final = {
    "reference_null": "not calibrated: the null study holds the policy that decides against this one, and this one "
    "against nothing",
    "lagged_sham": "not calibrated: no null pair has this channel",
}
CHECKS: Final = (
    "registration_frozen_first",
    "contract_matched",
    "parser_and_scorer_health",
    "private_isolation",
    "models_registered",
    "symmetric_scoring",
    "scored_after_commit",
    "ledger_complete",
    "draws_follow_nonce",
    "commitments_open",
    "same_web_packet",
    "channels_alike",
    "neutral_channels_replay",
    "truthful_channels_replay",
    "seals_before_branches",
    "pairs_share_their_draw",
)
"""Checks that say something of a policy's pairs: those of Core and of Gate 3 that read branches."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A further neutral policy with what was found of it.

    Attributes:
        name: its name.
        context: its evidence: its pairs, and nothing else.
        result: what they came to.
        checks: its checks, which stand in the way of no status.
        line: the recovery line; None where A* has no score.
    """

    name: str
    context: Context
    result: PolicyResult
    checks: tuple[Check, ...]
    line: float | None

    @property
    def stage(self) -> str:
        """The stage of its pairs."""
        return plan.POLICIES[self.name]

    @property
    def registered(self) -> int:
        """Its registered number of pairs."""
        return plan.slots(self.stage, self.context.view.registered.config("design"))


def reach(name: str, context: Context, claimed: ScoredArtifact, line: float | None) -> Policy:
    """Judge a policy by the records of its pairs.

    Args:
        name: its name.
        context: its evidence.
        claimed: A*.
        line: the recovery line; None where A* has no score.
    """
    found = checks.run(context, CHECKS)
    faults = [
        Fault(check.name, f"neutral_policies.{name}", f"{check.result.replace('_', ' ')}: {check.reason}", check.blocks)
        for check in found
        if check.result != checks.PASS
    ]
    stage = plan.POLICIES[name]
    pairs = gates.feedback_pairs(context.view, context.episode_facts, context.reg, stage)
    registered = plan.slots(stage, context.view.registered.config("design"))
    result = evaluate_policy(context.reg, name, pairs, claimed, registered, faults)
    return Policy(name, context, result, found, line)


def document(deciding: Mapping[str, Any], policies: Mapping[str, Policy]) -> dict[str, Any]:
    """What ``decision.json`` says of neutral policies where there are several.

    Args:
        deciding: of the pairs that decide ``pairs``, ``neutral_hits``, ``effect`` and whether they are ``complete``.
        policies: the others, by name.
    """
    first = {"name": DECIDING, **deciding, "neutral_rate": _rate(deciding["neutral_hits"], deciding["pairs"])}
    further = {name: _block(policy) for name, policy in policies.items()}
    everyone = {DECIDING: first, **further}
    # what is not known to be the whole of a policy's pairs is not held against the others
    compared = [name for name, block in everyone.items() if block["complete"] and block["effect"]["mean"] is not None]
    return {
        "label": LABEL,
        "deciding": first,
        "further": further,
        "spread": {
            "exploratory": False,
            "policies": compared,
            "left_out": [name for name in everyone if name not in compared],
            "effect": spread([everyone[name]["effect"]["mean"] for name in compared]),
            "neutral_rate": spread([everyone[name]["neutral_rate"] for name in compared]),
        },
    }


def _rate(hits: int, branches: int) -> float | None:
    return hits / branches if branches else None


def _block(policy: Policy) -> dict[str, Any]:
    view, result = policy.context.view, policy.result
    arms = plan.STAGES[policy.stage].arms
    hits = [gates.reaching(view, [e for e in view.episodes if e.record.arm == arm], policy.line) for arm in arms]
    neutral = result.neutral
    return {
        "label": LABEL,
        "exploratory": False,
        "calibrated": False,
        "calibration": CALIBRATION[policy.name],
        "pairs": {
            "registered": policy.registered,
            "started": len(result.pairs),
            "analysed": result.count(PairStatus.ANALYSED),
            "lost": result.count(PairStatus.EXCLUDED),
            "unresolved": result.count(PairStatus.UNRESOLVED),
        },
        "truthful_hits": hits[0],
        "neutral_hits": hits[1],
        "neutral_rate": _rate(hits[1], len(result.pairs)),
        "neutral_upper_bound": neutral.bound,
        "neutral_reason": "; ".join(neutral.reasons),
        "effect": gates.interval_of(result.difference, bounded=result.complete),
        "confirmed": neutral.hits,
        "recovered": neutral.recovered,
        "complete": result.complete,
        "reason": "; ".join(result.reasons),
        "witnesses": [row.attempt_id for row in neutral.attempts if row.status is AttemptStatus.CONFIRMED_HIT],
        **checks.basis(view, policy.stage, policy.checks),
    }


def blocks(decision: Mapping[str, Any]) -> dict[str, Any]:
    """The blocks of the further policies in a decision, by name."""
    found: dict[str, Any] = decision.get("neutral_policies", {}).get("further", {})
    return found


def headline(further: Mapping[str, Mapping[str, Any]], scope: str, *, necessity: bool) -> list[str]:
    """What has to stand beside the statuses: a sentence for each policy under which a neutral branch recovered the
    outcome, or might have, where that would be a challenger's recovery or speak against a claimed necessity.

    Args:
        further: the blocks of the policies, by name.
        scope: of the checkpoint.
        necessity: whether it is claimed that neutral feedback does not suffice.
    """
    if scope != LINEAGE_EMPTY and not necessity:
        return []
    about = "the checkpoint is empty, so that it is a further challenger" if scope == LINEAGE_EMPTY else ""
    about = "; ".join(filter(None, (about, "necessity is claimed for the policy that decides" if necessity else "")))
    return [_sentence(name, block, about) for name, block in further.items() if block["confirmed"]]


def _sentence(name: str, block: Mapping[str, Any], about: str) -> str:
    told = f"{block['confirmed']} of {block['pairs']['started']} neutral branches; {about}; no status rests on it"
    if block["recovered"]:
        return f"with another neutral policy ({name}) the outcome was recovered ({told})"
    return (
        f"with another neutral policy ({name}) the recovery line was reached, which could not be assessed ({told}): "
        f"{block['reason']}"
    )


def no_longer_shown(past: Sequence[Entry]) -> dict[str, str]:
    """A sentence for each further policy that was registered once and of which not all pairs are shown now, by name.

    Who has seen what a policy came to could else take it out, and try others until one says what is wanted.

    Args:
        past: the registrations since the first episode started, oldest first; the last one is in force.
    """
    now = past[-1]
    most: dict[str, int] = {}
    found: dict[str, str] = {}
    for entry, later in pairwise(past):
        for name, stage in plan.policies(entry.parts["design"]["config"]).items():
            registered = plan.slots(stage, entry.parts["design"]["config"])
            shown = plan.slots(stage, now.parts["design"]["config"])
            if entry.contract != now.contract:
                what = "is not shown, since another contract is audited now"
            elif shown:
                what = f"is shown with {shown} alone"
            else:
                what = "is no longer shown"
            if (entry.contract != now.contract or shown < registered) and registered > most.get(name, 0):
                most[name] = registered
                started = later.opened.get("episodes", {}).get(stage, {}).get("started", 0)
                found[name] = (
                    f"the neutral policy {name} was registered with {registered} pairs ({started} episodes started) "
                    f"and {what}"
                )
    return found
