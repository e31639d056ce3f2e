"""Looks at the scores of some challengers: the later ones are started unless one of these recovered the outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from dcpflow.evidence import folder, gates
from dcpflow.evidence import looks as recomputed
from dcpflow.records import looks, plan
from dcpflow.stages.facts import episode_facts
from dcpflow.stages.laboratory import Job


def read_look(job: Job, receipts: Sequence[Path], scores: Mapping[str, Path], output: Path) -> None:
    """Write what the last of some looks came to: whether a challenger has recovered the outcome by then, nothing more.

    Args:
        job: the job.
        receipts: of the target run and of all challengers up to this look.
        scores: the score files of the target run and of all looks up to this one, by phase.
        output: the look's file.

    Raises:
        EvidenceError: something is missing, altered or foreign.
    """
    seen = folder.load_view(job.layout, receipts, scores)
    reg = gates.registration(folder.config_of(seen.registered), seen.registered.contract, seen.checkpoint)
    facts = episode_facts(seen, job.bench.task, job.draws)
    taken = recomputed.taken(seen, facts, reg)
    scored = seen.inputs[plan.look_phase(len(taken))]
    looks.write(output, seen.registered.contract, scored, any(look.hits for look in taken))
