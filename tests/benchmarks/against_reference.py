"""The default audit, every agent a sandboxed process, beside the reference harness with an agent that answers at once.

    python tests/benchmarks/against_reference.py [--runs 3] [--times 4] [--experiments 1] [--environment FOLDER]
                                                 [--folder FOLDER] [--json]

Both audits have the same counts (96 challengers, 45 positive controls, 30 pairs, 60 null pairs), each multiplied by
`--times`; ours has its twelve misled null episodes besides. They take turns, in fresh folders on one file system, ours
on as many cores as `make audit` gives it, and theirs in its one process. The reference is dcp-harness 0.1.1, which is
installed into an environment of its own unless one is named; what it runs is `reference_audit.py`. Each run has to end
in a decision: ours in `decision.json`, theirs with all phases complete and a bundle that `dcp verify` accepts.

Prints wall and CPU time of every run, medians and their ratio, and exits 1 where the ratio of the wall times is beyond
what is claimed: 1.0, or 0.5 with four times the counts or more.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import audits

REFERENCE = "dcp-harness==0.1.1"
MAX_RATIO, MAX_RATIO_OF_LARGE, LARGE = 1.0, 0.5, 4


@dataclass(frozen=True)
class Run:
    """One audit that has ended in a decision: s of wall and CPU time, what it decided."""

    wall: float
    cpu: float
    core: str
    evidence: str

    def __str__(self) -> str:
        return f"{self.wall:8.2f} s wall {self.cpu:8.2f} s CPU   Core {self.core}, Evidence {self.evidence}"


def main() -> int:
    """Measure, print, and say by the exit code whether the claim holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="of each; the median counts")
    parser.add_argument("--times", type=int, default=1, help="multiplies all counts")
    parser.add_argument("--experiments", type=int, default=1, help="of each of their episodes; ours has up to four")
    parser.add_argument("--cores", type=int, default=audits.CORES)
    parser.add_argument("--environment", type=Path, help=f"a virtual environment that has {REFERENCE}")
    parser.add_argument("--folder", type=Path, help="where both work; by default the folder of temporary files")
    parser.add_argument("--json", action="store_true", help="print all numbers as JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        environment = options.environment or _environment(folder / "environment")
        runs: dict[str, list[Run]] = {"dcpflow": [], "reference": []}
        for number in range(options.runs):
            for who, found in runs.items():
                place = folder / f"{who}-{number}"
                place.mkdir()
                if who == "dcpflow":
                    found.append(_ours(place, options.times, options.cores))
                else:
                    found.append(_theirs(place, environment, options.times, options.experiments))
                print(f"{who:10} {found[-1]}", file=sys.stderr)
    return _report(runs, options.times, options.json)


def _environment(folder: Path) -> Path:
    """A fresh environment with the reference."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin/python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run([*pip, REFERENCE], check=True)
    return folder


def _ours(folder: Path, times: int, cores: int) -> Run:
    audits.fresh(folder, {**(audits.multiplied(times) if times > 1 else {}), "execution": {"results": "results"}})
    cost = audits.run(folder, ["config/config.yaml"], cores)
    decision = json.loads((folder / "results/decision.json").read_bytes())
    return Run(cost.wall, cost.cpu, decision["core"]["status"], decision["evidence"]["status"])


def _theirs(folder: Path, environment: Path, times: int, experiments: int) -> Run:
    script = Path(__file__).with_name("reference_audit.py")
    command = [str(environment.absolute() / "bin/python"), str(script), str(folder), "--times", str(times)]
    cost = audits.measured([*command, "--experiments", str(experiments)], folder)
    said = json.loads(cost.printed)
    if set(said["phases"].values()) != {"complete"}:
        raise SystemExit(f"the reference did not end: {said['phases']}")
    verify = [str(environment.absolute() / "bin/dcp"), "verify", str(folder / "run/bundle")]
    subprocess.run(verify, check=True, stdout=subprocess.DEVNULL)
    return Run(cost.wall, cost.cpu, said["verdict"]["core"], said["verdict"]["evidence"])


def _report(runs: dict[str, list[Run]], times: int, as_json: bool) -> int:
    medians: dict[str, dict[str, float]] = {
        who: {kind: statistics.median(getattr(run, kind) for run in found) for kind in ("wall", "cpu")}
        for who, found in runs.items()
    }
    ratios = {kind: medians["dcpflow"][kind] / medians["reference"][kind] for kind in ("wall", "cpu")}
    claimed = MAX_RATIO_OF_LARGE if times >= LARGE else MAX_RATIO
    if as_json:
        document: dict[str, Any] = {who: [vars(run) for run in found] for who, found in runs.items()}
        print(json.dumps({"times": times, "runs": document, "medians": medians, "ratios": ratios, "claimed": claimed}))
    else:
        for who, median in medians.items():
            print(f"{who:10} {median['wall']:8.2f} s wall {median['cpu']:8.2f} s CPU   median of {len(runs[who])}")
        print(f"ratio      {ratios['wall']:8.2f}        {ratios['cpu']:8.2f}         (claimed: wall at most {claimed})")
    return 0 if ratios["wall"] <= claimed else 1


if __name__ == "__main__":
    sys.exit(main())
