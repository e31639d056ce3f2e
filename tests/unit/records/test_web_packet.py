"""The Web packet: a digest of content alone, read with every digest followed."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path

import pytest

from dcpflow.errors import EvidenceError
from dcpflow.records import canonical, packet
from dcpflow.records.objects import ObjectStore
from dcpflow.records.packet import NOTHING, Packet, Page


def pages() -> tuple[list[Page], dict[str, str]]:
    texts = {canonical.digest(text.encode()): text for text in ("one\n", "zwei ä\n", "the host did not answer in time")}
    one, two, late = texts
    found = [
        Page("http://a.test/", 200, "text/html", canonical.digest(b"<p>one"), one),
        Page("http://a.test/b", 404, "text/plain", canonical.digest(b"zwei"), two),
        Page("https://c.test/", 0, "", NOTHING, late),
    ]
    return found, texts


@pytest.fixture
def objects(tmp_path: Path) -> ObjectStore:
    store = ObjectStore(tmp_path)
    for body in (b"<p>one", b"zwei", b""):
        store.put(body)
    return store


def test_the_digest_does_not_depend_on_the_order_of_fetching() -> None:
    found, texts = pages()
    digests = {packet.of(order, texts).digest for order in permutations(found)}
    rows = sorted([p.url, p.status, p.content_type, p.body, p.text] for p in found)
    assert digests == {canonical.digest_of(rows)}


@pytest.mark.parametrize("field", ["url", "status", "content_type", "body", "text"])
def test_the_digest_depends_on_all_that_is_seen(field: str) -> None:
    from dataclasses import replace

    found, texts = pages()
    changed = replace(found[0], **{field: 201 if field == "status" else found[1].url if field == "url" else NOTHING})
    assert packet.of([changed, found[2]], texts).digest != packet.of([found[0], found[2]], texts).digest


def test_a_stored_packet_is_read_back_with_its_texts(objects: ObjectStore) -> None:
    found = packet.of(*pages())
    digest = packet.store(objects, found)
    assert packet.load(objects, digest) == found
    assert packet.members(found) == {digest, *(d for page in found.pages for d in (page.body, page.text))}


def test_an_empty_packet_is_a_packet(objects: ObjectStore) -> None:
    assert packet.load(objects, packet.store(objects, Packet())) == Packet()
    assert Packet().files == {}


def test_every_object_of_a_packet_is_followed(objects: ObjectStore) -> None:
    found = packet.of(*pages())
    digest = packet.store(objects, found)
    for member in packet.members(found):
        path = objects.path(member)
        whole = path.read_bytes()
        path.chmod(0o644)
        path.write_bytes(whole + b" ")
        with pytest.raises(EvidenceError, match="was altered"):
            packet.load(objects, digest)
        path.unlink()
        with pytest.raises(EvidenceError, match="is missing"):
            packet.load(objects, digest)
        path.write_bytes(whole)
    assert packet.load(objects, digest) == found


@pytest.mark.parametrize(
    "rows",
    [
        "{}",
        "[1]",
        '[["http://a.test/",200,"text/html"]]',
        '[["http://a.test/","200","text/html","B","T"]]',
        '[["http://a.test/",true,"text/html","B","T"]]',
        '[["http://b.test/",200,"a/b","B","T"],["http://a.test/",200,"a/b","B","T"]]',
        '[["http://a.test/",200,"a/b","B","T"],["http://a.test/",200,"a/b","B","T"]]',
        '[["http://a.test/",200,"a/b","B","T"],["http://a.test/",201,"a/b","B","T"]]',
        '[ ["http://a.test/",200,"a/b","B","T"] ]',
        '[["http://a.test/",200,"a/b","no digest","T"]]',
        '[["http://a.test/",200,"a/b","B","L"]]',
        "not JSON",
    ],
)
def test_what_is_no_packet_is_refused(rows: str, objects: ObjectStore) -> None:
    data = rows.replace('"B"', f'"{NOTHING}"').replace('"T"', f'"{NOTHING}"')
    data = data.replace('"L"', f'"{objects.put(bytes([255]))}"')
    with pytest.raises(EvidenceError):
        packet.load(objects, objects.put(data.encode()))


def test_files_hold_what_was_seen_and_their_names_are_ours() -> None:
    found = packet.of(*pages())
    assert found.files == {
        "web/index.txt": "web/0001.txt 200 http://a.test/\nweb/0002.txt 404 http://a.test/b\nweb/0003.txt 0 https://c.test/\n",
        "web/0001.txt": "one\n",
        "web/0002.txt": "zwei ä\n",
        "web/0003.txt": "the host did not answer in time",
    }
    assert all(name.startswith(packet.PREFIX) for name in found.files)


def test_replies_show_pages_errors_and_failures_alike() -> None:
    found = packet.of(*pages())
    assert found.answer("http://a.test/b") == {
        "ok": True,
        "page": {"url": "http://a.test/b", "status": 404, "content_type": "text/plain", "text": "zwei ä\n"},
    }
    error = {"code": "fetch_failed", "message": "the host did not answer in time"}
    assert found.answer("https://c.test/") == {"ok": False, "error": error}
    assert found.answer("http://a.test/c") is None
    assert packet.not_recorded()["error"]["code"] == "not_recorded"


def test_what_was_seen_is_told_from_the_conversation() -> None:
    request = {"id": "x", "action": "web_fetch", "url": "HTTP://A.test"}
    reply = {"id": "x", **(packet.of(*pages()).answer("http://a.test/") or {})}
    assert packet.seen(request, reply) == packet.exchange("http://a.test/", json.loads(json.dumps(reply)) | {}) | {
        "reply": {name: value for name, value in reply.items() if name != "id"}
    }
    assert packet.seen({"action": "experiment"}, {"ok": True}) is None
    for code in packet.REFUSALS:
        assert packet.seen(request, {"ok": False, "error": {"code": code}}) is None


def test_exactly_what_was_asked_for_has_to_be_quoted() -> None:
    asked = {"canary.txt": "c", "web/0001.txt": "page"}
    right = {name: canonical.digest(text.encode()) for name, text in asked.items()}
    assert packet.quoted(right, asked) == {"canary_quoted": True, "packet_quoted": True}
    assert packet.quoted({**right, "web/0001.txt": NOTHING}, asked) == {"canary_quoted": True, "packet_quoted": False}
    assert packet.quoted({**right, "other": NOTHING}, asked) == {"canary_quoted": False, "packet_quoted": True}
    assert packet.quoted({}, asked) == {"canary_quoted": False, "packet_quoted": False}
    assert packet.quoted({}, {}) == {"canary_quoted": True, "packet_quoted": True}
