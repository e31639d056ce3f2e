"""Looks at the scores of some episodes: the later ones are started unless these were enough."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from dcpflow.evidence import folder, gates
from dcpflow.evidence import looks as recomputed
from dcpflow.records import looks, plan
from dcpflow.stages.facts import episode_facts
from dcpflow.stages.laboratory import Job


def read_look(job: Job, stage: str, receipts: Sequence[Path], scores: Mapping[str, Path], output: Path) -> None:
    """Write what the last of some looks came to: whether it is the end by then, nothing more.

    Args:
        job: the job.
        stage: what is looked at: ``challengers`` or ``pairs``.
        receipts: of the target run and of all slots of the stage up to this look.
        scores: the score files of the target run and of all looks up to this one, by phase.
        output: the look's file.

    Raises:
        EvidenceError: something is missing, altered or foreign.
    """
    seen = folder.load_view(job.layout, receipts, scores, whole=False)
    reg = gates.registration(folder.config_of(seen.registered), seen.registered.contract, seen.checkpoint)
    facts = episode_facts(seen, job.bench.task, job.draws)
    taken = recomputed.taken(stage, seen, facts, reg)
    scored = seen.inputs[plan.look_phase(stage, len(taken))]
    looks.write(output, seen.registered.contract, scored, any(look.ends for look in taken))
