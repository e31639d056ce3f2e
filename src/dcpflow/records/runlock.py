"""The run lock: one run per results folder, and nothing to clean up by hand after a kill."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from dcpflow.errors import UsageError
from dcpflow.records import canonical, files
from dcpflow.records.holders import Holder


def take(results: Path) -> None:
    """Take the lock of a results folder for this process; a dead run's lock is cleared.

    Raises:
        UsageError: a living run, or one on another host, holds it.
    """
    path = results / ".run-lock.json"
    mine = canonical.encode(Holder.myself().to_json())
    while not files.write_once(path, mine, mode=0o644):
        try:
            held = path.read_bytes()
        except FileNotFoundError:
            continue
        holder = Holder.read(path) if held else None
        alive = holder.alive() if holder else False
        if holder is None or alive is False:
            _clear(path, held)
            continue
        where = "" if alive else f" on the host {holder.host}"
        raise UsageError(
            f"another run (process {holder.pid}{where}) is at work in {results}",
            "Wait for it to end, or give this run a results folder of its own (execution.results)"
            if alive
            else f"If that run is dead, remove {path}",
        )


def _clear(path: Path, dead: bytes) -> None:
    """Remove a dead run's lock, and no other: a lock taken meanwhile by a third run is put back."""
    aside = path.with_name(f".run-lock-dead-{os.getpid()}")
    try:
        path.rename(aside)
    except FileNotFoundError:
        return
    if aside.read_bytes() != dead:
        # a fourth run may have been quicker still: then it holds the lock, and this one is refused
        with suppress(FileExistsError):
            os.link(aside, path)
    aside.unlink()


def release(results: Path) -> None:
    """Give the lock back if this process holds it; one that cannot be removed is cleared by the next run."""
    path = results / ".run-lock.json"
    with suppress(OSError):
        if Holder.read(path) == Holder.myself():
            path.unlink()
