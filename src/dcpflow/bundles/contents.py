"""What of an audit goes into its bundle: exactly what the decision rests on, in one form, whatever lies beside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from dcpflow.bundles.format import stage_bytes
from dcpflow.evidence import folder
from dcpflow.evidence.view import AuditView, Episode
from dcpflow.records import files, history, packet, plan, public, receipts, registration, snapshot
from dcpflow.records.episodes import EpisodeStore
from dcpflow.records.layout import Layout
from dcpflow.records.objects import ObjectStore

TABLES: Final = (*folder.TABLES, "checks")
REVEALED: Final = "revealed"


def records(layout: Layout, seen: AuditView) -> dict[str, bytes]:
    """All members of a bundle but tables and manifest, read from where they lie.

    Args:
        layout: a results folder, or a bundle opened as one.
        seen: its evidence.

    Raises:
        EvidenceError: something is missing or altered.
    """
    root = layout.root
    paths = [
        layout.registration / "contract.json",
        layout.registration / "registration.json",
        *(registration.part_path(layout.registration, name) for name in seen.registered.parts),
        *(layout.scores(phase) for phase in seen.scores),
        layout.evidence / "manifest.json",
        layout.evidence / "facts.json",
        layout.decision,
    ]
    if seen.noted and seen.noted.speaks:
        paths.append(snapshot.path(layout.registration))
    if seen.checkpoint:
        paths.append(layout.checkpoint)
    if seen.registered.web:
        paths.append(layout.packet)
    for entry in history.entries(layout):
        place = layout.history / f"{entry.sequence:04d}-{entry.registration[7:23]}"
        paths += [path for path in (place / "entry.json", place / "decision.json") if path.exists()]
    parts = (seen, *seen.parts.values())
    paths += [layout.scores(place) for place in seen.parts]
    paths += [path for part in parts for path in _of_episodes(layout, part)]
    found = {str(path.relative_to(root)): files.read(path, "a part of the audit") for path in paths}
    material = public.read(layout, seen.registered.parts["task"]["seal"]["public"])
    found |= {f"task/public/{name}": data for name, data in material.items()}
    for part in parts:
        found |= _receipts(part)
    return found


def _of_episodes(layout: Layout, seen: AuditView) -> set[Path]:
    """The records of one contract, and all that they name."""
    store = EpisodeStore(layout.store, seen.registered.contract)
    objects = ObjectStore(layout.objects)
    named = {
        digest
        for episode in seen.episodes
        for digest in (episode.record.transcript, episode.record.isolation, *episode.record.candidates)
    } | {digest for episode in seen.episodes for digest in (episode.record.workspace, episode.record.calls) if digest}
    named |= {call.response for episode in seen.episodes for call in episode.calls if call.response}
    if seen.registered.artifact:
        named.add(seen.registered.artifact)
    named |= {digest for web in seen.packets.values() for digest in packet.members(web)}
    return {objects.path(digest) for digest in named} | {
        store.record_path(episode.key, episode.record.attempt) for episode in seen.episodes
    }


def _receipts(seen: AuditView) -> dict[str, bytes]:
    """One receipt for each stage, or each look at one, in the order of its slots, whatever batches it ran in."""
    stages: dict[str, list[Episode]] = {}
    for episode in sorted(seen.episodes, key=_slot_and_arm):
        place = _place(episode, seen.registered.config("design"))
        stages.setdefault(place, []).append(episode)
    return {
        f"{place}/{receipts.file_name(episodes[0].record.slot, episodes[-1].record.slot)}": stage_bytes(
            receipts.SCHEMA,
            {
                "contract": seen.registered.contract,
                "episodes": [
                    {
                        "stage": episode.record.stage,
                        "slot": episode.record.slot,
                        "arm": episode.record.arm,
                        "attempt": episode.record.attempt,
                        "record": episode.digest,
                    }
                    for episode in episodes
                ],
            },
        )
        for place, episodes in stages.items()
    }


def _place(episode: Episode, design: Mapping[str, Any]) -> str:
    """Where an episode's receipt lies: by the registered stratum, and that of a later look in a folder of its own."""
    stage, slot = episode.record.stage, episode.record.slot
    if stage in plan.LOOKS:
        for number, look in enumerate(plan.looks(design, stage), 1):
            if slot in look:
                return plan.look_place(stage, design, number)
    return stage


def _slot_and_arm(episode: Episode) -> tuple[int, int]:
    record = episode.record
    return record.slot, plan.STAGES[record.stage].arms.index(record.arm)


def table_member(name: str) -> str:
    """Name of the member that holds a table."""
    return f"evidence/{name}.jsonl"
