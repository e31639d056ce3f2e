"""One episode as a conversation that can be read: who said what, what came of it, and what its model was asked.

All of it can hold anything that an agent or a model has written. Nothing of it reaches a terminal that is not
printable, and what is long is cut. Keys are in none of it, for they are in no record.
"""

from __future__ import annotations

import base64
import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dcpflow.records.calls import Call
from dcpflow.records.episodes import EpisodeRecord
from dcpflow.report.screen import plain
from dcpflow.report.words import Said

LETTERS, LINES = 1_500, 40
"""Most that is shown of one text; of the entries of one list, as many as lines."""
WIDTH, DEEPEST = 110, 20


@dataclass(frozen=True)
class Conversation:
    """What is on record of an episode.

    Attributes:
        record: its record.
        lines: of its channel, as they were recorded.
        calls: to its model, in order, each with what the model said as far as that is kept.
        stderr: the end of what the agent wrote to its standard error; stands beside the record, in no bundle.
    """

    record: EpisodeRecord
    lines: Sequence[Mapping[str, str]]
    calls: Sequence[tuple[Call, Sequence[Said]]]
    stderr: str


def raw(conversation: Conversation) -> str:
    """For programs: the record, each line of the channel and each call as a line of JSON, with nothing cut."""
    objects: list[Any] = [asdict(conversation.record), *conversation.lines]
    objects += [asdict(call) | {"said": [said._asdict() for said in words]} for call, words in conversation.calls]
    return "\n".join(map(json.dumps, objects))


def render(conversation: Conversation) -> str:
    """For people."""
    return "\n".join(map(plain, _lines(conversation)))


def _lines(conversation: Conversation) -> Iterator[str]:
    record = conversation.record
    yield f"{record.key}: {record.outcome}, {record.reason}"
    yield f"used      {', '.join(f'{name} {count}' for name, count in record.usage.items())}"
    if record.limits_hit:
        yield f"ended by  {', '.join(record.limits_hit)}"
    for entry in conversation.lines:
        yield ""
        yield from _said(entry)
    if conversation.calls:
        yield ""
        tokens = sum(call.tokens for call, _ in conversation.calls)
        yield f"asked its model {len(conversation.calls)} times, {tokens} tokens:"
    for number, (call, words) in enumerate(conversation.calls, 1):
        yield f"{number:4}  {_call(call)}"
        for said in words:
            yield f"      {said.kind}"
            yield from _text(said.text, 8)
    if conversation.stderr:
        yield ""
        yield "standard error of the agent, its end:"
        yield from _text(conversation.stderr, 2)


def _said(entry: Mapping[str, str]) -> Iterator[str]:
    """One line of the channel."""
    who = entry["from"]
    if "line" not in entry:
        yield f"{who:8}  bytes that are no text"
        yield from _text(repr(base64.b64decode(entry["base64"]))[2:-1], 10)
        return
    try:
        message = json.loads(entry["line"])
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict):
        yield f"{who:8}  no JSON object"
        yield from _text(entry["line"], 10)
        return
    what = message.get("type", "reply") if who == "harness" else message.get("action")
    if who == "harness" and message.get("ok") is False:
        what = "refused"
    identity = message.get("id")
    number = f" {identity!s:.64}" if isinstance(identity, str | int | float) else ""
    yield f"{who:8}  {what if isinstance(what, str) else 'no action':.40}{number}"
    for name, value in message.items():
        if name not in ("type", "action", "id", "ok"):
            yield from _field(name, value)


def _field(name: str, value: Any, indent: int = 10) -> Iterator[str]:
    """A field: on one line where it fits, else below its name; texts as they would be printed."""
    name, margin = name[:64], " " * indent
    text = value if isinstance(value, str) else _compact(value)
    if "\n" not in text and indent + len(name) + len(text) <= WIDTH:
        yield f"{margin}{name}: {text}"
        return
    yield f"{margin}{name}:"
    if isinstance(value, dict) and indent < DEEPEST:
        for below in list(value)[:LINES]:
            yield from _field(below, value[below], indent + 2)
        yield from _left_out(len(value) - LINES, "fields", indent + 2)
    elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        for item in value[:LINES]:
            yield from _text(_compact(item), indent + 2)
        yield from _left_out(len(value) - LINES, "entries", indent + 2)
    else:
        yield from _text(text if isinstance(value, str) else "\n".join(textwrap.wrap(text, WIDTH - indent)), indent + 2)


def _compact(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "[nested too deeply to be shown]"


def _text(text: str, indent: int) -> Iterator[str]:
    """A text below its heading, cut where it is long."""
    text = text.removesuffix("\n")
    shown = text[:LETTERS].split("\n")
    lines = shown[:LINES]
    rest = len(text) - len("\n".join(lines))
    yield from (" " * indent + line for line in lines)
    yield from _left_out(rest, "characters", indent)


def _left_out(count: int, what: str, indent: int) -> Iterator[str]:
    if count > 0:
        yield f"{' ' * indent}[{count} more {what}: --json shows all]"


def _call(call: Call) -> str:
    if call.fault:
        status = f", HTTP status {call.status}" if call.status else ""
        return f"{call.fault}{status}"
    cached = f", {call.cached_tokens} of them cached" if call.cached_tokens else ""
    name = call.model or "a model without a name"
    return f"{name}: {call.input_tokens} tokens read{cached}, {call.output_tokens} written"
