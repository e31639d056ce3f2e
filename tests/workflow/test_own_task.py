"""A task of one's own is audited by the whole workflow, from the file that ``dcpflow task new`` writes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import yaml

from workflow.conftest import FEWEST, Audit, Running

FEW = {
    **FEWEST,
    "design": {**FEWEST["design"], "pair_replacements": 0, "null_pair_replacements": 0},
    "limits": {"reply_delay_ms": 1},
    "execution": {"results": "results/few"},
}
FILES = ["--configfile", "config/cases/lamp.yaml", "few.yaml"]


def test_the_example_of_a_task_is_audited_and_verified_as_it_is_written(tmp_path: Path) -> None:
    folder = Audit.make(tmp_path / "sp ace Größe").folder
    (folder / "few.yaml").write_text(yaml.safe_dump(FEW), encoding="utf-8")

    def run(*words: str) -> str:
        done = Running([sys.executable, "-m", *words], folder).ended()
        assert done.code == 0, done.text
        return done.text

    run("dcpflow", "task", "new", "lamp")
    run("snakemake", "--cores", "2", *FILES)
    results = folder / "results/few"
    assert json.loads((results / "decision.json").read_bytes())["core"]["status"] == "inconclusive"
    task = (results / "registration/parts/task.json").read_text("utf-8")
    assert {"lamp", "dcpflow.tasks.json_task"} <= json.loads(task)["sources"].keys()
    assert "Größe" not in task and str(tmp_path) not in task
    run("dcpflow", "verify", *FILES)
    assert not list((folder / "tasks").glob("__pycache__"))
