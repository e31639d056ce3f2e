"""A stratum in the decision: a block of its own, a sentence in the headline, and nothing in any status."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dcpflow.evidence import folder, gates, strata, tables
from dcpflow.evidence.checks import Context
from dcpflow.evidence.facts import AuditFacts
from dcpflow.evidence.strata import Stratum
from dcpflow.evidence.view import AuditView, Episode
from dcpflow.protocol.intervals import zero_hit_upper_bound
from dcpflow.records import canonical, history
from dcpflow.report import screen

if TYPE_CHECKING:
    from tests.conftest import Audit


@pytest.fixture(scope="module")
def evidence(stratified_audit: Audit) -> folder.Evidence:
    audit = stratified_audit
    return folder.read(audit.job.layout, audit.receipts, audit.scores)


@pytest.fixture(scope="module")
def registrations(stratified_audit: Audit) -> list[str]:
    return [entry.registration for entry in history.entries(stratified_audit.job.layout)]


@pytest.fixture
def judged(evidence: folder.Evidence, registrations: list[str]) -> Callable[..., Stratum]:
    """Judges the stratum after its view or its facts were changed."""

    def judge(view: AuditView | None = None, **facts: Any) -> Stratum:
        seen, part = evidence.view, view or evidence.view.strata["strong"]
        reg = gates.registration(folder.config_of(seen.registered), seen.registered.contract, seen.checkpoint)
        own: AuditFacts = replace(evidence.facts.strata["strong"], **facts)
        known = evidence.episode_facts | {
            e.digest: evidence.episode_facts[old.digest]
            for e, old in zip(part.episodes, seen.strata["strong"].episodes, strict=True)
        }
        context = Context(part, own, known, registrations, folder.config_of(part.registered), reg)
        return strata.reach(context, gates.gate1(seen).claimed, 0.1)

    return judge


def with_hit(evidence: folder.Evidence, part: AuditView, slot: int) -> AuditView:
    """Give a challenger of the stratum the claimed artifact's score."""
    (target,) = [row for row in evidence.view.scores["target"] if row.role == "candidate"]
    rows = tuple(replace(r, units=target.units) if r.slot == slot else r for r in part.scores["challengers"])
    return replace(part, scores={"challengers": rows})


def decision(audit: Audit) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(audit.job.layout.decision.read_bytes())
    return found


def test_a_stratum_changes_no_status_and_no_gate(finished_audit: Audit, stratified_audit: Audit) -> None:
    before, after = decision(finished_audit), decision(stratified_audit)
    assert after.keys() - before.keys() == {"strata", "headline"}
    for part in ("core", "evidence", "gate1", "gate2", "gate3", "controls", "checks", "faults", "scope"):
        assert after[part] == before[part], part
    assert after["rests_on"]["episodes"] == before["rests_on"]["episodes"]
    assert after["rests_on"]["scores"] == before["rests_on"]["scores"]
    assert after["confirmatory"]["core"] == before["core"]
    assert "strata" not in after["confirmatory"]


def test_its_block_has_its_arm_its_denominator_and_its_own_bound(stratified_audit: Audit) -> None:
    block = decision(stratified_audit)["strata"]["strong"]
    assert block["label"] == "informative" and block["exploratory"] is True
    assert block["budget"]["experiments"] == 6
    assert block["challengers"]["registered"] == block["challengers"]["started"] == 3
    assert block["recovery_upper_bound"] == zero_hit_upper_bound(3, 0.1)
    assert block["complete"] is True and block["reason"] == ""
    assert {check["result"] for check in block["checks"]} == {"pass"}


def test_a_hit_of_a_stratum_stands_in_the_headline(evidence: folder.Evidence, judged: Callable[..., Stratum]) -> None:
    found = judged(with_hit(evidence, evidence.view.strata["strong"], 2))
    block = strata.document(found)
    assert block["recovered"] and block["recovery_upper_bound"] is None
    assert block["witnesses"] == ["challengers/strong/2"]
    (sentence,) = strata.headline({"strong": block})
    assert "another challenger (strong) recovered the outcome; Core is about the matched agent" in sentence
    assert "1 of 3" in sentence


def test_a_failing_check_is_said_in_the_block(judged: Callable[..., Stratum]) -> None:
    block = strata.document(judged(unlisted=["challengers slot 9 (withheld), attempt 1"]))
    assert block["complete"] is False and block["recovery_upper_bound"] is None
    assert "ledger_complete" in block["reason"] and "slot 9" in block["reason"]


def test_a_hit_of_a_challenger_that_began_before_the_claim_is_none(
    evidence: folder.Evidence, judged: Callable[..., Stratum]
) -> None:
    part = with_hit(evidence, evidence.view.strata["strong"], 2)

    def early(episode: Episode) -> Episode:
        record = replace(episode.record, prior_seal=episode.record.registration)
        return replace(episode, record=record, digest=canonical.digest(record.to_bytes()))

    episodes = tuple(early(e) for e in part.episodes)
    names = {old.digest: new.digest for old, new in zip(part.episodes, episodes, strict=True)}
    rows = tuple(replace(row, record=names[row.record]) for row in part.scores["challengers"])
    block = strata.document(judged(replace(part, episodes=episodes, scores={"challengers": rows})))
    assert block["challengers"]["hits"] == 1 and not block["recovered"]
    assert "claim_frozen" in block["reason"]
    (sentence,) = strata.headline({"strong": block})
    assert "reached the recovery line, which could not be assessed (1 of 3 in the stratum strong" in sentence
    assert "claim_frozen" in sentence


def test_tables_hold_its_rows_apart_from_the_challengers(stratified_audit: Audit) -> None:
    layout = stratified_audit.job.layout
    found = {name: tables.read(folder.table_path(layout, name), name) for name in ("episodes", "candidates", "scores")}
    for name, rows in found.items():
        counts = Counter((row["stage"], row["record"]) for row in rows if row["record"])
        stages = Counter(stage for stage, _ in counts)
        assert (stages["challengers"], stages["challengers/strong"]) == (6, 3), name
    assert {row["stratum"] for row in found["episodes"] if row["stage"] == "challengers/strong"} == {"strong"}
    assert {row["phase"] for row in found["scores"] if row["stage"] == "challengers/strong"} == {"challengers/strong"}


# --- strata that are changed or removed once it is known what they came to ------------------------------------


def entry(opened: int, **strata: tuple[str, int]) -> history.Entry:
    """A registration with strata, of each its contract and number, and so many episodes of ``strong`` before it."""
    registered = {name: {"contract": of, "config": {"challengers": count}} for name, (of, count) in strata.items()}
    parts: dict[str, Any] = {"design": {"config": {}, **({"strata": registered} if strata else {})}}
    episodes = {"episodes": {"challengers/strong": {"started": opened, "committed": opened}}} if opened else {}
    return history.Entry(1, "R", "C", parts, "", [], episodes, "")


@pytest.mark.parametrize(
    ("later", "end"),
    [
        ({}, "is no longer shown"),
        ({"another": ("c2", 5)}, "is no longer shown"),
        ({"strong": ("c2", 9)}, "is no longer shown"),
        ({"strong": ("c1", 4)}, "is shown with 4 alone"),
    ],
)
def test_a_stratum_that_was_registered_and_is_not_shown_whole_is_told(later: dict[str, Any], end: str) -> None:
    told = strata.no_longer_shown([entry(0, strong=("c1", 5)), entry(5, **later)])
    assert told == {"strong": f"the stratum strong was registered with 5 challengers (5 started) and {end}"}
    assert strata.no_longer_shown([entry(0), entry(0, strong=("c1", 5)), entry(5, **later)]) == told


def test_a_stratum_that_is_shown_whole_is_not_told() -> None:
    first = entry(0, strong=("c1", 5))
    assert strata.no_longer_shown([first]) == {}
    assert strata.no_longer_shown([first, entry(5, strong=("c1", 6), another=("c2", 1))]) == {}
    assert strata.no_longer_shown([first, entry(5), entry(5, strong=("c1", 5))]) == {}


@pytest.fixture
def registered_first(stratified_audit: Audit, tmp_path: Path) -> Audit:
    """A finished audit whose first registration has the stratum, of which somebody says that it has recovered."""
    audit = stratified_audit.at(shutil.copytree(stratified_audit.results, tmp_path / "results"))
    layout = audit.job.layout
    shutil.rmtree(layout.history)
    audit.register()
    layout.decision.write_bytes(canonical.encode(decision(audit) | {"headline": ["strong recovered"]}))
    return audit


def test_a_recovery_cannot_be_removed_with_its_stratum(registered_first: Audit) -> None:
    removed = replace(registered_first, settings={**registered_first.settings, "strata": {}})
    removed.register()
    removed.tabulate()
    removed.decide()
    found = decision(removed)
    was = "the stratum strong was registered with 3 challengers (3 started) and is no longer shown"
    assert found["headline"] == ["under the first registration: strong recovered", was]
    assert f"beside    {was.capitalize()}" in screen.render(found)
    assert not found["core"]["exploratory"] and not found["evidence"]["exploratory"]


def test_a_recovery_cannot_be_removed_by_a_lower_number(registered_first: Audit) -> None:
    first = decision(registered_first)
    fewer = {"limits": {"experiments": 6}, "challengers": 2, "alpha": 0.1}
    lowered = registered_first.with_settings(strata={"strong": fewer})
    lowered.register()
    lowered.run_strata()
    lowered.tabulate()
    lowered.decide()
    found = decision(lowered)
    assert found["strata"]["strong"]["challengers"]["started"] == 2
    assert found["confirmatory"] == first
    was = "the stratum strong was registered with 3 challengers (3 started) and is shown with 2 alone"
    assert found["headline"] == ["under the first registration: strong recovered", was]
