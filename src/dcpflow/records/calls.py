"""What an episode's calls to its model came to: who answered, with how many tokens, and what went wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from dcpflow.errors import EvidenceError
from dcpflow.records import canonical

TRANSPORT: Final = "transport"
FAULTS: Final = ("", TRANSPORT, "timeout", "rate_limited", "server_error", "refused", "malformed")
"""How a call can fail: no or half an answer; none in time; told to wait; a fault of the provider's; a call that it does
not carry out; an answer that is none."""


OF_THE_ACCOUNT: Final = frozenset({401, 402})
NO_MONEY: Final = b'"insufficient_quota"'
"""With 429, OpenAI's word for it: to wait does not help."""


def fault_of(status: int) -> str:
    """What the status of an HTTP answer says of a call; empty where it was carried out."""
    if 200 <= status < 300:
        return ""
    if status == 429:
        return "rate_limited"
    return "server_error" if status >= 500 else "refused"


def of_the_account(status: int, body: bytes) -> bool:
    """Whether an answer says nothing of the episode: the key is not known, or there is no money left.

    Args:
        status: of the HTTP answer.
        body: of it.
    """
    return status in OF_THE_ACCOUNT or (status == 429 and NO_MONEY in body)


@dataclass(frozen=True, slots=True)
class Call:
    """One request to the API of a model, tried once.

    Attributes:
        request: digest of the request's body, which holds no key.
        status: of the HTTP answer; 0 where there was none.
        fault: one of :data:`FAULTS`; empty where the call was answered.
        model: that the API says has answered; empty where it does not say.
        input_tokens: read, those from a cache of the provider included.
        cached_tokens: of these, read from a cache.
        output_tokens: written.
        response: digest of the answer's body, without secrets; empty where there was none.
    """

    request: str
    status: int
    fault: str
    model: str
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    response: str

    @property
    def tokens(self) -> int:
        """All tokens, read and written."""
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class Prices:
    """What a million tokens cost, in USD.

    Attributes:
        input_usd: read.
        cached_usd: read from a cache.
        output_usd: written.
    """

    input_usd: float = 0.0
    cached_usd: float = 0.0
    output_usd: float = 0.0

    @classmethod
    def of(cls, budget: Mapping[str, Any]) -> Prices:
        """The prices of a configured budget."""
        read, cached = float(budget["input_usd"]), budget["cached_usd"]
        return cls(read, read if cached is None else float(cached), float(budget["output_usd"]))

    def of_call(self, call: Call) -> float:
        """The cost of one call, in USD."""
        new = call.input_tokens - call.cached_tokens
        costs = new * self.input_usd + call.cached_tokens * self.cached_usd + call.output_tokens * self.output_usd
        return costs / 1_000_000


def encode(calls: Iterable[Call]) -> bytes:
    """Calls in the order in which they were made, one canonical line each."""
    return b"".join(canonical.encode(asdict(call)) + b"\n" for call in calls)


def decode(data: bytes, where: str) -> list[Call]:
    """Calls from their lines.

    Raises:
        EvidenceError: these are no such lines.
    """
    if data and not data.endswith(b"\n"):
        raise EvidenceError(f"{where}: does not end with a whole line")
    return [_call(line, f"{where}, line {number}") for number, line in enumerate(data.splitlines(), 1)]


def _call(line: bytes, where: str) -> Call:
    value = canonical.decode(line, where)
    if not isinstance(value, dict) or canonical.encode(value) != line:
        raise EvidenceError(f"{where}: is no call in canonical form")
    return call_of(value, where)


def call_of(value: Mapping[str, Any], where: str) -> Call:
    """A call from plain data.

    Raises:
        EvidenceError: it is none.
    """
    kinds = {field.name: {"str": str, "int": int}[str(field.type)] for field in fields(Call)}
    if value.keys() != kinds.keys() or any(type(value[name]) is not kind for name, kind in kinds.items()):
        raise EvidenceError(f"{where}: is no call: it must have {', '.join(kinds)}, each of its type")
    call = Call(**value)
    if (
        call.fault not in FAULTS
        or not 0 <= call.status < 1_000
        or not 0 <= call.cached_tokens <= call.input_tokens
        or call.output_tokens < 0
        or not canonical.is_digest(call.request)
        or not (call.response == "" or canonical.is_digest(call.response))
    ):
        raise EvidenceError(f"{where}: is no call that can have been made")
    return call


def foreign(calls: Iterable[Call], model: Mapping[str, Any], model_id: str) -> list[str]:
    """Models that have answered without being registered, each once, in order.

    A call that was answered without naming a model is answered by one called the empty text.

    Args:
        calls: an episode's calls.
        model: the registered ``agent.model``.
        model_id: the registered ``agent.model_id``, which is asked for where the model names no other.
    """
    accepted = {*model["accepted"]} or {model["requested"] or model_id}
    return list(dict.fromkeys(call.model for call in calls if not call.fault and call.model not in accepted))


def lost(calls: Sequence[Call]) -> bool:
    """Whether the last call was lost on the way: no answer came, or half of one."""
    return bool(calls) and calls[-1].fault == TRANSPORT
