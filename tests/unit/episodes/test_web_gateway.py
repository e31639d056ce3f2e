"""The gateway: what it fetches, what it refuses, and that nothing a server does is more than an answer to the agent."""

from __future__ import annotations

import contextlib
import datetime
import gzip
import itertools
import socket
import ssl
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme

from dcpflow.episodes.addresses import is_public
from dcpflow.episodes.gateway import Fetched, Gateway, resolved
from dcpflow.episodes.live_web import GRACE_SECONDS, fetched, live
from dcpflow.episodes.site import pages
from dcpflow.episodes.site import serving as serving_site
from dcpflow.episodes.warc import decode, encode
from dcpflow.errors import UsageError
from dcpflow.records.objects import ObjectStore
from dcpflow.tasks.evaluator import Evaluator

from .web_server import PUBLIC, RULES, Sent, gateway, moved, page, serving

HTML = "text/html; charset=utf-8"


def fetch(answers: dict[str, Sent], url: str = "http://plain.test/", **more: object) -> Fetched:
    with serving(answers) as server:
        return gateway(server, **more).fetch(url)


def failed(found: Fetched) -> str:
    assert (found.status, found.content_type, found.body) == (0, "", b"")
    return found.text


# --- what is fetched ---------------------------------------------------------------------------------------


def test_a_page_is_fetched_with_its_status_type_bytes_and_text() -> None:
    body = b"<title>T</title><p>Hello <a href='next'>there</a></p>"
    found = fetch({"/": page(body, kind=HTML)})
    assert (found.status, found.content_type, found.body) == (200, "text/html", body)
    assert found.text == "T\n\nHello there <http://plain.test/next>\n"
    (answer,) = found.answers
    assert (answer.url, answer.status, answer.body) == ("http://plain.test/", "200 OK", body)


@pytest.mark.parametrize("status", ["404 Not Found", "500 Oops", "204 No Content", "304 Not Modified", "418"])
def test_an_error_of_the_server_is_a_page_like_any_other(status: str) -> None:
    body = b"" if status[:3] in {"204", "304"} else b"no such page"
    found = fetch({"/": page(body, status)})
    assert (found.status, found.body) == (int(status[:3]), body)


def test_the_request_names_the_host_and_carries_nothing_of_this_machine() -> None:
    with serving({"/a?q=1": page(b"x")}) as server:
        gateway(server).fetch("http://plain.test/a?q=1")
        (request,) = server.asked
    lines = request.decode().split("\r\n")
    assert lines[0] == "GET /a?q=1 HTTP/1.1"
    headers = dict(line.split(": ", 1) for line in lines[1:] if line)
    assert headers.keys() == {"Host", "User-Agent", "Accept", "Accept-Encoding", "Connection"}
    assert headers["Host"] == "plain.test"
    assert socket.gethostname() not in request.decode()


def test_chunks_are_the_connection_s_and_no_part_of_the_body() -> None:
    chunked = (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"4;name=value\r\nWiki\r\n5\r\npedia\r\nE\r\n in\r\n\r\nchunks.\r\n0\r\nX-Trailer: 1\r\n\r\n"
    )
    assert fetch({"/": chunked}).body == b"Wikipedia in\r\n\r\nchunks."


def test_a_body_without_length_ends_with_the_connection() -> None:
    assert fetch({"/": b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nto the end"}).body == b"to the end"


def test_an_address_that_does_not_answer_is_followed_by_the_host_s_next_one() -> None:
    with serving({"/": page(b"here")}) as server, socket.create_server(("127.0.0.1", 0)) as closed:
        dead = closed.getsockname()
        closed.close()
        places = {PUBLIC: dead, "93.184.216.35": server.place}
        known = Gateway(RULES, resolve=lambda *_: list(places), dial=lambda address, _: places[address])
        assert known.fetch("http://plain.test/").body == b"here"


# --- redirects ---------------------------------------------------------------------------------------------


def test_redirects_are_followed_and_the_page_says_where_it_was_found() -> None:
    found = fetch({"/": moved("/b"), "/b": moved("http://other.test/c?x", "301 Moved"), "/c?x": page(b"at last")})
    assert found.text == "[redirected to http://other.test/c?x]\nat last\n"
    assert [a.url for a in found.answers] == ["http://plain.test/", "http://plain.test/b", "http://other.test/c?x"]


@pytest.mark.parametrize("hops", [3, 4])
def test_redirects_are_limited(hops: int) -> None:
    answers: dict[str, Sent] = {f"/{n}": moved(f"/{n + 1}") for n in range(hops)} | {f"/{hops}": page(b"end")}
    found = fetch(answers, "http://plain.test/0")
    assert found.status == 200 if hops == 3 else failed(found) == "it redirects more than 3 times"


@pytest.mark.parametrize(
    "target",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://127.0.0.1/",
        "http://[::1]/",
        "http://localhost/",
        "http://unlisted.test/",
        "https://plain.test/",  # listed for http alone
        "http://secure.test/",  # listed for https alone
        "http://plain.test:8080/",
        "http://user:secret@plain.test/",
        "http://plain.test\\@unlisted.test/",
        "file:///etc/passwd",
        "gopher://plain.test/",
        "javascript:alert(1)",
        "http://2130706433/",
        "http://0x7f.1/",
        "//unlisted.test/",
        "http://[",
        "http://plain.test/\tx",
    ],
)
def test_a_redirect_is_checked_like_the_first_address(target: str) -> None:
    with serving({"/": moved(target), "/secret": page(b"secret")}) as server:
        found = gateway(server).fetch("http://plain.test/")
        assert failed(found).startswith("it redirects to an address that is not fetched")
        assert server.paths == ["/"]
    assert "secret" not in found.text
    assert not any("secret" in value for answer in found.answers for _, value in answer.headers)


def test_a_redirect_without_a_target_is_a_page() -> None:
    assert fetch({"/": page(b"where?", "302 Found")}).status == 302


# --- network addresses -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "address",
    [
        *("0.0.0.0", "0.1.2.3", "10.1.2.3", "127.0.0.1", "127.8.8.8", "172.16.0.1", "172.31.255.255", "192.168.1.1"),
        *("100.64.0.1", "100.100.100.200", "100.127.255.255", "169.254.169.254", "168.63.129.16", "192.0.0.192"),
        *("192.0.2.1", "198.51.100.1", "203.0.113.7", "198.18.0.1", "192.88.99.1", "192.175.48.1", "192.31.196.1"),
        *("192.52.193.1", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255"),
        *("::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:8.8.8.8", "::ffff:0:8.8.8.8"),
        *("64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::a00:1", "2002:7f00:1::", "2002:808:808::1"),
        *("2001:0:53aa:64c::1", "2001:10::1", "2001:20::1", "2001:2::1", "2001:db8::1", "3fff::1", "5f00::1"),
        *("100::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "2620:4f:8000::1"),
        *("4000::1", "2606:4700::1%lo", "", "localhost", "127.1", "0x7f000001", "2130706433", "1.2.3.4.5", "::g"),
    ],
)
def test_h16_special_addresses_are_refused_in_whatever_form(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "address", ["8.8.8.8", PUBLIC, "172.32.0.1", "100.63.255.255", "2606:4700::1111", "2a00:1450::1"]
)
def test_public_addresses_are_connected_to(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize("addresses", [["127.0.0.1"], [PUBLIC, "10.0.0.1"], ["2606:4700::1", "::1"], []])
def test_a_host_with_any_address_that_is_not_public_is_not_connected_to(addresses: list[str]) -> None:
    with serving({"/": page(b"inside")}) as server:
        found = gateway(server, {"plain.test": addresses}).fetch("http://plain.test/")
        assert failed(found) == "the host has an address that is not public, which is not connected to"
        assert server.asked == []


def test_the_connection_goes_to_the_address_that_was_checked() -> None:
    """A name that resolves to a public address first and to a private one next is asked once."""
    answers = itertools.chain([[PUBLIC]], itertools.repeat(["127.0.0.1"]))
    dialled = []
    with serving({"/": page(b"x")}) as server:

        def dial(address: str, port: int) -> tuple[str, int]:
            dialled.append((address, port))
            return server.place

        rebinding = Gateway(RULES, resolve=lambda *_: next(answers), dial=dial)
        assert rebinding.fetch("http://plain.test/").body == b"x"
        assert failed(rebinding.fetch("http://plain.test/again"))
    assert dialled == [(PUBLIC, 80)]


def test_each_hop_is_resolved_and_checked_anew() -> None:
    with serving({"/": moved("http://other.test/in")}) as server:
        found = gateway(server, {"other.test": ["10.0.0.7"]}).fetch("http://plain.test/")
        assert "not public" in failed(found)
        assert server.paths == ["/"]


def test_a_name_that_cannot_be_resolved_is_an_answer() -> None:
    with serving({}) as server:
        found = gateway(server, rules={"http_hosts": ["nowhere.test"]}).fetch("http://nowhere.test/")
    assert failed(found) == "the host's name cannot be resolved"


def test_the_system_s_resolver_gives_plain_addresses() -> None:
    assert "127.0.0.1" in resolved("localhost", 80)
    assert not any(map(is_public, resolved("localhost", 80)))


# --- encryption --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def trust(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


def secured(
    authority: trustme.CA, trust: ssl.SSLContext, *names: str, expires: datetime.datetime | None = None
) -> Fetched:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names, not_after=expires).configure_cert(context)
    with serving({"/": page(b"in secret")}, context) as server:
        return gateway(server, trust=trust).fetch("https://secure.test/")


def test_a_certificate_is_held_against_the_host_s_name_and_not_the_address(
    authority: trustme.CA, trust: ssl.SSLContext
) -> None:
    assert secured(authority, trust, "secure.test").body == b"in secret"


@pytest.mark.parametrize("names", [("other.test",), ("127.0.0.1",), ("*.secure.test",)], ids=str)
def test_a_certificate_for_another_name_is_not_accepted(
    authority: trustme.CA, trust: ssl.SSLContext, names: tuple[str, ...]
) -> None:
    assert failed(secured(authority, trust, *names)) == "the host's certificate or encryption is not accepted"


def test_encryption_and_encodings_work_in_the_confined_child_too(authority: trustme.CA, trust: ssl.SSLContext) -> None:
    """There no further module can be imported, at least not as root."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("secure.test").configure_cert(context)
    kinds = {
        "windows-1252": b"\xe4",
        "iso-8859-15": b"\xe4",
        "utf-16": b"\xe4\0",
        "utf-16be": b"\0\xe4",
        "x": b"\xc3\xa4",
    }
    answers: dict[str, Sent] = {
        f"/{name}": page(gzip.compress(body), "200 OK", f"text/html; charset={name}", "Content-Encoding: gzip")
        for name, body in kinds.items()
    }
    with serving(answers, context) as server:
        secure = gateway(server, trust=trust)
        with Evaluator(secure.prepare, 5, 512) as child:
            assert [fetched(child, f"https://secure.test/{name}").text for name in kinds] == ["\u00e4\n"] * len(kinds)
            assert failed(fetched(child, "http://nowhere.test/"))
    with serving(answers, context) as server, Evaluator(gateway(server).prepare, 5, 512) as child:
        assert "certificate" in failed(fetched(child, "https://secure.test/x"))


def test_an_expired_or_unknown_certificate_is_not_accepted(authority: trustme.CA, trust: ssl.SSLContext) -> None:
    past = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    assert "certificate" in failed(secured(authority, trust, "secure.test", expires=past))
    assert "certificate" in failed(secured(trustme.CA(), trust, "secure.test"))
    assert "certificate" in failed(secured(authority, ssl.create_default_context(), "secure.test"))


def test_a_server_without_encryption_is_not_spoken_to_openly() -> None:
    with serving({"/": page(b"open")}) as server:
        found = gateway(server, rules={"fetch_seconds": 0.3}).fetch("https://secure.test/")
    assert failed(found)


# --- limits ------------------------------------------------------------------------------------------------


def test_a_page_beyond_the_limit_is_not_read_to_its_end() -> None:
    sent = []

    def endless(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        while True:
            sent.append(connection.send(b"x" * 65_536))

    assert failed(fetch({"/": endless})) == "the page is larger than 65536 bytes"
    assert sum(sent) < 16 << 20


@pytest.mark.parametrize("size", [65_536, 65_537])
def test_the_limit_is_exact(size: int) -> None:
    found = fetch({"/": page(b"x" * size)})
    assert found.status == (200 if size == 65_536 else 0)


def test_a_slow_page_ends_at_the_time_limit() -> None:
    def drip(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 999\r\n\r\n")
        for _ in range(100):
            connection.sendall(b"x")
            time.sleep(0.05)

    began = time.monotonic()
    found = fetch({"/": drip}, rules={"fetch_seconds": 0.3})
    assert failed(found) == "the page did not come within 0.3 s"
    assert time.monotonic() - began < 2


def test_a_server_that_says_nothing_ends_at_the_time_limit() -> None:
    found = fetch({"/": lambda connection: time.sleep(1)}, rules={"fetch_seconds": 0.2})
    assert failed(found) == "the host did not answer in time"


def test_h16_slow_headers_end_with_the_child_process() -> None:
    """What no time limit of a library sees: each byte comes in time, and the whole never does."""

    def drip(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
        for _ in range(400):
            connection.sendall(b"x")
            time.sleep(0.02)

    with serving({"/": drip}) as server:
        slow = gateway(server, rules={"fetch_seconds": 0.2})
        with Evaluator(slow.prepare, 2, 512, patience=1) as child:
            began = time.monotonic()
            assert failed(fetched(child, "http://plain.test/")) == "the page could not be read: it took too long"
            assert time.monotonic() - began < 7
            assert failed(fetched(child, "http://nowhere.test/")) == "the host's name cannot be resolved"


@pytest.mark.parametrize(
    ("name", "compress"),
    [
        ("gzip", gzip.compress),
        ("x-gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("deflate", lambda data: zlib.compress(data)[2:-4]),
    ],
    ids=["gzip", "x-gzip", "zlib", "raw deflate"],
)
def test_h16_compressed_pages_are_read_and_kept_as_they_were_sent(
    name: str, compress: Callable[[bytes], bytes]
) -> None:
    body = compress(b"hello " * 1000)
    found = fetch({"/": page(body, "200 OK", "text/plain", f"Content-Encoding: {name}")})
    assert (found.body, found.text) == (body, "hello " * 999 + "hello\n")


@pytest.mark.parametrize(
    ("encoding", "body", "said"),
    [
        ("gzip", gzip.compress(b"\0" * (64 << 20)), "the page is larger than 65536 bytes"),
        ("gzip", b"no gzip at all", "the compressed page is damaged"),
        ("gzip", gzip.compress(b"hello " * 99)[:-12], "the compressed page is incomplete"),
        ("br", b"x", "the page is compressed in a way that is not read"),
        ("gzip, gzip", b"x", "the page is compressed in a way that is not read"),
    ],
    ids=["bomb", "damaged", "cut off", "unknown", "twice"],
)
def test_what_cannot_be_decompressed_is_an_answer(encoding: str, body: bytes, said: str) -> None:
    began = time.monotonic()
    found = fetch({"/": page(body, "200 OK", "text/plain", f"Content-Encoding: {encoding}")})
    assert failed(found) == said
    assert time.monotonic() - began < 2


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\0" * 100,
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/9.9 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZZ\r\nx\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 500 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\x80\xff: \xfe\r\nContent-Type: \xff\xfe/\x00\r\n\r\nbody",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 200,
        b"HTTP/1.1 302 Found\r\nLocation: \xff\xfe\r\n\r\n",
        b"HTTP/1.1 200 \x1b[31mred\r\n\r\nbody",
        b"\xff" * 70_000,
    ],
    ids=lambda raw: repr(raw)[2:50],
)
def test_h2_whatever_a_server_sends_is_an_answer_or_a_page(raw: bytes) -> None:
    """In the child, as in a run: nothing may even be a fault of ours there."""
    with serving({"/": raw}) as server, Evaluator(gateway(server).prepare, 5, 512) as child:
        found = Fetched.from_json(child.ask({"url": "http://plain.test/"}))
    assert found.text
    assert found.status or found.body == b""
    list(decode(encode(found.answers)))


# --- what is stored ----------------------------------------------------------------------------------------


def test_private_headers_are_not_stored() -> None:
    private = ("Set-Cookie: session=s3cret", "WWW-Authenticate: Basic s3cret", "Authorization: s3cret")
    both = {
        "/": page(b"", "302 Found", "text/html", "Location: /b", *private),
        "/b": page(b"x", "200 OK", "text/plain", "X-Kept: yes", "set-COOKIE: b=s3cret", *private),
    }
    found = fetch(both)
    assert "s3cret" not in str(found)
    assert b"s3cret" not in encode(found.answers)
    assert ("X-Kept", "yes") in found.answers[1].headers


def test_a_cookie_is_not_sent_back() -> None:
    with serving({"/": page(b"", "302 Found", "t/t", "Location: /b", "Set-Cookie: a=b"), "/b": page(b"x")}) as server:
        gateway(server).fetch("http://plain.test/")
        assert not any(b"cookie" in request.lower() for request in server.asked)


ODD = (
    b"HTTP/1.1 203 Non \xdc Authoritative\r\nX-Empty:\r\nX-Twice: 1\r\nx-twice: 2\r\nX-Latin: \xe4\xff\r\n"
    b"Content-Type:text/plain\r\nX-Folded: a\r\n\tb\r\nTransfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n\r\n"
)


def test_a_warc_holds_each_body_byte_for_byte_whatever_its_headers_and_chunks() -> None:
    body = gzip.compress(bytes(range(256)) * 7 + b"\r\n\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n\r\nWARC/1.1\r\n", mtime=0)
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:1], body[1:40], body[40:])) + b"0\r\n\r\n"
    with serving({"/": moved("/odd"), "/odd": ODD + chunks}) as server:
        found = gateway(server).fetch("http://plain.test/")
    assert found.body == body
    data = encode(found.answers)
    assert data.startswith(b"WARC/1.1\r\n")
    assert list(decode(data)) == [("http://plain.test/", b""), ("http://plain.test/odd", body)]
    assert b"X-Archive-Orig-Transfer-Encoding: chunked" in data


def test_a_warc_is_read_by_others_tools_too() -> None:
    import io

    from warcio.archiveiterator import ArchiveIterator

    with serving({"/": page(gzip.compress(b"hello"), "200 OK", "text/plain", "Content-Encoding: gzip")}) as server:
        found = gateway(server).fetch("http://plain.test/")
    seen = []
    for record in ArchiveIterator(io.BytesIO(encode(found.answers)), check_digests="raise"):
        assert record.http_headers.get_statuscode() == "200"
        seen.append((record.rec_headers.get_header("WARC-Target-URI"), record.content_stream().read()))
    assert seen == [("http://plain.test/", b"hello")]


# --- the own site ------------------------------------------------------------------------------------------


def test_the_own_site_is_the_one_host_that_is_not_public() -> None:
    with serving_site("sqlite-notes.test") as place:
        known = Gateway(RULES | {"site": "sqlite-notes.test"}, place, resolve=lambda *_: ["127.0.0.1"])
        found = known.fetch("http://sqlite-notes.test/")
        assert (found.status, found.body) == (200, pages("sqlite-notes.test")["/"])
        assert known.fetch("http://sqlite-notes.test/none.html").status == 404
        assert "not public" in failed(known.fetch("http://plain.test/"))


def test_a_page_that_redirects_into_the_own_site_gets_its_pages_and_nothing_else_of_loopback() -> None:
    with serving_site("sqlite-notes.test") as place, serving({"/": page(b"inside")}) as inside:
        known = Gateway(
            RULES | {"site": "sqlite-notes.test"},
            place,
            resolve=lambda *_: ["127.0.0.1"],
            dial=lambda *_: inside.place,
        )
        assert failed(known.fetch("http://other.test/"))
        assert inside.asked == []


def test_all_pages_of_the_site_can_be_reached_from_its_index() -> None:
    with serving_site("sqlite-notes.test") as place:
        known = Gateway(RULES | {"site": "sqlite-notes.test"}, place)
        waiting, seen = ["http://sqlite-notes.test/"], {}
        while waiting:
            url = waiting.pop()
            if url not in seen:
                seen[url] = known.fetch(url)
                waiting += [part.partition(">")[0] for part in seen[url].text.split("<")[1:] if part.startswith("http")]
    assert {url.removeprefix("http://sqlite-notes.test") for url in seen} == pages("sqlite-notes.test").keys()
    assert {found.status for found in seen.values()} == {200}
    assert all(200 < len(found.text) < 4_000 for found in seen.values())


@pytest.mark.parametrize("name", ["elsewhere.test", "..", ".", "", "/etc", "sqlite-notes.test/.."])
def test_a_site_that_does_not_ship_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=r"no site .* ships with dcpflow"):
        pages(name)


def test_the_site_ends_with_the_run_and_serves_whoever_asks_oddly() -> None:
    with serving_site("sqlite-notes.test") as place:
        for odd in (b"", b"\r\n\r\n", b"GET /../secret HTTP/1.1\r\n\r\n", b"\xff" * 20_000, b"POST / HTTP/1.1\r\n\r\n"):
            with socket.create_connection(place, timeout=5) as connection, contextlib.suppress(OSError):
                connection.sendall(odd)
                connection.shutdown(socket.SHUT_WR)
                connection.recv(100)
        with socket.create_connection(place, timeout=5) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert connection.recv(100).startswith(b"HTTP/1.1 200 OK")
    with pytest.raises(OSError):
        socket.create_connection(place, timeout=1)


def test_the_site_dies_with_the_process_that_serves_it() -> None:
    program = (
        "import os, time\nfrom dcpflow.episodes.site import serving\n"
        "with serving('sqlite-notes.test') as place:\n    print(place[1], flush=True)\n    time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout
        port = int(process.stdout.readline())
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
        process.kill()
    deadline = time.monotonic() + 5
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            break
        assert time.monotonic() < deadline, "the site is still being served"
        time.sleep(0.02)


# --- recording ---------------------------------------------------------------------------------------------


def test_the_live_web_of_one_episode(tmp_path: Path) -> None:
    rules = RULES | {"site": "sqlite-notes.test", "http_hosts": []}
    objects = ObjectStore(tmp_path)
    with live(rules, objects, lambda: None) as recorder:
        first = recorder.answer("http://sqlite-notes.test/")
        missing = recorder.answer("http://sqlite-notes.test/nothing")
        assert recorder.answer("http://sqlite-notes.test/") == first
    assert (first["page"]["status"], missing["page"]["status"]) == (200, 404)
    packet = recorder.packet
    assert [page.url for page in packet.pages] == ["http://sqlite-notes.test/", "http://sqlite-notes.test/nothing"]
    for page_ in packet.pages:
        assert packet.answer(page_.url) in (first, missing)
    bodies = dict(decode(recorder.store()))
    assert {url: objects.get(packet.by_url[url].body) for url in bodies} == bodies
    assert GRACE_SECONDS > 0
