"""A server that plays a model's API for tests: what it answers is given, and what it was asked is kept."""

from __future__ import annotations

import contextlib
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "model-1"
Handler = BaseHTTPRequestHandler
Played = Callable[[Handler], None]
Use = tuple[str, Any]


@dataclass
class Server:
    """One that answers in threads, in the order of its script; what comes after its end is answered 418.

    Attributes:
        base_url: where it is.
        script: what is left to answer.
        asked: body of each request.
        headers: of each request, names in small letters.
        paths: of each request.
    """

    base_url: str
    script: list[Played]
    asked: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, *_: object) -> None:
        """A client that has gone is what some tests are about."""


@contextlib.contextmanager
def playing(*script: Played, context: ssl.SSLContext | None = None) -> Iterator[Server]:
    """Serve a script; over TLS, for the host ``localhost``, if there is a context."""

    class OneCall(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            server.asked.append(json.loads(self.rfile.read(length)))
            server.headers.append({name.lower(): value for name, value in self.headers.items()})
            server.paths.append(self.path)
            played = server.script.pop(0) if server.script else answering({"error": "the script is over"}, 418)
            with contextlib.suppress(OSError):
                played(self)

        def log_message(self, *_: object) -> None:
            pass

    with _Http(("127.0.0.1", 0), OneCall) as http:
        place = f"http://127.0.0.1:{http.server_address[1]}/v1"
        if context is not None:
            http.socket = context.wrap_socket(http.socket, server_side=True, do_handshake_on_connect=False)
            place = f"https://localhost:{http.server_address[1]}/v1"
        server = Server(place, list(script))
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            http.shutdown()
            thread.join(5)


def answering(body: Any, status: int = 200, **headers: str) -> Played:
    """An answer; a body that is no bytes is JSON. Headers have underscores for dashes."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()

    def play(handler: Handler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    return play


def cut(half: bool = False) -> Played:
    """A connection that ends without an answer, or in the middle of one."""

    def play(handler: Handler) -> None:
        if half:
            handler.send_response(200)
            handler.send_header("Content-Length", "1000")
            handler.end_headers()
            handler.wfile.write(b'{"model": "')
            handler.wfile.flush()
        handler.close_connection = True

    return play


def dripping(seconds: float) -> Played:
    """An answer that never is complete, though something comes all the time."""

    def play(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "100000")
        handler.end_headers()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            handler.wfile.write(b" ")
            handler.wfile.flush()
            time.sleep(0.02)

    return play


def openai(text: str = "", *uses: Use, model: str | None = MODEL, read: int = 100, written: int = 10) -> dict[str, Any]:
    """An answer of chat completions; a use's arguments that are no text are made JSON."""
    calls = [
        {
            "id": f"id{number}",
            "type": "function",
            "function": {"name": name, "arguments": given if isinstance(given, str) else json.dumps(given)},
        }
        for number, (name, given) in enumerate(uses)
    ]
    message = {"role": "assistant", "content": text or None} | ({"tool_calls": calls} if calls else {})
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written},
    } | ({"model": model} if model is not None else {})


def anthropic(text: str = "", *uses: Use, model: str = MODEL, read: int = 100, written: int = 10) -> dict[str, Any]:
    """An answer of messages."""
    content: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    content += [
        {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": given}
        for number, (name, given) in enumerate(uses)
    ]
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": "tool_use" if uses else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": read, "output_tokens": written},
    }


def calls(answers: Sequence[dict[str, Any]]) -> list[Played]:
    """Several answers, one after the other."""
    return [answering(answer) for answer in answers]
