"""A small channel, a played API and a clock that does not wait: what tests of chat models share."""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dcpflow.episodes.channel import Channel
from dcpflow.episodes.chat import chat
from dcpflow.episodes.runner import Ending
from dcpflow.episodes.session import Api, Session
from dcpflow.episodes.timing import Clock
from dcpflow.records import canonical
from dcpflow.records.calls import Prices
from dcpflow.records.journal import Journal
from dcpflow.records.objects import ObjectStore

from .model_server import MODEL, Played, Server, playing

KEY = "canary-key-0123456789"
SEED = "5e" * 32
LIMITS: dict[str, Any] = {
    "experiments": 3,
    "candidates": 1,
    "wall_seconds": 1_000.0,
    "message_bytes": 65_536,
    "candidate_bytes": 1_000,
    "bad_messages": 4,
    "output_bytes": 1_000_000,
    "reply_delay_ms": 0,
}
_TEXT = {"type": "string"}
HELLO: dict[str, Any] = {
    "type": "hello",
    "version": 1,
    "K": "Find the word.",
    "E0": {"letters": ["a", "b"], "quote": ["canary.txt"]},
    "files": {"canary.txt": 'quote "me"\n'},
    "history": [],
    "budgets": {"experiments": 3, "candidates": 1},
    "actions": {
        "experiment": {
            "type": "object",
            "properties": {"candidate": _TEXT | {"description": "a word"}},
            "required": ["candidate"],
        },
        "commit": {
            "type": "object",
            "properties": {"candidate": _TEXT | {"description": "a word"}, "quotes": {"type": "object"}},
            "required": ["candidate"],
        },
    },
    "seed": SEED,
}
MODEL_PART: dict[str, Any] = {
    "api": "openai",
    "base_url": "",
    "requested": None,
    "accepted": [],
    "calls": 20,
    "call_seconds": 10.0,
    "episode_tokens": 1_000_000,
    "answer_tokens": 100,
    "temperature": 0.5,
    "tools": "native",
    "system_prompt": "You search for words.",
    "requests_per_minute": 1_000_000,
}
EXPERIMENT = ("experiment", {"candidate": "ab"})
COMMIT = ("commit", {"candidate": "ba", "quotes": HELLO["files"]})
FINISH = ("finish", {})


class FakeClock:
    """Time that goes on by what is slept alone, and at once."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def now(self) -> float:
        return sum(self.slept)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


class RealClock(FakeClock):
    """Time that goes on by itself, and by what is slept."""

    def now(self) -> float:
        return time.monotonic() + super().now()


@dataclass
class Conversation:
    """What a conversation came to.

    Attributes:
        ending: as it was returned.
        channel: with all that was said.
        server: with all that was asked.
        slept: seconds that were waited, one after the other.
    """

    ending: Ending
    channel: Channel
    server: Server
    slept: list[float]

    @property
    def faults(self) -> list[str]:
        return [call.fault for call in self.ending.calls]

    @property
    def said(self) -> list[Any]:
        """The lines of the model, as they were heard."""
        return [json.loads(entry["line"]) for entry in self.channel.transcript if entry["from"] == "agent"]

    @property
    def replies(self) -> list[Any]:
        return [json.loads(entry["line"]) for entry in self.channel.transcript[1:] if entry["from"] == "harness"]


@dataclass
class World:
    """An attempt that can be taken over: each conversation has the journals of those before.

    Attributes:
        folder: of the attempt.
        api: what is not registered.
        beats: how often the job has shown that it lives.
        times: processes that have held the attempt.
        seed: the episode's own draw.
    """

    folder: Path
    api: Api = field(default_factory=lambda: Api(key=KEY, requests_per_minute=math.inf))
    beats: int = 0
    times: int = 0
    seed: str = SEED

    def beat(self) -> None:
        self.beats += 1

    def session(self, server: Server, **model: Any) -> Session:
        self.times += 1
        return Session(
            heartbeat=self.beat,
            journal=Journal(self.folder, self.times),
            objects=ObjectStore(self.folder / "objects"),
            seed=self.seed,
            model_id=MODEL,
            model=MODEL_PART | {"base_url": server.base_url} | model,
            api=self.api,
        )

    def play(
        self,
        *script: Played,
        limits: dict[str, Any] | None = None,
        channel: Channel | None = None,
        clock: FakeClock | None = None,
        hello: dict[str, Any] | None = None,
        **model: Any,
    ) -> Conversation:
        """One conversation, in which the API answers as written."""
        held = LIMITS | (limits or {})
        channel, clock = channel or Channel(measured, held), clock or FakeClock()
        with playing(*script) as server:
            session = self.session(server, **model)
            ending = chat(session, held, channel, hello or HELLO, Clock(clock.now, clock.sleep))
        return Conversation(ending, channel, server, clock.slept)

    def priced(self, **prices: Any) -> None:
        """What a million tokens cost, and ``max_usd``."""
        most = prices.pop("max_usd")
        self.api = replace(self.api, prices=Prices(**prices), max_usd=most)

    def bytes_on_disk(self) -> bytes:
        return b"".join(path.read_bytes() for path in sorted(self.folder.rglob("*")) if path.is_file())


def measured(candidate: str) -> dict[str, Any]:
    """The arm's policy."""
    return {"value": str(len(candidate))}


def record_of(played: Conversation) -> bytes:
    """All of a conversation that enters a record."""
    channel, ending = played.channel, played.ending
    calls = [[call.request, call.fault, call.model, call.tokens, call.response] for call in ending.calls]
    texts = [candidate.decode() for candidate in channel.candidates]
    return canonical.encode([channel.transcript, channel.usage, channel.limits_hit, texts, calls])
