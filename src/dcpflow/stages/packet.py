"""Hands the Web packet from the target run to the stages that read it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dcpflow.errors import EvidenceError
from dcpflow.records import packet, receipts, stagefile
from dcpflow.records.layout import Layout
from dcpflow.records.objects import ObjectStore
from dcpflow.records.packet import Packet

if TYPE_CHECKING:
    from dcpflow.stages.laboratory import Job


def target_receipt(layout: Layout) -> Path:
    """The receipt of the target run."""
    return layout.root / "target" / receipts.file_name(1, 1)


def freeze(job: Job, output: Path) -> None:
    """Write the file that names what the target run has seen of the Web, after following every digest of it."""
    path = target_receipt(job.layout)
    (line,) = receipts.read(path, job.contract.digest)
    record = receipts.resolve(line, job.store, path)
    packet.load(ObjectStore(job.layout.objects), record.packet, job.store.run_again(record.key, record.attempt))
    stagefile.write(output, packet.SCHEMA, packet.body(job.contract.digest, line.record, record.packet))


def given(job: Job) -> Packet:
    """The packet that every episode but the target run is given; empty where the Web is not offered.

    Raises:
        EvidenceError: it is missing, altered, or not the target run's.
    """
    if job.contract.web is None:
        return Packet()
    found = packet.read(job.layout, job.contract.digest)
    path = target_receipt(job.layout)
    (line,) = receipts.read(path, job.contract.digest)
    record = receipts.resolve(line, job.store, path)
    if found != packet.body(job.contract.digest, line.record, record.packet):
        raise EvidenceError(
            f"the Web packet {job.layout.packet} is not the one that the target's record names",
            f"To make it again: rm -f '{job.layout.packet}' and run snakemake again",
        )
    remedy = job.store.run_again(record.key, record.attempt)
    return packet.load(ObjectStore(job.layout.objects), record.packet, remedy)
