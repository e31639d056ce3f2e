"""From the registered name of a task to its object and its source."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dcpflow.errors import UsageError
from dcpflow.records import canonical
from dcpflow.tasks import places
from dcpflow.tasks.base import Task

BUILTIN = {
    "affine": "dcpflow.tasks.affine:AffineTask",
    "catalyst": "dcpflow.tasks.catalyst:CatalystTask",
    "device": "dcpflow.tasks.device:DeviceTask",
    "dry_bean": "dcpflow.tasks.dry_bean:DryBeanTask",
    "ionosphere": "dcpflow.tasks.ionosphere:IonosphereTask",
    "knapsack": "dcpflow.tasks.knapsack:KnapsackTask",
    "sqlite_index": "dcpflow.tasks.sqlite_index:SqliteIndexTask",
    "sqlite_shop": "dcpflow.tasks.sqlite_shop:SqliteShopTask",
    "yacht": "dcpflow.tasks.yacht:YachtTask",
}


def load_task(task: Mapping[str, Any], data_file: Path | None = None) -> Task:
    """The task that a configuration or a contract names.

    Args:
        task: ``name``, ``settings`` and ``public_seed``; :mod:`dcpflow.tasks.places` says what a name can be.
        data_file: the file of its data set, where it reads one that is not in the download cache.

    Raises:
        UsageError: there is no such task, it refuses its settings, or it reads no data.
    """
    kind = places.load_class(task["name"], places.find(task["name"], BUILTIN))
    if data_file is not None and not kind.reads_data:
        raise UsageError(f"task.data_file: the task {task['name']!r} reads no data set", "Remove the key")
    given = {"data_file": data_file} if kind.reads_data else {}
    try:
        return kind(task["settings"], task["public_seed"], **given)
    except ValueError as error:
        raise UsageError(f"task.settings: {error}", "See config/README.md for the task's settings") from None


def task_sources(task: Mapping[str, Any]) -> dict[str, str]:
    """Digest of each source file that the task is made of, by module name; part of the contract.

    Raises:
        UsageError: there is no such task.
    """
    files = places.source_files(places.find(task["name"], BUILTIN))
    return {name: canonical.digest(path.read_bytes()) for name, path in files.items()}
