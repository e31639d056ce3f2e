"""After an edit of what is registered: only what depends on it runs again, and what was decided first stays."""

from __future__ import annotations

import json
from typing import Any

from workflow.conftest import EPISODES_OF_FEWEST, FEWEST, Audit

STRICTER_GAIN = {"thresholds": {"gate1": {"delta_min": 0.6}}}


def statuses(decision: dict[str, Any]) -> list[str]:
    return [decision["core"]["status"], decision["evidence"]["status"]]


def exploratory(decision: dict[str, Any]) -> list[bool]:
    return [decision["core"]["exploratory"], decision["evidence"]["exploratory"]]


def changes(decision: dict[str, Any]) -> list[dict[str, Any]]:
    """The keys of the last amendment, with both values."""
    found: list[dict[str, Any]] = decision["registration"]["amendments"][-1]["changes"]
    return found


def test_an_edited_threshold_decides_anew_beside_the_confirmatory_decision(audit: Audit) -> None:
    first, records = audit.decision, audit.records()
    assert exploratory(first) == [False, False]

    audit.change(STRICTER_GAIN)
    assert audit.finish().rules == ["register", "decide"]
    amended = audit.decision
    assert exploratory(amended) == [True, True]
    assert changes(amended) == [{"key": "thresholds.gate1.delta_min", "old": 0.5, "new": 0.6}]
    assert amended["gate1"]["delta_min"] == 0.6
    assert statuses(amended["confirmatory"]) == statuses(first)
    assert exploratory(amended["confirmatory"]) == [False, False]
    shown = audit.dcpflow("show").text
    assert "EXPLORATORY" in shown
    assert "thresholds.gate1.delta_min: 0.5 -> 0.6" in shown
    verified = audit.dcpflow("verify")
    assert verified.code == 0, verified.text

    audit.change({})
    assert audit.finish().rules == ["register", "decide"]
    assert audit.decision_bytes == audit.original
    assert len(list(audit.results.glob("history/*/entry.json"))) == 3
    assert audit.records() == records


def test_more_challengers_run_the_new_episodes_alone(audit: Audit) -> None:
    first, records = audit.decision, audit.records()
    audit.change({"design": {"challengers": 8}})
    audit.finish()
    new = audit.records()
    assert {path: new[path] for path in records} == records
    places = [audit.place("challengers", slot, "withheld") / "record.json" for slot in (7, 8)]
    assert sorted(new.keys() - records.keys()) == places
    amended = audit.decision
    assert exploratory(amended) == [True, True]
    assert changes(amended) == [{"key": "design.challengers", "old": 6, "new": 8}]
    assert amended["gate2"]["challengers"]["started"] == 8
    assert amended["confirmatory"]["gate2"] == first["gate2"]
    assert statuses(amended["confirmatory"]) == statuses(first)


def test_another_contract_runs_all_episodes_anew_and_keeps_what_was_there(audit: Audit) -> None:
    records, store = audit.records(), audit.store
    audit.change({"limits": {"experiments": 3}, **FEWEST})
    audit.finish()
    new = audit.records()
    assert {path: new[path] for path in records} == records
    assert len(new) == len(records) + EPISODES_OF_FEWEST
    assert all(store not in path.parents for path in new.keys() - records.keys())
    kept = list(audit.results.glob("history/0001-*/decision.json"))
    assert [path.read_bytes() for path in kept] == [audit.original]
    amended = audit.decision
    assert exploratory(amended) == [True, True]
    assert {"key": "limits.experiments", "old": 4, "new": 3} in changes(amended)
    assert amended["confirmatory"] == json.loads(audit.original)
    verified = audit.dcpflow("verify")
    assert verified.code == 0, verified.text
