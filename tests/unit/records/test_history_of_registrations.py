"""The history is append-only: what was registered first, and every amendment, with old and new values."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dcpflow.errors import EvidenceError
from dcpflow.records import history, stagefile
from dcpflow.records.canonical import digest_of
from dcpflow.records.episodes import Claim, EpisodeKey, EpisodeRecord, EpisodeStore
from dcpflow.records.layout import Layout
from dcpflow.records.registration import CONTRACT_PARTS, Registered, registration_digest


def registered(rho: float = 0.05, challengers: int = 96, contract: str = "C1") -> Registered:
    parts = {
        **{part: {"config": {}} for part in CONTRACT_PARTS},
        "claim": {"config": {"id": contract}},
        "design": {"config": {"challengers": challengers}},
        "thresholds": {"config": {"gate2": {"rho": rho}}},
    }
    return Registered(registration_digest(parts), digest_of(contract), parts)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path)


def entry_files(layout: Layout) -> list[Path]:
    return sorted(layout.history.glob("*/entry.json"))


def test_the_first_registration_changes_nothing_and_opens_nothing(layout: Layout) -> None:
    assert history.entries(layout) == []
    history.append(layout, registered())
    (entry,) = history.entries(layout)
    assert (entry.sequence, entry.previous, entry.changes, entry.opened) == (1, "", [], {})
    assert entry.registration == registered().digest


def test_registering_the_same_again_adds_nothing(layout: Layout) -> None:
    history.append(layout, registered())
    before = {path: path.read_bytes() for path in layout.history.rglob("*.json")}
    history.append(layout, registered())
    assert {path: path.read_bytes() for path in layout.history.rglob("*.json")} == before


def test_an_amendment_names_each_changed_key_with_old_and_new_value(layout: Layout) -> None:
    history.append(layout, registered())
    history.append(layout, registered(rho=0.04, challengers=120))
    first, second = history.entries(layout)
    assert second.changes == [
        {"key": "design.challengers", "old": 96, "new": 120},
        {"key": "thresholds.gate2.rho", "old": 0.05, "new": 0.04},
    ]
    assert (second.sequence, second.previous) == (2, first.digest)


def test_an_amendment_says_what_was_started_committed_and_scored_by_then(
    layout: Layout, make_record: Callable[..., EpisodeRecord]
) -> None:
    history.append(layout, registered())
    store = EpisodeStore(layout.store, "sha256:" + "a" * 64)
    for slot in (1, 2, 3):
        claim = store.claim(make_record(slot=slot).key)
        assert isinstance(claim, Claim)
        if slot < 3:
            claim.commit(make_record(slot=slot), {})
    layout.scores("target").parent.mkdir(parents=True)
    layout.scores("target").write_bytes(b"scores")
    history.append(layout, registered(rho=0.04))
    opened = history.entries(layout)[1].opened
    assert opened["episodes"] == {"challengers": {"started": 3, "committed": 2}}
    assert list(opened["scores"]) == ["target"]
    assert opened["scores"]["target"].startswith("sha256:")


def test_no_wall_time_enters_what_is_hashed(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 1_000_000_000.0)
    history.append(layout, registered())
    (path,) = entry_files(layout)
    assert b"1000000000" not in path.read_bytes()
    assert json.loads((path.parent / "when.json").read_bytes()) == {"registered": "1000000000"}


def test_returning_to_the_first_registration_is_a_third_entry(layout: Layout) -> None:
    for rho in (0.05, 0.04, 0.05):
        history.append(layout, registered(rho=rho))
    first, _, third = history.entries(layout)
    assert third.registration == first.registration
    assert third.changes == [{"key": "thresholds.gate2.rho", "old": 0.04, "new": 0.05}]
    assert list(history.changes(first.parts, third.parts)) == []


def test_the_decision_of_each_registration_is_kept_when_it_is_amended(layout: Layout) -> None:
    history.append(layout, registered())
    layout.decision.write_bytes(b"first decision")
    history.append(layout, registered(rho=0.04))
    layout.decision.write_bytes(b"second decision")
    history.append(layout, registered(rho=0.05))
    kept = [history.kept_decision(layout, entry) for entry in history.entries(layout)]
    assert kept == [b"first decision", b"second decision", None]


RESTS_ON = (
    "scores/pairs.json",
    "scores/challengers/strong.json",
    "replay/challengers/strong.json",
    "evidence/pairs.parquet",
    "report.html",
)


def decided(layout: Layout, under: Registered, words: str) -> bytes:
    """A decision under a registration, with what it rests on beside it."""
    data = json.dumps({"registration": {"digest": under.digest}, "words": words}).encode()
    for name in ("decision.json", *RESTS_ON):
        path = layout.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if name == "decision.json" else f"{words} {name}".encode())
    return data


def test_what_a_decision_rests_on_is_kept_beside_it_and_nothing_else(layout: Layout) -> None:
    history.append(layout, registered())
    decision = decided(layout, registered(), "first")
    layout.hidden.mkdir(parents=True)
    (layout.hidden / "main.json").write_bytes(b"secret")
    history.append(layout, registered(rho=0.04))
    decided(layout, registered(rho=0.04), "second")
    (folder,) = {path.parent for path in layout.history.glob("*/decision.json")}
    assert folder.name.startswith("0001-")
    assert (folder / "decision.json").read_bytes() == decision
    assert (folder / "scores/pairs.json").read_bytes() == b"first scores/pairs.json"
    kept = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    own = {"entry.json", "when.json"}
    assert kept == own | {"decision.json", *RESTS_ON}


def test_a_decision_is_not_kept_under_a_registration_that_was_left_before_it_was_decided(layout: Layout) -> None:
    history.append(layout, registered())
    decision = decided(layout, registered(), "first")
    history.append(layout, registered(rho=0.04))
    history.append(layout, registered(rho=0.03))
    kept = [history.kept_decision(layout, entry) for entry in history.entries(layout)]
    assert kept == [decision, None, None]
    assert [path.parent.parent.name[:4] for path in layout.history.glob("*/scores/pairs.json")] == ["0001"]


def test_what_is_changed_before_the_first_episode_starts_is_no_amendment(layout: Layout, contract: str) -> None:
    history.append(layout, registered())
    history.append(layout, registered(rho=0.04))
    assert [entry.sequence for entry in history.since_the_first_episode(history.entries(layout))] == [2]
    assert isinstance(EpisodeStore(layout.store, contract).claim(EpisodeKey("target", 1, "target")), Claim)
    assert [entry.sequence for entry in history.since_the_first_episode(history.entries(layout))] == [2]
    history.append(layout, registered(rho=0.03))
    history.append(layout, registered())
    assert [entry.sequence for entry in history.since_the_first_episode(history.entries(layout))] == [2, 3, 4]


@pytest.mark.parametrize("number", [0, 1, 2])
def test_an_altered_entry_is_named(layout: Layout, number: int) -> None:
    for rho in (0.05, 0.04, 0.03):
        history.append(layout, registered(rho=rho))
    path = entry_files(layout)[number]
    path.chmod(0o644)
    path.write_bytes(path.read_bytes().replace(b'"challengers":96', b'"challengers":95'))
    with pytest.raises(EvidenceError, match="the history entry was altered") as caught:
        history.entries(layout)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("number", [0, 1])
def test_a_removed_entry_breaks_the_chain_at_a_named_place(layout: Layout, number: int) -> None:
    for rho in (0.05, 0.04, 0.03):
        history.append(layout, registered(rho=rho))
    paths = entry_files(layout)
    shutil.rmtree(paths[number].parent)
    with pytest.raises(EvidenceError, match="the history is broken") as caught:
        history.entries(layout)
    assert str(paths[number + 1]) in str(caught.value)


def test_an_entry_of_another_history_is_not_accepted(layout: Layout, tmp_path: Path) -> None:
    other = Layout(tmp_path / "other")
    for rho in (0.01, 0.04):
        history.append(other, registered(rho=rho))
    for rho in (0.05, 0.04):
        history.append(layout, registered(rho=rho))
    mine, theirs = entry_files(layout)[1], entry_files(other)[1]
    mine.unlink()
    shutil.copy(theirs, mine)
    with pytest.raises(EvidenceError, match="the history is broken"):
        history.entries(layout)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"a": 1}, {"a": 2}, [("a", 1, 2)]),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, [("a.c", 2, 3)]),
        ({"a": 1}, {}, [("a", 1, None)]),
        ({}, {"a": 1}, [("a", None, 1)]),
        ({"a": {"b": 1}}, {"a": {}}, [("a.b", 1, None)]),
        ({"a": {}}, {}, [("a", {}, None)]),
        ({"a": {"b": 1}}, {"a": 1}, [("a", {"b": 1}, 1)]),
        ({"a": [1, 2]}, {"a": [2, 1]}, [("a", [1, 2], [2, 1])]),
        # values that Python calls equal, but that are not the same registration
        ({"a": 1}, {"a": True}, [("a", 1, True)]),
        ({"a": 0}, {"a": False}, [("a", 0, False)]),
        ({"a": "1"}, {"a": 1}, [("a", "1", 1)]),
        ({"a": None}, {"a": "none"}, [("a", None, "none")]),
        ({"part": {"config": {"a": 1}}}, {"part": {"config": {"a": 2}}}, [("part.a", 1, 2)]),
        (
            {"design": {"strata": {"config": {"config": {"alpha": 1}}}}},
            {"design": {"strata": {"config": {"config": {"alpha": 2}}}}},
            [("design.strata.config.alpha", 1, 2)],
        ),
        ({"task": {"sources": {"m": "x"}}}, {"task": {"sources": {"m": "y"}}}, [("task.sources.m", "x", "y")]),
        ({"a": 1, "b": {"c": 1}}, {"a": 1, "b": {"c": 1}}, []),
    ],
    ids=str,
)
def test_changes_name_keys_in_order_with_both_values(
    old: dict[str, Any], new: dict[str, Any], expected: list[tuple[str, Any, Any]]
) -> None:
    found = list(history.changes(old, new))
    assert [(change["key"], change["old"], change["new"]) for change in found] == expected


@pytest.mark.parametrize(
    ("old", "new"),
    [({}, {"temperature": None}), ({"stop": [1]}, {"stop": [True]}), ({"stop": [0, 1]}, {"stop": [False, True]})],
    ids=str,
)
def test_what_moves_the_digest_is_a_change(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert digest_of(old) != digest_of(new)
    assert list(history.changes({"agent": {"config": {"settings": old}}}, {"agent": {"config": {"settings": new}}}))


def test_the_names_that_challengers_of_a_contract_had_are_those_of_all_registrations(layout: Layout) -> None:
    def with_strata(contract: str, **strata: str) -> Registered:
        named = {name: {"contract": of} for name, of in strata.items()}
        design = {"config": {"stratum": "matched"}, **({"strata": named} if named else {})}
        parts: dict[str, Any] = {**registered(contract=contract).parts, "design": design}
        return Registered(registration_digest(parts), contract, parts)

    for one in (with_strata("C1", strong="C2"), with_strata("C1", stronger="C2"), with_strata("C3", before="C1")):
        history.append(layout, one)
    assert history.challengers(history.entries(layout)) == {
        "C1": {"matched", "before"},
        "C2": {"strong", "stronger"},
        "C3": {"matched"},
    }


def test_an_entry_names_the_registration_that_its_parts_give(layout: Layout) -> None:
    history.append(layout, registered())
    (path,) = layout.history.glob("*/entry.json")
    body, _ = stagefile.read(path, history.SCHEMA, "the entry")
    other = {**body, "parts": registered(rho=0.04).parts}
    for altered in (other, body | {"parts": []}, {"parts": body["parts"]}):
        path.chmod(0o644)
        stagefile.write(path, history.SCHEMA, altered)
        with pytest.raises(EvidenceError, match="does not hold the registration that it names"):
            history.entries(layout)
