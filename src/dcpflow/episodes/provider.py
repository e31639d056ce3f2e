"""Asks a model's API once, by the official client, and says what came of it.

The clients' own retries are off, and nothing of the environment reaches the API: neither a key of theirs, nor a proxy,
nor a header.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from dcpflow.errors import UsageError
from dcpflow.records.calls import TRANSPORT

MAX_BYTES: Final = 10 << 20
"""Largest answer."""

NO_KEY: Final = "none"
"""What the clients, which insist on a key, are given for one. It is not sent."""


WITH_TEMPERATURE: Final = "2023-06-01"
"""The last version of Anthropic's API in which a temperature can be given."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What came back from one try.

    Attributes:
        status: of the HTTP answer; 0 where there was none.
        fault: ``transport`` or ``timeout`` where there was none, else empty, whatever the status.
        body: of the answer; one byte more than the largest answer, where it is larger.
        retry_after: seconds that the API asks to wait for, or None.
        error: of what was lost, in the client's words; may hold anything.
    """

    status: int = 0
    fault: str = ""
    body: bytes = b""
    retry_after: float | None = None
    error: str = ""


class Provider:
    """One API.

    Args:
        model: the registered ``agent.model``.
        key: the API key, or empty.
        heartbeat: called every few seconds while an answer is awaited.

    Raises:
        UsageError: its client is not installed.
    """

    def __init__(self, model: Mapping[str, Any], key: str, heartbeat: Callable[[], None]) -> None:
        openai = model["api"] == "openai"
        try:
            if openai:
                import openai as library  # noqa: PLC0415 - takes long to load
            else:
                import anthropic as library  # type: ignore[no-redef]  # noqa: PLC0415
            import httpx2  # noqa: PLC0415

            from dcpflow.episodes.wire import Wire  # noqa: PLC0415
        except ImportError as error:
            raise UsageError(
                f"a model's API is asked by a client that is not installed here: {error}",
                "python3 -m pip install 'dcpflow[chat]'",
            ) from None
        common: dict[str, Any] = {
            "api_key": NO_KEY,
            "base_url": model["base_url"] if openai else _above_version(model["base_url"]),
            "max_retries": 0,
            "http_client": httpx2.Client(transport=Wire(heartbeat, key, MAX_BYTES), trust_env=False),
        }
        self._library: Any = library
        if openai:
            self._create: Callable[..., Any] = library.OpenAI(**common).chat.completions.with_raw_response.create
        else:
            client: Any = library.Anthropic(**common, open_telemetry=False)  # type: ignore[attr-defined]
            self._create = _with_temperature(client.messages.with_raw_response.create)

    def ask(self, body: Mapping[str, Any], seconds: float) -> Heard:
        """One try.

        Args:
            body: of the request.
            seconds: until when the whole answer has to be there.
        """
        try:
            response = self._create(**body, timeout=seconds).http_response
        except self._library.APIStatusError as error:
            response = error.response
        except self._library.APITimeoutError:
            return Heard(fault="timeout", error=f"no answer within {seconds:.1f} s")
        except self._library.APIConnectionError as error:
            return Heard(fault=TRANSPORT, error=str(error.__cause__ or error))
        return Heard(response.status_code, "", response.content, _seconds(response.headers.get("retry-after")))


def _above_version(base_url: str) -> str:
    """Anthropic's client adds the version to the path itself, OpenAI's does not: both spellings are taken."""
    return base_url.rstrip("/").removesuffix("/v1")


def _with_temperature(create: Callable[..., Any]) -> Callable[..., Any]:
    """Anthropic's client and the API version that it speaks know no temperature: a registered one is sent to the
    version before, which does."""

    def with_it(**body: Any) -> Any:
        if "temperature" not in body:
            return create(**body)
        extra = {"temperature": body.pop("temperature")}
        return create(**body, extra_body=extra, extra_headers={"anthropic-version": WITH_TEMPERATURE})

    return with_it


def _seconds(text: str | None) -> float | None:
    """The header's seconds; a date, which no such API sends, is not heeded."""
    try:
        seconds = float(text or "")
    except ValueError:
        return None
    return seconds if 0 <= seconds < 1e9 else None
