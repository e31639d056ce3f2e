"""The Web packet, W_obs: what the target run has seen of the Web, and how everybody else sees exactly that.

A page is what one canonical address answered, whether it was a document, an error of the server or a failed fetch. The
packet's digest is over the sorted pages (address, status, media type, digest of the body, digest of the text), so that
neither the order nor the time of fetching enters it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from dcpflow.errors import EvidenceError
from dcpflow.records import canonical, stagefile
from dcpflow.records.layout import Layout
from dcpflow.records.objects import ObjectStore
from dcpflow.records.urls import UrlRefused, scheme_and_host
from dcpflow.records.urls import canonical as canonical_url

SCHEMA: Final = "dcpflow.web-packet/1"
ACTION: Final = "web_fetch"
BUDGET: Final = "web_requests"
PREFIX: Final = "web/"
INDEX: Final = "web/index.txt"
NOTHING: Final = canonical.digest(b"")
REFUSALS: Final = frozenset({"bad_message", "refused", "budget"})
"""Codes of replies to a fetch of which nothing is recorded: they follow from the request and the registration."""


@dataclass(frozen=True, slots=True, order=True)
class Page:
    """What one address answered.

    Attributes:
        url: the address, in canonical form.
        status: of the HTTP answer; 0 where there was none.
        content_type: media type of the answer; empty where there was none.
        body: digest of the body as it was sent, a compressed one still compressed.
        text: digest of what the agent was shown: the page as text, or why there is none.
    """

    url: str
    status: int
    content_type: str
    body: str
    text: str


@dataclass(frozen=True)
class Packet:
    """Pages with their texts.

    Attributes:
        pages: sorted, each address once.
        texts: by digest.
    """

    pages: tuple[Page, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def by_url(self) -> dict[str, Page]:
        """Each page by its address."""
        return {page.url: page for page in self.pages}

    @property
    def digest(self) -> str:
        """Of the content alone."""
        return canonical.digest(self.to_bytes())

    def to_bytes(self) -> bytes:
        """The form that is hashed and stored: one list for each page."""
        return canonical.encode([[p.url, p.status, p.content_type, p.body, p.text] for p in self.pages])

    @property
    def named(self) -> dict[str, Page]:
        """The pages that can be read as files, by file name; no other file's name begins alike."""
        return {f"{PREFIX}{number:04d}.txt": page for number, page in enumerate(self.pages, 1)}

    @property
    def files(self) -> dict[str, str]:
        """The packet as an agent is given it: each page's text, and an index of their addresses."""
        if not self.pages:
            return {}
        index = "".join(f"{name} {page.status} {page.url}\n" for name, page in self.named.items())
        return {INDEX: index, **{name: self.texts[page.text] for name, page in self.named.items()}}

    def answer(self, url: str) -> dict[str, Any] | None:
        """What a fetch of a canonical address is answered, but for the request's id; None if it was not recorded."""
        page = self.by_url.get(url)
        return None if page is None else answer(page, self.texts[page.text])


def answer(page: Page, text: str) -> dict[str, Any]:
    """The fields of the reply that shows a page, or why there is none."""
    if not page.status:
        return failure("fetch_failed", text)
    return {
        "ok": True,
        "page": {"url": page.url, "status": page.status, "content_type": page.content_type, "text": text},
    }


def failure(code: str, message: str) -> dict[str, Any]:
    """The fields of a reply that has nothing to show."""
    return {"ok": False, "error": {"code": code, "message": message}}


def not_recorded() -> dict[str, Any]:
    """What a fetch is answered whose address nobody has seen."""
    return failure("not_recorded", f"this address was not recorded; {INDEX} lists those that were")


def of(found: Iterable[Page], texts: Mapping[str, str]) -> Packet:
    """The packet of some pages."""
    return Packet(tuple(sorted(found)), dict(texts))


# --- what may be asked for ---------------------------------------------------------------------------------


def schema(web: Mapping[str, Any]) -> dict[str, Any]:
    """JSON Schema of the payload of ``web_fetch``, shown to agents; its examples are where reading can begin."""
    return {
        "type": "object",
        "properties": {
            "url": {
                "type": "string",
                "description": f"an address on one of the hosts {', '.join(h for _, h in places(web)) or '(none)'}",
                "examples": [f"{scheme}://{host}/" for scheme, host in places(web)],
            }
        },
        "required": ["url"],
        "additionalProperties": False,
    }


def places(web: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Scheme and host of all that may be fetched from, the own site first."""
    own = [("http", web["site"])] if web["site"] else []
    named = [("https", host) for host in web["https_hosts"]] + [("http", host) for host in web["http_hosts"]]
    return list(dict.fromkeys([*own, *named]))


def permitted(url: str, web: Mapping[str, Any]) -> str:
    """The canonical form of an address that may be fetched.

    Raises:
        UrlRefused: it is no such address.
    """
    known = canonical_url(url)
    if scheme_and_host(known) not in places(web):
        allowed = ", ".join(f"{scheme}://{host}" for scheme, host in places(web)) or "nothing"
        raise UrlRefused(f"the registered hosts alone are fetched from: {allowed}")
    return known


# --- on disk -----------------------------------------------------------------------------------------------


def store(objects: ObjectStore, packet: Packet) -> str:
    """Store pages and texts; bodies were stored as they came. Returns the packet's digest."""
    for text in packet.texts.values():
        objects.put(text.encode())
    return objects.put(packet.to_bytes())


def load(objects: ObjectStore, digest: str, remedy: str = "") -> Packet:
    """A stored packet, every digest followed: pages, bodies and texts.

    Raises:
        EvidenceError: something is missing, altered, or no packet.
    """
    what = "the Web packet"
    pages = _pages(canonical.decode(objects.get(digest, what, remedy), what), remedy)
    for page in pages:
        objects.get(page.body, f"what {page.url} answered", remedy)
    texts = {page.text: objects.get(page.text, f"the text of {page.url}", remedy) for page in pages}
    try:
        packet = Packet(pages, {name: data.decode() for name, data in texts.items()})
    except UnicodeDecodeError:
        raise EvidenceError(f"{what} {digest} has a text that is not UTF-8", remedy) from None
    if packet.digest != digest or list(pages) != sorted(set(pages)) or len(packet.by_url) != len(pages):
        raise EvidenceError(f"{what} {digest} does not list each address once, in order", remedy)
    return packet


def _pages(value: Any, remedy: str) -> tuple[Page, ...]:
    kinds = (str, int, str, str, str)
    rows = value if isinstance(value, list) else [value]
    for row in rows:
        fits = isinstance(row, list) and len(row) == len(kinds)
        if not fits or any(type(item) is not kind for item, kind in zip(row, kinds, strict=True)):
            raise EvidenceError(f"{row!r:.60} is no page of a Web packet", remedy)
    return tuple(Page(*row) for row in rows)


def members(packet: Packet) -> set[str]:
    """Digests of all that a packet consists of."""
    return {packet.digest, *(digest for page in packet.pages for digest in (page.body, page.text))}


def body(contract: str, target_record: str, packet_digest: str) -> dict[str, Any]:
    """Content of the file that hands the packet from the target run to the stages that read it."""
    return {"contract": contract, "target_record": target_record, "packet": packet_digest}


def read(layout: Layout, contract: str) -> dict[str, Any]:
    """The file that names the packet.

    Raises:
        EvidenceError: it is missing, altered, or of another contract.
    """
    return stagefile.read(layout.packet, SCHEMA, "the Web packet's file", contract=contract)[0]


# --- what a transcript says of it --------------------------------------------------------------------------


def seen(request: Mapping[str, Any], reply: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a fetch has shown: ``{"request", "reply"}`` with the canonical address and without the request's id.

    None where nothing was fetched: it was another request, or was refused for its form, its host or its number.
    """
    if request.get("action") != ACTION or reply.get("error", {}).get("code") in REFUSALS:
        return None
    return exchange(canonical_url(str(request["url"])), {name: value for name, value in reply.items() if name != "id"})


def exchange(url: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """A fetch with its answer, as a checkpoint holds it."""
    return {"request": {"action": ACTION, "url": url}, "reply": dict(fields)}


def quoted(quotes: Mapping[str, str], asked: Mapping[str, str]) -> dict[str, bool]:
    """Whether exactly what was asked for was quoted, byte for byte.

    Args:
        quotes: digest of each quoted text, by file name.
        asked: the files that had to be quoted.

    Returns:
        ``canary_quoted`` for files of the episode's own, ``packet_quoted`` for pages of the Web packet.
    """
    expected = {name: canonical.digest(text.encode()) for name, text in asked.items()}

    def part(of: Mapping[str, str], web: bool) -> dict[str, str]:
        return {name: digest for name, digest in of.items() if name.startswith(PREFIX) is web}

    return {
        "canary_quoted": part(quotes, web=False) == part(expected, web=False),
        "packet_quoted": part(quotes, web=True) == part(expected, web=True),
    }
