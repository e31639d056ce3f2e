"""What ten times the counts cost, and how long deciding and verifying take where there is much evidence.

    python tests/benchmarks/scale.py [audits] [tables] [--times 10] [--episodes 10000] [--units 300] [--cores 3]

`audits`: the default audit, and one with so many times its challengers, controls, pairs and null pairs. Printed are
wall times and their ratio (claimed: at most 1.1 for each time), episodes per second, the memory of the largest process,
and CPU time for each episode: of Snakemake itself, of the jobs that run the episodes, and of all other jobs.

`tables`: a synthetic results folder of so many episodes, each artifact scored on so many units. Printed are seconds and
memory of deciding and of `dcpflow verify` as whole processes (claimed: each below 5 s and 1 GiB).

Exits 1 where a claim does not hold.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import audits
import stage_times

PER_TIME = 1.1
MAX_SECONDS, MAX_MB = 5.0, 1024.0
DECIDE = """import sys
from pathlib import Path
from dcpflow.evidence import folder
from dcpflow.records.layout import Layout
from dcpflow.stages.decide import decide
layout = Layout(Path(sys.argv[1]))
decide(layout.root, folder.receipts(layout), folder.scores(layout))
"""


def main() -> int:
    """Measure, print, and say by the exit code whether the claims hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=("audits", "tables", []), help="what to measure; by default both")
    parser.add_argument("--times", type=int, default=10, help="multiplies all counts")
    parser.add_argument("--cores", type=int, default=audits.CORES)
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--units", type=int, default=300)
    options = parser.parse_args()
    parts, verdicts = options.parts or ["audits", "tables"], []
    if "audits" in parts:
        verdicts.append(_audits(options.times, options.cores))
    if "tables" in parts:
        verdicts.append(_tables(options.episodes, options.units))
    return 0 if all(verdicts) else 1


def _audits(times: int, cores: int) -> bool:
    print("times  episodes   wall s  episodes/s  peak MB  CPU ms per episode: snakemake  episodes  all other")
    walls = []
    for factor in (1, times):
        settings = audits.multiplied(factor) if factor > 1 else {}
        run = stage_times.run(settings, ["config/config.yaml"], cores)
        walls.append(run.cost.wall)
        line = f"{factor:5}  {run.episodes:8}  {run.cost.wall:7.1f}  {run.episodes / run.cost.wall:10.1f}"
        line += f"  {run.cost.peak_mb:7.0f}"
        if run.own_cpu is not None and run.episodes_cpu is not None:
            rest = run.cost.cpu - run.own_cpu - run.episodes_cpu
            shares = [1000 * seconds / run.episodes for seconds in (run.own_cpu, run.episodes_cpu, rest)]
            line += f"{shares[0]:32.1f}  {shares[1]:8.1f}  {shares[2]:9.1f}"
        print(line, flush=True)
    ratio = walls[1] / walls[0]
    print(f"ratio of wall times {ratio:.2f} (claimed: at most {PER_TIME * times:g})")
    return ratio <= PER_TIME * times


def _tables(episodes: int, units: int) -> bool:
    here = Path(__file__).parent
    with tempfile.TemporaryDirectory() as name:
        results = Path(name, "results")
        writing = [sys.executable, str(here / "synthetic_folder.py"), str(results), "--episodes", str(episodes)]
        found = audits.measured([*writing, "--units", str(units)], here)
        print(f"{int(found.printed)} episodes x {units} units, written in {found.wall:.1f} s, {found.peak_mb:.0f} MB")
        commands = {
            "deciding": [sys.executable, "-c", DECIDE, str(results)],
            "verifying": [str(Path(sys.executable).parent / "dcpflow"), "verify", str(results)],
        }
        holding = []
        for what, command in commands.items():
            cost = audits.measured(command, here)
            print(f"{what:9} {cost.wall:7.2f} s wall {cost.cpu:7.2f} s CPU {cost.peak_mb:7.0f} MB "
                  f"(claimed: below {MAX_SECONDS:g} s and {MAX_MB:g} MB)", flush=True)  # fmt: skip
            holding.append(cost.wall < MAX_SECONDS and cost.peak_mb < MAX_MB)
    return all(holding)


if __name__ == "__main__":
    sys.exit(main())
