"""An audit in several looks: the workflow starts the next one on what the scores of the one before say."""

from __future__ import annotations

import json
import sys
from collections import Counter
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


def test_what_is_not_decided_goes_on_look_by_look(audit: Audit) -> None:
    """Challengers and pairs of the finished audit become the first look, and further looks follow."""
    records = audit.records()
    looks = {"challengers": 8, "gate2_looks": [6, 7, 8], "pairs": 4, "pair_looks": [3, 4]}
    audit.change({"design": looks, "thresholds": {"gate3": {"bet": 0.9}}})
    run = audit.finish()
    steps = Counter(rule for rule in run.rules if "look" in rule or "later" in rule or rule == "score_null_pairs")
    later = {"run_later_challenger": 2, "run_later_pair": 1}
    assert steps == {"score_look": 3 + 2, "read_look": 2 + 1, "score_null_pairs": 1, **later}
    found = audit.decision
    assert [look["started"] for look in found["gate2"]["looks"]] == [6, 1, 1]
    assert [look["started"] for look in found["gate3"]["looks"]] == [3, 1]
    assert found["gate2"]["not_started"] == 0
    checks = {check["name"]: check["result"] for check in found["checks"]}
    assert (checks["looks_in_order"], checks["pair_looks_in_order"]) == ("pass", "pass")
    new = audit.records()
    assert {path: new[path] for path in records} == records
    assert len(new) == len(records) + 2 + 2
    assert found["confirmatory"]["gate2"] == json.loads(audit.original)["gate2"]
    verified = audit.dcpflow("verify")
    assert verified.code == 0, verified.text
