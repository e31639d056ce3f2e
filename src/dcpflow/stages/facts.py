"""What only the task and the draws can tell about an episode: recomputed, never taken from its record."""

from __future__ import annotations

from typing import Any

from dcpflow.episodes.episode import hello
from dcpflow.evidence.view import AuditView, Episode
from dcpflow.records import canonical, plan
from dcpflow.records.draws import Draws
from dcpflow.tasks.base import Task


def episode_facts(view: AuditView, task: Task, draws: Draws) -> dict[str, dict[str, bool]]:
    """Facts of every episode, by record digest.

    Args:
        view: the audit.
        task: its task.
        draws: its draws, from the revealed nonce.

    Returns:
        ``draw_matches``: its draws are those of the committed nonce; ``hello_matches``: it was told exactly what its
        stage, slot and draws say, nothing more and nothing less; ``canary_quoted``: it quoted its canary file byte
        for byte (true where it had none).
    """
    limits = view.registered.config("limits")
    history = list(view.checkpoint.get("history", []))
    return {episode.digest: _facts(episode, task, draws, limits, history) for episode in view.episodes}


def _facts(
    episode: Episode, task: Task, draws: Draws, limits: dict[str, int], history: list[dict[str, Any]]
) -> dict[str, bool]:
    record, key = episode.record, episode.key
    drawn = plan.draw(draws, key.stage, key.slot)
    expected = hello(task, draws, key, limits, history)
    return {
        "draw_matches": record.draw == drawn and record.unit == plan.unit(drawn),
        "hello_matches": episode.transcript[0] == {"from": "harness", "line": canonical.encode(expected).decode()},
        "canary_quoted": record.quotes
        == {name: canonical.digest(text.encode()) for name, text in expected["files"].items()},
    }
