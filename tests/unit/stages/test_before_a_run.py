"""What an audit is about to do is said before it does it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dcpflow.episodes import sandbox
from dcpflow.errors import UsageError
from dcpflow.stages.preflight import describe

if TYPE_CHECKING:
    from tests.conftest import Audit


def test_episodes_agent_isolation_and_cost_are_named(finished_audit: Audit, backend: str) -> None:
    text = describe(finished_audit.workflow, "2")
    assert "37: 1 target, 6 challengers, 4 controls, 3 pairs, 4 null pairs, 12 misled null" in text
    assert "sqlite_index, 4 source files" in text
    assert "index_designer" in text
    assert backend in text
    assert "calls no paid service" in text
    assert "37 episodes are on record" in text, "what stands is kept, and that is said"


def test_without_isolation_it_is_said_how_the_audit_will_end(new_audit: Callable[..., Audit]) -> None:
    audit = new_audit(isolation={"backend": "none"})
    assert "will end inconclusive" in describe(audit.workflow, "1")
    assert not (audit.results / "store").exists()


def test_a_missing_sandbox_is_found_before_anything_runs(
    new_audit: Callable[..., Audit], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "programs", lambda _: [])
    audit = new_audit(isolation={"backend": "bubblewrap"})
    with pytest.raises(UsageError, match="apt install bubblewrap"):
        describe(audit.workflow, "1")
    assert not (audit.results / "store").exists()


def test_a_task_that_is_not_there_is_found_before_anything_runs(new_audit: Callable[..., Audit]) -> None:
    audit = new_audit(task={"name": "tasks/no_such.py:Task"})
    with pytest.raises(UsageError, match=r"there is no file tasks/no_such\.py"):
        describe(audit.workflow, "1")


def test_data_that_are_not_there_are_found_before_anything_runs(
    new_audit: Callable[..., Audit], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    audit = new_audit(task={"name": "yacht", "settings": {"rows": 160}})
    with pytest.raises(UsageError, match=r"is not in .*dcpflow data fetch yacht"):
        describe(audit.workflow, "1")


def test_an_audit_without_gate_3_names_no_pairs(finished_audit: Audit) -> None:
    core = replace(finished_audit, settings={**finished_audit.settings})
    text = describe(core.with_settings(claim={"grade": "core"}).workflow, "all")
    assert "pairs" not in text.partition("agent")[0]


def test_without_isolation_an_audit_runs_and_ends_inconclusive(new_audit: Callable[..., Audit]) -> None:
    few = {"challengers": 2, "controls": 1}
    audit = new_audit(isolation={"backend": "none"}, claim={"grade": "core"}, design=few)
    audit.run_all()
    decision = json.loads(audit.job.layout.decision.read_bytes())
    assert (decision["core"]["status"], decision["core"]["class"]) == ("inconclusive", "audit_incomplete")
    assert any("private_isolation" in fault for fault in decision["faults"]), decision["faults"]
    assert decision["scope"]["isolation"] == "none"
    assert decision["evidence"]["status"] == "not_tested"
    assert decision["gate3"] is None
