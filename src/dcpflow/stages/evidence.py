"""Makes the evidence tables from records and scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dcpflow.errors import EvidenceError
from dcpflow.evidence import rows, tables, view
from dcpflow.records import stagefile
from dcpflow.stages import checkpoint, replay
from dcpflow.stages.facts import facts
from dcpflow.stages.laboratory import Job
from dcpflow.tasks import load_task

SCHEMA = "dcpflow.evidence/1"
TABLES = ("episodes", "candidates", "scores", "controls", "pairs", "null_pairs")


@dataclass(frozen=True, slots=True)
class Evidence:
    """An audit's evidence, read whole.

    Attributes:
        view: records, scores, checkpoint.
        rows: rows of every table.
        digests: digest of each table's rows.
    """

    view: view.AuditView
    rows: dict[str, list[rows.Row]]
    digests: dict[str, str]


def collect(job: Job, receipts: Sequence[Path], scores: Mapping[str, Path]) -> Evidence:
    """Read records and scores, follow every digest, and compute the tables' rows.

    Raises:
        EvidenceError: something is missing, altered or foreign.
    """
    point = checkpoint.read(job) if "pairs" in scores else None
    seen = view.load(job.layout, receipts, scores, point)
    history: list[dict[str, Any]] = list(point[0]["history"]) if point else []
    task = load_task(job.contract.config("task"))
    replayed = replay.read(job.layout.replay)
    known = facts(seen, task, job.draws, history)
    for record, fact in known.items():
        fact["transcript_replays"] = replayed.get(record, False)
    all_rows = rows.all_rows(seen, known)
    return Evidence(seen, all_rows, {name: tables.rows_digest(name, all_rows[name]) for name in TABLES})


def write_tables(job: Job, receipts: Sequence[Path], scores: Mapping[str, Path], folder: Path) -> None:
    """Write every table and the manifest with the digests of their rows."""
    evidence = collect(job, receipts, scores)
    for name in TABLES:
        tables.write(folder / f"{name}.parquet", name, evidence.rows[name], job.registration.digest)
    body = {"contract": job.contract.digest, "tables": evidence.digests, "scores": dict(evidence.view.inputs)}
    stagefile.write(folder / "manifest.json", SCHEMA, body)


def read_tables(job: Job, evidence: Evidence, folder: Path) -> dict[str, list[rows.Row]]:
    """The tables' rows from their files, held against records and scores.

    Raises:
        EvidenceError: a table is missing, or its rows are not those that records and scores give.
    """
    manifest, _ = stagefile.read(folder / "manifest.json", SCHEMA, "the evidence manifest")
    found = {}
    for name in TABLES:
        path = folder / f"{name}.parquet"
        found[name] = tables.read(path, name)
        digest = tables.rows_digest(name, found[name])
        if not digest == manifest["tables"][name] == evidence.digests[name]:
            raise EvidenceError(
                f"the table {path} is not what records and scores give (rows {digest}, expected "
                f"{evidence.digests[name]})",
                f"To make it again: rm -f '{path}' '{folder / 'manifest.json'}' and run snakemake again",
            )
    return found
