"""Tasks of one's own: every way to name one finds it, all of its source is registered, and nothing is mixed up."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dcpflow.errors import UsageError
from dcpflow.records import sources
from dcpflow.tasks import load_task, places, task_sources
from dcpflow.tasks.base import Task

TASK = "from dcpflow.tasks.affine import AffineTask\n\n\nclass Mine(AffineTask):\n    name = 'mine'\n"
LIBRARY = {f"dcpflow.tasks.{name}" for name in ("affine", "base", "chance", "json_task")}


def write(path: str, text: str = "") -> Path:
    """Write a file below the working folder."""
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


@pytest.fixture(autouse=True)
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working folder; what a test makes Python import and search is forgotten behind it."""
    folder = tmp_path / "sp ace Größe"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    before = set(sys.modules)
    yield folder
    for name in set(sys.modules) - before:
        if name.startswith(places.FOLDER_PACKAGE) or str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
    sources.installed.cache_clear()
    sources._folders.cache_clear()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a package is installed that offers tasks: ``studied`` with ``__init__``, ``task``, ``helper`` and more."""
    folder = tmp_path / "site"
    package = folder / "studied"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("FIRST = 1\n")
    (package / "task.py").write_text(f"from studied.helper import WORK\n{TASK}")
    (package / "helper.py").write_text("WORK = 1\n")
    (package / "stranger.py").touch()
    offer(folder, "studied", ours="studied.task:Mine")
    monkeypatch.syspath_prepend(str(folder))
    return folder


def offer(folder: Path, package: str, **points: str) -> None:
    """Say in a package's metadata which tasks it offers."""
    metadata = folder / f"{package}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = [f"{name} = {place}" for name, place in points.items()]
    (metadata / "entry_points.txt").write_text("\n".join(["[dcpflow.tasks]", *lines, ""]))


def load(name: str) -> Task:
    return load_task({"name": name, "settings": {}, "public_seed": "seed"})


def registered(name: str) -> set[str]:
    return set(task_sources({"name": name}))


def refusal(name: str) -> str:
    with pytest.raises(UsageError) as refused:
        load(name)
    return str(refused.value)


# --- the forms of a name -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("tasks/mine.py", "tasks/mine.py:Mine"),
        ("mine.py", "mine.py:Mine"),
        ("a folder/deep/mine.py", "a folder/deep/mine.py:Mine"),
        ("mine.py", "mine:Mine"),
        ("package/mine.py", "package.mine:Mine"),
    ],
)
def test_a_task_is_found_by_file_and_by_module(file: str, name: str) -> None:
    write(file, TASK)
    assert load(name).name == "mine"
    assert type(load(name)) is type(load(name)), "the second time it is the same class"


def test_a_task_is_found_by_its_entry_point(site: Path) -> None:
    assert load("ours").name == "mine"


@pytest.mark.parametrize("launch", [["scripts/show.py"], ["-m", "show"]])
@pytest.mark.parametrize("name", ["tasks/mine.py:Mine", "mine:Mine"])
def test_a_script_and_a_module_search_the_working_folder_alike(launch: list[str], name: str) -> None:
    """Scripts do not have it on Python's path, ``python -m`` does."""
    write("tasks/mine.py", f"from helper import WORK\n{TASK}")
    write("tasks/helper.py", "WORK = 1\n")
    write("mine.py", TASK)
    program = "import sys\nfrom dcpflow.tasks import load_task\n"
    program += "print(load_task({'name': sys.argv[1], 'settings': {}, 'public_seed': 'seed'}).name)\n"
    write("scripts/show.py", program)
    write("show.py", program)
    done = subprocess.run([sys.executable, "-B", *launch, name], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("mine\n", "")


def test_a_shipped_name_means_the_shipped_task_whatever_is_installed(site: Path) -> None:
    offer(site, "shadowing", affine="studied.task:Mine")
    assert type(load("affine")).__module__ == "dcpflow.tasks.affine"


def test_two_entry_points_of_one_name_are_told(site: Path) -> None:
    offer(site, "another", ours="studied.task:AffineTask")
    told = refusal("ours")
    assert "studied.task:AffineTask, studied.task:Mine" in told
    assert "module:Class" in told


# --- what is registered ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "from helper import WORK",
        "import helper",
        "from .helper import WORK",
        "from . import helper",
        "class Late:\n    def work(self):\n        import helper",
    ],
)
def test_the_modules_beside_a_file_are_registered(text: str) -> None:
    write("tasks/mine.py", f"{text}\n{TASK}")
    write("tasks/helper.py", "import deeper.still\nWORK = 1\n")
    write("tasks/deeper/still.py")
    write("tasks/stranger.py")
    assert load("tasks/mine.py:Mine").name == "mine"
    assert registered("tasks/mine.py:Mine") == {"mine", "helper", "deeper.still"} | LIBRARY


def test_modules_of_the_working_folder_are_registered_in_every_form() -> None:
    write("tasks/mine.py", f"from common.base import WORK\n{TASK}")
    write("common/__init__.py")
    write("common/base.py", "WORK = 1\n")
    common = {"common", "common.base"} | LIBRARY
    assert registered("tasks/mine.py:Mine") == {"mine"} | common
    assert registered("tasks.mine:Mine") == {"tasks.mine"} | common
    assert load("tasks/mine.py:Mine") and load("tasks.mine:Mine")


def test_the_package_of_an_entry_point_is_registered(site: Path) -> None:
    assert registered("ours") == registered("studied.task:Mine")
    assert registered("ours") == {"studied", "studied.task", "studied.helper"} | LIBRARY


def test_an_edit_moves_the_digest_of_its_file_alone(working_folder: Path) -> None:
    write("tasks/mine.py", f"import helper\n{TASK}")
    write("tasks/helper.py", "WORK = 1\n")
    before = task_sources({"name": "tasks/mine.py:Mine"})
    write("tasks/helper.py", "WORK = 2\n")
    after = task_sources({"name": "tasks/mine.py:Mine"})
    assert {name for name in before if before[name] != after[name]} == {"helper"}


def test_what_is_registered_is_the_same_in_another_folder(
    working_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("tasks/mine.py", f"import helper\n{TASK}")
    write("tasks/helper.py")
    here = task_sources({"name": "tasks/mine.py:Mine"})
    shutil.copytree(working_folder, tmp_path / "another")
    monkeypatch.chdir(tmp_path / "another")
    assert task_sources({"name": "tasks/mine.py:Mine"}) == here


# --- what must not happen ----------------------------------------------------------------------------------


def test_files_of_one_name_in_two_folders_are_two_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("one", "two"):
        write(f"{folder}/mine.py", f"from .helper import NAME\n{TASK.replace(repr('mine'), 'NAME')}")
        write(f"{folder}/helper.py", f"NAME = '{folder}'\n")
    assert [load(f"{folder}/mine.py:Mine").name for folder in ("one", "two", "one")] == ["one", "two", "one"]
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    write("one/mine.py", TASK)
    assert load("one/mine.py:Mine").name == "mine"


def test_a_module_that_python_has_from_elsewhere_is_not_taken_for_the_one_beside_the_task() -> None:
    for folder in ("one", "two"):
        write(f"{folder}/mine.py", f"import helper\n{TASK}")
        write(f"{folder}/helper.py")
    load("one/mine.py:Mine")
    told = refusal("two/mine.py:Mine")
    assert "imports helper" in told and "two/helper.py" in told and "one/helper.py" in told


def test_a_name_of_the_standard_library_is_not_taken_for_the_module_beside_the_task() -> None:
    write("tasks/mine.py", f"import json\n{TASK}")
    write("tasks/json.py")
    assert "another module of this name" in refusal("tasks/mine.py:Mine")


def test_nothing_is_written_beside_the_files_of_a_task(working_folder: Path) -> None:
    write("tasks/mine.py", f"import helper\nfrom . import other\n{TASK}")
    write("tasks/helper.py")
    write("tasks/other.py")
    write("second.py", TASK)
    before = sorted(working_folder.rglob("*"))
    load("tasks/mine.py:Mine")
    load("second:Mine")
    assert sorted(working_folder.rglob("*")) == before


# --- what an author is told --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no_such", ["there is no task 'no_such'", "affine", "path/to/file.py:Class", "module:Class"]),
        ("tasks/none.py:Mine", ["no file tasks/none.py", "holds the Snakefile"]),
        ("no_such:Mine", ["no Python file for the module 'no_such'", "holds the Snakefile"]),
        ("no-such:Mine", ["'no-such:Mine' is not module:Class"]),
        (":Mine", ["is not module:Class"]),
        ("tasks.mine:", ["is not module:Class"]),
        ("tasks/mine.py:", ["must be named like Python modules and classes"]),
        ("tasks/my-task.py:Mine", ["must be named like Python modules and classes"]),
        ("tasks/mine.py:Other", ["has no Other", "There is AffineTask, Mine"]),
        ("tasks/mine.py:NUMBER", ["no subclass of dcpflow.tasks.base.Task"]),
        ("tasks/empty.py:Mine", ["has no Mine", "no subclass of dcpflow.tasks.base.Task"]),
        ("../mine.py:Mine", ["relative to the working folder", "tasks/mine.py:Mine"]),
        ("tasks/half.py:Half", ["lacks __init__, action_schemas, background", "dcpflow.tasks.base.Task says"]),
        ("tasks/odd.py:Mine", ["odd.py, line 2: SyntaxError"]),
        ("tasks/loud.py:Mine", ["loud.py, line 2: ZeroDivisionError", "dcpflow task check tasks/loud.py:Mine"]),
        ("tasks/lost.py:Mine", ["lost.py, line 1: ModuleNotFoundError: No module named 'no_such'"]),
    ],
)
def test_what_is_wrong_is_told_with_what_to_do(name: str, words: list[str]) -> None:
    write("tasks/mine.py", f"NUMBER = 1\n{TASK}")
    write("tasks/my-task.py", TASK)
    write("tasks/empty.py")
    write("tasks/half.py", "from dcpflow.tasks.base import Task\nclass Half(Task):\n    pass\n")
    write("tasks/odd.py", "\nclass\n")
    write("tasks/loud.py", "\n1 / 0\n")
    write("tasks/lost.py", "import no_such\n")
    told = refusal(name)
    assert "\n" not in told
    for each in ("task.name", *words):
        assert each in told


def test_an_absolute_path_is_refused_since_it_would_be_registered(working_folder: Path) -> None:
    told = refusal(f"{write('tasks/mine.py', TASK).resolve()}:Mine")
    assert "the name is registered" in told
    assert "name it tasks/mine.py:Mine" in told
    with pytest.raises(UsageError):
        registered(f"{working_folder}/tasks/mine.py:Mine")
