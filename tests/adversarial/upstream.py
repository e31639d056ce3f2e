"""The API of a model, for tests: what it sends is given byte for byte, and what it was asked is kept."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

KEY = "sk-canary-0123456789abcdef"
MODEL = "model-1"
Pieces = Iterable[bytes | float]
"""What is sent, in order; a number is a pause in seconds."""


@dataclass(frozen=True)
class Asked:
    """One request.

    Attributes:
        method: GET or POST.
        target: path and query.
        headers: by lower-case name.
        body: as it came.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    body: str

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Upstream:
    """One that answers in processes of its own.

    Attributes:
        port: on loopback.
        log: a file with all that it was asked.
    """

    port: int
    log: Path

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def asked(self) -> list[Asked]:
        return [Asked(**json.loads(line)) for line in self.log.read_text().splitlines()] if self.log.exists() else []


@contextlib.contextmanager
def serving(log: Path, answer: Callable[[Asked], Pieces], context: ssl.SSLContext | None = None) -> Iterator[Upstream]:
    """Serve an API; each request is answered by what ``answer`` returns, and then the connection is closed."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        child = os.fork()
        if not child:
            try:
                os.setpgid(0, 0)
                signal.signal(signal.SIGCHLD, signal.SIG_IGN)
                while True:
                    connection, _ = listener.accept()
                    if not os.fork():
                        _answer(context.wrap_socket(connection, True) if context else connection, log, answer)
                        os._exit(0)
                    connection.close()
            finally:
                os._exit(1)
        with contextlib.suppress(OSError):
            os.setpgid(child, child)
        try:
            yield Upstream(listener.getsockname()[1], log)
        finally:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _answer(connection: socket.socket, log: Path, answer: Callable[[Asked], Pieces]) -> None:
    reader = connection.makefile("rb")
    method, target, _ = reader.readline().decode().split(" ", 2)
    headers = {}
    while line := reader.readline().strip():
        name, _, value = line.decode().partition(":")
        headers[name.lower()] = value.strip()
    body = reader.read(int(headers.get("content-length", "0"))).decode()
    with log.open("a") as file:
        file.write(json.dumps({"method": method, "target": target, "headers": headers, "body": body}) + "\n")
    with contextlib.suppress(OSError):
        for piece in answer(Asked(method, target, headers, body)):
            time.sleep(piece) if isinstance(piece, float) else connection.sendall(piece)


def plain(value: Any, status: str = "200 OK", **headers: str) -> Pieces:
    """A whole answer."""
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    told = {"Content-Type": "application/json", "Content-Length": str(len(body))}
    told |= {name.replace("_", "-"): text for name, text in headers.items()}
    return [f"HTTP/1.1 {status}\r\n".encode(), *(f"{n}: {v}\r\n".encode() for n, v in told.items()), b"\r\n", body]


def stream(*events: bytes | float, end: bytes = b"0\r\n\r\n") -> Pieces:
    """A stream of events, in chunks; each is one, whatever it holds."""
    yield b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    for event in events:
        yield event if isinstance(event, float) else b"%x\r\n%b\r\n" % (len(event), event)
    yield end


def event(value: Any) -> bytes:
    """One event of a stream."""
    kind = f"event: {value['type']}\n" if isinstance(value, dict) and "type" in value else ""
    return f"{kind}data: {value if isinstance(value, str) else json.dumps(value)}\n\n".encode()


def chat(text: str = "hello", model: str = MODEL, tokens: tuple[int, int] = (30, 12)) -> dict[str, Any]:
    """An answer of OpenAI's chat completions."""
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": model,
        "choices": [choice],
        "usage": {"prompt_tokens": tokens[0], "completion_tokens": tokens[1], "total_tokens": sum(tokens)},
    }


def chat_events(*texts: str, usage: bool = True) -> list[bytes]:
    """A stream of OpenAI's chat completions."""

    def chunk(**fields: Any) -> bytes:
        return event({"object": "chat.completion.chunk", "model": MODEL, **fields})

    said = [chunk(choices=[{"index": 0, "delta": {"content": text}, "finish_reason": None}]) for text in texts]
    last = chunk(choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}])
    told = chunk(choices=[], usage={"prompt_tokens": 9, "completion_tokens": 4})
    return [*said, last, *([told] if usage else []), event("[DONE]")]
