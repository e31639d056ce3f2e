"""Digests of source code: which modules a result rests on, found by following their imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
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
        waiting += _imports(name, path)
    return dict(sorted(found.items()))


def source_digest(module: str, inside: str = "dcpflow") -> str:
    """One digest over the source of a module and all that it imports within a package."""
    return canonical.digest_of(
        {name: canonical.digest(path.read_bytes()) for name, path in source_files(module, inside).items()}
    )


@cache
def _file(module: str) -> Path | None:
    """The module's file, found beside its top package without importing anything on the way."""
    top, *below = module.split(".")
    place = _package(top)
    if place is None:
        return None
    path = place.joinpath(*below)
    candidates = (path / "__init__.py", path.with_suffix(".py")) if below or path.is_dir() else (path,)
    return next((candidate for candidate in candidates if candidate.is_file()), None)


@cache
def _package(top: str) -> Path | None:
    spec = find_spec(top)
    if spec is None or spec.origin is None:
        return None
    origin = Path(spec.origin)
    return origin.parent if origin.name == "__init__.py" else origin


@cache
def _imports(module: str, path: Path) -> tuple[str, ...]:
    """What a module imports, inside of functions too, by absolute names."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    return tuple(_imported(ast.parse(path.read_bytes()).body, package))


def _imported(statements: Sequence[ast.AST], package: str) -> Iterator[str]:
    """Only statements are walked, since no expression imports anything: that is most of the work saved."""
    for node in statements:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *([base] if base else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from _imported(
                getattr(node, part, ()) if isinstance(node, ast.stmt | ast.excepthandler | ast.match_case) else (),
                package,
            )
