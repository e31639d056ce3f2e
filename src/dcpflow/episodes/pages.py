"""What an agent is shown of a Web page: its text, made from the bytes alone, in one pass, and bounded.

No browser: scripts and styles are dropped, blocks become lines, links keep their address. The same bytes give the same
text on every machine, and nothing in them can make this slow.
"""

from __future__ import annotations

import codecs
import html
import re
import zlib
from collections.abc import Iterator
from typing import Final

from dcpflow.records.urls import UrlRefused, joined

CUT: Final = "\n[the text was cut off here]\n"
UNNAMED: Final = "application/octet-stream"
_MEDIA_TYPE: Final = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,60}/[a-z0-9][a-z0-9!#$&^_.+-]{0,60}")
_CHARSET: Final = re.compile(r"charset\s*=\s*[\"']?([A-Za-z0-9_:.-]{1,40})")
_ENCODINGS: Final = {
    **dict.fromkeys(("iso-8859-1", "latin1", "latin-1", "windows-1252", "cp1252"), "cp1252"),
    **dict.fromkeys(("iso-8859-15", "latin-9"), "iso8859-15"),
    **dict.fromkeys(("utf-16", "utf-16le"), "utf-16-le"),
    "utf-16be": "utf-16-be",
}
"""Other encodings than UTF-8 that are read; whatever else a server names is read as UTF-8."""
_TEXTUAL: Final = re.compile(r"text/.+|application/(?:.+\+)?(?:json|xml|javascript|yaml)")
_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
_DROPPED: Final = frozenset({"script", "style", "template", "noscript", "svg", "iframe", "object"})
_HEADINGS: Final = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_LINES: Final = _HEADINGS | {
    *("address", "article", "aside", "blockquote", "br", "dd", "details", "div", "dl", "dt", "figcaption", "figure"),
    *("footer", "form", "header", "hr", "li", "main", "nav", "ol", "p", "pre", "section", "summary", "table", "td"),
    *("th", "title", "tr", "ul"),
}
_TAG_NAME: Final = re.compile(r"/?([A-Za-z][A-Za-z0-9]*)")
_HREF: Final = re.compile(r"\shref\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+))", re.IGNORECASE)
_UNSEEN: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")


class Unreadable(ValueError):
    """A body that cannot be decompressed within the limits; the message says why."""


def media_type(header: str) -> str:
    """The media type that a Content-Type header names, in lower case, without parameters."""
    name = header.partition(";")[0].strip().lower()
    return name if _MEDIA_TYPE.fullmatch(name) else UNNAMED


def decompressed(body: bytes, encoding: str, most: int) -> bytes:
    """The body behind its Content-Encoding.

    Args:
        body: as it was sent.
        encoding: the header's value.
        most: bytes that it may decompress to.

    Raises:
        Unreadable: it is more, damaged, or compressed in a way that is not read.
    """
    name = encoding.strip().lower()
    if name in {"", "identity"}:
        return body
    if name not in {"gzip", "x-gzip", "deflate"}:
        raise Unreadable("the page is compressed in a way that is not read")
    raw = name == "deflate" and body[:1] and body[0] & 0x0F != 8
    reading = zlib.decompressobj(zlib.MAX_WBITS if name == "deflate" else zlib.MAX_WBITS | 16)
    if raw:
        reading = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        data = reading.decompress(body, most + 1)
    except zlib.error:
        raise Unreadable("the compressed page is damaged") from None
    if len(data) > most:
        raise Unreadable(f"the page is larger than {most} bytes")
    if not reading.eof:
        raise Unreadable("the compressed page is incomplete")
    return data


def shown(body: bytes, content_type: str, url: str, most: int) -> str:
    """The text that the agent is shown of a page.

    Args:
        body: decompressed.
        content_type: the whole header.
        url: where the page was found, to which its links are relative.
        most: bytes that the text may have in UTF-8.
    """
    kind = media_type(content_type)
    if not _TEXTUAL.fullmatch(kind):
        return f"[{len(body)} bytes of {kind}, which is not shown as text]\n"
    text = _decoded(body, content_type, kind)
    return _bounded(_clean(_plain(text, url) if kind in _HTML else text), most)


def load_encodings() -> None:
    """Import what reading other encodings than UTF-8 takes, while files can be read."""
    for name in {*_ENCODINGS.values(), "utf-8", "ascii"}:
        codecs.lookup(name)


def _decoded(body: bytes, content_type: str, kind: str) -> str:
    for mark, encoding in ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")):
        if body.startswith(mark):
            return body[len(mark) :].decode(encoding, "replace")
    named = _CHARSET.search(content_type)
    if named is None and kind in _HTML:
        named = _CHARSET.search(body[:1024].decode("ascii", "replace"))
    return body.decode(_ENCODINGS.get(named[1].lower(), "utf-8") if named else "utf-8", "replace")


def _plain(source: str, url: str) -> str:
    """An HTML document as text: blocks as lines, headings marked, links followed by their address."""
    written: list[str] = []
    address = ""
    for tag, closing, content in _tokens(source):
        if not tag:
            written.append(re.sub(r"\s+", " ", html.unescape(content)))
        elif tag == "a":
            if address:
                written.append(f" <{address}>")
            address = "" if closing else _target(content, url)
        elif tag in _LINES:
            written.append("\n")
            if tag in _HEADINGS and not closing:
                written.append("\n# ")
            elif tag == "li" and not closing:
                written.append("- ")
    if address:
        written.append(f" <{address}>")
    return "".join(written)


def _tokens(source: str) -> Iterator[tuple[str, bool, str]]:
    """Name, whether it closes, and content of each tag; text has no name. Each letter is looked at once."""
    place = 0
    while place < len(source):
        start = source.find("<", place)
        if start < 0:
            yield "", False, source[place:]
            return
        if start > place:
            yield "", False, source[place:start]
        if source.startswith("<!--", start):
            place = _behind(source, "-->", start + 4)
            continue
        name = _TAG_NAME.match(source, start + 1)
        if name is None:
            # a declaration or an instruction is nothing to show, and any other "<" is itself
            special = source[start + 1 : start + 2] in {"!", "?", "/"}
            place = _behind(source, ">", start) if special else start + 1
            if not special:
                yield "", False, "&lt;"
            continue
        end = _end_of_tag(source, name.end())
        closing, tag = source[start + 1] == "/", name[1].lower()
        yield tag, closing, source[name.end() : end]
        place = end + 1
        if tag in _DROPPED and not closing and source[end - 1 : end] != "/":
            place = _end_of_dropped(source, tag, place)


def _end_of_tag(source: str, place: int) -> int:
    """Where the ``>`` of a tag stands that is not inside of quotes; the end of the document where none does."""
    quote = ""
    while place < len(source):
        letter = source[place]
        if quote:
            closing = source.find(quote, place)
            place, quote = (len(source) if closing < 0 else closing), ""
        elif letter == ">":
            return place
        elif letter in "\"'" and source[place - 1] == "=":
            quote = letter
        place += 1
    return len(source)


def _end_of_dropped(source: str, tag: str, place: int) -> int:
    found = re.compile(rf"</{tag}(?=[\s/>])", re.IGNORECASE).search(source, place)
    return found.start() if found else len(source)


def _behind(source: str, mark: str, place: int) -> int:
    found = source.find(mark, place)
    return len(source) if found < 0 else found + len(mark)


def _target(attributes: str, url: str) -> str:
    found = _HREF.search(f" {attributes}")
    if found is None:
        return ""
    try:
        return joined(url, html.unescape(next(filter(None, found.groups()), "")))
    except UrlRefused:
        return ""


def _clean(text: str) -> str:
    """Without control and invisible characters, blanks at line ends, or more than one empty line in a row."""
    unified = text.replace("\r\n", "\n").replace("\r", "\n").replace("\t", " ").replace("\x0c", "\n")
    lines = [_UNSEEN.sub("", line).strip(" \u00a0") for line in unified.split("\n")]
    kept = [line for place, line in enumerate(lines) if line or (place and lines[place - 1])]
    return "\n".join(kept).strip("\n") + "\n"


def _bounded(text: str, most: int) -> str:
    data = text.encode()
    if len(data) <= most:
        return text
    return data[: max(0, most - len(CUT))].decode("utf-8", "ignore") + CUT
