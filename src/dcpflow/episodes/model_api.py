"""What passes between an agent and the API of its model: which requests may, and what an answer says of itself.

Pure functions, for APIs like OpenAI's (chat completions, completions, responses) and like Anthropic's (messages).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

VERSION: Final = "/v1"
CALLS: Final = {"openai": ("/chat/completions", "/completions", "/responses"), "anthropic": ("/messages",)}
"""Paths at which a model answers."""
COUNTS: Final = {"openai": ("/responses/input_tokens",), "anthropic": ("/messages/count_tokens",)}
"""Paths at which the tokens of a request are counted, and no model answers."""
LISTS: Final = re.compile(r"/models(/[A-Za-z0-9][\w.:-]*)?")
QUERY: Final = re.compile(r"(\?[\w.=&-]*)?")

AGENTS_TOOLS: Final = frozenset({"function", "custom", "namespace", "local_shell", "apply_patch"})
"""Kinds of tools that the agent carries out itself, and Anthropic's, of which each version has a name of its own."""
AGENTS_TOOL: Final = re.compile(r"(bash|text_editor|computer|memory)_\d+")
MORE_THAN_AN_ANSWER: Final = ("mcp_servers", "container", "web_search_options", "plugins", "background")
"""Fields by which a provider is asked to do something for the agent that its sandbox keeps it from."""
ONLINE: Final = ":online"
MOST_TOKENS: Final = 1 << 50
MODEL_LETTERS: Final = 200


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a request may go.

    Attributes:
        target: path and query, to be appended to the base URL.
        path: without the API's version.
        is_call: whether a model answers there.
    """

    target: str
    path: str
    is_call: bool


def endpoint(api: str, base_url: str, method: str, target: str) -> Endpoint | None:
    """Where a request goes; None if it may go nowhere.

    An agent's address may or may not end with the API's version, whatever the base URL does.

    Args:
        api: ``openai`` or ``anthropic``.
        base_url: the registered base URL.
        method: of HTTP.
        target: what was asked for; anything that is not a listed path, with a plain query at most, is refused.
    """
    path, mark, query = target.partition("?")
    if not QUERY.fullmatch(mark + query):
        return None
    plain = path.removeprefix(VERSION)
    versioned = base_url.rstrip("/").endswith(VERSION)
    asked = Endpoint((plain if versioned else path) + mark + query, plain, method == "POST" and plain in CALLS[api])
    known = asked.is_call or (method == "POST" and plain in COUNTS[api]) or (method == "GET" and LISTS.fullmatch(plain))
    return asked if known else None


# --- what is asked -----------------------------------------------------------------------------------------


def read(body: bytes) -> dict[str, Any] | None:
    """A request's body as JSON; None if it is no JSON object.

    What is sent on is written anew from this, so that nobody reads it otherwise than it was checked: of two fields of
    one name only the last is left.
    """
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_no_number)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def beyond(request: Mapping[str, Any]) -> str | None:
    """What a request asks of the provider besides an answer of the model, which would lead around the sandbox: tools
    that run there, such as a search of the Web, and files that are fetched by their address. None if there is nothing.
    """
    for name in MORE_THAN_AN_ANSWER:
        if request.get(name):
            return f"the field {name}"
    if str(request.get("model", "")).endswith(ONLINE):
        return f"a model with {ONLINE}"
    for tool in _tools(request):
        kind = tool.get("type", "custom")
        if kind not in AGENTS_TOOLS and not (isinstance(kind, str) and AGENTS_TOOL.fullmatch(kind)):
            return f"a tool of the type {kind!r:.60}, which is not the agent's own"
    if any(_fetches(part) for part in _objects({**request, "tools": []})):
        return "something that it would have to fetch from an address"
    return None


def with_usage(path: str, request: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """The request, so that a streamed answer tells how many tokens it took; and whether that was not asked for.

    Args:
        path: of the endpoint.
        request: the checked request.
    """
    if not request.get("stream") or path not in ("/chat/completions", "/completions"):
        return dict(request), False
    options = request.get("stream_options")
    options = options if isinstance(options, dict) else {}
    asked = options.get("include_usage") is True
    return {**request, "stream_options": {**options, "include_usage": True}}, not asked


def _tools(holder: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """All tools of a request, those within tools too; what is none counts as one of a type of its own."""
    waiting = [holder.get("tools")]
    while waiting:
        listed = waiting.pop() or []
        for tool in listed if isinstance(listed, list) else [listed]:
            known = tool if isinstance(tool, dict) else {"type": "none"}
            yield known
            waiting.append(known.get("tools"))


def _objects(value: Any) -> Iterator[Mapping[str, Any]]:
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            yield one
            waiting.extend(one.values())
        elif isinstance(one, list):
            waiting.extend(one)


def _fetches(part: Mapping[str, Any]) -> bool:
    source = part.get("source")
    if isinstance(source, dict) and source.get("type") == "url":
        return True
    named = (value for name, value in part.items() if name.endswith("_url"))
    addresses = (value.get("url") if isinstance(value, dict) else value for value in named)
    return any(isinstance(address, str) and not address.startswith("data:") for address in addresses)


def _no_number(text: str) -> None:
    raise ValueError(text)


# --- what is answered --------------------------------------------------------------------------------------


@dataclass(slots=True)
class Answer:
    """What an answer says of itself, as far as it has been heard.

    Attributes:
        api: ``openai`` or ``anthropic``.
        model: that says it has answered; empty where none does.
        input_tokens: read, those from a cache included.
        cached_tokens: of these, read from a cache.
        output_tokens: written.
        whole: whether the end of it has been heard.
        failed: whether it tells of a failure in place of an end.
    """

    api: str
    model: str = ""
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    whole: bool = False
    failed: bool = False

    def take_body(self, body: bytes) -> bool:
        """Take an answer that is one JSON object; False if it is none."""
        value = _json(body)
        if value is None:
            return False
        self.whole = True
        self._take(value)
        return True

    def take_event(self, event: bytes) -> bool:
        """Take one event of a stream; False if it says nothing but how many tokens the answer took."""
        lines = event.replace(b"\r\n", b"\n").split(b"\n")
        data = b"\n".join(line[len(b"data:") :].strip() for line in lines if line.startswith(b"data:"))
        if data == b"[DONE]":
            self.whole = True
        elif (value := _json(data)) is not None:
            self._take(value)
            self.whole |= _ends(value)
            return value.get("choices") != [] or not value.get("usage")
        return True

    def _take(self, value: Mapping[str, Any]) -> None:
        inner = value.get("message") if value.get("type") == "message_start" else value.get("response")
        told = inner if isinstance(inner, dict) else value
        if isinstance(told.get("model"), str):
            self.model = told["model"][:MODEL_LETTERS].encode("utf-8", "replace").decode()
        self.failed |= bool(value.get("error") or told.get("error")) or value.get("type") == "error"
        if isinstance(usage := told.get("usage"), dict):
            self._count(usage)

    def _count(self, usage: Mapping[str, Any]) -> None:
        """Numbers of a stream are those up to here: a later one stands for all before."""
        if self.api == "anthropic":
            kept, written = (_number(usage, f"cache_{what}_input_tokens") for what in ("read", "creation"))
            if any(isinstance(usage.get(name), int) for name in ("input_tokens", "cache_read_input_tokens")):
                read = _number(usage, "input_tokens") + kept + written
                self.input_tokens, self.cached_tokens = max(self.input_tokens, read), max(self.cached_tokens, kept)
            self.output_tokens = max(self.output_tokens, _number(usage, "output_tokens"))
            return
        kind = "prompt" if "prompt_tokens" in usage else "input"
        details = usage.get(f"{kind}_tokens_details")
        self.input_tokens = _number(usage, f"{kind}_tokens")
        self.cached_tokens = min(
            self.input_tokens, _number(details if isinstance(details, dict) else {}, "cached_tokens")
        )
        self.output_tokens = _number(usage, "completion_tokens" if kind == "prompt" else "output_tokens")


def events(waiting: bytearray, data: bytes) -> Iterator[bytes]:
    """The whole events of a stream, each with its end.

    Args:
        waiting: what has come of the next one; kept up to date.
        data: what has come now.
    """
    waiting += data
    while end := _EVENT_END.search(waiting):
        event = bytes(waiting[: end.end()])
        del waiting[: end.end()]
        yield event


def error(api: str, kind: str, message: str) -> bytes:
    """An error as the API would tell it."""
    told = {"type": kind, "message": message}
    value = {"type": "error", "error": told} if api == "anthropic" else {"error": {**told, "param": None, "code": kind}}
    return json.dumps(value).encode()


_EVENT_END: Final = re.compile(rb"\r?\n\r?\n")
_LAST: Final = frozenset({"message_stop", "response.completed", "response.incomplete"})


def _ends(value: Mapping[str, Any]) -> bool:
    choices = value.get("choices")
    ended = isinstance(choices, list) and any(isinstance(one, dict) and one.get("finish_reason") for one in choices)
    return ended or value.get("type") in _LAST


def _json(data: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _number(usage: Mapping[str, Any], name: str) -> int:
    value = usage.get(name)
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else 0
