"""Reads much in a process beside this one, while this one reads the rest.

Only where it pays and is safe: many megabytes, a second processor, and no thread, which a fork could leave with a lock
that nobody holds. Everywhere else, and where the other process came to no result, the work is done here: an error is
raised where it would have been anyway.
"""

from __future__ import annotations

import gc
import json
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar

from dcpflow.records.large_json import LARGE

T = TypeVar("T")
_THREADS: Final = "/proc/self/task"
_LENGTH: Final = 8


@contextmanager
def begun(
    work: Callable[[], T],
    files: Iterable[Path],
    to_bytes: Callable[[T], bytes] = lambda found: json.dumps(found).encode(),
    from_bytes: Callable[[bytes], T] = json.loads,
) -> Iterator[Callable[[], T]]:
    """Begin some work, which changes nothing, beside what the block does.

    Args:
        work: what is to be done.
        files: the files that it reads; by their size it is known whether it pays.
        to_bytes: how the result crosses over; by default as JSON, as which it has to be the same.
        from_bytes: the way back.

    Yields:
        What waits for the result and gives it, once; it raises what the work raises.
    """
    if not (_pays(files) and _is_safe()):
        yield work
        return
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        _do(lambda: to_bytes(work()), reading, writing)
    os.close(writing)
    try:
        with os.fdopen(reading, "rb") as pipe:
            yield lambda: work() if (found := _whole(pipe.read())) is None else from_bytes(found)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _pays(files: Iterable[Path]) -> bool:
    size = 0
    for file in files:
        # none of a folder in memory; one that is missing is told by whoever reads it
        if isinstance(file, Path):
            with suppress(OSError):
                size += file.stat().st_size
    return size >= LARGE


def _is_safe() -> bool:
    """Whether there is a second processor, and no other thread in this process, those of libraries included."""
    try:
        return len(os.sched_getaffinity(0)) > 1 and sum(1 for _ in Path(_THREADS).iterdir()) == 1
    except (AttributeError, OSError):
        # not on Linux
        return False


def _do(work: Callable[[], bytes], reading: int, writing: int) -> None:
    """In the other process: do the work, hand on the result, and end without what an interpreter does at its end."""
    try:
        os.close(reading)
        gc.disable()
        found = work()
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(len(found).to_bytes(_LENGTH))
            pipe.write(found)
    finally:
        os._exit(0)


def _whole(told: bytes) -> bytes | None:
    """What the other process has told, without its length; None where it was ended before."""
    length, found = told[:_LENGTH], told[_LENGTH:]
    return found if len(length) == _LENGTH and len(found) == int.from_bytes(length) else None
