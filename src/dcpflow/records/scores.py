"""Score files: what the sealed scorer found for each artifact of one phase."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dcpflow.records import stagefile

SCHEMA = "dcpflow.scores/1"


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """One scored artifact.

    Attributes:
        role: ``candidate`` for an episode's artifact; ``baseline`` or ``known_solution`` for one of the task's own;
            ``claimed`` for that of a retrospective audit, which no episode has committed.
        stage: stage of the episode, or of the instance's slot.
        slot: slot of the episode, or of the instance.
        arm: arm of the episode; empty where there is none.
        number: which of the episode's candidates, from 1.
        record: digest of the episode's record; empty where there is none.
        artifact: digest of the artifact's bytes.
        instance: hidden state that it was scored against.
        validity: ``valid`` or ``invalid``.
        reason: why it is invalid.
        units: score in [0, 1] of each sealed unit.
        position: place in the random order of scoring, from 1.
    """

    role: str
    stage: str
    slot: int
    arm: str
    number: int
    record: str
    artifact: str
    instance: str
    validity: str
    reason: str
    units: dict[str, float]
    position: int


def write(path: Path, contract: str, inputs: dict[str, str], rows: list[ScoreRow]) -> None:
    """Write the scores of a phase.

    Args:
        path: the file.
        contract: C.
        inputs: digest of each committed record of the phase, by episode: what had to stand before scoring.
        rows: the scores.
    """
    stagefile.write(path, SCHEMA, {"contract": contract, "inputs": inputs, "rows": [asdict(row) for row in rows]})


def read(path: Path, contract: str) -> tuple[dict[str, str], list[ScoreRow], str]:
    """The phase's inputs, its rows and the file's digest.

    Raises:
        EvidenceError: it is missing, altered, or of another contract.
    """
    body, digest = stagefile.read(path, SCHEMA, "the scores", contract=contract)
    rows: list[dict[str, Any]] = body["rows"]
    return body["inputs"], [ScoreRow(**row) for row in rows], digest
