"""A configuration that breaks a rule stops before any job, says what is wrong, and leaves nothing."""

from __future__ import annotations

from typing import Any

import pytest

from workflow.conftest import CHANGE, Audit

CASES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "value out of range": (
        {"thresholds": {"gate2": {"rho": 0.2}}},
        ["thresholds.gate2.rho", "0.2", "above 0 and at most 0.05", "R6"],
    ),
    "unknown key": ({"design": {"challenger": 6}}, ["design.challenger", "unknown"]),
    "task that is not there": (
        {"task": {"name": "tasks/no_such.py:Task"}},
        ["task.name", "there is no file tasks/no_such.py", "holds the Snakefile"],
    ),
    "data that is not there": (
        {"task": {"name": "yacht", "settings": {"rows": 160}, "data_file": "nowhere.csv"}},
        ["UCI Yacht Hydrodynamics is not in nowhere.csv", "dcpflow data fetch yacht", "task.data_file"],
    ),
    "data that nothing reads": (
        {"task": {"data_file": "nowhere.csv"}},
        ["task.data_file", "'sqlite_index' reads no data set", "Remove the key"],
    ),
    "number as text": (
        {"thresholds": {"alpha": {"main": "1e-3"}}},
        ["thresholds.alpha.main", "1e-3", "above 0 and below 1", "1.0e-3"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_broken_rule_is_named_with_key_value_and_range(audit: Audit, case: str) -> None:
    change, told = CASES[case]
    fresh = Audit.make(audit.folder.with_name("fresh"))
    fresh.change(change)
    if case == "number as text":
        path = fresh.folder / CHANGE
        path.write_text(path.read_text().replace("'", ""))
    run = fresh.run()
    assert run.code == 1
    for words in told:
        assert words in run.text
    assert "Traceback" not in run.text
    assert not run.rules
    assert not (fresh.folder / "results").exists()
    assert not (fresh.folder / "logs").exists()
