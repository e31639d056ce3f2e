"""Jobs that are killed in the middle of an episode, and what the next one makes of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from dcpflow.episodes.channel import Channel
from dcpflow.episodes.episode import Laboratory, settle
from dcpflow.records import plan
from dcpflow.records.episodes import EpisodeKey, EpisodeRecord
from dcpflow.records.packet import load
from dcpflow.stages.replay import replays

if TYPE_CHECKING:
    from tests.conftest import Audit

SEAL = "sha256:" + "5" * 64
PLACE = EpisodeKey("challengers", 101, "withheld")


class Killed(Exception):
    """Stands for SIGKILL: nothing after it runs."""


def kill_after(
    monkeypatch: pytest.MonkeyPatch, lab: Laboratory, audit: Audit, heard: int, key: EpisodeKey = PLACE
) -> None:
    """Run the episode and kill its job as it hears one more line than these."""
    hear = Channel.hear

    def hear_until(channel: Channel, line: bytes) -> tuple[bytes, bool]:
        if channel.usage["messages"] == heard:
            raise Killed
        return hear(channel, line)

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Channel, "hear", hear_until)
        settle(lambda: lab, audit.job.store, key, SEAL)
    leave_behind(audit, key)


def leave_behind(audit: Audit, key: EpisodeKey = PLACE) -> None:
    """Let the holder of an attempt be a process that is no more."""
    holder = max(audit.job.store.folder(key).glob("holder-*.json"))
    holder.chmod(0o644)
    holder.write_bytes(holder.read_bytes().replace(b'"pid":', b'"pid":9999999,"was":'))


def settled(lab: Laboratory, audit: Audit, key: EpisodeKey = PLACE) -> EpisodeRecord:
    """The record that stands in the end."""
    return EpisodeRecord.from_bytes(settle(lambda: lab, audit.job.store, key, SEAL), "here")


def lines(lab: Laboratory, record: EpisodeRecord) -> list[dict[str, str]]:
    """The transcript that a record names."""
    return [json.loads(line) for line in lab.objects.get(record.transcript).splitlines()]


def replayed(lab: Laboratory, record: EpisodeRecord) -> bool:
    """Whether the conversation of a record replays."""
    seen = load(lab.objects, record.packet) if plan.STAGES[record.stage].live_web else lab.packet
    return replays(lab.bench, record, lines(lab, record), seen)
