"""What an audit costs beyond the agents' and the task's own work, by batch size, and what a sandbox costs.

    python tests/benchmarks/audit_overhead.py [--batch 1 8] [--repeat 3] [--cores 2] [--configfile FILE]

Each line is the median of fresh runs, in temporary folders. Own work is what no audit could do without: the agents
alone (a sample of them started again without a sandbox, fed with what they were told), the task's measurements as
recorded, and the scoring, done once more. What follows is the rest of the time of all cores: its share, and its
milliseconds for each episode beside those of own work. The last column says how much own work an episode would have to
have for the same rest to be 35 %.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import audits
import yaml

from dcpflow.agents import LaunchSpec, launch_spec
from dcpflow.agents.launch import python_command
from dcpflow.episodes.sandbox import Isolation, open_isolation
from dcpflow.protocol.config_model import Limits
from dcpflow.records import plan
from dcpflow.records.objects import ObjectStore
from dcpflow.stages.laboratory import Job
from dcpflow.stages.scoring import score_phase

SAMPLE = 40
SHARE = 0.35
SMALL_AGENT = "import json, sys\njson.loads(sys.stdin.readline())\nprint('{}', flush=True)\n"


def main() -> None:
    """Measure and print."""
    shipped = yaml.safe_load((audits.ROOT / "config/config.yaml").read_text("utf-8"))["execution"]["episodes_per_job"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, shipped], help="episodes per job")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each batch size")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--configfile", nargs="*", default=["config/config.yaml"], help="as for snakemake")
    options = parser.parse_args()
    print("batch  episodes  wall s   CPU s  own work s  other time  own ms  other ms  35 % at ms")
    for batch in options.batch:
        runs = [_audit(batch, options.cores, options.configfile) for _ in range(options.repeat)]
        episodes, wall, cpu, own = (statistics.median(values) for values in zip(*runs, strict=True))
        other = wall * options.cores - own
        line = f"{batch:5}  {episodes:8.0f}  {wall:6.1f}  {cpu:6.1f}  {own:10.1f}  {other / (other + own):10.0%}"
        each = (1000 * seconds / episodes for seconds in (own, other, other * (1 - SHARE) / SHARE))
        print(line + "  {:6.0f}  {:8.0f}  {:10.0f}".format(*each))
    print("\nsmall agent      ms per episode")
    without, within = (_starting(backend) for backend in ("none", "bubblewrap"))
    for name, seconds in (("plain", without), ("in bubblewrap", within), ("difference", within - without)):
        print(f"{name:15}  {seconds * 1000:14.1f}")


def _audit(batch: int, cores: int, configfiles: Iterable[str]) -> tuple[int, float, float, float]:
    """Episodes, wall time, CPU time and own work of one run."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        audits.fresh(folder, {"execution": {"episodes_per_job": batch, "results": "results"}})
        cost = audits.run(folder, configfiles, cores)
        job = Job(folder / "results", folder / "config/nonces/default.nonce", "")
        asides = [json.loads(path.read_bytes()) for path in job.store.root.rglob("aside-*.json")]
        measuring = sum(float(aside["measuring_seconds"]) for aside in asides)
        own = _agents_alone(job) * len(asides) + measuring + _scoring(job)
    return len(asides), cost.wall, cost.cpu, own


def _agents_alone(job: Job) -> float:
    """Mean time of an agent that nobody confines or keeps waiting."""
    objects = ObjectStore(job.layout.objects)
    records = [json.loads(path.read_bytes()) for path in sorted(job.store.root.rglob("record.json"))]
    spec = launch_spec(job.contract.config("agent"))
    sample = records[:: max(1, len(records) // SAMPLE)]
    return statistics.mean(_alone(spec, objects.get(record["transcript"])) for record in sample)


def _alone(spec: LaunchSpec, transcript: bytes) -> float:
    lines: list[dict[str, str]] = [json.loads(line) for line in transcript.splitlines()]
    told = "".join(f"{line['line']}\n" for line in lines if line["from"] == "harness")
    return _seconds(lambda: subprocess.run(spec.outside(), input=told.encode(), capture_output=True, check=True))


def _scoring(job: Job) -> float:
    """Time to score all artifacts."""
    seconds = 0.0
    for phase, stages in plan.PHASES.items():
        receipts = [path for stage in stages for path in sorted((job.results / stage).rglob("b*.json"))]
        seconds += _seconds(partial(score_phase, job, phase, receipts, job.results / "again.json"))
    return seconds


def _starting(backend: str, times: int = 50) -> float:
    """Median time of an agent that answers once, from its start to its end."""
    limits = Limits().model_dump()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "small_agent.py")
        source.write_text(SMALL_AGENT)
        spec = python_command(source)
        isolation = open_isolation(backend, [spec], lambda _: True)
        return statistics.median(_seconds(lambda: _start(isolation, spec, limits)) for _ in range(times))


def _start(isolation: Isolation, spec: LaunchSpec, limits: dict[str, Any]) -> None:
    running = isolation.start(spec, limits)
    assert running.process.communicate(b"{}\n")[0] == b"{}\n"
    running.stop()
    running.close_workspace()


def _seconds(work: Callable[[], Any]) -> float:
    start = time.monotonic()
    work()
    return time.monotonic() - start


if __name__ == "__main__":
    main()
