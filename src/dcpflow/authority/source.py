"""What a registry is read from: a folder, or a static file server that publishes one."""

from __future__ import annotations

import os
import socket
import stat
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from dcpflow.authority.entry import LARGEST
from dcpflow.errors import EvidenceError, UsageError

ALL_SECONDS: Final = 120.0
"""Longest duration of all reading from one server."""
ALL_BYTES: Final = 1 << 28
"""Most that is read from one server."""
SILENCE_SECONDS: Final = 20.0
"""How long a server may be silent."""
CHUNK: Final = 65_536


class Source(Protocol):
    """A registry's files."""

    def read(self, name: str) -> bytes | None:
        """The bytes of a file below the registry; None where there is none.

        Raises:
            EvidenceError: it cannot be read, or is larger than :data:`dcpflow.authority.entry.LARGEST`.
        """

    def place(self, name: str) -> str:
        """What the file is called in messages."""

    def names(self, folder: str) -> list[str] | None:
        """All that lies in a folder below the registry, sorted; None where it cannot be listed."""


@dataclass(frozen=True)
class Folder:
    """A registry's folder as a source."""

    root: Path

    def read(self, name: str) -> bytes | None:  # noqa: D102 - as the protocol says
        path = self.root / name
        try:
            # a pipe would be waited for
            with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise EvidenceError(f"{path} is no file")
                data = file.read(LARGEST + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise EvidenceError(f"{path} cannot be read: {error.strerror}") from None
        if len(data) > LARGEST:
            raise EvidenceError(f"{path} is larger than {LARGEST} bytes: no file of a registry")
        return data

    def place(self, name: str) -> str:  # noqa: D102
        return str(self.root / name)

    def names(self, folder: str) -> list[str]:  # noqa: D102
        path = self.root / folder
        # what a process that was killed while it wrote has left is none of the registry's files
        return sorted(one.name for one in path.iterdir() if not one.name.startswith(".")) if path.is_dir() else []


@dataclass
class Server:
    """A registry that a static file server publishes. The server may be anybody's: it has limits, and no redirects.

    Attributes:
        address: of the registry's folder, ``https://`` or ``http://``.
    """

    address: str
    _pool: Any = field(default=None, init=False, repr=False)
    _deadline: float = field(default=0.0, init=False, repr=False)
    _bytes: int = field(default=0, init=False, repr=False)

    def read(self, name: str) -> bytes | None:  # noqa: D102 - as the protocol says
        from urllib3 import Timeout  # noqa: PLC0415 - only where a registry is read from afar
        from urllib3.exceptions import HTTPError  # noqa: PLC0415

        place, pool, left = self.place(name), self._open(), self._left()
        try:
            response = pool.request(
                "GET",
                place,
                headers={"Accept-Encoding": "identity", "User-Agent": "dcpflow"},
                redirect=False,
                retries=False,
                preload_content=False,
                decode_content=False,
                timeout=Timeout(connect=min(left, SILENCE_SECONDS), read=min(left, SILENCE_SECONDS)),
            )
            try:
                # of any other answer the body is neither wanted nor waited for
                body = self._body(response, place) if response.status == 200 else b""
            finally:
                # what was read to its end leaves its connection to the next file
                response.release_conn() if response.status == 200 else response.close()
            self._left()
        except (HTTPError, OSError, ValueError) as error:
            self._left()
            raise EvidenceError(
                f"{place} cannot be read: {type(error).__name__}", "See that the registry's server can be reached"
            ) from None
        if response.status not in {200, 404}:
            raise EvidenceError(f"{place} cannot be read: the server answers {response.status}")
        return body if response.status == 200 else None

    def place(self, name: str) -> str:  # noqa: D102
        return f"{self.address.rstrip('/')}/{name}"

    def names(self, folder: str) -> None:
        """Nothing: a static file server need not list its folders."""

    def _body(self, response: Any, place: str) -> bytes:
        body = bytearray()
        while data := response.read1(CHUNK, decode_content=False):
            body += data
            self._bytes += len(data)
            self._left()
            if len(body) > LARGEST or self._bytes > ALL_BYTES:
                raise EvidenceError(f"{place}: more than {LARGEST} bytes, or {ALL_BYTES} with all before it")
        if response.length_remaining:
            raise EvidenceError(f"{place} is incomplete: the connection ended early")
        return bytes(body)

    def _open(self) -> Any:
        if self._pool is None:
            import urllib3  # noqa: PLC0415

            self._pool = urllib3.PoolManager(maxsize=1)
            self._deadline = time.monotonic() + ALL_SECONDS
            self._end_by(ALL_SECONDS)
        return self._pool

    def _end_by(self, seconds: float) -> None:
        """Shut the connection when the time is over: a server that sends its headers byte by byte is never silent."""
        host = self._pool.connection_from_url(self.address)
        opened: list[socket.socket] = []

        class Connection(host.ConnectionCls):  # type: ignore[misc, name-defined]
            def connect(self) -> None:
                super().connect()
                opened[:] = [self.sock]

        def shut() -> None:
            for one in opened:
                with suppress(OSError):
                    socket.socket.shutdown(one, socket.SHUT_RDWR)

        host.ConnectionCls = Connection
        timer = threading.Timer(seconds, shut)
        timer.daemon = True
        timer.start()

    def _left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise EvidenceError(f"{self.address}: the registry was not read within {ALL_SECONDS:g} s")
        return left


def of(place: str) -> Source:
    """The source that a folder's path or a server's address names.

    Raises:
        UsageError: the address is no plain one.
    """
    if not is_address(place):
        return Folder(Path(place))
    try:
        parts = urlsplit(place)
        plain = bool(parts.hostname) and not (parts.query or parts.fragment or parts.username or parts.password)
    except ValueError:
        plain = False
    if not plain or not place.isprintable() or " " in place:
        raise UsageError(f"{place!r:.200} is no address of a registry", "Give https://HOST/FOLDER, without credentials")
    return Server(place)


def is_address(place: str) -> bool:
    """Whether a place is an address of HTTP, and no folder."""
    return place.lower().startswith(("https://", "http://"))
