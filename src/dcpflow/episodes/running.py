"""An agent that was started: what can be known of it from outside, and how all of it is ended."""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress

from dcpflow.episodes.processes import Tree, children
from dcpflow.errors import EvidenceError

PR_SET_CHILD_SUBREAPER = 36
DYING_SECONDS = 10.0
LEFTOVER_SECONDS = 2.0


class Running:
    """A started agent, as a plain process.

    Attributes:
        process: the agent, or the sandbox around it.
        tree: its processes.
        workspace: descriptor of the folder that it can write to, where it has one of its own.
    """

    def __init__(self, process: subprocess.Popen[bytes], tree: Tree, workspace: int | None = None) -> None:
        self.process = process
        self.tree = tree
        self.workspace = workspace

    def never_ran(self) -> bool:
        """After its end: whether the sandbox failed before the agent's own program had started."""
        return False

    def killed_outside(self) -> bool:
        """After its end: whether a signal from outside ended the sandbox itself, which no agent inside can reach."""
        return False

    def fell_silent(self) -> bool:
        """Whether no process of the agent's can write to its standard output any more, although that is not closed."""
        return False

    def stop(self) -> None:
        """Kill the agent with everything that it started, and reap it; its workspace stays until it is closed."""
        if self.process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self._reap()

    def close_workspace(self) -> None:
        """Let go of the folder that the agent could write to, with all that is in it."""
        if self.workspace is not None:
            os.close(self.workspace)
            self.workspace = None

    def _reap(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()


class Unconfined(Running):
    """An agent without a sandbox; what it leaves in sessions of its own comes to this process, which ends it.

    Args:
        process: the agent.
        others: children that this process had before.
    """

    def __init__(self, process: subprocess.Popen[bytes], others: Iterable[int]) -> None:
        super().__init__(process, Tree(process.pid, counted=True))
        self._others = frozenset(others)

    def stop(self) -> None:
        """Kill the agent's process group, and whatever it left behind that is not in this process's own session."""
        super().stop()
        deadline = time.monotonic() + LEFTOVER_SECONDS
        while (left := self._left()) and time.monotonic() < deadline:
            _end(left)
        adopt_orphans(False)

    def _left(self) -> list[int]:
        ours = os.getsid(0)
        found = []
        for pid in children(os.getpid()):
            with suppress(ProcessLookupError, PermissionError):
                if pid not in self._others and os.getsid(pid) != ours:
                    found.append(pid)
        return found


class Sandboxed(Running):
    """An agent inside bubblewrap.

    Args:
        process: bubblewrap outside.
        status: the pipe on which bubblewrap reports.
        workspace: descriptor of the agent's workspace.
        others: children that this process had before; by now it adopts orphans.

    Raises:
        OSError: its first process cannot be watched.
    """

    def __init__(self, process: subprocess.Popen[bytes], status: int, workspace: int, others: Iterable[int]) -> None:
        self._status: int | None = status
        self._report = _first_report(status)
        first = _process_inside(self._report)
        if not first:
            # killed as it began, bubblewrap can leave a process that waits for it for ever
            process.wait()
            _end(pid for pid in children(os.getpid()) if pid not in {process.pid, *others})
        super().__init__(process, Tree(first, counted=False), workspace)
        self._first: int | None = None
        with suppress(ProcessLookupError):
            # process 1 inside: with it the kernel ends all the others, and before it they have ended
            self._first = os.pidfd_open(first) if first else None
        self._output = os.fstat(process.stdout.fileno()) if process.stdout else None

    def never_ran(self) -> bool:
        """After its end: whether the sandbox failed before the agent's own program had started.

        bubblewrap reports an exit code on a pipe of its own, which the agent cannot reach, only once its set-up was
        complete; a failure of the infrastructure is told from one of the agent by that alone.
        """
        if self._status is None or self.process.returncode < 0:
            return False
        os.set_blocking(self._status, False)
        with suppress(BlockingIOError):
            self._report += os.read(self._status, 4096)
        return b"exit-code" not in self._report

    def killed_outside(self) -> bool:
        """After its end: whether a signal from outside ended the sandbox itself, which no agent inside can reach."""
        return self.process.returncode is not None and self.process.returncode < 0

    def fell_silent(self) -> bool:
        """Whether no process of the agent's has its output open; bubblewrap's own two have it open to the end."""
        return self._output is not None and self.tree.all_let_go_of(self._output)

    def stop(self) -> None:
        """Kill everything inside, see that it is dead, and reap it.

        Raises:
            EvidenceError: something inside does not die, so that its workspace could still change.
        """
        if self._first is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._first, signal.SIGKILL)
            dead, _, _ = select.select([self._first], [], [], DYING_SECONDS)
            os.close(self._first)
            self._first = None
            if not dead:
                raise EvidenceError(
                    f"an agent's processes are still there {DYING_SECONDS:.0f} s after they were killed",
                    "Something of this machine holds them up, such as a file system that does not answer",
                )
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=DYING_SECONDS)  # bubblewrap reaps its child, which then is no zombie
        self._reap()
        if self._status is not None:
            os.close(self._status)
            self._status = None


def adopt_orphans(yes: bool) -> None:
    """Whether what descendants of this process leave behind becomes a child of this process, where the system can."""
    with suppress(AttributeError):  # on macOS it cannot
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(yes), 0, 0, 0)


def _end(adopted: Iterable[int]) -> None:
    """Kill and reap children that this process did not start itself."""
    for pid in adopted:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)


def _first_report(status: int) -> bytes:
    """What bubblewrap reports when its first process is there; nothing if it fails before."""
    report = b""
    while b"\n" not in report and (data := os.read(status, 4096)):
        report += data
    return report


def _process_inside(report: bytes) -> int:
    """Number of the first process inside, by what bubblewrap reports; 0 if there was none."""
    line, end, _ = report.partition(b"\n")
    return int(json.loads(line)["child-pid"]) if end else 0
