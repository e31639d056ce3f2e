"""What a plan costs: episodes times what one takes, guessed or read off the records of a pilot."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dcpflow.errors import EvidenceError
from dcpflow.records import plan, registration
from dcpflow.records.layout import Layout


@dataclass(frozen=True, slots=True)
class Price:
    """What one episode takes; None where it is not known.

    Attributes:
        seconds: wall time, by stage; under ``""`` for a stage that is not named.
        tokens: of the model, in and out together.
        money: in whatever currency.
    """

    seconds: Mapping[str, float]
    tokens: float | None = None
    money: float | None = None

    def seconds_of(self, stage: str) -> float | None:
        """Of one episode of a stage."""
        return self.seconds.get(stage, self.seconds.get(""))


@dataclass(frozen=True, slots=True)
class Cost:
    """What all episodes of a plan take; None where it is not known.

    Attributes:
        episodes: their number.
        seconds: of all of them, one after the other.
        hours: on the jobs that run at a time, if these are always busy.
        tokens: in and out together.
        money: in the currency of the price.
    """

    episodes: int
    seconds: float | None
    hours: float | None
    tokens: float | None
    money: float | None

    def to_json(self) -> dict[str, float | None]:
        """For programs."""
        return asdict(self)


def cost(episodes: Mapping[str, int], price: Price, jobs: int) -> Cost:
    """The cost of so many episodes of each stage, ``jobs`` of them at a time."""
    count = sum(episodes.values())
    known = {stage: price.seconds_of(stage) for stage in episodes}
    parts = [n * seconds for stage, n in episodes.items() if (seconds := known[stage]) is not None]
    seconds = math.fsum(parts) if len(parts) == len(episodes) else None
    return Cost(
        episodes=count,
        seconds=seconds,
        hours=seconds / jobs / 3600 if seconds is not None else None,
        tokens=count * price.tokens if price.tokens is not None else None,
        money=count * price.money if price.money is not None else None,
    )


def of_pilot(results: Path) -> dict[str, float]:
    """Mean seconds of an episode by stage, and of all under ``""``, from what lies beside a pilot's records.

    Raises:
        EvidenceError: there is no committed episode with a time beside it.
    """
    layout = Layout(results)
    root = layout.store / registration.read_contract(layout.registration).digest.removeprefix("sha256:")
    found: dict[str, list[float]] = {stage: [] for stage in plan.STAGES}
    for record in sorted(root.glob("*/*/*/*/record.json")):
        stage = record.relative_to(root).parts[0]
        # where an attempt was taken over, the last one to write beside the record has run it
        aside = sorted(record.parent.glob("aside-*.json"), key=lambda path: (len(path.name), path.name))
        if stage in found and aside and (seconds := _seconds(aside[-1].read_bytes())) is not None:
            found[stage].append(seconds)
    everything = [seconds for stage in found.values() for seconds in stage]
    if not everything:
        raise EvidenceError(
            f"{root} holds no episode with its time beside it", "Name the results folder of a pilot run"
        )
    means = {stage: math.fsum(times) / len(times) for stage, times in found.items() if times}
    return {**means, "": math.fsum(everything) / len(everything)}


def _seconds(data: bytes) -> float | None:
    """What lies beside a record is in no hash: whatever is odd there is not used."""
    try:
        value: Any = json.loads(data)["seconds"]
        seconds = float(value)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
