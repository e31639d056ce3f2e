"""Wall and CPU time of an audit by stage, on so many cores, with the configured agent or an instant one.

    python tests/benchmarks/stage_times.py [--cores 1 2] [--repeat 1] [--instant] [--configfile FILE] [--json]

Every job of a fresh run notes when it starts and ends, and is put into a control group of its stage, where there are
any: without them there is no CPU time by stage. Stages overlap, so that their seconds from first start to last end
add up to more than the run. What is left of the CPU time is Snakemake's own. `--instant` replaces the agent by one that
commits without any experiment: what such an audit takes is what it takes to audit, whatever it decides.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import audits

from dcpflow.records import plan

INSTANT = """import json, sys
hello = json.loads(sys.stdin.readline())
item = hello["E0"]["families"][0]["template"].split()
table, column = item[item.index("FROM") + 1], item[item.index("WHERE") + 1]
quotes = {name: hello["files"][name] for name in hello["E0"].get("quote", [])}
candidate = f"CREATE INDEX ix_{column} ON {table} ({column}) WHERE {column} IS NOT NULL;"
for request in ({"action": "commit", "candidate": candidate, "quotes": quotes}, {"action": "finish"}):
    print(json.dumps({"id": request["action"], **request}), flush=True)
    sys.stdin.readline()
"""
INSTANT_AGENT = {
    "kind": "command",
    "name": "instant",
    "model_id": "instant-1",
    "program": {"command": ["{python}", "-I", "-S", "-B", "/agent/instant.py"], "files": ["agents/instant.py"]},
}
# Stands for the shell that Snakemake starts each job with; the last word is the job's command.
SHELL = """#!/bin/sh
for command; do :; done
case $command in
*" --stage "*) stage=${{command#* --stage }}; stage=${{stage%% *}} ;;
*scripts/*) stage=${{command#*scripts/}}; stage=${{stage%%.py*}} ;;
*) exec '{shell}' "$@" ;;
esac
if test -n "$BENCHMARK_GROUP"; then
    mkdir -p "$BENCHMARK_GROUP/$stage" && echo $$ >"$BENCHMARK_GROUP/$stage/cgroup.procs"
fi
started=$(date +%s.%N)
'{shell}' "$@"
code=$?
echo "$stage $started $(date +%s.%N)" >>'{times}'
exit $code
"""


@dataclass(frozen=True)
class Stage:
    """What the jobs of a stage took.

    Attributes:
        name: of an episode stage, else of the script.
        jobs: that ran.
        begins: s from the start of the run to that of the first job.
        ends: s from there to the end of the last one.
        jobs_wall: s of all jobs, as if one had run after the other.
        cpu: s; None where there are no control groups.
    """

    name: str
    jobs: int
    begins: float
    ends: float
    jobs_wall: float
    cpu: float | None


@dataclass(frozen=True)
class Breakdown:
    """A run by stages.

    Attributes:
        cost: of the whole.
        episodes: that it has recorded.
        stages: in the order of their first jobs.
    """

    cost: audits.Cost
    episodes: int
    stages: tuple[Stage, ...]

    @property
    def own_cpu(self) -> float | None:
        """CPU time in s of Snakemake itself; None where there are no control groups."""
        groups = self.cost.of_groups
        return self.cost.cpu - sum(groups.values()) if groups else None

    @property
    def episodes_cpu(self) -> float | None:
        """CPU time in s of the stages that run episodes: agents, channel, experiments, records; None likewise."""
        groups = self.cost.of_groups
        return sum(cpu for name, cpu in groups.items() if name in plan.STAGES) if groups else None


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cores", type=int, nargs="+", default=[audits.CORES])
    parser.add_argument("--repeat", type=int, default=1, help="runs on so many cores; the one of median time is shown")
    parser.add_argument("--instant", action="store_true", help="an agent that commits at once")
    parser.add_argument("--configfile", nargs="*", default=["config/config.yaml"], help="as for snakemake")
    parser.add_argument("--json", action="store_true", help="print all numbers as JSON")
    options = parser.parse_args()
    settings: dict[str, Any] = {"agent": INSTANT_AGENT} if options.instant else {}
    for cores in options.cores:
        runs = [run(settings, options.configfile, cores) for _ in range(options.repeat)]
        found = sorted(runs, key=lambda one: one.cost.wall)[len(runs) // 2]
        if options.json:
            print(json.dumps({"cores": cores, "own_cpu": found.own_cpu, **asdict(found)}))
        else:
            print(_table(cores, found))


def run(settings: dict[str, Any], configfiles: Iterable[str], cores: int) -> Breakdown:
    """One fresh run, by stage."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        audits.fresh(folder, {**settings, "execution": {"results": "results"}})
        (folder / "agents").mkdir()
        (folder / "agents/instant.py").write_text(INSTANT)
        (folder / "bin").mkdir()
        times = folder / "times.txt"
        (folder / "bin/bash").write_text(SHELL.format(shell=shutil.which("bash"), times=times))
        (folder / "bin/bash").chmod(0o755)
        path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        start = time.time()
        cost = audits.measured(audits.command(configfiles, cores), folder, {"PATH": path})
        episodes = sum(1 for _ in folder.glob("results/store/*/*/*/*/*/record.json"))
        return Breakdown(cost, episodes, _stages(times, start, cost))


def _stages(times: Path, start: float, cost: audits.Cost) -> tuple[Stage, ...]:
    spans: dict[str, list[tuple[float, float]]] = {}
    for name, begin, end in (line.split() for line in times.read_text().splitlines()):
        spans.setdefault(name, []).append((float(begin) - start, float(end) - start))
    found = [
        Stage(
            name,
            len(jobs),
            min(begin for begin, _ in jobs),
            max(end for _, end in jobs),
            sum(end - begin for begin, end in jobs),
            cost.of_groups.get(name),
        )
        for name, jobs in spans.items()
    ]
    return tuple(sorted(found, key=lambda stage: stage.begins))


def _table(cores: int, found: Breakdown) -> str:
    def seconds(value: float | None) -> str:
        return f"{'-':>9}" if value is None else f"{value:9.2f}"

    lines = [
        f"--cores {cores}, {found.episodes} episodes",
        "stage                   jobs  from s     to s  jobs' s    CPU s",
    ]
    lines += [
        f"{s.name:22}  {s.jobs:4}{s.begins:8.2f}{s.ends:9.2f}{s.jobs_wall:9.2f}{seconds(s.cpu)}" for s in found.stages
    ]
    lines.append(f"{'snakemake itself':54}{seconds(found.own_cpu)}")
    lines.append(f"{'all':36}{found.cost.wall:9.2f}{'':9}{seconds(found.cost.cpu)}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
