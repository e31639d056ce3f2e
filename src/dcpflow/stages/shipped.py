"""The workflow's files, of which ``dcpflow init`` makes a project: those of this checkout, or what a wheel carries.

There is one copy in the repository. ``setup.py`` reads this file, without the package, to lay them into a wheel.
"""

from __future__ import annotations

from pathlib import Path

NAMES = ("Snakefile", "rules", "scripts", "profiles", "envs", "docs/agent-protocol.md")
CARRIED = "workflow"
"""Folder of an installed package that holds them."""


def files(root: Path) -> dict[str, Path]:
    """Each file below these names, by its path from a folder that holds them."""
    found: dict[str, Path] = {}
    for name in NAMES:
        top = root / name
        paths = sorted(top.rglob("*")) if top.is_dir() else [top]
        found |= {path.relative_to(root).as_posix(): path for path in paths if path.is_file()}
    return {name: path for name, path in found.items() if "__pycache__" not in path.parts}


def root() -> Path:
    """The folder that holds them here."""
    package = Path(__file__).parents[1]
    carried = package / CARRIED
    return carried if carried.is_dir() else package.parents[1]
