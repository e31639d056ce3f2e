"""Experiments that an auditor's evaluator has answered, episode by episode: each candidate once, with what was told.

The list is the auditor's own. It bounds what can be learned of the hidden state, since an episode has no more answers
than experiments are registered, and it shows experiments of which no committed record tells.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedRandom
from pathlib import Path
from typing import Any

from dcpflow.records import canonical
from dcpflow.records.episodes import EpisodeKey


@dataclass(frozen=True, slots=True)
class Asked:
    """What was answered to one episode.

    Attributes:
        told: by candidate, in the order in which they were asked.
    """

    told: dict[str, dict[str, Any]]
    _file: BufferedRandom

    def add(self, candidate: str, told: dict[str, Any]) -> None:
        """Note an answer, before it is given: one that is not on the disk was told to nobody."""
        self._file.write(canonical.encode({"candidate": candidate, "told": told}) + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.told[candidate] = told


@contextmanager
def of_episode(folder: Path, key: EpisodeKey) -> Iterator[Asked]:
    """What an episode was told, for this process alone.

    Args:
        folder: of the whole list.
        key: the episode.
    """
    path = folder / key.stage / f"{key.slot:05d}" / f"{key.arm}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        lines, whole, _ = file.read().rpartition(b"\n")
        # what a machine that stopped has left of a last line
        file.truncate(len(lines) + len(whole))
        entries = [canonical.decode(line, str(path)) for line in lines.splitlines()]
        yield Asked({entry["candidate"]: entry["told"] for entry in entries}, file)


def everything(folder: Path) -> dict[EpisodeKey, list[str]]:
    """The candidates that were asked, by episode."""
    found = {}
    for path in sorted(folder.glob("*/*/*.jsonl")):
        stage, slot, arm = path.relative_to(folder).with_suffix("").parts
        key = EpisodeKey(stage, int(slot), arm)
        with of_episode(folder, key) as asked:
            found[key] = list(asked.told)
    return found
