"""The rooms of the library: who may import whom, and what a job must not load."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import dcpflow

if TYPE_CHECKING:
    from tests.conftest import Audit

LIBRARY = Path(dcpflow.__file__).parent
BELOW_STAGES = {"protocol", "records", "tasks", "agents", "episodes", "scoring", "evidence", "bundles", "report"}
BELOW_STAGES |= {"planning", "authority"}
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "protocol": set(),
    "records": {"protocol"},
    "tasks": {"records", "protocol"},
    "agents": {"protocol"},
    "episodes": {"tasks", "agents", "records", "protocol"},
    "scoring": {"tasks", "records", "protocol"},
    "evidence": {"records", "protocol"},
    "bundles": {"evidence", "records", "protocol"},
    "report": {"evidence", "records", "protocol"},
    "planning": {"evidence", "records", "protocol"},
    "authority": {"records", "protocol"},
    "stages": BELOW_STAGES,
    "arguments": {"stages"},
    "cli": {"stages", "bundles", "report", "planning", "authority"},
    "__main__": {"cli"},
    "__init__": set(),
}
SOURCES = sorted(LIBRARY.rglob("*.py"))


def room(path: Path) -> str:
    first = path.relative_to(LIBRARY).parts[0]
    return first.removesuffix(".py")


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Line and full name of everything that a module imports, those in functions and for type checkers too."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}:{node.lineno} is a relative import, which hides the room"
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def strangers(name: str) -> list[str]:
    """Imports of a room from a room that it may not import from."""
    found = []
    for path in (path for path in SOURCES if room(path) == name):
        for line, module in imported(path):
            parts = module.split(".")
            if parts[0] == "dcpflow" and len(parts) > 1 and parts[1] not in {name, "errors", *MAY_IMPORT[name]}:
                found.append(f"{path.relative_to(LIBRARY)}:{line} imports {module}")
    return found


def test_every_room_is_in_the_table() -> None:
    assert {room(path) for path in SOURCES} <= set(MAY_IMPORT)


@pytest.mark.parametrize("name", MAY_IMPORT)
def test_a_room_imports_from_those_that_it_may_import_from(name: str) -> None:
    assert strangers(name) == []


def test_nothing_in_the_library_imports_snakemake() -> None:
    found = [f"{p}:{line}" for p in SOURCES for line, name in imported(p) if name.partition(".")[0] == "snakemake"]
    assert found == []


def test_built_in_agents_are_single_files_that_need_the_standard_library_only() -> None:
    agents = [path for path in (LIBRARY / "agents" / "builtin").glob("*.py") if path.stem != "__init__"]
    assert agents
    for path in agents:
        names = {name.partition(".")[0] for _, name in imported(path)}
        assert names <= set(sys.stdlib_module_names), path.name


def test_protocol_is_pure() -> None:
    """No files, no clock, no randomness: what it decides is a function of what it is given."""
    forbidden = {"os", "io", "time", "datetime", "random", "secrets", "tempfile", "socket", "subprocess", "shutil"}
    for path in (path for path in SOURCES if room(path) == "protocol"):
        assert not {name.partition(".")[0] for _, name in imported(path)} & forbidden, path


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("dcpflow.stages.episodes", {"numpy", "scipy", "pandas", "pyarrow", "pydantic", "yaml", "apsw", "snakemake"}),
        ("dcpflow.stages.episodes", {"ssl", "urllib3", "warcio", "sklearn"}),
        ("dcpflow.cli", {"numpy", "scipy", "pandas", "pyarrow", "pydantic", "yaml", "apsw", "snakemake"}),
        ("dcpflow.stages.scoring", {"numpy", "scipy", "pandas", "pyarrow", "pydantic", "snakemake"}),
        ("dcpflow.stages.evidence", {"numpy", "scipy", "pandas", "pydantic", "snakemake"}),
        ("dcpflow.stages.decide", {"numpy", "scipy", "pandas", "pydantic", "snakemake"}),
        ("dcpflow.stages.decide", {"jinja2"}),
        ("dcpflow.stages.workflow", {"jinja2", "cryptography"}),
        ("dcpflow.stages.registering", {"cryptography"}),
        ("dcpflow.stages.report", {"numpy", "scipy", "pandas", "pydantic", "snakemake"}),
    ],
)
def test_a_job_does_not_load_what_it_does_not_need(module: str, heavy: set[str]) -> None:
    program = f"import json, sys\nimport {module}\nprint(json.dumps([name.partition('.')[0] for name in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not set(json.loads(done.stdout)) & heavy


def test_an_episode_job_loads_nothing_heavy_while_it_runs_either(new_audit: Callable[..., Audit], backend: str) -> None:
    """The registration, the task's engine and the sandbox are opened: everything but a library for numbers."""
    audit = new_audit(isolation={"backend": backend})
    audit.seal()
    audit.freeze_contract()
    audit.register()
    output = audit.results / "target" / "b00001-00001.json"
    script = str(LIBRARY.parents[1] / "scripts/run_slots.py")
    arguments = [script, *audit.workflow.job_arguments, "--stage", "target", "--first", "1", "--last", "1"]
    program = (
        f"import json, runpy, sys\nsys.argv = {[*arguments, '--output', str(output)]!r}\n"
        f"runpy.run_path({script!r}, run_name='__main__')\n"
        "print(json.dumps([name.partition('.')[0] for name in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert output.exists()
    loaded = set(json.loads(done.stdout.splitlines()[-1]))
    assert not loaded & {"numpy", "scipy", "pandas", "pyarrow", "pydantic", "snakemake"}


def test_tables_and_decision_are_made_without_pandas_and_pydantic(audit_copy: Audit) -> None:
    """Whoever imports them waits longer for them than for the whole decision."""
    given = [audit_copy.results, audit_copy.receipts, audit_copy.scores]
    program = (
        "import json, sys\nfrom pathlib import Path, PosixPath\n"
        "from dcpflow.stages import decide, evidence\nfrom dcpflow.stages.laboratory import Job\n"
        f"results, receipts, scores = {given!r}\n"
        f"evidence.write_evidence(Job(results, {audit_copy.nonce_file!r}, ''), receipts, scores)\n"
        "decide.decide(results, receipts, scores)\n"
        "print(json.dumps([name.partition('.')[0] for name in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not set(json.loads(done.stdout.splitlines()[-1])) & {"pandas", "pydantic", "snakemake"}
