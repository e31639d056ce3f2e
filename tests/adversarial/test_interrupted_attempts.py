"""An agent that may do otherwise a second time is not given one: what it said before its job was killed stands."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.adversarial.killed_jobs import kill_after, lines, replayed, settled

from dcpflow.agents.launch import LaunchSpec
from dcpflow.episodes import live_web
from dcpflow.episodes.channel import Channel
from dcpflow.episodes.episode import Laboratory, outcome_of
from dcpflow.episodes.gateway import Fetched
from dcpflow.episodes.runner import Ending
from dcpflow.episodes.sandbox import NoIsolation
from dcpflow.episodes.warc import Answer
from dcpflow.records import canonical
from dcpflow.records.calls import Call
from dcpflow.records.episodes import EpisodeKey

if TYPE_CHECKING:
    from tests.conftest import Audit

LIMITS = {"experiments": 4, "candidates": 1, "candidate_bytes": 1000, "bad_messages": 8}
LOST = Call(canonical.digest(b"asked"), 0, "transport", "", 0, 0, 0, "")
ANSWERED = Call(canonical.digest(b"asked"), 200, "", "small-1", 10, 0, 5, canonical.digest(b"answered"))
SAYS_THREE_THINGS = "ask('experiment', candidate='plan'); commit(); ask('finish')"


@pytest.fixture
def laboratory(audit_copy: Audit, write_agent: Callable[[str], LaunchSpec]) -> Laboratory:
    """Of an audit whose agent is a program that may do otherwise a second time."""
    bench = audit_copy.job.bench
    parts = dict(bench.contract.parts)
    parts["agent"] = {**parts["agent"], "config": {**parts["agent"]["config"], "kind": "command"}}
    return Laboratory(
        bench=replace(bench, contract=replace(bench.contract, parts=parts)),
        registration=audit_copy.job.registration.digest,
        spec=write_agent(SAYS_THREE_THINGS),
        isolation=NoIsolation(),
        probe=canonical.digest(b"probe"),
        history=[],
    )


@pytest.mark.parametrize(
    ("heard", "outcome", "usage"),
    [(0, "artifact", (1, 1)), (1, "unresolved", (1, 0)), (2, "artifact", (1, 1))],
    ids=["before it acted", "after an experiment", "after its commit"],
)
def test_what_was_said_before_the_kill_stands(
    monkeypatch: pytest.MonkeyPatch,
    laboratory: Laboratory,
    audit_copy: Audit,
    heard: int,
    outcome: str,
    usage: tuple[int, int],
) -> None:
    kill_after(monkeypatch, laboratory, audit_copy, heard)
    record = settled(laboratory, audit_copy)
    assert record.outcome == outcome
    assert (record.usage["experiments"], record.usage["commits"]) == usage
    assert record.usage["messages"] == (heard or 3), "it is started again only where it had not acted"
    said = [line["from"] for line in lines(laboratory, record)]
    assert said == ["harness", *["agent", "harness"] * record.usage["messages"]]
    assert replayed(laboratory, record)


def test_a_built_in_agent_does_the_same_again(
    monkeypatch: pytest.MonkeyPatch, laboratory: Laboratory, audit_copy: Audit
) -> None:
    lab = replace(laboratory, bench=audit_copy.job.bench)
    kill_after(monkeypatch, lab, audit_copy, 1)
    assert settled(lab, audit_copy).usage["messages"] == 3


def test_what_a_target_run_was_shown_of_the_web_stands_and_is_not_fetched_again(
    monkeypatch: pytest.MonkeyPatch,
    laboratory: Laboratory,
    audit_copy: Audit,
    write_agent: Callable[[str], LaunchSpec],
) -> None:
    versions = iter(("as it was", "as it is by now"))
    answers = (Answer("http://sqlite-notes.test/", "200 OK", [], b"body"),)
    monkeypatch.setattr(live_web, "fetched", lambda *_: Fetched(200, "text/plain", next(versions), answers))
    target = EpisodeKey("target", 101, "target")
    reads = "ask('web_fetch', url='http://sqlite-notes.test/'); commit(); ask('finish')"
    lab = replace(laboratory, spec=write_agent(reads))
    kill_after(monkeypatch, lab, audit_copy, 1, target)
    record = settled(lab, audit_copy, target)
    assert record.outcome == "unresolved"
    assert json.loads(lines(lab, record)[2]["line"])["page"]["text"] == "as it was"
    assert replayed(lab, record)


def ended(*calls: Call, messages: int, **more: bool) -> tuple[str, str]:
    channel = Channel(lambda _: {}, LIMITS)
    for number in range(messages):
        channel.hear(b'{"id":%d,"action":"experiment","candidate":"plan"}' % number)
    return outcome_of(channel, Ending(True, False, None, b"", 0, calls=calls, **more))


@pytest.mark.parametrize(
    ("calls", "messages", "outcome", "reason"),
    [
        ((LOST,), 0, "infrastructure_invalid", "before the agent had acted"),
        ((ANSWERED, LOST), 0, "infrastructure_invalid", "before the agent had acted"),
        ((ANSWERED, LOST), 1, "model_failure", "after the agent had acted"),
        ((LOST, ANSWERED), 0, "model_failure", "closed its output"),
        ((replace(ANSWERED, fault="timeout"),), 0, "model_failure", "not answered in time"),
    ],
)
def test_a_call_that_was_lost_is_a_loss_only_before_the_agent_acted(
    calls: tuple[Call, ...], messages: int, outcome: str, reason: str
) -> None:
    found = ended(*calls, messages=messages)
    assert found[0] == outcome
    assert reason in found[1]


def test_what_another_model_committed_is_a_breach() -> None:
    channel = Channel(lambda _: {}, LIMITS)
    channel.hear(b'{"id":1,"action":"commit","candidate":"plan"}')
    ending = Ending(True, False, None, b"", 0, calls=(ANSWERED,))
    assert outcome_of(channel, ending)[0] == "artifact"
    assert outcome_of(channel, ending, ["large-1"]) == (
        "execution_contract_violation",
        "a model answered that is not registered: 'large-1'",
    )
