"""The action channel, version 1: JSON lines between an agent and the harness, every one recorded.

A pure state machine: it is fed lines and returns replies; processes, clocks and pipes are the runner's. What an agent
sends can be anything: whatever is not understood gets an error answer, is recorded, and costs at most this episode.

``messages/`` holds the JSON Schemas of all lines. What they reject is rejected here by hand, which a test holds equal:
the words of a refusal are part of the record and have to replay alike under any version of a library, and importing one
takes about as long as an episode of a small agent.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dcpflow.episodes.web import Access, recordable
from dcpflow.records import canonical, packet
from dcpflow.records.urls import UrlRefused
from dcpflow.tasks.base import CandidateInvalid
from dcpflow.tasks.evaluator import EvaluatorDied

VERSION = 1
ACTIONS = ("experiment", "commit", "finish")
MAX_ID = 64


class ActionRefused(Exception):
    """A request that cannot be carried out; answered with its code and message."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass
class Channel:
    """One conversation.

    Attributes:
        experiment: the arm's policy: a candidate to the reply's ``result``.
        limits: the registered limits.
        web: how fetches are answered; None where the Web is not offered.
        transcript: every line so far, as ``{"from", "line"}`` or, where it is not UTF-8, ``{"from", "base64"}``.
        candidates: committed candidates, in order.
        quotes: texts that the last commit quoted, by file name.
        usage: counts of experiments, commits, messages, bad_messages and bytes, and where the Web is offered of
            web_requests.
        limits_hit: registered limits that ended the conversation.
        finished: whether the agent has said that it is done, or was cut off.
        remember: called with each line that was heard, before it is acted on.
    """

    experiment: Callable[[str], dict[str, Any]]
    limits: Mapping[str, int]
    web: Access | None = None
    transcript: list[dict[str, str]] = field(default_factory=list)
    candidates: list[bytes] = field(default_factory=list)
    quotes: dict[str, bytes] = field(default_factory=dict)
    usage: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("experiments", "commits", "messages", "bad_messages", "bytes"), 0)
    )
    limits_hit: list[str] = field(default_factory=list)
    finished: bool = False
    remember: Callable[[bytes], None] = lambda _: None

    def __post_init__(self) -> None:
        if self.web is not None:
            self.usage[packet.BUDGET] = 0

    @property
    def actions(self) -> tuple[str, ...]:
        """What an agent may ask for."""
        return ACTIONS if self.web is None else (*ACTIONS, packet.ACTION)

    def say(self, message: Mapping[str, Any]) -> bytes:
        """Record a message of the harness and return its line."""
        line = canonical.encode(message)
        self.transcript.append({"from": "harness", "line": line.decode()})
        return line + b"\n"

    def hear(self, line: bytes) -> tuple[bytes, bool]:
        """Take one line of the agent, without its newline.

        Returns:
            The reply's line, and whether it answers an experiment (those are sent with the registered delay).
        """
        line = recordable(line)
        self.remember(line)
        self._record(line)
        self.usage["messages"] += 1
        identity: str | int | None = None
        is_experiment = False
        try:
            request = _read(line)
            identity = _identity(request)
            is_experiment = request.get("action") == "experiment"
            result = self._act(request)
        except ActionRefused as refusal:
            if refusal.code == "bad_message":
                self.usage["bad_messages"] += 1
                if self.usage["bad_messages"] >= self.limits["bad_messages"]:
                    self.cut_off("bad_messages")
            error = {"code": refusal.code, "message": str(refusal)}
            return self.say({"id": identity, "ok": False, "error": error}), is_experiment
        return self.say({"id": identity, "ok": True, **result}), is_experiment

    def cut_off(self, limit: str) -> None:
        """End the conversation because a registered limit was reached."""
        self.limits_hit.append(limit)
        self.finished = True

    def overlong(self, start: bytes) -> None:
        """End the conversation because a line is longer than registered; its beginning is recorded."""
        self._record(start[:MAX_ID])
        self.cut_off("message_bytes")

    def _act(self, request: dict[str, Any]) -> dict[str, Any]:
        match request.get("action"):
            case "experiment":
                return self._experiment(request)
            case "commit":
                return self._commit(request)
            case "finish":
                self.finished = True
                return {}
            case packet.ACTION if self.web is not None:
                return self._web_fetch(request, self.web)
            case other:
                names = ", ".join(self.actions)
                raise ActionRefused("bad_message", f"action must be one of {names}, not {str(other)[:MAX_ID]!r}")

    def _experiment(self, request: dict[str, Any]) -> dict[str, Any]:
        candidate = self._candidate(request)
        if self.usage["experiments"] >= self.limits["experiments"]:
            raise ActionRefused("budget", f"all {self.limits['experiments']} experiments are used")
        self.usage["experiments"] += 1
        try:
            return {"result": self.experiment(candidate.decode())}
        except CandidateInvalid as error:
            raise ActionRefused("invalid_candidate", str(error)) from None
        except EvaluatorDied as error:
            raise ActionRefused("invalid_candidate", f"the candidate could not be measured: {error}") from None

    def _web_fetch(self, request: dict[str, Any], web: Access) -> dict[str, Any]:
        """The reply's fields; of a fetch that failed, ``ok`` among them."""
        url = request.get("url")
        if not isinstance(url, str) or request.keys() != {"id", "action", "url"}:
            raise ActionRefused("bad_message", "a fetch has a url, a text, and no other field: no headers are sent")
        if self.usage[packet.BUDGET] >= web.rules["requests"]:
            raise ActionRefused("budget", f"all {web.rules['requests']} fetches are used")
        self.usage[packet.BUDGET] += 1
        try:
            return web.answer(packet.permitted(url, web.rules))
        except UrlRefused as refusal:
            raise ActionRefused("refused", str(refusal)) from None

    def _commit(self, request: dict[str, Any]) -> dict[str, Any]:
        candidate = self._candidate(request)
        if len(self.candidates) >= self.limits["candidates"]:
            raise ActionRefused("budget", f"all {self.limits['candidates']} candidates are committed")
        quotes = request.get("quotes", {})
        if not isinstance(quotes, dict) or not all(isinstance(text, str) for text in quotes.values()):
            raise ActionRefused("bad_message", "quotes must map file names to texts")
        encoded = {_utf8(name, "a quoted file's name"): _utf8(text, "a quoted text") for name, text in quotes.items()}
        self.usage["commits"] += 1
        self.candidates.append(candidate)
        self.quotes = {name.decode(): text for name, text in encoded.items()}
        return {}

    def _candidate(self, request: dict[str, Any]) -> bytes:
        candidate = request.get("candidate")
        if not isinstance(candidate, str):
            raise ActionRefused("bad_message", "candidate must be a text")
        data = _utf8(candidate, "the candidate")
        if len(data) > self.limits["candidate_bytes"]:
            raise ActionRefused("bad_message", f"the candidate is over {self.limits['candidate_bytes']} bytes")
        return data

    def _record(self, line: bytes) -> None:
        self.usage["bytes"] += len(line)
        try:
            self.transcript.append({"from": "agent", "line": line.decode("utf-8")})
        except UnicodeDecodeError:
            self.transcript.append({"from": "agent", "base64": base64.b64encode(line).decode()})


def _read(line: bytes) -> dict[str, Any]:
    try:
        request = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        raise ActionRefused("bad_message", "a message must be one line of JSON in UTF-8") from None
    if not isinstance(request, dict):
        raise ActionRefused("bad_message", "a message must be a JSON object")
    return request


def _identity(request: dict[str, Any]) -> str | int:
    identity = request.get("id")
    if isinstance(identity, str) and len(identity) <= MAX_ID:
        return _utf8(identity, "id").decode()
    # 7.0 is an integer for JSON
    if (type(identity) is int or (isinstance(identity, float) and identity.is_integer())) and abs(identity) < 1 << 53:
        return int(identity)
    raise ActionRefused("bad_message", f"id must be a text of at most {MAX_ID} characters or an integer")


def _utf8(text: str, what: str) -> bytes:
    """JSON can spell lone surrogates, which no encoding holds."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise ActionRefused("bad_message", f"{what} holds a lone surrogate") from None
