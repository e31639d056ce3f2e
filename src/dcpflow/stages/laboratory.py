"""Opens the laboratory of one job: contract, task, agent, sandbox with its probe."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from dcpflow.agents import launch_spec
from dcpflow.agents.launch import agent_sources
from dcpflow.episodes.arms import Bench
from dcpflow.episodes.episode import NO_PACKET, Laboratory
from dcpflow.episodes.probe import SPEC, passed, probe
from dcpflow.episodes.sandbox import Isolation, open_isolation, refuse_mounted
from dcpflow.episodes.session import Api
from dcpflow.errors import UsageError
from dcpflow.records import canonical, offer, registration
from dcpflow.records.draws import Draws, Nonce
from dcpflow.records.episodes import EpisodeStore
from dcpflow.records.layout import Layout
from dcpflow.records.objects import ObjectStore
from dcpflow.records.packet import Packet
from dcpflow.stages import spending
from dcpflow.tasks import load_task
from dcpflow.tasks.base import Task


@dataclass(frozen=True)
class Job:
    """What a job is told on its command line.

    Attributes:
        results: the results folder.
        nonce_file: the sealed nonce; None where an auditor holds it.
        public_randomness: given after registration, or empty.
        data_file: file of the task's data set, where it reads one that is not in the download cache.
        history: prefix of the target run from which branches continue.
        packet: what the target run has seen of the Web.
        stratum: whose episodes it is about, beside the challengers that decide; empty for all others.
        offer: the folder of what the auditor has offered instead; None where the nonce is here.
    """

    results: Path
    nonce_file: Path | None
    public_randomness: str
    data_file: Path | None = None
    history: tuple[dict[str, Any], ...] = ()
    packet: Packet = NO_PACKET
    stratum: str = ""
    offer: Path | None = None

    def of(self, stratum: str) -> Job:
        """The same job about a stratum's episodes, which have a contract of their own."""
        return replace(self, stratum=stratum)

    @property
    def main(self) -> Job:
        """The same job about the audit itself: its target run, its sealed material."""
        return replace(self, stratum="") if self.stratum else self

    @cached_property
    def layout(self) -> Layout:
        """Paths."""
        return Layout(self.results)

    @cached_property
    def contract(self) -> registration.Registered:
        """The frozen contract; of a stratum its own, as it was registered."""
        if self.stratum:
            own = registration.of_stratum(self.registration, self.stratum)
            return replace(own, digest=own.contract)
        return registration.read_contract(self.layout.registration)

    @cached_property
    def registration(self) -> registration.Registered:
        """The registration as it stands at the job's start."""
        return registration.read_registration(self.layout.registration)

    @property
    def nonce(self) -> Nonce:
        """The sealed nonce.

        Raises:
            UsageError: it cannot be read, or an auditor holds it.
        """
        if self.nonce_file is None:
            raise UsageError("the auditor holds the nonce", "What needs it is the auditor's to do: dcpflow score-for")
        return Nonce.read(self.nonce_file)

    @cached_property
    def draws(self) -> Draws:
        """The audit's draws."""
        if self.offer is not None:
            return offer.read(self.offer).draws(self.contract.digest)
        return Draws(self.nonce, self.contract.digest, self.public_randomness)

    @cached_property
    def store(self) -> EpisodeStore:
        """The contract's episode store."""
        return EpisodeStore(self.layout.store, self.contract.digest)

    @cached_property
    def task(self) -> Task:
        """The contract's task, with the libraries and data that it was sealed with.

        Raises:
            UsageError: they are others here, so that results could not be compared.
        """
        task = load_task(self.contract.config("task"), self.data_file)
        registered, here = self.contract.parts["task"]["seal"]["engine"], task.engine_identity()
        if differing := sorted(key for key in registered.keys() | here if registered.get(key) != here.get(key)):
            told = "; ".join(
                f"{key}: {here.get(key, 'none')}, registered {registered.get(key, 'none')}" for key in differing
            )
            raise UsageError(
                f"the results of the task {task.name} depend on what is different here: {told}",
                "Install the registered versions, or give the registered data (task.data_file)",
            )
        return task

    @cached_property
    def spending(self) -> spending.Spending:
        """What this run may spend on a model."""
        return spending.read(self.results, self.stratum)

    @cached_property
    def bench(self) -> Bench:
        """The task as the episodes' channels need it."""
        return Bench(self.layout, self.contract, self.task, self.draws, self.offer)

    @cached_property
    def laboratory(self) -> Laboratory:
        """The laboratory; opened, and its sandbox probed, by the first episode that has to run."""
        agent = self.contract.config("agent")
        if agent_sources(agent) != self.contract.parts["agent"]["sources"]:
            raise UsageError(
                f"the agent {agent['name']} is not the one that was registered: its source is another",
                "Run snakemake from the start, which registers it as another audit, or restore its source",
            )
        spec = launch_spec(agent)
        limits = self.contract.config("limits")
        private = self.layout.hidden.parent
        found: list[dict[str, Any]] = []

        def works(isolation: Isolation) -> bool:
            found.append(probe(isolation, private, limits))
            return passed(found[-1])

        secret = self.offer or self.nonce_file
        refuse_mounted((self.results, secret) if secret else (self.results,), spec.files.values() if spec else ())
        specs = (spec, SPEC) if spec else (SPEC,)
        isolation = open_isolation(self.contract.config("isolation")["backend"], specs, works)
        report = found[-1] if found else probe(isolation, private, limits)
        return Laboratory(
            bench=self.bench,
            registration=self.registration.digest,
            spec=spec,
            isolation=isolation,
            probe=ObjectStore(self.layout.objects).put(canonical.encode(report)),
            history=list(self.history),
            packet=self.packet,
            api=self.spending.api() if agent.get("model") else Api(),
        )
