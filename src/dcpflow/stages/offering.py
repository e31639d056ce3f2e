"""The two sides of an audit: the auditor seals and offers, the claimant accepts and runs without the nonce."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dcpflow.episodes.arms import decoy, instance_hidden
from dcpflow.errors import UsageError
from dcpflow.records import canonical, files, history, offer, plan, registration, stagefile
from dcpflow.records import public as public_files
from dcpflow.records.draws import Draws, Nonce, Telling
from dcpflow.records.layout import Layout
from dcpflow.records.offer import Offer
from dcpflow.records.packet import Packet
from dcpflow.stages import registering, seal
from dcpflow.stages.laboratory import Job
from dcpflow.tasks import load_task
from dcpflow.tasks.base import Task

if TYPE_CHECKING:
    from dcpflow.stages.workflow import Workflow

NONCE: Final = "nonce"
ASKED: Final = "asked"
REVEALED: Final = "revealed"
"""Of the sealed folder: the nonce, the list of answered experiments, and the mark that the nonce is no secret."""


@dataclass(frozen=True, slots=True)
class Offered:
    """What an auditor has offered.

    Attributes:
        contract: C.
        registration: R.
        values: how many values of the nonce.
    """

    contract: str
    registration: str
    values: int


# --- the auditor's side ------------------------------------------------------------------------------------


def seal_and_offer(audit: Workflow, sealed: Path, folder: Path, nonce_file: Path | None = None) -> Offered:
    """Seal an audit for a claimant to run.

    The sealed folder is a results folder of the auditor's own, as far as the registration: with the nonce, and later
    with the list of experiments that were answered. Sealing once more, after an edit of counts or thresholds, adds an
    amendment to its history; the contract stays.

    Args:
        audit: the configured audit.
        sealed: the folder of what is sealed, which is made with mode 0700.
        folder: the folder of the offer.
        nonce_file: the nonce; by default a new one, or the one that is in the sealed folder.

    Raises:
        UsageError: the audit looks at scores before its last episode, or back at a result that is there already, the
            sealed folder is another audit's, or what is secret would lie in what the claimant is given.
    """
    if audit.config.claim.is_retrospective:
        raise UsageError(
            "a retrospective audit has no run of a target that an auditor could answer, its artifact is there already",
            "Let the auditor run all of it alone",
        )
    if audit.looks:
        raise UsageError(
            "later looks start on the scores of earlier ones, which the auditor's side alone can make",
            "Register one look (design.gate2_looks and design.pair_looks), or audit on one side",
        )
    for place in (sealed, folder):
        files.require_folder(place)
    _require_apart(folder, sealed, *([nonce_file] if nonce_file else []))
    require_secret(sealed)
    nonce = _nonce_of(files.private_folder(sealed) / NONCE, nonce_file)
    own, task = sealed / NONCE, load_task(json.loads(audit.section("task")), audit.data_file)
    config = {
        name: json.loads(audit.section(name)) for name in (*registration.CONTRACT_PARTS, *registration.PLAN_PARTS)
    }
    contract = registering.contract_parts(config, seal.commitments(task, nonce, task.public_material()))
    layout = Layout(sealed)
    if past := history.entries(layout):
        _require_same_contract(sealed, past[-1].parts, contract)
        if not (sealed / ASKED).exists():
            # nothing has begun that this would be an amendment of
            shutil.rmtree(layout.history)
    seal.seal_task(sealed, config["task"], own, config["limits"], audit.data_file)
    registering.freeze_contract(sealed, config)
    registering.register(sealed, config["design"], config["thresholds"], json.loads(audit.registered_strata))
    registered = registration.read_registration(layout.registration)
    randomness = audit.config.execution.public_randomness or ""
    made = Offer(registered.parts, randomness, _values(nonce, task, registered, audit.stages, randomness))
    offer.write(sealed, made)
    offer.write(folder, made)
    return Offered(registered.contract, registered.digest, len(made.values))


def _require_apart(given: Path, *secrets: Path) -> None:
    """See that nothing secret lies in the folder that the claimant is given, nor that folder in what is secret."""
    folder = given.resolve()
    for secret in secrets:
        place = secret.resolve()
        if place.is_relative_to(folder) or folder.is_relative_to(place):
            raise UsageError(
                f"{secret} is secret, and {given} is given to the claimant: neither may lie in the other",
                "Give folders beside each other",
            )


def require_secret(sealed: Path) -> None:
    """Stop where the nonce of a sealed folder was revealed.

    Raises:
        UsageError: it was.
    """
    if (sealed / REVEALED).exists():
        raise UsageError(f"what is sealed in {sealed} was revealed with its scores", "Seal in a folder of its own")


def _nonce_of(own: Path, given: Path | None) -> Nonce:
    """The nonce of a sealed folder: the one that is there, else the given one, else a new one."""
    if given is not None:
        nonce = Nonce.read(given)
        if not files.write_once(own, given.read_bytes(), mode=0o600) and Nonce.read(own) != nonce:
            raise UsageError(f"{own.parent} is sealed with another nonce than {given}", "Give another sealed folder")
    elif not own.exists():
        seal.new_nonce(own)
    return Nonce.read(own)


def _require_same_contract(sealed: Path, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    before = {name: old[name] for name in registration.CONTRACT_PARTS}
    if differing := [change["key"] for change in history.changes(before, dict(new))]:
        raise UsageError(
            f"{sealed} is sealed for another contract: {', '.join(differing)}",
            "Seal this one in a folder of its own, with a new nonce",
        )


def _values(
    nonce: Nonce, task: Task, registered: registration.Registered, stages: tuple[str, ...], randomness: str
) -> dict[str, str]:
    """What the runs of all registered slots draw, found by drawing it."""
    telling = Telling(nonce)
    contracts = [(registered, stages)]
    contracts += [(registration.of_stratum(registered, name), (plan.CHALLENGERS,)) for name in registered.strata]
    for own, wanted in contracts:
        draws = Draws(telling, own.contract, randomness)
        for stage in wanted:
            for slot in range(1, plan.slots(stage, own.config("design")) + 1):
                plan.draw(draws, stage, slot)
                plan.to_quote(draws, stage, slot, Packet())
                for key in plan.keys(stage, slot) if plan.STAGES[stage].own_instance else ():
                    decoy(task, draws, key) if key.arm == "misleading" else instance_hidden(task, draws, key)
    return dict(sorted(telling.told.items()))


def job_of(sealed: Path, data_file: Path | None, results: Path | None = None) -> Job:
    """A job of the auditor's, on the sealed folder or on results that were made for it.

    Raises:
        UsageError: it is no sealed folder, or it cannot be read.
    """
    return Job(results or sealed, sealed / NONCE, offer.read(sealed).public_randomness, data_file)


# --- the claimant's side -----------------------------------------------------------------------------------


def accept(results: Path, folder: Path, task_config: dict[str, Any], data_file: Path | None) -> None:
    """Take over the seal of an offer, in place of sealing the task.

    Args:
        results: the results folder.
        folder: of the offer.
        task_config: the configured ``task`` section.
        data_file: as for a job.

    Raises:
        UsageError: the task here is not the one that was sealed.
    """
    layout, task, found = Layout(results), load_task(task_config, data_file), offer.read(folder).seal
    public = task.public_material()
    here = {
        "public": {name: canonical.digest(data) for name, data in sorted(public.items())},
        "background": canonical.digest(task.background().encode()),
        "units": list(task.unit_ids()),
        "engine": task.engine_identity(),
    }
    if differing := [name for name, value in here.items() if found.get(name) != value]:
        raise UsageError(
            f"the task {task.name} is not the one that the auditor has sealed: other {', '.join(differing)}",
            "Use the auditor's configuration, version of dcpflow and data",
        )
    public_files.write(layout, public)
    stagefile.write(layout.seal, seal.SEAL_SCHEMA, found)
