"""Digests of source code: which modules a result rests on, found by following their imports."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from dcpflow.records import canonical

Locate = Callable[[str], Path | None]
"""From a module's dotted name to its file; None for a module that is not to be followed."""


def source_files(module: str, inside: str = "dcpflow") -> dict[str, Path]:
    """The module and all that it imports, directly or not, within one package.

    Args:
        module: dotted name of the first module.
        inside: package whose modules are followed; everything else is left out.

    Returns:
        File of each module, by dotted name.
    """
    return reached(module, lambda name: installed(name) if name == inside or name.startswith(f"{inside}.") else None)


def reached(module: str, locate: Locate) -> dict[str, Path]:
    """The module and all that it imports, directly or not, as far as ``locate`` knows a file.

    Args:
        module: dotted name of the first module.
        locate: which modules are followed, and where they are.

    Returns:
        File of each module, by dotted name.
    """
    found: dict[str, Path] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        path = locate(name) if name and name not in found else None
        if path is not None:
            found[name] = path
            # importing a module runs the packages above it first
            waiting += [name.rpartition(".")[0], *_imports(name, path)]
    return dict(sorted(found.items()))


def source_digest(module: str, inside: str = "dcpflow") -> str:
    """One digest over the source of a module and all that it imports within a package."""
    return canonical.digest_of(
        {name: canonical.digest(path.read_bytes()) for name, path in source_files(module, inside).items()}
    )


def file_in(folder: Path, module: str) -> Path | None:
    """The file of a module whose top package or file lies in a folder."""
    path = folder.joinpath(*module.split("."))
    candidates = (path / "__init__.py", path.parent / f"{path.name}.py")
    return next((candidate for candidate in candidates if candidate.is_file()), None)


@cache
def installed(module: str) -> Path | None:
    """The file of a module that Python finds, looked up beside its top package without importing anything."""
    found = (file_in(folder, module) for folder in _folders(module.partition(".")[0]))
    return next((path for path in found if path is not None), None)


@cache
def _folders(top: str) -> tuple[Path, ...]:
    """The folders in which a top package or module lies: one, or several for a namespace package."""
    try:
        spec = find_spec(top)
    except ValueError:  # a module without origin, such as __main__
        return ()
    if spec is None:
        return ()
    if spec.submodule_search_locations is not None:
        return tuple(Path(place).parent for place in spec.submodule_search_locations)
    return (Path(spec.origin).parent,) if spec.has_location and spec.origin else ()


_IMPORT_LINE = re.compile(
    rb"^[ \t]*(?:from[ \t]+[.\w]+[ \t]+import[ \t]*(?:\([^()]*\)|[^\n\\;(]*)|import[ \t][^\n\\;]*)$", re.MULTILINE
)
_WORD = re.compile(rb"\bimport\b")


@cache
def _imports(module: str, path: Path) -> tuple[str, ...]:
    """What a module imports, inside of functions too, by absolute names."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    return tuple(_imported(_statements(path.read_bytes(), str(path)), package))


def _statements(source: bytes, where: str) -> list[ast.stmt]:
    """The import statements of a source, or all of it, which takes ten times as long to read: where the word stands
    anywhere else too, so that one might be missed."""
    found = _IMPORT_LINE.findall(source)
    if source.isascii() and len(_WORD.findall(source)) == len(found):
        try:
            return ast.parse(b"\n".join(line.lstrip() for line in found), where).body
        except SyntaxError:
            pass  # a line of a text
    return ast.parse(source, where).body


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
