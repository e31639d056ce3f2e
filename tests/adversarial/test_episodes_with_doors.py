"""Whole episodes of agents with doors: what their records hold, and what becomes of them when something goes wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.adversarial.killed_jobs import kill_after, leave_behind, replayed, settled
from tests.adversarial.upstream import KEY, Asked, Pieces, chat, plain, serving

from dcpflow.agents.launch import MCP, MODEL, LaunchSpec, door_files
from dcpflow.episodes.episode import Laboratory
from dcpflow.episodes.sandbox import Isolation
from dcpflow.episodes.session import Api
from dcpflow.errors import UsageError
from dcpflow.records import calls, canonical
from dcpflow.records.calls import Prices
from dcpflow.records.episodes import EpisodeRecord

if TYPE_CHECKING:
    from tests.conftest import Audit

ASKS = """
import http.client, urllib.parse
door = urllib.parse.urlsplit(sys.argv[1])

def call():
    connection = http.client.HTTPConnection(door.hostname, door.port, timeout=30)
    connection.request("POST", "/chat/completions", b"{}")
    return connection.getresponse().status

"""
WORKS = "read(); call(); ask('experiment', candidate='plan'); call(); commit(); ask('finish')"
HOST = """
import http.client, urllib.parse
assert sys.stdin.read()
door = urllib.parse.urlsplit(sys.argv[1])
for name in ("experiment", "commit", "finish"):
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    asked["params"] = {"name": name, "arguments": {"candidate": "plan"}}
    connection = http.client.HTTPConnection(door.hostname, door.port, timeout=30)
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    connection.request("POST", "/mcp", json.dumps(asked), headers)
    connection.getresponse().read()
"""


@pytest.fixture
def laboratory(
    audit_copy: Audit, write_agent: Callable[[str], LaunchSpec], isolate: Callable[[str, LaunchSpec], Isolation]
) -> Callable[..., Laboratory]:
    """Of an audit whose agent has a door: to the model, or to the MCP server where no address is given."""

    def open_one(body: str, base_url: str = "", api: Api | None = None) -> Laboratory:
        doors = (MODEL,) if base_url else (MCP,)
        one = write_agent(ASKS + body if base_url else body)
        spec = LaunchSpec((*one.arguments, f"{{{doors[0]}}}"), {**one.files, **door_files(doors)}, {}, doors)
        bench = audit_copy.job.bench
        agent = {**bench.contract.parts["agent"]["config"], "kind": "command" if base_url else "mcp"}
        if base_url:
            agent["model_id"] = "model-1"
            agent["model"] = {"api": "openai", "base_url": base_url, "accepted": [], "requested": None}
            agent["model"] |= {"calls": 9, "call_seconds": 9.0, "episode_tokens": 9_999}
        parts = {**bench.contract.parts, "agent": {**bench.contract.parts["agent"], "config": agent}}
        return Laboratory(
            bench=replace(bench, contract=replace(bench.contract, parts=parts)),
            registration=audit_copy.job.registration.digest,
            spec=spec,
            isolation=isolate("bubblewrap", spec),
            probe=canonical.digest(b"probe"),
            history=[],
            api=api or Api(key=KEY, requests_per_minute=60_000),
        )

    return open_one


@pytest.fixture
def serve(tmp_path: Path) -> Callable[..., Any]:
    return partial(serving, tmp_path / "asked")


def answered(_: Asked) -> Pieces:
    return plain(chat(KEY))


def called(lab: Laboratory, record: EpisodeRecord) -> list[calls.Call]:
    return calls.decode(lab.objects.get(record.calls), "here") if record.calls else []


def test_the_record_holds_the_calls_and_no_file_the_key(
    laboratory: Callable[..., Laboratory], audit_copy: Audit, serve: Any
) -> None:
    with serve(answered) as upstream:
        lab = laboratory(WORKS, upstream.base_url)
        record = settled(lab, audit_copy)
    assert record.outcome == "artifact"
    found = called(lab, record)
    assert [(call.status, call.model, call.tokens) for call in found] == [(200, "model-1", 42)] * 2
    assert json.loads(lab.objects.get(found[0].response)) == chat("[key]")
    assert replayed(lab, record)
    for path in audit_copy.results.rglob("*"):
        assert not (path.is_file() and KEY.encode() in path.read_bytes()), path


def test_another_model_is_a_breach(laboratory: Callable[..., Laboratory], audit_copy: Audit, serve: Any) -> None:
    with serve(lambda _: plain(chat(model="another"))) as upstream:
        record = settled(laboratory(WORKS, upstream.base_url), audit_copy)
    assert record.outcome == "execution_contract_violation"
    assert "'another'" in record.reason


@pytest.mark.parametrize(
    ("acts", "outcome"), [("", "infrastructure_invalid"), ("ask('experiment', candidate='p'); ", "model_failure")]
)
def test_a_lost_call_is_a_loss_only_before_the_agent_has_acted(
    laboratory: Callable[..., Laboratory], audit_copy: Audit, serve: Any, acts: str, outcome: str
) -> None:
    with serve(lambda _: []) as upstream:
        record = settled(laboratory(f"read(); {acts}call()", upstream.base_url), audit_copy)
    assert record.outcome == outcome
    assert "lost on the way" in record.reason


@pytest.mark.parametrize(("heard", "outcome", "asked"), [(0, "artifact", 1 + 2), (1, "unresolved", 1 + 1)])
def test_what_a_killed_job_had_asked_stays_in_the_record(
    monkeypatch: pytest.MonkeyPatch,
    laboratory: Callable[..., Laboratory],
    audit_copy: Audit,
    serve: Any,
    heard: int,
    outcome: str,
    asked: int,
) -> None:
    """Before the agent acted it is started again; after that, what it said stands."""
    with serve(answered) as upstream:
        lab = laboratory(WORKS, upstream.base_url)
        kill_after(monkeypatch, lab, audit_copy, heard)
        record = settled(lab, audit_copy)
        assert len(upstream.asked) == asked
    assert record.outcome == outcome
    assert len(called(lab, record)) == asked
    assert replayed(lab, record)


def test_an_episode_that_cost_too_much_ends_when_the_budget_is_raised(
    laboratory: Callable[..., Laboratory], audit_copy: Audit, serve: Any
) -> None:
    api = Api(key=KEY, prices=Prices(1_000.0, 1_000.0, 10_000.0), max_usd=0.1, requests_per_minute=60_000)
    with serve(answered) as upstream:
        lab = laboratory("read(); call(); call(); commit(); ask('finish')", upstream.base_url, api)
        for _ in range(2):
            with pytest.raises(UsageError, match=r"may cost 0\.1000 USD"):
                settled(lab, audit_copy)
            leave_behind(audit_copy)
        assert len(upstream.asked) == 1, "the second time nothing is asked any more"
        record = settled(replace(lab, api=replace(api, max_usd=9.0)), audit_copy)
    assert record.outcome == "artifact"
    assert len(called(lab, record)) == 3


def test_an_episode_over_mcp_is_recorded_and_replayed_like_any_other(
    laboratory: Callable[..., Laboratory], audit_copy: Audit
) -> None:
    lab = laboratory(HOST)
    record = settled(lab, audit_copy)
    assert record.outcome == "artifact", record.reason
    assert record.usage["messages"] == 3
    assert record.calls == ""
    assert replayed(lab, record)
