"""What a model has cost, summed: prices are not registered, so that money is no part of the evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dcpflow.errors import EvidenceError
from dcpflow.evidence import tables


@dataclass(frozen=True, slots=True)
class Costs:
    """Calls to a model, together.

    Attributes:
        name: what they were spent on.
        episodes: that made them.
        calls: their number.
        failed: of them.
        input_tokens: read, those from a cache included.
        cached_tokens: of these, read from a cache.
        output_tokens: written.
        usd: their cost.
    """

    name: str
    episodes: int
    calls: int
    failed: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    usd: float


def read(path: Path, calls: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The price of each recorded call.

    Args:
        path: the table ``costs``, which is not made where no model is asked.
        calls: rows of the evidence table ``calls``.

    Raises:
        EvidenceError: there is no such table although a model was asked, or it is that of other calls.
    """
    rows = tables.read(path, "costs") if calls else []
    shared = [name for name in tables.SCHEMAS["costs"] if name in tables.SCHEMAS["calls"]]
    if [[row[name] for name in shared] for row in rows] != [[row[name] for name in shared] for row in calls]:
        raise EvidenceError(f"{path} is not of the calls that are recorded", f"rm -f '{path}' and run snakemake again")
    return rows


def summed(name: str, rows: Iterable[Mapping[str, Any]]) -> Costs:
    """The sum of some rows of the table ``costs``."""
    found = list(rows)
    return Costs(
        name=name,
        episodes=len({row["record"] for row in found}),
        calls=len(found),
        failed=sum(bool(row["fault"]) for row in found),
        input_tokens=sum(row["input_tokens"] for row in found),
        cached_tokens=sum(row["cached_tokens"] for row in found),
        output_tokens=sum(row["output_tokens"] for row in found),
        usd=sum(row["usd"] for row in found),
    )


def by_stage(rows: Iterable[Mapping[str, Any]]) -> list[Costs]:
    """The sums of each stage, in the order of the table, and of all together; empty where no model was asked."""
    stages: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        stages.setdefault(row["stage"], []).append(row)
    together = summed("all", (row for found in stages.values() for row in found))
    return [*(summed(stage, found) for stage, found in stages.items()), together] if stages else []
