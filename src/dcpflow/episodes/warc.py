"""Answers of the Web as WARC 1.1 records: what archives of the Web are read with, beside our own digests."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from dcpflow.records.urls import without_credentials

Headers = Sequence[tuple[str, str]]

PRIVATE: Final = frozenset(
    {
        "set-cookie",
        "set-cookie2",
        "cookie",
        "authorization",
        "proxy-authorization",
        "www-authenticate",
        "proxy-authenticate",
        "authentication-info",
        "proxy-authentication-info",
    }
)
"""Headers that hold credentials or ask for them: never stored."""
_ADDRESSES: Final = frozenset({"location", "content-location"})
_FRAMING: Final = frozenset({"transfer-encoding", "content-length"})


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer of a server, as it came.

    Attributes:
        url: that it was asked for.
        status: number and reason.
        headers: names and values, in order; those in ``PRIVATE`` were left out.
        body: the bytes behind the transfer coding (chunks), which belongs to the connection; a content coding is kept.
    """

    url: str
    status: str
    headers: Headers
    body: bytes


def storable(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The headers as they may be stored: without those that are private, and without credentials in addresses."""
    return [
        (name, without_credentials(value) if name.lower() in _ADDRESSES else value)
        for name, value in headers
        if name.lower() not in PRIVATE
    ]


def encode(answers: Iterable[Answer]) -> bytes:
    """A WARC 1.1 file of response records, uncompressed. It holds dates and random ids, so no digest rests on it."""
    from warcio.statusandheaders import StatusAndHeaders  # noqa: PLC0415 - needed by the target's job alone
    from warcio.warcwriter import WARCWriter  # noqa: PLC0415

    out = io.BytesIO()
    writer = WARCWriter(out, gzip=False, warc_version="1.1")
    for answer in answers:
        http = StatusAndHeaders(_ascii(answer.status), _framed(answer), protocol="HTTP/1.1")
        payload = io.BytesIO(answer.body)
        record = writer.create_warc_record(answer.url, "response", payload, len(answer.body), http_headers=http)
        writer.write_record(record)
    return out.getvalue()


def _framed(answer: Answer) -> list[tuple[str, str]]:
    """Headers that go with a body without chunks; what the server said of its length and chunks is kept under a name
    that no reader acts on."""
    kept = [
        (f"X-Archive-Orig-{name}" if name.lower() in _FRAMING else _ascii(name), _printable(value))
        for name, value in storable(answer.headers)
    ]
    return [*kept, ("Content-Length", str(len(answer.body)))]


def _ascii(text: str) -> str:
    """Without what the form of a record has no place for."""
    return _printable(text).encode("ascii", "replace").decode()


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def decode(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Address and body of each response record."""
    from warcio.archiveiterator import ArchiveIterator  # noqa: PLC0415

    for record in ArchiveIterator(io.BytesIO(data)):
        if record.rec_type == "response":
            yield record.rec_headers.get_header("WARC-Target-URI"), record.raw_stream.read()
