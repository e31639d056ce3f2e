"""The two forms that requests to a model and its answers have: OpenAI's chat completions and Anthropic's messages.

Pure functions. What a model said goes into the next request only in a form that every server takes: an answer that was
refused there would end the episode for a reason that is not the model's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from dcpflow.agents import dialogue
from dcpflow.agents.dialogue import Tool

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
Message = dict[str, Any]


class Unreadable(ValueError):
    """An answer that is none: it is not in the API's form."""


@dataclass(frozen=True, slots=True)
class Use:
    """A model's call of a tool.

    Attributes:
        identity: by which the API knows it.
        name: of the tool; any text.
        arguments: a text, which should be JSON, or plain data.
    """

    identity: str
    name: str
    arguments: Any


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model has answered.

    Attributes:
        model: that the API says has answered; empty where it does not say.
        input_tokens: read.
        cached_tokens: of these, read from a cache.
        output_tokens: written.
        text: beside the calls of tools.
        uses: calls of tools, in order.
        message: the answer as it stands in the next request.
    """

    model: str
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    text: str
    uses: tuple[Use, ...]
    message: Message


class Form(Protocol):
    """How one API is spoken to."""

    def body(self, messages: Sequence[Message], seed: int) -> dict[str, Any]:
        """The body of a request for the next answer."""
        ...

    def read(self, value: Any, turn: int) -> Answer:
        """An answer from its JSON.

        Args:
            value: the JSON.
            turn: number of the answer, for calls of tools that the API has not named.

        Raises:
            Unreadable: it is none.
        """
        ...

    def told(self, text: str) -> Message:
        """A message to the model."""
        ...

    def results(self, results: Sequence[tuple[Use, str]]) -> list[Message]:
        """Messages that answer calls of tools."""
        ...


@dataclass(frozen=True)
class OpenAi:
    """Chat completions.

    Attributes:
        model: the registered ``agent.model``.
        name: of the model that is asked.
        tools: that it is offered; none where it acts by JSON.
        schema: of its answers where it acts by JSON.
    """

    model: Mapping[str, Any]
    name: str
    tools: Sequence[Tool]
    schema: Mapping[str, Any] | None

    def body(self, messages: Sequence[Message], seed: int) -> dict[str, Any]:
        """See :class:`Form`."""
        system = {"role": "system", "content": self.model["system_prompt"]}
        # what OpenAI has renamed, others know by the old name, and some by that alone
        own = urlsplit(self.model["base_url"]).hostname == "api.openai.com"
        body: dict[str, Any] = {
            "model": self.name,
            "messages": [system, *messages],
            "max_completion_tokens" if own else "max_tokens": self.model["answer_tokens"],
            "seed": seed,
        }
        if self.model["temperature"] is not None:
            body["temperature"] = self.model["temperature"]
        if self.tools:
            body["tools"] = [
                {
                    "type": "function",
                    "function": {"name": tool.name, "description": tool.description, "parameters": tool.schema},
                }
                for tool in self.tools
            ]
        if self.schema is not None:
            form = {"name": "request", "schema": self.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        return body

    def read(self, value: Any, turn: int) -> Answer:
        """See :class:`Form`."""
        match value:
            case {"choices": [{"message": {**message}}, *_], "usage": {**usage}}:
                pass
            case _:
                raise Unreadable("it has no choices with a message, or no usage")
        text, calls = message.get("content") or "", message.get("tool_calls") or []
        if not isinstance(text, str) or not isinstance(calls, list):
            raise Unreadable("its content is no text, or its calls of tools are no list")
        uses: list[Use] = []
        for call in calls:
            match call:
                case {"function": {"name": str(name), "arguments": (str() | dict()) as arguments}}:
                    uses.append(Use(_identity(call.get("id"), uses, turn), name, arguments))
                case _:
                    raise Unreadable("a call of a tool has no name or no arguments")
        said: Message = {"role": "assistant", "content": text}
        if uses:
            said["tool_calls"] = [_function(use) for use in uses]
        details = usage.get("prompt_tokens_details")
        read = _count(usage.get("prompt_tokens"))
        cached = _count(details.get("cached_tokens") or 0) if isinstance(details, dict) else 0
        written = _count(usage.get("completion_tokens"))
        return Answer(_model(value), read, min(cached, read), written, text, tuple(uses), said)

    def told(self, text: str) -> Message:
        """See :class:`Form`."""
        return {"role": "user", "content": text}

    def results(self, results: Sequence[tuple[Use, str]]) -> list[Message]:
        """See :class:`Form`."""
        return [{"role": "tool", "tool_call_id": use.identity, "content": text} for use, text in results]


@dataclass(frozen=True)
class Anthropic:
    """Messages.

    Attributes:
        model: the registered ``agent.model``.
        name: of the model that is asked.
        tools: that it is offered; none where it acts by JSON.
    """

    model: Mapping[str, Any]
    name: str
    tools: Sequence[Tool]

    def body(self, messages: Sequence[Message], seed: int) -> dict[str, Any]:
        """See :class:`Form`; there is no seed in this API."""
        body: dict[str, Any] = {
            "model": self.name,
            "system": self.model["system_prompt"],
            "messages": list(messages),
            "max_tokens": self.model["answer_tokens"],
        }
        if self.model["temperature"] is not None:
            body["temperature"] = self.model["temperature"]
        if self.tools:
            body["tools"] = [
                {"name": tool.name, "description": tool.description, "input_schema": tool.schema} for tool in self.tools
            ]
        return body

    def read(self, value: Any, turn: int) -> Answer:
        """See :class:`Form`."""
        match value:
            case {"content": [*blocks], "usage": {**usage}}:
                pass
            case _:
                raise Unreadable("it has no content or no usage")
        text, uses, kept = "", list[Use](), list[Message]()
        for block in blocks:
            match block:
                case {"type": "text", "text": str(part)}:
                    text += part
                    if part.strip():
                        kept.append({"type": "text", "text": part})
                case {"type": "tool_use", "name": str(name), "input": given}:
                    uses.append(Use(_identity(block.get("id"), uses, turn), name, given))
                    kept.append(_tool_use(uses[-1]))
                case {"type": "thinking" | "redacted_thinking"}:
                    kept.append(block)
                case {"type": str(kind)} if kind not in ("text", "tool_use"):
                    pass
                case _:
                    raise Unreadable("a block of its content has no type, or not what goes with it")
        read, cached = _count(usage.get("input_tokens")), _count(usage.get("cache_read_input_tokens") or 0)
        read += cached + _count(usage.get("cache_creation_input_tokens") or 0)
        # a message without content is none that can be sent back
        said = {"role": "assistant", "content": kept or [{"type": "text", "text": "(nothing)"}]}
        written = _count(usage.get("output_tokens"))
        return Answer(_model(value), read, cached, written, text, tuple(uses), said)

    def told(self, text: str) -> Message:
        """See :class:`Form`."""
        return {"role": "user", "content": text}

    def results(self, results: Sequence[tuple[Use, str]]) -> list[Message]:
        """See :class:`Form`."""
        blocks = [{"type": "tool_result", "tool_use_id": use.identity, "content": text} for use, text in results]
        return [{"role": "user", "content": blocks}]


def form_of(model: Mapping[str, Any], model_id: str, hello: Mapping[str, Any]) -> Form:
    """The form of a registered model's API.

    Args:
        model: the registered ``agent.model``.
        model_id: the registered ``agent.model_id``, which is asked where the model names no other.
        hello: the channel's first message.
    """
    native = model["tools"] == "native"
    tools = dialogue.tools(hello) if native else []
    name = model["requested"] or model_id
    if model["api"] == "anthropic":
        return Anthropic(model, name, tools)
    return OpenAi(model, name, tools, None if native else dialogue.json_schema(hello))


def _model(value: Mapping[str, Any]) -> str:
    name = value.get("model")
    return name if isinstance(name, str) else ""


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 40:
        raise Unreadable("its usage does not say how many tokens were read and written")
    return value


def _identity(given: Any, uses: Sequence[Use], turn: int) -> str:
    """What the API calls a use of a tool, if each has a name of its own that can be sent back; else one of ours."""
    fits = isinstance(given, str) and _NAME.fullmatch(given) and given not in {use.identity for use in uses}
    return given if fits else f"call_{turn}_{len(uses) + 1}"


def _function(use: Use) -> Message:
    given = use.arguments
    text = json.dumps(given) if isinstance(given, dict) else given
    if not isinstance(dialogue.read(text), dict):
        text = "{}"
    return {"id": use.identity, "type": "function", "function": {"name": _tool_name(use), "arguments": text}}


def _tool_use(use: Use) -> Message:
    given = use.arguments if isinstance(use.arguments, dict) else {}
    return {"type": "tool_use", "id": use.identity, "name": _tool_name(use), "input": given}


def _tool_name(use: Use) -> str:
    return use.name if _NAME.fullmatch(use.name) else "unknown"
