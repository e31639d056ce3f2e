"""What the workflow needs to know of a configuration: pure functions, so that every rule can be tested without it."""

from __future__ import annotations

import math
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, Final

from dcpflow.agents.launch import agent_sources
from dcpflow.episodes import site
from dcpflow.protocol.config import Config, load
from dcpflow.records import canonical, plan, receipts, sources
from dcpflow.records.registration import CONTRACT_PARTS
from dcpflow.report import templates
from dcpflow.stages import spending
from dcpflow.tasks import load_task, task_sources

OF_RECORDS: Final = frozenset({"all", "freeze_contract", "register", "costs", "decide", "report"})
"""Rules that do not open the task."""
PASSED_ON: Final = frozenset(
    {"PATH", "LD_LIBRARY_PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "LANG", "LANGUAGE"}
)
"""What a job needs of the environment of whoever submits it, to find programs, files and its language."""
OF_SCHEDULERS: Final = ("SLURM_", "SBATCH_", "KUBE", "CONDOR_", "_CONDOR_", "LC_", "PYTHON", "SSL_CERT_")
"""With what the names of variables begin that say where a scheduler is and how it is asked, or are harmless."""
HARNESS_MB: Final = 500
"""Memory of a job besides its agent: snakemake, the harness and the evaluator."""
HARNESS_MINUTES: Final = 10
"""Time of a job besides its agents' wall limits: starts, probes, evaluations."""


@dataclass(frozen=True)
class Workflow:
    """One audit as its rules see it.

    Attributes:
        config: the validated configuration.
    """

    config: Config

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> Workflow:
        """Validate what the configuration files and the command line gave.

        Raises:
            ConfigError: with every problem, one a line.
        """
        return cls(load(mapping))

    @property
    def results(self) -> str:
        """The results folder."""
        return self.config.execution.results

    @property
    def logs(self) -> str:
        """The folder of this audit's log files."""
        return str(PurePosixPath("logs", self.results.lstrip("/")))

    @property
    def data_file(self) -> Path | None:
        """The file of the task's data set, where the configuration names one."""
        name = self.config.task.data_file
        return Path(name) if name else None

    @cached_property
    def parts(self) -> dict[str, dict[str, Any]]:
        """The registered sections as plain JSON."""
        return self.config.parts()

    @property
    def has_gate3(self) -> bool:
        """Whether the registered grade asks for the feedback experiment."""
        return self.config.claim.grade == "evidence"

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages that this audit runs."""
        return tuple(stage for phase in self.phases for stage in plan.PHASES[phase])

    @property
    def phases(self) -> tuple[str, ...]:
        """The phases that are scored."""
        return tuple(phase for phase in plan.PHASES if phase != "pairs" or self.has_gate3)

    def folder(self, stage: str) -> str:
        """Where a stage's receipts lie."""
        stratum = f"/{self.config.design.stratum}" if stage == "challengers" else ""
        return f"{self.results}/{stage}{stratum}"

    def count(self, stage: str) -> int:
        """How many slots of the stage are registered."""
        return plan.slots(stage, self.parts["design"])

    def batch_size(self, stage: str) -> int:
        """Slots in one job: a pair is two episodes, and a replacement is a job of its own."""
        if plan.STAGES[stage].replaces:
            return 1
        return max(1, self.config.execution.episodes_per_job // len(plan.STAGES[stage].arms))

    def receipts(self, stage: str) -> list[str]:
        """The receipts of a stage."""
        count, size = self.count(stage), self.batch_size(stage)
        return [
            f"{self.folder(stage)}/{receipts.file_name(first, min(first + size - 1, count))}"
            for first in range(1, count + 1, size)
        ]

    def phase_receipts(self, phase: str) -> list[str]:
        """The receipts of all stages that are scored together."""
        return [path for stage in plan.PHASES[phase] for path in self.receipts(stage)]

    @property
    def packet(self) -> list[str]:
        """The file that names the Web packet; none where the Web is not offered."""
        return [f"{self.results}/target/packet.json"] if "web" in self.parts["information"] else []

    @property
    def all_receipts(self) -> list[str]:
        """Every receipt of the audit."""
        return [path for phase in self.phases for path in self.phase_receipts(phase)]

    @property
    def score_files(self) -> list[str]:
        """The score file of every phase."""
        return [f"{self.results}/scores/{phase}.json" for phase in self.phases]

    @staticmethod
    def first(batch: str) -> int:
        """First slot of a batch, from its file name."""
        return int(batch.partition("-")[0])

    @staticmethod
    def last(batch: str) -> int:
        """Last slot of a batch."""
        return int(batch.partition("-")[2])

    def section(self, name: str) -> str:
        """A registered section as canonical JSON: equal whatever the file's layout, comments and key order."""
        return canonical.encode(self.parts[name]).decode()

    @property
    def contract(self) -> str:
        """The contract's sections as canonical JSON."""
        return canonical.encode({name: self.parts[name] for name in CONTRACT_PARTS}).decode()

    @property
    def job_arguments(self) -> list[str]:
        """What each job is told besides its own task."""
        execution = self.config.execution
        arguments = ["--results", execution.results, "--nonce-file", execution.nonce_file]
        if execution.public_randomness:
            arguments += ["--public-randomness", execution.public_randomness]
        if self.data_file:
            arguments += ["--data-file", str(self.data_file)]
        return arguments

    def require_task(self) -> None:
        """Open the task as the first job will, so that what it lacks is told before any job has started.

        Raises:
            UsageError: there is no such task, it refuses its settings, or a library or its data are missing.
        """
        load_task(self.parts["task"], self.data_file).engine_identity()

    @property
    def api(self) -> int:
        """What an episode's job takes of the resource ``api``: 1 where its agent asks a model, else nothing."""
        return int(self.config.agent.model is not None)

    @property
    def memory_mb(self) -> int:
        """What an episode's job may take of memory: its agent as much as is registered."""
        return HARNESS_MB + self.config.limits.memory_mb

    def minutes(self, stage: str) -> int:
        """How long a job of the stage may take, if each of its agents takes as long as is registered."""
        episodes = self.batch_size(stage) * len(plan.STAGES[stage].arms)
        return HARNESS_MINUTES + math.ceil(episodes * self.config.limits.wall_seconds / 60)

    def kept_from_jobs(self, environment: Collection[str]) -> list[str]:
        """Variables that no job on a cluster is given: all but the few that it needs, and the model's key.

        Args:
            environment: names of all variables.
        """
        model = self.config.agent.model
        needed = PASSED_ON | ({model.key_variable} if model else set())
        return sorted(name for name in environment if name not in needed and not name.startswith(OF_SCHEDULERS))

    @property
    def costs(self) -> list[str]:
        """The table of what the model has cost; none where the agent asks no model."""
        return [f"{self.results}/costs.parquet"] if self.api else []

    @property
    def prices(self) -> str:
        """What a million tokens cost, as canonical JSON."""
        budget = self.config.budget.model_dump(mode="json")
        return canonical.encode({name: value for name, value in budget.items() if not name.startswith("max")}).decode()

    def require_for(self, rules: Collection[str]) -> None:
        """See that what jobs will need is there, so that it is told before any of them has started.

        To decide again takes neither: what has been recorded is enough.

        Args:
            rules: those of which jobs will run.

        Raises:
            UsageError: something of the task is missing, or the API key.
        """
        if not OF_RECORDS.issuperset(rules):
            self.require_task()
        if any(rule.startswith(("run_", "replace_")) for rule in rules):
            spending.require_key(self.config)

    def tell_jobs(self, at_once: int) -> None:
        """Write down what they may spend.

        Args:
            at_once: jobs that may ask a model at the same time.
        """
        spending.write(Path(self.results), self.config, at_once)

    @staticmethod
    def shell(words: Sequence[str]) -> str:
        """Words quoted for the shell, and for Snakemake, which formats braces."""
        return shlex.join(words).replace("{", "{{").replace("}", "}}")

    @property
    def registered_sources(self) -> str:
        """Digest of the source of task and agent and of the own site's pages, all registered: an edit makes another
        contract."""
        agent = agent_sources(self.parts["agent"])
        pages = site.sources(self.parts["information"].get("web"))
        served = {"site": pages} if pages else {}
        return canonical.digest_of({"task": task_sources(self.parts["task"]), "agent": agent, **served})

    @property
    def page(self) -> str:
        """Digest of the report's templates, which no import leads to."""
        return templates.digest()

    @staticmethod
    def code(module: str) -> str:
        """Digest of a library module and all that it imports, for the rules whose results rest on it."""
        return sources.source_digest(f"dcpflow.{module}")
