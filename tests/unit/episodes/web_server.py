"""A server for tests of the gateway: what it sends is given byte for byte, and what it was asked is kept."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dcpflow.episodes.gateway import Gateway

Sent = bytes | Callable[[socket.socket], None]
PUBLIC = "93.184.216.34"
RULES: dict[str, Any] = {
    "site": None,
    "https_hosts": ["secure.test"],
    "http_hosts": ["plain.test", "other.test"],
    "requests": 8,
    "redirects": 3,
    "body_bytes": 65_536,
    "text_bytes": 8_192,
    "fetch_seconds": 5.0,
}


@dataclass
class Server:
    """One that answers in a thread.

    Attributes:
        place: address and port.
        asked: every request, as it came.
    """

    place: tuple[str, int]
    asked: list[bytes] = field(default_factory=list)

    @property
    def paths(self) -> list[str]:
        return [request.split(b" ", 2)[1].decode() for request in self.asked]


@contextlib.contextmanager
def serving(answers: Mapping[str, Sent], context: ssl.SSLContext | None = None) -> Iterator[Server]:
    """Serve these answers by path; an answer that is a function is handed the connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = Server(listener.getsockname())
        thread = threading.Thread(target=_serve, args=(listener, answers, server, context), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(5)


def _serve(
    listener: socket.socket, answers: Mapping[str, Sent], server: Server, context: ssl.SSLContext | None
) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with contextlib.suppress(OSError):
            _converse(connection, answers, server, context)
        with contextlib.suppress(OSError):
            connection.close()


def _converse(
    connection: socket.socket, answers: Mapping[str, Sent], server: Server, context: ssl.SSLContext | None
) -> None:
    connection.settimeout(10)
    speaking = context.wrap_socket(connection, server_side=True) if context else connection
    with speaking:
        request = b""
        while b"\r\n\r\n" not in request:
            data = speaking.recv(4096)
            if not data:
                return
            request += data
        server.asked.append(request)
        answer = answers.get(request.split(b" ", 2)[1].decode(), page(b"missing", "404 Not Found"))
        if callable(answer):
            answer(speaking)
        else:
            speaking.sendall(answer)


def page(body: bytes, status: str = "200 OK", kind: str = "text/plain; charset=utf-8", *headers: str) -> bytes:
    """An ordinary answer."""
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def moved(target: str, status: str = "302 Found") -> bytes:
    """A redirect."""
    return page(b"", status, "text/html", f"Location: {target}")


def gateway(server: Server, resolve: Mapping[str, list[str]] | None = None, **more: Any) -> Gateway:
    """A gateway for which all hosts of the rules are public, and whose connections end at the server."""
    known = {host: [PUBLIC] for host in (*RULES["https_hosts"], *RULES["http_hosts"])} | dict(resolve or {})
    rules = RULES | more.pop("rules", {})

    def find(host: str, port: int) -> list[str]:
        try:
            return known[host]
        except KeyError:
            raise OSError("no such host") from None

    return Gateway(rules, resolve=find, dial=lambda address, port: server.place, **more)
