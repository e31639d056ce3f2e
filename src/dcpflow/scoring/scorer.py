"""The sealed scorer. It opens the sealed units, and it never learns whose artifact it scores."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dcpflow.errors import EvidenceError
from dcpflow.tasks.base import CandidateInvalid, Engine, Task
from dcpflow.tasks.evaluator import Evaluator, EvaluatorDied


@dataclass(frozen=True, slots=True)
class Artifact:
    """What the scorer is given of an artifact: nothing about stage, arm or slot.

    Attributes:
        digest: of its bytes.
        data: its bytes.
        presentation: hex seed of the presentation that it is written in.
        instance: name of the instance that it answers.
    """

    digest: str
    data: bytes
    presentation: str
    instance: str


@dataclass(frozen=True, slots=True)
class Score:
    """The scorer's answer.

    Attributes:
        validity: ``valid`` or ``invalid``.
        reason: why it is invalid; empty for a valid one.
        units: score in [0, 1] of each sealed unit; empty for an invalid one.
    """

    validity: str
    reason: str
    units: dict[str, float]


def score(
    task: Task,
    engine: Engine,
    sealed: dict[str, Any],
    hidden: dict[str, dict[str, Any]],
    artifacts: Sequence[Artifact],
    seconds: float,
    memory_mb: int,
    workers: int = 1,
) -> list[Score]:
    """Score artifacts in the given order, each in a fresh child process.

    Args:
        task: the task.
        engine: its engine, opened.
        sealed: the sealed units.
        hidden: hidden state of each instance, by its name.
        artifacts: in the order in which to score; it is random and says nothing about arms.
        seconds: wall and CPU time for one artifact.
        memory_mb: memory for one artifact.
        workers: how many are scored at a time; it changes no score.

    Raises:
        EvidenceError: the task returned something that is no score: a fault of the task, not of the artifact.
    """

    def begun(artifact: Artifact) -> Evaluator:
        presentation, state = task.presentation(bytes.fromhex(artifact.presentation)), hidden[artifact.instance]
        evaluator = Evaluator(
            lambda: lambda request: engine.score(presentation, str(request["candidate"]), state, sealed),
            seconds,
            memory_mb,
        )
        evaluator.send({"candidate": artifact.data.decode("utf-8")})
        return evaluator

    found: list[Score] = []
    running: deque[Evaluator] = deque()
    try:
        for artifact in artifacts:
            if len(running) == workers:
                found.append(_finished(task, running.popleft()))
            running.append(begun(artifact))
        while running:
            found.append(_finished(task, running.popleft()))
    finally:
        for evaluator in running:
            evaluator.close()
    return found


def _finished(task: Task, scoring: Evaluator) -> Score:
    with scoring as evaluator:
        try:
            units = evaluator.answer()
        except CandidateInvalid as error:
            return Score("invalid", str(error), {})
        except EvaluatorDied as error:
            return Score("invalid", f"it could not be scored: {error}", {})
    if list(units) != list(task.unit_ids()):
        raise EvidenceError(f"the task {task.name} scored the units {list(units)}, not {list(task.unit_ids())}")
    for name, value in units.items():
        if not isinstance(value, (int, float)) or not 0.0 <= value <= 1.0:
            raise EvidenceError(f"the task {task.name} gave the unit {name} the score {value!r} (expected [0, 1])")
    return Score("valid", "", {name: float(value) for name, value in units.items()})
