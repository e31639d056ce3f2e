"""What the benchmarks share: an audit in a fresh folder, and the CPU time of all that it starts."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
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
    """What a run took, in seconds; CPU time without the sandboxed agents where there is no writable control group."""

    wall: float
    cpu: float


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


def measured(command: list[str], folder: Path) -> Cost:
    """Run a command in a folder; one that fails ends the benchmark with what it printed."""
    before, start = os.times(), time.monotonic()
    with _control_group() as group:
        if group:
            command = ["sh", "-c", 'echo 0 > "$0" && exec "$@"', str(group / "cgroup.procs"), *command]
        ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        wall, after = time.monotonic() - start, os.times()
        cpu = _used(group) if group else sum(after[2:4]) - sum(before[2:4])
    if ended.returncode:
        raise SystemExit(ended.stdout + ended.stderr)
    return Cost(wall, cpu)


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
    name, unit = USAGE[str(group.parent)]
    return int((group / name).read_text().split("\n")[0].split()[-1]) / unit
