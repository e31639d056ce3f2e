"""From the evidence to what the decision engine reads: attempts, pairs, the null study, and what was registered.

The engine compares contracts, distributions and channels by opaque strings. Here each such string is a digest of what
it stands for, made from the contract; where an episode was shown to be something else, its string says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dcpflow.evidence.rows import PAIR_ARMS, PAIR_STAGES
from dcpflow.evidence.view import AuditView, Episode
from dcpflow.protocol.intervals import Interval
from dcpflow.protocol.model import (
    Adequacy,
    Attempt,
    Branch,
    Conditions,
    FeedbackPair,
    Gate1Evidence,
    Gate2Evidence,
    Gate3Evidence,
    NullCalibration,
    NullPair,
    Outcome,
    ScoredArtifact,
    Validity,
)
from dcpflow.protocol.registered import COMPUTED_FIELDS, to_registration
from dcpflow.protocol.registration import BINARY, Registration
from dcpflow.records import plan
from dcpflow.records.canonical import digest_of, digest_of_numbers
from dcpflow.records.scores import ScoreRow

if TYPE_CHECKING:
    from dcpflow.protocol.config import Config

Facts = Mapping[str, Mapping[str, bool]]
FOREIGN = "not-as-registered"
NULL_STUDY = "null-study"


@dataclass(frozen=True, slots=True)
class Standing:
    """What the checks say of the evidence as a whole.

    Attributes:
        contract_matched: every challenger was told what was registered, and ran under the contract.
        materials_readable: controls quoted their canary files.
        opportunity: every challenger was offered the registered budget.
        healthy: parser, provider and scorer did their part.
        neutral_channel: the channels look alike, and the neutral ones replay without hidden material.
        truthful_channel: the truthful ones replay with it.
        ledger_complete: every started attempt is listed.
        null_fresh: the null instances were drawn for this study.
        null_sealed_first: the null study's channels were registered before its first branch.
        checks_digest: of all checks.
    """

    contract_matched: bool
    materials_readable: bool
    opportunity: bool
    healthy: bool
    neutral_channel: bool
    truthful_channel: bool
    ledger_complete: bool
    null_fresh: bool
    null_sealed_first: bool
    checks_digest: str


def registration(config: Config, contract: str, checkpoint: Mapping[str, Any]) -> Registration:
    """What was registered, with the digests of what an episode is.

    Args:
        config: the registered configuration.
        contract: C.
        checkpoint: the checkpoint's body; its scope is computed, never registered by hand.
    """
    names = {name: digest_of({"contract": contract, "of": name}) for name in COMPUTED_FIELDS}
    # a neutral branch from an empty checkpoint is a challenger: same contract, same draws, same budget
    names["neutral_recovery_contract_digest"] = names["challenger_contract_digest"]
    names["pair_distribution_digest"] = names["challenge_distribution_digest"]
    names["neutral_generator_digest"] = names["neutral_operator_digest"]
    names["slot_receipt"] = digest_of({"family": config.claim.family, "slot": config.claim.slot})
    names["null_calibration_id"] = NULL_STUDY
    return to_registration(config, names, checkpoint_scope=checkpoint.get("scope", "lineage_prefix"))


def gate1(view: AuditView) -> Gate1Evidence:
    """A* and the baseline on the sealed units."""
    baseline = next((row for row in view.scores[plan.TARGET] if row.role == "baseline"), None)
    return Gate1Evidence(
        claimed=_scored(view, view.claimed_score, "claimed artifact"), baseline=_scored(view, baseline, "baseline")
    )


def _scored(view: AuditView, row: ScoreRow | None, name: str) -> ScoredArtifact:
    if row is None:
        return ScoredArtifact(name, (), ())
    seed = view.claimed_presentation
    # an invalid artifact is worth nothing on any unit
    found = row.units or (0.0,) * len(view.units)
    return ScoredArtifact(name, view.units, found, Validity(row.validity), _presented(row.artifact, seed))


def _presented(artifact: str, presentation: str) -> str:
    """An artifact means what it says only under its presentation: equal bytes under two of them are not one plan."""
    return digest_of({"artifact": artifact, "presentation": presentation})


def gate2(view: AuditView, facts: Facts, reg: Registration, standing: Standing, epsilon: float) -> Gate2Evidence:
    """The challengers and their positive controls."""
    attempts = challengers(view, facts, reg)
    return Gate2Evidence(attempts, _adequacy(view, facts, standing, epsilon), _conditions(view, reg))


def challengers(view: AuditView, facts: Facts, reg: Registration) -> tuple[Attempt, ...]:
    """The challengers, slot by slot."""
    return tuple(_attempt(view, episode, facts[episode.digest], reg) for episode in view.of("challengers"))


def _attempt(view: AuditView, episode: Episode, facts: Mapping[str, bool], reg: Registration) -> Attempt:
    record, result = episode.record, _result(view, episode)
    return Attempt(
        attempt_id=f"{record.stage}/{record.slot}",
        stratum=record.stratum,
        contract_digest=reg.challenger_contract_digest if facts["hello_matches"] else FOREIGN,
        prestart_receipt=prestart(episode),
        distribution_digest=reg.challenge_distribution_digest if facts["draw_matches"] else FOREIGN,
        draw_receipt=digest_of({"draw of": record.unit}),
        independent_unit=record.unit,
        independent=facts["draw_matches"],
        **result,
    )


def prestart(episode: Episode) -> str:
    """Digest of what stood before the episode began: its place, its draws, and what had been sealed."""
    record = episode.record
    return digest_of(
        {
            "registration": record.registration,
            "prior_seal": record.prior_seal,
            "draw": record.draw,
            "stage": record.stage,
            "slot": record.slot,
            "arm": record.arm,
        }
    )


def _result(view: AuditView, episode: Episode) -> dict[str, Any]:
    """Outcome, validity and scores of an episode, as attempts and branches hold them."""
    record = episode.record
    outcome = Outcome(record.outcome)
    lost = outcome is Outcome.INFRASTRUCTURE_INVALID
    # a loss before the agent's first message cannot have depended on what it did
    result: dict[str, Any] = {
        "outcome": outcome,
        "infrastructure_independent": lost and not record.usage["messages"],
    }
    row = view.score_of(episode)
    if row is not None:
        result["validity"] = Validity(row.validity)
        result["artifact_digest"] = _presented(row.artifact, record.draw["presentation"])
        if row.validity == "valid":
            result |= {"scores": row.units, "unit_ids": view.units}
    return result


def control_succeeded(view: AuditView, episode: Episode, facts: Mapping[str, bool], epsilon: float) -> bool:
    """A control succeeds where its artifact reaches its own instance's line and it quoted canary and Web packet."""
    return facts["canary_quoted"] and facts["packet_quoted"] and reached_own_line(view, episode, epsilon)


def _adequacy(view: AuditView, facts: Facts, standing: Standing, epsilon: float) -> Adequacy:
    controls = view.of("controls")
    return Adequacy(
        matched_model_present=standing.contract_matched,
        materials_readable=standing.materials_readable,
        opportunity_floor_met=standing.opportunity,
        health_audit_pass=standing.healthy,
        positive_control_successes=sum(
            control_succeeded(view, episode, facts[episode.digest], epsilon) for episode in controls
        ),
        positive_control_trials=len(controls),
        calibration_id="positive-controls",
        checks_digest=standing.checks_digest,
    )


def _conditions(view: AuditView, reg: Registration) -> Conditions:
    """What challengers and neutral branches are given alike: one contract, so one set of digests."""
    seal = view.registered.parts["task"]["seal"]
    return Conditions(
        model_id=reg.model_id,
        interface_digest=reg.interface_digest,
        resource_digest=reg.branch_resource_digest,
        opportunity_digest=reg.branch_opportunity_digest,
        policy_digest=reg.branch_policy_digest,
        knowledge_digest=str(seal["background"]),
        initial_evidence_digest=digest_of({"contract": view.registered.contract, "of": "E0"}),
        web_digest=view.packet.digest,
    )


def feedback_pairs(
    view: AuditView, facts: Facts, reg: Registration, stage: str = plan.PAIRS
) -> tuple[FeedbackPair, ...]:
    """The started feedback pairs in evidence order, of the policy that decides or of the stage of another one."""
    return tuple(
        FeedbackPair(
            **_pair(arms, facts, reg.pair_distribution_digest),
            truthful=_branch(view, arms[0], facts, reg.truthful_contract_digest),
            neutral=_branch(view, arms[1], facts, reg.neutral_contract_digest),
        )
        for arms in paired(view, stage)
    )


def gate3(view: AuditView, facts: Facts, reg: Registration, standing: Standing, epsilon: float) -> Gate3Evidence:
    """The feedback experiment and its null study."""
    pairs = feedback_pairs(view, facts, reg)
    seals = view.seals(plan.PAIRS)
    # stopping elsewhere is having another number of pairs than the registered one, or than a registered look has
    stopped = _complete(view, "pairs", reg.feedback_looks or (reg.feedback_pairs,))
    sealed = (
        all(episode.record.prior_seal in seals for episode in view.of("pairs", "pair_replacements"))
        and view.checkpoint["target_record"] == view.claim_seal
    )
    return Gate3Evidence(
        pairs=pairs,
        null=_null(view, facts, reg, standing, epsilon),
        neutral_adequacy=_adequacy(view, facts, standing, epsilon),
        neutral_conditions=_conditions(view, reg),
        checkpoint_scope=view.checkpoint["scope"],
        checkpoint_digest=view.checkpoint["digest"],
        window_digest=digest_of(view.checkpoint["history"]),
        pairs_digest=_pairs_digest(pairs),
        paired_contract_digest=reg.paired_contract_digest,
        truthful_contract_digest=reg.truthful_contract_digest,
        neutral_contract_digest=reg.neutral_contract_digest,
        neutral_recovery_contract_digest=reg.neutral_recovery_contract_digest,
        truthful_generator_digest=reg.truthful_generator_digest,
        neutral_generator_digest=reg.neutral_generator_digest,
        preseal_receipt=view.checkpoint["digest"],
        sealed_before_branches=sealed,
        sealed_event_index=0 if sealed else -1,
        first_branch_event_index=1 if sealed else -1,
        neutral_scope_digest=digest_of({"scope": view.checkpoint["scope"], "contract": view.registered.contract}),
        design_checks_pass=all(facts[e.digest]["draw_matches"] for e in view.of("pairs", "pair_replacements")),
        stopping_rule_pass=stopped,
        registered_pairs_complete=stopped,
        all_started_disclosed=standing.ledger_complete,
        no_replacements=not any(pair.replacement_of for pair in pairs),
        paired_contract_audit_pass=standing.contract_matched,
        truthful_channel_audit_pass=standing.truthful_channel,
        neutral_channel_audit_pass=standing.neutral_channel,
        neutral_contract_audit_pass=None,
        started_pairs=len(pairs),
    )


def paired(view: AuditView, table: str) -> list[list[Episode]]:
    """The started pairs in evidence order, arms in table order."""
    slots: dict[tuple[str, int], dict[str, Episode]] = {}
    for episode in view.of(*PAIR_STAGES[table]):
        slots.setdefault((episode.record.stage, episode.record.slot), {})[episode.record.arm] = episode
    return [[arms[arm] for arm in PAIR_ARMS[table]] for arms in slots.values()]


def _complete(view: AuditView, table: str, registered: Sequence[int]) -> bool:
    return sum(not arms[0].record.replacement_of for arms in paired(view, table)) in registered


def _pair(arms: Sequence[Episode], facts: Facts, distribution: str) -> dict[str, Any]:
    record = arms[0].record
    drawn = all(facts[episode.digest]["draw_matches"] for episode in arms)
    return {
        "pair_id": f"{record.stage}/{record.slot}",
        "block_id": record.unit,
        "distribution_digest": distribution if drawn else FOREIGN,
        "draw_receipt": digest_of({"draw of": record.unit, "first": record.draw["first_arm"]}),
        "assignment_frozen": drawn,
        "independent": drawn,
        "replacement_of": record.replacement_of,
    }


def _branch(
    view: AuditView,
    episode: Episode,
    facts: Facts,
    contract: str,
    utility: Callable[[Episode], float | None] | None = None,
) -> Branch:
    record, result = episode.record, _result(view, episode)
    if utility is not None:
        # a null branch counts by its own instance's line, not by its distance to the claimed artifact
        result |= {"utility": utility(episode), "scores": None, "unit_ids": ()}
    return Branch(
        branch_id=f"{record.stage}/{record.slot}/{record.arm}",
        result_digest=_result_digest(view, episode),
        contract_digest=contract if facts[episode.digest]["hello_matches"] else FOREIGN,
        prestart_receipt=prestart(episode),
        **result,
    )


def _result_digest(view: AuditView, episode: Episode) -> str:
    """Of the record, which names the artifact, and of its scores."""
    row = view.score_of(episode)
    scored = (
        {"artifact": row.artifact, "validity": row.validity, "units": digest_of_numbers(row.units)} if row else None
    )
    return digest_of({"record": episode.digest, "score": scored})


def _pairs_digest(pairs: Sequence[FeedbackPair | NullPair]) -> str:
    """Of what identifies pairs and branches, and of the branches' results by their digests."""
    return digest_of(
        [
            [pair.pair_id, pair.draw_receipt, pair.distribution_digest, pair.replacement_of]
            + [[b.branch_id, b.prestart_receipt, b.contract_digest, b.result_digest] for b in pair.branches]
            for pair in pairs
        ]
    )


def _null(view: AuditView, facts: Facts, reg: Registration, standing: Standing, epsilon: float) -> NullCalibration:
    def utility(episode: Episode) -> float | None:
        return null_utility(view, episode, reg, epsilon)

    pairs = tuple(
        NullPair(
            **_pair(arms, facts, reg.null_distribution_digest),
            reference=_branch(view, arms[0], facts, reg.null_reference_contract_digest, utility),
            proposed=_branch(view, arms[1], facts, reg.null_proposed_contract_digest, utility),
        )
        for arms in paired(view, "null_pairs")
    )
    return NullCalibration(
        pairs=pairs,
        calibration_id=NULL_STUDY,
        # the neutral policy is code of the contract; it was built on no pairs at all
        development_digest=digest_of({"development pairs": []}),
        confirmatory_digest=_pairs_digest(pairs),
        task_profile=reg.task_profile,
        model_id=reg.model_id,
        interface_digest=reg.interface_digest,
        scaffold_digest=reg.scaffold_digest,
        feedback_schema_digest=reg.feedback_schema_digest,
        operator_digest=reg.neutral_operator_digest,
        reference_generator_digest=reg.reference_generator_digest,
        utility_scale_id=reg.utility_scale_id,
        paired_contract_digest=reg.null_paired_contract_digest,
        reference_contract_digest=reg.null_reference_contract_digest,
        proposed_contract_digest=reg.null_proposed_contract_digest,
        preseal_receipt=view.registered.contract,
        sealed_before_branches=standing.null_sealed_first,
        sealed_event_index=0 if standing.null_sealed_first else -1,
        first_branch_event_index=1 if standing.null_sealed_first else -1,
        channel_checks_pass=standing.neutral_channel,
        fresh=standing.null_fresh,
        # the neutral policy is source code of the contract, which each null record names
        operator_frozen_first=standing.null_sealed_first,
        development_disjoint=standing.null_fresh,
        all_started_disclosed=standing.ledger_complete,
        no_replacements=not any(pair.replacement_of for pair in pairs),
        started_pairs=len(pairs),
    )


def null_utility(view: AuditView, episode: Episode, reg: Registration, epsilon: float) -> float | None:
    """Utility on a null task: whether the instance's own line was reached (binary), or the score itself."""
    row = view.score_of(episode)
    if row is None or row.validity != "valid":
        return None
    return float(reached_own_line(view, episode, epsilon)) if reg.feedback_estimand == BINARY else row.mean


def reaching(view: AuditView, episodes: Sequence[Episode], line: float | None) -> int:
    """How many episodes have a valid artifact that reaches a recovery line; none where there is no line."""
    rows = [row for row in map(view.score_of, episodes) if row is not None and row.validity == "valid"]
    return sum(row.mean >= line for row in rows) if line is not None else 0


def interval_of(found: Interval | None, *, bounded: bool = True) -> dict[str, float | None]:
    """An interval as ``decision.json`` holds it, perhaps without its ends."""
    if found is None:
        return {"mean": None, "lower": None, "upper": None}
    lower, upper = (found.lower, found.upper) if bounded else (None, None)
    return {"mean": number(found.mean), "lower": number(lower), "upper": number(upper)}


def number(value: float | None) -> float | None:
    """A number that JSON can hold."""
    return value if value is not None and math.isfinite(value) else None


def reached_own_line(view: AuditView, episode: Episode, epsilon: float) -> bool:
    """Whether an episode's artifact is as good, within epsilon, as the known solution of its own instance."""
    row = view.score_of(episode)
    known = view.own_score("known_solution", episode.record.stage, episode.record.slot)
    if row is None or row.validity != "valid" or known is None:
        return False
    return row.mean >= known.mean - epsilon
