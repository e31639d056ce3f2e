"""Audits through a real SLURM of one node: the same decisions, whatever is killed on the way."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import yaml

from cluster.slurm import Cluster, cluster, install, missing

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[2]
SHIPPED = ("Snakefile", "rules", "scripts", "profiles", "envs", "config")
SECRET = "NOT_FOR_ANY_JOB"
# An audit has to be quick here: short episodes in large batches, and no waiting for what a large site takes long for.
BATCHES = {"execution": {"episodes_per_job": 48}}
QUICK = ("--max-threads", "1", "--seconds-between-status-checks", "2", "--latency-wait", "5")
QUICK_PLUGIN = ("--slurm-init-seconds-before-status-checks", "2")
SMALL = {
    "task": {"settings": {"rows": 4_536}},
    "design": {"challengers": 2, "controls": 1, "pairs": 2, "null_pairs": 2, "misled_null_episodes": 0},
    "thresholds": {"gate3": {"misled_min_misses": 0}},
}
PROFILES = ("slurm", "slurm-generic")
PATIENCE = 600.0
# A job that hangs, and one that says what it was given of the environment.
HANG = "import time\ntime.sleep(3600)\n"
TELL = 'import json, os, pathlib\npathlib.Path("environment.json").write_text(json.dumps(dict(os.environ)))\n'


@dataclass(frozen=True)
class Project:
    """A folder with the workflow and one audit.

    Attributes:
        folder: where.
        cluster: where its jobs go.
        files: configuration files beside the default one.
        results: the results folder.
    """

    folder: Path
    cluster: Cluster
    files: tuple[str, ...]
    results: str = "results"

    @property
    def decision(self) -> Path:
        return self.folder / self.results / "decision.json"

    def start(self, *options: str, profile: str = "default") -> subprocess.Popen[str]:
        """Start snakemake as its user would, with a secret in the environment."""
        where = ["--cores", "2"] if profile == "default" else [*QUICK, *(QUICK_PLUGIN if profile == "slurm" else ())]
        command = [sys.executable, "-m", "snakemake", "--workflow-profile", f"profiles/{profile}", *where]
        return subprocess.Popen(
            [*command, "--configfile", "config/config.yaml", *self.files, *options],
            cwd=self.folder,
            env=self.cluster.environment | {SECRET: "s3cret"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *options: str, profile: str = "default") -> tuple[int, str]:
        """Run snakemake to its end; its exit code and what it printed."""
        process = self.start(*options, profile=profile)
        text = process.communicate(timeout=PATIENCE)[0]
        return process.returncode, text

    def finish(self, *options: str, profile: str = "default") -> bytes:
        """Run snakemake, which has to succeed; the decision."""
        code, text = self.run(*options, profile=profile)
        assert code == 0, text
        return self.decision.read_bytes()

    def before(self, script: str, program: str) -> None:
        """Let a script do something else first."""
        path = self.folder / "scripts" / script
        path.write_text(program + path.read_text(encoding="utf-8"), encoding="utf-8")

    def as_shipped(self, script: str) -> None:
        """Take that back."""
        shutil.copy2(ROOT / "scripts" / script, self.folder / "scripts")

    def copy(self, folder: Path) -> Project:
        """The whole folder once more."""
        shutil.copytree(self.folder, folder)
        return Project(folder, self.cluster, self.files, self.results)

    def jobs(self, *states: str) -> list[str]:
        """Numbers of the jobs that SLURM has for this folder."""
        told = self.cluster.ask("squeue", "--noheader", f"--states={','.join(states)}", "--format=%i %Z")
        found = [line.split(maxsplit=1) for line in told.splitlines()]
        return [number for number, folder in found if folder == str(self.folder)]

    def cancel(self) -> None:
        """Cancel all of them, and wait until nothing of them is left."""
        while jobs := self.jobs("RUNNING", "PENDING", "COMPLETING"):
            self.cluster.ask("scancel", "--full", *jobs)
            time.sleep(1)


def wait(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "what the test waits for did not happen"
        time.sleep(0.2)


def new_project(
    folder: Path, site: Cluster, *files: str, results: str = "results", **laid: dict[str, object]
) -> Project:
    folder.mkdir(parents=True)
    for name in SHIPPED:
        source = ROOT / name
        shutil.copytree(source, folder / name) if source.is_dir() else shutil.copy2(source, folder)
    for name, sections in laid.items():
        (folder / f"config/{name}.yaml").write_text(yaml.safe_dump(sections), encoding="utf-8")
    return Project(folder, site, (*files, *(f"config/{name}.yaml" for name in laid)), results)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if reason := missing():
        pytest.skip(reason)
    install()
    with cluster(tmp_path_factory.mktemp("slurm")) as up:
        yield up


@pytest.fixture(scope="module")
def default_decision(site: Cluster, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The default audit's, as it is reached without a cluster; what `make audit` has left is not run again."""
    project = new_project(tmp_path_factory.mktemp("default") / "project", site)
    for name in ("results", ".snakemake"):
        if (ROOT / "results/decision.json").exists():
            shutil.copytree(ROOT / name, project.folder / name, symlinks=True)
    return project.finish()


@pytest.fixture(scope="module")
def finished(site: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A small audit that has been run without a cluster, and lacks the scores of its controls again."""
    folder = tmp_path_factory.mktemp("small") / "project"
    project = new_project(folder, site, "config/cases/demo.yaml", results="results/cases/demo", small=SMALL)
    project.finish()
    project.decision.rename(folder / "original.json")
    (folder / project.results / "scores/controls.json").unlink()
    return project


@pytest.fixture(scope="module", autouse=True)
def out_of_time(finished: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Project, str, object]]:
    """A run whose job hangs until SLURM ends it after a minute: started first, so that nobody waits for it."""
    project = finished.copy(tmp_path_factory.mktemp("hanging") / "project")
    project.before("score_phase.py", HANG)
    process = project.start("--set-resources", "score_controls:runtime=1", profile="slurm-generic")
    yield project, "score_phase.py", process
    process.kill()
    process.wait()


def test_the_default_audit_goes_through_the_plugin_and_decides_the_same(
    site: Cluster, default_decision: bytes, tmp_path: Path
) -> None:
    project = new_project(tmp_path / "a b", site, batches=BATCHES)
    project.before("replay_channels.py", TELL)
    assert project.finish(profile="slurm") == default_decision
    given = json.loads((project.folder / "environment.json").read_text(encoding="utf-8"))
    assert SECRET not in given
    assert "s3cret" not in given.values()
    assert given["SLURM_JOB_ID"]


def test_the_default_audit_is_killed_with_all_its_jobs_and_goes_on_by_itself(
    site: Cluster, default_decision: bytes, tmp_path: Path
) -> None:
    project = new_project(tmp_path / "project", site, batches=BATCHES)
    project.before("replay_channels.py", TELL)
    process = project.start(profile="slurm-generic")
    wait(lambda: any((project.folder / "results").glob("store/*/challengers/*/*/1/record.json")))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    project.cancel()
    committed = {path: path.stat().st_ino for path in project.folder.glob("results/store/**/record.json")}
    assert project.finish(profile="slurm-generic") == default_decision
    assert committed
    assert {path: path.stat().st_ino for path in committed} == committed
    assert SECRET not in json.loads((project.folder / "environment.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("profile", PROFILES)
def test_a_job_that_fails_or_is_cancelled_ends_the_run_and_the_next_one_finishes(
    finished: Project, tmp_path: Path, profile: str
) -> None:
    project = finished.copy(tmp_path / "project")
    project.before("score_phase.py", "raise SystemExit('this job fails')\n")
    code, text = project.run(profile=profile)
    assert code == 1
    assert "this job fails" in text
    project.as_shipped("score_phase.py")
    project.before("score_phase.py", HANG)
    process = project.start(profile=profile)
    wait(lambda: project.jobs("RUNNING"))
    project.cancel()
    assert "score_controls" in process.communicate(timeout=PATIENCE)[0]
    assert process.returncode == 1
    assert not (project.folder / project.results / ".run-lock.json").exists()
    project.as_shipped("score_phase.py")
    assert project.finish(profile=profile) == (project.folder / "original.json").read_bytes()


def test_a_node_with_another_results_folder_is_told_so(finished: Project, tmp_path: Path) -> None:
    """The node's view is made by a mount that only the job has."""
    project = finished.copy(tmp_path / "project")
    away = project.folder / "away.sh"
    away.write_text(
        "#!/bin/sh\nexec setsid unshare --mount sh -c "
        f'\'mount -t tmpfs none {project.results} && sh "$0"\' "$1" >away.log 2>&1\n',
        encoding="utf-8",
    )
    away.chmod(0o755)
    (project.folder / "rules/common.smk").write_text(
        (ROOT / "rules/common.smk").read_text("utf-8").replace("NODES_SEE_WITHIN = 60", "NODES_SEE_WITHIN = 0"), "utf-8"
    )
    code, _ = project.run(
        "--cluster-generic-submit-cmd",
        "./away.sh",
        "--cluster-generic-status-cmd",
        "echo failed #",
        profile="slurm-generic",
    )
    assert code == 1
    told = (project.folder / "away.log").read_text(encoding="utf-8")
    assert f"does not see the run that submitted this job in {project.folder / project.results}" in told
    assert "All nodes have to share that folder" in told


def test_a_job_that_runs_out_of_time_ends_the_run_and_the_next_one_finishes(
    out_of_time: tuple[Project, str, subprocess.Popen[str]],
) -> None:
    project, script, process = out_of_time
    assert "score_controls" in process.communicate(timeout=PATIENCE)[0]
    assert process.returncode == 1
    states = project.cluster.ask("sacct", "--allocations", "--noheader", "--format=State", "--starttime=now-1hour")
    assert "TIMEOUT" in states
    project.as_shipped(script)
    assert project.finish(profile="slurm-generic") == (project.folder / "original.json").read_bytes()


def test_nothing_listens_beyond_the_loopback(site: Cluster) -> None:
    listening = []
    for process in psutil.process_iter(["name"]):
        if process.info["name"] == "mariadbd" or process.info["name"].startswith("slurm"):
            found = process.net_connections("tcp")
            listening += [one.laddr.ip for one in found if one.status == psutil.CONN_LISTEN]
    assert set(listening) == {"127.0.0.1"}
