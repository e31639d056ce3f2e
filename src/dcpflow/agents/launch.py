"""From the registered agent to the command that starts it inside a sandbox."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dcpflow.errors import UsageError

BUILTIN = Path(__file__).parent / "builtin"
DIALOGUE = Path(__file__).parent / "dialogue.py"
INSIDE = "/agent"
DOOR = "/door"
"""Where files of ours stand inside that agents with doors are given, apart from theirs."""
MODEL, MCP = "model", "mcp"
"""Doors: what an agent can reach besides its channel, at an address of the sandbox's own loopback."""
PYTHON = str(Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}")
"""The interpreter, at the path that it has inside of every sandbox too."""
_PYTHON_COMMAND = (PYTHON, "-I", "-S", "-B")


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """What to start, and what it needs to see.

    Attributes:
        arguments: the command, with paths as they are inside the sandbox; ``{model}`` and ``{mcp}`` stand for the
            addresses of doors.
        files: path inside the sandbox to the file or folder of the host that stands there, read-only.
        environment: its environment variables, beside those that every agent has; with doors as in the arguments.
        doors: the doors that it is given.
    """

    arguments: tuple[str, ...]
    files: Mapping[str, Path]
    environment: Mapping[str, str] = field(default_factory=dict)
    doors: tuple[str, ...] = ()

    def outside(self) -> tuple[str, ...]:
        """The same command for a run without a sandbox, where files stand at their own paths."""
        return tuple(self._outside(argument) for argument in self.arguments)

    def behind_doors(self, descriptor: int) -> LaunchSpec:
        """What opens the agent's doors inside its sandbox, and then becomes the agent.

        Args:
            descriptor: number of an inherited Unix socket, on which the doors are handed out.
        """
        opener = (*_PYTHON_COMMAND, f"{DOOR}/doors.py", str(descriptor), ",".join(self.doors))
        return LaunchSpec((*opener, json.dumps(dict(self.environment)), *self.arguments), self.files)

    def _outside(self, argument: str) -> str:
        for inside, path in self.files.items():
            argument = argument.replace(inside, str(path))
        return argument


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
    return LaunchSpec((*_PYTHON_COMMAND, inside), {inside: source})


def door_files(doors: Sequence[str]) -> dict[str, Path]:
    """What agents with doors are given of ours: what opens the doors, and for MCP what stands between them and hosts
    that speak on standard input and output.
    """
    names = (("doors",) if doors else ()) + (("mcp_stdio",) if MCP in doors else ())
    return {f"{DOOR}/{path.name}": path for path in map(builtin_file, names)}


def launch_spec(agent: Mapping[str, Any]) -> LaunchSpec | None:
    """The launch specification of a registered agent; None for one that is no program here, but a model elsewhere.

    Args:
        agent: the ``agent`` part of the contract.

    Raises:
        UsageError: a file of it is missing.
    """
    match agent["kind"]:
        case "builtin":
            return python_command(builtin_file(str(agent["name"])))
        case "chat":
            return None
        case kind:
            program = agent["program"]
            command, *arguments = (text.replace("{python}", PYTHON) for text in program["command"])
            doors = ((MODEL,) if agent.get("model") else ()) + ((MCP,) if kind == "mcp" else ())
            files = _files(program) | _mounts(program) | door_files(doors)
            return LaunchSpec((command, *arguments), files, program["environment"], doors)


def agent_sources(agent: Mapping[str, Any]) -> dict[str, str]:
    """Digests of what the agent is made of, by name: they are part of the contract, so that another agent is another
    audit.

    Raises:
        UsageError: a file of it is missing.
    """
    match agent["kind"]:
        case "builtin":
            files = {path.name: path for path in (builtin_file(str(agent["name"])),)}
        case "chat":
            files = {DIALOGUE.name: DIALOGUE}
        case kind:
            files = _files(agent["program"]) | _mounts(agent["program"])
            files |= {DIALOGUE.name: DIALOGUE} if kind == "mcp" else {}
    return {name: _digest(path) for name, path in files.items()}


def _files(program: Mapping[str, Any]) -> dict[str, Path]:
    return {f"{INSIDE}/{Path(name).name}": _there("agent.program.files", Path(name)) for name in program["files"]}


def _mounts(program: Mapping[str, Any]) -> dict[str, Path]:
    return {name: _there("agent.program.mounts", Path(name)) for name in program["mounts"]}


def _there(key: str, path: Path) -> Path:
    if not path.exists():
        raise UsageError(f"{key}: {path} is not there", f"It is looked for from {Path.cwd()}")
    return path.absolute()


def _digest(path: Path) -> str:
    """Digest of a file's bytes, or of a folder's names, links, modes and bytes."""
    if not path.is_dir():
        return f"sha256:{_of_bytes(path)}"
    listed = hashlib.sha256()
    for folder, names, files in os.walk(path, onerror=_unreadable):
        names.sort()
        for name in sorted([*files, *(name for name in names if Path(folder, name).is_symlink())]):
            one = Path(folder, name)
            what = f"link {one.readlink()}" if one.is_symlink() else _of_file(one)
            listed.update(f"{one.relative_to(path).as_posix()}\0{what}\0".encode("utf-8", "surrogateescape"))
    return f"sha256:{listed.hexdigest()}"


def _of_file(path: Path) -> str:
    executable = "x" if path.stat().st_mode & 0o111 else "-"
    return f"file {executable} {_of_bytes(path)}"


def _of_bytes(path: Path) -> str:
    if not path.is_file():  # a FIFO would be waited for
        raise UsageError(f"the agent is given something that is no file: {path}", "Mount files and folders alone")
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UsageError(f"a file of the agent cannot be read: {path}: {error.strerror}", "Make it readable") from None


def _unreadable(error: OSError) -> None:
    raise UsageError(f"a folder of the agent cannot be read: {error.filename}: {error.strerror}", "Make it readable")
