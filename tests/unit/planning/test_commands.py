"""``dcpflow plan``, ``simulate`` and ``sensitivity`` as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from tests.conftest import ROOT

from dcpflow.cli import main
from dcpflow.protocol.config import load

if TYPE_CHECKING:
    from tests.conftest import Audit


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_plan_reproduces_the_published_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--pairs", "30"]) == 0
    lines = capsys.readouterr().out.splitlines()
    numbers = {line[:26].strip(): line[26:].split()[0] for line in lines[1:11]}
    assert numbers["independent challengers"] == "90"
    assert numbers["controls, all successful"] == "24"
    assert numbers["neutral branches"] == "104"
    assert any("28 of 30 truthful branches must recover" in line for line in lines)
    assert main(["plan", "--grade", "core", "--alpha-recovery", ".02", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["challengers_needed"] == 77


def test_plan_takes_prices_and_a_pilot(capsys: pytest.CaptureFixture[str], finished_audit: Audit) -> None:
    assert main(["plan", "--seconds", "60", "--tokens", "2000", "--money", "0.5", "--jobs", "4", "--json"]) == 0
    cost = json.loads(capsys.readouterr().out)["cost"]
    assert cost["hours"] == pytest.approx(cost["episodes"] / 240)
    assert (cost["tokens"], cost["money"]) == (cost["episodes"] * 2000, cost["episodes"] / 2)
    assert main(["plan", "--pilot", str(finished_audit.results), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cost"]["seconds"] > 0


def test_plan_prints_a_fragment_that_is_a_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--fragment", "--rho", "0.04"]) == 0
    assert load(yaml.safe_load(capsys.readouterr().out)).thresholds.gate2.rho == 0.04


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--rho", "0.2"], "R6"),
        (["--power", "1"], "a power of 1"),
        (["--recall", "0.7"], "cannot show a recall"),
        (["--truthful", "0.5"], "margins"),
    ],
)
def test_plans_that_cannot_be_are_bad_usage(
    capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert main(["plan", *arguments]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["plan", "--p", "1.5"],
        ["plan", "--pairs", "0"],
        ["simulate", "--audits", "-3"],
        ["simulate", "--seed", "-1"],
        ["plan", "--money", "nan"],
    ],
)
def test_arguments_out_of_range_are_bad_usage(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert "error: argument" in capsys.readouterr().err


def test_simulate_prints_the_error_beside_the_formula_and_the_speed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--p", ".05", "--audits", "2000", "--processes", "1"]) == 0
    text = capsys.readouterr().out
    assert "core false certification: " in text
    assert "0.95^96 = 0.007269; registered alpha.recovery 0.01" in text
    assert "audits per minute on 1 process" in text


def test_simulate_is_the_same_for_the_same_seed(capsys: pytest.CaptureFixture[str]) -> None:
    printed = []
    for seed, processes in (("1", "1"), ("1", "2"), ("2", "1")):
        arguments = ["--p", ".02", "--recall", ".97", "--audits", "1200", "--seed", seed, "--processes", processes]
        assert main(["simulate", *arguments, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        del found["run"]
        printed.append(found)
    assert printed[0] == printed[1] != printed[2]


def test_a_truth_that_cannot_be_is_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--miss", "0.95"]) == 2
    assert "is no miss" in capsys.readouterr().err


def test_sensitivity_describes_a_results_folder(capsys: pytest.CaptureFixture[str], finished_audit: Audit) -> None:
    assert main(["sensitivity", str(finished_audit.results)]) == 0
    text = capsys.readouterr().out
    assert "never a decision" in text
    assert "epsilon* = x - best challenger" in text


def test_sensitivity_of_no_audit_is_an_error_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sensitivity", "docs"]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_each_command_writes_a_page(capsys: pytest.CaptureFixture[str], finished_audit: Audit, tmp_path: Path) -> None:
    for name, arguments, says in (
        ("plan", ["plan", "--pairs", "30"], "28 of 30 truthful branches must recover"),
        ("sensitivity", ["sensitivity", str(finished_audit.results)], "A description, never a decision"),
        ("simulate", ["simulate", "--audits", "40", "--processes", "1"], "Core certified: 1.0000 in [0.9119, 1.0000]"),
    ):
        path = tmp_path / "pages" / f"{name}.html"
        assert main([*arguments, "--html", str(path)]) == 0
        assert capsys.readouterr().out == f"wrote {path}\n"
        assert says in path.read_text("utf-8")
    assert main(["plan", "--html", str(tmp_path)]) == 2
    assert "cannot be written" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["plan", "--json", "--html", str(tmp_path / "plan.html")])
