"""What a model is told of an episode, and how its answers become lines of the channel.

Used where the agent does not speak the channel itself: for a chat model and for a host program of the Model Context
Protocol. Pure functions of the channel's first message and of what the model says. The source of this file is
registered with such agents, since it is what they are told; it needs the standard library only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

FETCH: Final = "web_fetch"

_DESCRIPTIONS: Final = {
    "experiment": "Make one experiment, and be told its result.",
    FETCH: "Read one page of the Web, and be told its text.",
    "commit": "Hand in a candidate as your result. It counts whatever happens afterwards.",
    "finish": "End the work. What was committed stands; nothing can be committed any more.",
}
_BUDGETS: Final = {
    "experiments": "experiments",
    "candidates": "candidates that can be committed",
    "wall_seconds": "seconds for all of it",
    "message_bytes": "bytes of one request",
    "candidate_bytes": "bytes of one candidate",
    "web_requests": "pages that can be fetched",
}
_NOTHING: Final[Mapping[str, Any]] = {"type": "object", "properties": {}, "additionalProperties": False}

REMINDER: Final = (
    "You have not acted. Use one of the tools: commit your candidate if it is ready, and finish when you are done."
)
JSON_REMINDER: Final = (
    "You have not acted. Answer with one JSON object: commit your candidate if it is ready, and finish when you are "
    "done."
)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as a model is offered it.

    Attributes:
        name: which is the channel's action.
        description: what it does.
        schema: JSON Schema of its arguments, an object.
    """

    name: str
    description: str
    schema: Mapping[str, Any]


def tools(hello: Mapping[str, Any]) -> list[Tool]:
    """The tools of an episode: ``experiment``, ``web_fetch`` where it is offered, ``commit`` and ``finish``.

    Args:
        hello: the channel's first message.
    """
    return [
        Tool(name, description, hello["actions"].get(name, _NOTHING))
        for name, description in _DESCRIPTIONS.items()
        if name in hello["actions"] or name == "finish"
    ]


def prompt(hello: Mapping[str, Any]) -> str:
    """All that the first message says, but for the seed, as a text to begin with.

    Files and earlier exchanges stand as JSON, in which every character can be told: what has to be quoted byte for
    byte can be copied from there.

    Args:
        hello: the channel's first message.
    """
    parts = [hello["K"], _part("What you know at the start", _json(hello["E0"]))]
    if hello["files"]:
        said = "The text of each file, by name, as a JSON string."
        parts.append(_part("Files", said, *(f"{_json(name)}: {_json(text)}" for name, text in hello["files"].items())))
    if quote := hello["E0"].get("quote"):
        said = "Quote these files when you commit: give their exact texts, by file name, in `quotes`."
        parts.append(_part("What to quote", said, _json(quote)))
    if hello["history"]:
        said = "This has happened already, and is used up. You go on from here. One request with its reply a line."
        parts.append(_part("Earlier", said, *map(_json, hello["history"])))
    limits = (f"- {_BUDGETS.get(name, name)}: {_json(most)}" for name, most in hello["budgets"].items())
    parts.append(_part("What you may use at most", *limits))
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def json_schema(hello: Mapping[str, Any]) -> dict[str, Any]:
    """JSON Schema of an answer, for a model that acts without tool calls: one object, an action with its own fields.

    Args:
        hello: the channel's first message.
    """
    return {"type": "object", "anyOf": [_with_action(tool) for tool in tools(hello)]}


def _with_action(tool: Tool) -> dict[str, Any]:
    properties = {"action": {"const": tool.name}, **tool.schema.get("properties", {})}
    return {**tool.schema, "properties": properties, "required": ["action", *tool.schema.get("required", [])]}


def json_prompt(hello: Mapping[str, Any]) -> str:
    """The first text for a model that acts without tool calls: as :func:`prompt`, and how to answer.

    Args:
        hello: the channel's first message.
    """
    said = (
        "Each of your answers is one JSON object and nothing else: no words around it, no code fence. Its `action` is "
        "one of these, with the fields that the schema of the action names. You are told the reply, and answer again."
    )
    actions = (f"- {_json(tool.name)}: {tool.description} Fields: {_json(tool.schema)}" for tool in tools(hello))
    return prompt(hello) + "\n" + _part("How to act", said, *actions) + "\n"


# --- what the model says -----------------------------------------------------------------------------------


def request_line(identity: str, name: object, arguments: object) -> bytes:
    """The channel's line, without its newline, for a model's call of a tool.

    It can be anything: what is no request becomes a line that the channel refuses and counts as a bad message, with
    what was said in it.

    Args:
        identity: the request's id, at most 64 characters.
        name: of the tool.
        arguments: its arguments, as the model gave them: plain data, or any text in place of an object.
    """
    if isinstance(name, str) and isinstance(arguments, dict):
        line = _line({**arguments, "id": identity, "action": name})
    else:
        line = _line([identity, name, arguments])
    return line or _line([identity, "what was said cannot be written as JSON"])


def call_line(identity: str, name: str, arguments: str) -> bytes:
    """As :func:`request_line`, for arguments that are a text; an empty one stands for no arguments.

    Args:
        identity: the request's id.
        name: of the tool.
        arguments: JSON of an object, if the model keeps to its schema.
    """
    return request_line(identity, name, read(arguments) if arguments.strip() else {})


def answer_line(identity: str, text: str) -> bytes:
    """The channel's line for an answer of a model that acts by JSON alone.

    Args:
        identity: the request's id.
        text: the whole answer: JSON of one object, if the model keeps to the schema.
    """
    said = read(text)
    if not isinstance(said, dict):
        return _line([identity, said]) or _line([identity, text])
    return request_line(identity, said.get("action", ""), said)


def read(text: str) -> Any:
    """What a text says as JSON, where that is an object; else the text as it is."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) else text


def reply_text(reply: bytes) -> str:
    """The channel's reply as the model is told it: JSON, without the id, which says nothing to a model.

    Args:
        reply: the channel's line.
    """
    return _json({name: value for name, value in json.loads(reply).items() if name != "id"})


def _part(title: str, *lines: str) -> str:
    return "\n".join((f"# {title}", *lines))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))


def _line(value: dict[str, Any] | Sequence[object]) -> bytes:
    """One line of ASCII, so that no odd character of the model's makes two; empty where the value has no such form."""
    try:
        return json.dumps(value).encode()
    except (TypeError, ValueError, RecursionError):
        return b""
