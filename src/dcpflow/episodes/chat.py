"""A plain loop around a model behind an API: it is asked, it acts by the channel, it is told the replies.

Every try of a call is noted in the attempt's journal before its answer is acted on. A killed attempt is gone through
again with the answers of the journal in place of the API, each held against the request that it answered, and then goes
on: nothing that was paid for is asked for twice.
"""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from dcpflow.agents import dialogue
from dcpflow.episodes.apis import Answer, Message, Unreadable, form_of
from dcpflow.episodes.channel import Channel
from dcpflow.episodes.provider import MAX_BYTES, Provider
from dcpflow.episodes.runner import HEARTBEAT_SECONDS, STDERR_KEPT, Ending
from dcpflow.episodes.session import Session
from dcpflow.errors import EvidenceError, UsageError
from dcpflow.records import canonical
from dcpflow.records.calls import Call, call_of, foreign

FIRST_WAIT_SECONDS: Final = 1.0
LONGEST_WAIT_SECONDS: Final = 60.0
MALFORMED: Final = "malformed"
WAITED_OUT: Final = frozenset({"rate_limited", "server_error"})
"""Faults after which the same is asked again later."""

OF_THE_ACCOUNT: Final = frozenset({401, 402})
"""Answers that say nothing of the episode: the key is not known, or there is no money left."""


@dataclass(frozen=True)
class Clock:
    """Time as the loop needs it.

    Attributes:
        now: seconds; never goes back.
        sleep: waits for some seconds.
    """

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


def chat(
    session: Session,
    limits: Mapping[str, float],
    channel: Channel,
    first: Mapping[str, Any],
    clock: Clock | None = None,
) -> Ending:
    """Have a model work on an episode until it finishes, stops acting, fails, or reaches a limit.

    Args:
        session: the attempt.
        limits: the registered limits.
        channel: the conversation's state; holds all that was said when this returns.
        first: the channel's first message.
        clock: the time.

    Raises:
        UsageError: it cannot go on before the user has done something: raised the budget, given a key, installed the
            API's client. The journal keeps all that was said.
        EvidenceError: the journal names an answer that is gone.
    """
    return _Chat(session, limits, channel, first, clock or Clock()).run()


@dataclass(frozen=True, slots=True)
class _Tried:
    """A call, what was answered if it can be acted on, and how long to wait before the next where the API says so."""

    call: Call
    answer: Answer | None = None
    retry_after: float | None = None


class _CannotGoOn(Exception):
    """The journal holds an answer to another request than the one that is made now."""


class _Chat:
    """One conversation with a model."""

    def __init__(
        self, session: Session, limits: Mapping[str, float], channel: Channel, first: Mapping[str, Any], clock: Clock
    ) -> None:
        assert session.model is not None
        self._session, self._model = session, session.model
        self._limits, self._channel, self._first, self._clock = limits, channel, first, clock
        self._form = form_of(session.model, session.model_id, first)
        self._native = session.model["tools"] == "native"
        self._provider: Provider | None = None
        self._earlier = deque(entry for entry in session.journal.earlier if "call" in entry)
        self._calls: list[Call] = []
        self._sent = 0
        self._began = clock.now()
        self._late = 0
        self._error = ""

    def run(self) -> Ending:
        """The whole conversation."""
        self._channel.say(self._first)
        try:
            self._converse()
        except _CannotGoOn:
            calls = [call_of(entry["call"], "the attempt's journal") for entry in self._earlier]
            return self._ending(self._calls + calls, interrupted=True)
        return self._ending(self._calls)

    def _ending(self, calls: list[Call], interrupted: bool = False) -> Ending:
        error = self._error.encode("utf-8", "replace")[:STDERR_KEPT]
        return Ending(True, False, None, error, self._late, calls=tuple(calls), interrupted=interrupted)

    def _converse(self) -> None:
        opening = dialogue.prompt(self._first) if self._native else dialogue.json_prompt(self._first)
        messages: list[Message] = [self._form.told(opening)]
        idle = False
        while answer := self._answer(messages):
            replies = self._carry_out(answer)
            if self._channel.finished or (idle and not replies):
                return
            idle = not replies
            messages += [answer.message, *(replies or [self._form.told(self._reminder)])]

    @property
    def _reminder(self) -> str:
        return dialogue.REMINDER if self._native else dialogue.JSON_REMINDER

    # --- acting -------------------------------------------------------------------------------------------

    def _carry_out(self, answer: Answer) -> list[Message]:
        """What the model is told of each of its actions; nothing if it has not acted, or the conversation is over."""
        turn = f"t{sum(not call.fault for call in self._calls)}"
        if not self._native:
            if not answer.text.strip():
                return []
            reply = self._hear(dialogue.answer_line(f"{turn}.1", answer.text))
            return [self._form.told(reply)] if reply else []
        told = []
        for number, use in enumerate(answer.uses, 1):
            line = dialogue.call_line if isinstance(use.arguments, str) else dialogue.request_line
            if not (reply := self._hear(line(f"{turn}.{number}", use.name, use.arguments))):
                return []
            told.append((use, reply))
        return self._form.results(told) if told else []

    def _hear(self, line: bytes) -> str:
        """The channel's reply as a text; empty if there is nobody left to be told."""
        if self._time_is_up():
            return ""
        if len(line) > self._limits["message_bytes"]:
            self._channel.overlong(line)
            return ""
        if self._channel.usage["bytes"] + len(line) > self._limits["output_bytes"]:
            self._channel.cut_off("output_bytes")
            return ""
        asked = self._clock.now()
        reply, is_experiment = self._channel.hear(line)
        if is_experiment and not self._earlier:
            self._pause(self._delayed(asked) - self._clock.now())
        return "" if self._channel.finished else dialogue.reply_text(reply)

    def _delayed(self, asked: float) -> float:
        """When an experiment's reply leaves: as for any agent, at the next multiple of the registered time."""
        step = self._limits["reply_delay_ms"] / 1000
        if not step:
            return asked
        steps = int((self._clock.now() - asked) / step) + 1
        self._late += steps > 1
        return asked + steps * step

    # --- asking -------------------------------------------------------------------------------------------

    def _answer(self, messages: list[Message]) -> Answer | None:
        """The model's next answer; None if there is none to act on, and the conversation is over.

        Raises:
            UsageError: the account, or what an episode may cost, does not allow another call.
        """
        api, waits, unread = self._session.api, 0, 0
        while True:
            body = self._form.body(messages, self._seed())
            sent = canonical.encode(body)
            if not self._may_ask(len(sent)):
                return None
            fresh = not self._earlier
            if fresh and not self._rest(api.pace.wait(self._clock.now(), api.requests_per_minute)):
                return None
            tried = self._ask(body, canonical.digest(sent)) if fresh else self._recall(canonical.digest(sent))
            call, answer = tried.call, tried.answer
            self._calls.append(call)
            if answer is not None:
                self._sent = len(sent)
                return None if foreign([call], self._model, self._session.model_id) else answer
            if call.fault in WAITED_OUT:
                waits += 1
                if not self._rest(self._backoff(waits, tried.retry_after)):
                    return None
            elif call.fault == MALFORMED and not unread:
                unread += 1
            elif call.status in OF_THE_ACCOUNT:
                if fresh:
                    raise UsageError(
                        f"the API of the model refuses all calls: {self._error:.200}",
                        "Check the key and the account, and run snakemake again: the episode goes on where it stopped",
                    )
            else:
                if call.fault == "timeout":
                    self._time_is_up()  # the episode's end may have cut it short
                return None

    @property
    def _answered(self) -> int:
        """Calls that came to an answer of the model's, if only to one that nobody understands."""
        return sum(call.fault in ("", MALFORMED) for call in self._calls)

    def _seed(self) -> int:
        """Sampling seed of the next answer: another one for each, drawn from the episode's own."""
        drawn = hashlib.sha256(f"{self._session.seed} {self._answered}".encode()).digest()
        return int.from_bytes(drawn[:4], "big") >> 1

    def _may_ask(self, size: int) -> bool:
        """Whether the registered limits allow a call with a request of so many bytes.

        Raises:
            UsageError: they do, but what an episode may cost does not.
        """
        if self._time_is_up():
            return False
        if self._answered >= self._model["calls"]:
            self._channel.cut_off("model_calls")
            return False
        if sum(call.tokens for call in self._calls) >= self._model["episode_tokens"]:
            self._channel.cut_off("episode_tokens")
            return False
        if not self._earlier:
            self._check_cost(size)
        return True

    def _check_cost(self, size: int) -> None:
        api = self._session.api
        if api.max_usd is None:
            return
        # the last request and the answer to it are read again; of what is new, no token is less than a byte
        last = next((call for call in reversed(self._calls) if not call.fault), None)
        read = last.tokens + max(0, size - self._sent) if last else size
        worst = api.prices.of_call(Call("", 0, "", "", read, 0, self._model["answer_tokens"], ""))
        spent = self._session.spent(self._calls)
        if spent + worst > api.max_usd:
            raise UsageError(
                f"an episode has cost {spent:.4f} USD, and its next call may cost {worst:.4f} USD: together more than "
                f"the {api.max_usd:g} USD of budget.max_usd_per_episode",
                "Raise budget.max_usd_per_episode and run snakemake again: what was paid for is kept, and the episode "
                "goes on where it stopped",
            )

    def _ask(self, body: Mapping[str, Any], request: str) -> _Tried:
        """Ask the API once, and note what came of it."""
        api = self._session.api
        self._provider = self._provider or Provider(self._model, api.key, self._session.heartbeat)
        api.pace.last = self._clock.now()
        heard = self._provider.ask(body, min(self._model["call_seconds"], self._deadline - api.pace.last))
        data = self._without_key(heard.body) if len(heard.body) <= MAX_BYTES else b""
        if data:
            self._session.objects.put(data)
        tried = self._read(request, heard.status, heard.fault or _fault_of(heard.status), data, heard.retry_after)
        seconds = self._clock.now() - self._began
        self._session.journal.add({"call": asdict(tried.call), "seconds": seconds, "retry_after": heard.retry_after})
        if tried.call.fault:
            said = heard.error or data[:STDERR_KEPT].decode("utf-8", "replace")
            self._error = api.redacted(f"{tried.call.fault}, HTTP status {heard.status}: {said}")
        return tried

    def _recall(self, request: str) -> _Tried:
        """What came of the same request before the attempt was taken over.

        Raises:
            _CannotGoOn: another one was made then, or its answer is read otherwise now.
        """
        entry = self._earlier[0]
        call = call_of(entry["call"], "the attempt's journal")
        data = self._session.objects.get(call.response, "an answer of the model") if call.response else b""
        fault = "" if call.fault == MALFORMED else call.fault
        tried = self._read(request, call.status, fault, data, entry["retry_after"])
        if tried.call != call:
            raise _CannotGoOn
        self._earlier.popleft()
        self._began = self._clock.now() - entry["seconds"]
        return tried

    def _read(self, request: str, status: int, fault: str, data: bytes, retry_after: float | None) -> _Tried:
        """A try by what came back of it; a function of that alone."""
        response = canonical.digest(data) if data else ""
        if not fault:
            try:
                answer = self._form.read(canonical.decode(data, "an answer of the model"), len(self._calls) + 1)
            except (EvidenceError, Unreadable):
                fault = MALFORMED
            else:
                counts = (answer.input_tokens, answer.cached_tokens, answer.output_tokens)
                return _Tried(Call(request, status, "", answer.model, *counts, response), answer)
        return _Tried(Call(request, status, fault, "", 0, 0, 0, response), None, retry_after)

    def _without_key(self, body: bytes) -> bytes:
        """What the API has sent; if that holds the key, in whichever spelling, the same JSON or text without it."""
        try:
            plain = canonical.encode(canonical.decode(body, ""))
        except EvidenceError:
            plain = body
        text = plain.decode("utf-8", "replace")
        redacted = self._session.api.redacted(text)
        return body if redacted == text else redacted.encode()

    # --- time ---------------------------------------------------------------------------------------------

    @property
    def _deadline(self) -> float:
        return self._began + self._limits["wall_seconds"]

    def _time_is_up(self) -> bool:
        """Whether the episode has reached its end; ends it then."""
        if self._clock.now() < self._deadline:
            return False
        self._channel.cut_off("wall_seconds")
        return True

    def _backoff(self, waits: int, retry_after: float | None) -> float:
        """Seconds until the same is asked again: as the API says, else longer each time, with a drawn part."""
        longest = min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2.0 ** min(waits - 1, 16))
        drawn = hashlib.sha256(f"{self._session.seed} wait {len(self._calls)}".encode()).digest()
        backoff = longest * (0.5 + drawn[0] / 512)
        return max(backoff, retry_after or 0.0)

    def _rest(self, seconds: float) -> bool:
        """Wait, if there is as much time left; else the episode is over. What lies in the past is not waited for."""
        if self._earlier:
            return True
        if self._clock.now() + seconds >= self._deadline:
            self._channel.cut_off("wall_seconds")
            return False
        self._pause(seconds)
        return True

    def _pause(self, seconds: float) -> None:
        until = self._clock.now() + seconds
        self._session.heartbeat()
        while (left := until - self._clock.now()) > 0:
            self._clock.sleep(min(left, HEARTBEAT_SECONDS))
            self._session.heartbeat()


def _fault_of(status: int) -> str:
    """What an answer's status says of the call."""
    if 200 <= status < 300:
        return ""
    if status == 429:
        return "rate_limited"
    return "server_error" if status >= 500 else "refused"
