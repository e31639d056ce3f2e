"""Score files: what the sealed scorer found for each artifact of one phase.

The units of an artifact are a list, in the order in which the registration names them. There can be hundreds of them to
each of thousands of artifacts, so that no step of Python is taken for a unit.
"""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from dcpflow.errors import EvidenceError
from dcpflow.records import stagefile

SCHEMA: Final = "dcpflow.scores/2"
_NUMBERS: Final = frozenset({float, int})


@dataclass(frozen=True)
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
        units: score in [0, 1] of each sealed unit, in registered order; empty for an invalid artifact.
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
    units: tuple[float, ...]
    position: int

    @cached_property
    def mean(self) -> float:
        """Mean over the sealed units, of which a valid artifact has at least one."""
        return math.fsum(self.units) / len(self.units)


Phase = tuple[dict[str, str], list[ScoreRow], str]
"""Of a phase, digests of the records that it was scored from, its rows, and the digest of its file."""
_FIELDS: Final = tuple(field.name for field in fields(ScoreRow))
_UNITS: Final = _FIELDS.index("units")
_LENGTH: Final = 8


def write(path: Path, contract: str, inputs: dict[str, str], rows: list[ScoreRow]) -> None:
    """Write the scores of a phase.

    Args:
        path: the file.
        contract: C.
        inputs: digest of each committed record of the phase, by episode: what had to stand before scoring.
        rows: the scores.
    """
    plain = [{name: getattr(row, name) for name in _FIELDS} for row in rows]
    stagefile.write(path, SCHEMA, {"contract": contract, "inputs": inputs, "rows": plain})


def read(path: Path, contract: str, units: Sequence[str]) -> Phase:
    """The phase's inputs, its rows and the file's digest.

    Args:
        path: the file.
        contract: C.
        units: the registered sealed units.

    Raises:
        EvidenceError: it is missing, altered, or of another contract, or an artifact's units are not as registered.
    """
    remedy = f"To score again: rm -f '{path}' and run snakemake again"
    body, digest = stagefile.read(path, SCHEMA, "the scores", remedy, contract=contract)
    rows: list[dict[str, Any]] = body["rows"]
    for number, row in enumerate(rows):
        wanted = len(units) if row["validity"] == "valid" else 0
        if wrong := why_no_units(row["units"], wanted):
            raise EvidenceError(f"{path}: the units of row {number} {wrong}", remedy)
    return body["inputs"], [ScoreRow(**row | {"units": _numbers(row["units"])}) for row in rows], digest


def to_bytes(phases: Mapping[str, Phase]) -> bytes:
    """What was read of some phases, to be handed to another process: numbers in their own form, all else as JSON."""
    numbers, plain = array("d"), {}
    for phase, (inputs, rows, digest) in phases.items():
        told = []
        for row in rows:
            values = [getattr(row, name) for name in _FIELDS]
            values[_UNITS] = len(row.units)
            numbers.extend(row.units)
            told.append(values)
        plain[phase] = [inputs, told, digest]
    head = json.dumps(plain).encode()
    return len(head).to_bytes(_LENGTH) + head + numbers.tobytes()


def from_bytes(data: bytes) -> dict[str, Phase]:
    """What to_bytes was given."""
    end = _LENGTH + int.from_bytes(data[:_LENGTH])
    numbers, first, found = array("d", data[end:]), 0, {}
    for phase, (inputs, told, digest) in json.loads(data[_LENGTH:end]).items():
        rows = []
        for values in told:
            last = first + values[_UNITS]
            values[_UNITS] = tuple(numbers[first:last])
            rows.append(ScoreRow(*values))
            first = last
        found[phase] = (inputs, rows, digest)
    return found


def why_no_units(value: object, wanted: int | None = None) -> str:
    """Why a value is no list of scores in [0, 1]; empty where it is one.

    Args:
        value: anything that JSON can hold, so that no number is NaN.
        wanted: how many scores it has to hold; any number where that is not said.
    """
    if not isinstance(value, list):
        return "are no list"
    if wanted is not None and len(value) != wanted:
        return f"are {len(value)} numbers, where {wanted} were expected"
    if not _NUMBERS.issuperset(map(type, value)):
        return "are not numbers alone"
    if value and not (min(value) >= 0 and max(value) <= 1):
        return "do not all lie in [0, 1]"
    return ""


def _numbers(units: list[float]) -> tuple[float, ...]:
    """As floats: canonical JSON writes 0 and 1 without a point."""
    return tuple(map(float, units))
