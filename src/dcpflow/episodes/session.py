"""What one attempt at an episode has at hand while it runs, whatever kind of agent it is an attempt of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dcpflow.errors import UsageError
from dcpflow.records.calls import Call, Prices
from dcpflow.records.journal import Journal
from dcpflow.records.objects import ObjectStore


@dataclass
class Pace:
    """Keeps the calls of one process apart.

    Attributes:
        last: when it called last, in seconds of a clock that never goes back; None before the first.
    """

    last: float | None = None

    def wait(self, now: float, per_minute: float) -> float:
        """Seconds until the next call may begin.

        Args:
            now: the time.
            per_minute: most calls of this process.
        """
        return 0.0 if self.last is None else max(0.0, self.last + 60 / per_minute - now)


SECRET = 8
"""Fewest characters of a key that is one; shorter ones are words that servers without keys are given."""


@dataclass(frozen=True)
class Api:
    """What is not registered of a model behind an API: what it costs, and what opens it.

    Attributes:
        key: the API key; empty where there is none. Stands in no file and in no message.
        prices: of a million tokens.
        max_usd: most that one episode may cost, or None.
        requests_per_minute: this job's share of the registered rate.
        pace: when this job has called last, in whichever episode.

    Raises:
        UsageError: the key is none that can be sent.
    """

    key: str = field(default="", repr=False)
    prices: Prices = field(default_factory=Prices)
    max_usd: float | None = None
    requests_per_minute: float = 600.0
    pace: Pace = field(default_factory=Pace, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.key.isascii() or not self.key.isprintable() or set(self.key) & set(' "\\'):
            raise UsageError(
                "the API key cannot be sent: it holds a blank, a line break, a quotation mark or a rare letter",
                "Set the environment variable that agent.model.key_variable names to the key alone",
            )

    def redacted(self, text: str) -> str:
        """Text of the provider's or the agent's, without the key."""
        return text.replace(self.key, "[key]") if len(self.key) >= SECRET else text

    def redacted_bytes(self, data: bytes) -> bytes:
        """The same of bytes."""
        return data.replace(self.key.encode(), b"[key]") if len(self.key) >= SECRET else data


@dataclass(frozen=True)
class Session:
    """One attempt.

    Attributes:
        heartbeat: to be called every few seconds while it runs.
        journal: what survives a kill.
        objects: the object store.
        seed: the episode's own draw, 64 hex digits.
        model_id: the registered ``agent.model_id``.
        model: the registered ``agent.model``; None for agents that ask none through us.
        api: the rest of what is needed to ask it.
    """

    heartbeat: Callable[[], None]
    journal: Journal
    objects: ObjectStore
    seed: str
    model_id: str = ""
    model: Mapping[str, Any] | None = None
    api: Api = field(default_factory=Api)

    def spent(self, calls: list[Call]) -> float:
        """What calls have cost, in USD."""
        return sum(self.api.prices.of_call(call) for call in calls)
