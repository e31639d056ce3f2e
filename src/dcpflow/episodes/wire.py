"""The way from a client of an API onto the network: a connection for each call, a deadline, nothing unasked for.

The clients bring their own headers, some from the environment, and time limits that hold between two packets only.
Here a call has a deadline for all of it, an answer has a largest size, and of the headers those are sent that are
meant. No thread is needed, and no connection outlives its call: the process forks between calls.
"""

from __future__ import annotations

import contextlib
import ssl
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

import httpcore2
import httpx2

SLICE_SECONDS: Final = 5.0
CONNECT_SECONDS: Final = 20.0
_SENT: Final = frozenset({"host", "accept", "content-type", "content-length", "user-agent", "anthropic-version"})


class Wire(httpx2.BaseTransport):
    """Carries one call at a time.

    Args:
        heartbeat: called every few seconds while an answer is awaited.
        key: to send with each call; empty for none. The clients know none, so that nothing of theirs can show it.
        max_bytes: largest answer; of a larger one, one byte more is handed on, by which it is known.
    """

    def __init__(self, heartbeat: Callable[[], None], key: str, max_bytes: int) -> None:
        self._heartbeat = heartbeat
        self._max_bytes = max_bytes
        self._own = [(b"Accept-Encoding", b"identity"), (b"Connection", b"close")]
        self._own += [(b"Authorization", f"Bearer {key}".encode())] if key else []

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """The whole answer to a request.

        Raises:
            httpx2.ReadTimeout: it has not come in time.
            httpx2.NetworkError: it was lost on the way, or half of it.
        """
        deadline = time.monotonic() + request.extensions["timeout"]["read"]
        kept = [(name, value) for name, value in request.headers.raw if name.decode("latin-1").lower() in _SENT]
        url = request.url
        asked = httpcore2.Request(
            request.method,
            httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            headers=[*kept, *self._own],
            content=request.read(),
        )
        try:
            with httpcore2.ConnectionPool(
                ssl_context=ssl.create_default_context() if url.scheme == "https" else None,
                network_backend=_Network(self._heartbeat, deadline),
            ) as pool:
                answered = pool.handle_request(asked)
                content = _limited(answered, self._max_bytes)
                answered.close()
        except (httpcore2.ReadTimeout, httpcore2.WriteTimeout) as error:
            raise httpx2.ReadTimeout(str(error)) from None
        except (httpcore2.TimeoutException, httpcore2.NetworkError, httpcore2.ProtocolError) as error:
            raise httpx2.NetworkError(f"{type(error).__name__}: {error}") from None
        # one that was compressed all the same is not unpacked: small bytes can become large ones
        headers = [(name, value) for name, value in answered.headers if name.lower() != b"content-encoding"]
        return httpx2.Response(answered.status, headers=headers, content=content)


def _limited(answered: httpcore2.Response, max_bytes: int) -> bytes:
    content = bytearray()
    assert isinstance(answered.stream, Iterable)
    for part in answered.stream:
        content += part
        if len(content) > max_bytes:
            break
    return bytes(content[: max_bytes + 1])


class _Network(httpcore2.NetworkBackend):
    """Connects within a deadline."""

    def __init__(self, heartbeat: Callable[[], None], deadline: float) -> None:
        self._heartbeat = heartbeat
        self._deadline = deadline
        self._plain = httpcore2.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        """A stream that keeps the deadline; an address that does not answer at all is given up earlier."""
        seconds = min(CONNECT_SECONDS, _left(self._deadline))
        stream = self._plain.connect_tcp(host, port, seconds, local_address, socket_options)
        return _Stream(stream, self._heartbeat, self._deadline)


class _Stream(httpcore2.NetworkStream):
    """Reads a little longer, again and again, and shows in between that somebody waits."""

    def __init__(self, stream: httpcore2.NetworkStream, heartbeat: Callable[[], None], deadline: float) -> None:
        self._stream = stream
        self._heartbeat = heartbeat
        self._deadline = deadline
        self._beat = time.monotonic()

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """What comes next, until the deadline, also of what comes a byte at a time."""
        while (now := time.monotonic()) < self._deadline:
            if now - self._beat >= SLICE_SECONDS:
                self._beat = now
                self._heartbeat()
            with contextlib.suppress(httpcore2.ReadTimeout):
                return self._stream.read(max_bytes, min(SLICE_SECONDS, _left(self._deadline)))
        raise httpcore2.ReadTimeout("the deadline has passed")

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send all of it, or what the other side takes until the deadline."""
        self._stream.write(buffer, min(CONNECT_SECONDS, _left(self._deadline)))

    def close(self) -> None:
        """End the connection."""
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        """The same over TLS."""
        seconds = min(CONNECT_SECONDS, _left(self._deadline))
        stream = self._stream.start_tls(ssl_context, server_hostname, seconds)
        return _Stream(stream, self._heartbeat, self._deadline)

    def get_extra_info(self, info: str) -> Any:
        """What the stream below says."""
        return self._stream.get_extra_info(info)


def _left(deadline: float) -> float:
    """Seconds until a deadline; never none at all, which to a socket means not to wait."""
    return max(0.001, deadline - time.monotonic())
