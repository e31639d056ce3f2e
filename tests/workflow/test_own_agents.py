"""Agents of kind ``command``: the shipped examples in the sandbox, and the built-in one's program as one of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dcpflow.agents.launch import builtin_file
from dcpflow.records import canonical
from dcpflow.records.episodes import EpisodeKey, EpisodeRecord
from dcpflow.stages import configuration

if TYPE_CHECKING:
    from tests.conftest import Audit

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of an agent are named from the folder of the Snakefile."""
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize("name", ["python", "shell"])
def test_an_example_runs_an_episode_in_the_sandbox(name: str, new_audit: Callable[..., Audit], backend: str) -> None:
    configured = configuration.read([Path(f"examples/agents/{name}.yaml")])
    audit = new_audit(agent=configured.parts["agent"], isolation={"backend": backend})
    audit.seal()
    audit.freeze_contract()
    audit.register()
    audit.run("target")
    data = audit.job.store.committed(EpisodeKey("target", 1, "target"))
    assert data is not None
    record = EpisodeRecord.from_bytes(data, "the target's record")
    assert (record.outcome, record.usage["bad_messages"]) == ("artifact", 0), record.reason
    assert record.usage["experiments"] >= 1
    (committed,) = record.candidates
    artifact = audit.job.bench.layout.objects.joinpath(committed[7:9], committed[9:]).read_text()
    assert artifact.count("CREATE INDEX") == 4
    audit.score("target")
    scored = json.loads(audit.job.layout.scores("target").read_bytes())["body"]
    assert canonical.encode(scored).count(b'"validity":"valid"') >= 1


def test_the_built_in_program_as_a_command_comes_to_the_same_decision(
    new_audit: Callable[..., Audit],
    finished_audit: Audit,
    backend: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of one contract's draws the other's differ, so that statuses and their reasons are compared, not records."""
    monkeypatch.chdir(tmp_path)
    Path("agents").mkdir()
    Path("agents/index_designer.py").write_bytes(builtin_file("index_designer").read_bytes())
    program = {
        "command": ["{python}", "-I", "-S", "-B", "/agent/index_designer.py"],
        "files": ["agents/index_designer.py"],
    }
    agent = {"kind": "command", "name": "mine", "program": program}
    audit = new_audit(agent=agent, isolation={"backend": backend})
    audit.run_all()
    built_in, command = (json.loads(one.job.layout.decision.read_bytes()) for one in (finished_audit, audit))
    assert _statuses(command) == _statuses(built_in)
    assert {c["name"]: c["result"] for c in command["checks"]} == {c["name"]: c["result"] for c in built_in["checks"]}


def _statuses(decision: dict[str, Any]) -> list[Any]:
    return [[decision[claim][key] for key in ("status", "class", "rule", "reason")] for claim in ("core", "evidence")]
