"""Writes a task to start from: a working example under the author's name, with configuration, nonce and test."""

from __future__ import annotations

import keyword
import re
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from dcpflow.errors import UsageError
from dcpflow.records import files
from dcpflow.stages.seal import new_nonce
from dcpflow.tasks import example
from dcpflow.tasks.registry import BUILTIN

EXAMPLE = Path(example.__file__).parent
NAME = re.compile(r"[a-z][a-z0-9_]{0,29}")


class NewTask(NamedTuple):
    """What was written, relative to the working folder.

    Attributes:
        task: The module of the task.
        config: The configuration of its audit.
        nonce: The secret of this audit.
        test: The test.
    """

    task: Path
    config: Path
    nonce: Path
    test: Path


def new_task(name: str) -> NewTask:
    """Write an example task, its configuration, a nonce and a test into the working folder.

    All is checked before anything is written, and nothing is ever overwritten.

    Args:
        name: Of the task: its module, its audit and its class are named after it.

    Raises:
        UsageError: The name is none that a module can have, or is in use; this is no checkout; or a file is in the way.
    """
    _require_free(name)
    made = NewTask(
        task=Path("tasks", f"{name}.py"),
        config=Path("config", "cases", f"{name}.yaml"),
        nonce=Path("config", "nonces", f"{name}.nonce"),
        test=Path("tests", "tasks", f"test_task_{name}.py"),
    )
    if not Path("Snakefile").is_file():
        raise UsageError(f"there is no Snakefile in {Path.cwd()}", "Run this in the folder that holds the Snakefile")
    if standing := [str(path) for path in made if path.exists() or path.is_symlink()]:
        raise UsageError(f"in the way: {', '.join(standing)}", "Nothing was written: give the task another name")
    with ExitStack() as undo:
        try:
            new_nonce(made.nonce)
            undo.callback(made.nonce.unlink)
            for path, source in ((made.task, "mytask.py"), (made.config, "mytask.yaml"), (made.test, "test_mytask.py")):
                if not files.write_once(path, _filled(source, name), mode=0o644):
                    raise UsageError(f"{path} exists by now", "No file was written: give the task another name")
                undo.callback(path.unlink)
        except OSError as error:
            problem = f"{error.filename}: {error.strerror}"
            raise UsageError(problem, "No file was written: move what is in the way") from None
        undo.pop_all()
    return made


def example_task(name: str) -> bytes:
    """The module of the example task under a name."""
    return _filled("mytask.py", name)


def _filled(source: str, name: str) -> bytes:
    """A file of the example under the author's name instead of ``mytask`` and ``MyTask``."""
    kind = "".join(part.capitalize() for part in name.split("_"))
    text = (EXAMPLE / source).read_text(encoding="utf-8")
    return text.replace("MyTask", f"{kind}Task").replace("mytask", name).encode()


def _require_free(name: str) -> None:
    """Refuse a name that no task module can have.

    Raises:
        UsageError: It is one.
    """
    if not NAME.fullmatch(name):
        raise UsageError(
            f"a task cannot be named {name!r}",
            "Expected: a lower-case letter, then lower-case letters, digits and _, 30 at the most",
        )
    if name in BUILTIN:
        raise UsageError(f"{name} is a task that ships with dcpflow", "Give yours another name")
    spec = find_spec(name)
    if keyword.iskeyword(name) or keyword.issoftkeyword(name) or (spec is not None and spec.origin is not None):
        # A module of that name in the task's folder would be taken for the other one.
        raise UsageError(f"{name} means something else in Python", "Give the task another name")
