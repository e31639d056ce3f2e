"""The fan-out jobs: run the slots of a batch, or one pre-allocated replacement, and write the receipt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dcpflow.episodes.episode import Laboratory, check_draw, settle
from dcpflow.records import canonical, looks, plan, receipts
from dcpflow.records import checkpoint as recorded_checkpoint
from dcpflow.records.episodes import EpisodeKey, EpisodeRecord
from dcpflow.stages import packet
from dcpflow.stages.laboratory import Job


def run_slots(
    job: Job, stage: str, first: int, last: int, output: Path, stratum: str = "", after: Path | None = None
) -> None:
    """Run the slots first to last of a stage (those that stand already are only listed), then write the receipt.

    Both arms of a pair run here, one after the other, in their drawn order. Challengers of a stratum that was
    registered beside those that decide run under its own contract.

    Args:
        job: the job.
        stage: the stage.
        first: first slot.
        last: last slot.
        output: the receipt's file.
        stratum: challenger stratum, else empty.
        after: the look that these slots follow, if any. Where that was the end, none of them is started, and the
            receipt says so.
    """
    if stratum in job.registration.strata:
        job = job.of(stratum)
    job, seal = _sealed_before(job, stage)
    if after is not None:
        receipts.remove_others(output)
        look = looks.read(after, job.contract.digest)
        seal = look["scores"]
        if look["ended"]:
            receipts.write(output, job.contract.digest, [], note={"not_started": seal})
            return
    records = []
    for slot in range(first, last + 1):
        drawn = plan.draw(job.draws, stage, slot)
        done = {key: _settle(job, key, seal, stratum=stratum) for key in plan.running_order(stage, slot, drawn)}
        records += [done[key] for key in plan.keys(stage, slot)]
    receipts.write(output, job.contract.digest, records)


def run_replacement(job: Job, stage: str, slot: int, earlier: Sequence[Path], output: Path) -> None:
    """Run the slot-th replacement pair, or note that no pair needs it.

    Replaced is the first pair, in registered order, of which an arm was lost to the infrastructure and that no
    earlier replacement replaces.

    Args:
        job: the job.
        stage: ``pair_replacements`` or ``null_pair_replacements``.
        slot: number of the replacement, from 1.
        earlier: receipts of all pairs and of the earlier replacements.
        output: the receipt's file.
    """
    lost = first_unreplaced(resolved(job, earlier))
    if lost is None:
        receipts.write(output, job.contract.digest, [], note={"unused": "no pair needs a replacement"})
        return
    job, seal = _sealed_before(job, stage)
    drawn = plan.draw(job.draws, stage, slot)
    done = {key: _settle(job, key, seal, replacement_of=lost) for key in plan.running_order(stage, slot, drawn)}
    receipts.write(output, job.contract.digest, [done[key] for key in plan.keys(stage, slot)])


def resolved(job: Job, paths: Sequence[Path]) -> list[EpisodeRecord]:
    """The records of some receipts, in their order."""
    return [
        receipts.resolve(line, job.store, path) for path in paths for line in receipts.read(path, job.contract.digest)
    ]


def first_unreplaced(records: Sequence[EpisodeRecord]) -> str | None:
    """``stage/slot`` of the first pair that lost an arm to the infrastructure and has no replacement yet."""
    replaced = {record.replacement_of for record in records}
    for record in records:
        name = pair_name(record)
        if record.outcome == "infrastructure_invalid" and name not in replaced:
            return name
    return None


def pair_name(record: EpisodeRecord) -> str:
    """How a pair is named by the pair that replaces it."""
    return f"{record.stage}/{record.slot}"


def _settle(job: Job, key: EpisodeKey, seal: str, **more: str) -> bytes:
    data = settle(lambda: _opened(job), job.store, key, seal, **more)
    check_draw(EpisodeRecord.from_bytes(data, f"the record of {key}"), job.draws)
    return data


def _opened(job: Job) -> Laboratory:
    """The laboratory, for one more episode, if the budget covers that."""
    job.spending.check(job.store)
    return job.laboratory


def _sealed_before(job: Job, stage: str) -> tuple[Job, str]:
    """The digest of what had to be fixed before this stage, with what its episodes are given of the target run."""
    if not plan.STAGES[stage].live_web:
        job = replace(job, packet=packet.given(job.main))
    match stage:
        case "challengers":
            return job, job.registration.artifact or _target_record(job.main)
        case _ if plan.STAGES[stage].branch:
            body, seal = recorded_checkpoint.read(job.layout, job.contract.digest)
            history: list[dict[str, Any]] = body["history"]
            return replace(job, history=tuple(history)), seal
        case _:
            return job, job.registration.digest


def _target_record(job: Job) -> str:
    path = packet.target_receipt(job.layout)
    (line,) = receipts.read(path, job.contract.digest)
    return canonical.digest(receipts.resolve(line, job.store, path).to_bytes())
