"""A registry that a static file server publishes: read as its folder is, within limits, from a server that may lie."""

from __future__ import annotations

import os
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from dcpflow.authority import kinds, source
from dcpflow.authority.entry import LARGEST, Checkpoint, Head
from dcpflow.authority.keys import Signer
from dcpflow.authority.log import Log
from dcpflow.errors import EvidenceError, UsageError

DIGEST = f"sha256:{'a' * 64}"
Serve = Callable[[Callable[..., BaseHTTPRequestHandler]], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts a server with a handler on the loopback; returns its address."""
    running = []

    def start(handler: Callable[..., BaseHTTPRequestHandler]) -> str:
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        running.append(server)
        return f"http://127.0.0.1:{server.server_port}/logs/"

    yield start
    for server in running:
        server.shutdown()
        server.server_close()


class Files(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Nothing on the screen."""


class Hostile(BaseHTTPRequestHandler):
    """Answers every request in the same way.

    Attributes:
        status: of the answer.
        headers_more: beside its length.
        body: what it holds.
        missing: bytes that its length announces beyond that.
    """

    status = 200
    headers_more: tuple[tuple[str, str], ...] = ()
    body = b""
    missing = 0

    def do_GET(self) -> None:
        self.send_response(self.status)
        for name, value in (*self.headers_more, ("Content-Length", str(len(self.body) + self.missing))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        """Nothing on the screen."""


class Elsewhere(Hostile):
    status, headers_more = 302, (("Location", "http://169.254.169.254/"),)


class Broken(Hostile):
    status = 500


class Large(Hostile):
    body = b"x" * (LARGEST + 1)


class Short(Hostile):
    body, missing = b"{", 100


class Other(Hostile):
    body = b"<html>"


class Packed(Hostile):
    body, headers_more = b"\x1f\x8b", (("Content-Encoding", "gzip"),)


@pytest.fixture
def published(tmp_path: Path, serve: Serve) -> tuple[Path, str]:
    """A signed registry of three entries: its folder, and the address at which it is served."""
    folder = tmp_path / "site" / "logs"
    signer = Signer.new(tmp_path / "key")
    log = Log.create(folder, Head("published", signer.public))
    for number in range(3):
        log = log.append(kinds.WITNESS, {"registration": DIGEST, "record": DIGEST, "text": str(number)})
    log.sign(signer)
    return folder, serve(partial(Files, directory=str(tmp_path / "site")))


def test_a_published_registry_is_read_as_its_folder_is(published: tuple[Path, str]) -> None:
    folder, address = published
    here, there = Log.open(folder), Log.read(source.of(address))
    assert (there.head, there.entries, there.checkpoint) == (here.head, here.entries, here.checkpoint)
    assert there.prove(2) == here.prove(2)
    with pytest.raises(UsageError, match="cannot be written to"):
        there.append(kinds.WITNESS, {})
    with pytest.raises(UsageError, match="cannot be written to"):
        there.sign(Signer.new(folder.parent / "another"))


def test_a_cut_and_an_edit_are_found_from_afar_too(published: tuple[Path, str], tmp_path: Path) -> None:
    folder, address = published
    kept = Checkpoint.read(Path(shutil.copy(folder / "checkpoint.json", tmp_path / "kept.json")))
    (folder / "entries" / "00000003.json").unlink()
    with pytest.raises(EvidenceError, match="the tail was cut"):
        Log.read(source.of(address))
    (folder / "checkpoint.json").unlink()
    with pytest.raises(EvidenceError, match="the tail was cut: there are 2 entries"):
        Log.read(source.of(address)).verify(kept)
    (folder / "entries" / "00000001.json").unlink()
    with pytest.raises(EvidenceError, match="the tail was cut: there are 0 entries"):
        Log.read(source.of(address)).verify(kept)


@pytest.mark.parametrize(
    ("handler", "says"),
    [
        (Elsewhere, "the server answers 302"),
        (Broken, "the server answers 500"),
        (Large, f"more than {LARGEST} bytes"),
        (Short, r"cannot be read: (ProtocolError|IncompleteRead)|is incomplete"),
        (Other, "not JSON"),
        (Packed, "not UTF-8"),
    ],
)
def test_a_server_that_lies_is_told(handler: type[Hostile], says: str, serve: Serve) -> None:
    with pytest.raises(EvidenceError, match=says):
        Log.read(source.of(serve(handler)))


def test_a_server_that_says_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "SILENCE_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as mute, pytest.raises(EvidenceError, match="read: ReadTimeoutError"):
        Log.read(source.of(f"http://127.0.0.1:{mute.getsockname()[1]}/logs"))


def test_a_server_has_no_more_time_and_bytes_than_are_given(
    published: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, address = published
    monkeypatch.setattr(source, "ALL_BYTES", 100)
    with pytest.raises(EvidenceError, match="or 100 with all before it"):
        Log.read(source.of(address))
    monkeypatch.setattr(source, "ALL_SECONDS", 0.0)
    with pytest.raises(EvidenceError, match="was not read within 0 s"):
        Log.read(source.of(address))


class Dripping(Hostile):
    """Sends headers or the size of a chunk byte by byte, and is never silent for long."""

    start = b""

    def do_GET(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\n" + self.start)
        with suppress(OSError):
            while True:
                self.wfile.write(b"0")
                time.sleep(0.05)


class DrippingHeader(Dripping):
    start = b"X: "


class DrippingChunk(Dripping):
    start = b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("handler", [DrippingHeader, DrippingChunk])
def test_a_server_that_is_never_silent_has_no_more_time_either(
    handler: type[Hostile], serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "ALL_SECONDS", 0.2)
    with pytest.raises(EvidenceError, match=r"was not read within 0\.2 s"):
        Log.read(source.of(serve(handler)))


@pytest.mark.parametrize("name", ["registry.json", "entries/00000004.json", "checkpoint.json"])
def test_a_pipe_in_a_folder_is_not_waited_for(published: tuple[Path, str], name: str) -> None:
    path = published[0] / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    with pytest.raises(EvidenceError, match=r"\.json is no file"):
        Log.open(published[0])


@pytest.mark.parametrize(
    "place",
    ["https://me:secret@example.org/logs", "https://", "http://example.org/logs?x=1", "https://a b/", "http://[/"],
)
def test_an_address_is_a_plain_one(place: str) -> None:
    with pytest.raises(UsageError, match="is no address of a registry"):
        source.of(place)


def test_a_server_that_is_not_there_is_told() -> None:
    with pytest.raises(EvidenceError, match="cannot be read: NewConnectionError"):
        Log.read(source.of("http://127.0.0.1:1/logs"))
