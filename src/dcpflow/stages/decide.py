"""Decides the audit: reads everything, follows every digest, runs the checks and the engine, writes the decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dcpflow.errors import EvidenceError
from dcpflow.evidence import checks, decision, tables
from dcpflow.evidence.view import AuditView
from dcpflow.protocol.config import Config
from dcpflow.records import canonical, files, history, plan, public
from dcpflow.records.draws import Draws
from dcpflow.records.episodes import EpisodeKey
from dcpflow.records.registration import Registered
from dcpflow.stages.evidence import Evidence, collect, read_tables
from dcpflow.stages.laboratory import Job
from dcpflow.stages.seal import commitments
from dcpflow.tasks import load_task


def decide(job: Job, receipts: Sequence[Path], scores: Mapping[str, Path]) -> None:
    """Write ``decision.json`` and the table of checks."""
    found, rows = reach(job, receipts, scores)
    tables.write(job.layout.evidence / "checks.parquet", "checks", rows, job.registration.digest)
    files.write_atomic(job.layout.decision, canonical.encode(found) + b"\n")


def verify(job: Job) -> dict[str, Any]:
    """Reach the decision of a results folder again and hold it against the one that stands there.

    Follows every digest on the way: registration, history, receipts, records, transcripts, candidates, scores, tables.

    Returns:
        The decision.

    Raises:
        EvidenceError: something is missing, altered or foreign, or the decision does not follow from the evidence.
    """
    root, path = job.layout.root, job.layout.decision
    remedy = f"To decide again: rm -f '{path}' and run snakemake again"
    written = files.read(path, "the decision", remedy)
    receipts = sorted(
        path for stage in plan.STAGES for path in (root / stage).rglob("b*.json") if path.stem[1:].isdigit()
    )
    scores = {path.stem: path for path in sorted((root / "scores").glob("*.json"))}
    found, rows = reach(job, receipts, scores)
    if canonical.encode(found) + b"\n" != written:
        raise EvidenceError(f"{path} is not the decision that its evidence gives", remedy)
    checks_path = job.layout.evidence / "checks.parquet"
    if tables.rows_digest("checks", tables.read(checks_path, "checks")) != tables.rows_digest("checks", rows):
        raise EvidenceError(
            f"the table {checks_path} is not what the evidence gives",
            f"To make it again: rm -f '{checks_path}' '{path}' and run snakemake again",
        )
    return found


def reach(
    job: Job, receipts: Sequence[Path], scores: Mapping[str, Path]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The decision and the rows of the table of checks, from the evidence; writes nothing.

    Raises:
        EvidenceError: something is missing, altered or foreign.
    """
    registered = job.registration
    past = _history_up_to(job, registered)
    evidence = collect(job, receipts, scores)
    read_tables(job, evidence, job.layout.evidence)
    facts = _facts(job, evidence)
    outcome = decision.reach(evidence.view, facts, config_of(registered))
    found = decision.document(outcome)
    found["rests_on"]["tables"] = evidence.digests
    found["registration"]["amendments"] = _amendments(past)
    found["confirmatory"] = None
    if past[0].registration != registered.digest:
        decision.mark_exploratory(found, list(history.changes(past[0].parts, registered.parts)))
        found["confirmatory"] = _confirmatory(job, evidence.view, facts, past[0])
    return found, [_check_row(check) for check in outcome.checks]


def config_of(registered: Registered) -> Config:
    """The registered configuration; execution settings, which are not registered, have their defaults."""
    return Config.model_validate_json(
        canonical.encode({name: part["config"] for name, part in registered.parts.items()})
    )


def _history_up_to(job: Job, registered: Registered) -> list[history.Entry]:
    """The history, which must end with the registration in force.

    Back under the first registration nothing is amended: what was tried in between stays in the history.
    """
    past = history.entries(job.layout)
    if not past or past[-1].registration != registered.digest:
        path = job.layout.registration / "registration.json"
        raise EvidenceError(
            f"the registration in force ({registered.digest}) is not the last of the history in {job.layout.history}",
            f"To register it: rm -f '{path}' and run snakemake again",
        )
    return past[:1] if past[0].registration == registered.digest else past


def _facts(job: Job, evidence: Evidence) -> checks.AuditFacts:
    view = evidence.view
    episodes = {
        row["record"]: {name: row[name] for name, kind in tables.SCHEMAS["episodes"].items() if kind == "bool"}
        for row in evidence.rows["episodes"]
    }
    task = load_task(job.contract.config("task"))
    seal = view.registered.parts["task"]["seal"]
    sealed = commitments(task, job.draws.nonce, public.read(job.layout, seal["public"]))
    return checks.AuditFacts(
        episodes=episodes,
        commitments={name: sealed[name] == seal.get(name) for name in sealed},
        scoring_order={phase: _drawn_order(job.draws, phase, view) for phase in view.scores},
        unlisted=_unlisted(job, view),
        registrations=[entry.registration for entry in history.entries(job.layout)],
        target_runs=sum(1 for _ in job.layout.store.glob("*/target/*/*/*/holder-1.json")),
    )


def _drawn_order(draws: Draws, phase: str, view: AuditView) -> bool:
    rows = view.scores[phase]
    order = draws.order(len(rows), f"scores {phase}", "scoring order")
    return [rows[index].position for index in order] == list(range(1, len(rows) + 1))


def _unlisted(job: Job, view: AuditView) -> list[str]:
    """Started attempts of registered slots that no receipt lists, and registered slots without an episode."""
    design = view.registered.config("design")
    listed = {(episode.key, episode.record.attempt) for episode in view.episodes}
    found = []
    for path in sorted(job.store.root.glob("*/*/*/*")):
        kind, slot, arm, attempt = path.parts[-4:]
        key = EpisodeKey(kind, int(slot), arm)
        if kind in plan.STAGES and key.slot <= plan.slots(kind, design) and (key, int(attempt)) not in listed:
            found.append(f"{key}, attempt {attempt}")
    recorded = {key for key, _ in listed}
    for stage in (stage for phase in view.scores for stage in plan.PHASES[phase]):
        if not plan.STAGES[stage].replaces:
            registered = [key for slot in range(1, plan.slots(stage, design) + 1) for key in plan.keys(stage, slot)]
            found += [f"{key}, which has no episode" for key in registered if key not in recorded]
    return found


def _amendments(past: Sequence[history.Entry]) -> list[dict[str, Any]]:
    return [
        {
            "sequence": entry.sequence,
            "registration": entry.registration,
            "changes": entry.changes,
            "opened": entry.opened,
        }
        for entry in past[1:]
    ]


def _confirmatory(job: Job, view: AuditView, facts: checks.AuditFacts, first: history.Entry) -> dict[str, Any] | None:
    """The decision under the first registration, which an amendment never replaces.

    Where the contract is the same it is reached again from the same evidence; where another contract is audited now,
    it is the decision that was written then, if there was one.
    """
    registered = Registered(first.registration, first.contract, first.parts)
    if first.contract != view.registered.contract:
        kept = history.kept_decision(job.layout, first)
        return canonical.decode(kept, "the kept decision") if kept else None
    own = view.restricted(registered)
    if len(own.of("challengers")) < plan.slots("challengers", registered.config("design")):
        return None
    return decision.document(decision.reach(own, facts, config_of(registered)))


def _check_row(check: checks.Check) -> dict[str, Any]:
    return {
        "name": check.name,
        "result": check.result,
        "needed_for": check.needed_for,
        "reason": check.reason,
        "records": len(check.records),
        "records_digest": canonical.digest_of(list(check.records)),
    }
