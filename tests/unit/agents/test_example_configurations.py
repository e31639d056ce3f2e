"""The ready configurations of agents that use MCP: valid, with both doors, and without a key."""

from __future__ import annotations

from pathlib import Path

import pytest

from dcpflow.stages import configuration

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted(path for path in ROOT.glob("examples/*/audit.yaml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_an_example_is_valid_and_acts_through_its_doors_alone(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    config = configuration.read([path]).config
    program, model = config.agent.program, config.agent.model
    assert config.agent.kind == "mcp" and program and model
    told = " ".join([*program.command, *program.environment.values()])
    assert told.count("{mcp}") == told.count("{model}") == 1
    assert config.agent.model_id in program.command
    assert model.key_variable and model.base_url.startswith("https://")
    assert any(Path(program.command[0]).is_relative_to(mount) for mount in program.mounts)
    assert config.budget.max_usd_per_episode and config.budget.output_usd


def test_there_is_one_for_each_of_these_programs() -> None:
    assert [path.parent.name for path in EXAMPLES] == ["claude-code", "codex"]
