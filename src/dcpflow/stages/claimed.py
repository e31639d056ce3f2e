"""The artifact that a retrospective audit is about, which is there before the audit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dcpflow.errors import UsageError
from dcpflow.records import canonical, plan
from dcpflow.scoring.scorer import Artifact, score
from dcpflow.tasks.base import Task

REMEDY = "Give the file that holds the artifact alone as claim.retrospective.artifact_file"


def read_artifact(path: Path, most: int) -> bytes:
    """The claimed artifact, such that an episode could have committed it.

    Args:
        path: its file.
        most: bytes that a candidate may have.

    Raises:
        UsageError: it cannot be read, is no text, or is larger.
    """
    try:
        data = path.read_bytes()
        data.decode()
    except OSError as error:
        raise UsageError(f"the claimed artifact {path} cannot be read: {error.strerror}", REMEDY) from None
    except UnicodeDecodeError:
        raise UsageError(f"the claimed artifact {path} is no text in UTF-8", REMEDY) from None
    if len(data) > most:
        problem = f"the claimed artifact {path} has {len(data)} bytes, and limits.candidate_bytes is {most}"
        raise UsageError(problem, "Raise that limit, or give the artifact alone")
    return data


def require_valid(task: Task, data: bytes, presentation: str, limits: Mapping[str, float]) -> None:
    """See that the task accepts the artifact, without a look at its score.

    Validity follows from the artifact, its presentation and the public material alone, so that it is tried on hidden
    and sealed values that are nobody's.

    Args:
        task: the task.
        data: the artifact.
        presentation: hex seed of the presentation that it is written in.
        limits: the registered limits, for the scorer.

    Raises:
        UsageError: it does not.
    """
    nobodys = bytes(32)
    engine, artifact = (
        task.open(task.public_material()),
        Artifact(canonical.digest(data), data, presentation, plan.MAIN),
    )
    hidden = {plan.MAIN: task.hidden(nobodys)}
    (found,) = score(
        *(task, engine, task.sealed(nobodys), hidden, [artifact]),
        limits["experiment_seconds"],
        int(limits["memory_mb"]),
    )
    if found.validity != "valid":
        raise UsageError(
            f"the claimed artifact is invalid: {found.reason}",
            "It has to be written in the names and orders that the task's presentation() gives for the seed in "
            "claim.retrospective.presentation: for an artifact that an episode committed, that episode's",
        )
