"""What an attempt has come to so far: lines that survive a kill, so that paid work can go on where it stopped."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Journal:
    """The journal of one attempt: entries that were written before, by killed processes too, and those of this one.

    Every process that holds the attempt writes to a file of its own, whole lines, each on the disk before it is acted
    on. The last line of a killed one may be torn, and then was not acted on.

    Args:
        folder: the attempt's folder.
        number: of this process among those that have held the attempt, from 1.

    Attributes:
        earlier: what processes before this one have written, in order.
    """

    def __init__(self, folder: Path, number: int) -> None:
        self._path = folder / f"journal-{number}.jsonl"
        self.earlier = [
            entry for before in range(1, number) for entry in whole_lines(folder / f"journal-{before}.jsonl")
        ]

    def add(self, entry: Mapping[str, Any]) -> None:
        """Write an entry, a JSON object; it is on the disk when this returns."""
        line = json.dumps(entry, separators=(",", ":"), sort_keys=True).encode() + b"\n"
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            view = memoryview(line)
            while view:
                view = view[os.write(descriptor, view) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def whole_lines(path: Path) -> list[dict[str, Any]]:
    """The entries of one file of a journal; a torn last line is left out."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    whole, _, _ = data.rpartition(b"\n")
    return [json.loads(line) for line in whole.split(b"\n") if line]
