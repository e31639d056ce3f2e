"""Writes a project of one's own: the workflow with an example of a task, of an agent and of their audit."""

from __future__ import annotations

import secrets
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path

from dcpflow.agents.launch import builtin_file
from dcpflow.errors import UsageError
from dcpflow.records import files
from dcpflow.stages import config_docs, shipped
from dcpflow.stages.new_task import example_task

TEMPLATES = Path(__file__).parent / "project"
NONCE = "config/audit.nonce"


def new_project(folder: Path) -> None:
    """Write a project that runs as it stands.

    All is checked before anything is written, and nothing is ever overwritten: the folder may hold other files.

    Args:
        folder: where to; made if it is not there.

    Raises:
        UsageError: a file is in the way, or none can be written there.
    """
    contents = _contents()
    standing = [name for name in contents if (folder / name).exists() or (folder / name).is_symlink()]
    if standing:
        shown = ", ".join(standing[:3]) + (f" and {len(standing) - 3} more" if len(standing) > 3 else "")
        raise UsageError(f"in the way in {folder}: {shown}", "Nothing was written: give another folder")
    with ExitStack() as undo:
        try:
            for name, data in contents.items():
                if not files.write_once(folder / name, data, mode=0o600 if name == NONCE else 0o644):
                    raise UsageError(f"{folder / name} exists by now", "No file was written: give another folder")
                undo.callback((folder / name).unlink)
        except OSError as error:
            problem = f"{error.filename or folder}: {error.strerror}"
            raise UsageError(problem, "No file was written: give a folder that can be written to") from None
        undo.pop_all()


def _contents() -> dict[str, bytes]:
    """The bytes of each file of a project, by its path there."""
    shipping = {name: path.read_bytes() for name, path in shipped.files(shipped.root()).items()}
    return shipping | {
        "README.md": (TEMPLATES / "README.md").read_bytes(),
        ".gitignore": (TEMPLATES / "gitignore").read_bytes(),
        "requirements.txt": f"dcpflow=={version('dcpflow')}\n".encode(),
        "config/config.yaml": (TEMPLATES / "config.yaml").read_bytes(),
        "config/README.md": config_docs.render_keys().encode(),
        "config/config.schema.json": config_docs.render_schema().encode(),
        NONCE: f"{secrets.token_hex(32)}\n".encode(),
        "tasks/lamp.py": example_task("lamp"),
        "agents/lamp_agent.py": builtin_file("parity_learner").read_bytes(),
    }
