"""What a tree of processes uses, read from /proc.

CPU time that is spent in a sandbox's own process namespace cannot be billed by waiting for the sandbox, and limits that
the kernel sets for each process say nothing about all of them; so the tree is looked at from outside.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = resource.getpagesize()


@dataclass(frozen=True, slots=True)
class Process:
    """One process, as ``/proc/<pid>/stat`` tells of it.

    Attributes:
        pid: its number.
        started: when, in clock ticks: with the number, it names the process.
        own_seconds: CPU time of its threads.
        children_seconds: CPU time of children that it has waited for, and of theirs.
        threads: how many.
        resident_bytes: memory, what it shares included.
    """

    pid: int
    started: int
    own_seconds: float
    children_seconds: float
    threads: int
    resident_bytes: int


@dataclass(frozen=True, slots=True)
class Use:
    """What a whole tree uses.

    Attributes:
        cpu_seconds: CPU time since the beginning.
        memory_bytes: memory of all processes; what they share counts once.
        tasks: processes and threads.
    """

    cpu_seconds: float
    memory_bytes: int
    tasks: int


class Tree:
    """A process and all its descendants.

    Args:
        root: its number.
        counted: whether the root itself counts, or only its descendants.
    """

    def __init__(self, root: int, *, counted: bool) -> None:
        self._root = root
        self._counted = counted
        self._seen: dict[tuple[int, int], float] = {}

    def members(self) -> list[Process]:
        """Those that are alive."""
        found = list(_descendants(self._root))
        return found if self._counted else [process for process in found if process.pid != self._root]

    def use(self, enough_bytes: int, enough_tasks: int) -> Use:
        """What is used now.

        CPU time of a child that nobody waited for is in no sum of the kernel's, so the last that was seen of each
        process counts too; the larger of the two sums is told.

        Args:
            enough_bytes: up to this much memory, what is shared need not be told apart.
            enough_tasks: once more processes than this are found, no more need to be looked for.
        """
        everyone = list(islice(_descendants(self._root), enough_tasks + 2))
        for process in everyone:
            self._seen[process.pid, process.started] = process.own_seconds
        told = sum(process.own_seconds + process.children_seconds for process in everyone)
        members = everyone if self._counted else [process for process in everyone if process.pid != self._root]
        memory = sum(process.resident_bytes for process in members)
        if memory > enough_bytes:
            memory = sum(proportional_bytes(process) for process in members)
        return Use(max(told, sum(self._seen.values())), memory, sum(process.threads for process in members))

    def all_let_go_of(self, pipe: os.stat_result) -> bool:
        """Whether there are any, and none has this pipe open; one whose descriptors cannot be listed may have it."""
        members = self.members()
        return bool(members) and not any(_has_open(process.pid, pipe) for process in members)


def read_stat(pid: int) -> Process | None:
    """One process; None if there is none of that number."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    # the command's name stands in brackets, and may itself hold blanks and brackets
    words = text[text.rindex(")") + 2 :].split()
    own, children = int(words[11]) + int(words[12]), int(words[13]) + int(words[14])
    return Process(pid, int(words[19]), own / TICKS, children / TICKS, int(words[17]), int(words[21]) * PAGE)


def children(pid: int) -> list[int]:
    """The children of a process, whichever of its threads has started them."""
    found: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - a name is all that is needed
            found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text("ascii").split())
    return found


def proportional_bytes(process: Process) -> int:
    """Memory of a process, of what it shares only its part; with all that it shares where that cannot be read."""
    with suppress(OSError, ValueError, IndexError):
        for line in Path(f"/proc/{process.pid}/smaps_rollup").read_text("ascii").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) << 10
    return process.resident_bytes


def _descendants(root: int) -> Iterator[Process]:
    waiting, met = [root], {root}
    while waiting:
        pid = waiting.pop()
        found = read_stat(pid)
        if found is not None:
            yield found
        fresh = [child for child in children(pid) if child not in met]
        met.update(fresh)
        waiting += fresh


def _has_open(pid: int, pipe: os.stat_result) -> bool:
    folder = Path(f"/proc/{pid}/fd")
    try:
        names = os.listdir(folder)  # noqa: PTH208
    except FileNotFoundError:
        return False
    except OSError:
        return True
    for name in names:
        with suppress(OSError):
            found = (folder / name).stat()
            if (found.st_dev, found.st_ino) == (pipe.st_dev, pipe.st_ino):
                return True
    return False
