"""What tests of several kinds share: one small finished audit, and copies of it to alter."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import gc
import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import yaml

from dcpflow.episodes import sandbox
from dcpflow.records import plan
from dcpflow.records.registration import CONTRACT_PARTS
from dcpflow.stages import (
    checkpoint,
    decide,
    episodes,
    evidence,
    looks,
    packet,
    registering,
    replay,
    scoring,
    seal,
    shipped,
)
from dcpflow.stages.laboratory import Job
from dcpflow.stages.workflow import Workflow

ROOT = Path(__file__).parents[1]
SMALL_DESIGN = {
    "challengers": 6,
    "controls": 4,
    "pairs": 3,
    "null_pairs": 4,
    "misled_null_episodes": 12,
    "pair_replacements": 0,
    "null_pair_replacements": 0,
}
SMALL_TASK = {"settings": {"rows": 4_536}}
# What a workflow spreads over many jobs is one process here, whose agents can be the same user again and again.
SMALL_LIMITS = {"processes": 1024}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Runs of whole workflows first: they take longest, and what they share takes long to make."""
    items.sort(key=lambda item: item.path.parent.name != "workflow")


@dataclass(frozen=True)
class Audit:
    """An audit run in this process, stage by stage as the workflow's rules do, without a workflow engine.

    Attributes:
        results: the results folder.
        nonce_file: the sealed nonce; secret, fixed, and outside of the results.
        settings: the configuration, complete.
    """

    results: Path
    nonce_file: Path
    settings: dict[str, Any]

    @cached_property
    def workflow(self) -> Workflow:
        execution = {"results": str(self.results), "nonce_file": str(self.nonce_file)}
        return Workflow.from_mapping({**self.settings, "execution": self.settings["execution"] | execution})

    @property
    def job(self) -> Job:
        """A new job: nothing that an earlier one read is remembered."""
        return Job(self.results, self.nonce_file, "")

    @property
    def receipts(self) -> list[Path]:
        return [Path(path) for path in self.workflow.all_receipts]

    @property
    def scores(self) -> dict[str, Path]:
        return {Path(path).stem: Path(path) for path in self.workflow.score_files}

    def with_settings(self, **sections: dict[str, Any]) -> Audit:
        """The same folder under a configuration in which some keys differ."""
        return replace(self, settings=merged(self.settings, sections))

    def at(self, results: Path) -> Audit:
        """The same audit in a copied results folder."""
        return replace(self, results=results)

    def section(self, name: str) -> dict[str, Any]:
        """A registered section as rules hand it to their scripts: through JSON."""
        found: dict[str, Any] = json.loads(self.workflow.section(name))
        return found

    def seal(self) -> None:
        seal.seal_task(self.results, self.section("task"), self.nonce_file, self.section("limits"), None)

    def freeze_contract(self) -> None:
        sections = {name: self.section(name) for name in CONTRACT_PARTS}
        registering.freeze_contract(self.results, sections, self.workflow.artifact_file)

    def register(self) -> None:
        strata = json.loads(self.workflow.registered_strata)
        design, thresholds = self.section("design"), self.section("thresholds")
        registering.register(self.results, design, thresholds, strata, self.workflow.registry)

    def run(self, stage: str, job: Job | None = None) -> None:
        """Run a stage's batches; what stands in the episode store already is only listed again."""
        job, audit = job or self.job, self.workflow
        if stage in plan.LOOKS and len(plan.looks(audit.parts["design"], stage)) > 1:
            self.run_looks(job, stage)
            return
        for number, path in enumerate(map(Path, audit.receipts(stage)), 1):
            batch = path.stem.removeprefix("b")
            if stage.endswith("_replacements"):
                earlier = audit.receipts(stage.replace("_replacements", "s")) + audit.receipts(stage)[: number - 1]
                episodes.run_replacement(job, stage, number, [Path(name) for name in earlier], path)
            else:
                stratum = audit.config.design.stratum if stage == "challengers" else ""
                episodes.run_slots(job, stage, audit.first(batch), audit.last(batch), path, stratum)

    def run_looks(self, job: Job, stage: str) -> None:
        """Run a stage look by look, each scored and read before the next begins."""
        self.score("target")
        for number in range(1, len(plan.looks(self.workflow.parts["design"], stage)) + 1):
            self.run_look(job, stage, number)
            self.score(plan.look_phase(stage, number))
            self.read_look(stage, number)

    def run_look(self, job: Job, stage: str, number: int) -> None:
        audit = self.workflow
        after = job.layout.look(plan.look_phase(stage, number - 1)) if number > 1 else None
        stratum = audit.config.design.stratum if stage == plan.CHALLENGERS else ""
        for path in map(Path, audit.look_receipts(stage, number)):
            first, last = (find(path.stem.removeprefix("b")) for find in (audit.first, audit.last))
            episodes.run_slots(job, stage, first, last, path, stratum, after)

    def read_look(self, stage: str, number: int) -> None:
        phases, layout = self.workflow.seen_by(stage, number), self.job.layout
        receipts = [Path(path) for phase in phases for path in self.workflow.phase_receipts(phase)]
        scores = {phase: layout.scores(phase) for phase in phases}
        looks.read_look(self.job, stage, receipts, scores, layout.look(phases[-1]))

    def freeze_packet(self) -> None:
        for path in self.workflow.packet:
            packet.freeze(self.job, Path(path))

    def select_checkpoint(self) -> None:
        checkpoint.select(self.job, self.job.layout.checkpoint)

    def score(self, phase: str) -> None:
        receipts = [Path(path) for path in self.workflow.phase_receipts(phase)]
        scoring.score_phase(self.job, phase, receipts, self.job.layout.scores(phase))

    def replay(self, phase: str) -> None:
        receipts = [Path(path) for path in self.workflow.replayed_receipts(phase)]
        replay.replay_channels(self.job.of(plan.stratum_of(phase)), receipts, self.job.layout.replay(phase))

    def run_strata(self) -> None:
        """Run and score the challengers of every stratum."""
        for name, stratum in self.workflow.strata.items():
            paths = [Path(path) for path in stratum.receipts("challengers")]
            for path in paths:
                batch = path.stem.removeprefix("b")
                episodes.run_slots(self.job, "challengers", stratum.first(batch), stratum.last(batch), path, name)
            output = self.job.layout.scores(f"challengers/{name}")
            scoring.score_phase(self.job.of(name), "challengers", paths, output)
            self.replay(f"challengers/{name}")

    def add_policies(self) -> None:
        """Register the configuration in a finished audit, run and score its further neutral policies, and decide."""
        self.register()
        for stage in self.workflow.policies:
            self.run(stage)
            self.replay(stage)
            self.score(stage)
        self.tabulate()
        self.decide()

    def tabulate(self) -> None:
        evidence.write_evidence(self.job, self.receipts, self.scores)

    def decide(self) -> None:
        decide.decide(self.results, self.receipts, self.scores, self.workflow.registry)

    def conclude(self, *phases: str) -> None:
        """All that follows once every episode stands: replay and scores, of some phases or all, tables, decision."""
        for phase in phases or self.workflow.phases:
            self.replay(phase)
            self.score(phase)
        self.tabulate()
        self.decide()

    def run_all(self) -> None:
        """The whole audit."""
        self.seal()
        self.freeze_contract()
        self.register()
        self.run("target")
        self.freeze_packet()
        if "target" in self.workflow.stages:
            self.select_checkpoint()
        job = self.job
        for stage in self.workflow.stages:
            if stage != "target":
                self.run(stage, job)
        self.run_strata()
        self.conclude()


def merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Key by key, as configuration files are merged."""
    result = dict(old)
    for key, value in new.items():
        both = isinstance(value, dict) and isinstance(old.get(key), dict)
        result[key] = merged(old[key], value) if both else value
    return result


REAL_DATA = {"yacht": "yacht_hydrodynamics.csv", "ionosphere": "ionosphere.csv", "dry-bean": "dry_bean.csv.gz"}


@pytest.fixture(scope="session")
def data_file() -> Callable[[str], Path]:
    """Where a real data set, by its name, lies beside this checkout; without the folder the test is skipped."""

    def find(name: str) -> Path:
        folder = ROOT.parent / "shared" / "data"
        if not folder.is_dir():
            pytest.skip("there is no folder with real data beside this checkout")
        return folder / REAL_DATA[name]

    return find


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Two more than there are processors: many tests wait for a process or a limit most of their time."""
    return (os.cpu_count() or 1) + 2


@pytest.fixture(scope="session")
def default_settings() -> dict[str, Any]:
    """The shipped default configuration."""
    settings: dict[str, Any] = yaml.safe_load((ROOT / "config" / "config.yaml").read_text(encoding="utf-8"))
    return settings


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Makes what is shared: the first of pytest's processes that needs it makes it, the others wait for it.

    ``made_once(name, make)`` returns the folder that ``make(folder)`` has filled.
    """
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent

    def made(name: str, make: Callable[[Path], None]) -> Path:
        folder, done = shared / name, shared / f"{name}.done"
        with (shared / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not done.exists():
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                make(folder)
                done.touch()
        return folder

    return made


@pytest.fixture(scope="session")
def installed(made_once: Callable[..., Path]) -> Path:
    """What a wheel of this checkout installs, as a folder for ``PYTHONPATH``: without the checkout around it."""
    return made_once("wheel", _install) / "installed"


def _install(folder: Path) -> None:
    """By way of the source distribution, which has to hold all that a wheel is made of."""
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "src", *shipped.NAMES):
        (source / name).parent.mkdir(exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy2(ROOT / name, source / name)

    def build(what: str, where: Path) -> Path:
        backend = f"from setuptools.build_meta import *; build_{what}({str(folder)!r})"
        subprocess.run([sys.executable, "-c", backend], cwd=where, check=True, capture_output=True)
        return next(folder.glob("*.tar.gz" if what == "sdist" else "*.whl"))

    shutil.unpack_archive(build("sdist", source), folder / "unpacked")
    (unpacked,) = (folder / "unpacked").iterdir()
    shutil.unpack_archive(build("wheel", unpacked), folder / "installed", "zip")


@pytest.fixture(scope="session")
def new_audit(default_settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Audit]:
    """Makes an audit that nothing was done for yet: a small table, a small design, a folder of its own.

    Keyword arguments are configuration sections with what differs from the shipped configuration. The nonce is
    always the same, so that a test sees the same episodes whenever it runs.
    """

    def make(**sections: dict[str, Any]) -> Audit:
        return _audit(tmp_path_factory.mktemp("audit"), default_settings, sections)

    return make


def _audit(folder: Path, settings: dict[str, Any], sections: dict[str, Any]) -> Audit:
    nonce_file = folder / "audit.nonce"
    if not nonce_file.exists():
        nonce_file.write_text(hashlib.sha256(b"the nonce of the tests").hexdigest() + "\n")
        nonce_file.chmod(0o600)
    # a registry is for the tests that are about one
    alone = {"execution": {"registry": "none"}}
    small = merged(settings, {"task": SMALL_TASK, "design": SMALL_DESIGN, "limits": SMALL_LIMITS, **alone})
    return Audit(folder / "results", nonce_file, merged(small, sections))


@pytest.fixture(scope="session")
def backend() -> str:
    """How agents can be isolated on this machine: ``bubblewrap`` where any sandbox can be had, else ``none``.

    Whether ours starts and holds is not asked here: one that does not must fail tests, not skip them.
    """
    simplest = ["--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "/bin/true"]
    for program in sandbox.programs():
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            if (
                subprocess.run([program.binary, *simplest], capture_output=True, timeout=30, check=False).returncode
                == 0
            ):
                return "bubblewrap"
    return "none"


@pytest.fixture(scope="session")
def finished_audit(made_once: Callable[..., Path], default_settings: dict[str, Any], backend: str) -> Audit:
    """A finished small audit, from the seal to the decision. Do not alter it: alter an ``audit_copy``.

    6 challengers, 4 positive controls, 3 pairs, 4 null pairs and 12 misled null episodes of the built-in agent, in
    a sandbox where this machine has one: too few to certify anything, so it ends inconclusive. It takes some seconds,
    once in a test session. ``finished_audit.results`` is the folder, ``finished_audit.job`` opens it,
    ``finished_audit.receipts`` and ``.scores`` name what the workflow would declare to ``decide``.
    """
    isolated = {"isolation": {"backend": backend}}
    folder = made_once("audit", lambda folder: _audit(folder, default_settings, isolated).run_all())
    return _audit(folder, default_settings, isolated)


@pytest.fixture(scope="session")
def stratified_audit(made_once: Callable[..., Path], finished_audit: Audit) -> Audit:
    """The finished small audit with three challengers of the stratum ``strong`` added to it. Do not alter it."""
    stratum = {"limits": {"experiments": 6}, "challengers": 3, "alpha": 0.1}
    audit = finished_audit.with_settings(strata={"strong": stratum})

    def make(folder: Path) -> None:
        shutil.copytree(finished_audit.results, folder / "results")
        added = audit.at(folder / "results")
        added.register()
        added.run_strata()
        added.tabulate()
        added.decide()

    return audit.at(made_once("stratified", make) / "results")


@pytest.fixture(scope="session")
def audit_of_policies(made_once: Callable[..., Path], finished_audit: Audit) -> Audit:
    """The finished small audit with pairs of two further neutral policies added to it. Do not alter it."""
    further = {"neutral_policies": ["proposed_sham", "reference_null", "lagged_sham"]}
    audit = finished_audit.with_settings(design={**further, "neutral_policy_pairs": {"lagged_sham": 2}})

    def make(folder: Path) -> None:
        shutil.copytree(finished_audit.results, folder / "results")
        audit.at(folder / "results").add_policies()

    return audit.at(made_once("policies", make) / "results")


@pytest.fixture
def audit_copy(finished_audit: Audit, _mended_copy: MendedCopy) -> Iterator[Audit]:
    """A copy of the finished audit that the test may alter in any way; it is mended behind the test."""
    yield finished_audit.at(_mended_copy.folder)
    _mended_copy.mend()


@pytest.fixture(scope="session")
def _mended_copy(finished_audit: Audit, tmp_path_factory: pytest.TempPathFactory) -> MendedCopy:
    return MendedCopy(finished_audit.results, tmp_path_factory.mktemp("copy") / "results")


class MendedCopy:
    """A copied folder that is brought back to its original; cheaper than one copy of hundreds of files a test."""

    def __init__(self, original: Path, folder: Path) -> None:
        self.folder = Path(shutil.copytree(original, folder))
        self._original = original
        self._whole = self._state()

    def mend(self) -> None:
        """Remove what was added and restore what was changed or removed."""
        found = self._state()
        for name in sorted(found.keys() - self._whole.keys(), reverse=True):
            path = self.folder / name
            path.rmdir() if stat.S_ISDIR(found[name][0]) else path.unlink()
        for name in sorted(self._whole):
            if found.get(name) == self._whole[name]:
                continue
            source, path = self._original / name, self.folder / name
            if source.is_dir():
                path.mkdir(exist_ok=True)
                shutil.copystat(source, path)
            else:
                path.unlink(missing_ok=True)
                shutil.copy2(source, path)
            self._whole[name] = _known_by(path)

    def _state(self) -> dict[str, tuple[int, ...]]:
        return {str(path.relative_to(self.folder)): _known_by(path) for path in sorted(self.folder.rglob("*"))}


def _known_by(path: Path) -> tuple[int, ...]:
    """By what an altered file is noticed; of a folder the mode alone, since its entries are looked at themselves."""
    found = path.lstat()
    if stat.S_ISDIR(found.st_mode):
        return (found.st_mode,)
    return (found.st_mode, found.st_ino, found.st_size, found.st_mtime_ns)


@pytest.fixture(scope="session")
def run_unprivileged() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs this environment's Python as an ordinary user, also where the tests run as root.

    As root, the process gets a mount namespace of its own, in which the interpreter and this checkout can be reached
    although they may lie below a closed folder such as ``/root``, and then the uid of nobody.
    """

    def run(arguments: Sequence[str], timeout: float = 60) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            env={"PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1", "DCPFLOW_TESTS_NESTED": "1"},
            cwd=ROOT,
            check=False,
            capture_output=True,
            text=True,
            timeout=timeout,
            preexec_fn=(lambda: become(NOBODY)) if os.geteuid() == 0 else None,
        )

    return run


NOBODY = 65534
CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE = 0x20000, 0x1000, 0x4000, 0x40000


def become(uid: int, *paths: Path) -> None:
    """In a child of root's: become an ordinary user who can reach the interpreter, this checkout and these paths."""
    here = Path.cwd()
    _open_the_way_to([Path(sys.base_prefix), Path(sys.prefix), ROOT, *paths])
    os.chdir(here)
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)


def _open_the_way_to(paths: Sequence[Path]) -> None:
    """Cover each folder that others cannot traverse by an empty one that holds nothing but these paths."""
    libc = ctypes.CDLL(None, use_errno=True)

    def mount(source: Path | str, target: Path | str, kind: str | None, flags: int, data: str | None = None) -> None:
        words = [None if word is None else str(word).encode() for word in (source, target, kind, data)]
        if libc.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3]):
            raise OSError(ctypes.get_errno(), f"mount {target}")

    if libc.unshare(CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "unshare")
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    closed: dict[Path, list[Path]] = {}
    for path in dict.fromkeys(paths):
        barred = next((folder for folder in reversed(path.parents) if not folder.stat().st_mode & 0o001), None)
        if barred is not None:
            closed.setdefault(barred, []).append(path)
    stage = Path("/mnt")
    mount("tmpfs", stage, "tmpfs", 0, "mode=0755")
    kept = []
    for path in (path for group in closed.values() for path in group):
        place = stage / str(len(kept))
        place.mkdir()
        mount(path, place, None, MS_BIND | MS_REC)
        kept.append((place, path))
    for folder in closed:
        mount("tmpfs", folder, "tmpfs", 0, "mode=0755")
    for place, path in kept:
        path.mkdir(parents=True, exist_ok=True, mode=0o755)
        mount(place, path, None, MS_BIND | MS_REC)


def pytest_collection_finish() -> None:
    """Thousands of collected tests live to the end: the garbage collector need not look at them again and again."""
    gc.collect()
    gc.freeze()
