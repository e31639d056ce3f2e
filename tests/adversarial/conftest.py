"""Agents written for one test, and what it takes to let them talk to the harness."""

from __future__ import annotations

import json
import math
import os
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.adversarial.upstream import KEY

from dcpflow.agents.launch import MODEL, LaunchSpec, door_files, python_command
from dcpflow.episodes import runner
from dcpflow.episodes.channel import Channel
from dcpflow.episodes.doors import converse_with_doors
from dcpflow.episodes.runner import Ending, converse
from dcpflow.episodes.sandbox import Isolation, open_isolation
from dcpflow.episodes.session import Api, Session
from dcpflow.episodes.web import Access
from dcpflow.records.journal import Journal
from dcpflow.records.objects import ObjectStore

LIMITS: dict[str, Any] = {
    "experiments": 4,
    "candidates": 2,
    "wall_seconds": 20,
    "experiment_seconds": 5,
    "reply_delay_ms": 0,
    "message_bytes": 65_536,
    "candidate_bytes": 16_384,
    "output_bytes": 1 << 20,
    "bad_messages": 8,
    "memory_mb": 512,
    # agents of different tests can be the same user
    "processes": 1024,
    "cpu_seconds": 60,
    "open_files": 256,
    "workspace_mb": 64,
    "workspace_files": 1000,
}
HELLO = {"type": "hello", "version": 1}
PREAMBLE = """\
import json, os, signal, socket, sys, time

def read():
    return json.loads(sys.stdin.buffer.readline())

def send(action, **fields):
    sys.stdout.buffer.write(json.dumps({"id": 1, "action": action, **fields}).encode() + b"\\n")
    sys.stdout.buffer.flush()

def ask(action, **fields):
    send(action, **fields)
    return read()

def commit(value="plan"):
    return ask("commit", candidate=value if isinstance(value, str) else json.dumps(value))

"""


@dataclass(frozen=True)
class Talk:
    """A conversation that has ended.

    Attributes:
        channel: all that was said.
        ending: how the agent ended.
        seconds: how long it took.
        spec: what was started.
    """

    channel: Channel
    ending: Ending
    seconds: float
    spec: LaunchSpec

    @property
    def reported(self) -> Any:
        """What the agent committed first, as JSON."""
        assert self.channel.candidates, (self.ending, self.channel.transcript[-2:])
        return json.loads(self.channel.candidates[0])


@pytest.fixture
def limits() -> dict[str, Any]:
    """The limits under which agents of these tests run."""
    return dict(LIMITS)


@pytest.fixture
def still_running() -> Callable[..., list[int]]:
    """``still_running(spec, seconds)``: processes that run an agent's file after this time."""
    return running


@pytest.fixture
def write_agent(tmp_path: Path) -> Callable[[str], LaunchSpec]:
    """Writes an agent: the body of a Python program, with ``read``, ``send``, ``ask`` and ``commit`` at hand."""

    def write(body: str) -> LaunchSpec:
        path = tmp_path / f"agent_{os.urandom(6).hex()}.py"
        path.write_text(PREAMBLE + textwrap.dedent(body), encoding="utf-8")
        return python_command(path)

    return write


@pytest.fixture
def isolate(backend: str) -> Callable[[str, LaunchSpec], Isolation]:
    """Opens an isolation of the named kind for an agent; skips where there is no sandbox on this machine."""

    def isolate(kind: str, spec: LaunchSpec) -> Isolation:
        if kind == "bubblewrap" and backend == "none":
            pytest.skip("no bubblewrap works on this machine")
        return open_isolation(kind, (spec,), works=lambda _: True)

    return isolate


@pytest.fixture
def talk(
    write_agent: Callable[[str], LaunchSpec],
    isolate: Callable[[str, LaunchSpec], Isolation],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[..., Talk]]:
    """Lets an agent talk until it ends; keyword arguments are limits, ``kind`` is how it is isolated. One that is to
    reach the wall limit ``after`` so many commits gets all the time that it takes to these.

    Whatever the agent was, nothing of it may be left running: that is checked at the end of each such test.
    """
    started: list[Talk] = []

    def run(
        body: str,
        kind: str = "bubblewrap",
        policy: Callable[[str], dict[str, Any]] = lambda _: {"total": "1.000000"},
        hello: dict[str, Any] = HELLO,
        heartbeat: Callable[[], None] = lambda: None,
        web: Access | None = None,
        after: int = 0,
        **limits: float,
    ) -> Talk:
        spec = write_agent(body)
        isolation = isolate(kind, spec)
        channel = Channel(policy, LIMITS | limits, web)
        if after:
            clock = SimpleNamespace(monotonic=Hastening(channel, after), sleep=time.sleep)
            monkeypatch.setattr(runner, "time", clock)
        began = time.monotonic()
        ending = converse(isolation, spec, LIMITS | limits, channel, hello, heartbeat)
        started.append(Talk(channel, ending, time.monotonic() - began, spec))
        return started[-1]

    yield run
    for one in started:
        assert running(one.spec) == [], "the agent, or something that it started, is still running"


class Hastening:
    """A clock that leaps by an hour a moment after so many commits were heard, however long these took."""

    def __init__(self, channel: Channel, commits: int, moment: float = 0.3) -> None:
        self._channel, self._commits, self._moment = channel, commits, moment
        self._heard = math.inf

    def __call__(self) -> float:
        now = time.monotonic()
        if len(self._channel.candidates) >= self._commits:
            self._heard = min(self._heard, now)
        return now + 3600 * (now - self._heard >= self._moment)


def running(spec: LaunchSpec, seconds: float = 2.0) -> list[int]:
    """Processes that run the agent's file after this time; zombies run nothing."""
    (source,) = spec.files.values()
    deadline = time.monotonic() + seconds
    while True:
        found = []
        for folder in Path("/proc").iterdir():
            try:
                if folder.name.isdigit() and source.name.encode() in (folder / "cmdline").read_bytes():
                    found.append(int(folder.name))
            except OSError:
                continue
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.02)


# --- agents with doors -------------------------------------------------------------------------------------

ASKING = """\
import http.client, urllib.parse
door = urllib.parse.urlsplit(sys.argv[1])

def call(path="/chat/completions", body=None, method="POST", headers={}, raw=None):
    connection = http.client.HTTPConnection(door.hostname, door.port, timeout=30)
    sent = raw if raw is not None else json.dumps(body or {"model": "model-1", "messages": []}).encode()
    connection.request(method, path, sent if method == "POST" else None, headers)
    answer = connection.getresponse()
    return [answer.status, dict(answer.getheaders()), answer.read().decode("utf-8", "replace")]

"""
MODEL_RULES: dict[str, Any] = {
    "api": "openai",
    "base_url": "",
    "accepted": [],
    "requested": None,
    "calls": 20,
    "call_seconds": 20.0,
    "episode_tokens": 100_000,
}


@dataclass(frozen=True)
class DoorTalk(Talk):
    """A conversation of an agent that had a door to its model.

    Attributes:
        folder: all that was written of it.
    """

    folder: Path

    @property
    def faults(self) -> list[str]:
        return [call.fault for call in self.ending.calls]


@pytest.fixture
def talk_with_model(
    write_agent: Callable[[str], LaunchSpec], isolate: Callable[[str, LaunchSpec], Isolation], tmp_path: Path
) -> Iterator[Callable[..., DoorTalk]]:
    """Lets an agent talk that has a door to the model: ``call`` asks it. Keyword arguments are as those of ``talk``;
    ``model`` holds keys of ``agent.model``, ``api`` those of its key and prices.
    """
    started: list[DoorTalk] = []

    def run(
        body: str,
        base_url: str,
        kind: str = "bubblewrap",
        model: dict[str, Any] | None = None,
        api: Api | None = None,
        environment: dict[str, str] | None = None,
        policy: Callable[[str], dict[str, Any]] = lambda _: {"total": "1.000000"},
        **limits: float,
    ) -> DoorTalk:
        plain = write_agent(ASKING + textwrap.dedent(body))
        files = {**plain.files, **door_files((MODEL,))}
        spec = LaunchSpec((*plain.arguments, "{model}"), files, environment or {}, (MODEL,))
        isolation = isolate(kind, spec)
        channel = Channel(policy, LIMITS | limits)
        folder = tmp_path / f"attempt-{sum(1 for _ in tmp_path.glob('attempt-*'))}"
        folder.mkdir()
        session = Session(
            lambda: None,
            Journal(folder, 1),
            ObjectStore(folder / "objects"),
            "0" * 64,
            "model-1",
            MODEL_RULES | {"base_url": base_url} | (model or {}),
            api or Api(key=KEY, requests_per_minute=60_000),
        )
        began = time.monotonic()
        ending = converse_with_doors(session, isolation, spec, LIMITS | limits, channel, HELLO)
        started.append(DoorTalk(channel, ending, time.monotonic() - began, plain, folder))
        return started[-1]

    yield run
    for one in started:
        assert running(one.spec) == [], "the agent, or something that it started, is still running"
