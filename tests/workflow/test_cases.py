"""The published cases as ``dcpflow cases`` runs them, and an audit on real data up to its amendment."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from workflow.conftest import FEWEST, Audit, Running

DATA = Path(__file__).parents[3] / "shared" / "data"
YACHT = DATA / "yacht_hydrodynamics.csv"


def run(folder: Path, *words: str, code: int = 0) -> str:
    done = Running([sys.executable, "-m", *words], folder).ended()
    assert done.code == code, done.text
    return done.text


def test_a_case_is_run_and_shown_in_the_table(tmp_path: Path) -> None:
    folder = Audit.make(tmp_path / "audit").folder
    text = run(folder, "dcpflow", "cases", "affine", "--cores", "2")
    row = next(line for line in text.splitlines() if line.startswith("| affine"))
    cells = [cell.strip() for cell in row.split("|")[1:-1]]
    assert cells[:5] == ["affine", "inconclusive", "not_tested", "audit_incomplete", "1"]
    assert "2/2, 0.0707" in cells
    assert "recall is at least 0.0707, registered floor 0.8" in text
    assert (folder / "results/cases/affine/decision.json").exists()


@pytest.mark.skipif(not YACHT.exists(), reason="the real data sets are not beside this checkout")
def test_a_policy_that_is_amended_after_scoring_is_exploratory(tmp_path: Path) -> None:
    folder = Audit.make(tmp_path / "audit").folder
    few: dict[str, Any] = {
        "claim": {"grade": "core"},
        "design": {**FEWEST["design"], "pair_replacements": 0, "null_pair_replacements": 0},
        "task": {"data_file": str(YACHT)},
    }
    (folder / "few.yaml").write_text(yaml.safe_dump(few), encoding="utf-8")
    files = ["--configfile", "config/cases/yacht.yaml", "few.yaml"]
    results = folder / "results/cases/yacht"

    def decided(*amendment: str) -> tuple[str, dict[str, Any]]:
        text = run(folder, "snakemake", "--cores", "2", *files, *amendment)
        return text, json.loads((results / "decision.json").read_bytes())

    _, first = decided()
    assert first["gate1"]["x"] > 0.5
    assert str(DATA) not in (results / "registration/parts/task.json").read_text("utf-8")
    text, amended = decided("config/amendments/dry-bean.yaml")
    assert "run_challenger" not in text
    assert amended["core"]["exploratory"]
    (amendment,) = amended["registration"]["amendments"]
    assert [change["key"] for change in amendment["changes"]] == ["thresholds.gate2.kappa"]
    assert amended["confirmatory"]["core"]["status"] == first["core"]["status"]
    assert not first["core"]["exploratory"]

    run(folder, "dcpflow", "verify", *files, "config/amendments/dry-bean.yaml")
    (folder / "other.csv").write_bytes(YACHT.read_bytes().replace(b"0.11\n", b"0.12\n", 1))
    other = ["--config", f"task={{data_file: '{folder / 'other.csv'}'}}"]
    text = run(folder, "dcpflow", "verify", *files, "config/amendments/dry-bean.yaml", *other, code=1)
    assert "data: sha256:" in text
