"""Writes a task to start from: a working example under the author's name, with configuration, nonce and test."""

from __future__ import annotations

import errno
import keyword
import os
import re
import sys
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
        place: How the configuration names the task.
    """

    task: Path
    config: Path
    nonce: Path
    test: Path
    place: str


def new_task(name: str) -> NewTask:
    """Write an example task, its configuration, a nonce and a test into the working folder.

    All is checked before anything is written, and nothing is ever overwritten.

    Args:
        name: Of the task: its module, its audit and its class are named after it.

    Raises:
        UsageError: The name is none that a module can have, or is in use; this is no checkout; or a file is in the way.
    """
    _require_free(name)
    kind = "".join(part.capitalize() for part in name.split("_"))
    made = NewTask(
        task=Path("tasks", f"{name}.py"),
        config=Path("config", "cases", f"{name}.yaml"),
        nonce=Path("config", "nonces", f"{name}.nonce"),
        test=Path("tests", "tasks", f"test_task_{name}.py"),
        place=f"tasks/{name}.py:{kind}Task",
    )
    paths = (made.task, made.config, made.nonce, made.test)
    if not Path("Snakefile").is_file():
        raise UsageError(f"there is no Snakefile in {Path.cwd()}", "Run this in the folder that holds the Snakefile")
    if standing := [str(path) for path in paths if path.exists() or path.is_symlink()]:
        raise UsageError(f"in the way: {', '.join(standing)}", "Nothing was written: give the task another name")
    written: list[Path] = []
    try:
        new_nonce(made.nonce)
        written.append(made.nonce)
        for path, source in ((made.task, "mytask.py"), (made.config, "mytask.yaml"), (made.test, "test_mytask.py")):
            text = (EXAMPLE / source).read_text(encoding="utf-8")
            text = text.replace("MyTask", f"{kind}Task").replace("mytask", name)
            if not files.write_once(path, text.encode(), mode=0o644):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
            written.append(path)
    except BaseException as error:
        for path in written:
            path.unlink()
        if isinstance(error, OSError):
            raise UsageError(
                f"{error.filename}: {error.strerror}", "No file was written: move what is in the way"
            ) from None
        raise
    return made


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
    if keyword.iskeyword(name) or keyword.issoftkeyword(name) or name in {*sys.stdlib_module_names, "dcpflow"}:
        raise UsageError(f"{name} means something else in Python", "Give the task another name")
