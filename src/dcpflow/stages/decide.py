"""Decides the audit from the evidence alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from dcpflow.evidence import folder
from dcpflow.records import registration
from dcpflow.records.layout import Layout
from dcpflow.stages import registry


def decide(results: Path, receipts: Sequence[Path], scores: Mapping[str, Path], noted_in: str = registry.OFF) -> None:
    """Write ``decision.json`` and the table of checks, and note the decision in the registry, a folder or address."""
    layout = Layout(results)
    decided = folder.decide(layout, receipts, scores)
    folder.write_decision(layout, decided, registration.read_registration(layout.registration).digest)
    registry.note_decision(layout, noted_in)
