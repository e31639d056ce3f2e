"""Replays every channel after the fact: the registered policies must give, line for line, what agents were told."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path

from dcpflow.episodes.arms import Arm, Bench
from dcpflow.episodes.channel import Channel
from dcpflow.episodes.episode import NO_PACKET
from dcpflow.episodes.web import Recorded
from dcpflow.records import canonical, packet, stagefile
from dcpflow.records.episodes import EpisodeRecord
from dcpflow.records.objects import ObjectStore
from dcpflow.records.packet import Packet
from dcpflow.stages.episodes import resolved
from dcpflow.stages.laboratory import Job

SCHEMA = "dcpflow.channel-replay/1"
# limits that whoever runs the agent measures, and no conversation shows
OUTSIDE = frozenset({"wall_seconds", "output_bytes", "model_calls", "episode_tokens"})


def replay_channels(job: Job, receipts: Sequence[Path], output: Path) -> None:
    """Write, for each record, whether its conversation replays.

    The neutral and constant policies have no access to hidden material, here as then: where their replies come out
    the same, they did not depend on it.

    Args:
        job: the job; of a stratum for its own episodes.
        receipts: of one phase.
        output: the file to write.
    """
    objects = ObjectStore(job.layout.objects)
    packets = {"": NO_PACKET}
    found = {}
    for record in resolved(job, receipts):
        remedy = job.store.run_again(record.key, record.attempt)
        lines = objects.get(record.transcript, f"the transcript of {record.key}", remedy).splitlines()
        if record.packet not in packets:
            packets[record.packet] = packet.load(objects, record.packet, remedy)
        transcript = [json.loads(line) for line in lines]
        found[canonical.digest(record.to_bytes())] = replays(job.bench, record, transcript, packets[record.packet])
    stagefile.write(output, SCHEMA, {"contract": job.contract.digest, "replays": found})


def read(path: Path) -> dict[str, bool]:
    """By record digest, whether the conversation replayed.

    Raises:
        EvidenceError: the file is missing or was altered.
    """
    body, _ = stagefile.read(path, SCHEMA, "the channel replay")
    found: dict[str, bool] = body["replays"]
    return found


def replays(
    bench: Bench, record: EpisodeRecord, transcript: Sequence[Mapping[str, str]], web: Packet = NO_PACKET
) -> bool:
    """Whether a fresh channel with the arm's policy says to the agent's lines what the transcript holds.

    Fetches are answered from the packet that the record names, those of the target run too: no network is needed.

    The record then has to tell of this conversation what the channel counts: candidates, quotes, usage, outcome, and
    the limits that a channel knows.
    """
    lines = transcript[1:]
    with Arm(bench, record.key) as arm:
        channel = Channel(arm.policy, bench.limits, Recorded(bench.web, web) if bench.web else None)
        for said, answered in zip_longest(lines, lines[1:]):
            if said["from"] != "agent":
                continue
            if answered is None or answered["from"] != "harness":
                channel.overlong(_bytes(said))
            elif channel.hear(_bytes(said))[0] != answered["line"].encode() + b"\n":
                return False
    return (
        record.candidates == [canonical.digest(candidate) for candidate in channel.candidates]
        and record.quotes == {name: canonical.digest(text) for name, text in channel.quotes.items()}
        and record.usage == channel.usage
        and [limit for limit in record.limits_hit if limit not in OUTSIDE] == channel.limits_hit
        and (record.outcome == "artifact" or _of_a_stranger(record)) >= bool(channel.candidates)
        and (record.outcome != "artifact" or bool(channel.candidates))
    )


def _of_a_stranger(record: EpisodeRecord) -> bool:
    """Whether it is an episode in which a model may have answered that is not registered: a check of its own says."""
    return record.outcome == "execution_contract_violation" and bool(record.calls)


def _bytes(line: Mapping[str, str]) -> bytes:
    return line["line"].encode() if "line" in line else base64.b64decode(line["base64"])
