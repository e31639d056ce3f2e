"""Where the class of a task stands, how it is imported, and which files it is made of.

``task.name`` is, in this order,

1. the name of a task that ships with dcpflow. It means that task on every machine: an installed package that offers
   another one under the same name is passed over;
2. the name of an entry point in the group ``dcpflow.tasks`` of an installed package;
3. ``path/to/file.py:Class``, a file below the working folder;
4. ``module:Class``, a module in the working folder or an installed one.

The working folder is that in which a command or the workflow runs: the checkout. All commands search it, and before
what is installed. ``task.name`` is registered, so it must mean the same on other machines: that is why a file is named
relative to the working folder, and why the digests of sources are listed by module name.

A task of one's own is made of its module, of all that it imports from the folder of its file, from the working folder
or from its own package, and of the modules of ``dcpflow.tasks``. Other packages are left out: ``Task.engine_identity``
names those that results depend on.
"""

from __future__ import annotations

import hashlib
import sys
import traceback
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import NamedTuple

from dcpflow.errors import UsageError
from dcpflow.records import sources
from dcpflow.tasks.base import Task

GROUP = "dcpflow.tasks"
LIBRARY = "dcpflow.tasks"
# They find tasks, and no task is made of them.
FINDERS = {LIBRARY, f"{LIBRARY}.registry", __name__}
FOLDER_PACKAGE = "dcpflow_folder_"
HOW = "Use a shipped task ({}), path/to/file.py:Class, module:Class, or the entry point of an installed package"


class Place(NamedTuple):
    """Where a class stands.

    Attributes:
        module: The dotted name under which its module is imported.
        attribute: The name of the class in it.
        folders: Folders that are searched before what is installed. Where a file was named, its own is the first, and
            ``module`` lies in a package that stands for this folder: files of the same name in two folders are two
            modules.
    """

    module: str
    attribute: str
    folders: tuple[str, ...] = ()

    @property
    def package(self) -> str:
        """The package that stands for the folder of a named file; empty if none was named."""
        top = self.module.partition(".")[0]
        return top if top.startswith(FOLDER_PACKAGE) else ""


def find(name: str, shipped: Mapping[str, str]) -> Place:
    """The place that a name stands for; nothing is imported.

    Args:
        name: ``task.name``.
        shipped: ``module:Class`` of each task that ships with dcpflow, by its name.

    Raises:
        UsageError: The name has none of the four forms, or there is no such entry point or file.
    """
    if name in shipped:
        module, _, attribute = shipped[name].partition(":")
        return Place(module, attribute)
    spelled = name if ":" in name else _entry_point(name, shipped)
    where, _, attribute = spelled.rpartition(":")
    if where.endswith(".py"):
        return _in_file(name, where, attribute)
    if not all(part.isidentifier() for part in (*where.split("."), *attribute.split("."))):
        raise UsageError(f"task.name: {name!r} is not module:Class", HOW.format(", ".join(sorted(shipped))))
    return Place(where, attribute, (str(Path.cwd()),))


def _entry_point(name: str, shipped: Mapping[str, str]) -> str:
    from importlib.metadata import entry_points  # noqa: PLC0415  (it reads all installed packages)

    offered = sorted({point.value for point in entry_points(group=GROUP, name=name)})
    if not offered:
        raise UsageError(
            f"task.name: there is no task {name!r}, neither shipped nor as an entry point in the group {GROUP}",
            HOW.format(", ".join(sorted(shipped))),
        )
    if len(offered) > 1:
        raise UsageError(
            f"task.name: installed packages offer {len(offered)} tasks named {name!r}: {', '.join(offered)}",
            "Name the one that you mean as module:Class",
        )
    return offered[0].partition("[")[0].replace(" ", "")


def _in_file(name: str, where: str, attribute: str) -> Place:
    path, working = PurePosixPath(where), Path.cwd()
    if path.is_absolute() or ".." in path.parts:
        raise UsageError(
            f"task.name: {name!r} must be relative to the working folder {working} and below it, since the name is"
            " registered and has to mean the same on other machines",
            f"Put the file there, for example as tasks/{path.name}, and name it tasks/{path.name}:{attribute}",
        )
    if not (working / path).is_file():
        raise UsageError(
            f"task.name: {name!r}: there is no file {where} in the working folder {working}",
            "Name it relative to this folder, which is the one that holds the Snakefile",
        )
    if not path.stem.isidentifier() or not attribute.isidentifier():
        raise UsageError(
            f"task.name: {name!r}: file and class must be named like Python modules and classes",
            "Use letters, digits and _, and no digit first",
        )
    folder = (working / path).parent.resolve()
    stands_for = hashlib.sha256(str(folder).encode()).hexdigest()[:16]
    return Place(f"{FOLDER_PACKAGE}{stands_for}.{path.stem}", attribute, (str(folder), str(working)))


def source_files(place: Place) -> dict[str, Path]:
    """The files that a task is made of, by module name; modules beside a named file by their names in its folder.

    Raises:
        UsageError: The module has no file.
    """
    return {name.removeprefix(f"{place.package}."): path for name, path in _imported_files(place).items()}


def _imported_files(place: Place) -> dict[str, Path]:
    """The same by the names under which Python imports them."""
    top = place.module.partition(".")[0]

    def locate(name: str) -> Path | None:
        if name.partition(".")[0] == "dcpflow":
            return sources.installed(name) if name.startswith(f"{LIBRARY}.") and name not in FINDERS else None
        if place.package and name.startswith(f"{place.package}."):
            return sources.file_in(Path(place.folders[0]), name.removeprefix(f"{place.package}."))
        near = (sources.file_in(Path(folder), name) for folder in place.folders)
        found = next((path for path in near if path is not None), None)
        return found or (sources.installed(name) if name.partition(".")[0] == top else None)

    try:
        found = sources.reached(place.module, locate)
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"task.name: the task's source cannot be read: {_told(error)}") from None
    if place.module not in found:
        raise UsageError(
            f"task.name: there is no Python file for the module {place.module!r}, neither in the working folder"
            f" {Path.cwd()} nor among the installed packages",
            "Run this in the folder that holds the Snakefile, with the module in it or its package installed",
        )
    return found


def load_class(name: str, place: Place) -> type[Task]:
    """Import the class of a task.

    Args:
        name: ``task.name``, for errors.
        place: Where it stands.

    Raises:
        UsageError: It cannot be imported, is no task or not a whole one, or Python imports other files than those that
            are registered.
    """
    files = _imported_files(place) if place.folders else {}
    _require_registered(name, files)
    try:
        module = open_module(place)
    except Exception as error:  # an author's module may raise anything
        raise UsageError(
            f"task.name: {name!r} cannot be imported: {_told(error)}", f"Correct it, then: dcpflow task check {name}"
        ) from None
    _require_registered(name, files)
    kind: object = module
    for part in place.attribute.split("."):
        kind = getattr(kind, part, None)
    if kind is None:
        own = [n for n, v in vars(module).items() if isinstance(v, type) and issubclass(v, Task) and v is not Task]
        remedy = f"There is {', '.join(own)}" if own else "It has no subclass of dcpflow.tasks.base.Task"
        raise UsageError(f"task.name: {name!r}: {module.__file__} has no {place.attribute}", remedy)
    if not (isinstance(kind, type) and issubclass(kind, Task)):
        raise UsageError(f"task.name: {name!r} is no subclass of dcpflow.tasks.base.Task")
    if missing := sorted(kind.__abstractmethods__):
        raise UsageError(
            f"task.name: {name!r} lacks {', '.join(missing)}", "dcpflow.tasks.base.Task says what each has to do"
        )
    return kind


def open_module(place: Place) -> ModuleType:
    """Import a module, with the folders of its place searched first from now on.

    Nothing is written beside an author's files, now or later: Python keeps no bytecode of what this process imports.
    """
    if place.folders:
        sys.path[:] = dict.fromkeys([*place.folders, *sys.path])
        sys.dont_write_bytecode = True
    if place.package and place.package not in sys.modules:
        package = ModuleType(place.package, f"Stands for the folder {place.folders[0]}.")
        package.__path__ = [place.folders[0]]
        sys.modules[place.package] = package
    return import_module(place.module)


def place_of(kind: type[Task]) -> Place:
    """The place of a class that is imported already, from which another process can import it."""
    module, working = kind.__module__, str(Path.cwd())
    place = Place(module, kind.__qualname__, (working,))
    if place.package:
        place = place._replace(folders=(*sys.modules[place.package].__path__, working))
    return place


def _require_registered(name: str, files: Mapping[str, Path]) -> None:
    """Refuse modules that Python has imported from other files than those whose digests are registered.

    Raises:
        UsageError: There is one, because two modules have one name.
    """
    for module, path in files.items():
        loaded = getattr(sys.modules.get(module), "__file__", None)
        if module in sys.modules and (loaded is None or Path(loaded).resolve() != path.resolve()):
            raise UsageError(
                f"task.name: {name!r} imports {module}, which would be {path}, but Python has another module of this"
                f" name ({loaded or 'built in'})",
                "Give the file another name",
            )


def _told(error: Exception) -> str:
    """What an author's module raised, and where, in one line."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno}: {type(error).__name__}: {error.msg}"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith("<")]
    where = f"{frames[-1].filename}, line {frames[-1].lineno}"
    return f"{where}: {type(error).__name__}: {' '.join(str(error).split())}"
