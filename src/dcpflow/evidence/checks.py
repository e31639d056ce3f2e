"""The named checks: each reads records and says what they show. Nothing here is attested by hand.

A check that fails, or that cannot be assessed, blocks the status that it is needed for: that status is then
inconclusive, class audit_incomplete, with the check named.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dcpflow.errors import EvidenceError
from dcpflow.evidence import looks
from dcpflow.evidence.facts import AuditFacts
from dcpflow.evidence.gates import Facts, paired, reached_own_line
from dcpflow.evidence.rows import PAIR_STAGES
from dcpflow.evidence.view import AuditView, Episode
from dcpflow.protocol.faults import (
    CORE_ONLY,
    EVERY_HIT,
    EVIDENCE_ONLY,
    NEUTRAL_ARM,
    NEUTRAL_DISCLOSURE,
    Fault,
    Stake,
)
from dcpflow.protocol.intervals import success_lower_bound
from dcpflow.protocol.registration import Registration
from dcpflow.records import plan
from dcpflow.records.calls import foreign
from dcpflow.records.canonical import digest_of, encode
from dcpflow.records.packet import PREFIX, Packet, not_recorded

if TYPE_CHECKING:
    from dcpflow.protocol.config import Config

PASS, FAIL, NOT_ASSESSED = "pass", "fail", "not_assessed"
BOUNDARIES = {
    "retrospective_prepub": "rebuilt as it was before the publication",
    "retrospective_present": "rebuilt as it is today, the publication left out",
}
UNINFORMED = frozenset({"neutral", "reference_null", "proposed_sham", "lagged_sham"})
REPORTED: frozenset[Stake] = frozenset()
ADEQUACY: frozenset[Stake] = frozenset()


@dataclass(frozen=True, slots=True)
class Context:
    """What a check may read.

    Attributes:
        view: the audit.
        facts: recomputed facts of the audit.
        episode_facts: and of each episode, by record digest.
        registrations: every R in the history, oldest first.
        config: the registered configuration.
        reg: the same as the engine reads it.
    """

    view: AuditView
    facts: AuditFacts
    episode_facts: Facts
    registrations: Sequence[str]
    config: Config
    reg: Registration

    def fact(self, episode: Episode, name: str) -> bool:
        """One recomputed fact of an episode."""
        return self.episode_facts[episode.digest][name]

    def without(self, episodes: Iterable[Episode], name: str) -> list[str]:
        """The episodes of which a fact does not hold, by name."""
        return [str(episode.key) for episode in episodes if not self.fact(episode, name)]


@dataclass(frozen=True, slots=True)
class Check:
    """One check's result.

    Attributes:
        name: stable name.
        result: ``pass``, ``fail`` or ``not_assessed``.
        needed_for: ``core``, ``evidence``, ``adequacy`` (of Gate 2) or ``report``.
        reason: in plain words, with counts.
        records: digests of the records that it read.
        blocks: what must not be concluded unless it passes.
    """

    name: str
    result: str
    needed_for: str
    reason: str
    records: tuple[str, ...]
    blocks: frozenset[Stake]

    def fault(self) -> Fault | None:
        """What the decision engine is told; None where the check passed or blocks nothing."""
        if self.result == PASS or not self.blocks:
            return None
        return Fault(self.name, f"checks.{self.name}", f"{self.result}: {self.reason}", self.blocks)


Finding = tuple[str, str, Iterable[Episode]]
Finder = Callable[[Context], Finding]
Applies = Callable[[Context], bool]
_CHECKS: list[tuple[str, str, frozenset[Stake], Finder, Applies]] = []


def _check(needed_for: str, blocks: frozenset[Stake], applies: Applies = lambda _: True) -> Callable[[Finder], Finder]:
    def add(function: Finder) -> Finder:
        _CHECKS.append((function.__name__, needed_for, blocks, function, applies))
        return function

    return add


def _looked_at(stage: str) -> Applies:
    """Whether it is registered when a stage is looked at."""
    return lambda context: bool(context.view.registered.config("design").get(plan.LOOKS[stage]))


def _has_target(context: Context) -> bool:
    """Whether a target run belongs to the audit: a retrospective one has none."""
    return context.view.target is not None


def run(context: Context, only: Collection[str] = ()) -> tuple[Check, ...]:
    """Run every check that applies to the registered grade and design, in a fixed order.

    Args:
        context: what they may read.
        only: names of those that are run; empty for all.
    """
    results = []
    for name, needed_for, blocks, function, applies in _CHECKS:
        if only and name not in only:
            continue
        if (needed_for == "evidence" and context.reg.grade != "evidence") or not applies(context):
            continue
        result, reason, episodes = function(context)
        records = tuple(episode.digest for episode in episodes)
        results.append(Check(name, result, needed_for, reason, records, blocks))
    return tuple(results)


def digest(checks: Sequence[Check]) -> str:
    """Digest over all results."""
    return digest_of([[check.name, check.result, check.reason, list(check.records)] for check in checks])


def basis(view: AuditView, phase: str, checks: Sequence[Check]) -> dict[str, Any]:
    """What an informative block of the decision says of its checks, and the digests that it rests on.

    Args:
        view: the evidence of the block alone.
        phase: in which it was scored.
        checks: of that evidence.
    """
    return {
        "checks": [{"name": check.name, "result": check.result, "reason": check.reason} for check in checks],
        "rests_on": {
            "episodes": digest_of([episode.digest for episode in view.episodes]),
            "scores": view.inputs[phase],
            "checks": digest(checks),
        },
    }


def _verdict(problems: Sequence[str], good: str) -> tuple[str, str]:
    """Pass with a reason, or fail with the first problems named."""
    if not problems:
        return PASS, good
    more = f" and {len(problems) - 3} more" if len(problems) > 3 else ""
    return FAIL, f"not so for {', '.join(problems[:3])}{more}"


# --- needed for Core ---------------------------------------------------------------------------------------


@_check("core", EVERY_HIT)
def registration_frozen_first(context: Context) -> Finding:
    """Each record names a registration of the recorded history, which therefore stood before it."""
    episodes = context.view.episodes
    odd = [str(e.key) for e in episodes if e.record.registration not in context.registrations]
    return *_verdict(odd, f"all {len(episodes)} episodes began under a registration of the recorded history"), episodes


@_check("core", EVERY_HIT)
def claim_frozen(context: Context) -> Finding:
    """Each challenger's record holds the digest of the target's record, and with it of the claimed artifact; in a later
    look by way of the scores of the look before. In a retrospective audit it holds that of the artifact itself."""
    challengers, target = context.view.of("challengers"), context.view.target
    seals = context.view.seals(plan.CHALLENGERS)
    odd = [str(e.key) for e in challengers if e.record.prior_seal not in seals]
    fixed = "committed" if target else "registered"
    good = f"the claimed artifact was {fixed} before any challenger began"
    return *_verdict(odd, good), [*([target] if target else []), *challengers]


@_check("core", EVERY_HIT, applies=_has_target)
def target_learned_from_experiments(context: Context) -> Finding:
    """The claim is about research: the target run asked the evaluator at least once before it committed."""
    target = _target(context)
    count = target.record.usage["experiments"]
    result = PASS if count else FAIL
    return result, f"the target run made {count} experiments before it committed", [target]


@_check("core", EVERY_HIT)
def lineage_withheld(context: Context) -> Finding:
    """No challenger was given an earlier exchange, a reply of the target run, or its artifact."""
    challengers, target = context.view.of("challengers"), context.view.target
    replies = target.replies() if target else []
    artifacts = target.record.candidates if target else [context.view.registered.artifact]
    secrets = [json.dumps(reply["result"], sort_keys=True) for reply in replies if "result" in reply]
    # a file ends with a line break that a text which quotes it need not have
    secrets += [context.view.candidates[digest].decode().strip() for digest in artifacts]
    odd = []
    for episode in challengers:
        hello = episode.hello
        told = json.dumps(hello, sort_keys=True, ensure_ascii=False)
        quoted = [json.dumps(secret, ensure_ascii=False)[1:-1] for secret in secrets]
        if hello["history"] or any(text and text in told for text in (*secrets, *quoted)):
            odd.append(str(episode.key))
    what = "any of the target's history" if target else "the claimed artifact, or any history"
    return *_verdict(odd, f"none of {len(challengers)} challengers was given {what}"), challengers


@_check("core", EVERY_HIT)
def challenger_channel_withheld(context: Context) -> Finding:
    """Replayed without any hidden material, the challengers' channel says what they were told, line for line."""
    challengers = context.view.of("challengers")
    odd = context.without(challengers, "transcript_replays")
    return *_verdict(odd, "every reply to a challenger replays from registered constants alone"), challengers


@_check("adequacy", ADEQUACY)
def contract_matched(context: Context) -> Finding:
    """Model, interface, information and budget: each episode was told exactly what was registered."""
    episodes = context.view.episodes
    odd = context.without(episodes, "hello_matches")
    return *_verdict(odd, f"all {len(episodes)} episodes were told what their stage and draws say, and nothing else"), (
        episodes
    )


@_check("adequacy", ADEQUACY)
def materials_readable(context: Context) -> Finding:
    """Controls quoted a random file and a page of the Web packet byte for byte, often enough to rule out that
    materials did not arrive."""
    controls, pages = context.view.of("controls"), context.view.packet.pages
    missed = {*context.without(controls, "canary_quoted"), *context.without(controls, "packet_quoted")}
    quoted = len(controls) - len(missed)
    bound = success_lower_bound(quoted, len(controls), context.reg.alpha_adequacy)
    reached = bound >= context.reg.min_control_recall
    what = "canary file and drawn page of the Web packet" if pages else "canary file"
    reason = f"{quoted} of {len(controls)} controls quoted their {what} byte for byte (lower bound {bound:.4f})"
    return PASS if reached else FAIL, reason, controls


@_check("adequacy", ADEQUACY)
def opportunity(context: Context) -> Finding:
    """Each challenger was offered the registered budget; what it made of it is reported."""
    challengers = context.view.of("challengers")
    limits = context.config.limits
    odd = [
        str(e.key)
        for e in challengers
        if e.hello["budgets"]["experiments"] != limits.experiments
        or e.hello["budgets"]["candidates"] != limits.candidates
    ]
    used = sum(e.record.usage["experiments"] for e in challengers)
    offered = limits.experiments * len(challengers)
    good = f"{used} of {offered} offered experiments and {sum(e.record.usage['commits'] for e in challengers)} commits"
    return *_verdict(odd, f"{good} were used by {len(challengers)} challengers"), challengers


@_check("adequacy", ADEQUACY)
def parser_and_scorer_health(context: Context) -> Finding:
    """The channel understood what agents said, and the scorer scored the task's own artifacts as valid."""
    view = context.view
    episodes = [e for e in view.episodes if e.record.outcome != "infrastructure_invalid"]
    deaf = [str(e.key) for e in episodes if "bad_messages" in e.record.limits_hit]
    own = [row for rows in view.scores.values() for row in rows if row.role in ("baseline", "known_solution")]
    invalid = [f"the {row.role} of {row.stage} slot {row.slot}" for row in own if row.validity != "valid"]
    if invalid:
        return FAIL, f"the scorer refused {invalid[0]}", episodes
    share = len(deaf) / len(episodes) if episodes else 0.0
    reason = f"{len(deaf)} of {len(episodes)} episodes ended by malformed messages; {len(own)} reference scores valid"
    return PASS if share <= context.reg.max_model_failure_rate else FAIL, reason, episodes


@_check("core", CORE_ONLY)
def private_isolation(context: Context) -> Finding:
    """In the sandbox of each episode's job, a probe could reach nothing: no sealed file, network or other process."""
    view = context.view
    odd = []
    for episode in view.episodes:
        tests = view.probes[episode.record.isolation]["tests"]
        if not tests or set(tests.values()) != {"refused"}:
            odd.append(str(episode.key))
    if odd and all(not view.probes[e.record.isolation]["tests"] for e in view.episodes):
        return NOT_ASSESSED, "the audit was registered to run without isolation", view.episodes
    tried = len(next(iter(view.probes.values()))["tests"]) if view.probes else 0
    return *_verdict(odd, f"all {tried} ways out that the probe tried were refused, in every job"), view.episodes


@_check("core", CORE_ONLY)
def models_registered(context: Context) -> Finding:
    """Who answered: the registered models alone, by what the API said in each call; else the episode is a breach of
    the contract, and no other episode with an artifact is."""
    agent, episodes = context.view.registered.config("agent"), context.view.episodes
    model = agent.get("model")
    if model is None:
        return PASS, "the agent asks no model through dcpflow", ()
    odd = []
    for episode in episodes:
        strangers = foreign(episode.calls, model, agent["model_id"])
        breach = episode.record.outcome == "execution_contract_violation"
        if bool(strangers) != breach and (strangers or episode.record.candidates):
            odd.append(str(episode.key))
    answered = sum(not call.fault for episode in episodes for call in episode.calls)
    good = f"{answered} answers are of registered models, those of breached episodes aside"
    return *_verdict(odd, good), episodes


@_check("core", EVERY_HIT)
def symmetric_scoring(context: Context) -> Finding:
    """All artifacts of a phase were scored by one scorer, known by digest alone, in a drawn random order."""
    odd = [f"phase {phase}" for phase, kept in context.facts.scoring_order.items() if not kept]
    return *_verdict(odd, "every phase was scored in its drawn order, by digest, whatever the arm"), ()


@_check("core", CORE_ONLY)
def scored_after_commit(context: Context) -> Finding:
    """The scores of a phase name the record of each of its episodes: all were committed before any was scored."""
    named = {name for inputs in context.view.score_inputs.values() for name in inputs}
    episodes = context.view.episodes
    odd = [str(e.key) for e in episodes if f"{e.record.stage}/{e.record.slot}/{e.record.arm}" not in named]
    return *_verdict(odd, "each phase was scored on the committed records of all its episodes"), episodes


@_check("core", CORE_ONLY)
def ledger_complete(context: Context) -> Finding:
    """Every registered slot is on record, and every attempt that was started at one is listed. (Which challengers of
    later looks had to be started depends on the thresholds: see looks_in_order.)"""
    unlisted = list(context.facts.unlisted)
    return *_verdict(unlisted, "every started attempt at a registered slot is listed, with its outcome"), ()


@_check("core", CORE_ONLY, applies=_looked_at(plan.CHALLENGERS))
def looks_in_order(context: Context) -> Finding:
    """Each record of a later look holds the digest of the scores of the look before; after a look with a recovery no
    challenger was started, and before it none was left out."""
    return _in_order(plan.CHALLENGERS, context)


def _in_order(stage: str, context: Context) -> Finding:
    episodes, design = context.view.of(stage), context.view.registered.config("design")
    if not plan.looks_bind(design, stage):
        ends, number = design[plan.LOOKS[stage]], plan.slots(stage, design)
        return FAIL, f"the registered looks {ends} do not rise to all {number} {stage}", episodes
    taken = looks.taken(stage, context.view, context.episode_facts, context.reg)
    before = {slot: look.before for look in taken for slot in look.slots}
    late = looks.superfluous(stage, context.view, taken)
    odd = [f"{stage} slot {slot}, which was not started" for slot in looks.missing(stage, context.view, taken)]
    odd += [f"{stage} slot {slot}, which was started after the last look that had to be" for slot in late]
    odd += [
        f"{episode.key}, which does not name what its look had to follow"
        for episode in episodes
        if episode.key.slot not in late and episode.record.prior_seal != before.get(episode.key.slot)
    ]
    run = sum(look.reached for look in taken)
    return *_verdict(odd, f"{run} of {len(taken)} looks were run, each on the scores of the one before"), episodes


@_check("core", CORE_ONLY)
def draws_follow_nonce(context: Context) -> Finding:
    """Presentations, agent seeds and arm orders are those that the committed nonce gives."""
    episodes = context.view.episodes
    odd = context.without(episodes, "draw_matches")
    return *_verdict(odd, f"the draws of all {len(episodes)} episodes follow from the committed nonce"), episodes


@_check("core", EVERY_HIT)
def commitments_open(context: Context) -> Finding:
    """Nonce, hidden state and sealed units are those that the contract committed to before the first episode."""
    odd = [name for name, opened in context.facts.commitments.items() if not opened]
    return *_verdict(odd, "nonce, hidden state and sealed units are those that were committed to"), ()


@_check("core", CORE_ONLY)
def same_information(context: Context) -> Finding:
    """All challengers were given the same files."""
    challengers = context.view.of("challengers")
    packets = {json.dumps(episode.hello["files"], sort_keys=True) for episode in challengers}
    result = PASS if len(packets) <= 1 else FAIL
    return result, f"{len(packets)} different sets of files among {len(challengers)} challengers", challengers


@_check("core", EVERY_HIT)
def same_web_packet(context: Context) -> Finding:
    """Of the Web, everybody saw what the target run saw: the files of its packet and, byte for byte, its replies."""
    view, episodes = context.view, context.view.episodes
    if not view.registered.web:
        return PASS, "the Web is no part of this audit", ()
    packet, target = view.packet, _target(context)
    digest, files = packet.digest, packet.files
    odd = [
        str(episode.key)
        for episode in episodes
        if not episode.record.packet == target.record.packet == digest
        or not _sees_only(
            episode, packet, {} if episode is target else files, None if episode is target else not_recorded()
        )
    ]
    count = sum(len(episode.fetches()) for episode in episodes if episode is not target)
    good = f"{len(packet.pages)} addresses that the target run saw, and {count} later fetches answered from them alone"
    return *_verdict(odd, good), episodes


def _sees_only(episode: Episode, packet: Packet, files: Mapping[str, str], unknown: Mapping[str, Any] | None) -> bool:
    """Whether an episode was given the packet and nothing else of the Web.

    Args:
        episode: the episode.
        packet: the packet.
        files: what it had to be given of it. The target run, which has made the packet, had none.
        unknown: what it had to be answered where nothing is recorded; None for the target run, of whose fetches none
            can be missing.
    """
    given = {name: text for name, text in episode.hello["files"].items() if name.startswith(PREFIX)}
    return given == files and all(
        one["reply"] == (packet.answer(one["request"]["url"]) or unknown) for one in episode.fetches()
    )


@_check("core", EVERY_HIT)
def error_budget(context: Context) -> Finding:
    """This audit's share of the family's error budget, and a slot that no earlier audit of the family used."""
    claim, alpha = context.config.claim, context.config.thresholds.alpha
    used = len(claim.earlier_audits) + 1
    if claim.slot in claim.earlier_audits:
        return FAIL, f"the slot {claim.slot} was used by an earlier audit of the family", ()
    if used > alpha.family_max_audits:
        return FAIL, f"audit {used} of a family that registered {alpha.family_max_audits}", ()
    return (
        PASS,
        f"audit {used} of at most {alpha.family_max_audits}, spending {alpha.total:g} of {alpha.family_total:g}",
        (),
    )


def _undisclosed(context: Context) -> list[str]:
    """Earlier audits of the family or claim that the registry knew, and the claim does not list."""
    noted, claim = context.view.noted, context.config.claim
    return [slot for slot in noted.earlier if slot not in claim.earlier_audits] if noted else []


def _registry_tells(context: Context) -> bool:
    """Whether a registry shows something: one that nobody signs can speak against the audit only."""
    noted = context.view.noted
    return noted is not None and bool(noted.key or _undisclosed(context))


@_check("core", CORE_ONLY, applies=_registry_tells)
def earlier_audits_disclosed(context: Context) -> Finding:
    """The claim lists every earlier audit of its family, and of its own in any family, that the registry knew."""
    good = "all earlier audits of family and claim that the registry knew are listed in claim.earlier_audits"
    undisclosed = _undisclosed(context)
    if not undisclosed:
        return PASS, good, ()
    more = f" and {len(undisclosed) - 3} more" if len(undisclosed) > 3 else ""
    shown = ", ".join(undisclosed[:3]) + more
    return FAIL, f"undisclosed: the registry knew earlier audits that claim.earlier_audits does not list: {shown}", ()


# --- needed for Evidence -----------------------------------------------------------------------------------


@_check("evidence", NEUTRAL_ARM)
def channels_alike(context: Context) -> Finding:
    """Replies to experiments have one schema and one serialised length in all arms of the pairs."""
    episodes = context.view.of(*plan.PAIRED, "null_pairs", "null_pair_replacements", "misled_nulls")
    shapes = {
        (len(encode(reply["result"])), _shape(reply["result"]))
        for episode in episodes
        for reply in episode.replies()
        if "result" in reply
    }
    lengths = sorted(length for length, _ in shapes)
    result = PASS if len(shapes) <= 1 else FAIL
    reason = f"{len(shapes)} different forms of reply (lengths {lengths}) in {len(episodes)} episodes"
    return result, reason, episodes


@_check("evidence", NEUTRAL_ARM)
def neutral_channels_replay(context: Context) -> Finding:
    """Replayed without any hidden material, neutral and null channels say what was said: they cannot interfere."""
    episodes = [e for e in context.view.episodes if e.record.arm in UNINFORMED]
    odd = context.without(episodes, "transcript_replays")
    return *_verdict(odd, f"all {len(episodes)} neutral and null conversations replay from public material"), episodes


@_check("evidence", EVIDENCE_ONLY)
def truthful_channels_replay(context: Context) -> Finding:
    """Replayed with the committed hidden state, the channels of target and truthful arms say what was said."""
    episodes = [e for e in context.view.episodes if e.record.arm in {"target", "truthful"}]
    odd = context.without(episodes, "transcript_replays")
    return *_verdict(odd, f"all {len(episodes)} truthful conversations replay from the hidden state"), episodes


@_check("evidence", NEUTRAL_ARM)
def seals_before_branches(context: Context) -> Finding:
    """Each branch holds the checkpoint's digest, and the checkpoint that of the target's record; in a later look by way
    of the scores of the look before."""
    view = context.view
    branches = view.of(*plan.PAIRED)
    seals = view.seals(plan.PAIRS)
    odd = [str(e.key) for e in branches if e.record.prior_seal not in seals]
    if view.checkpoint["target_record"] != view.claim_seal:
        odd.append("the checkpoint")
    return *_verdict(odd, "the checkpoint was sealed before any branch began"), branches


@_check("evidence", NEUTRAL_DISCLOSURE, applies=_looked_at(plan.PAIRS))
def pair_looks_in_order(context: Context) -> Finding:
    """Each record of a later look holds the digest of the scores of the look before; after a look that decides the
    effect no pair was started, and before it none was left out."""
    return _in_order(plan.PAIRS, context)


@_check("evidence", EVIDENCE_ONLY)
def pairs_share_their_draw(context: Context) -> Finding:
    """Both arms of a pair have the same presentation and agent seed; their order is drawn."""
    pairs = [pair for table in PAIR_STAGES for pair in paired(context.view, table)]
    odd = [str(a.key) for a, b in pairs if a.record.draw != b.record.draw]
    first = sum(a.record.draw["first_arm"] == a.record.arm for a, _ in pairs)
    good = f"the arms of all {len(pairs)} pairs share presentation and seed; {first} began with their first arm"
    return *_verdict(odd, good), [episode for pair in pairs for episode in pair]


@_check("evidence", EVIDENCE_ONLY)
def null_task_sensitivity(context: Context) -> Finding:
    """On each null instance a solution scores above the baseline, so that harm or help could show."""
    view = context.view
    slots = {(e.record.stage, e.record.slot) for e in view.of("null_pairs", "null_pair_replacements", "misled_nulls")}
    odd = []
    for stage, slot in sorted(slots):
        known = view.own_score("known_solution", stage, slot)
        base = view.own_score("baseline", stage, slot)
        if known is None or base is None or known.mean - context.reg.epsilon <= base.mean:
            odd.append(f"{stage} slot {slot}")
    return *_verdict(
        odd, f"on all {len(slots)} null instances the baseline misses the line that a solution reaches"
    ), ()


@_check("evidence", EVIDENCE_ONLY)
def null_assay_sensitivity(context: Context) -> Finding:
    """Deliberately misled null episodes mostly miss: the agent does listen to its channel."""
    view = context.view
    episodes = view.of("misled_nulls")
    hits = sum(reached_own_line(view, e, context.reg.epsilon) for e in episodes)
    misses, needed = len(episodes) - hits, context.config.thresholds.gate3.misled_min_misses
    reason = f"{misses} of {len(episodes)} misled null episodes missed their line (at least {needed} needed)"
    return PASS if misses >= needed else FAIL, reason, episodes


@_check("evidence", EVIDENCE_ONLY)
def null_instances_fresh(context: Context) -> Finding:
    """Each null pair works on an instance and a draw of its own."""
    episodes = context.view.of("null_pairs", "null_pair_replacements")
    units = {e.record.unit for e in episodes}
    slots = {(e.record.stage, e.record.slot) for e in episodes}
    result = PASS if len(units) == len(slots) else FAIL
    return result, f"{len(units)} different draws in {len(slots)} null pairs", episodes


@_check("evidence", EVIDENCE_ONLY)
def neutral_harm(context: Context) -> Finding:
    """The neutral arm does no worse than agents without any feedback (the challengers), within delta_sham."""
    view, band = context.view, context.reg.delta_null
    neutral = [e for e in view.of("pairs", "pair_replacements") if e.record.arm == "neutral"]
    alone = view.of("challengers")
    means = [mean_of(view, episodes) for episodes in (neutral, alone)]
    if None in means:
        return NOT_ASSESSED, "no scores to compare", (*neutral, *alone)
    ours, theirs = (value for value in means if value is not None)
    reason = f"mean score {ours:.4f} with neutral feedback, {theirs:.4f} without any (band {band:g})"
    return PASS if ours >= theirs - band else FAIL, reason, (*neutral, *alone)


# --- reported ----------------------------------------------------------------------------------------------


@_check("report", REPORTED)
def draws_not_grindable(context: Context) -> Finding:
    """Draws could not be tried out by choosing another nonce: they hold randomness published after registration."""
    episodes = context.view.episodes
    values = {e.record.draw["public_randomness"] for e in episodes}
    if values == {""}:
        return NOT_ASSESSED, "no public randomness was given after registration", episodes
    if len(values) > 1:
        return FAIL, "episodes were drawn with different public randomness", episodes
    return PASS, f"all draws hold the public randomness {values.pop()!r}", episodes


@_check("report", REPORTED)
def nonce_secret(context: Context) -> Finding:
    """Hidden and sealed values were secret: a demonstration's nonce is not, and anybody could compute them."""
    text = context.view.registered.parts["task"]["seal"]["public_demonstration"]
    if text:
        return FAIL, f"public demonstration: the nonce is the SHA-256 of {text!r}", ()
    return PASS, "the nonce was not published before the last score", ()


@_check("report", REPORTED, applies=lambda context: not _has_target(context))
def information_boundary(context: Context) -> Finding:
    """What challengers could know is what was to be known at the time that the audit looks back to. Nothing here can
    show that: it was rebuilt, as it is registered, and a model may know more than it is given."""
    claim = context.view.registered.config("claim")
    return NOT_ASSESSED, f"{BOUNDARIES[claim['mode']]}, by the auditor's word: {claim['retrospective']['boundary']}", ()


@_check("report", REPORTED, applies=_has_target)
def all_target_runs_shown(context: Context) -> Finding:
    """All starts of the claim's audits are counted; those elsewhere are not seen without a registry that is signed."""
    runs, noted = context.facts.target_runs, context.view.noted
    here = f"{runs} started in this results folder"
    if noted is None or not noted.key:
        return NOT_ASSESSED, f"{here}; runs elsewhere are not visible without a registry", ()
    if noted.episodes:
        late = f"{noted.episodes} episodes had been started before the registry {noted.origin!r} was told"
        return NOT_ASSESSED, f"{here}; {late}", ()
    return PASS, f"{here}; the registry {noted.origin!r} knew {noted.starts} earlier starts elsewhere", ()


@_check("report", REPORTED)
def independent_units(context: Context) -> Finding:
    """Challengers are independent draws: no two share presentation and seed. Copies count once in the bound."""
    challengers = context.view.of("challengers")
    units = {e.record.unit for e in challengers}
    result = PASS if len(units) == len(challengers) else FAIL
    return result, f"{len(units)} different draws among {len(challengers)} challengers", challengers


@_check("report", REPORTED)
def transcripts_differ(context: Context) -> Finding:
    """The share of challengers whose whole transcript stands twice."""
    challengers = context.view.of("challengers")
    distinct = len({e.record.transcript for e in challengers})
    share = 1 - distinct / len(challengers) if challengers else 0.0
    return (
        PASS if share == 0 else FAIL,
        f"{share:.1%} of {len(challengers)} challenger transcripts are copies",
        challengers,
    )


@_check("report", REPORTED)
def checkpoint_scope(context: Context) -> Finding:
    """What the checkpoint holds, computed from its content."""
    point = context.view.checkpoint
    if not point:
        return NOT_ASSESSED, "no checkpoint without Gate 3", ()
    meaning = (
        "nothing beyond K, E0 and W_obs: neutral branches are further challengers"
        if point["scope"] == "lineage_empty"
        else "a part of the target's history: neutral branches are no challengers"
    )
    return PASS, f"{point['scope']}: {meaning}", [_target(context)]


def _target(context: Context) -> Episode:
    """The target run, where the audit has one."""
    target = context.view.target
    if target is None:
        raise EvidenceError("a retrospective audit offers no Web and has no checkpoint, and this one says otherwise")
    return target


def _shape(value: Any) -> Any:
    """The form of a reply: field structure and text lengths, without the presented names."""
    if isinstance(value, dict):
        return tuple(sorted((len(key), _shape(item)) for key, item in value.items()))
    if isinstance(value, list):
        return tuple(_shape(item) for item in value)
    return (type(value).__name__, len(value) if isinstance(value, str) else 0)


def mean_of(view: AuditView, episodes: Sequence[Episode]) -> float | None:
    """Mean score of some episodes, of which one without a valid artifact scores nothing; None for none."""
    rows = [view.score_of(episode) for episode in episodes]
    if not rows:
        return None
    return math.fsum(row.mean if row and row.validity == "valid" else 0.0 for row in rows) / len(rows)
