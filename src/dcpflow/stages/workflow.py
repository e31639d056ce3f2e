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
from dcpflow.errors import StorageError, storage_error
from dcpflow.protocol.config import Config, load
from dcpflow.records import canonical, files, offer, plan, receipts, snapshot, sources
from dcpflow.records.layout import Layout
from dcpflow.records.registration import CONTRACT_PARTS
from dcpflow.report import templates
from dcpflow.stages import registry, spending
from dcpflow.stages.claimed import read_artifact, require_valid
from dcpflow.tasks import load_task, task_sources

OF_RECORDS: Final = frozenset(
    {"all", "freeze_contract", "freeze_stratum", "register", "count_slots", "costs", "decide", "report"}
)
"""Rules that do not open the task."""
OF_STRATA: Final = "run_stratum"
"""The rule that runs the episodes of strata."""
PASSED_ON: Final = frozenset(
    {"PATH", "LD_LIBRARY_PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "LANG", "LANGUAGE"}
    # where downloaded data sets lie, and the tickets that some shared file systems ask for
    | {"XDG_CACHE_HOME", "KRB5CCNAME"}
    # where the helpers that kubectl asks for credentials keep theirs: files and names, never the secrets themselves
    | {"AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"}
    | {"CLOUDSDK_CONFIG", "GOOGLE_APPLICATION_CREDENTIALS", "AZURE_CONFIG_DIR"}
)
"""What a run on a cluster and its jobs need of the environment, to find programs, files and their language."""
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
    def registry(self) -> str:
        """Where the audit is noted: a folder or an address."""
        return self.config.execution.registry

    @property
    def registry_files(self) -> list[str]:
        """What is kept of the registry beside the registration; nothing where none is kept."""
        return [] if self.registry == registry.OFF else [str(snapshot.path(Layout(Path(self.results)).registration))]

    @property
    def is_offered(self) -> bool:
        """Whether an auditor holds what is sealed, so that the run ends when all is committed."""
        return self.config.execution.offer is not None

    @property
    def secret(self) -> str:
        """The file that draws come from: the nonce, or an auditor's offer."""
        execution = self.config.execution
        return execution.nonce_file if execution.offer is None else str(PurePosixPath(execution.offer, offer.FILE))

    @property
    def hidden(self) -> str:
        """The file that truthful feedback rests on: the hidden state, or an auditor's offer."""
        return self.secret if self.is_offered else str(Layout(Path(self.results)).hidden / f"{plan.MAIN}.json")

    @property
    def sealed(self) -> str:
        """The file of the sealed units, which only the side that holds the nonce has."""
        return str(Layout(Path(self.results)).sealed / f"{plan.MAIN}.json")

    @property
    def logs(self) -> str:
        """The folder of this audit's log files."""
        return str(PurePosixPath("logs", self.results.lstrip("/")))

    @property
    def data_file(self) -> Path | None:
        """The file of the task's data set, where the configuration names one."""
        name = self.config.task.data_file
        return Path(name) if name else None

    @property
    def artifact_file(self) -> Path | None:
        """The file with the claimed artifact of a retrospective audit."""
        found = self.config.claim.retrospective
        return Path(found.artifact_file) if found else None

    @property
    def artifact_option(self) -> str:
        """What the job that registers it is told of that file, for the shell; nothing in a prospective audit."""
        return " " + self.shell(["--artifact-file", str(self.artifact_file)]) if self.artifact_file else ""

    @cached_property
    def artifact(self) -> bytes | None:
        """The claimed artifact of a retrospective audit.

        Raises:
            UsageError: there is no such file, or it holds no artifact.
        """
        path = self.artifact_file
        return read_artifact(path, self.config.limits.candidate_bytes) if path else None

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
        return tuple(dict.fromkeys(stage for phase in self.phases for stage in self._phases[phase].stages))

    @property
    def phases(self) -> tuple[str, ...]:
        """The phases that are scored."""
        return tuple(name for name, phase in self._phases.items() if self.has_gate3 or not phase.of_gate3)

    @property
    def _phases(self) -> dict[str, plan.Phase]:
        return plan.phases(self.parts["design"], retrospective=self.config.claim.is_retrospective)

    @cached_property
    def strata(self) -> dict[str, Workflow]:
        """The strata beside the challengers that decide, by name: each as an audit with it in their place."""
        return {name: Workflow(self.config.of_stratum(name)) for name in self.config.strata}

    @property
    def policies(self) -> list[str]:
        """The stages of the neutral policies beside the one that decides, which are their phases too."""
        return [phase for phase in self.phases if phase in plan.POLICIES.values()]

    def folder(self, stage: str) -> str:
        """Where a stage's receipts lie."""
        return f"{self.results}/{plan.look_place(stage, self.parts['design'], 1)}"

    def count(self, stage: str) -> int:
        """How many slots of the stage are registered."""
        return plan.slots(stage, self.parts["design"])

    def counts(self, phase: str) -> str:
        """How many slots a phase or a stratum has, by its stages, as canonical JSON; of ``all`` by each."""
        strata = {plan.place("challengers", name): own for name, own in self.strata.items()}
        found = {name: self._counted(name) for name in self.phases}
        found |= {name: {"challengers": own.count("challengers")} for name, own in strata.items()}
        return canonical.encode(found if phase == "all" else found[phase]).decode()

    @property
    def counted(self) -> list[str]:
        """What slots are counted of: phases, strata and ``all``."""
        return [*self.phases, *(plan.place("challengers", name) for name in self.strata), "all"]

    @property
    def null_phase(self) -> str:
        """The phase in which the null study is scored."""
        return "null_pairs" if "null_pairs" in self.phases else "pairs"

    @property
    def looks(self) -> list[str]:
        """The files of all looks but the last, after which nothing follows."""
        stages = [stage for stage in plan.LOOKS if plan.look_phase(stage, 1) in self.phases]
        numbers = {stage: range(1, len(plan.looks(self.parts["design"], stage))) for stage in stages}
        return [self.look(stage, number) for stage in stages for number in numbers[stage]]

    def _counted(self, phase: str) -> dict[str, int | list[int]]:
        if look := plan.of_look(phase):
            within = plan.looks(self.parts["design"], look[0])[look[1] - 1]
            return {look[0]: [within.start, within.stop - 1]}
        return {stage: self.count(stage) for stage in self._phases[phase].stages}

    def batch_size(self, stage: str) -> int:
        """Slots in one job: a pair is two episodes, and a replacement is a job of its own."""
        if plan.STAGES[stage].replaces:
            return 1
        return max(1, self.config.execution.episodes_per_job // len(plan.STAGES[stage].arms))

    def receipts(self, stage: str) -> list[str]:
        """The receipts of a stage; none of a target run in a retrospective audit."""
        if stage == plan.TARGET and self.config.claim.is_retrospective:
            return []
        if stage in plan.LOOKS:
            looks = plan.looks(self.parts["design"], stage)
            return [path for number in range(1, len(looks) + 1) for path in self.look_receipts(stage, number)]
        return self._batches(self.folder(stage), stage, range(1, self.count(stage) + 1))

    def look_receipts(self, stage: str, look: int) -> list[str]:
        """The receipts of one look, by its number."""
        design = self.parts["design"]
        folder = f"{self.results}/{plan.look_place(stage, design, look)}"
        return self._batches(folder, stage, plan.looks(design, stage)[look - 1])

    def _batches(self, folder: str, stage: str, slots: range) -> list[str]:
        size, last = self.batch_size(stage), slots.stop - 1
        return [f"{folder}/{receipts.file_name(first, min(first + size - 1, last))}" for first in slots[::size]]

    def phase_receipts(self, phase: str) -> list[str]:
        """The receipts of all stages that are scored together."""
        if look := plan.of_look(phase):
            return self.look_receipts(*look)
        stages = self._phases[phase].stages if phase in self._phases else plan.PHASES.get(phase, ())
        return [path for stage in stages for path in self.receipts(stage)]

    def look(self, stage: str, number: int) -> str:
        """The file that says what a look came to."""
        return str(Layout(Path(self.results)).look(plan.look_phase(stage, number)))

    def seen_by(self, stage: str, look: int) -> list[str]:
        """The phases whose scores are read at a look, by its number."""
        return ["target", *(plan.look_phase(stage, number) for number in range(1, look + 1))]

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
        return [self.score_file(phase) for phase in self.phases]

    def score_file(self, phase: str) -> str:
        """The score file of a phase."""
        return f"{self.results}/scores/{phase}.json"

    @property
    def replays(self) -> list[str]:
        """The file of every phase, and of every stratum, that says which conversations replay."""
        strata = [plan.place("challengers", name) for name in self.strata]
        return [f"{self.results}/replay/{phase}.json" for phase in (*self.phases, *strata)]

    def replayed_receipts(self, phase: str) -> list[str]:
        """The receipts of a phase, or of a stratum by its place."""
        name = plan.stratum_of(phase)
        return self.strata[name].receipts("challengers") if name else self.phase_receipts(phase)

    @property
    def strata_receipts(self) -> list[str]:
        """The receipts of all strata."""
        return [path for stratum in self.strata.values() for path in stratum.receipts("challengers")]

    @property
    def strata_scores(self) -> list[str]:
        """The score file of every stratum."""
        return [f"{self.results}/scores/{plan.place('challengers', name)}.json" for name in self.strata]

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
    def registered_strata(self) -> str:
        """What is registered of each stratum, with its agent's sources, as canonical JSON."""
        strata = {
            name: {"config": config, "sources": agent_sources(config["agent"])}
            for name, config in self.config.registered_strata().items()
        }
        return canonical.encode(strata).decode()

    @property
    def own_contract(self) -> str:
        """What a stratum's episodes have of their own in their contract, as canonical JSON: an edit runs them again."""
        agent = self.parts["agent"]
        own = {"agent": agent, "limits": self.parts["limits"], "sources": agent_sources(agent)}
        return canonical.encode(own).decode()

    @property
    def job_arguments(self) -> list[str]:
        """What each job is told besides its own task."""
        execution = self.config.execution
        if execution.offer:
            arguments = ["--results", execution.results, "--offer", execution.offer]
        else:
            arguments = ["--results", execution.results, "--nonce-file", execution.nonce_file]
        if execution.public_randomness and not execution.offer:
            arguments += ["--public-randomness", execution.public_randomness]
        if self.data_file:
            arguments += ["--data-file", str(self.data_file)]
        return arguments

    def require_task(self) -> None:
        """Open the task as the first job will, so that what it lacks is told before any job has started.

        Raises:
            UsageError: there is no such task, it refuses its settings, a library or its data are missing, or it does
                not accept the artifact that is looked back at.
        """
        task = load_task(self.parts["task"], self.data_file)
        task.engine_identity()
        if self.artifact is not None:
            seed = self.parts["claim"]["retrospective"]["presentation"]
            require_valid(task, self.artifact, seed, self.parts["limits"])

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
        models = [audit.config.agent.model for audit in (self, *self.strata.values())]
        needed = PASSED_ON | {model.key_variable for model in models if model}
        return sorted(name for name in environment if name not in needed and not name.startswith(OF_SCHEDULERS))

    @property
    def costs(self) -> list[str]:
        """The table of what the models have cost; none where no agent asks one."""
        asks = self.api or any(stratum.api for stratum in self.strata.values())
        return [f"{self.results}/costs.parquet"] if asks else []

    @property
    def prices(self) -> str:
        """What a million tokens cost, as canonical JSON."""
        return canonical.encode(self._prices).decode()

    @property
    def _prices(self) -> dict[str, Any]:
        budget = self.config.budget.model_dump(mode="json")
        return {name: value for name, value in budget.items() if not name.startswith("max")}

    @property
    def strata_prices(self) -> str:
        """The same for the models of strata, by name."""
        return canonical.encode({name: stratum._prices for name, stratum in self.strata.items()}).decode()

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
        if any(rule.startswith(("run_", "replace_")) for rule in rules if rule != OF_STRATA):
            spending.require_key(self.config)
        if OF_STRATA in rules:
            for stratum in self.strata.values():
                spending.require_key(stratum.config)

    def tell_jobs(self, at_once: int) -> None:
        """Write down what they may spend.

        Args:
            at_once: jobs that may ask a model at the same time.
        """
        for name, audit in ({"": self} | self.strata).items():
            spending.write(Path(self.results), audit.config, at_once, name)

    def storage_fault(self) -> StorageError | None:
        """What is wrong with the first folder that a run writes to and cannot; each is tried out."""
        for folder in (self.results, self.logs, ".snakemake"):
            try:
                files.try_out(Path(folder))
            except OSError as error:
                return storage_error(error)
        return None

    @staticmethod
    def shell(words: Sequence[str]) -> str:
        """Words quoted for the shell, and for Snakemake, which formats braces."""
        return shlex.join(words).replace("{", "{{").replace("}", "}}")

    @property
    def registered_sources(self) -> str:
        """Digest of the source of task and agent, of the own site's pages and of an artifact that is there already, all
        registered: an edit makes another contract."""
        agent = agent_sources(self.parts["agent"])
        pages = site.sources(self.parts["information"].get("web"))
        served: dict[str, Any] = {"site": pages} if pages else {}
        if self.artifact is not None:
            served["artifact"] = canonical.digest(self.artifact)
        return canonical.digest_of({"task": task_sources(self.parts["task"]), "agent": agent, **served})

    @property
    def page(self) -> str:
        """Digest of the report's templates, which no import leads to."""
        return templates.digest()

    @staticmethod
    def code(module: str) -> str:
        """Digest of a library module and all that it imports, for the rules whose results rest on it."""
        return sources.source_digest(f"dcpflow.{module}")
