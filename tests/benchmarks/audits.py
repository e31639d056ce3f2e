"""What the benchmarks share: an audit in a fresh folder, and the CPU time of all that it starts."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
CORES = (os.cpu_count() or 1) + 1
"""As the Makefile has it: one more than there are processors, since agents wait for their replies."""
SHIPPED = ("Snakefile", "rules", "scripts", "profiles", "envs", "config")


@dataclass(frozen=True)
class Cost:
    """What a run took.

    Attributes:
        wall: s.
        cpu: s; without the sandboxed agents where there is no writable control group.
        peak_mb: largest resident set of any of its processes.
        printed: what it wrote to its standard output.
        of_groups: CPU time in s of each group that was made below the run's own, by name.
    """

    wall: float
    cpu: float
    peak_mb: float
    printed: str
    of_groups: dict[str, float]


def multiplied(times: int) -> dict[str, Any]:
    """Settings that multiply the counts of the default audit, and what is registered to fit them."""
    shipped = yaml.safe_load((ROOT / "config/config.yaml").read_text("utf-8"))
    counts = ("challengers", "controls", "pairs", "null_pairs")
    gate2 = {"m_max": shipped["thresholds"]["gate2"]["m_max"] * times}
    return {
        "design": {name: shipped["design"][name] * times for name in counts},
        "thresholds": {"gate2": gate2},
    }


def fresh(folder: Path, settings: dict[str, Any]) -> None:
    """Lay out what ships, with settings over the configuration."""
    for name in SHIPPED:
        source = ROOT / name
        shutil.copytree(source, folder / name) if source.is_dir() else shutil.copy2(source, folder)
    (folder / "settings.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")


def run(folder: Path, configfiles: Iterable[str], cores: int) -> Cost:
    """Run the audit in a folder to its decision."""
    return measured(command(configfiles, cores), folder)


def command(configfiles: Iterable[str], cores: int) -> list[str]:
    """What runs the audit in the working folder to its decision."""
    run_it = [sys.executable, "-m", "snakemake", "--cores", str(cores), "--quiet", "all"]
    return [*run_it, "--configfile", *configfiles, "settings.yaml"]


def measured(command: list[str], folder: Path, environment: Mapping[str, str] | None = None) -> Cost:
    """Run a command in a folder; one that fails ends the benchmark with what it printed.

    Args:
        command: the command.
        folder: its working folder.
        environment: variables that it has beyond the benchmark's; the run's control group is ``BENCHMARK_GROUP``.
    """
    with _control_group() as group, tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as complaints:
        variables = {**os.environ, "BENCHMARK_GROUP": str(group or ""), **(environment or {})}
        if group:
            command = ["sh", "-c", 'echo 0 > "$0" && exec "$@"', str(group / "cgroup.procs"), *command]
        start = time.monotonic()
        process = subprocess.Popen(command, cwd=folder, env=variables, stdout=printed, stderr=complaints)
        # of the command and all that it has waited for
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.monotonic() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        below = sorted(path for path in group.iterdir() if path.is_dir()) if group else []
        of_groups = {path.name: _used(path) for path in below}
        cpu = _used(group) if group else usage.ru_utime + usage.ru_stime
        for path in below:
            path.rmdir()
        printed.seek(0)
        text = printed.read().decode()
        if process.returncode:
            complaints.seek(0)
            raise SystemExit(text + complaints.read().decode())
    return Cost(wall, cpu, usage.ru_maxrss / 1024, text, of_groups)


# What is used inside of a sandbox is accounted to nobody outside of it, except to a control group.
USAGE = {"/sys/fs/cgroup": ("cpu.stat", 1e6), "/sys/fs/cgroup/cpuacct": ("cpuacct.usage", 1e9)}


@contextlib.contextmanager
def _control_group() -> Iterator[Path | None]:
    for root, (name, _) in USAGE.items():
        folder = Path(root, f"dcpflow-benchmark-{os.getpid()}")
        with contextlib.suppress(OSError):
            folder.mkdir()
            try:
                if (folder / name).exists():
                    yield folder
                    return
            finally:
                folder.rmdir()
    yield None


def _used(group: Path) -> float:
    name, unit = next(USAGE[str(root)] for root in group.parents if str(root) in USAGE)
    return int((group / name).read_text().split("\n")[0].split()[-1]) / unit
