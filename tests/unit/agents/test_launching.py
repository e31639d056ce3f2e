"""From the registered agent to the command that starts it."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dcpflow.agents import launch_spec
from dcpflow.agents.launch import BUILTIN, agent_sources, builtin_file, python_command
from dcpflow.errors import UsageError
from dcpflow.records import canonical

AGENTS = sorted(path.stem for path in BUILTIN.glob("*.py") if path.stem != "__init__")


@pytest.mark.parametrize("name", AGENTS)
def test_a_built_in_agent_is_one_file_mounted_read_only_below_a_folder_of_its_own(name: str) -> None:
    spec = launch_spec({"kind": "builtin", "name": name})
    ((inside, source),) = spec.files.items()
    assert inside == f"/agent/{name}.py"
    assert source == builtin_file(name)
    assert spec.arguments[-1] == inside
    assert spec.outside()[-1] == str(source)


def test_an_agent_is_started_without_site_packages_bytecode_or_user_settings() -> None:
    spec = python_command(builtin_file(AGENTS[0]))
    assert set(spec.arguments[1:-1]) == {"-I", "-S", "-B"}
    assert Path(spec.arguments[0]).is_file()
    # the virtual environment holds packages that an agent must not see
    assert not Path(spec.arguments[0]).is_relative_to(sys.prefix) or sys.prefix == sys.base_prefix


@pytest.mark.parametrize(
    "name", ["", "nobody", "__init__", "../launch", "index_designer.py", "/etc/passwd", "index designer", "."]
)
def test_an_agent_that_does_not_exist_is_named_with_those_that_do(name: str) -> None:
    with pytest.raises(UsageError, match="no built-in agent") as caught:
        builtin_file(name)
    assert "index_designer" in str(caught.value)


def test_the_agent_s_source_is_part_of_the_contract() -> None:
    sources = agent_sources({"kind": "builtin", "name": "index_designer"})
    assert sources == {"index_designer.py": canonical.digest(builtin_file("index_designer").read_bytes())}


def test_a_program_of_the_user_s_is_part_of_the_contract_with_all_that_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    installed = tmp_path / "opt"
    for name, text in {"mine.py": "1", "opt/lib/one": "1", "opt/lib/two": "2"}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (installed / "link").symlink_to("lib/one")
    program = {"command": ["{python}", "/agent/mine.py"], "files": ["mine.py"], "mounts": [str(installed)]}
    agent = {"kind": "command", "program": program | {"environment": {"A": "b"}}}
    spec = launch_spec(agent)
    assert spec is not None
    assert spec.arguments == (python_command(Path("x.py")).arguments[0], "/agent/mine.py")
    assert spec.files == {"/agent/mine.py": tmp_path / "mine.py", str(installed): installed}
    assert (spec.environment, spec.doors) == ({"A": "b"}, ())
    seen = {canonical.digest_of(agent_sources(agent))}
    for change in (
        lambda: (tmp_path / "mine.py").write_text("2"),
        lambda: (installed / "lib" / "two").write_text("3"),
        lambda: (installed / "lib" / "two").chmod(0o755),
        lambda: (installed / "lib" / "two").rename(installed / "lib" / "three"),
        lambda: ((installed / "link").unlink(), (installed / "link").symlink_to("lib/three")),
        (installed / "link").unlink,
    ):
        change()
        seen.add(canonical.digest_of(agent_sources(agent)))
    assert len(seen) == 7
    os.utime(installed / "lib" / "one", (1, 1))
    assert canonical.digest_of(agent_sources(agent)) in seen, "times tell nothing"
    os.mkfifo(installed / "pipe")
    with pytest.raises(UsageError, match="something that is no file"):
        agent_sources(agent)
    (installed / "pipe").unlink()
    (tmp_path / "mine.py").unlink()
    with pytest.raises(UsageError, match=r"agent.program.files: mine.py is not there"):
        agent_sources(agent)


@pytest.mark.parametrize("name", AGENTS)
def test_a_built_in_agent_runs_alone_and_ends_when_its_input_is_closed(name: str) -> None:
    spec = python_command(builtin_file(name))
    done = subprocess.run(spec.outside(), input=b"", capture_output=True, timeout=20, check=False)
    assert done.returncode != 0
    assert done.stdout == b""


@pytest.mark.parametrize("name", AGENTS)
def test_a_built_in_agent_imports_nothing_of_the_library(name: str) -> None:
    tree = ast.parse(builtin_file(name).read_bytes())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert names <= set(sys.stdlib_module_names)
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and "dcpflow" in str(node.module)]
