"""``web_fetch`` on the channel: answered by registration and packet, recorded without credentials, never fatal."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcpflow.episodes.channel import Channel
from dcpflow.episodes.gateway import Fetched, failed
from dcpflow.episodes.live_web import Recorder, fetched
from dcpflow.episodes.warc import Answer
from dcpflow.episodes.web import Access, Recorded, recordable
from dcpflow.records import canonical, packet
from dcpflow.records.objects import ObjectStore
from dcpflow.records.packet import Packet, Page
from dcpflow.tasks.evaluator import Evaluator

from .web_server import RULES

LIMITS = {"experiments": 3, "candidates": 2, "candidate_bytes": 100, "bad_messages": 4, "message_bytes": 65_536}
TEXT = "what it says\n"
PAGE = Page("http://plain.test/", 200, "text/plain", packet.NOTHING, canonical.digest(TEXT.encode()))
LATE = "the host did not answer in time"
LOST = Page("http://plain.test/lost", 0, "", packet.NOTHING, canonical.digest(LATE.encode()))
SEEN = packet.of([PAGE, LOST], {PAGE.text: TEXT, LOST.text: LATE})


def channel(web: Access | None = None, **limits: int) -> Channel:
    return Channel(lambda _: {"total": "1"}, LIMITS | limits, web or Recorded(RULES, SEEN))


def ask(talk: Channel, **request: Any) -> dict[str, Any]:
    reply, _ = talk.hear(json.dumps({"id": "1", "action": "web_fetch", **request}).encode())
    answer: dict[str, Any] = json.loads(reply)
    return answer


def code(answer: dict[str, Any]) -> str:
    assert answer["ok"] is False
    return str(answer["error"]["code"])


# --- what is answered --------------------------------------------------------------------------------------


def test_a_recorded_address_is_answered_as_it_was_in_any_spelling() -> None:
    talk = channel()
    for url in ("http://plain.test/", "HTTP://Plain.Test:80", "http://plain.test/x/..#part"):
        assert ask(talk, url=url) == {
            "id": "1",
            "ok": True,
            "page": {"url": PAGE.url, "status": 200, "content_type": "text/plain", "text": TEXT},
        }
    assert ask(talk, url=LOST.url)["error"] == {"code": "fetch_failed", "message": LATE}
    assert talk.usage["web_requests"] == 4


def test_h1_an_address_that_is_not_recorded_costs_its_fetch_and_nothing_else() -> None:
    talk = channel()
    assert code(ask(talk, url="http://plain.test/other")) == "not_recorded"
    assert code(ask(talk, url="http://unlisted.test/")) == "refused"
    assert code(ask(talk, url="http://user:secret@plain.test/")) == "refused"
    assert code(ask(talk, url="file:///etc/passwd")) == "refused"
    assert (talk.usage["web_requests"], talk.usage["bad_messages"], talk.finished, talk.limits_hit) == (4, 0, False, [])
    assert ask(talk, action="commit", candidate="plan")["ok"]


def test_fetches_have_a_budget_that_refused_ones_count_against() -> None:
    talk = channel(Recorded(RULES | {"requests": 3}, SEEN))
    found = [ask(talk, url=url) for url in (PAGE.url, "http://unlisted.test/", "http://plain.test/x", PAGE.url)]
    assert [one["ok"] or code(one) for one in found] == [True, "refused", "not_recorded", "budget"]
    assert talk.usage["web_requests"] == 3
    assert not talk.finished


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"url": None},
        {"url": 7},
        {"url": ["http://plain.test/"]},
        {"url": "http://plain.test/", "headers": {"Authorization": "Bearer s3cret"}},
        {"url": "http://plain.test/", "method": "POST"},
        {"url": "http://plain.test/", "body": "s3cret"},
        {"url": "http://plain.test/", "id": ["s3cret"]},
        {"url": "http://plain.test/", "id": {"s3cret": 1}},
    ],
    ids=str,
)
def test_a_fetch_is_an_address_and_nothing_else(fields: dict[str, Any]) -> None:
    talk = channel()
    assert code(ask(talk, **fields)) == "bad_message"
    assert (talk.usage["web_requests"], talk.usage["bad_messages"]) == (0, 1)
    assert "s3cret" not in str(talk.transcript)


def test_where_the_web_is_not_offered_there_is_no_such_action_and_no_such_count() -> None:
    talk = Channel(lambda _: {}, LIMITS)
    answer = ask(talk, url="http://plain.test/")
    assert code(answer) == "bad_message"
    assert "web_fetch" not in answer["error"]["message"].split(", not ")[0]
    assert talk.usage.keys() == {"experiments", "commits", "messages", "bad_messages", "bytes"}


def test_h3_an_id_that_is_used_again_is_answered_again() -> None:
    talk = channel()
    assert ask(talk, url=PAGE.url) == ask(talk, url=PAGE.url)
    assert ask(talk, id="doc-1", url=PAGE.url)["id"] == "doc-1"
    assert ask(talk, id="doc-1", url=LOST.url)["id"] == "doc-1"


# --- what is recorded --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        b'{"id":1,"action":"web_fetch","url":"http://user:s3cret@plain.test/"}',
        b'{"id":1,"action":"web_fetch","url":"//s3cret@plain.test/"}',
        b'{"id":1,"action":"web_fetch","url":"http://s3cret@plain.test/","url":"http://plain.test/"}',
        b'{"id":1,"action":"web_\\u0066etch","url":"http://s3cret@plain.test/"}',
        b'{"id":1,"action":"web_fetch","url":"http://s3cret\\u0040plain.test/"}',
        b'{"id":1,"action":"finish","action":"web_fetch","url":"http:s3cret@plain.test/"}',
        b'{"id":1,"action":"web_fetch","url":"http://plain.test/","cookie":"s3cret"}',
        b'{"id":1,"action":"web_fetch","url":"http://plain.test/","headers":{"Cookie":["s3cret",{"a":1}]}}',
        b'{"id":1,"action":"web_fetch","url":{"s3cret":1}}',
        b'{"id":1, "action":"web_fetch", "url":"\\t http://s3cret:s3cret@plain.test/?q"}',
    ],
    ids=range(10),
)
def test_credentials_and_headers_are_never_recorded(line: bytes) -> None:
    talk = channel()
    reply, _ = talk.hear(line)
    assert b"s3cret" not in reply
    assert "s3cret" not in str(talk.transcript)
    again = channel()
    assert again.hear(talk.transcript[0]["line"].encode())[0] == reply
    assert (again.usage, again.transcript) == (talk.usage, talk.transcript)


def test_other_lines_are_recorded_as_they_came() -> None:
    for line in (
        b'{"action": "experiment", "candidate": "\\u0041 web"}',
        b"web_fetch",
        b'"web_fetch \\u0041"',
        b"\xff",
    ):
        assert recordable(line) == line


# --- live --------------------------------------------------------------------------------------------------


def recorder(folder: Path, fetch: Callable[[str], Fetched]) -> Recorder:
    return Recorder(RULES, ObjectStore(folder), fetch)


def test_the_target_s_replies_are_those_that_its_packet_gives(tmp_path: Path) -> None:
    """Byte for byte, those of failed fetches too."""
    answers = iter(
        [
            Fetched(200, "text/plain", "text\n", (Answer("http://plain.test/b", "200 OK", [], b"body"),)),
            failed(LATE),
            Fetched(404, "a/b", "no\n", (Answer("http://other.test/", "404 Not Found", [("X", "y")], b""),)),
        ]
    )
    web = recorder(tmp_path, lambda _: next(answers))
    urls = ["http://plain.test/b", "http://plain.test/a", "http://other.test/", "http://plain.test/b"]
    lines = [json.dumps({"id": n, "action": "web_fetch", "url": url}).encode() for n, url in enumerate(urls)]
    live = channel(web)
    replies = [live.hear(line) for line in lines]
    replayed = channel(Recorded(RULES, web.packet))
    assert [replayed.hear(line) for line in lines] == replies
    assert replayed.transcript == live.transcript
    assert replayed.usage == live.usage
    web.store()
    assert packet.load(ObjectStore(tmp_path), web.packet.digest) == web.packet


def test_an_address_is_fetched_once_and_what_is_refused_never(tmp_path: Path) -> None:
    asked: list[str] = []

    def fetch(url: str) -> Fetched:
        asked.append(url)
        return failed("no")

    web = recorder(tmp_path, fetch)
    talk = channel(web)
    for url in ("http://plain.test", "http://plain.test/#x", "http://unlisted.test/", "http://u@plain.test/", "x"):
        ask(talk, url=url)
    assert asked == ["http://plain.test/"]
    assert [page.url for page in web.packet.pages] == ["http://plain.test/"]


@pytest.mark.parametrize("fault", [RuntimeError("ours"), MemoryError(), RecursionError(), SystemExit(3)], ids=repr)
def test_h6_whatever_happens_to_the_gateway_is_an_answer(fault: BaseException) -> None:
    def prepare() -> Callable[[Any], Any]:
        def answer(request: Any) -> Any:
            if request["url"] == "fault":
                raise fault
            return failed("the next one is asked as ever").to_json()

        return answer

    with Evaluator(prepare, 5, 256) as child:
        found = fetched(child, "fault")
        assert (found.status, found.body) == (0, b"")
        assert found.text.startswith(("the host's answer cannot be read", "the page could not be read"))
        assert fetched(child, "more").text == "the next one is asked as ever"


# --- fuzzing -----------------------------------------------------------------------------------------------

PIECES = [
    *('"', "\\", "{", "}", "[", "]", ":", ",", "null", "7", "\\ud800", "\\u0000", "@", "/", "//", "..", "%", "%00"),
    *("#", "?", "web_fetch", "url", "id", "action", "http:", "https:", "plain.test", "headers", "user:pw@", "\\u0066"),
    *("\N{LATIN SMALL LETTER E WITH ACUTE}", "\N{LINE SEPARATOR}"),
]


def mutilated(random: Random) -> bytes:
    line = json.dumps({"id": random.randrange(3), "action": "web_fetch", "url": "http://user:pw@plain.test/a?b#c"})
    for _ in range(random.randrange(6)):
        start = random.randrange(len(line) + 1)
        line = line[:start] + random.choice(PIECES) + line[start + random.randrange(8) :]
    return line.encode()


@given(st.integers(min_value=0))
@settings(max_examples=40, deadline=None, database=None)
def test_no_fetch_is_fatal_and_each_replays(seed: int) -> None:
    """4,000 lines: what was recorded of a conversation gives, said again, the same conversation."""
    random = Random(seed)
    rules = RULES | {"requests": 20}
    talk = channel(Recorded(rules, SEEN), bad_messages=10**6)
    codes = {"bad_message", "budget", "refused", "not_recorded", "fetch_failed", "invalid_candidate"}
    for _ in range(100):
        talk.finished = False
        line = mutilated(random)
        assert recordable(recordable(line)) == recordable(line)
        answer = json.loads(talk.hear(line)[0])
        assert answer["ok"] is True or answer["error"]["code"] in codes
    assert talk.usage["web_requests"] <= 20
    again = channel(Recorded(rules, SEEN), bad_messages=10**6)
    for entry in talk.transcript:
        if entry["from"] == "agent":
            again.finished = False
            again.hear(entry["line"].encode())
    assert again.transcript == talk.transcript
    assert again.usage == talk.usage


def test_h17_an_agent_is_told_of_nothing_that_it_does_not_get() -> None:
    """What schema and refusal name is there: hosts that may be asked, and a file that is given from the beginning."""
    talk = channel()
    for example in packet.schema(RULES)["properties"]["url"]["examples"]:
        answer = ask(talk, url=example)
        assert answer["ok"] or code(answer) == "not_recorded"
    assert packet.INDEX in packet.not_recorded()["error"]["message"]
    assert packet.INDEX in SEEN.files
    assert Packet().files == {}
