"""The JSON Schemas that ship with dcpflow say the same of an agent's lines as the channel, and hold for all it says."""

from __future__ import annotations

import importlib.resources
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

import dcpflow.episodes
from dcpflow.episodes.channel import ACTIONS, VERSION, Channel
from dcpflow.episodes.web import Recorded
from dcpflow.records import canonical, packet
from dcpflow.records.episodes import EpisodeStore
from dcpflow.records.objects import ObjectStore

from .web_server import RULES

if TYPE_CHECKING:
    from tests.conftest import Audit

FOLDER = importlib.resources.files(dcpflow.episodes) / "messages"
SCHEMAS = {name: json.loads((FOLDER / f"{name}.schema.json").read_text()) for name in ("hello", "request", "reply")}
VALID = {name: Draft202012Validator(schema) for name, schema in SCHEMAS.items()}
LIMITS = {"experiments": 10**6, "candidates": 10**6, "candidate_bytes": 10**6, "bad_messages": 10**6}

TEXT = st.text(st.characters(exclude_categories=[]), max_size=5)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
IDENTITY = st.sampled_from(["1", 1, 1.0, -3.0, 1e15, 2**53, 1.0 - 2**53, 1.5, True, None, "x" * 64, "\U0001f600" * 65])
QUOTES = st.dictionaries(TEXT, TEXT, max_size=2) | st.dictionaries(TEXT, ANYTHING, max_size=2) | ANYTHING
REQUESTS = st.fixed_dictionaries(
    {"id": st.just("1") | IDENTITY | TEXT | ANYTHING, "action": st.sampled_from([*ACTIONS, packet.ACTION]) | ANYTHING},
    optional={"candidate": st.just("plan") | TEXT | ANYTHING, "quotes": QUOTES, "url": TEXT | ANYTHING},
)
MUTILATED = st.tuples(REQUESTS, st.sampled_from(["id", "action", "candidate", "url", "quotes", "more"]), ANYTHING).map(
    lambda drawn: (
        {name: value for name, value in drawn[0].items() if name != drawn[1]}
        | ({"more": drawn[2]} if drawn[1] == "more" else {})
    )
)


def channel() -> Channel:
    return Channel(lambda _: {"value": "1"}, LIMITS, Recorded(RULES, packet.Packet()))


def agreed(line: bytes) -> bool:
    """Whether channel and schema understand a line; they must be of one mind."""
    talk = channel()
    reply = json.loads(talk.hear(line)[0])
    assert VALID["reply"].is_valid(reply), reply
    understood = reply["ok"] or reply["error"]["code"] != "bad_message"
    try:
        request = json.loads(line.decode())
    except ValueError:
        assert not understood
        return understood
    assert understood == VALID["request"].is_valid(request), (request, reply)
    return understood


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_one(name: str) -> None:
    Draft202012Validator.check_schema(SCHEMAS[name])


@given(st.lists(REQUESTS | MUTILATED | ANYTHING, min_size=20, max_size=40))
@settings(max_examples=60, deadline=None, database=None)
def test_the_channel_rejects_exactly_what_the_schema_rejects(requests: list[Any]) -> None:
    for request in requests:
        agreed(json.dumps(request).encode())


@pytest.mark.parametrize(
    ("line", "understood"),
    [
        ('{"id": 7.0, "action": "finish"}', True),
        ('{"id": 7.5, "action": "finish"}', False),
        ('{"id": 1e400, "action": "finish"}', False),
        ('{"id": "\\ud83d\\ude00", "action": "finish", "candidate": 5}', True),
        ('{"id": "\\ud83d", "action": "finish"}', False),
        ('{"id": 1, "action": "experiment", "candidate": ""}', True),
        ('{"id": 1, "action": "experiment", "candidate": "a", "quotes": 7}', True),
        ('{"id": 1, "action": "commit", "candidate": "a\\n"}', True),
        ('{"id": 1, "action": "commit", "candidate": "a", "quotes": {"\\udc80": "b"}}', False),
        ('{"id": 1, "action": "commit", "candidate": "a", "quotes": {"b": "\\udc80"}}', False),
        ('{"id": 1, "action": "web_fetch", "url": "anything"}', True),
        ('{"id": 1.0, "action": "web_fetch", "url": "anything"}', True),
        ('{"id": 1, "action": "web_fetch", "url": "anything", "headers": {}}', False),
        ('{"id": 1, "action": "shell"}', False),
    ],
)
def test_both_are_of_one_mind_about_what_is_easily_mistaken(line: str, understood: bool) -> None:
    assert agreed(line.encode()) is understood


def test_where_the_web_is_not_offered_a_fetch_is_not_understood() -> None:
    reply, _ = Channel(lambda _: {}, LIMITS).hear(b'{"id": 1, "action": "web_fetch", "url": "http://plain.test/"}')
    assert json.loads(reply)["error"]["code"] == "bad_message"


def test_every_line_of_an_audit_is_of_its_form(finished_audit: Audit) -> None:
    """With the Web, in branches and in controls: every hello, every request and every reply."""
    job = finished_audit.job
    store, objects = EpisodeStore(job.layout.store, job.contract.digest), ObjectStore(job.layout.objects)
    heard = {"hello": 0, "request": 0, "reply": 0}
    for path in sorted(store.root.glob("*/*/*/1/record.json")):
        transcript = objects.get(canonical.decode(path.read_bytes(), str(path))["transcript"])
        for number, entry in enumerate(map(json.loads, transcript.splitlines())):
            name = "request" if entry["from"] == "agent" else "reply" if number else "hello"
            VALID[name].validate(json.loads(entry["line"]))
            heard[name] += 1
    assert heard["hello"] == 37 and heard["request"] == heard["reply"] > 4 * 37


def test_the_schema_of_the_hello_names_this_version() -> None:
    assert SCHEMAS["hello"]["properties"]["version"]["const"] == VERSION
