"""Receipts: which episodes a job answers for, by the digests of their records."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from dcpflow.errors import EvidenceError
from dcpflow.records import canonical, files, plan, stagefile
from dcpflow.records.episodes import EpisodeKey, EpisodeRecord, EpisodeStore

SCHEMA = "dcpflow.receipt/1"


@dataclass(frozen=True, slots=True)
class Receipt:
    """One line of a receipt.

    Attributes:
        key: the episode.
        attempt: number of the attempt.
        record: digest of its committed record.
    """

    key: EpisodeKey
    attempt: int
    record: str


def file_name(first: int, last: int) -> str:
    """Name of the receipt of the slots first to last: what it answers for stands in the name, so that a receipt for
    more slots is another file, which the workflow engine finds missing."""
    return f"b{first:05d}-{last:05d}.json"


def slots_of(name: str) -> tuple[int, int] | None:
    """First and last slot of the receipt with this file name; None for another file."""
    found = re.fullmatch(r"b(\d{5})-(\d{5})\.json", name)
    return (int(found[1]), int(found[2])) if found else None


def write(path: Path, contract: str, records: Iterable[bytes], note: Mapping[str, str] = {}) -> None:
    """Write the receipt of committed records, whatever batch they ran in.

    Args:
        path: the receipt's file.
        contract: C.
        records: committed records' bytes, in slot order.
        note: further facts of the phase that later stages read.
    """
    episodes = []
    for data in records:
        record = EpisodeRecord.from_bytes(data, "a committed record")
        episodes.append(
            {
                "stage": record.stage,
                "slot": record.slot,
                "arm": record.arm,
                "attempt": record.attempt,
                "record": canonical.digest(data),
            }
        )
    stagefile.write(path, SCHEMA, {"contract": contract, "episodes": episodes, **note})


def remove_others(path: Path) -> None:
    """Remove the receipts beside one that answer for some of its slots too: of batches of another size.

    Of a later look they may say otherwise whether its episodes were started.
    """
    own = slots_of(path.name)
    for other in path.parent.glob("b*.json"):
        slots = slots_of(other.name)
        if own and slots and other != path and slots[0] <= own[1] and own[0] <= slots[1]:
            other.unlink(missing_ok=True)


def read(path: Path, contract: str) -> list[Receipt]:
    """The lines of a receipt.

    Raises:
        EvidenceError: it is missing, altered, or of another contract, or lists episodes twice or in another order.
    """
    body = read_body(path, contract)
    lines = [
        Receipt(EpisodeKey(line["stage"], line["slot"], line["arm"]), line["attempt"], line["record"])
        for line in body["episodes"]
    ]
    places = [(line.key.slot, plan.STAGES[line.key.stage].arms.index(line.key.arm)) for line in lines]
    if any(one >= next_one for one, next_one in pairwise(places)):
        raise EvidenceError(
            f"the receipt {path} does not list each episode once, slot by slot and arm by arm",
            f"To make it again: rm -f '{path}' and run snakemake again",
        )
    return lines


def contract_of(path: Path) -> str:
    """The contract that a receipt belongs to.

    Raises:
        EvidenceError: the receipt was altered.
    """
    body, _ = stagefile.read(path, SCHEMA, "the receipt")
    return str(body["contract"])


def read_body(path: Path, contract: str) -> dict[str, Any]:
    """The whole body of a receipt; raises as read does."""
    return stagefile.read(path, SCHEMA, "the receipt", contract=contract)[0]


def resolve(receipt: Receipt, store: EpisodeStore, path: Path) -> EpisodeRecord:
    """The record that a receipt's line names, recomputed.

    Args:
        receipt: the line.
        store: the episode store.
        path: the receipt's file, for the error.

    Raises:
        EvidenceError: the record is missing, was altered, or stands for another episode.
    """
    place = store.where(receipt.key, receipt.attempt)

    def refused(problem: str) -> EvidenceError:
        folder = store.folder(receipt.key, receipt.attempt)
        return EvidenceError(problem, f"To restore it: rm -rf '{folder}' '{path}' and run snakemake again")

    try:
        data = store.committed(receipt.key, receipt.attempt)
    except files.IrregularError:
        raise refused(f"the record of {receipt.key} is no regular file: {place}") from None
    if data is None:
        raise refused(f"the record of {receipt.key} is missing: {place}")
    if canonical.digest(data) != receipt.record:
        raise refused(f"the record of {receipt.key} was altered: {place} does not have the digest in {path}")
    record = EpisodeRecord.from_bytes(data, place)
    if record.key != receipt.key or record.attempt != receipt.attempt:
        raise refused(f"{place} holds the record of another episode ({record.key})")
    return record
