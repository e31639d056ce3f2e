"""HTML to text: simple, bounded, in one pass, and the same wherever it is made."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcpflow.episodes.pages import CUT, decompressed, media_type, shown

URL = "http://a.test/d/page"


def text(source: str | bytes, kind: str = "text/html; charset=utf-8", most: int = 10_000) -> str:
    return shown(source.encode() if isinstance(source, str) else source, kind, URL, most)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("plain", "plain\n"),
        ("", "\n"),
        ("<p>one<p>two", "one\ntwo\n"),
        ("<h1>Title</h1>x<h2 class=a>Next</h2>", "# Title\nx\n\n# Next\n"),
        ("<ul><li>a<li>b</ul>", "- a\n- b\n"),
        ("a  \n\t b<br>c<br/>d", "a b\nc\nd\n"),
        ("&lt;b&gt; &amp;amp; &eacute; &#955; &nbsp;x", "<b> &amp; é λ x\n"),
        ("a<!-- <p>no --> b", "a b\n"),
        ("<!doctype html><?xml x?>a</>b", "ab\n"),
        ("<script>if (a < b) '</p>'</script>b<style>p{}</style>c", "bc\n"),
        ("<SCRIPT src=x></SCRIPT >b", "b\n"),
        ("a<script>never ends", "a\n"),
        ("a<noscript>x</noscript>b<svg><text>y</text></svg>c", "abc\n"),
        ("1 < 2 <3 <", "1 < 2 <3 <\n"),
        ('<a title="a > b" href=next>go</a>', "go <http://a.test/d/next>\n"),
        ("<a href='/x?a=1&amp;b=2'>go</a>", "go <http://a.test/x?a=1&b=2>\n"),
        ('<a href="javascript:x">go</a> <a name=x>here</a>', "go here\n"),
        ("<a href='http://u:secret@b.test/'>go</a>", "go\n"),
        ("<a href=b>never closed", "never closed <http://a.test/d/b>\n"),
        ("<a data-href=no href=yes>x</a>", "x <http://a.test/d/yes>\n"),
        ("<a href=one>x<a href=two>y</a>", "x <http://a.test/d/one>y <http://a.test/d/two>\n"),
        ("<p unclosed", "\n"),
        ('<p title="unclosed>x</p>', "\n"),
        ("it's <b title=it's>bold</b>", "it's bold\n"),
    ],
)
def test_a_page_as_text(source: str, expected: str) -> None:
    assert text(source) == expected


@pytest.mark.parametrize(
    ("body", "kind", "expected"),
    [
        ("ä".encode(), "text/plain; charset=utf-8", "ä\n"),
        (b"\xe4", "text/plain; charset=ISO-8859-1", "ä\n"),
        (b"\x80", 'text/plain; charset="windows-1252"', "€\n"),
        (b"\xff\xfea\0", "text/plain", "a\n"),
        (b"\xef\xbb\xbfa", "text/plain; charset=latin1", "a\n"),
        (b"\xe4", "text/plain", "\N{REPLACEMENT CHARACTER}\n"),
        (b"a", "text/plain; charset=unicode_escape", "a\n"),
        (b"\\x41", "text/plain; charset=unicode_escape", "\\x41\n"),
        (b"a", "text/plain; charset=rot13", "a\n"),
        (b"a", "text/plain; charset=../../x", "a\n"),
        (b"<meta charset=latin1>\xe4", "text/html", "ä\n"),
        (b'{"a": 1}', "application/json", '{"a": 1}\n'),
        (b"<x/>", "application/atom+xml", "<x/>\n"),
        (b"%PDF", "application/pdf", "[4 bytes of application/pdf, which is not shown as text]\n"),
        (b"x", "", "[1 bytes of application/octet-stream, which is not shown as text]\n"),
        (b"x", "text/\nplain", "[1 bytes of application/octet-stream, which is not shown as text]\n"),
    ],
)
def test_encodings_and_media_types(body: bytes, kind: str, expected: str) -> None:
    assert text(body, kind) == expected


def test_what_cannot_be_seen_is_left_out() -> None:
    assert text("a\0b\x1b[31mc\u200bd\u202ee\u2066f\ufeffg\x85h", "text/plain; charset=utf-8") == "ab[31mcdefgh\n"
    assert text("a\r\nb\rc\n\n\n\nd  \n", "text/plain") == "a\nb\nc\n\nd\n"


@pytest.mark.parametrize("most", [256, 1000])
def test_the_text_is_bounded_in_bytes_and_says_so(most: int) -> None:
    found = text("ä" * 1000, most=most)
    assert len(found.encode()) <= most
    assert found.endswith(CUT)
    assert text("x" * (most - 1), most=most) == "x" * (most - 1) + "\n"


@pytest.mark.parametrize(
    "piece",
    ["<a ", "<a '", '<a href="', "<!--", "<script>", "<script></script", "</", "<", "<p>", "&amp;", "<a href=x>", "\n ",
     "<p title='>", "x" * 20 + "\0", "<a href = ", "charset="],
)  # fmt: skip
def test_no_page_takes_long(piece: str) -> None:
    began = time.monotonic()
    text(piece * (150_000 // len(piece)), most=16_384)
    assert time.monotonic() - began < 4


@given(st.binary(max_size=300) | st.text(alphabet="<>/!-a'\"= &;phref\n", max_size=200).map(str.encode))
@settings(max_examples=300, deadline=None, database=None)
def test_any_bytes_are_shown_as_bounded_text(body: bytes) -> None:
    for kind in ("text/html", "text/plain; charset=utf-16", "application/json", "x"):
        found = shown(body, kind, URL, 256)
        assert found == shown(body, kind, URL, 256)
        assert len(found.encode()) <= 256
        assert all(letter.isprintable() or letter in "\n\u00a0" or not letter.isascii() for letter in found)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("Text/HTML; charset=x", "text/html"),
        ("application/vnd.api+json", "application/vnd.api+json"),
        ("", "application/octet-stream"),
        ("text", "application/octet-stream"),
        ("text/html\r\nX: y", "application/octet-stream"),
        ("a/" + "b" * 100, "application/octet-stream"),
    ],
)
def test_the_media_type_is_a_plain_word(header: str, expected: str) -> None:
    assert media_type(header) == expected


def test_what_is_not_compressed_is_itself() -> None:
    assert decompressed(b"x", "", 1) == decompressed(b"x", " Identity ", 1) == b"x"
