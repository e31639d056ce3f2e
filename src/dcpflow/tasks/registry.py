"""From the registered name of a task to its object and its source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dcpflow.errors import UsageError
from dcpflow.records import canonical
from dcpflow.tasks import places
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
        task: ``name``, ``settings`` and ``public_seed``; :mod:`dcpflow.tasks.places` says what a name can be.

    Raises:
        UsageError: there is no such task, or it refuses its settings.
    """
    kind = places.load_class(task["name"], places.find(task["name"], BUILTIN))
    try:
        return kind(task["settings"], task["public_seed"])
    except ValueError as error:
        raise UsageError(f"task.settings: {error}", "See config/README.md for the task's settings") from None


def task_sources(task: Mapping[str, Any]) -> dict[str, str]:
    """Digest of each source file that the task is made of, by module name; part of the contract.

    Raises:
        UsageError: there is no such task.
    """
    files = places.source_files(places.find(task["name"], BUILTIN))
    return {name: canonical.digest(path.read_bytes()) for name, path in files.items()}
