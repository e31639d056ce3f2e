"""The gateway to the Web, on the trusted side: one GET at a time, from registered hosts, within registered limits.

It runs in a child process of its own, which is killed when a fetch takes too long; whatever goes wrong is an answer to
the agent. Each hop of a redirect is checked like the first: its address must be permitted, every network address of its
host public, and the connection goes to the address that was checked, whatever the name resolves to a moment later.
"""

from __future__ import annotations

import base64
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from dcpflow.episodes.addresses import is_public
from dcpflow.episodes.pages import CUT, Unreadable, decompressed, load_encodings, media_type, shown
from dcpflow.episodes.warc import Answer, storable
from dcpflow.records import packet
from dcpflow.records.urls import UrlRefused, joined, scheme_and_host

PORTS: Final = {"https": 443, "http": 80}
REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
HEADERS: Final = {
    "User-Agent": "dcpflow (research audit; records what it reads)",
    "Accept": "text/html, text/*;q=0.9, application/json;q=0.8, */*;q=0.1",
    "Accept-Encoding": "gzip, deflate",
    "Connection": "close",
}
CHUNK: Final = 1 << 16
Place = tuple[str, int]
"""A network address and a port."""


class FetchFailed(Exception):
    """A fetch that shows no page; the message is the agent's answer."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """What came of a fetch.

    Attributes:
        status: of the last answer; 0 where there was none.
        content_type: its media type.
        text: what the agent is shown.
        answers: all answers on the way, redirects too.
    """

    status: int
    content_type: str
    text: str
    answers: tuple[Answer, ...]

    @property
    def body(self) -> bytes:
        """The body of the last answer as it was sent; empty where there is no page."""
        return self.answers[-1].body if self.status else b""

    def to_json(self) -> dict[str, Any]:
        """The form in which it leaves the child process."""
        return {
            "status": self.status,
            "content_type": self.content_type,
            "text": self.text,
            "answers": [[a.url, a.status, [list(h) for h in a.headers], _b64(a.body)] for a in self.answers],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Fetched:
        """The inverse of :meth:`to_json`."""
        answers = tuple(
            Answer(url, status, [(name, text) for name, text in headers], base64.b64decode(body))
            for url, status, headers, body in value["answers"]
        )
        return cls(value["status"], value["content_type"], value["text"], answers)


def failed(message: str, answers: tuple[Answer, ...] = ()) -> Fetched:
    """A fetch without a page to show."""
    return Fetched(0, "", message, answers)


def resolved(host: str, port: int) -> list[str]:
    """The network addresses of a host, as this machine resolves its name.

    Raises:
        OSError: it has none.
    """
    return list(
        dict.fromkeys(str(found[4][0]) for found in socket.getaddrinfo(host.encode(), port, type=socket.SOCK_STREAM))
    )


@dataclass
class Gateway:
    """What fetches.

    Attributes:
        web: the registered section ``information.web``.
        site: where the own site listens; None where there is none.
        resolve: a host and a port to its network addresses.
        dial: from a checked network address and port to where the connection goes; the same place, but for tests.
        trust: certificates that are believed; by default the system's.
    """

    web: Mapping[str, Any]
    site: Place | None = None
    resolve: Callable[[str, int], list[str]] = resolved
    dial: Callable[[str, int], Place] = lambda address, port: (address, port)
    trust: ssl.SSLContext | None = None
    _deadline: float = field(default=0.0, init=False)

    @cached_property
    def _context(self) -> ssl.SSLContext:
        return self.trust or ssl.create_default_context()

    def prepare(self) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
        """For the child: load what it must not look for once it has given up its privileges."""
        import encodings.idna  # noqa: F401, PLC0415 - the resolver imports it when it is first used

        import urllib3  # noqa: F401, PLC0415

        load_encodings()
        if any(scheme == "https" for scheme, _ in packet.places(self.web)):
            _ = self._context
        return lambda request: self.fetch(str(request["url"])).to_json()

    def fetch(self, url: str) -> Fetched:
        """Get a page.

        Args:
            url: a permitted address in canonical form.
        """
        self._deadline = time.monotonic() + self.web["fetch_seconds"]
        answers: list[Answer] = []
        try:
            return self._follow(url, answers)
        except FetchFailed as failure:
            return failed(str(failure), tuple(answers))

    def _follow(self, url: str, answers: list[Answer]) -> Fetched:
        at = url
        for _ in range(self.web["redirects"] + 1):
            status, headers, answer = self._get(at)
            answers.append(answer)
            target = headers.get("location")
            if status not in REDIRECTS or not target:
                return self._shown(url, at, status, headers, tuple(answers))
            try:
                at = packet.permitted(joined(at, target), self.web)
            except UrlRefused as refusal:
                raise FetchFailed(f"it redirects to an address that is not fetched: {refusal}") from None
        raise FetchFailed(f"it redirects more than {self.web['redirects']} times")

    def _shown(
        self, url: str, at: str, status: int, headers: Mapping[str, str], answers: tuple[Answer, ...]
    ) -> Fetched:
        body = answers[-1].body
        try:
            plain = decompressed(body, headers.get("content-encoding", ""), self.web["body_bytes"])
        except Unreadable as error:
            raise FetchFailed(str(error)) from None
        named = headers.get("content-type", "text/plain" if not plain else "")
        moved = f"[redirected to {at}]\n" if at != url else ""
        text = moved + shown(plain, named, at, max(len(CUT), self.web["text_bytes"] - len(moved)))
        return Fetched(status, media_type(named), text, answers)

    def _get(self, url: str) -> tuple[int, Mapping[str, str], Answer]:
        """One answer: status, headers by lower-case name, and all of it as it is stored."""
        import urllib3  # noqa: PLC0415 - the child's alone
        from urllib3.exceptions import HTTPError  # noqa: PLC0415

        scheme, host = scheme_and_host(url)
        path = url[len(scheme) + len("://") + len(host) :]
        last = "no address of the host answers"
        for address, port in self._places(scheme, host):
            try:
                with self._pool(scheme, host, address, port) as pool:
                    response = pool.request(
                        "GET",
                        path,
                        headers={"Host": host, **HEADERS},
                        redirect=False,
                        retries=False,
                        preload_content=False,
                        decode_content=False,
                        assert_same_host=False,
                        timeout=urllib3.Timeout(connect=self._left(), read=self._left()),
                    )
                    try:
                        headers = storable((str(n), str(v)) for n, v in response.headers.iteritems())
                        body = self._read(response)
                    finally:
                        response.close()
                status = f"{response.status} {response.reason or ''}".strip()
                # the first of several, as for any header that should stand once
                known = {name.lower(): value for name, value in reversed(headers)}
                return response.status, known, Answer(url, status, headers, body)
            except (HTTPError, OSError, ValueError) as error:
                last = _reason(error)
        raise FetchFailed(last)

    def _places(self, scheme: str, host: str) -> list[Place]:
        """Where to connect to: every address of the host, all of which were checked."""
        if host == self.web["site"] and scheme == "http" and self.site is not None:
            return [self.site]
        port = PORTS[scheme]
        try:
            addresses = self.resolve(host, port)
        except OSError:
            raise FetchFailed("the host's name cannot be resolved") from None
        if not addresses or not all(map(is_public, addresses)):
            raise FetchFailed("the host has an address that is not public, which is not connected to")
        return [self.dial(address, port) for address in addresses]

    def _pool(self, scheme: str, host: str, address: str, port: int) -> Any:
        import urllib3  # noqa: PLC0415

        if scheme == "http":
            return urllib3.HTTPConnectionPool(address, port)
        # the connection is to the address, the certificate has to be the host's
        return urllib3.HTTPSConnectionPool(
            address, port, server_hostname=host, assert_hostname=host, ssl_context=self._context
        )

    def _read(self, response: Any) -> bytes:
        body = bytearray()
        while data := response.read1(CHUNK, decode_content=False):
            body += data
            if len(body) > self.web["body_bytes"]:
                raise FetchFailed(f"the page is larger than {self.web['body_bytes']} bytes")
            self._left()
        if response.length_remaining:
            raise FetchFailed("the page is incomplete: the connection ended early")
        return bytes(body)

    def _left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise FetchFailed(late(self.web))
        return left


def late(web: Mapping[str, Any]) -> str:
    """The answer to a fetch that was not done in time."""
    return f"the page did not come within {web['fetch_seconds']:g} s"


def _reason(error: Exception) -> str:
    """An error in words of our own: those of a library or of the system may tell of this machine."""
    from urllib3.exceptions import (  # noqa: PLC0415
        ConnectTimeoutError,
        IncompleteRead,
        ProtocolError,
        ReadTimeoutError,
        SSLError,
    )

    match error:
        case SSLError() | ssl.SSLError():
            return "the host's certificate or encryption is not accepted"
        case ConnectTimeoutError() | ReadTimeoutError() | TimeoutError():
            return "the host did not answer in time"
        case IncompleteRead():
            return "the page is incomplete: the connection ended early"
        case ProtocolError():
            return "the host's answer is not one of HTTP, or the connection ended early"
        case _:
            return "the host cannot be connected to"


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()
