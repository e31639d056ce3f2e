"""Digests of source code: which modules a result rests on, found by following their imports."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from dcpflow.records import canonical

IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<module>[\w.]+)[ \t]+import[ \t]+(?P<names>\([^)]*\)|[^\n#]*)"
    r"|import[ \t]+(?P<plain>[\w.]+))",
    re.MULTILINE,
)


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
def _imports(path: Path) -> tuple[str, ...]:
    return tuple(_imported(path.read_text(encoding="utf-8")))


def _imported(source: str) -> Iterator[str]:
    """Imported names, those inside of functions too; prose that reads like an import can only add a module."""
    for match in IMPORT.finditer(source):
        module, names = match["module"] or match["plain"], match["names"]
        yield module
        if names is not None:
            yield from (f"{module}.{name.split()[0]}" for name in names.strip("()\n ").split(",") if name.strip())
