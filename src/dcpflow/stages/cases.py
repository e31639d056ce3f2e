"""Runs the published cases one after the other, as a user would run each of them, and reads their decisions."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from dcpflow.errors import DcpflowError, UsageError
from dcpflow.report import screen
from dcpflow.report.cases import Row
from dcpflow.stages import configuration, fetching
from dcpflow.tasks import data_sets


class Case(NamedTuple):
    """One published case.

    Attributes:
        name: what it is called in print.
        configfiles: what its configuration has beside the default one.
        data_set: the data set that its task reads; empty if none.
    """

    name: str
    configfiles: tuple[str, ...]
    data_set: str = ""


def _case(name: str, data_set: str = "") -> Case:
    return Case(name, (f"config/cases/{name}.yaml",), data_set)


CASES = (
    Case("sqlite-web", ()),
    _case("catalyst"),
    _case("sqlite-core"),
    _case("device"),
    _case("knapsack"),
    _case("affine"),
    _case("yacht", "yacht"),
    _case("ionosphere", "ionosphere"),
    _case("dry-bean", "dry-bean"),
    Case("dry-bean, amended", ("config/cases/dry-bean.yaml", "config/amendments/dry-bean.yaml"), "dry-bean"),
)
"""In the order in which they were published. An amendment comes after the case that it amends."""


def chosen(names: Sequence[str]) -> list[Case]:
    """The cases of these names, with their amendments; all without a name.

    Raises:
        UsageError: there is no such case, or this is no checkout, whose default configuration is one of them.
    """
    if not Path("config/cases/sqlite-core.yaml").is_file():
        raise UsageError("the published cases are not here", "Run this in a checkout of dcpflow's repository")
    known = dict.fromkeys(case.name.partition(",")[0] for case in CASES)
    for name in names:
        if name not in known:
            raise UsageError(f"there is no case {name!r}", f"There are {', '.join(known)}")
    return [case for case in CASES if not names or case.name.partition(",")[0] in names]


def run(cases: Sequence[Case], cores: str, data_folder: Path | None = None) -> Iterator[Row]:
    """Run cases and yield what each gave, as soon as it has.

    A case that cannot be run is a row that says why, and the others go on.

    Args:
        cases: in the order in which to run them.
        cores: for snakemake: a number, or ``all``.
        data_folder: where files of the data sets lie, under any names; by default they are downloaded where the cache
            has none.
    """
    for case in cases:
        start = time.monotonic()
        try:
            settings = data(case, data_folder)
            audit = configuration.read([Path(path) for path in case.configfiles], settings)
            _snakemake(case, cores, settings, Path(audit.logs))
            decision = screen.read(Path(audit.results) / "decision.json")
        except DcpflowError as error:
            yield Row(case.name, None, str(error), time.monotonic() - start)
        else:
            yield Row(case.name, decision, "", time.monotonic() - start)


def data(case: Case, folder: Path | None) -> list[str]:
    """The setting that names the file of a case's data; none where the download cache has it."""
    if not case.data_set:
        return []
    if folder is None:
        if not data_sets.cache_file(case.data_set).exists():
            fetching.fetch(case.data_set)
        return []
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}", "Give the one in which files of the data sets lie")
    path = data_sets.find(case.data_set, folder)
    if path is None:
        title = data_sets.DATA_SETS[case.data_set].title
        remedy = f"Download it with: dcpflow data fetch {case.data_set}"
        raise UsageError(f"no file in {folder} holds the data set {title}", remedy)
    return [f"task={{data_file: {json.dumps(str(path))}}}"]


def _snakemake(case: Case, cores: str, settings: Sequence[str], logs: Path) -> None:
    """Run one audit; what snakemake prints goes into a file among the audit's logs.

    Raises:
        UsageError: it failed.
    """
    command = [sys.executable, "-m", "snakemake", "--cores", cores]
    for option, values in (("--configfile", case.configfiles), ("--config", settings)):
        command += [option, *values] if values else []
    log = logs / "snakemake.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        code = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=False).returncode
    if code:
        raise UsageError(f"snakemake ended with exit code {code}", f"See {log}")
