"""What a model said, from the body of its API's answer: whole or streamed, of OpenAI's or Anthropic's form.

Bodies are as hostile as models are: whatever is not of these forms is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple


class Said(NamedTuple):
    """One piece of an answer.

    Attributes:
        kind: ``says``, ``thinks`` or ``uses`` (a tool).
        text: the words; of a tool its name and arguments.
    """

    kind: str
    text: str


def of_answer(body: bytes) -> list[Said]:
    """The pieces of an answer, in order; none where it is of no known form."""
    text = body.decode("utf-8", "replace")
    whole = _json(text)
    pieces = _of_message(whole) if isinstance(whole, dict) else _of_events(_events(text))
    return [Said(kind, words) for kind, words in pieces if words.strip()]


def _of_message(message: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Of a whole answer: chat completions have choices, Anthropic's messages content, OpenAI's responses output."""
    for choice in _list(message, "choices"):
        said = choice.get("message")
        if isinstance(said, dict):
            yield "thinks", _text(said.get("reasoning_content"))
            yield "says", _text(said.get("content"))
            for call in _list(said, "tool_calls"):
                function = call.get("function")
                if isinstance(function, dict):
                    yield "uses", _use(function.get("name"), function.get("arguments"))
    for block in _list(message, "content"):
        yield from _of_block(block)
    for item in _list(message, "output"):
        for part in _list(item, "content"):
            yield "says", _text(part.get("text"))
        if item.get("type") == "function_call":
            yield "uses", _use(item.get("name"), item.get("arguments"))


def _of_block(block: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "thinks", _text(block.get("thinking"))
    yield "says", _text(block.get("text"))
    if block.get("type") == "tool_use":
        yield "uses", _use(block.get("name"), block.get("input"))


def _of_events(events: Iterable[dict[str, Any]]) -> list[tuple[str, str]]:
    """Of a streamed answer: its pieces are put together; an event that holds the whole of it stands for all."""
    pieces: dict[object, tuple[str, str]] = {}

    def add(place: object, kind: str, text: str) -> None:
        pieces[place] = (kind, pieces.get(place, ("", ""))[1] + text)

    for event in events:
        match event:
            case {"type": "response.completed", "response": dict() as whole}:
                return list(_of_message(whole))
            case {"type": "content_block_start", "index": int(place), "content_block": {"type": "tool_use"} as block}:
                add(place, "uses", f"{_text(block.get('name'))} ")
            case {"type": "content_block_delta", "index": int(place), "delta": dict() as delta}:
                for key, kind in (("text", "says"), ("thinking", "thinks"), ("partial_json", "uses")):
                    if key in delta:
                        add(place, kind, _text(delta[key]))
            case {"choices": [{"delta": dict() as delta}, *_]}:
                add("text", "says", _text(delta.get("content")))
                for call in _list(delta, "tool_calls"):
                    function = call.get("function")
                    if isinstance(function, dict):
                        name = f"{function['name']} " if function.get("name") else ""
                        add(("tool", str(call.get("index"))), "uses", name + _text(function.get("arguments")))
    return list(pieces.values())


def _events(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects of server-sent events."""
    for line in text.splitlines():
        if line.startswith("data:"):
            value = _json(line.removeprefix("data:"))
            if isinstance(value, dict):
                yield value


def _use(name: object, arguments: object) -> str:
    given = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return f"{_text(name)} {given}"


def _list(value: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """The objects of a list in an object."""
    found = value.get(key)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
