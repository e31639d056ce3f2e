"""Which registered limit an agent is beyond: what no limit of the kernel's can say of a whole tree of processes."""

from __future__ import annotations

from collections.abc import Mapping

from dcpflow.episodes import scratch
from dcpflow.episodes.processes import Use
from dcpflow.episodes.running import Running
from dcpflow.episodes.scratch import Filled

MIB = 1 << 20
EMPTY = Filled(0, 0)


def beyond(use: Use, kept: Filled, limits: Mapping[str, float]) -> str | None:
    """The first limit that is exceeded, by its name in the configuration; None if all are kept.

    Args:
        use: what its processes use.
        kept: what it keeps in files, which lie in memory.
        limits: the registered limits.
    """
    used = {
        "workspace_mb": kept.size / MIB,
        "workspace_files": kept.files,
        "processes": use.tasks,
        "memory_mb": (use.memory_bytes + kept.size) / MIB,
        "cpu_seconds": use.cpu_seconds,
    }
    return next((name for name, amount in used.items() if amount > limits[name]), None)


def look(running: Running, limits: Mapping[str, float]) -> str | None:
    """The limit that a running agent is beyond at this moment."""
    kept = _kept(running)
    allowed = int(limits["memory_mb"]) * MIB - kept.size
    return beyond(running.tree.use(allowed, int(limits["processes"])), kept, limits)


def look_back(running: Running, limits: Mapping[str, float]) -> str | None:
    """The limit that an agent was beyond when it ended, as far as what it left can tell."""
    return beyond(Use(0.0, 0, 0), _kept(running), limits)


def _kept(running: Running) -> Filled:
    return EMPTY if running.workspace is None else scratch.filled(running.workspace)
