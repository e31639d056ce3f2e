"""Makes the evidence tables from records and scores, with what nonce and task have to tell."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from dcpflow.evidence import folder, gates, looks
from dcpflow.evidence.facts import AuditFacts
from dcpflow.evidence.view import AuditView
from dcpflow.records import plan, public
from dcpflow.records.draws import Draws
from dcpflow.records.episodes import EpisodeKey, EpisodeRecord, EpisodeStore
from dcpflow.stages import replay
from dcpflow.stages.facts import episode_facts
from dcpflow.stages.laboratory import Job
from dcpflow.stages.seal import commitments


def write_evidence(job: Job, receipts: Sequence[Path], scores: Mapping[str, Path]) -> None:
    """Write every table, the facts and the manifest with their digests."""
    seen = folder.load_view(job.layout, receipts, scores)
    phases = [*scores, *(plan.place("challengers", name) for name in seen.strata)]
    replayed = {record: same for phase in phases for record, same in replay.read(job.layout.replay(phase)).items()}
    of_episodes, of_audit = recomputed_facts(job, seen, replayed)
    folder.write(job.layout, seen, of_episodes, of_audit)


def recomputed_facts(
    job: Job, seen: AuditView, replayed: Mapping[str, bool]
) -> tuple[dict[str, dict[str, bool]], AuditFacts]:
    """Facts of each episode by record digest, and of the audit, from nonce, task and folders; those of strata and of
    further neutral policies too.

    Args:
        job: the job.
        seen: the evidence.
        replayed: by record digest, whether the conversation replays.
    """
    of_episodes, of_audit = _of_contract(job, seen, replayed)
    strata, policies = {}, {}
    for name, part in seen.strata.items():
        more, strata[name] = _of_contract(job.of(name), part, replayed)
        of_episodes |= more
    for name, part in seen.policies.items():
        more, policies[name] = _of_contract(job, part, replayed)
        of_episodes |= more
    return of_episodes, replace(of_audit, strata=strata, policies=policies)


def _of_contract(
    job: Job, seen: AuditView, replayed: Mapping[str, bool]
) -> tuple[dict[str, dict[str, bool]], AuditFacts]:
    of_episodes = episode_facts(seen, job.bench.task, job.draws)
    for record, fact in of_episodes.items():
        fact["transcript_replays"] = replayed.get(record, False)
    seal = seen.registered.parts["task"]["seal"]
    sealed = commitments(job.bench.task, job.nonce, public.read(job.layout, seal["public"]))
    of_audit = AuditFacts(
        commitments={name: value == seal.get(name) for name, value in sealed.items()},
        scoring_order={phase: _drawn_order(job.draws, phase, seen) for phase in seen.scores},
        unlisted=unlisted(job.store, seen, _not_reached(seen, of_episodes)),
        target_runs=sum(1 for _ in job.layout.store.glob("*/target/*/*/*/holder-1.json")),
    )
    return of_episodes, of_audit


def _drawn_order(draws: Draws, phase: str, seen: AuditView) -> bool:
    rows = seen.scores[phase]
    order = draws.order(len(rows), f"scores {phase}", "scoring order")
    return [rows[index].position for index in order] == list(range(1, len(rows) + 1))


def unlisted(store: EpisodeStore, seen: AuditView, not_reached: Collection[tuple[str, int]]) -> list[str]:
    """Started attempts of registered slots that no receipt lists, and registered slots without an episode.

    Slots of later looks may have none: whether they had to follows from the thresholds, when it is decided. What stands
    there of an earlier registration, by whose thresholds they were started, or was only begun, is outside of the ledger
    as long as nothing is listed there. Pairs of a further neutral policy stand in its own ledger alone.

    Args:
        store: the episodes of the contract.
        seen: the evidence.
        not_reached: stage and slot of those looks before which an earlier one was the end.
    """
    design = seen.registered.config("design")
    listed = {(episode.key, episode.record.attempt) for episode in seen.episodes}
    recorded = {key for key, _ in listed}
    found = []
    apart = set(plan.POLICIES.values())
    kinds = apart & seen.scores.keys() or plan.STAGES.keys() - apart
    for path in sorted(store.root.glob("*/*/*/*")):
        kind, slot, arm, attempt = path.parts[-4:]
        key = EpisodeKey(kind, int(slot), arm)
        if kind not in kinds or key.slot > plan.slots(kind, design) or (key, int(attempt)) in listed:
            continue
        left_out = key not in recorded and (key.stage, key.slot) in not_reached
        if not (left_out and _of_another_run(store, seen, key, int(attempt))):
            found.append(f"{key}, attempt {attempt}")
    phases = plan.phases(design, retrospective=bool(seen.registered.artifact))
    for stage in dict.fromkeys(stage for phase in seen.scores for stage in phases[phase].stages):
        if not plan.STAGES[stage].replaces:
            slots = plan.looks(design, stage)[0] if stage in plan.LOOKS else range(1, plan.slots(stage, design) + 1)
            registered = [key for slot in slots for key in plan.keys(stage, slot)]
            found += [f"{key}, which has no episode" for key in registered if key not in recorded]
    return found


def _not_reached(seen: AuditView, of_episodes: Mapping[str, Mapping[str, bool]]) -> set[tuple[str, int]]:
    """Stage and slot of what did not have to be started, since an earlier look was the end."""
    reg = gates.registration(folder.config_of(seen.registered), seen.registered.contract, seen.checkpoint)
    return {
        (stage, slot)
        for stage in plan.LOOKS
        if seen.of(stage)
        for look in looks.taken(stage, seen, of_episodes, reg)
        if not look.reached
        for slot in look.slots
    }


def _of_another_run(store: EpisodeStore, seen: AuditView, key: EpisodeKey, attempt: int) -> bool:
    """Whether an attempt was never committed, or under another registration than the one in force."""
    data = store.committed(key, attempt)
    if data is None:
        return True
    record = EpisodeRecord.from_bytes(data, f"the record of {key}")
    return record.registration != seen.registered.digest
