"""What SIGKILL costs, whatever it hits and whenever: the same small audit, killed and resumed again and again.

    python tests/benchmarks/kill_resume.py [--kills 50] [--seed 1] [--cores 3] [--configfile FILE] [--json]

An undisturbed run comes first. Then audits in fresh folders are killed at random points, six in each, and started
again at once, until they have finished. The points are seeded and drawn over the whole run, by how many of its files
are there; one that was passed meanwhile is a random time of the start. Hit is snakemake itself, one of its jobs, or
the sandbox of an agent, whichever of them are there at that point. (An agent that dies inside of its sandbox is no kill
of ours: it could have killed itself, and that is its result.) After each audit its orphaned jobs are waited for.

Exits 1 where a decision differs from the undisturbed one, a committed record has changed, a file under its final name
is not whole, or more episodes were started again than jobs and agents were killed.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import audits
import psutil

from dcpflow.records.canonical import digest

KINDS = ("snakemake", "job", "agent")
FOURTHS = ("first", "second", "third", "last")
# fewer rows than the demo has, and more jobs
SETTINGS = {
    "task": {"settings": {"rows": 4_536}},
    "execution": {"results": "results", "episodes_per_job": 4},
}
KILLS_OF_AUDIT = 6
LOOK_SECONDS = 0.05
PATIENCE_SECONDS = 300.0
SANDBOX_SECONDS = 10.0


@dataclass
class Tally:
    """What all audits came to.

    Attributes:
        kills: by what was killed.
        when: kills by the share of all files that were there.
        audits: that ran to their end under kills.
        decisions_equal: of them, byte for byte.
        episodes: committed in them.
        started_again: claims of an episode beyond its first.
        records_changed: committed records that were not the same file with the same bytes at the end.
        not_whole: files under their final names whose bytes are a part.
        left_behind: temporary files of killed processes, which nothing reads.
        waited: orphaned jobs that were still there when their audit had ended.
        sandboxes: that were left without an agent, waiting for the half of bubblewrap that was killed as it began.
    """

    kills: Counter[str] = field(default_factory=Counter)
    when: Counter[str] = field(default_factory=Counter)
    audits: int = 0
    decisions_equal: int = 0
    episodes: int = 0
    started_again: int = 0
    records_changed: int = 0
    not_whole: int = 0
    left_behind: int = 0
    waited: int = 0
    sandboxes: int = 0

    @property
    def killed(self) -> int:
        """Kills so far."""
        return self.kills.total()

    @property
    def holds(self) -> bool:
        """Whether nothing was lost but what was in flight."""
        lost = self.audits - self.decisions_equal + self.records_changed + self.not_whole
        return not lost and self.started_again <= self.kills["job"] + self.kills["agent"]

    def document(self) -> dict[str, Any]:
        """All numbers."""
        return {
            "kills": {kind: self.kills[kind] for kind in KINDS},
            "kills_by_fourth_of_the_run": {fourth: self.when[fourth] for fourth in FOURTHS},
            "audits": self.audits,
            "decisions_equal": self.decisions_equal,
            "episodes": self.episodes,
            "episodes_started_again": self.started_again,
            "records_changed": self.records_changed,
            "files_not_whole": self.not_whole,
            "temporary_files_left_behind": self.left_behind,
            "orphaned_jobs_waited_for": self.waited,
            "empty_sandboxes_left": self.sandboxes,
            "holds": self.holds,
        }


def main() -> int:
    """Kill, resume, print, and say by the exit code whether nothing was lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cores", type=int, default=audits.CORES)
    parser.add_argument("--configfile", nargs="*", default=["config/cases/demo.yaml"], help="as for snakemake")
    parser.add_argument("--json", action="store_true", help="print all numbers as JSON")
    options = parser.parse_args()
    chance, tally = random.Random(options.seed), Tally()
    command = audits.command(options.configfile, options.cores)
    with tempfile.TemporaryDirectory() as folder:
        audits.fresh(Path(folder), SETTINGS)
        seconds = audits.measured(command, Path(folder)).wall
        undisturbed = Path(folder, "results/decision.json").read_bytes()
        files = _files(Path(folder))
    print(f"undisturbed: {seconds:.1f} s", file=sys.stderr)
    while tally.killed < options.kills:
        with tempfile.TemporaryDirectory() as folder:
            audits.fresh(Path(folder), SETTINGS)
            audit = Killed(Path(folder), command, files, chance, tally)
            points = sorted(chance.random() for _ in range(min(KILLS_OF_AUDIT, options.kills - tally.killed)))
            for point in points:
                if not audit.run(point, chance.uniform(0, seconds / 5)):
                    break
            audit.finish(undisturbed)
        print(json.dumps(tally.document()), file=sys.stderr, flush=True)
    document = tally.document()
    print(json.dumps(document) if options.json else _text(document))
    return 0 if tally.holds else 1


def _text(document: dict[str, Any]) -> str:
    def flat(value: Any) -> str:
        return ", ".join(f"{name} {n}" for name, n in value.items()) if isinstance(value, dict) else str(value)

    return "\n".join(f"{name.replace('_', ' '):27} {flat(value)}" for name, value in document.items())


class Killed:
    """One audit that is killed and resumed.

    Args:
        folder: where it is laid out.
        command: what runs it.
        files: that it has written when it is finished.
        chance: draws what is killed.
        tally: what is counted over all audits.
    """

    def __init__(self, folder: Path, command: list[str], files: int, chance: random.Random, tally: Tally) -> None:
        self.folder, self.command, self.files, self.chance, self.tally = folder, command, files, chance, tally
        self._seen: dict[Path, tuple[int, int, str]] = {}
        self._complete = False

    def run(self, point: float = 2.0, seconds: float = 0.0) -> bool:
        """Run it; False where it came to its end.

        Args:
            point: share of its files at which something is killed; above 1 for nothing.
            seconds: after which that is done where so many are there already.
        """
        passed = self._share() >= point
        with (self.folder / "output.txt").open("wb") as output:
            running = psutil.Popen(self.command, cwd=self.folder, stdout=output, stderr=subprocess.STDOUT)
            started = time.monotonic()
            killed = False
            while running.poll() is None:
                self._look()
                now = time.monotonic() - started
                if not killed and (now >= seconds if passed else self._share() >= point):
                    killed = self._kill(running)
                if now > PATIENCE_SECONDS:
                    raise SystemExit(f"it does not end:\n{self._output()}")
                time.sleep(LOOK_SECONDS)
        self._look()
        self._complete = running.returncode == 0
        if not killed and not self._complete:
            raise SystemExit(f"it failed by itself:\n{self._output()}")
        self.tally.not_whole += len(list(_not_whole(self.folder / "results")))
        return not self._complete

    def finish(self, undisturbed: bytes) -> None:
        """Run it to its end, wait for every job that a killed run has left, and count what it came to."""
        if not self._complete:
            self.run()
        left = [p for p in psutil.process_iter() if _works_in(p, self.folder)]
        jobs = [p for p in left if _name(p) != "bwrap"]
        self.tally.waited += len(jobs)
        if psutil.wait_procs(jobs, timeout=PATIENCE_SECONDS)[1]:
            raise SystemExit("an orphaned job does not end")
        for process in psutil.wait_procs(left, timeout=SANDBOX_SECONDS)[1]:
            self.tally.sandboxes += 1
            process.kill()
        results = self.folder / "results"
        self.tally.audits += 1
        self.tally.decisions_equal += (results / "decision.json").read_bytes() == undisturbed
        now = {path: _identity(path) for path in _records(self.folder)}
        self.tally.episodes += len(now)
        self.tally.records_changed += sum(now.get(path) != seen for path, seen in self._seen.items())
        self.tally.started_again += sum(len(list(path.parent.glob("holder-*.json"))) - 1 for path in now)
        self.tally.not_whole += len(list(_not_whole(results)))
        self.tally.left_behind += len([*results.rglob(".writing-*"), *results.rglob("canary-*")])

    def _share(self) -> float:
        """How much of it is done, by its files."""
        return _files(self.folder) / self.files

    def _kill(self, running: psutil.Popen) -> bool:
        """Kill one process of a kind drawn from those that are there; False where it was gone already."""
        there = {kind: found for kind, found in _victims(running).items() if found}
        if not there:
            return False
        kind, share = self.chance.choice(sorted(there)), self._share()
        with contextlib.suppress(psutil.NoSuchProcess):
            self.chance.choice(there[kind]).kill()
            self.tally.kills[kind] += 1
            self.tally.when[FOURTHS[min(3, int(4 * share))]] += 1
            return True
        return False

    def _look(self) -> None:
        """Remember each committed record as it was when it was first there."""
        for path in _records(self.folder):
            if path not in self._seen:
                self._seen[path] = _identity(path)

    def _output(self) -> str:
        return (self.folder / "output.txt").read_text(encoding="utf-8", errors="replace")


def _victims(running: psutil.Popen) -> dict[str, list[psutil.Process]]:
    """Snakemake, its jobs, and their agents' sandboxes, each as its outermost process."""
    found: dict[str, list[psutil.Process]] = {kind: [] for kind in KINDS}
    with contextlib.suppress(psutil.Error):
        below = running.children(recursive=True)
        found["snakemake"].append(psutil.Process(running.pid))
        for process in below:
            with contextlib.suppress(psutil.Error):
                if process.name() == "bwrap" and process.parent().name() != "bwrap":
                    found["agent"].append(process)
                elif _script(process) and not _script(process.parent()):
                    found["job"].append(process)
    return found


def _script(process: psutil.Process) -> bool:
    """Whether it is Python with one of the workflow's scripts; what a job forks has the same command line."""
    words = process.cmdline()
    return len(words) > 1 and words[1].startswith("scripts/")


def _name(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return str(process.name())
    return ""


def _works_in(process: psutil.Process, folder: Path) -> bool:
    with contextlib.suppress(psutil.Error):
        return Path(process.cwd()).is_relative_to(folder)
    return False


def _files(folder: Path) -> int:
    """Files of the results, but for those that are written just now."""
    return sum(1 for path in folder.glob("results/**/*") if not path.name.startswith("."))


def _records(folder: Path) -> Iterator[Path]:
    return folder.glob("results/store/*/*/*/*/*/record.json")


def _identity(path: Path) -> tuple[int, int, str]:
    """Inode, date and digest: a file that was replaced by one with the same bytes has changed, too."""
    found = path.stat()
    return found.st_ino, found.st_mtime_ns, digest(path.read_bytes())


def _not_whole(results: Path) -> Iterator[Path]:
    """Files that stand under their final names in part; a killed process may leave temporary ones only."""
    for path in results.rglob("*"):
        # a temporary file of an orphaned job may be gone by now
        with contextlib.suppress(FileNotFoundError):
            if path.is_file() and not path.name.startswith(".writing-") and not _whole(path, results):
                yield path


def _whole(path: Path, results: Path) -> bool:
    if (results / "objects") in path.parents:
        return hashlib.sha256(path.read_bytes()).hexdigest() == path.parent.name + path.name
    if path.suffix == ".json":
        with contextlib.suppress(ValueError):
            json.loads(path.read_bytes())
            return True
        return False
    if path.suffix == ".parquet":
        return path.read_bytes()[-4:] == b"PAR1"
    return True


if __name__ == "__main__":
    sys.exit(main())
