"""From the registered agent to the command that starts it inside a sandbox."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dcpflow.errors import UsageError

BUILTIN = Path(__file__).parent / "builtin"
INSIDE = "/agent"


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """What to start, and what it needs to see.

    Attributes:
        arguments: the command, with paths as they are inside the sandbox.
        files: path inside the sandbox to the file of the host that stands there, read-only.
    """

    arguments: tuple[str, ...]
    files: Mapping[str, Path]

    def outside(self) -> tuple[str, ...]:
        """The same command for a run without a sandbox."""
        return tuple(str(self.files.get(argument, argument)) for argument in self.arguments)


def builtin_file(name: str) -> Path:
    """The source file of a built-in agent.

    Raises:
        UsageError: there is none of that name.
    """
    path = BUILTIN / f"{name}.py"
    if name == "__init__" or not name.isidentifier() or not path.is_file():
        known = ", ".join(sorted(file.stem for file in BUILTIN.glob("*.py") if file.stem != "__init__"))
        raise UsageError(f"agent.name: there is no built-in agent {name!r}", f"There are: {known}")
    return path


def python_command(source: Path) -> LaunchSpec:
    """A standard-library Python file, started isolated from any site or user packages."""
    inside = f"{INSIDE}/{source.name}"
    interpreter = str(Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}")
    return LaunchSpec((interpreter, "-I", "-S", "-B", inside), {inside: source})


def launch_spec(agent: Mapping[str, Any]) -> LaunchSpec:
    """The launch specification of a registered agent.

    Args:
        agent: the ``agent`` part of the contract.
    """
    return python_command(builtin_file(str(agent["name"])))


def agent_sources(agent: Mapping[str, Any]) -> dict[str, bytes]:
    """The agent's source by name: it is part of the contract, so that another agent is another audit."""
    path = builtin_file(str(agent["name"]))
    return {path.name: path.read_bytes()}
