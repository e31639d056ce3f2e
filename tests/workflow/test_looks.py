"""An audit in several looks: the workflow starts the next one on what the scores of the one before say."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import yaml

from workflow.conftest import Audit, Running

KNAPSACK = {
    "design": {"challengers": 6, "gate2_looks": [2, 4, 6], "controls": 1},
    "execution": {"results": "results/few"},
}


def test_a_recovery_in_the_first_look_starts_no_other(tmp_path: Path) -> None:
    folder = Audit.make(tmp_path / "sp ace Größe").folder
    (folder / "few.yaml").write_text(yaml.safe_dump(KNAPSACK), encoding="utf-8")
    files = ["--configfile", "config/cases/knapsack.yaml", "few.yaml"]
    run = Running([sys.executable, "-m", "snakemake", "all", "report", "--cores", "2", *files], folder).ended()
    assert run.code == 0, run.text
    assert run.rules.count("run_later_challenger") == run.rules.count("read_look") == 2
    found = json.loads((folder / "results/few/decision.json").read_bytes())
    assert (found["core"]["status"], found["gate2"]["not_started"]) == ("refuted", 4)
    assert len(list((folder / "results/few/store").glob("*/challengers/*"))) == 2
    words = "looked at after 2, 4 and 6 challengers: a recovery by 2, 4 not started, outside of all counts"
    assert words in (folder / "results/few/report.html").read_text(encoding="utf-8")
    shown = Running([sys.executable, "-m", "dcpflow", "show", *files], folder).ended()
    assert words in shown.text
    again = Running([sys.executable, "-m", "snakemake", "--cores", "2", *files], folder).ended()
    assert again.code == 0 and not again.rules


def test_without_a_recovery_all_looks_are_run_one_after_the_other(audit: Audit) -> None:
    """The six challengers of the finished audit become the first look, and two more looks follow."""
    records = audit.records()
    audit.change({"design": {"challengers": 8, "gate2_looks": [6, 7, 8]}})
    run = audit.finish()
    order = [rule for rule in run.rules if rule in {"score_look", "read_look", "run_later_challenger"}]
    assert order == ["score_look", *("read_look", "run_later_challenger", "score_look") * 2]
    found = audit.decision
    assert [look["started"] for look in found["gate2"]["looks"]] == [6, 1, 1]
    assert found["gate2"]["not_started"] == 0
    (check,) = [check for check in found["checks"] if check["name"] == "looks_in_order"]
    assert check["result"] == "pass"
    new = audit.records()
    assert {path: new[path] for path in records} == records
    assert len(new) == len(records) + 2
    assert found["confirmatory"]["gate2"] == json.loads(audit.original)["gate2"]
    verified = audit.dcpflow("verify")
    assert verified.code == 0, verified.text


def test_pairs_are_looked_at_one_after_the_other_beside_the_null_study(audit: Audit) -> None:
    """The three pairs of the finished audit become the first look, and one more look follows."""
    records = audit.records()
    audit.change({"design": {"pairs": 4, "pair_looks": [3, 4]}, "thresholds": {"gate3": {"bet": 0.9}}})
    run = audit.finish()
    order = [rule for rule in run.rules if rule in {"score_look", "read_look", "run_later_pair"}]
    assert order == ["score_look", "read_look", "run_later_pair", "score_look"]
    assert "score_null_pairs" in run.rules
    found = audit.decision
    assert [look["started"] for look in found["gate3"]["looks"]] == [3, 1]
    (check,) = [check for check in found["checks"] if check["name"] == "pair_looks_in_order"]
    assert check["result"] == "pass"
    assert {path: audit.records()[path] for path in records} == records
    verified = audit.dcpflow("verify")
    assert verified.code == 0, verified.text
