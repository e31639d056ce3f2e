"""The sealed scoring of one phase, once all of its episodes are committed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dcpflow.errors import EvidenceError
from dcpflow.records import canonical, plan, public, scores, stagefile
from dcpflow.records.episodes import EpisodeRecord
from dcpflow.records.objects import ObjectStore
from dcpflow.records.scores import ScoreRow
from dcpflow.scoring.scorer import Artifact, Score, score
from dcpflow.stages.episodes import resolved
from dcpflow.stages.laboratory import Job
from dcpflow.stages.seal import SEALED_SCHEMA, hidden_of, to_score_with
from dcpflow.tasks.base import Task


@dataclass(frozen=True, slots=True)
class _Wanted:
    """One artifact to score, with whose it is: the latter is joined on again after scoring."""

    role: str
    stage: str
    slot: int
    arm: str
    number: int
    record: str
    artifact: Artifact


def score_phase(job: Job, phase: str, receipts: Sequence[Path], output: Path, workers: int = 1) -> None:
    """Score every artifact of a phase, and the task's own artifacts that it is compared with.

    Args:
        job: the job.
        phase: ``target``, ``challengers``, ``controls`` or ``pairs``; names the random order.
        receipts: receipts of the whole phase.
        output: the score file.
        workers: how many artifacts are scored at a time.
    """
    score_records(job, phase, resolved(job, receipts), output, workers)


def score_records(job: Job, phase: str, records: Sequence[EpisodeRecord], output: Path, workers: int = 1) -> None:
    """The same of given records: stage by stage in the order of the phase, slot by slot, arm by arm."""
    rows = scored(job, phase, records, _opened(job), workers)
    inputs = {f"{record.stage}/{record.slot}/{record.arm}": digest for record, digest in _digests(records)}
    scores.write(output, job.contract.digest, inputs, rows)


def scored(
    job: Job,
    phase: str,
    records: Sequence[EpisodeRecord],
    material: Mapping[str, Any] | None = None,
    workers: int = 1,
) -> list[ScoreRow]:
    """The scores of a phase's artifacts.

    Args:
        job: the job.
        phase: as in :func:`score_phase`.
        records: the phase's episodes.
        material: ``units`` and ``hidden`` of the audited instance; by default what follows from the nonce.
        workers: how many artifacts are scored at a time.
    """
    wanted = [*_candidates(job, records), *_own_artifacts(job.task, job, records)]
    if phase == plan.TARGET and job.contract.artifact:
        wanted += _claimed(job.task, job)
    order = job.draws.order(len(wanted), f"scores {phase}", "scoring order")
    answers = score_artifacts(job, [wanted[index].artifact for index in order], material, workers)
    position = {index: place for place, index in enumerate(order)}
    return [
        _row(item, answers[position[index]], position[index] + 1, job.contract.units)
        for index, item in enumerate(wanted)
    ]


def score_artifacts(
    job: Job, artifacts: Sequence[Artifact], material: Mapping[str, Any] | None = None, workers: int = 1
) -> list[Score]:
    """Score artifacts in the given order, whoever has committed them, each in a limited child process.

    Args:
        job: the job.
        artifacts: the artifacts.
        material: as for :func:`scored`.
        workers: likewise.
    """
    task = job.task
    # one scorer for all: a stratum's limits are its episodes' alone
    limits = job.main.contract.config("limits")
    opened = material or to_score_with(task, job.nonce)
    sealed = opened["units"]
    hidden = {name: _hidden(task, job, name) for name in {artifact.instance for artifact in artifacts}}
    hidden[plan.MAIN] = opened["hidden"]
    engine = task.open(public.read(job.layout, job.contract.parts["task"]["seal"]["public"]))
    engine.warm(sealed)
    return score(task, engine, sealed, hidden, artifacts, limits["experiment_seconds"], limits["memory_mb"], workers)


def _row(item: _Wanted, answer: Score, position: int, units: Sequence[str]) -> ScoreRow:
    return ScoreRow(
        role=item.role,
        stage=item.stage,
        slot=item.slot,
        arm=item.arm,
        number=item.number,
        record=item.record,
        artifact=item.artifact.digest,
        instance=item.artifact.instance,
        validity=answer.validity,
        reason=answer.reason,
        units=tuple(answer.units[unit] for unit in units) if answer.validity == "valid" else (),
        position=position,
    )


def _digests(records: Sequence[EpisodeRecord]) -> Iterator[tuple[EpisodeRecord, str]]:
    return ((record, canonical.digest(record.to_bytes())) for record in records)


def _candidates(job: Job, records: Sequence[EpisodeRecord]) -> Iterator[_Wanted]:
    objects = ObjectStore(job.layout.objects)
    for record, digest in _digests(records):
        for number, candidate in enumerate(record.candidates, 1):
            data = objects.get(
                candidate, f"the candidate of {record.key}", job.store.run_again(record.key, record.attempt)
            )
            artifact = Artifact(candidate, data, record.draw["presentation"], plan.instance(record.stage, record.slot))
            yield _Wanted("candidate", record.stage, record.slot, record.arm, number, digest, artifact)


def _claimed(task: Task, job: Job) -> Iterator[_Wanted]:
    """The registered artifact of a retrospective audit, and the baseline that it is compared with."""
    digest, seed = job.contract.artifact, job.contract.presentation
    remedy = f"To store it again: rm -f '{job.layout.registration / 'contract.json'}' and run snakemake again"
    baseline = task.baseline(task.presentation(bytes.fromhex(seed))).encode()
    for role, data in (
        ("claimed", ObjectStore(job.layout.objects).get(digest, "the claimed artifact", remedy)),
        ("baseline", baseline),
    ):
        artifact = Artifact(canonical.digest(data), data, seed, plan.MAIN)
        yield _Wanted(role, plan.TARGET, 1, "", 1, "", artifact)


def _own_artifacts(task: Task, job: Job, records: Sequence[EpisodeRecord]) -> Iterator[_Wanted]:
    """The baseline for the target, and for every instance of its own the baseline and a known solution."""
    seen = set()
    for record in records:
        instance = plan.instance(record.stage, record.slot)
        if instance in seen or (instance == plan.MAIN and record.stage != "target"):
            continue
        seen.add(instance)
        seed = record.draw["presentation"]
        presentation = task.presentation(bytes.fromhex(seed))
        own = {"baseline": task.baseline(presentation)}
        if instance != plan.MAIN:
            own["known_solution"] = task.known_solution(presentation, hidden_of(task, job.nonce, instance))
        for role, text in own.items():
            data = text.encode()
            artifact = Artifact(canonical.digest(data), data, seed, instance)
            yield _Wanted(role, record.stage, record.slot, "", 1, "", artifact)


def _hidden(task: Task, job: Job, instance: str) -> dict[str, Any]:
    """The hidden state of an instance of its own, from the nonce."""
    return hidden_of(task, job.nonce, instance)


def _opened(job: Job) -> dict[str, Any]:
    """The sealed material: ``units`` and, to weigh them, ``hidden``; stops where it is not what was committed to."""
    path = job.layout.sealed / f"{plan.MAIN}.json"
    material, _ = stagefile.read(path, SEALED_SCHEMA, "the sealed material")
    commitment = job.contract.parts["task"]["seal"]["sealed_commitment"]
    if job.draws.nonce.commit("sealed", canonical.encode(material)) != commitment:
        raise EvidenceError(
            f"the sealed material in {path} is not what the registration commits to",
            f"To make it again from the nonce: rm -f '{path}' and run snakemake again",
        )
    return material
