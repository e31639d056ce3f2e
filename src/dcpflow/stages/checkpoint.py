"""Selects the checkpoint from which the branches of Gate 3 continue, before anything is scored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from dcpflow.records import receipts, stagefile
from dcpflow.records.checkpoint import SCHEMA, cut
from dcpflow.records.objects import ObjectStore
from dcpflow.stages import packet

if TYPE_CHECKING:
    from dcpflow.stages.laboratory import Job


def select(job: Job, output: Path) -> None:
    """Write the checkpoint by the registered rule, with its computed scope and the target record that it is cut from.

    The private score of the target is no input of this rule.
    """
    path = packet.target_receipt(job.layout)
    (line,) = receipts.read(path, job.contract.digest)
    record = receipts.resolve(line, job.store, path)
    transcript = ObjectStore(job.layout.objects).get(
        record.transcript, "the target's transcript", job.store.run_again(record.key, record.attempt)
    )
    rule = job.contract.config("information")["checkpoint"]
    lines = [json.loads(entry) for entry in transcript.splitlines()]
    stagefile.write(output, SCHEMA, cut(job.contract.digest, rule, line.record, lines, packet.given(job)))
