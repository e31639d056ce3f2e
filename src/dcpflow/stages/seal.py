"""Seals the task: public material, hidden and sealed files, and commitments to what nobody may see yet."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

from dcpflow.episodes.policies import HIDDEN_SCHEMA
from dcpflow.errors import UsageError
from dcpflow.records import canonical, files, plan, stagefile
from dcpflow.records import public as public_files
from dcpflow.records.draws import Nonce
from dcpflow.records.layout import Layout
from dcpflow.scoring.scorer import Artifact, score
from dcpflow.tasks import load_task
from dcpflow.tasks.base import Task

SEAL_SCHEMA = "dcpflow.seal/1"
SEALED_SCHEMA = "dcpflow.sealed/1"
PROBED_INSTANCE = "null-sensitivity"


def seal_task(
    results: Path, task_config: dict[str, Any], nonce_file: Path, limits: dict[str, int], data_file: Path | None
) -> None:
    """Make the task's public material and seal the rest.

    Args:
        results: the results folder.
        task_config: the configured ``task`` section.
        nonce_file: the sealed nonce.
        limits: the registered limits, for the scorer.
        data_file: file of the task's data set, where it reads one that is not in the download cache.

    Raises:
        UsageError: the task cannot tell a solution from the baseline, so that no null study on it means anything.
    """
    layout, nonce, task = Layout(results), Nonce.read(nonce_file), load_task(task_config, data_file)
    public = task.public_material()
    public_files.write(layout, public)
    hidden = hidden_of(task, nonce, plan.MAIN)
    _require_sensitivity(task, nonce, public, limits)
    files.private_folder(layout.hidden.parent)
    for folder, schema, material in (
        (layout.hidden, HIDDEN_SCHEMA, hidden),
        (layout.sealed, SEALED_SCHEMA, to_score_with(task, nonce)),
    ):
        files.private_folder(folder)
        stagefile.write(folder / f"{plan.MAIN}.json", schema, material, mode=0o600)
    stagefile.write(layout.seal, SEAL_SCHEMA, commitments(task, nonce, public))


def read_nonce(path: Path) -> Nonce:
    """The nonce of a file.

    Raises:
        UsageError: it cannot be read, others can read a secret one, or the digits are wrong.
    """
    return Nonce.read(path)


def new_nonce(path: Path) -> None:
    """Write a random nonce that only its owner can read.

    Raises:
        UsageError: the file exists.
    """
    if not files.write_once(path, f"{secrets.token_hex(32)}\n".encode(), mode=0o600):
        raise UsageError(f"{path} exists", "A nonce in use must not be replaced: give another name")


def commitments(task: Task, nonce: Nonce, public: dict[str, bytes]) -> dict[str, Any]:
    """Digests of what is public and commitments to what is not; part of the contract."""
    hidden, sealed = hidden_of(task, nonce, plan.MAIN), to_score_with(task, nonce)
    return {
        "public": {name: canonical.digest(data) for name, data in sorted(public.items())},
        "background": canonical.digest(task.background().encode()),
        "units": list(task.unit_ids()),
        "engine": task.engine_identity(),
        "nonce_commitment": nonce.commit("nonce", nonce.secret),
        "hidden_commitment": nonce.commit("hidden", canonical.encode(hidden)),
        "sealed_commitment": nonce.commit("sealed", canonical.encode(sealed)),
        "public_demonstration": nonce.public,
    }


def hidden_of(task: Task, nonce: Nonce, instance: str) -> dict[str, Any]:
    """The hidden state of one instance, from the nonce alone."""
    return task.hidden(nonce.derive("hidden", instance))


def sealed_of(task: Task, nonce: Nonce) -> dict[str, Any]:
    """The sealed units, from the nonce alone; one and the same workload for every instance."""
    return task.sealed(nonce.derive("sealed"))


def to_score_with(task: Task, nonce: Nonce) -> dict[str, Any]:
    """What scoring jobs open: the sealed units, and the hidden state of the audited instance to weigh them with."""
    return {"units": sealed_of(task, nonce), "hidden": hidden_of(task, nonce, plan.MAIN)}


def _require_sensitivity(task: Task, nonce: Nonce, public: dict[str, bytes], limits: dict[str, int]) -> None:
    hidden = hidden_of(task, nonce, PROBED_INSTANCE)
    seed = nonce.derive("presentation", PROBED_INSTANCE)
    presentation = task.presentation(seed)
    texts = (task.baseline(presentation), task.known_solution(presentation, hidden))
    artifacts = [
        Artifact(canonical.digest(text.encode()), text.encode(), seed.hex(), PROBED_INSTANCE) for text in texts
    ]
    engine, sealed = task.open(public), sealed_of(task, nonce)
    engine.warm(sealed)
    found = score(
        task,
        engine,
        sealed,
        {PROBED_INSTANCE: hidden},
        artifacts,
        limits["experiment_seconds"],
        limits["memory_mb"],
    )
    if any(answer.validity != "valid" for answer in found):
        raise UsageError(f"task {task.name}: its own baseline or known solution is invalid ({found})")
    baseline, solution = (sum(answer.units.values()) for answer in found)
    if baseline >= solution:
        raise UsageError(
            f"task {task.name}: on its null task the baseline scores as well as the known solution "
            f"({baseline} against {solution}), so a null study on it could not show anything",
            "Change the task's settings",
        )
