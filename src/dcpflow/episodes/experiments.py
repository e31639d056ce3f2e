"""Experiments that an auditor's evaluator answers: what passes over its socket, and the side that asks.

One line of JSON each way. The claimant's side sends ``{"episode": [stage, slot, arm], "candidate": text}``; the
auditor's side answers with one of ``result``, ``invalid``, ``died`` and ``refused``.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from dcpflow.errors import UsageError
from dcpflow.records import offer
from dcpflow.records.episodes import EpisodeKey
from dcpflow.tasks.base import CandidateInvalid
from dcpflow.tasks.evaluator import PATIENCE, WAITING_SECONDS, EvaluatorDied, Request

GRACE: Final = 60.0
"""Seconds beyond what an experiment may take, in which an answer has to arrive."""
MOST: Final = 16 << 20
"""Bytes of the longest answer that is read."""
SERVE: Final = "Ask the auditor to serve it (dcpflow serve-experiments), then run snakemake again"


def told(ask: Callable[[], Any]) -> dict[str, Any]:
    """What is sent back for an experiment, whatever it comes to."""
    try:
        return {"result": ask()}
    except CandidateInvalid as error:
        return {"invalid": str(error)}
    except EvaluatorDied as error:
        return {"died": str(error)}


@contextmanager
def address(folder: Path) -> Iterator[str]:
    """The address of the socket in a folder, whose path may be longer than a socket's address (108 bytes)."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        short = Path("/proc/self/fd", str(opened))
        yield str((short if short.exists() else folder) / offer.SOCKET)
    finally:
        os.close(opened)


class AuditorsEvaluator:
    """The evaluator of one episode, at the other end of the auditor's socket; used as an evaluator child is.

    Args:
        folder: of the offer.
        key: the episode.
        seconds: registered CPU time for one experiment.
        waiting: called every few seconds while an answer is awaited.
    """

    def __init__(
        self, folder: Path, key: EpisodeKey, seconds: float, waiting: Callable[[], None] = lambda: None
    ) -> None:
        self._folder = folder
        self._episode = [key.stage, key.slot, key.arm]
        self._patience = seconds * PATIENCE + GRACE
        self._waiting = waiting
        self._line: socket.socket | None = None

    def start(self) -> None:
        """Connect, before the agent is started.

        Raises:
            UsageError: nobody serves there.
        """
        self._line = self._line or connected(self._folder)

    def ask(self, request: Request) -> Any:
        """The answer.

        Raises:
            CandidateInvalid: the task refused the candidate.
            EvaluatorDied: its evaluation ran into a limit or crashed.
            UsageError: there is no answer, or the auditor's side refuses one.
        """
        self.start()
        assert self._line is not None
        try:
            self._line.sendall(json.dumps({"episode": self._episode, **request}).encode() + b"\n")
            answer = json.loads(self._answer(self._line))
        except (OSError, ValueError) as error:
            raise UsageError(f"the auditor's evaluator in {self._folder} gave no answer ({error})", SERVE) from None
        match answer:
            case {"result": dict(result)}:
                return result
            case {"invalid": str(reason)}:
                raise CandidateInvalid(reason)
            case {"died": str(reason)}:
                raise EvaluatorDied(reason)
            case {"refused": str(reason)}:
                raise UsageError(f"the auditor's evaluator refuses an experiment: {reason}", "Ask the auditor")
            case _:
                raise UsageError(f"the auditor's evaluator in {self._folder} gave an answer of another form", SERVE)

    def close(self) -> None:
        """Hang up."""
        if self._line is not None:
            self._line.close()
            self._line = None

    def _answer(self, line: socket.socket) -> bytes:
        deadline, heard = time.monotonic() + self._patience, b""
        line.settimeout(WAITING_SECONDS)
        while not heard.endswith(b"\n"):
            try:
                more = line.recv(1 << 16)
            except TimeoutError:
                if time.monotonic() > deadline:
                    raise
                self._waiting()
                continue
            heard += more
            if not more or len(heard) > MOST:
                raise ConnectionError("it hung up" if not more else "it is too long")
        return heard


def connected(folder: Path) -> socket.socket:
    """A connection to the auditor's evaluator.

    Raises:
        UsageError: nobody serves there.
    """
    line = socket.socket(socket.AF_UNIX)
    try:
        with address(folder) as path:
            line.connect(path)
    except OSError as error:
        line.close()
        raise UsageError(
            f"the auditor's evaluator does not answer at {folder / offer.SOCKET} ({error.strerror})", SERVE
        ) from None
    return line
