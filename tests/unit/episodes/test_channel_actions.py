"""The action channel: what is understood is carried out, everything else is answered, recorded, and costs little."""

from __future__ import annotations

import base64
import json
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcpflow.episodes.channel import Channel
from dcpflow.records import canonical
from dcpflow.tasks.base import CandidateInvalid
from dcpflow.tasks.evaluator import EvaluatorDied

LIMITS = {"experiments": 3, "candidates": 2, "candidate_bytes": 100, "bad_messages": 4, "message_bytes": 65_536}
REPLY = {"shares": {"a": "0.500000"}, "total": "1.000000"}


def policy(candidate: str) -> dict[str, Any]:
    if candidate == "invalid":
        raise CandidateInvalid("it breaks a rule")
    if candidate == "deadly":
        raise EvaluatorDied("it took too long")
    return REPLY


def channel(**limits: int) -> Channel:
    return Channel(policy, LIMITS | limits)


def ask(channel: Channel, **request: Any) -> dict[str, Any]:
    reply, _ = channel.hear(json.dumps({"id": "1", **request}).encode())
    assert reply.endswith(b"\n")
    assert reply.count(b"\n") == 1
    answer: dict[str, Any] = json.loads(reply)
    return answer


def refused(answer: dict[str, Any], code: str) -> str:
    assert answer["ok"] is False
    assert answer["error"]["code"] == code, answer
    return str(answer["error"]["message"])


def recorded(channel: Channel) -> list[str]:
    return [entry.get("line", entry.get("base64", "")) for entry in channel.transcript]


# --- the three actions -------------------------------------------------------------------------------------


def test_an_experiment_is_answered_with_the_policy_s_result_and_counted() -> None:
    talk = channel()
    assert ask(talk, action="experiment", candidate="plan") == {"id": "1", "ok": True, "result": REPLY}
    assert (talk.usage["experiments"], talk.usage["messages"], talk.candidates) == (1, 1, [])
    assert not talk.finished


def test_no_more_experiments_than_registered_are_carried_out() -> None:
    asked: list[str] = []
    talk = Channel(lambda candidate: asked.append(candidate) or REPLY, LIMITS)  # type: ignore[func-returns-value]
    for number in range(3):
        assert ask(talk, action="experiment", candidate=f"plan {number}")["ok"]
    assert "all 3 experiments are used" in refused(ask(talk, action="experiment", candidate="plan 3"), "budget")
    assert asked == ["plan 0", "plan 1", "plan 2"]
    assert (talk.usage["experiments"], talk.usage["bad_messages"]) == (3, 0)
    assert ask(talk, action="commit", candidate="plan 1")["ok"], "who is out of experiments can still commit"


def test_an_experiment_budget_of_zero_allows_none() -> None:
    refused(ask(channel(experiments=0), action="experiment", candidate="plan"), "budget")


@pytest.mark.parametrize(("candidate", "says"), [("invalid", "breaks a rule"), ("deadly", "took too long")])
def test_an_invalid_candidate_costs_an_experiment_and_is_no_malformed_message(candidate: str, says: str) -> None:
    talk = channel()
    assert says in refused(ask(talk, action="experiment", candidate=candidate), "invalid_candidate")
    assert (talk.usage["experiments"], talk.usage["bad_messages"]) == (1, 0)


def test_every_commit_within_the_registered_number_counts_in_order() -> None:
    talk = channel()
    for text in ("first", "second \u2713"):
        assert ask(talk, action="commit", candidate=text) == {"id": "1", "ok": True}
    refused(ask(talk, action="commit", candidate="third"), "budget")
    assert talk.candidates == [b"first", "second \u2713".encode()]
    assert talk.usage["commits"] == 2
    assert not talk.finished


def test_a_candidate_is_committed_byte_for_byte_and_not_judged() -> None:
    talk = channel()
    text = "\0\r\n\t\u2028\U0001f600 -- invalid"
    ask(talk, action="commit", candidate=text)
    ask(talk, action="commit", candidate="")
    assert talk.candidates == [text.encode(), b""]


def test_the_quotes_of_the_last_commit_count() -> None:
    talk = channel()
    ask(talk, action="commit", candidate="a", quotes={"canary.txt": "one\n", "other": "x"})
    assert talk.quotes == {"canary.txt": b"one\n", "other": b"x"}
    ask(talk, action="commit", candidate="b")
    assert talk.quotes == {}


def test_finish_ends_the_conversation() -> None:
    talk = channel()
    assert ask(talk, action="finish") == {"id": "1", "ok": True}
    assert talk.finished
    assert talk.limits_hit == []


@pytest.mark.parametrize("identity", ["", "x" * 64, 0, -5, 2**53 - 1, "\u2713", "\0"])
def test_the_reply_carries_the_request_s_id(identity: str | int) -> None:
    assert ask(channel(), id=identity, action="finish")["id"] == identity


def test_a_repeated_id_is_recorded_and_never_fatal() -> None:
    talk = channel()
    for _ in range(3):
        assert ask(talk, id=7, action="experiment", candidate="plan")["id"] == 7
    assert (talk.usage["experiments"], talk.usage["bad_messages"], talk.finished) == (3, 0, False)
    assert len(talk.transcript) == 6


@pytest.mark.parametrize("action", ["experiment", "commit", "finish", "unknown"])
def test_replies_to_experiments_are_marked_for_the_registered_delay(action: str) -> None:
    _, delayed = channel().hear(json.dumps({"id": 1, "action": action, "candidate": "plan"}).encode())
    assert delayed == (action == "experiment")


def test_a_refused_experiment_is_delayed_like_any_other() -> None:
    line = json.dumps({"id": 1, "action": "experiment", "candidate": "plan"}).encode()
    assert channel(experiments=0).hear(line)[1]


# --- what is not understood --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b" ",
        b"hello",
        b"{",
        b'{"id": "1", "action": "finish"',
        b'{"id": "1", "action": "finish"}}',
        b"[]",
        b"null",
        b'"finish"',
        b"7",
        b"\xff\xfe\x00",
        b'{"id": "1", "action": "finish"\xff}',
        b"\x00\x01\x02\x03",
        b"[" * 60_000,
        b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
        b'{"id": ' + b"9" * 10_000 + b', "action": "finish"}',
        b'{"action": "finish"}',
        b'{"id": null, "action": "finish"}',
        b'{"id": true, "action": "finish"}',
        b'{"id": 1.5, "action": "finish"}',
        b'{"id": 1e400, "action": "finish"}',
        b'{"id": NaN, "action": "finish"}',
        b'{"id": 9007199254740992, "action": "finish"}',
        b'{"id": ["1"], "action": "finish"}',
        b'{"id": "\\ud800", "action": "finish"}',
        b'{"id": "' + b"x" * 65 + b'", "action": "finish"}',
        b'{"id": "1"}',
        b'{"id": "1", "action": null}',
        b'{"id": "1", "action": "Finish"}',
        b'{"action":"web_fetch","id":"1","url":"http://example.org"}',
        b'{"id": "1", "action": ["finish"]}',
        b'{"id": "1", "action": {"finish": true}}',
        b'{"id": "1", "action": "\\ud800"}',
        b'{"id": "1", "action": "' + b"a" * 50_000 + b'"}',
        b'{"id": "1", "action": ' + b"[" * 900 + b"]" * 900 + b"}",
        b'{"id": "1", "action": "experiment"}',
        b'{"id": "1", "action": "experiment", "candidate": null}',
        b'{"id": "1", "action": "experiment", "candidate": 5}',
        b'{"id": "1", "action": "experiment", "candidate": ["a"]}',
        b'{"id": "1", "action": "experiment", "candidate": "\\udc80"}',
        b'{"id": "1", "action": "commit", "candidate": "\\ud83d"}',
        b'{"id": "1", "action": "commit", "candidate": "' + b"a" * 101 + b'"}',
        b'{"id": "1", "action": "commit", "candidate": "' + "\u2713".encode() * 34 + b'"}',
        b'{"id": "1", "action": "commit", "candidate": "a", "quotes": null}',
        b'{"id": "1", "action": "commit", "candidate": "a", "quotes": []}',
        b'{"id": "1", "action": "commit", "candidate": "a", "quotes": "canary.txt"}',
        b'{"id": "1", "action": "commit", "candidate": "a", "quotes": {"canary.txt": 1}}',
        b'{"id": "1", "action": "commit", "candidate": "a", "quotes": {"canary.txt": null}}',
        b'{"id": "1", "action": "commit", "candidate": "a", "quotes": {"canary.txt": "\\ud800"}}',
        b'{"id": "1", "action": "commit", "candidate": "a", "quotes": {"\\ud800": "text"}}',
    ],
    ids=lambda line: repr(line)[2:60],
)
def test_what_is_not_understood_is_recorded_counted_and_answered(line: bytes) -> None:
    talk = channel()
    reply, _ = talk.hear(line)
    refused(json.loads(reply), "bad_message")
    assert talk.usage == {"experiments": 0, "commits": 0, "messages": 1, "bad_messages": 1, "bytes": len(line)}
    assert (talk.candidates, talk.quotes, talk.finished) == ([], {}, False)
    assert [entry["from"] for entry in talk.transcript] == ["agent", "harness"]
    canonical.encode(talk.transcript)
    assert len(reply) < 400, "an error does not repeat what an agent may have made long"
    assert ask(talk, action="experiment", candidate="plan")["ok"], "the episode goes on"


@pytest.mark.parametrize("depth", [*range(930, 1000, 3)])
def test_nesting_just_below_what_the_reader_bears_does_not_break_the_answer(depth: int) -> None:
    talk = channel()
    reply, _ = talk.hear(b'{"id": "1", "action": ' + b"[" * depth + b"]" * depth + b"}")
    refused(json.loads(reply), "bad_message")


def test_of_a_line_that_is_no_text_every_byte_is_recorded() -> None:
    talk = channel()
    talk.hear(bytes(range(256)))
    assert talk.transcript[0].keys() == {"from", "base64"}
    assert base64.b64decode(talk.transcript[0]["base64"]) == bytes(range(256))


def test_a_candidate_may_have_exactly_the_registered_bytes() -> None:
    talk = channel()
    assert ask(talk, action="commit", candidate="\u2713" * 33 + "a")["ok"]
    assert "over 100 bytes" in refused(ask(talk, action="commit", candidate="\u2713" * 33 + "ab"), "bad_message")
    assert "over 100 bytes" in refused(ask(talk, action="experiment", candidate="a" * 101), "bad_message")
    assert talk.usage["experiments"] == 0


def test_so_many_malformed_messages_end_the_conversation() -> None:
    talk = channel()
    for number in range(4):
        assert not talk.finished, number
        talk.hear(b"nonsense")
    assert (talk.finished, talk.limits_hit, talk.usage["bad_messages"]) == (True, ["bad_messages"], 4)
    assert recorded(talk)[-1].count("bad_message") == 1, "the last one is answered as well"


def test_refusals_that_are_no_malformed_messages_never_end_it() -> None:
    talk = channel(experiments=0, candidates=1)
    ask(talk, action="commit", candidate="a")
    for _ in range(20):
        refused(ask(talk, action="experiment", candidate="plan"), "budget")
        refused(ask(talk, action="commit", candidate="b"), "budget")
    assert not talk.finished
    assert talk.usage["bad_messages"] == 0


def test_a_commit_stands_whatever_is_said_afterwards() -> None:
    talk = channel()
    ask(talk, action="commit", candidate="a")
    for _ in range(4):
        talk.hear(b"\xff")
    assert (talk.candidates, talk.limits_hit) == ([b"a"], ["bad_messages"])


def test_a_line_that_is_too_long_ends_the_conversation_with_its_beginning_on_record() -> None:
    talk = channel()
    talk.overlong(b"\xff" + b"a" * 100_000)
    assert (talk.finished, talk.limits_hit) == (True, ["message_bytes"])
    assert len(canonical.encode(talk.transcript)) < 200


# --- anything at all ---------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=[]), max_size=8)
    | st.sampled_from(["experiment", "commit", "finish", "invalid", "deadly", "canary.txt"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
LIKELY = st.fixed_dictionaries(
    {},
    optional={
        "id": st.sampled_from(["1", 1, "\ud800", None]) | JSON,
        "action": st.sampled_from(["experiment", "commit", "finish"]) | JSON,
        "candidate": st.text(st.characters(exclude_categories=[]), max_size=20) | JSON,
        "quotes": st.dictionaries(st.text(st.characters(exclude_categories=[]), max_size=4), JSON, max_size=2) | JSON,
    },
)
LINES = (
    st.binary(max_size=60)
    | LIKELY.map(lambda value: json.dumps(value).encode())
    | LIKELY.map(lambda value: json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    | st.tuples(LIKELY.map(lambda value: json.dumps(value).encode()), st.binary(max_size=3)).map(b"".join)
)


def mutilated(random: Random) -> bytes:
    """Bytes without meaning, or a request of which some bytes were changed, doubled or cut out."""
    if random.random() < 0.3:
        return random.randbytes(random.randrange(80))
    line = bytearray(
        random.choice(
            [
                b'{"id": "1", "action": "experiment", "candidate": "plan"}',
                b'{"id": 17, "action": "commit", "candidate": "plan", "quotes": {"a": "\\u0041\\ud83d\\ude00"}}',
                b'{"id": "3", "action": "finish"}',
            ]
        )
    )
    for _ in range(random.randrange(4)):
        start = random.randrange(len(line) + 1)
        end = min(len(line), start + random.randrange(6))
        line[start:end] = random.choice([b"", random.randbytes(2), bytes(line[start:end]) * 2, b'"', b"\\ud800", b"}"])
    return bytes(line).replace(b"\n", b" ")


@given(st.integers(min_value=0))
@settings(max_examples=25, deadline=None, database=None)
def test_no_line_of_bytes_is_fatal(seed: int) -> None:
    """2,500 lines."""
    random = Random(seed)
    converse([mutilated(random) for _ in range(100)])


@given(st.lists(LINES, min_size=8, max_size=16))
@settings(max_examples=25, deadline=None, database=None)
def test_no_request_is_fatal(lines: list[bytes]) -> None:
    converse(lines)


def converse(lines: list[bytes]) -> None:
    talk = channel(bad_messages=10**6)
    said = []
    for line in lines:
        talk.finished = False
        reply, _ = talk.hear(line)
        answer = json.loads(reply)
        assert answer["ok"] is True or answer["error"]["code"] in {"bad_message", "budget", "invalid_candidate"}
        said.append(reply)
    stored = b"".join(canonical.encode(entry) + b"\n" for entry in talk.transcript)
    again = [canonical.decode(entry, "the transcript") for entry in stored.splitlines()]
    assert again == talk.transcript
    assert [entry["line"].encode() + b"\n" for entry in again if entry["from"] == "harness"] == said
    heard = [entry for entry in again if entry["from"] == "agent"]
    assert [base64.b64decode(e["base64"]) if "base64" in e else e["line"].encode() for e in heard] == lines
    assert talk.usage["messages"] == len(lines)
    assert talk.usage["bytes"] == sum(map(len, lines))
    assert talk.usage["experiments"] <= LIMITS["experiments"]
    assert len(talk.candidates) == talk.usage["commits"] <= LIMITS["candidates"]
    canonical.encode({name: canonical.digest(text) for name, text in sorted(talk.quotes.items())})
