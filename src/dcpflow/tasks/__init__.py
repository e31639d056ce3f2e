"""Research tasks: what an agent sees, what an experiment answers, and how an artifact is scored."""

from dcpflow.tasks.registry import load_task, task_sources

__all__ = ["load_task", "task_sources"]
