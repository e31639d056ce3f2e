"""Verifies what nonce and task alone can tell: that the evidence of an audit is what they give."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dcpflow.bundles.kinds import Kind
from dcpflow.bundles.verify import Verification
from dcpflow.errors import DcpflowError, EvidenceError
from dcpflow.evidence import folder
from dcpflow.evidence.view import AuditView
from dcpflow.records import plan
from dcpflow.records.packet import Packet
from dcpflow.records.scores import ScoreRow
from dcpflow.stages.evidence import recomputed_facts
from dcpflow.stages.laboratory import Job
from dcpflow.stages.replay import replays
from dcpflow.stages.scoring import scored


def verify(job: Job) -> None:
    """Replay every conversation, draw everything again and score every artifact again.

    That the decision follows from the evidence is :func:`dcpflow.evidence.folder.verify`'s to say, without a task.

    Raises:
        EvidenceError: something is missing, altered or foreign, or is not what nonce and task give.
    """
    evidence = folder.read(job.layout, folder.receipts(job.layout), folder.scores(job.layout))
    apart = ((job.of(plan.stratum_of(place)), part) for place, part in evidence.view.parts.items())
    parts = [(job, evidence.view), *apart]
    replayed = {digest: same for one, seen in parts for digest, same in _replayed(one, seen).items()}
    if recomputed_facts(job, evidence.view, replayed) != (evidence.episode_facts, evidence.facts):
        path = job.layout.evidence / "manifest.json"
        raise EvidenceError(
            f"draws, conversations, commitments or orders are not as {job.layout.evidence} records them",
            f"To make the evidence again: rm -f '{path}' and run snakemake again",
        )
    for one, seen in parts:
        for phase in seen.scores:
            score_again(one, phase, seen)


def with_task(found: Verification, nonce_file: Path, data_file: Path | None = None) -> Verification:
    """What came of a verification, once nonce and task have had their say too; of anything but a results folder, and
    of what did not verify, the same.

    Args:
        found: what came of it without them.
        nonce_file: the nonce.
        data_file: the task's data set, where it is not the downloaded one.
    """
    if not found.ok or found.kind is not Kind.RESULTS:
        return found
    print("replaying every conversation and scoring every artifact again ...", file=sys.stderr)
    try:
        verify(Job(Path(found.path), nonce_file, found.public_randomness, data_file))
    except DcpflowError as error:
        return found.failed(error)
    return found.with_task()


def _replayed(job: Job, seen: AuditView) -> dict[str, bool]:
    """By record digest, whether the conversation replays."""
    packets = {"": Packet(), **seen.packets}
    return {e.digest: replays(job.bench, e.record, e.transcript, packets[e.record.packet]) for e in seen.episodes}


def score_again(job: Job, phase: str, view: AuditView) -> None:
    """Hold the scores of a phase against those that the sealed units give now.

    Raises:
        EvidenceError: they differ.
    """

    def known(rows: Iterable[ScoreRow]) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        return {
            (r.role, r.stage, r.slot, r.arm, r.number): (r.artifact, r.instance, r.validity, r.units, r.reason)
            for r in rows
        }

    holds = plan.phases(view.registered.config("design"))[phase].holds
    records = [episode.record for episode in view.episodes if holds(episode.key)]
    expected, found = known(scored(job, phase, records, workers=os.cpu_count() or 1)), known(view.scores[phase])
    path = job.layout.scores(plan.place(phase, job.stratum))
    remedy = f"To score again: rm -f '{path}' and run snakemake again"
    if expected.keys() != found.keys():
        raise EvidenceError(f"{path} does not have the scores of this phase's artifacts, and these alone", remedy)
    for (role, stage, slot, arm, number), value in expected.items():
        if found[role, stage, slot, arm, number] != value:
            whose = f"{role} {number} of {stage} slot {slot}{f' ({arm})' if arm else ''}"
            raise EvidenceError(f"{path}: {whose} is not what the sealed units give ({value[2]}, {value[3]})", remedy)
