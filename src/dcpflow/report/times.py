"""Wall times of episodes, which lie beside the records and in no hash: two runs of one audit differ in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dcpflow.errors import EvidenceError
from dcpflow.records import canonical, files, plan
from dcpflow.records.layout import Layout


@dataclass(frozen=True, slots=True)
class StageTimes:
    """Times of one stage.

    Attributes:
        stage: its name.
        episodes: of which a time was found.
        seconds: of all of them, as if one had run after the other.
        measuring: of them, in experiments.
    """

    stage: str
    episodes: int
    seconds: float
    measuring: float


@dataclass(frozen=True, slots=True)
class Times:
    """Times of one audit.

    Attributes:
        stages: in the order of the protocol's stages.
        elapsed: seconds from the start of the first episode to the end of the last one.
    """

    stages: tuple[StageTimes, ...]
    elapsed: float


def read(layout: Layout, contract: str, strata: Mapping[str, str] = {}) -> Times | None:
    """The times that lie beside the records; None where none do, as in a bundle.

    Args:
        layout: where they lie.
        contract: of the audit.
        strata: that of each stratum, by name.
    """
    stages, spans = [], []
    places = {stage: (contract, stage) for stage in plan.STAGES}
    places |= {plan.place("challengers", name): (own, "challengers") for name, own in strata.items()}
    for stage, (own, kind) in places.items():
        paths = sorted((layout.store / own.removeprefix("sha256:")).glob(f"{kind}/*/*/*/aside-*.json"))
        found = [numbers for numbers in map(_numbers, paths) if numbers]
        if found:
            seconds, measuring = sum(one[1] for one in found), sum(one[2] for one in found)
            stages.append(StageTimes(stage, len(found), seconds, measuring))
            spans += [(start, start + length) for start, length, _ in found]
    if not stages:
        return None
    return Times(tuple(stages), max(end for _, end in spans) - min(start for start, _ in spans))


def _numbers(path: Path) -> tuple[float, float, float] | None:
    """Start, length and time in experiments; None where the file is not what was written there."""
    try:
        aside = canonical.decode(files.read(path, "the times"), str(path))
        return float(aside["started"]), float(aside["seconds"]), float(aside["measuring_seconds"])
    except (KeyError, TypeError, ValueError, EvidenceError):
        return None
