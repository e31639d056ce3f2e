"""Decides the audit from the evidence alone, and reaches a decision again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from dcpflow.errors import EvidenceError
from dcpflow.evidence import folder
from dcpflow.records import registration
from dcpflow.records.layout import Layout
from dcpflow.stages.evidence import recomputed_facts
from dcpflow.stages.laboratory import Job


def decide(results: Path, receipts: Sequence[Path], scores: Mapping[str, Path]) -> None:
    """Write ``decision.json`` and the table of checks."""
    layout = Layout(results)
    decided = folder.decide(layout, receipts, scores)
    folder.write_decision(layout, decided, registration.read_registration(layout.registration).digest)


def verify(job: Job) -> folder.Decided:
    """Reach the decision again, and recompute with nonce and task what the evidence stage recorded of them.

    Raises:
        EvidenceError: something is missing, altered or foreign, or does not follow.
    """
    decided = folder.verify(job.layout)
    evidence = folder.read(job.layout, folder.receipts(job.layout), folder.scores(job.layout))
    if recomputed_facts(job, evidence.view) != (evidence.episode_facts, evidence.facts):
        path = job.layout.evidence / "manifest.json"
        raise EvidenceError(
            f"draws, first messages, commitments or orders are not as {job.layout.evidence} records them",
            f"To make the evidence again: rm -f '{path}' and run snakemake again",
        )
    return decided
