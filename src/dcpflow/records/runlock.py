"""The run lock: one run per results folder, and nothing to clean up by hand after a kill.

It is also what shows a job on another machine that it sees the same results folder as the run that submitted it.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
import uuid
from contextlib import suppress
from pathlib import Path

from dcpflow.errors import UsageError
from dcpflow.records import canonical, files
from dcpflow.records.holders import FOREIGN_SILENCE_SECONDS, Holder, Silence

BEAT_SECONDS = 10.0
POLL_SECONDS = 0.5


class RunLock:
    """The lock of a results folder, as one process takes it and gives it back.

    Args:
        results: the folder; made where it is not there.
    """

    def __init__(self, results: Path) -> None:
        self._results = results
        self._path = _path(results)
        self._over = threading.Event()

    def take(self) -> bool:
        """Take the lock for this process; a dead run's lock is cleared.

        Whether a run on another host is alive shows by its lock, which a living one touches every ten seconds. A run
        that was suspended, or cut off, for so long that another took its lock ends itself once it is back.

        Returns:
            Whether a dead run's lock was cleared: a scheduler may still have jobs of that run.

        Raises:
            UsageError: a living run holds it.
        """
        mine = canonical.encode(Holder.myself().to_json())
        silence = Silence()
        cleared = False
        while not files.write_once(self._path, mine, mode=0o644):
            try:
                held = self._path.read_bytes()
            except FileNotFoundError:
                continue
            holder = Holder.parse(held)
            if holder is None or not _alive(holder, self._path, silence):
                cleared |= _clear(self._path, held)
                continue
            where = "" if holder.alive() else f" on the host {holder.host}"
            raise UsageError(
                f"another run (process {holder.pid}{where}) is at work in {self._results}",
                "Wait for it to end, or give this run a results folder of its own (execution.results)",
            )
        threading.Thread(target=self._beat, daemon=True).start()
        return cleared

    def release(self) -> None:
        """Give the lock back if this process holds it; one that cannot be removed is cleared by the next run."""
        self._over.set()
        with suppress(OSError):
            if Holder.read(self._path) == Holder.myself():
                self._path.unlink()

    def _beat(self) -> None:
        """Show other hosts that this run is alive, for as long as it holds the lock; end it if another does."""
        while not self._over.wait(BEAT_SECONDS):
            with suppress(OSError):
                if Holder.read(self._path) == Holder.myself():
                    os.utime(self._path)
                elif not self._over.is_set():
                    print(
                        f"another run has taken {self._path}, since nothing was heard of this one for "
                        f"{FOREIGN_SILENCE_SECONDS:g} seconds: this run ends",
                        file=sys.stderr,
                        flush=True,
                    )
                    # snakemake then starts no more jobs, and waits for those that are at work
                    os.kill(os.getpid(), signal.SIGTERM)
                    return


def require(results: Path, patience: float) -> None:
    """See that this machine has the results folder of a run that is at work: for jobs on the nodes of a cluster.

    Args:
        results: the results folder.
        patience: seconds until what another machine has written has to be seen here.

    Raises:
        UsageError: there is no lock in the folder.
    """
    deadline = time.monotonic() + patience
    # the folder is listed, since a network file system may remember that a file was not there
    while not (results.is_dir() and _path(results) in results.iterdir()):
        if time.monotonic() > deadline:
            raise UsageError(
                f"the host {socket.gethostname()} does not see the run that submitted this job in {results.absolute()}",
                "All nodes have to share that folder: put it, or the whole project, on a file system that they share "
                "(execution.results; docs/clusters.md). Where the run has ended meanwhile, the job was just too late",
            )
        time.sleep(POLL_SECONDS)


def _alive(holder: Holder, path: Path, silence: Silence) -> bool:
    """Whether the run is at work; of one on another host that is watched until it shows, or has long been silent."""
    alive = holder.alive()
    if alive is not None:
        return alive
    print(
        f"{path} was left by a run on the host {holder.host}: "
        f"if nothing is heard of it for {FOREIGN_SILENCE_SECONDS:g} seconds, this run goes on",
        flush=True,
    )
    while not silence.too_long(path):
        if silence.heard:
            return True
        if not path.exists():
            return False
        time.sleep(POLL_SECONDS)
    return False


def _clear(path: Path, dead: bytes) -> bool:
    """Remove a dead run's lock, and no other: a lock taken meanwhile by a third run is put back.

    Returns:
        Whether it was this call that removed it.
    """
    # a name that nobody else has: process numbers repeat between hosts and containers
    aside = path.with_name(f".run-lock-dead-{uuid.uuid4().hex}")
    try:
        if path.read_bytes() != dead:
            return False
        path.rename(aside)
    except FileNotFoundError:
        return False
    if not (found := aside.read_bytes() == dead):
        # a fourth run may have been quicker still: then it holds the lock, this one is refused, and the third one
        # ends itself at its next beat
        with suppress(FileExistsError):
            os.link(aside, path)
    aside.unlink()
    return found


def _path(results: Path) -> Path:
    return results / ".run-lock.json"
