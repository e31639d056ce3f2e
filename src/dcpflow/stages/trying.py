"""Tries a task against all that an audit relies on, before anything is registered."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dcpflow.tasks import conformance, load_task
from dcpflow.tasks.conformance import Finding


def try_task(task: Mapping[str, Any], data_file: Path | None = None) -> list[Finding]:
    """What the conformance suite finds for a task.

    Args:
        task: ``name``; ``settings`` and ``public_seed`` if they matter, as in a configuration.
        data_file: the file of its data set, where it reads one that is not in the download cache.

    Raises:
        UsageError: there is no such task, or it refuses its settings.
    """
    return list(conformance.check(load_task({"settings": {}, "public_seed": "dcpflow task check", **task}, data_file)))
