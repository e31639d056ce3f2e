"""The auditor's evaluator, served: it answers the experiments of target and truthful branches, and keeps a list."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socketserver
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from dcpflow.episodes import policies
from dcpflow.episodes.arms import Arm
from dcpflow.episodes.experiments import address, connected, told
from dcpflow.errors import UsageError
from dcpflow.records import asked, offer, plan
from dcpflow.records.episodes import EpisodeKey
from dcpflow.stages.laboratory import Job
from dcpflow.stages.offering import ASKED, job_of, require_secret
from dcpflow.tasks.evaluator import die_with

OVERHEAD: Final = 1024
"""Bytes of a request besides its candidate."""
ESCAPED: Final = 6
"""Bytes that one byte of a candidate takes in JSON at most."""


GRACE_SECONDS: Final = 60.0
"""Added to an episode's longest duration, after which a connection that says nothing is nobody's."""


class Refused(Exception):
    """An experiment that is not answered; the text says why."""


def serve(sealed: Path, folder: Path, ready: Callable[[], None], data_file: Path | None = None) -> None:
    """Answer experiments until SIGINT or SIGTERM.

    Args:
        sealed: the sealed folder.
        folder: of the offer; the socket is made there, open to all who may enter the folder.
        ready: called when the socket is there.
        data_file: as for a job.

    Raises:
        UsageError: the folders are of different audits, somebody serves there already, or all is revealed.
    """
    require_secret(sealed)
    job = job_of(sealed, data_file)
    if offer.read(folder) != offer.read(sealed):
        raise UsageError(f"{folder} was not offered from {sealed}", "Give the folders that dcpflow seal has made")
    if _answers(folder):
        raise UsageError(f"experiments are answered at {folder / offer.SOCKET} already", "Stop that first")
    (folder / offer.SOCKET).unlink(missing_ok=True)
    _ = job.bench.engine  # opened once, before anything is forked
    stopping = signal.signal(signal.SIGTERM, signal.default_int_handler)
    with address(folder) as place, _Server(place, job) as server:
        try:
            (folder / offer.SOCKET).chmod(0o666)
            ready()
            server.serve_forever()
        except KeyboardInterrupt:
            pass
        finally:
            (folder / offer.SOCKET).unlink(missing_ok=True)
            signal.signal(signal.SIGTERM, stopping)


def _answers(folder: Path) -> bool:
    try:
        connected(folder).close()
    except UsageError:
        return False
    return True


class _Server(socketserver.ForkingMixIn, socketserver.UnixStreamServer):
    """One process for each episode that asks, so that they do not wait for each other."""

    max_children = 512
    block_on_close = False

    def __init__(self, place: str, job: Job) -> None:
        self.job = job
        self.pid = os.getpid()
        super().__init__(place, _Line)


class _Line(socketserver.StreamRequestHandler):
    """One connection, which is one episode's."""

    server: _Server

    def setup(self) -> None:
        """Wait for a line as long as an episode may last; connections that are left open would else fill the server."""
        self.timeout = self.server.job.contract.config("limits")["wall_seconds"] + GRACE_SECONDS
        super().setup()

    def handle(self) -> None:
        """Answer line by line until the other side hangs up, or sends a line that no experiment is as long as."""
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if not die_with(self.server.pid):
            return
        most = self.server.job.contract.config("limits")["candidate_bytes"] * ESCAPED + OVERHEAD
        with ExitStack() as stack, contextlib.suppress(OSError):
            desk: Desk | None = None
            while line := self.rfile.readline(most):
                if not line.endswith(b"\n"):
                    return
                try:
                    key, candidate = _read(line)
                    if desk is None:
                        desk = stack.enter_context(Desk(self.server.job, key))
                    answer = desk.ask(key, candidate)
                except Refused as refusal:
                    answer = {"refused": str(refusal)}
                self.wfile.write(json.dumps(answer).encode() + b"\n")


class Desk:
    """Answers the experiments of one episode, as many as are registered, and each candidate once.

    Raises:
        Refused: there is no such episode, or its channel measures nothing that is sealed.
    """

    def __init__(self, job: Job, key: EpisodeKey) -> None:
        stage = plan.STAGES.get(key.stage)
        there = stage is not None and key.slot in range(1, plan.slots(key.stage, job.registration.config("design")) + 1)
        if stage is None or not there or key.arm not in stage.arms or key.arm not in policies.TRUTHFUL:
            raise Refused(f"no experiment of {key} is the auditor's to answer")
        self._key = key
        self._folder = job.layout.root / ASKED
        self._limits = job.contract.config("limits")
        self._arm = Arm(job.bench, key)

    def __enter__(self) -> Desk:
        self._arm.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._arm.__exit__(*error)

    def ask(self, key: EpisodeKey, candidate: str) -> dict[str, Any]:
        """The answer, from the list where the candidate was asked before: an episode may have been started again.

        Raises:
            Refused: the registered experiments are used, or it is another episode's.
        """
        if key != self._key:
            raise Refused(f"this connection is of {self._key}, not of {key}")
        if len(candidate.encode()) > self._limits["candidate_bytes"]:
            raise Refused(f"the candidate is over {self._limits['candidate_bytes']} bytes")
        with asked.of_episode(self._folder, key) as before:
            if candidate not in before.told:
                if len(before.told) >= self._limits["experiments"]:
                    raise Refused(f"all {self._limits['experiments']} experiments of {key} were answered")
                # a claim is made before anything is learned from branches of it
                if not plan.STAGES[key.stage].branch and any((self._folder / name).exists() for name in _BRANCHES):
                    raise Refused(f"a branch has experimented since: {key} is closed")
                before.add(candidate, told(lambda: self._arm.policy(candidate)))
            return before.told[candidate]


_BRANCHES: Final = [name for name, stage in plan.STAGES.items() if stage.branch]


def _read(line: bytes) -> tuple[EpisodeKey, str]:
    """Episode and candidate of a request, whatever was sent."""
    try:
        request = json.loads(line)
        stage, slot, arm = request["episode"]
        candidate = request["candidate"]
        if not (isinstance(stage, str) and type(slot) is int and isinstance(arm, str) and isinstance(candidate, str)):
            raise TypeError
        candidate.encode()
    except (ValueError, TypeError, KeyError, RecursionError):
        raise Refused('expected one line {"episode": [stage, slot, arm], "candidate": text}') from None
    return EpisodeKey(stage, slot, arm), candidate
