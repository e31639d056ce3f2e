"""Addresses of the Web in one canonical form, without credentials: how a recorded page is found again."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urljoin

MAX_URL: Final = 2_000
SCHEMES: Final = ("https", "http")
_PARTS: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^?#]*)(?:\?([^#]*))?(?:#.*)?", re.DOTALL)
_CONTROL: Final = re.compile(r"[\x00-\x20\x7f-\xa0\u2028\u2029\\]")
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_ESCAPE: Final = re.compile(r"%([0-9A-Fa-f]{2})?")
_UNRESERVED: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_KEPT: Final = _UNRESERVED | frozenset("!$&'()*+,;=:@/?%")
_USERINFO: Final = re.compile(r"(\s*(?:[A-Za-z][A-Za-z0-9+.-]*:)?[/\\]*)[^/?#\\]*@")
CREDENTIALS: Final = "[credentials]"


class UrlRefused(ValueError):
    """An address that is not fetched; the message says why, in words for whoever gave it."""


def canonical(url: str) -> str:
    """The one form of an address: two that differ only in spelling have the same.

    Scheme and host in lower case, no default port, no fragment, dot segments resolved, percent escapes in capitals and
    only where they are needed. Host names are ASCII: an international one is given in its ``xn--`` form, so that no
    table of letters decides which host is meant.

    Raises:
        UrlRefused: it is no address of HTTPS or HTTP, holds credentials, or names its host by a number.
    """
    if len(url) > MAX_URL:
        raise UrlRefused(f"an address has at most {MAX_URL} characters")
    if _CONTROL.search(url):
        raise UrlRefused("an address has no blanks, line ends, control characters or backslashes")
    parts = _PARTS.fullmatch(url)
    if parts is None:
        raise UrlRefused("an address begins with https:// or http:// and a host name")
    scheme = parts[1].lower()
    if scheme not in SCHEMES:
        raise UrlRefused("only https and http are fetched")
    if "@" in parts[2]:
        raise UrlRefused("an address with credentials is not fetched, and its credentials are not recorded")
    path, query = _escaped(_without_dots(_escaped(parts[3]))), parts[4]
    return f"{scheme}://{_host(parts[2], scheme)}{path or '/'}{'' if query is None else f'?{_escaped(query)}'}"


def joined(base: str, reference: str) -> str:
    """The canonical form of a reference in a page or a redirect, seen from the page's own address.

    Raises:
        UrlRefused: as for :func:`canonical`.
    """
    written = reference.strip(" \t\r\n\f").replace(" ", "%20")
    if _CONTROL.search(written):  # which joining would silently leave out
        raise UrlRefused("an address has no line ends, control characters or backslashes")
    try:
        whole = urljoin(base, written)
    except ValueError:
        raise UrlRefused("it refers to no address") from None
    return canonical(whole)


def scheme_and_host(url: str) -> tuple[str, str]:
    """Scheme and host of a canonical address."""
    scheme, _, rest = url.partition("://")
    return scheme, re.split(r"[/?]", rest, maxsplit=1)[0]


def without_credentials(url: str) -> str:
    """The address as it may be recorded: whatever stands before an ``@`` in front of the path is left out."""
    found = _USERINFO.match(url)
    return f"{found[1]}{CREDENTIALS}@{url[found.end() :]}" if found else url


def is_host(name: str) -> bool:
    """Whether this is a host name in canonical form, and no number."""
    try:
        return _host(name, "") == name
    except UrlRefused:
        return False


def _host(authority: str, scheme: str) -> str:
    name, colon, port = authority.lower().partition(":")
    name = name.removesuffix(".")
    if not name.isascii():
        raise UrlRefused("a host name is ASCII: give an international one in its xn-- form")
    labels = name.split(".")
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise UrlRefused("an address needs a host name, such as www.example.org")
    if _NUMBER.fullmatch(labels[-1]):
        raise UrlRefused("a host is given by its name, not by a number")
    if colon and port not in {"", {"https": "443", "http": "80"}.get(scheme)}:
        raise UrlRefused("only the usual ports are fetched from: 443 for https, 80 for http")
    return name


def _escaped(text: str) -> str:
    """With capitals in escapes, none where it is not needed, and one wherever it is."""

    def normal(found: re.Match[str]) -> str:
        if found[1] is None:
            return "%25"
        letter = chr(int(found[1], 16))
        return letter if letter in _UNRESERVED else f"%{found[1].upper()}"

    normalised = _ESCAPE.sub(normal, text)
    return "".join(
        letter if letter in _KEPT else "".join(f"%{byte:02X}" for byte in letter.encode("utf-8", "surrogatepass"))
        for letter in normalised
    )


def _without_dots(path: str) -> str:
    """The path with ``.`` and ``..`` resolved; it never leads above the root."""
    kept: list[str] = []
    segments = path.split("/")[1:]
    for place, segment in enumerate(segments):
        if segment == "..":
            kept = kept[:-1]
        elif segment != ".":
            kept.append(segment)
        if segment in {".", ".."} and place == len(segments) - 1:
            kept.append("")
    return "".join(f"/{segment}" for segment in kept)
