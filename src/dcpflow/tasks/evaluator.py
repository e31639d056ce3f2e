"""The limited child process in which task code meets what an agent wrote: for experiments and for scoring."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import math
import os
import resource
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

from dcpflow.tasks.base import CandidateInvalid

Request = dict[str, Any]
Answer = Callable[[Request], Any]
MIB = 1 << 20
CHILD_UID = 2_000_000_001
PR_SET_PDEATHSIG = 1
WAITING_SECONDS = 5.0
PATIENCE = 10.0
TIME_IS_UP = (signal.SIGPROF, signal.SIGXCPU)


class EvaluatorDied(Exception):
    """The child did not survive the candidate, or took too long: an outcome of the candidate, not of the audit."""


class Evaluator:
    """A warm fork of this process that answers requests one at a time, within limits.

    The child is forked by ``start`` or when first needed, and again after one has died. It has the uid of nobody where
    this process is root, and dies with this process.

    Args:
        prepare: called once in the child before it gives up its privileges; returns the function that answers.
            What it opens is known to the child alone.
        seconds: CPU time for one request.
        memory_mb: address space that the child may use beyond what this process has at the fork.
        waiting: called every few seconds while an answer is awaited.
        patience: a request may last this many times its CPU time, since what a busy machine makes slow is no property
            of a candidate.
    """

    def __init__(
        self,
        prepare: Callable[[], Answer],
        seconds: float,
        memory_mb: int,
        waiting: Callable[[], None] = lambda: None,
        patience: float = PATIENCE,
    ) -> None:
        self._prepare = prepare
        self._seconds = seconds
        self._memory_mb = memory_mb
        self._waiting = waiting
        self._patience = patience
        self._child: tuple[int, socket.socket] | None = None
        self._deadline = 0.0
        self._pending = b""

    def start(self) -> None:
        """Fork now, so that the first answer takes no longer than the others."""
        self._child = self._child or self._fork()

    def ask(self, request: Request) -> Any:
        """The child's answer.

        Raises:
            CandidateInvalid: the task refused the candidate.
            EvaluatorDied: the child ran into a limit or crashed.
            RuntimeError: our own code failed in the child; the text is its traceback.
        """
        self.send(request)
        return self.answer()

    def send(self, request: Request) -> None:
        """Hand a request over; the child works on it until ``answer`` is called."""
        _, channel = self._child = self._child or self._fork()
        self._deadline = time.monotonic() + self._seconds * self._patience
        # a child that is gone already is found out by ``answer``
        with contextlib.suppress(OSError):
            channel.sendall(json.dumps(request).encode() + b"\n")

    def answer(self) -> Any:
        """The child's answer to the request that was sent; raises as ``ask``."""
        assert self._child is not None, "nothing was sent"
        try:
            answer = self._line(self._child[1], self._deadline)
        except (OSError, EOFError, TimeoutError) as error:
            died_of = self._end()
            late = isinstance(error, TimeoutError) or died_of in TIME_IS_UP
            raise EvaluatorDied("it took too long" if late else "its evaluation used more than is allowed") from None
        match answer:
            case {"result": result}:
                return result
            case {"invalid": reason}:
                raise CandidateInvalid(reason)
            case {"exhausted": reason}:
                self.close()
                raise EvaluatorDied(reason)
            case _:
                self.close()
                raise RuntimeError(answer["fault"])

    def close(self) -> None:
        """End the child, if there is one."""
        if self._child is not None:
            self._end()

    def _end(self) -> int:
        """End the child, and the signal that it has died of."""
        assert self._child is not None
        pid, channel = self._child
        self._child, self._pending = None, b""
        channel.close()
        os.kill(pid, signal.SIGKILL)
        return -os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def __enter__(self) -> Evaluator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _line(self, channel: socket.socket, deadline: float) -> dict[str, Any]:
        while b"\n" not in self._pending:
            left = deadline - time.monotonic()
            ready, _, _ = select.select([channel], [], [], max(0.0, min(left, WAITING_SECONDS)))
            if not ready:
                if left <= WAITING_SECONDS:
                    raise TimeoutError
                self._waiting()
                continue
            data = channel.recv(1 << 16)
            if not data:
                raise EOFError
            self._pending += data
        line, _, self._pending = self._pending.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _fork(self) -> tuple[int, socket.socket]:
        ours, theirs = socket.socketpair()
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        pid = os.fork()
        if pid:
            theirs.close()
            return pid, ours
        try:
            ours.close()
            _serve(self._prepare, theirs, parent, self._seconds, self._memory_mb)
        except OSError:
            pass  # the parent is gone, or has closed its end
        finally:
            os._exit(1)


def die_with(parent: int) -> bool:
    """In a child: have it killed when its parent ends, where the system can (not macOS); False if that is gone."""
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    return os.getppid() == parent


def _serve(prepare: Callable[[], Answer], channel: socket.socket, parent: int, seconds: float, memory_mb: int) -> None:
    """The child's life: give up what it does not need, then answer until the socket closes."""
    try:
        answer = prepare()
        _confine(channel.fileno(), memory_mb)
    except Exception as error:
        answer = _failing(error)  # our own fault, never the candidate's: it is told with the first answer
    # giving up privileges clears it, so it is asked for after that
    if not die_with(parent):
        return
    with channel.makefile("rb") as requests:
        for line in requests:
            try:
                _allow_seconds(seconds)
            except (OSError, ValueError) as error:
                answer = _failing(error)
            told = _one(answer, json.loads(line))
            signal.setitimer(signal.ITIMER_PROF, 0)
            channel.sendall(told + b"\n")


def _allow_seconds(seconds: float) -> None:
    """CPU time for one more request, and a limit behind it that no code of a task's can lift."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    spent = resource.getrusage(resource.RUSAGE_SELF)
    limit = int(spent.ru_utime + spent.ru_stime + math.ceil(seconds)) + 2
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def _confine(keep: int, memory_mb: int) -> None:
    """Close all descriptors but one, set the limits, and become nobody where this is root."""
    os.closerange(3, keep)
    os.closerange(keep + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    for what, value in (
        (resource.RLIMIT_AS, address_space() + memory_mb * MIB),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(what, (value, value))
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(CHILD_UID)
        os.setuid(CHILD_UID)


def _failing(fault: Exception) -> Answer:
    def fail(_: Request) -> Any:
        raise fault

    return fail


def _one(answer: Answer, request: Request) -> bytes:
    """The answer to one request, or what stood in its way, as JSON."""
    try:
        return json.dumps({"result": answer(request)}).encode()
    except CandidateInvalid as error:
        told = {"invalid": str(error)}
    except (MemoryError, RecursionError) as error:
        told = {"exhausted": f"its evaluation used more than is allowed ({type(error).__name__})"}
    except Exception as error:
        import traceback  # noqa: PLC0415

        if isinstance(error, OSError) and error.errno == errno.ENOMEM:
            return json.dumps({"exhausted": "its evaluation used more memory than is allowed"}).encode()
        told = {"fault": traceback.format_exc()}
    return json.dumps(told).encode()


def address_space() -> int:
    """Bytes of address space that this process has, or much, where that is not told."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - nothing else is imported here
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 4096 * MIB
