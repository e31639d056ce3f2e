"""What only the task and the draws can tell about an episode: recomputed, never taken from its record."""

from __future__ import annotations

from typing import Any

from dcpflow.episodes.episode import hello
from dcpflow.evidence.view import AuditView, Episode
from dcpflow.records import canonical, plan
from dcpflow.records.draws import Draws
from dcpflow.records.episodes import EpisodeKey
from dcpflow.records.packet import Packet, quoted
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
        for byte, and ``packet_quoted``: its page of the Web packet (true where it had none).
    """
    limits, web = view.registered.config("limits"), view.registered.web
    history = list(view.checkpoint.get("history", []))

    def told(key: EpisodeKey) -> dict[str, Any]:
        return hello(task, draws, key, limits, history, web, view.packet)

    return {episode.digest: _facts(episode, draws, told(episode.key), view.packet) for episode in view.episodes}


def _facts(episode: Episode, draws: Draws, expected: dict[str, Any], web: Packet) -> dict[str, bool]:
    record, key = episode.record, episode.key
    drawn = plan.draw(draws, key.stage, key.slot)
    return {
        "draw_matches": record.draw == drawn and record.unit == plan.unit(drawn),
        "hello_matches": episode.transcript[0] == {"from": "harness", "line": canonical.encode(expected).decode()},
        **quoted(record.quotes, plan.to_quote(draws, key.stage, key.slot, web)),
    }
