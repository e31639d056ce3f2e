"""How a model behind an API is asked for its next answer: within the registered limits and what it may cost.

Every try of a call is noted in the attempt's journal before its answer is acted on. A killed attempt is gone through
again with the answers of the journal in place of the API, each held against the request that it answered, and then goes
on: nothing that was paid for is asked for twice.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from dcpflow.episodes.apis import Answer, Form, Message, Unreadable
from dcpflow.episodes.channel import Channel
from dcpflow.episodes.provider import MAX_BYTES, Provider
from dcpflow.episodes.session import Session
from dcpflow.episodes.timing import Allotted
from dcpflow.errors import EvidenceError, UsageError
from dcpflow.records import canonical
from dcpflow.records.calls import Call, call_of, fault_of, foreign, of_the_account

FIRST_WAIT_SECONDS: Final = 1.0
LONGEST_WAIT_SECONDS: Final = 60.0
ERROR_KEPT: Final = 1_000
MALFORMED: Final = "malformed"
WAITED_OUT: Final = frozenset({"rate_limited", "server_error"})
"""Faults after which the same is asked again later."""

_JOURNAL: Final = "the attempt's journal"


class CannotGoOn(Exception):
    """The journal holds an answer to another request than the one that is made now."""


@dataclass(frozen=True, slots=True)
class _Tried:
    """One try.

    Attributes:
        call: as it is recorded.
        answer: of the model, if it can be acted on.
        retry_after: how long to wait before the next, where the API says so.
        of_the_account: whether it failed for a reason that is the account's.
    """

    call: Call
    answer: Answer | None = None
    retry_after: float | None = None
    of_the_account: bool = False


class Asking:
    """The calls of one attempt.

    Args:
        session: the attempt.
        form: of the API.
        channel: cut off where a registered limit is reached.
        time: that the episode has.

    Attributes:
        calls: so far, those of earlier processes too.
        error: what the API said with the last call that failed, without the key.
    """

    def __init__(self, session: Session, form: Form, channel: Channel, time: Allotted) -> None:
        assert session.model is not None
        self._session, self._model, self._api = session, session.model, session.api
        self._form, self._channel, self._time = form, channel, time
        self._earlier = deque(entry for entry in session.journal.earlier if "call" in entry)
        self._provider: Provider | None = None
        self._size = 0
        self.calls: list[Call] = []
        self.error = ""

    @property
    def recalls(self) -> bool:
        """Whether the next answer comes from the journal: what lies before it has happened already."""
        return bool(self._earlier)

    @property
    def turn(self) -> int:
        """Number of the last answer that could be acted on, from 1."""
        return sum(not call.fault for call in self.calls)

    def all_calls(self) -> tuple[Call, ...]:
        """The calls so far, and those that the journal holds beyond them."""
        return (*self.calls, *(call_of(entry["call"], _JOURNAL) for entry in self._earlier))

    def answer(self, messages: Sequence[Message]) -> Answer | None:
        """The model's next answer; None if there is none to act on, and the conversation is over.

        Args:
            messages: the conversation.

        Raises:
            CannotGoOn: the journal is of another conversation.
            UsageError: the account, or what an episode may cost, does not allow another call.
            EvidenceError: the journal names an answer that is gone.
        """
        waits = unread = 0
        while True:
            body = self._form.body(messages, self._seed())
            sent = canonical.encode(body)
            recalled = self.recalls
            if not self._may_ask(len(sent)):
                return None
            tried = (self._recall if recalled else self._ask)(body, canonical.digest(sent))
            call = tried.call
            self.calls.append(call)
            if tried.answer is not None:
                self._size = len(sent)
                return None if foreign([call], self._model, self._session.model_id) else tried.answer
            if tried.of_the_account:
                if not recalled:
                    raise UsageError(
                        f"the API of the model refuses all calls: {self.error:.200}",
                        "Check the key and the account, and run snakemake again: the episode goes on where it stopped",
                    )
            elif call.fault in WAITED_OUT:
                waits += 1
                if not self._rest(self._backoff(waits, tried.retry_after)):
                    return None
            elif call.fault == MALFORMED and not unread:
                unread += 1
            else:
                if call.fault == "timeout" and self._time.left <= 0:
                    self._channel.cut_off("wall_seconds")
                return None

    @property
    def _answered(self) -> int:
        """Calls that came to an answer of the model's, if only to one that nobody understands."""
        return sum(call.fault in ("", MALFORMED) for call in self.calls)

    def _seed(self) -> int:
        """Sampling seed of the next answer: another one for each, drawn from the episode's own."""
        drawn = hashlib.sha256(f"{self._session.seed} {self._answered}".encode()).digest()
        return int.from_bytes(drawn[:4], "big") >> 1

    # --- limits -------------------------------------------------------------------------------------------

    def _may_ask(self, size: int) -> bool:
        """Whether a call may begin, with a request of so many bytes; waits for its turn.

        Raises:
            UsageError: the registered limits allow it, but what an episode may cost does not.
        """
        if self._answered >= self._model["calls"]:
            self._channel.cut_off("model_calls")
        elif sum(call.tokens for call in self.calls) >= self._model["episode_tokens"]:
            self._channel.cut_off("episode_tokens")
        elif self._time.left <= 0:
            self._channel.cut_off("wall_seconds")
        elif not self.recalls:
            self._check_cost(size)
            return self._rest(self._api.pace.wait(self._time.now, self._api.requests_per_minute))
        return not self._channel.finished

    def _check_cost(self, size: int) -> None:
        if self._api.max_usd is None:
            return
        # the last request and the answer to it are read again; of what is new, no token is less than a byte
        last = next((call for call in reversed(self.calls) if not call.fault), None)
        read = last.tokens + max(0, size - self._size) if last else size
        worst = self._api.prices.of_call(Call("", 0, "", "", read, 0, self._model["answer_tokens"], ""))
        spent = self._session.spent(self.calls)
        if spent + worst > self._api.max_usd:
            raise UsageError(
                f"an episode has cost {spent:.4f} USD, and its next call may cost {worst:.4f} USD: together more than "
                f"the {self._api.max_usd:g} USD of budget.max_usd_per_episode",
                "Raise budget.max_usd_per_episode and run snakemake again: what was paid for is kept, and the episode "
                "goes on where it stopped",
            )

    def _rest(self, seconds: float) -> bool:
        """Wait, if there is as much time left; else the episode is over. What has passed already is not waited for."""
        if self.recalls:
            return True
        if seconds >= self._time.left:
            self._channel.cut_off("wall_seconds")
            return False
        self._time.pause(seconds)
        return True

    def _backoff(self, waits: int, retry_after: float | None) -> float:
        """Seconds until the same is asked again: as the API says, else longer each time, with a drawn part."""
        longest = min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2.0 ** min(waits - 1, 16))
        drawn = hashlib.sha256(f"{self._session.seed} wait {len(self.calls)}".encode()).digest()
        return max(longest * (0.5 + drawn[0] / 512), retry_after or 0.0)

    # --- one try ------------------------------------------------------------------------------------------

    def _ask(self, body: Mapping[str, Any], request: str) -> _Tried:
        """Ask the API once, and note what came of it."""
        self._provider = self._provider or Provider(self._model, self._api.key, self._session.heartbeat)
        self._api.pace.last = self._time.now
        heard = self._provider.ask(body, min(self._model["call_seconds"], self._time.left))
        data = self._without_key(heard.body) if len(heard.body) <= MAX_BYTES else b""
        if data:
            self._session.objects.put(data)
        tried = self._read(request, heard.status, heard.fault or fault_of(heard.status), data, heard.retry_after)
        noted = {"call": asdict(tried.call), "seconds": self._time.spent, "retry_after": heard.retry_after}
        self._session.journal.add(noted)
        if tried.call.fault:
            said = heard.error or data[:ERROR_KEPT].decode("utf-8", "replace")
            self.error = self._api.redacted(f"{tried.call.fault}, HTTP status {heard.status}: {said}")
        return tried

    def _recall(self, body: Mapping[str, Any], request: str) -> _Tried:
        """What came of the same request before the attempt was taken over."""
        entry = self._earlier[0]
        call = call_of(entry["call"], _JOURNAL)
        data = self._session.objects.get(call.response, "an answer of the model") if call.response else b""
        fault = "" if call.fault == MALFORMED else call.fault
        tried = self._read(request, call.status, fault, data, entry["retry_after"])
        if tried.call != call:
            raise CannotGoOn
        self._earlier.popleft()
        self._time.set_spent(entry["seconds"])
        return tried

    def _read(self, request: str, status: int, fault: str, data: bytes, retry_after: float | None) -> _Tried:
        """A try by what came back of it; a function of that alone."""
        response = canonical.digest(data) if data else ""
        if not fault:
            try:
                answer = self._form.read(canonical.decode(data, "an answer of the model"), len(self.calls) + 1)
            except (EvidenceError, Unreadable):
                fault = MALFORMED
            else:
                counts = (answer.input_tokens, answer.cached_tokens, answer.output_tokens)
                return _Tried(Call(request, status, "", answer.model, *counts, response), answer)
        account = of_the_account(status, data)
        return _Tried(Call(request, status, fault, "", 0, 0, 0, response), None, retry_after, account)

    def _without_key(self, body: bytes) -> bytes:
        """What the API has sent; if that holds the key, in whichever spelling, the same JSON or text without it."""
        try:
            plain = canonical.encode(canonical.decode(body, "an answer of the model"))
        except EvidenceError:
            plain = body
        text = plain.decode("utf-8", "replace")
        redacted = self._api.redacted(text)
        return body if redacted == text else redacted.encode()
