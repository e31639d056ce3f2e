"""From the registered name of a task to its object and its source."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from dcpflow.errors import UsageError
from dcpflow.records import canonical, sources
from dcpflow.tasks.base import Task

BUILTIN = {
    "affine": "dcpflow.tasks.affine:AffineTask",
    "catalyst": "dcpflow.tasks.catalyst:CatalystTask",
    "device": "dcpflow.tasks.device:DeviceTask",
    "knapsack": "dcpflow.tasks.knapsack:KnapsackTask",
    "sqlite_index": "dcpflow.tasks.sqlite_index:SqliteIndexTask",
    "sqlite_shop": "dcpflow.tasks.sqlite_shop:SqliteShopTask",
}


def load_task(task: Mapping[str, Any]) -> Task:
    """The task that a configuration or a contract names.

    Args:
        task: ``name``, ``settings`` and ``public_seed``.

    Raises:
        UsageError: there is no such task, or it refuses its settings.
    """
    module, name = _where(task)
    try:
        kind = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        known = ", ".join(sorted(BUILTIN))
        raise UsageError(
            f"task.name: {task['name']!r} cannot be loaded ({error})", f"Use one of {known}, or module:Class"
        ) from None
    if not (isinstance(kind, type) and issubclass(kind, Task)):
        raise UsageError(f"task.name: {task['name']!r} is no subclass of dcpflow.tasks.base.Task")
    try:
        return kind(task["settings"], task["public_seed"])
    except ValueError as error:
        raise UsageError(f"task.settings: {error}", "See config/README.md for the task's settings") from None


def task_sources(task: Mapping[str, Any]) -> dict[str, str]:
    """Digest of each source file that the task is made of, by module name; part of the contract."""
    module, _ = _where(task)
    inside = "dcpflow.tasks" if module.startswith("dcpflow.tasks.") else module.partition(".")[0]
    return {
        name: canonical.digest(path.read_bytes())
        for name, path in sources.source_files(module, inside).items()
        if name not in {"dcpflow.tasks", __name__}
    }


def _where(task: Mapping[str, Any]) -> tuple[str, str]:
    place = BUILTIN.get(task["name"], task["name"])
    module, colon, name = place.partition(":")
    if not colon or not module or not name:
        known = ", ".join(sorted(BUILTIN))
        raise UsageError(f"task.name: there is no task {task['name']!r}", f"Use one of {known}, or module:Class")
    return module, name
