"""What the workflow tests share: one finished audit, copies of it, and real snakemake processes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from tests.workflow.warm import Started, Warm

from dcpflow.records.holders import Holder

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SHIPPED = ("Snakefile", "rules", "scripts", "profiles", "envs", "config")
DEMO = "config/cases/demo.yaml"
SMALL = "config/cases/small.yaml"
SMALL_AUDIT = {
    "task": {"settings": {"rows": 4_536}},
    "design": {"misled_null_episodes": 3},
    "thresholds": {"gate3": {"misled_min_misses": 2}},
}
FEW = {"challengers": 2, "controls": 1, "pairs": 2, "null_pairs": 2, "misled_null_episodes": 0}
FEWEST = {"design": FEW, "thresholds": {"gate3": {"misled_min_misses": 0}}}
EPISODES_OF_FEWEST = 1 + 2 + 1 + 2 * 2 + 2 * 2
CHANGE = "config/cases/change.yaml"
NONCE = "config/nonces/default.nonce"
COMMAND = re.compile(r"(rm -\S+ '.*?) and run snakemake again")
PATIENCE = 120.0
WARM = Warm()


@dataclass(frozen=True)
class Run:
    """A command that has ended: its exit code, and all that it printed."""

    code: int
    text: str

    @property
    def rules(self) -> list[str]:
        """Rules whose jobs finished, in that order."""
        found: list[str] = re.findall(r"Finished jobid: \d+ \(Rule: (\w+)\)", self.text)
        return [rule for rule in found if rule != "all"]

    @property
    def idle(self) -> bool:
        """Whether there was nothing to do."""
        return self.code == 0 and not self.rules and "Nothing to be done" in self.text

    @property
    def remedy(self) -> str:
        """The command that the first error message names."""
        found = COMMAND.search(self.complaint)
        assert found
        return found.group(1)

    @property
    def complaint(self) -> str:
        """The first line that names what is wrong and a command against it."""
        found = next((line for line in self.text.splitlines() if COMMAND.search(line)), None)
        assert found, f"no command is named:\n{self.text}"
        return found


class Running:
    """A started command."""

    def __init__(self, command: list[str], folder: Path) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SNAKEMAKE")}
        self.folder = folder
        self._output = (folder / f"output-{time.monotonic_ns()}.txt").open("w+b")
        self.process: Started | subprocess.Popen[bytes]
        if WARM.can(command, environment):
            self.process = WARM.start(command, folder, self._output.fileno(), environment)
        else:
            self.process = subprocess.Popen(
                command, cwd=folder, stdout=self._output, stderr=subprocess.STDOUT, env=environment
            )

    def ended(self) -> Run:
        """Wait for the end."""
        code = self.process.wait(timeout=PATIENCE)
        with self._output as output:
            output.seek(0)
            text = output.read().decode()
        Path(output.name).unlink()
        return Run(code, text)

    def until(self, condition: Callable[[], Any]) -> Any:
        """Watch until the condition holds while the command is running; returns what the condition gave."""
        deadline = time.monotonic() + PATIENCE
        while not (found := condition()):
            assert self.process.poll() is None, f"it ended too early:\n{self.ended().text}"
            assert time.monotonic() < deadline, "what the test waits for did not happen"
            time.sleep(0.01)
        return found

    def below(self, *words: str) -> psutil.Process | None:
        """A process started by this command, directly or not, whose command line holds these words."""
        try:
            return find(psutil.Process(self.process.pid), *words)
        except psutil.NoSuchProcess:
            return None

    def frozen(self, stage: str) -> psutil.Process | None:
        """The job in an episode of a stage, stopped while its agent is at work; to be used with until.

        The agent cannot end then, for nobody answers it.
        """
        for path in self.folder.glob(f"results/cases/demo/store/*/{stage}/*/*/*/holder-*.json"):
            if (path.parent / "record.json").exists() or not (holder := Holder.read(path)) or not holder.alive():
                continue
            job = psutil.Process(holder.pid)
            job.suspend()
            if agent_of(job):
                return job
            job.resume()
        return None


def agent_of(job: psutil.Process) -> psutil.Process | None:
    """The agent that a job has started; the sandbox around it, of which it is told first, is none."""
    agent = find(job, "-I", "/agent/index_designer.py")
    return agent if agent and agent.name() != "bwrap" else None


def find(above: psutil.Process, *words: str) -> psutil.Process | None:
    """The innermost process below another one whose command line holds these words."""
    found = None
    for process in above.children(recursive=True):
        with contextlib.suppress(psutil.Error):
            found = process if set(words) <= set(process.cmdline()) else found
    return found


class Audit:
    """The demo audit in a folder of its own, over a smaller database than `make demo` has.

    Attributes:
        original: bytes of the decision that the copied audit had.
    """

    def __init__(self, folder: Path, original: bytes = b"") -> None:
        self.folder = folder
        self.results = folder / "results/cases/demo"
        self.logs = folder / "logs/results/cases/demo"
        self.decision_path = self.results / "decision.json"
        self.original = original

    @classmethod
    def make(cls, folder: Path) -> Audit:
        """A fresh folder with what ships, and the smaller database."""
        folder.mkdir(parents=True)
        for name in SHIPPED:
            source = ROOT / name
            shutil.copytree(source, folder / name) if source.is_dir() else shutil.copy2(source, folder)
        (folder / SMALL).write_text(yaml.safe_dump(SMALL_AUDIT), encoding="utf-8")
        return cls(folder)

    def copy(self, folder: Path) -> Audit:
        """The whole folder once more, with snakemake's own records."""
        shutil.copytree(self.folder, folder, symlinks=True)
        return Audit(folder, self.decision_bytes)

    def change(self, sections: dict[str, Any]) -> None:
        """Lay changes over the demo's configuration; earlier ones are dropped."""
        path = self.folder / CHANGE
        path.unlink(missing_ok=True)
        if sections:
            path.write_text(yaml.safe_dump(sections), encoding="utf-8")

    def _command(self, *words: str) -> list[str]:
        files = [name for name in (DEMO, SMALL, CHANGE) if (self.folder / name).exists()]
        return [sys.executable, "-m", *words, "--configfile", *files]

    def start(self, *options: str, cores: int = 2) -> Running:
        """Start snakemake."""
        return Running([*self._command("snakemake", "--cores", str(cores)), *options], self.folder)

    def run(self, *options: str, cores: int = 2) -> Run:
        """Run snakemake to its end."""
        return self.start(*options, cores=cores).ended()

    def finish(self, *options: str, cores: int = 2) -> Run:
        """Run snakemake, which has to succeed."""
        run = self.run(*options, cores=cores)
        assert run.code == 0, run.text
        return run

    def dcpflow(self, *command: str) -> Run:
        """Run a dcpflow command on the audit."""
        return Running(self._command("dcpflow", *command), self.folder).ended()

    def obey(self, command: str) -> None:
        """Carry out a command that a message names, to the letter."""
        subprocess.run(command, shell=True, cwd=self.folder, check=True)

    @property
    def decision_bytes(self) -> bytes:
        return self.decision_path.read_bytes()

    @property
    def decision(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.decision_bytes)
        return found

    @property
    def store(self) -> Path:
        """The episode store of the only contract."""
        (found,) = (self.results / "store").iterdir()
        return found

    def place(self, stage: str, slot: int, arm: str) -> Path:
        """The folder of an episode's only attempt."""
        return self.store / stage / f"{slot:05d}" / arm / "1"

    def record(self, stage: str, slot: int, arm: str) -> dict[str, Any]:
        """A committed record."""
        found: dict[str, Any] = json.loads((self.place(stage, slot, arm) / "record.json").read_bytes())
        return found

    def object(self, digest: str) -> Path:
        """Where an object lies."""
        name = digest.removeprefix("sha256:")
        return self.results / "objects" / name[:2] / name[2:]

    def said(self, log: str, words: str) -> bool:
        """Whether a job has written these words into its log."""
        with contextlib.suppress(FileNotFoundError):
            return words in (self.logs / log).read_text(encoding="utf-8")
        return False

    def contents(self) -> dict[str, str]:
        """Digest of each file of the results, by its path there."""
        files = (path for path in sorted(self.results.rglob("*")) if path.is_file())
        return {str(p.relative_to(self.results)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}

    def records(self) -> dict[Path, tuple[int, int, bytes]]:
        """Inode, date and bytes of each committed record."""
        return {
            path: (path.stat().st_ino, path.stat().st_mtime_ns, path.read_bytes())
            for path in self.results.glob("store/**/record.json")
        }

    def half_written(self) -> list[Path]:
        """Temporary files that were left behind."""
        return [*self.folder.rglob(".writing-*"), *self.folder.rglob("canary-*")]


@dataclass(frozen=True)
class Finished:
    """The audit that the tests share, which nobody may change, and the run that made it."""

    audit: Audit
    run: Run


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker("workflow")


@pytest.fixture(scope="session")
def finished(made_once: Callable[..., Path]) -> Finished:
    """The shared audit, in a folder whose name is not plain."""
    audit = "sp ace Größe"

    def make(folder: Path) -> None:
        (folder / "output.txt").write_text(Audit.make(folder / audit).finish().text, encoding="utf-8")

    folder = made_once("workflow", make)
    return Finished(Audit(folder / audit), Run(0, (folder / "output.txt").read_text(encoding="utf-8")))


@pytest.fixture
def audit(finished: Finished, tmp_path: Path) -> Iterator[Audit]:
    """A copy of the finished audit, to do with as the test likes."""
    yield finished.audit.copy(tmp_path / "copy")
    for process in psutil.process_iter():
        # what a failed test has left running or stopped
        with contextlib.suppress(psutil.Error):
            if tmp_path in Path(process.cwd()).parents:
                process.kill()
