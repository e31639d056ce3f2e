"""One canonical form for each address of the Web, and no way around what it refuses."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcpflow.records import packet
from dcpflow.records.urls import UrlRefused, canonical, is_host, joined, scheme_and_host, without_credentials


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://a.test", "http://a.test/"),
        ("HTTP://A.Test/", "http://a.test/"),
        ("http://a.test:80/", "http://a.test/"),
        ("https://a.test:443", "https://a.test/"),
        ("http://a.test:/x", "http://a.test/x"),
        ("http://a.test./x", "http://a.test/x"),
        ("http://a.test/x#part", "http://a.test/x"),
        ("http://a.test#part", "http://a.test/"),
        ("http://a.test?q", "http://a.test/?q"),
        ("http://a.test/?", "http://a.test/?"),
        ("http://a.test/%7Euser/%c3%a4", "http://a.test/~user/%C3%A4"),
        ("http://a.test/ä?ö=ü", "http://a.test/%C3%A4?%C3%B6=%C3%BC"),
        ("http://a.test/a/./b/../c", "http://a.test/a/c"),
        ("http://a.test/../../c/..", "http://a.test/"),
        ("http://a.test/a/..", "http://a.test/"),
        ("http://a.test/a/%2e%2E/b", "http://a.test/b"),
        ("http://a.test//x///y", "http://a.test//x///y"),
        ("http://a.test/100%", "http://a.test/100%25"),
        ("http://a.test/%zz", "http://a.test/%25zz"),
        ("http://a.test/a%2Fb", "http://a.test/a%2Fb"),
        ('http://a.test/<">`{}|^', "http://a.test/%3C%22%3E%60%7B%7D%7C%5E"),
        ("http://a.test/x@y:z", "http://a.test/x@y:z"),
        ("http://xn--bcher-kva.test/", "http://xn--bcher-kva.test/"),
        ("http://a_b.test/", "http://a_b.test/"),
        ("http://a.test/?u=http://b@c/", "http://a.test/?u=http://b@c/"),
    ],
)
def test_two_spellings_of_one_address_have_one_form(url: str, expected: str) -> None:
    assert canonical(url) == expected
    assert canonical(expected) == expected


@pytest.mark.parametrize(
    ("url", "said"),
    [
        *(
            (url, "https:// or http://")
            for url in ("", "a.test", "//a.test/", "/x", "http:/a.test", "http:a.test", "?")
        ),
        *(
            (url, "only https and http")
            for url in ("ftp://a.test/", "file:///etc/passwd", "gopher://a.test/", "ws://a/")
        ),
        *(
            (url, "credentials")
            for url in ("http://u@a.test/", "http://u:p@a.test/", "http://@a.test/", "http://a@b@c/")
        ),
        *((url, "by its name") for url in ("http://127.0.0.1/", "http://1/", "http://0x7f.0x1/", "http://127.1./")),
        *(
            (url, "host name")
            for url in ("http:///x", "http://[::1]/", "http://-a.test/", "http://a..b/", "http://.a/")
        ),
        *((url, "host name") for url in ("http://a%2etest/", "http://a,b/", "http://a.test%00/", "http://a!b/")),
        *((url, "usual ports") for url in ("http://a.test:8080/", "http://a.test:443/", "https://a.test:80/")),
        *((url, "usual ports") for url in ("http://a.test:0080/", "http://a.test:x/", "http://a.test:80:80/")),
        *(
            (url, "xn--")
            for url in ("http://bücher.test/", "http://\u0430.test/", "http://a\u3002test/", "http://①.test/")
        ),
        *((f"http://a.test/{odd}", "no blanks") for odd in (" ", "\r\nX: y", "\0", "\t", "\\..\\x", "\x7f", "\u2028")),
        ("http://a.test\\@b.test/", "no blanks"),
        ("http://a.test/" + "x" * 2000, "at most 2000"),
    ],
)
def test_what_is_no_address_is_refused_with_its_reason(url: str, said: str) -> None:
    with pytest.raises(UrlRefused, match=said):
        canonical(url)


@given(st.text(max_size=60) | st.text(alphabet="htps:/@.[]%?#\\ab01x-", max_size=40).map(lambda text: f"http://{text}"))
@settings(max_examples=500, deadline=None, database=None)
def test_any_text_is_refused_or_has_a_form_that_is_its_own(text: str) -> None:
    try:
        found = canonical(text)
    except UrlRefused:
        return
    assert canonical(found) == found
    assert found.isascii() and found.isprintable() and " " not in found
    scheme, host = scheme_and_host(found)
    assert scheme in {"http", "https"} and is_host(host)
    assert "@" not in found[: len(scheme) + 3 + len(host)]


@pytest.mark.parametrize(
    ("url", "recorded"),
    [
        ("http://user:secret@a.test/x", "http://[credentials]@a.test/x"),
        ("http://secret@a.test", "http://[credentials]@a.test"),
        ("HTTPS://a:b@c:d@e/", "HTTPS://[credentials]@e/"),
        ("//user:secret@a.test/", "//[credentials]@a.test/"),
        ("user:secret@a.test", "user:[credentials]@a.test"),
        (" \n http://user:secret@a.test/", " \n http://[credentials]@a.test/"),
        ("http:\\\\user:secret@a.test/", "http:\\\\[credentials]@a.test/"),
        ("http://a.test/x@y", "http://a.test/x@y"),
        ("http://a.test?x@y", "http://a.test?x@y"),
        ("http://a.test#x@y", "http://a.test#x@y"),
    ],
)
def test_credentials_are_left_out_of_what_is_recorded(url: str, recorded: str) -> None:
    assert without_credentials(url) == recorded
    assert without_credentials(recorded) == recorded


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("b.html", "http://a.test/d/b.html"),
        ("/b", "http://a.test/b"),
        ("?q=1", "http://a.test/d/a?q=1"),
        ("", "http://a.test/d/a"),
        ("//b.test/c", "http://b.test/c"),
        (" a b \n", "http://a.test/d/a%20b"),
        ("https://b.test", "https://b.test/"),
    ],
)
def test_references_are_seen_from_their_page(reference: str, expected: str) -> None:
    assert joined("http://a.test/d/a", reference) == expected


@pytest.mark.parametrize(
    "reference", ["mailto:a@b.test", "javascript:x", "http://[", "a\nb", "http://u@b.test/", "\\\\b"]
)
def test_a_reference_to_nothing_that_is_fetched_is_refused(reference: str) -> None:
    with pytest.raises(UrlRefused):
        joined("http://a.test/", reference)


def test_only_registered_schemes_and_hosts_are_permitted() -> None:
    web = {"site": "own.test", "https_hosts": ["s.test", "both.test"], "http_hosts": ["both.test"]}
    for url in ("http://own.test/", "https://s.test/x", "https://both.test/", "http://BOTH.test:80/"):
        assert packet.permitted(url, web) == canonical(url)
    for url in (
        "https://own.test/",
        "http://s.test/",
        "http://sub.s.test/",
        "http://s.test.evil.test/",
        "http://test/",
    ):
        with pytest.raises(UrlRefused, match="registered hosts"):
            packet.permitted(url, web)
    assert packet.schema(web)["properties"]["url"]["examples"] == [
        "http://own.test/",
        "https://s.test/",
        "https://both.test/",
        "http://both.test/",
    ]
    json.dumps(packet.schema(web))
