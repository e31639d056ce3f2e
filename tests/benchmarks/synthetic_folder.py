"""A results folder as large as wanted, without an audit: the evidence of a stand-in task, written as an audit would.

python tests/benchmarks/synthetic_folder.py FOLDER [--episodes 10000] [--units 300]
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from dcpflow.evidence import folder
from dcpflow.evidence.view import Episode
from dcpflow.planning import stand_in
from dcpflow.planning.synthetic import HIT, MISS, PAIR_ENDS, Counts
from dcpflow.protocol.config import load
from dcpflow.records import canonical, checkpoint, history, packet, plan, receipts, registration, scores, stagefile
from dcpflow.records.episodes import EpisodeStore
from dcpflow.records.layout import Layout
from dcpflow.records.objects import ObjectStore

BATCH = 24


def main() -> None:
    """Write, and print how many episodes there are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--units", type=int, default=300)
    options = parser.parse_args()
    print(write(options.folder, options.episodes, options.units))


def write(results: Path, episodes: int, units: int) -> int:
    """Write a folder with about so many episodes, each artifact scored on so many units; returns how many they are."""
    layout, design = Layout(results), _design(episodes)
    config = stand_in.looked_at_once(load({"design": design, "thresholds": _thresholds(design)}))
    audit = stand_in.build(config, _counts(design), units=[f"unit-{n:04d}" for n in range(1, units + 1)])
    audit = audit.with_scores(lambda row: replace(row, units=_spread(row.units[0], row.slot, units)))
    view = audit.view
    parts = view.registered.parts
    registration.write_contract(layout.registration, parts)
    registered = registration.write_registration(
        layout.registration, {name: parts[name] for name in registration.PLAN_PARTS}
    )
    history.append(layout, registered)
    objects, store = _Quick(layout.objects), EpisodeStore(layout.store, registered.contract)
    for candidate in view.candidates.values():
        objects.put(candidate)
    for probe in view.probes.values():
        objects.put(canonical.encode(probe))
    objects.put(b"")
    for web in view.packets.values():
        packet.store(objects, web)
    written = [_record(objects, store, episode) for episode in view.episodes]
    for stage in plan.STAGES:
        found = [(e.key.slot, data) for data, e in zip(written, view.episodes, strict=True) if e.key.stage == stage]
        place = plan.look_place(stage, registered.config("design"), 1)
        for first in range(0, len(found), BATCH):
            # both arms of a pair stand in one receipt, since a batch is even
            batch = found[first : first + BATCH]
            path = results / place / receipts.file_name(batch[0][0], batch[-1][0])
            receipts.write(path, registered.contract, [data for _, data in batch])
    target = view.target
    stagefile.write(layout.packet, packet.SCHEMA, packet.body(registered.contract, target.digest, target.record.packet))
    stagefile.write(layout.checkpoint, checkpoint.SCHEMA, {k: v for k, v in view.checkpoint.items() if k != "digest"})
    for phase, rows in view.scores.items():
        scores.write(layout.scores(phase), registered.contract, dict(view.score_inputs[phase]), list(rows))
    seen = folder.load_view(layout, folder.receipts(layout), folder.scores(layout))
    folder.write(layout, seen, audit.episode_facts, audit.facts)
    return len(view.episodes)


class _Quick(ObjectStore):
    """Without waiting for the disk."""

    def put(self, data: bytes) -> str:
        digest = canonical.digest(data)
        self.path(digest).parent.mkdir(parents=True, exist_ok=True)
        self.path(digest).write_bytes(data)
        return digest


def _record(objects: ObjectStore, store: EpisodeStore, episode: Episode) -> bytes:
    objects.put(stand_in.transcript_bytes(episode.transcript))
    data, path = episode.record.to_bytes(), store.record_path(episode.key)
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    return data


def _design(episodes: int) -> dict[str, Any]:
    """The default audit's proportions: of 322 episodes, 96 challengers, 45 controls, 30 pairs and 60 null pairs."""
    part = episodes / 322
    counts = {"challengers": 96, "controls": 45, "pairs": 30, "null_pairs": 60}
    none = {"pair_replacements": 0, "null_pair_replacements": 0}
    return {name: round(count * part) for name, count in counts.items()} | none


def _thresholds(design: dict[str, Any]) -> dict[str, Any]:
    return {"gate2": {"m_max": design["challengers"] + 2 * design["pairs"] + 8}}


def _counts(design: dict[str, Any]) -> Counts:
    """No challenger recovers, every control does; the truthful arm alone does, and both arms of the null pairs."""

    def ends(both: tuple[str, str], number: int) -> tuple[int, ...]:
        return tuple(number if ends == both else 0 for ends in PAIR_ENDS)

    return Counts(
        hits=0,
        failures=0,
        lost=0,
        misses=design["challengers"],
        controls=design["controls"],
        pairs=ends((HIT, MISS), design["pairs"]),
        null_pairs=ends((HIT, HIT), design["null_pairs"]),
    )


def _spread(worth: float, slot: int, units: int) -> tuple[float, ...]:
    """Scores that differ from unit to unit and from slot to slot, around what the artifact is worth."""
    swing = min(worth, 1 - worth) / 2
    return tuple(worth + swing * ((n * 7919 + slot * 104_729) % 1009 / 504 - 1) for n in range(1, units + 1))


if __name__ == "__main__":
    main()
