"""What the next run of the workflow would do, as Snakemake itself tells: it plans, and writes no result."""

from __future__ import annotations

import csv
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dcpflow.errors import UsageError

COLUMNS: Final = ["output_file", "date", "rule", "log-file(s)", "status", "plan"]
TOGETHER: Final = frozenset({"seal_task", "freeze_contract", "register", "evidence", "decide"})
"""Rules of one job that writes several files; every other job writes one."""
OF_THE_REGISTRATION: Final = frozenset({"seal_task", "freeze_contract", "freeze_stratum", "register", "count_slots"})
"""Rules whose parameters are what is registered. Those of all others hold digests of the code that they use."""
REASONS: Final = {
    "updated input files": "a file that it reads was altered",
    "params changed": "library code that it uses has changed",
    "set of input files changed": "it reads another set of files",
    "rule implementation changed": "its command, its parameters or what it reads has changed",
}
"""What Snakemake says of a file, the strongest reason first, and what that means here."""
STALE: Final = frozenset({"params changed", "set of input files changed"})
"""What it says of a file that it would make again, were there no job before it that runs."""
ORDER: Final = (
    "seal_task",
    "freeze_contract",
    "register",
    "count_slots",
    "freeze_stratum",
    "run_target",
    "freeze_packet",
    "select_checkpoint",
    "run_",
    "replace_",
    "score_",
    "read_look",
    "replay_channels",
    "evidence",
    "costs",
    "decide",
    "report",
)
"""Rules, by how their names begin, in the order in which a run comes to them."""


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """One job that the next run would start.

    Attributes:
        rule: its rule.
        files: that it writes.
        why: that it has to run, in words.
    """

    rule: str
    files: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Planned:
    """What the next run would do, and what it would not get to.

    Attributes:
        jobs: that it would start, as it comes to them.
        left: for the run after it. Snakemake looks at no job behind one that runs, if that is waited for as
            ``ancient``.
    """

    jobs: list[PlannedJob]
    left: list[PlannedJob]


def planned(configfiles: Sequence[Path] = (), settings: Sequence[str] = (), targets: Sequence[str] = ()) -> Planned:
    """The jobs of ``snakemake --configfile ... --config ... targets`` in this folder, as a run comes to them.

    Args:
        configfiles: files over the default one.
        settings: ``section={key: value}`` over the files.
        targets: rules or files that are asked for; by default all but the report.

    Raises:
        UsageError: Snakemake cannot plan the run; its last words say why.
    """
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "--summary"]
    for option, values in (("--configfile", configfiles), ("--config", settings)):
        command += [option, *map(str, values)] if values else []
    done = subprocess.run(
        [*command, "--", *targets], stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", check=False
    )
    rows = list(csv.reader(done.stdout.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE))
    if done.returncode or COLUMNS not in rows:
        told = " ".join(done.stderr.split("Building DAG of jobs...")[-1].split())
        raise UsageError(f"snakemake cannot plan the next run: {told[-2_000:] or f'exit code {done.returncode}'}")
    return jobs_of(rows[rows.index(COLUMNS) + 1 :])


def jobs_of(rows: Sequence[Sequence[str]]) -> Planned:
    """Jobs from the rows of Snakemake's summary, one for each file of the workflow, with the columns above."""
    pending = [row for row in rows if row[5] == "update pending"]
    left = [row for row in rows if row[5] == "no update" and row[4] in STALE]
    return Planned(_jobs(pending), _jobs(left))


def _jobs(rows: Sequence[Sequence[str]]) -> list[PlannedJob]:
    jobs: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for file, _, rule, _, status, _ in rows:
        jobs.setdefault((rule, "" if rule in TOGETHER else file), []).append((file, status))
    return [
        PlannedJob(rule, tuple(file for file, _ in files), _why(rule, files))
        for (rule, _), files in sorted(jobs.items(), key=_place)
    ]


def _place(job: tuple[tuple[str, str], object]) -> tuple[int, str, str]:
    (rule, file), _ = job
    return next((n for n, begin in enumerate(ORDER) if rule.startswith(begin)), len(ORDER)), rule, file


def _why(rule: str, files: Sequence[tuple[str, str]]) -> str:
    """In words: what Snakemake says of the files that one job writes, the strongest reason first."""
    missing = [file for file, status in files if status == "missing"]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        return f"{missing[0]}{more} is not there"
    found = {status for _, status in files}
    return next((_words(rule, status) for status in REASONS if status in found), "it rests on what is made again")


def _words(rule: str, status: str) -> str:
    if status != "params changed":
        return REASONS[status]
    if rule in OF_THE_REGISTRATION:
        return "what is registered has changed"
    return "prices or library code have changed" if rule == "costs" else REASONS[status]
