"""Digests of source code: which modules a result rests on, found by following their imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from dcpflow.records import canonical


def source_files(module: str, inside: str = "dcpflow") -> dict[str, Path]:
    """The module and all that it imports, directly or not, within one package.

    Args:
        module: dotted name of the first module.
        inside: package whose modules are followed; everything else is left out.

    Returns:
        File of each module, by dotted name.
    """
    found: dict[str, Path] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name in found or not (name == inside or name.startswith(f"{inside}.")):
            continue
        path = _file(name)
        if path is None:
            continue
        found[name] = path
        waiting += _imports(path)
    return dict(sorted(found.items()))


def source_digest(module: str, inside: str = "dcpflow") -> str:
    """One digest over the source of a module and all that it imports within a package."""
    return canonical.digest_of(
        {name: canonical.digest(path.read_bytes()) for name, path in source_files(module, inside).items()}
    )


@cache
def _file(module: str) -> Path | None:
    try:
        spec = find_spec(module)
    except ModuleNotFoundError:
        return None
    return Path(spec.origin) if spec and spec.origin and spec.origin.endswith(".py") else None


@cache
def _imports(path: Path) -> tuple[str, ...]:
    return tuple(_imported(ast.parse(path.read_bytes())))


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
