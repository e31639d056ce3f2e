"""Tries a task against all that an audit relies on, before anything is registered."""

from __future__ import annotations

from dcpflow.tasks import conformance, load_task
from dcpflow.tasks.conformance import Finding


def try_task(name: str) -> list[Finding]:
    """What the conformance suite finds for a task with its default settings.

    Raises:
        UsageError: there is no such task.
    """
    return list(conformance.check(load_task({"name": name, "settings": {}, "public_seed": "dcpflow task check"})))
