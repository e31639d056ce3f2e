"""``dcpflow task new`` writes a task that works as it stands, and ``dcpflow task check`` tries one by any name."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from dcpflow.cli import main
from dcpflow.stages import configuration
from dcpflow.tasks import conformance, task_sources

ROOT = Path(__file__).parents[3]
WRITTEN = {"tasks/lamp.py", "config/cases/lamp.yaml", "config/nonces/lamp.nonce", "tests/tasks/test_task_lamp.py"}


@pytest.fixture(autouse=True)
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the command needs of a checkout, in a folder whose name is not plain."""
    folder = tmp_path / "sp ace Größe"
    shutil.copytree(ROOT / "config", folder / "config", ignore=shutil.ignore_patterns("*.nonce"))
    (folder / "Snakefile").touch()
    (folder / "Makefile").touch()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_task_config_nonce_and_test_are_written_and_the_next_commands_told(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(checkout)
    assert main(["task", "new", "lamp"]) == 0
    assert contents(checkout).keys() - before.keys() == WRITTEN
    assert contents(checkout).items() >= before.items()
    told = capsys.readouterr().out
    for path in WRITTEN:
        assert path in told
    for command in (
        "dcpflow task check",
        "pytest tests/tasks/test_task_lamp.py",
        "make audit CONFIG=config/cases/lamp",
    ):
        assert command in told


def test_in_a_project_the_next_commands_are_those_of_an_installed_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the example keeps its own agent, whatever the project's is."""
    main(["init", str(tmp_path / "project")])
    monkeypatch.chdir(tmp_path / "project")
    assert main(["task", "new", "desk"]) == 0
    told = capsys.readouterr().out
    assert "snakemake --cores all --configfile config/cases/desk.yaml" in told
    assert ".venv" not in told and "make audit" not in told
    agent = configuration.read([Path("config/cases/desk.yaml")]).config.agent
    assert (agent.kind, agent.name, agent.program) == ("builtin", "parity_learner", None)


def test_the_configuration_is_valid_and_names_task_and_nonce_of_its_own() -> None:
    main(["task", "new", "lamp_2"])
    audit = configuration.read([Path("config/cases/lamp_2.yaml")])
    assert audit.config.task.name == "tasks/lamp_2.py:Lamp2Task"
    assert audit.config.claim.slot == "lamp_2-audit-1"
    assert audit.config.execution.results == "results/cases/lamp_2"
    assert "lamp_2" in task_sources(audit.parts["task"])
    nonce = Path(audit.config.execution.nonce_file)
    assert stat.S_IMODE(nonce.stat().st_mode) == 0o600
    assert "mytask" not in Path("config/cases/lamp_2.yaml").read_text().lower()


def test_git_ignores_the_nonce(checkout: Path) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    main(["task", "new", "lamp"])
    subprocess.run(["git", "init", "-q"], check=True)
    untracked = subprocess.run(
        ["git", "ls-files", "--others", "--exclude-standard"], capture_output=True, text=True, check=True
    )
    assert set(untracked.stdout.split()) & WRITTEN == WRITTEN - {"config/nonces/lamp.nonce"}


@pytest.mark.parametrize("name", ["a", "a" * 30])
def test_linters_find_nothing_in_what_is_written(name: str) -> None:
    main(["task", "new", name])
    ruff = [sys.executable, "-m", "ruff"]
    settings = ["--no-cache", "--config", str(ROOT / "pyproject.toml"), "tasks", "tests"]
    ours = ["--config", "lint.isort.known-first-party=['dcpflow']"]
    for command in (["check", *ours], ["format", "--diff"]):
        done = subprocess.run([*ruff, *command, *settings], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_test_that_is_written_passes_and_nothing_is_left_behind(checkout: Path) -> None:
    main(["task", "new", "lamp"])
    before = contents(checkout)
    command = [sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/tasks/test_task_lamp.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ, PYTEST_ADDOPTS=""))
    assert done.returncode == 0, done.stdout
    assert contents(checkout) == before


@pytest.mark.parametrize(
    "name",
    ["", "Lamp", "la-mp", "../lamp", "2lamp", "_lamp", "größe", "a" * 31, "class", "match", "json", "numpy", "affine"],
)
def test_a_name_that_no_task_can_have_is_refused(checkout: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(checkout)
    assert main(["task", "new", name]) == 2
    assert name in capsys.readouterr().err
    assert contents(checkout) == before


@pytest.mark.parametrize("standing", sorted(WRITTEN))
def test_nothing_is_overwritten_and_nothing_half_written(
    checkout: Path, standing: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(standing).parent.mkdir(parents=True, exist_ok=True)
    Path(standing).write_text("the author's")
    before = contents(checkout)
    assert main(["task", "new", "lamp"]) == 2
    assert f"in the way: {standing}" in capsys.readouterr().err
    assert contents(checkout) == before


@pytest.mark.parametrize("blocked", ["tasks", "tests"])
def test_a_file_where_a_folder_must_be_leaves_nothing_half_written(
    checkout: Path, blocked: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(blocked).touch()
    before = contents(checkout)
    assert main(["task", "new", "lamp"]) == 2
    assert blocked in capsys.readouterr().err
    assert contents(checkout) == before


def test_outside_of_a_checkout_nothing_is_written(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("Snakefile").unlink()
    before = contents(checkout)
    assert main(["task", "new", "lamp"]) == 2
    assert "holds the Snakefile" in capsys.readouterr().err
    assert contents(checkout) == before


# --- trying a task -----------------------------------------------------------------------------------------


def test_a_task_is_tried_by_its_file_and_nothing_is_written_beside_it(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["task", "new", "lamp"])
    before = contents(checkout)
    capsys.readouterr()
    assert main(["task", "check", "tasks/lamp.py:LampTask"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 10
    assert all(line.startswith("ok ") for line in lines)
    assert contents(checkout) == before


def test_a_configured_task_is_tried_with_its_settings(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    main(["task", "new", "lamp"])
    path, tried = Path("config/cases/lamp.yaml"), []
    text = path.read_text()
    monkeypatch.setattr(conformance, "check", lambda task: tried.append(task.settings["switches"]) or [])
    path.write_text(text.replace("settings: {}", "settings: {switches: 10}"))
    assert main(["task", "check", "--configfile", str(path)]) == 0
    assert tried == [10]
    path.write_text(text.replace("settings: {}", "settings: {switches: 7}"))
    assert main(["task", "check", "--configfile", str(path)]) == 1
    assert "task.settings: setting switches must be even" in capsys.readouterr().err


def test_a_task_that_breaks_a_promise_is_told_with_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.py").write_text(
        "from dcpflow.tasks.affine import AffineTask\n\n\nclass Mine(AffineTask):\n"
        "    def experiment_examples(self, presentation):\n        return []\n"
    )
    assert main(["task", "check", "mine.py:Mine"]) == 1
    assert "FAIL  replies_are_alike: neither the baseline nor a known solution" in capsys.readouterr().out


def test_a_task_and_a_configuration_together_are_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["task", "check", "affine", "--configfile", "config/cases/demo.yaml"]) == 2
    assert "Give one of them" in capsys.readouterr().err
