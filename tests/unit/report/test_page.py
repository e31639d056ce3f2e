"""The page: what a reviewer finds on it, from where its numbers are, and how each status reads."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from dcpflow.bundles.export import export
from dcpflow.errors import EvidenceError, UsageError
from dcpflow.evidence import tables
from dcpflow.records.calls import Call, Prices
from dcpflow.report import costs, material, page, screen
from dcpflow.report.material import Material
from dcpflow.stages.costs import write_costs
from dcpflow.stages.rendering import render
from dcpflow.stages.report import write_report
from report.conftest import Page, parsed, priced

if TYPE_CHECKING:
    from tests.conftest import Audit

CERTIFIED = {
    "core": {"status": "certified", "class": None, "rule": "V16", "reason": "no recovery in 96 independent attempts"},
    "evidence": {"status": "certified", "class": None, "rule": "E7", "reason": "[0.4679, 1.17] against 0.34"},
    "gate2": {
        "recovery": "not_recovered_within_scope",
        "recovery_upper_bound": 0.046838,
        "recovery_upper_bound_without_failures": 0.046838,
        "adequacy": [],
    },
}


def test_a_reviewer_finds_everything_that_the_decision_says(small: Material) -> None:
    text = parsed(page.render(small)).text
    decision = small.decision
    assert "scope: this agent, this budget, this information" in text
    assert "exercise, not a discovery" in text and "the agent ships with dcpflow" in text
    for wanted in (
        decision["claim"]["statement"],
        *decision["not_claimed"],
        *(check["reason"] for check in decision["checks"]),
        *decision["warnings"],
        *(fetched["url"] for fetched in decision["web"]["fetched"]),
        decision["registration"]["digest"],
        decision["registration"]["contract"],
        *decision["rests_on"]["tables"].values(),
        small.digest,
        "dcpflow verify",
        decision["claim"]["slot"],
        "registry: none",
    ):
        assert " ".join(wanted.split()) in text


def test_numbers_stand_beside_their_arm_and_denominator(small: Material) -> None:
    text = parsed(page.render(small)).text
    assert "0 of 6 independent challengers reached the recovery line" in text
    assert "4 of 4 controls succeeded" in text
    assert "3 truthful and 0 neutral branches reached the recovery line, of 3 analysed pairs" in text
    assert "over 4 null pairs" in text


def test_the_methods_paragraph_names_what_a_methods_section_needs(small: Material) -> None:
    page_of = parsed(page.render(small))
    (methods,) = (text for text in page_of.texts if "was audited after the Discovery Certification Protocol" in text)
    seal, decision = small.seal, small.decision
    for wanted in (
        decision["scope"]["model"],
        seal["background"],
        decision["web"]["packet"],
        "4 experiments",
        "n = 6 independent challengers",
        "margins 0.34 and 0.17",
        "Amendments: none",
        "Target runs started: 1",
        "exact on these units",
        "self-audited",
    ):
        assert wanted in methods


def test_the_ledger_counts_every_episode_once(small: Material) -> None:
    text = parsed(page.render(small)).text
    assert "challengers withheld 6 6 6 0 0 0 0 0" in text
    assert "misled null episodes misleading 12 12" in text


def test_the_target_run_is_drawn_by_experiment_with_the_claimed_artifact_marked(small: Material) -> None:
    (record,) = (row["record"] for row in small.of("target"))
    first, second, *others = small.experiments
    untried = replace(small, experiments=[first, replace(second, artifact="sha256:" + "0" * 64), *others])
    tried = replace(small, experiments=[first, replace(second, artifact=small.best()[record]["artifact"]), *others])
    for material_of, marks in ((untried, 0), (tried, 1)):
        found = parsed(page.render(material_of))
        told = f"experiment 2 of {len(small.experiments)}: total {float(second.result['total']):g}"
        titles = [text for text in found.texts if text.startswith(told) and ";" not in text]
        assert titles == [told + ", the claimed artifact" * marks]
        assert ("No experiment tried the claimed artifact itself." in found.text) is (marks == 0)


def test_a_certified_audit_reads_as_one(shown: Callable[..., Page]) -> None:
    text = shown(**CERTIFIED).text
    assert "Core CERTIFIED The outcome is real in sealed scoring, and none of 6 fresh challengers reached it" in text
    assert "without this run's history? No 0 of 6" in text
    assert "Did truthful feedback make the difference? Yes" in text
    assert "that nobody else can reach the outcome" in text


def test_a_refuted_audit_names_its_witness_with_its_score(shown: Callable[..., Page], small: Material) -> None:
    best = small.best()[small.of("challengers")[1]["record"]]["score"]
    text = shown(
        core={"status": "refuted", "class": None, "rule": "V11", "reason": "a challenger recovered the outcome"},
        evidence={"status": "not_tested", "class": None, "rule": "E2", "reason": "Core is not certified"},
        gate2={"recovery": "recovered", "witnesses": ["challengers/2"], "recovery_upper_bound": None},
    ).text
    assert "without this run's history? Yes" in text
    assert f"Recovered by challengers/2 ({best:.4f})." in text
    assert "Evidence NOT TESTED Core is not certified." in text


def test_an_inconclusive_audit_shows_nothing_either_way(small: Material) -> None:
    text = parsed(page.render(small)).text
    assert "Core INCONCLUSIVE Nothing is shown either way: something is missing or failed a check." in text
    assert "without this run's history? Open" in text
    assert "that the claim is true, or that it is false: the audit is open" in text


@pytest.mark.parametrize("rule", ["V1", "V2"])
def test_a_fault_of_the_audit_opens_every_question(shown: Callable[..., Page], rule: str) -> None:
    text = shown(core={"rule": rule, "reason": "isolation was open"}).text
    assert "better than the baseline? Open" in text and "history? Open" in text
    assert "What stands in the way: isolation was open." in text


def test_core_alone_asks_no_third_question(shown: Callable[..., Page]) -> None:
    text = shown(gate3=None, evidence={"status": "not_tested", "reason": "only Core was asked for"}).text
    assert "Did truthful feedback make the difference? Not asked" in text


def test_what_refutes_evidence_is_said(shown: Callable[..., Page]) -> None:
    reason = "the feedback was not necessary: 2 hits"
    refuted = {"status": "refuted", "class": None, "rule": "E4", "reason": reason}
    text = shown(**{**CERTIFIED, "evidence": refuted}).text
    assert "Did truthful feedback make the difference? No" in text
    assert f"Evidence is refuted: {reason}." in text


def test_an_audit_with_a_secret_nonce_and_another_s_agent_is_no_exercise(shown: Callable[..., Page]) -> None:
    text = shown(scope={"agent": "command solver"}, registration={"public_demonstration": ""}).text
    assert "exercise" not in text


def test_an_amended_audit_stands_beside_the_first_registration(shown: Callable[..., Page], small: Material) -> None:
    change = {"key": "thresholds.gate1.delta_min", "old": 0.5, "new": 0.6}
    text = shown(
        core={"exploratory": True},
        registration={"amendments": [{"sequence": 2, "changes": [change], "opened": {"scores": {"target": "x"}}}]},
        confirmatory={"core": small.decision["core"], "evidence": {"status": "certified", "reason": "as it was"}},
    ).text
    assert "Core INCONCLUSIVE, exploratory" in text
    assert "Under the first registration: Core inconclusive, Evidence certified." in text
    assert "1 thresholds.gate1.delta_min 0.5 0.6 target" in text


def test_the_page_needs_nothing_but_itself(small: Material) -> None:
    """No script, nothing loaded, nothing sent, and a policy that would refuse it."""
    found = parsed(page.render(small))
    assert not {tag for tag, _ in found.tags} & {"script", "iframe", "object", "embed", "form", "img", "base"}
    for _, attributes in found.tags:
        assert not [name for name in attributes if name.startswith("on")]
        for name in ("src", "href", "xlink:href", "action", "data"):
            assert (attributes.get(name) or "#").startswith(("#", "data:,"))
    assert not re.search(r"url\(|@import|https?:", "".join(found.styles))
    (policy,) = (meta["content"] for meta in found.of("meta") if "http-equiv" in meta)
    assert policy and policy.startswith("default-src 'none'")


def test_tables_and_figures_can_be_read_without_seeing_them(small: Material) -> None:
    found = parsed(page.render(small))
    assert len(found.of("caption")) == len(found.of("table")) > 5
    assert all(heading.get("scope") in ("col", "row") for heading in found.of("th"))
    identities = [attributes["id"] for _, attributes in found.tags if "id" in attributes]
    assert len(identities) == len(set(identities))
    for figure in found.of("svg"):
        assert figure["role"] == "img"
        assert set((figure["aria-labelledby"] or "").split()) <= set(identities)


def test_one_evidence_gives_one_page_wherever_it_lies(audit_copy: Audit, finished_audit: Audit, tmp_path: Path) -> None:
    """In a folder, in a copy whose times differ, and in a bundle."""
    layout = audit_copy.job.layout
    for aside in layout.store.rglob("aside-*.json"):
        aside.chmod(0o644)
        aside.write_text('{"host":"far-away","seconds":"99","started":"1","measuring_seconds":"7"}')
    write_report(audit_copy.results)
    export(finished_audit.results, tmp_path / "audit.dcpflow")
    made = render(tmp_path / "audit.dcpflow", None, with_times=False)
    assert made == tmp_path / "audit.dcpflow.html"
    written = layout.report.read_bytes()
    assert written == made.read_bytes() == page.render(material.read(finished_audit.job.layout))
    assert b"far-away" not in written


def test_times_are_added_on_request_and_set_apart(audit_copy: Audit, tmp_path: Path) -> None:
    made = render(audit_copy.results, tmp_path / "times.html", with_times=True)
    text = parsed(made.read_bytes()).text
    assert "Wall times, which are no part of the evidence" in text
    assert "misled null episodes 12" in text
    assert not audit_copy.job.layout.report.exists()
    bundle = tmp_path / "audit.dcpflow"
    export(audit_copy.results, bundle)
    with pytest.raises(UsageError, match="no times"):
        render(bundle, None, with_times=True)


def test_money_is_added_on_request_and_set_apart(small: Material, audit_copy: Audit, tmp_path: Path) -> None:
    assert "USD" not in parsed(page.render(small)).text
    rows = [priced("target", 1, 0.25), priced("challengers", 1, 0.5), priced("challengers", 2, 1.0, "timeout")]
    text = parsed(page.render(small, spent=rows)).text
    assert "Money, which is no part of the evidence" in text
    assert "challengers 2 2 1 2000 800 40 1.5000" in text
    assert "all 3 3 1 3000 1200 60 1.7500" in text
    made = render(audit_copy.results, tmp_path / "costs.html", with_times=False, with_costs=True)
    assert "No model was asked" in parsed(made.read_bytes()).text


def test_prices_of_other_calls_are_refused(tmp_path: Path) -> None:
    answered = Call("sha256:" + "0" * 64, 200, "", "m-1", 1_000_000, 0, 0, "")
    place = {"stage": "challengers", "arm": "", "attempt": 1, "number": 1}
    rows = [{**place, "slot": slot, "record": f"challengers/{slot}", **asdict(answered)} for slot in (1, 2)]
    tables.write(tmp_path / "calls.parquet", "calls", rows, "")
    write_costs(tmp_path / "calls.parquet", Prices(3.0, 3.0, 3.0), tmp_path / "costs.parquet")
    assert [row["usd"] for row in costs.read(tmp_path / "costs.parquet", rows)] == [3.0, 3.0]
    with pytest.raises(EvidenceError, match="is not of the calls that are recorded"):
        costs.read(tmp_path / "costs.parquet", rows[:1])
    with pytest.raises(EvidenceError, match="missing"):
        costs.read(tmp_path / "none.parquet", rows)


def test_a_table_that_the_decision_does_not_rest_on_is_refused(audit_copy: Audit) -> None:
    path = audit_copy.job.layout.evidence / "scores.parquet"
    pq.write_table(pq.read_table(path).slice(1), path)
    with pytest.raises(EvidenceError, match=r"scores\.parquet is not the one that .*decision\.json rests on"):
        write_report(audit_copy.results)
    assert not audit_copy.job.layout.report.exists()


def test_a_bundle_that_does_not_verify_has_no_page(finished_audit: Audit, tmp_path: Path) -> None:
    bundle = tmp_path / "audit.dcpflow"
    export(finished_audit.results, bundle)
    bundle.write_bytes(bundle.read_bytes().replace(b'"inconclusive"', b'"certified"', 1))
    with pytest.raises(EvidenceError):
        render(bundle, None, with_times=False)
    assert not (tmp_path / "audit.dcpflow.html").exists()


def test_what_is_no_audit_has_no_page(tmp_path: Path) -> None:
    (tmp_path / "payload").mkdir()
    with pytest.raises(UsageError, match="Import it first"):
        render(tmp_path, None, with_times=False)
    (tmp_path / "decision.json").write_text('{"schema":"another/1"}')
    with pytest.raises(EvidenceError, match="is no decision that this version"):
        render(tmp_path, None, with_times=False)


def test_show_names_the_report_of_this_decision_alone(audit_copy: Audit) -> None:
    layout = audit_copy.job.layout
    assert screen.report_of(layout.decision) is None
    write_report(audit_copy.results)
    assert screen.report_of(layout.decision) == layout.report
    layout.decision.write_bytes(layout.decision.read_bytes() + b"\n")
    assert screen.report_of(layout.decision) is None
