"""Pages that ship with dcpflow, served on loopback while the target runs: a Web that is the same for everybody."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from dcpflow.errors import UsageError
from dcpflow.records import canonical
from dcpflow.tasks.evaluator import die_with

SITES: Final = Path(__file__).parent.parent / "tasks" / "sites"
LOOPBACK: Final = "127.0.0.1"
_TYPES: Final = {".html": "text/html; charset=utf-8", ".txt": "text/plain; charset=utf-8"}


def pages(host: str) -> dict[str, bytes]:
    """The pages of a shipped site by their path; ``index.html`` is ``/``.

    Raises:
        UsageError: no site of that name ships.
    """
    known = sorted(path.name for path in SITES.iterdir() if path.is_dir())
    if host not in known:
        raise UsageError(f"information.web.site: no site {host!r} ships with dcpflow", f"There are: {', '.join(known)}")
    found = {path.name: path.read_bytes() for path in sorted((SITES / host).iterdir()) if path.suffix in _TYPES}
    return {f"/{'' if name == 'index.html' else name}": data for name, data in found.items()}


def sources(web: Mapping[str, object] | None) -> dict[str, str]:
    """Digest of each page of the registered site: part of the contract, so that another page is another audit."""
    if not web or not web["site"]:
        return {}
    return {path: canonical.digest(data) for path, data in pages(str(web["site"])).items()}


@contextmanager
def serving(host: str) -> Iterator[tuple[str, int]]:
    """Serve a shipped site on loopback in a child process; yields its address and port.

    A process and not a thread, since agents are started by forking this one. It dies with this process.
    """
    content = pages(host)
    with socket.create_server((LOOPBACK, 0)) as listener:
        place = listener.getsockname()[:2]
        parent = os.getpid()
        child = os.fork()
        if not child:
            try:
                if die_with(parent):
                    _serve(listener, content)
            finally:
                os._exit(0)
    try:
        yield place
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _serve(listener: socket.socket, content: Mapping[str, bytes]) -> None:
    """Answer one connection after the other, for ever."""
    while True:
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(5)
            try:
                connection.sendall(_answer(connection, content))
            except OSError:
                continue


def _answer(connection: socket.socket, content: Mapping[str, bytes]) -> bytes:
    asked = b""
    while b"\r\n\r\n" not in asked and len(asked) < 1 << 14:
        data = connection.recv(1 << 12)
        if not data:
            break
        asked += data
    words = asked.split(b"\r\n", 1)[0].decode("ascii", "replace").split(" ")
    path = words[1] if len(words) == 3 and words[0] == "GET" else ""
    body = content.get(path)
    status, kind = ("200 OK", _TYPES[Path(path).suffix or ".html"]) if body is not None else ("404 Not Found", "")
    body = body if body is not None else b"There is no such page.\n"
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind or _TYPES['.txt']}\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode() + body
