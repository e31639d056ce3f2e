"""Reads much in a process beside this one, while this one reads the rest.

Only where it pays and is safe: many megabytes, a second processor, and no thread, which a fork could leave with a lock
that nobody holds. Everywhere else, and where the other process came to no result, the work is done here: an error is
raised where it would have been anyway.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from dcpflow.records.large_json import LARGE

T = TypeVar("T")
_THREADS: Final = "/proc/self/task"


@contextmanager
def begun(work: Callable[[], T], files: Iterable[Path]) -> Iterator[Callable[[], T]]:
    """Begin some work, which changes nothing, beside what the block does.

    Args:
        work: what is to be done.
        files: the files that it reads; by their size it is known whether it pays.

    Yields:
        What waits for the result and gives it, once; it raises what the work raises.
    """
    if not (_pays(files) and _is_safe()):
        yield work
        return
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        _do(work, reading, writing)
    os.close(writing)
    try:
        with os.fdopen(reading, "rb") as pipe:
            yield lambda: _result(pipe, work)
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


def _do(work: Callable[[], Any], reading: int, writing: int) -> None:
    """In the other process: do the work, hand on the result, and end without what an interpreter does at its end."""
    try:
        os.close(reading)
        gc.disable()
        with os.fdopen(writing, "wb") as pipe:
            pickle.dump(work(), pipe, pickle.HIGHEST_PROTOCOL)
    finally:
        os._exit(0)


def _result(pipe: Any, work: Callable[[], T]) -> T:
    try:
        found: T = pickle.load(pipe)
    except (EOFError, pickle.UnpicklingError):
        return work()
    return found
