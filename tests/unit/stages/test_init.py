"""``dcpflow init`` writes a project of one's own: complete, valid, with a secret of its own, over nothing."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from dcpflow.cli import main
from dcpflow.protocol.config import load
from dcpflow.records.draws import Nonce
from dcpflow.stages import configuration, new_project, shipped

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_workflow_and_an_example_are_written_and_the_next_commands_told(
    empty: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", "my audit"]) == 0
    written = contents(empty / "my audit")
    assert written.items() >= {name: path.read_bytes() for name, path in shipped.files(ROOT).items()}.items()
    assert {"README.md", "config/config.yaml", "config/audit.nonce", "tasks/lamp.py", ".gitignore"} <= written.keys()
    told = capsys.readouterr().out
    for command in ("cd 'my audit'", "dcpflow doctor", "snakemake --cores 2 results/decision.json", "dcpflow show"):
        assert command in told


def test_every_project_has_a_secret_nonce_of_its_own(empty: Path) -> None:
    main(["init", "one"])
    main(["init", "two"])
    one, two = (Path(name, "config/audit.nonce") for name in ("one", "two"))
    assert Nonce.read(one).secret != Nonce.read(two).secret
    assert not Nonce.read(one).public
    assert stat.S_IMODE(one.stat().st_mode) == 0o600


def test_the_configuration_is_valid_and_names_what_was_written(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main(["init", "mine"])
    monkeypatch.chdir(empty / "mine")
    audit = configuration.read()
    assert audit.config.agent.kind == "command"
    audit.require_task()
    assert audit.registered_sources
    assert Path(audit.config.execution.nonce_file).is_file()
    schema = json.loads(Path("config/config.schema.json").read_text())
    assert set(yaml.safe_load(Path("config/config.yaml").read_text())) <= set(schema["properties"])


@pytest.mark.parametrize("kind", ["chat", "mcp"])
def test_every_fragment_of_the_configuration_is_valid_once_it_is_uncommented(empty: Path, kind: str) -> None:
    """As a user would: the comment signs of one block are taken away, and the block in its place is removed."""
    main(["init", "mine"])
    text = Path("mine/config/config.yaml").read_text()
    blocks = [block for block in text.split("\n\n") if "# agent:" in block or "# budget:" in block]
    settings = yaml.safe_load(text)
    for block in blocks:
        lines = [line.removeprefix("# ") for line in block.splitlines()]
        start = next(number for number, line in enumerate(lines) if line in ("agent:", "budget:"))
        given = yaml.safe_load("\n".join(lines[start:]))
        if given.get("agent", {"kind": kind})["kind"] == kind:
            settings |= given
    assert load(settings).agent.kind == kind
    assert len(blocks) == 3


def test_git_ignores_the_nonce_and_what_runs_write(empty: Path) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    main(["init", "."])
    for name in ("results/decision.json", "logs/decide.log", ".snakemake/x", "tasks/__pycache__/lamp.pyc"):
        (empty / name).parent.mkdir(parents=True, exist_ok=True)
        (empty / name).touch()
    subprocess.run(["git", "init", "-q"], check=True)
    done = subprocess.run(
        ["git", "ls-files", "--others", "--exclude-standard"], capture_output=True, text=True, check=True
    )
    assert set(done.stdout.split()) == {name for name in new_project._contents() if name != new_project.NONCE}


def test_a_folder_may_hold_other_files(empty: Path) -> None:
    Path("notes.txt").write_text("mine")
    assert main(["init", "."]) == 0
    assert Path("notes.txt").read_text() == "mine"


@pytest.mark.parametrize("standing", ["Snakefile", "config/audit.nonce", "rules/common.smk", "README.md"])
def test_nothing_is_overwritten_and_nothing_half_written(
    empty: Path, standing: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(standing).parent.mkdir(parents=True, exist_ok=True)
    Path(standing).write_text("the author's")
    before = contents(empty)
    assert main(["init", "."]) == 2
    assert f"in the way in .: {standing}" in capsys.readouterr().err
    assert contents(empty) == before


def test_a_second_init_is_refused_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    main(["init", "mine"])
    capsys.readouterr()
    before = contents(Path("mine"))
    assert main(["init", "mine"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert contents(Path("mine")) == before


@pytest.mark.parametrize("command", [["config-docs", "--write"], ["cases"]])
def test_commands_for_the_repository_leave_a_project_alone(
    empty: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """One would replace the project's configuration by the default one, the other take its audit for the default."""
    main(["init", "."])
    before = contents(empty)
    assert main(command) == 2
    assert "checkout of dcpflow's repository" in capsys.readouterr().err
    assert contents(empty) == before


def test_a_file_where_a_folder_must_be_leaves_nothing_half_written(
    empty: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("tasks").touch()
    before = contents(empty)
    assert main(["init", "."]) == 2
    assert "tasks" in capsys.readouterr().err
    assert contents(empty) == before


def test_the_conda_environment_of_a_project_installs_the_version_that_it_names(empty: Path) -> None:
    main(["init", "mine"])
    program = empty / "bin" / "python"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$@"\n')
    program.chmod(0o755)
    said = {}
    for name, folder in (("project", empty / "mine"), ("checkout", ROOT)):
        done = subprocess.run(
            ["sh", str(folder / "envs/dcpflow.post-deploy.sh")],
            env={**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=True,
        )
        said[name] = done.stdout.strip()
    assert said["project"].endswith(f"--no-deps --requirement {empty.resolve()}/mine/requirements.txt")
    assert said["checkout"].endswith(f"--no-deps --no-build-isolation --editable {ROOT}")
    assert Path("mine/requirements.txt").read_text().startswith("dcpflow==")


def test_the_fragments_of_the_readme_are_valid_over_the_default_configuration() -> None:
    rows = [line for line in (ROOT / "README.md").read_text().splitlines() if line.endswith("}` |")]
    fragments = [yaml.safe_load(row.rsplit("| `", 1)[1].removesuffix("` |")) for row in rows]
    assert [fragment["agent"]["kind"] for fragment in fragments] == ["builtin", "command", "mcp", "chat"]
    for fragment in fragments:
        assert load(fragment).agent.kind == fragment["agent"]["kind"]
