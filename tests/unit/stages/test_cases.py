"""The published cases: their registered values, their secrets, and the table of their decisions."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from dcpflow.errors import UsageError
from dcpflow.report.cases import Row, table
from dcpflow.stages import cases, configuration
from dcpflow.stages.cases import CASES, Case

ROOT = Path(__file__).parents[3]
EVIDENCE = {"main": 0.005, "score": 0.005, "recovery": 0.01, "adequacy": 0.005, "evidence": 0.01, "sham": 0.01}
CORE = {"main": 0.005, "score": 0.005, "recovery": 0.02, "adequacy": 0.005}
# as published: grade, delta_min, epsilon, alphas, challengers, least independent, m_max, controls
REGISTERED = {
    "sqlite-web": ("evidence", 0.5, 0.005, EVIDENCE, 96, 90, 162, 45),
    "catalyst": ("evidence", 0.35, 0.05, EVIDENCE, 96, 90, 162, 45),
    "sqlite-core": ("core", 0.5, 0.005, CORE, 80, 77, 80, 45),
    "device": ("core", 0.5, 0.05, CORE, 80, 77, 80, 60),
    "yacht": ("evidence", 0.5, 0.05, EVIDENCE, 96, 90, 162, 45),
    "ionosphere": ("evidence", 0.5, 0.05, EVIDENCE, 96, 90, 162, 45),
    "dry-bean": ("evidence", 0.5, 0.05, EVIDENCE, 96, 90, 162, 45),
    "knapsack": ("core", 0.01, 0.002, {}, 96, 90, 162, 45),
}


@pytest.fixture(autouse=True)
def in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def case(name: str) -> Case:
    return next(case for case in CASES if case.name == name)


@pytest.mark.parametrize("name", REGISTERED)
def test_a_case_registers_the_published_values(name: str) -> None:
    config = configuration.read([Path(path) for path in case(name).configfiles]).config
    grade, delta, epsilon, alphas, challengers, independent, m_max, controls = REGISTERED[name]
    gate1, gate2, gate3 = config.thresholds.gate1, config.thresholds.gate2, config.thresholds.gate3
    assert (config.claim.grade, gate1.delta_min) == (grade, delta)
    assert gate2.kappa * gate1.delta_min == pytest.approx(epsilon)
    assert {key: getattr(config.thresholds.alpha, key) for key in alphas} == alphas
    assert (config.design.challengers, gate2.min_independent, gate2.m_max) == (challengers, independent, m_max)
    assert (config.design.controls, gate2.rho, config.thresholds.controls.recall_min) == (controls, 0.05, 0.8)
    if grade == "evidence":
        assert (config.design.pairs, config.design.null_pairs) == (30, 60)
        assert (gate3.delta_evidence, gate3.delta_sham, gate3.rho_placebo) == (0.34, 0.17, 0.05)


def test_cases_do_not_share_claims_results_or_secrets() -> None:
    audits = [configuration.read([Path(path) for path in each.configfiles]).config for each in CASES]
    confirmatory = [audit for audit, each in zip(audits, CASES, strict=True) if "amended" not in each.name]
    for values in (
        [(audit.claim.id, audit.claim.slot, audit.claim.family) for audit in confirmatory],
        [audit.execution.results for audit in confirmatory],
        [audit.execution.nonce_file for audit in confirmatory],
    ):
        assert len(set(values)) == len(confirmatory) == 9


@pytest.mark.parametrize("name", [each.name for each in CASES if each.configfiles and "amended" not in each.name])
def test_the_secret_of_a_case_follows_from_its_name(name: str) -> None:
    path = configuration.read([Path(path) for path in case(name).configfiles]).config.execution.nonce_file
    comment, digits = (ROOT / path).read_text("utf-8").splitlines()
    assert comment == f"# public-demonstration: dcpflow {name} audit 1"
    assert digits == hashlib.sha256(f"dcpflow {name} audit 1".encode()).hexdigest()


def test_the_amendment_of_dry_bean_changes_the_line_and_nothing_else() -> None:
    first, amended = (
        configuration.read([Path(path) for path in case(name).configfiles])
        for name in ("dry-bean", "dry-bean, amended")
    )
    assert first.contract == amended.contract
    assert first.section("design") == amended.section("design")
    one, other = (audit.config.thresholds for audit in (first, amended))
    assert one.gate2.kappa != other.gate2.kappa
    assert one == other.model_copy(update={"gate2": other.gate2.model_copy(update={"kappa": one.gate2.kappa})})


def test_a_case_is_chosen_with_its_amendment() -> None:
    assert [each.name for each in cases.chosen(["dry-bean"])] == ["dry-bean", "dry-bean, amended"]
    assert [each.name for each in cases.chosen(["affine", "device"])] == ["device", "affine"]
    assert cases.chosen([]) == list(CASES)
    with pytest.raises(UsageError, match=r"no case 'yatch'.*yacht"):
        cases.chosen(["yatch"])


def test_a_case_that_cannot_run_is_a_row_and_the_next_one_is_tried(tmp_path: Path) -> None:
    broken = (Case("one", ("config/cases/none.yaml",)), Case("two", ("config/cases/nothing.yaml",)))
    rows = list(cases.run(broken, "1"))
    assert [(row.name, row.decision) for row in rows] == [("one", None), ("two", None)]
    text = table(rows)
    assert "| one  | no decision |" in text
    assert "two: the configuration config/cases/nothing.yaml cannot be read" in text


def test_without_the_data_a_case_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "yacht.csv").write_text("1,2,3\n")
    (row,) = cases.run([case("yacht")], "1", tmp_path)
    assert row.decision is None
    assert row.problem.startswith(f"no file in {tmp_path} holds the data set UCI Yacht Hydrodynamics")


def test_the_table_shows_the_decision_and_nothing_that_steers_a_terminal() -> None:
    verdict = {"status": "refuted", "class": None, "exploratory": True, "reason": "\x1b[2Jfound", "rule": "V1"}
    decision = {
        "core": verdict,
        "evidence": {**verdict, "status": "inconclusive", "class": "statistical_uncertainty"},
        "gate1": {"x": 0.93456},
        "gate2": {
            "best_score": 0.9604,
            "recovery_line": 0.9329,
            "recovery_upper_bound": 0.0468381,
            "witnesses": ["challengers/1", "challengers/3", "challengers/4", "challengers/9"],
        },
        "gate3": {"effect": {"lower": 0.0944, "upper": 0.7789}, "null": {"lower": -0.095, "upper": 0.095}},
        "controls": {"successes": 45, "trials": 45, "recall_lower_bound": 0.88893},
    }
    text = table([Row("knapsack", json.loads(json.dumps(decision)), "", 61.4)])
    headings, _, cells = text.splitlines()[:3]
    shown = dict(zip(*([cell.strip() for cell in line.split("|")[1:-1]] for line in (headings, cells)), strict=True))
    assert shown == {
        "case": "knapsack",
        "Core": "refuted, exploratory",
        "Evidence": "inconclusive, exploratory",
        "class": "statistical_uncertainty",
        "x": "0.9346",
        "best challenger": "0.9604",
        "line": "0.9329",
        "bound": "0.0468381",
        "controls": "45/45, 0.8889",
        "effect": "[0.0944, 0.7789]",
        "null": "[-0.0950, 0.0950]",
        "wall s": "61",
    }
    assert "recovered by challengers/1, challengers/3, challengers/4 (best 0.9604, line 0.9329)" in text
    assert "\x1b" not in text
