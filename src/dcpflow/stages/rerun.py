"""What the next run would redo and why, what it would cost, and what the statuses would be called: before it happens.

Which jobs run, Snakemake tells. What an edit means for registration, episodes and money follows from our own records.
Nothing is written.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dcpflow.errors import EvidenceError
from dcpflow.evidence import decision
from dcpflow.protocol.registration import LINEAGE_EMPTY
from dcpflow.records import checkpoint, history, journal, offer, plan, receipts, registration, stagefile
from dcpflow.records.calls import Prices, call_of
from dcpflow.records.draws import Nonce
from dcpflow.records.episodes import EpisodeKey, EpisodeRecord, EpisodeStore
from dcpflow.records.layout import Layout
from dcpflow.stages import episodes, registering, seal
from dcpflow.stages.planned import PlannedJob
from dcpflow.stages.workflow import Workflow
from dcpflow.tasks import load_task

NOTHING: Mapping[str, Any] = MappingProxyType({})

Parts = dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Asked:
    """What one episode of a stage has asked its model for so far, on average.

    Attributes:
        episodes: that the mean is over.
        tokens: read and written.
        usd: by the configured prices.
    """

    episodes: int
    tokens: float
    usd: float


@dataclass(frozen=True, slots=True)
class Rerun:
    """What the next run would do.

    Attributes:
        jobs: that Snakemake would start.
        left: that it would start only in the run after it.
        changes: registered keys that differ from the registration in force, with both values.
        first: whether nothing has been registered so far.
        another_contract: whether episodes would be other ones than those under the registration in force.
        exploratory: by status, whether it would be called so.
        became: likewise, whether it is called so now.
        episodes: that would be run, by stage; those that stand already are only listed again.
        replacements: most pairs that might have to be replaced, by stage.
        model: whether the agent asks a model.
        priced: whether the configuration says what it costs.
        tokens: that the episodes would take, as those on record did; None where none is on record.
        usd: likewise, what they would cost.
        known: episodes on record that this is estimated from.
    """

    jobs: Sequence[PlannedJob]
    left: Sequence[PlannedJob]
    changes: Sequence[Mapping[str, Any]]
    first: bool
    another_contract: bool
    exploratory: Mapping[str, bool]
    became: Mapping[str, bool]
    episodes: Mapping[str, int]
    replacements: Mapping[str, int]
    model: bool
    priced: bool
    tokens: float | None
    usd: float | None
    known: int

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {**asdict(self), "rules": dict(Counter(job.rule for job in self.jobs))}


def describe(audit: Workflow, jobs: Sequence[PlannedJob], left: Sequence[PlannedJob] = ()) -> Rerun:
    """What planned jobs mean.

    Args:
        audit: the configured audit.
        jobs: that Snakemake would start.
        left: that it would start only in the run after it.

    Raises:
        DcpflowError: what the next run would stop at as well: an altered registration or history, a task, its data or
            a nonce that is not there.
    """
    layout = Layout(Path(audit.results))
    parts = registered_next(audit, layout, {job.rule for job in jobs})
    past = history.entries(layout)
    store = EpisodeStore(layout.store, registration.contract_digest(parts))
    registered = parts["design"].get("strata", {})
    strata = {name: EpisodeStore(layout.store, own["contract"]) for name, own in registered.items()}
    needed, most = episodes_to_run(layout, store, jobs, strata)
    model = any(own.api for own in (audit, *audit.strata.values()))
    prices = Prices.of(audit.config.budget.model_dump(mode="json"))
    theirs = {name: Prices.of(own) for name, own in json.loads(audit.strata_prices).items()}
    tokens, usd, known = estimate(needed, asked(layout, prices, strata, theirs)) if model else (0.0, 0.0, 0)
    return Rerun(
        jobs=jobs,
        left=left,
        changes=list(history.changes(past[-1].parts, parts)) if past else [],
        first=not past,
        another_contract=bool(past) and registration.contract_digest(parts) != past[-1].contract,
        exploratory=_exploratory(layout, past, parts),
        became=_exploratory(layout, past, past[-1].parts if past else parts),
        episodes=needed,
        replacements=most,
        model=model,
        priced=any(own.input_usd or own.output_usd for own in (prices, *theirs.values())),
        tokens=tokens,
        usd=usd,
        known=known,
    )


def registered_next(audit: Workflow, layout: Layout, rules: set[str]) -> Parts:
    """The registration as it will be after the run: from the configuration where a job would write it, else from disk.

    Args:
        audit: the configured audit.
        layout: of its results.
        rules: those of which jobs would run.
    """
    if "seal_task" in rules and audit.config.execution.offer is not None:
        sealed = offer.read(Path(audit.config.execution.offer)).seal
    elif "seal_task" in rules:
        task = load_task(audit.parts["task"], audit.data_file)
        nonce = Nonce.read(Path(audit.config.execution.nonce_file))
        sealed = seal.commitments(task, nonce, task.public_material())
    elif "freeze_contract" in rules:
        sealed, _ = stagefile.read(layout.seal, seal.SEAL_SCHEMA, "the task's seal")
    if {"seal_task", "freeze_contract"} & rules:
        contract = registering.contract_parts(audit.parts, sealed, audit.artifact)
    else:
        contract = registration.read_contract(layout.registration).parts
    if "register" in rules:
        strata = json.loads(audit.registered_strata)
        return contract | registering.plan_parts(contract, audit.parts["design"], audit.parts["thresholds"], strata)
    return registration.read_registration(layout.registration).parts


def episodes_to_run(
    layout: Layout, store: EpisodeStore, jobs: Sequence[PlannedJob], strata: Mapping[str, EpisodeStore] = NOTHING
) -> tuple[dict[str, int], dict[str, int]]:
    """Episodes that planned jobs would run, by stage or stratum, and the most pairs that they might have to replace.

    Args:
        layout: of the results.
        store: the store of the contract that they would run under.
        jobs: that would run.
        strata: the stores of the strata's contracts, by name.
    """
    slots: dict[str, list[int]] = {}
    for place, first, last in (batch for job in jobs for batch in _batches(layout, job, strata)):
        slots.setdefault(place, []).extend(range(first, last + 1))
    missing = {}
    for place in sorted(slots, key=_in_order):
        own = strata.get(plan.stratum_of(place), store)
        keys = [key for slot in slots[place] for key in plan.keys(plan.stage_of(place), slot)]
        missing[place] = [key for key in keys if own.committed(key) is None]
    needed: dict[str, int] = {}
    most: dict[str, int] = {}
    for place in (place for place in missing if missing[place]):
        if plan.STAGES[plan.stage_of(place)].replaces:
            most[place] = int(min(len({key.slot for key in missing[place]}), _may_be_lost(store, place, missing)))
        else:
            needed[place] = len(missing[place])
    return needed, {stage: number for stage, number in most.items() if number}


def _in_order(place: str) -> tuple[int, str]:
    return list(plan.STAGES).index(plan.stage_of(place)), place


def asked(
    layout: Layout, prices: Prices, strata: Mapping[str, EpisodeStore] = NOTHING, own: Mapping[str, Prices] = NOTHING
) -> dict[str, Asked]:
    """What an episode on record has asked its model for, by stage or stratum, and of all under ``""``.

    Args:
        layout: of the results, under whatever contracts.
        prices: as they are configured now.
        strata: the stores of the strata's contracts, by name.
        own: the prices of the strata's models, by name.

    Raises:
        EvidenceError: a journal holds what is no call.
    """
    found: dict[str, list[tuple[int, float]]] = {"": []}
    names = {store.root.name: name for name, store in strata.items()}
    for record in sorted(layout.store.glob("*/*/*/*/*/record.json")):
        calls = [
            call_of(entry["call"], "a journal of calls")
            for path in sorted(record.parent.glob("journal-*.jsonl"))
            for entry in journal.whole_lines(path)
            if "call" in entry
        ]
        stratum = names.get(record.parts[-6], "")
        one = (
            sum(call.tokens for call in calls),
            math.fsum(own.get(stratum, prices).of_call(call) for call in calls),
        )
        for stage in ("", plan.place(record.parts[-5], stratum)):
            found.setdefault(stage, []).append(one)
    return {stage: _mean(taken) for stage, taken in found.items() if taken}


def _mean(taken: Sequence[tuple[int, float]]) -> Asked:
    number = len(taken)
    return Asked(number, sum(tokens for tokens, _ in taken) / number, math.fsum(usd for _, usd in taken) / number)


def estimate(needed: Mapping[str, int], means: Mapping[str, Asked]) -> tuple[float | None, float | None, int]:
    """Tokens and USD of so many episodes of each stage, and how many episodes on record say so.

    A stage of which none is on record is taken for the mean of all; without any record nothing is known.
    """
    if not needed:
        return 0.0, 0.0, 0
    if "" not in means:
        return None, None, 0
    taken = [(n, means.get(stage, means[""])) for stage, n in needed.items()]
    return math.fsum(n * one.tokens for n, one in taken), math.fsum(n * one.usd for n, one in taken), means[""].episodes


def _batches(layout: Layout, job: PlannedJob, strata: Mapping[str, EpisodeStore]) -> Iterator[tuple[str, int, int]]:
    """Stage or stratum, first and last slot of each receipt that a job writes."""
    for name in job.files:
        stage, *below = Path(name).relative_to(layout.root).parts
        if stage in plan.STAGES and (slots := receipts.slots_of(below[-1])):
            yield plan.place(stage, below[0] if below[0] in strata else ""), *slots


def _may_be_lost(store: EpisodeStore, stage: str, missing: Mapping[str, Sequence[EpisodeKey]]) -> float:
    """How many pairs the replacements of a stage may have to replace: any of those that are still to run."""
    origin = plan.STAGES[stage].replaces
    if missing.get(origin):
        return math.inf
    records = [path for name in (origin, stage) for path in store.root.glob(f"{name}/*/*/*/record.json")]
    lost = [EpisodeRecord.from_bytes(path.read_bytes(), str(path)) for path in records]
    return len({episodes.pair_name(record) for record in lost if record.outcome == "infrastructure_invalid"})


def _exploratory(layout: Layout, past: Sequence[history.Entry], parts: Parts) -> dict[str, bool]:
    """By status, whether a decision under this registration is called exploratory."""
    begun = any(layout.store.glob("*/*/*/*/*/holder-*.json"))
    changes = history.changes(history.since_the_first_episode(past)[0].parts, parts) if past and begun else ()
    statuses: dict[str, Any] = {"core": {}, "evidence": {}}
    decision.mark_exploratory(statuses, list(changes), _scope(layout, parts))
    return {name: bool(status["exploratory"]) for name, status in statuses.items()}


def _scope(layout: Layout, parts: Parts) -> str:
    """Scope of the checkpoint, as :func:`decision.mark_exploratory` takes it; while there is none, the one by which
    more is exploratory."""
    if parts["claim"]["config"]["grade"] != "evidence":
        return ""
    try:
        return str(checkpoint.read(layout, registration.contract_digest(parts))[0]["scope"])
    except EvidenceError:
        return LINEAGE_EMPTY
