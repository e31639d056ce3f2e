"""What a user meets before the first audit: the lock, the environment, and make from a bare checkout."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from dcpflow.stages import shipped

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
LOCK = (ROOT / "requirements.lock").read_text("utf-8")
PLATFORMS = [(system, python) for system in ("linux", "darwin") for python in ("3.11", "3.12", "3.13")]


def locked() -> dict[str, tuple[Requirement, list[str]]]:
    """Each package of the lock: its requirement, and the lines of its hashes."""
    entries = re.split(r"\n(?=[a-z])", re.sub(r"^#.*\n", "", LOCK, flags=re.MULTILINE).strip())
    packages = {}
    for entry in entries:
        requirement, *hashes = (part.strip() for part in entry.split("\\\n"))
        parsed = Requirement(requirement)
        packages[canonicalize_name(parsed.name)] = (parsed, hashes)
    return packages


def required() -> Iterator[Requirement]:
    project = PROJECT["project"]
    groups = (
        project["dependencies"],
        project["optional-dependencies"]["test"],
        PROJECT["dependency-groups"]["build"],
    )
    for group in groups:
        yield from map(Requirement, group)


# --- the lock ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("requirement", list(required()), ids=str)
def test_lock_satisfies_the_project(requirement: Requirement) -> None:
    pinned, _ = locked()[canonicalize_name(requirement.name)]
    (pin,) = pinned.specifier
    assert pin.operator == "=="
    assert requirement.specifier.contains(pin.version, prereleases=True)
    for system, python in PLATFORMS:
        environment = {**default_environment(), "sys_platform": system, "python_version": python}
        wanted = requirement.marker is None or requirement.marker.evaluate(environment)
        assert (pinned.marker is None or pinned.marker.evaluate(environment)) >= wanted, (system, python)


def test_every_package_of_the_lock_is_pinned_and_hashed() -> None:
    packages = locked()
    assert len(packages) > 50
    for name, (requirement, hashes) in packages.items():
        assert [s.operator for s in requirement.specifier] == ["=="], name
        assert hashes and all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", line) for line in hashes), name


def test_lock_names_no_host_index_or_folder() -> None:
    assert not re.search(r"://|--(extra-)?index|find-links|trusted|^-|/(home|root|work|tmp)\b", LOCK, re.MULTILINE)


def test_setuptools_can_be_cut_out_of_the_lock() -> None:
    # as the Makefile does it, to have it before the packages that are built
    cut = subprocess.run(
        ["sed", "-n", r"/^setuptools==/,/[^\\]$/p", "requirements.lock"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert cut.startswith("setuptools==")
    assert len(re.findall(r"==", cut)) == 1 and "--hash=sha256:" in cut


def test_conda_environment_has_the_versions_of_the_lock() -> None:
    environment = yaml.safe_load((ROOT / "envs/dcpflow.yaml").read_text("utf-8"))
    pins = [Requirement(line) for line in environment["dependencies"][-1]["pip"]]
    packages = locked()
    for pin in pins:
        assert pin.specifier == packages[canonicalize_name(pin.name)][0].specifier, pin
    runtime = {canonicalize_name(Requirement(line).name) for line in PROJECT["project"]["dependencies"]}
    assert {canonicalize_name(pin.name) for pin in pins} >= runtime - {"snakemake"}


# --- the wheel ---------------------------------------------------------------------------------------------


def test_the_wheel_carries_the_workflow_byte_for_byte_and_nothing_else_of_the_checkout(installed: Path) -> None:
    carried = installed / "dcpflow" / shipped.CARRIED
    found = {path.relative_to(carried).as_posix(): path.read_bytes() for path in carried.rglob("*") if path.is_file()}
    assert found == {name: path.read_bytes() for name, path in shipped.files(ROOT).items()}
    assert {"Snakefile", "rules/common.smk", "scripts/decide.py", "profiles/default/profile.yaml"} <= found.keys()
    assert {path.name.partition("-")[0] for path in installed.iterdir()} == {"dcpflow"}


def test_the_wheel_has_every_file_of_the_library(installed: Path) -> None:
    """Templates, schemas, pages, tables: what is no module is easily left out."""
    library = ROOT / "src" / "dcpflow"
    ours = {path.relative_to(library) for path in library.rglob("*") if path.is_file()}
    ours = {path for path in ours if "__pycache__" not in path.parts}
    assert {path for path in ours if not (installed / "dcpflow" / path).is_file()} == set()


def test_the_checkout_has_one_copy_of_the_workflow() -> None:
    assert shipped.root() == ROOT
    assert not (ROOT / "src" / "dcpflow" / shipped.CARRIED).exists()


# --- the profile -------------------------------------------------------------------------------------------


def test_default_profile_has_known_options_and_no_site_settings() -> None:
    from snakemake.cli import get_argument_parser

    profile = yaml.safe_load((ROOT / "profiles/default/profile.yaml").read_text("utf-8"))
    parser = get_argument_parser()
    assert {f"--{name}" for name in profile} <= set(parser._option_string_actions)
    assert not set(profile) & {"cores", "jobs", "executor", "config", "configfile", "default-resources"}
    # rules/common.smk takes what the profile says for no limit at all
    assert f"NO_LIMIT = {int(profile['max-jobs-per-timespan'].removesuffix('/1s')):_}\n" in (
        ROOT / "rules/common.smk"
    ).read_text("utf-8")


CLUSTERS = {"slurm", "slurm-generic", "kubernetes", "htcondor"}


def test_there_is_a_profile_for_each_cluster_and_no_other() -> None:
    assert {path.name for path in (ROOT / "profiles").iterdir()} == {"default", *CLUSTERS}


@pytest.mark.parametrize("name", sorted(CLUSTERS))
def test_the_profile_of_a_cluster_repeats_the_default_one_and_says_what_a_job_may_take(name: str) -> None:
    """A workflow profile that is named takes the place of the default one."""
    default, profile = (
        yaml.safe_load((ROOT / f"profiles/{one}/profile.yaml").read_text("utf-8")) for one in ("default", name)
    )
    assert default.items() <= profile.items()
    resources = profile["default-resources"]
    # snakemake itself takes 150 MB in each job
    assert resources["mem_mb"] >= 200
    assert resources["runtime"] > 0
    assert {"executor", "jobs", "local-cores", "latency-wait"} <= profile.keys()
    assert not set(profile) & {"config", "configfile", "cores"}


@pytest.mark.parametrize("name", ["slurm-generic", "kubernetes"])
def test_commands_of_a_profile_need_no_executable_file(name: str) -> None:
    """A project that `dcpflow init` writes has none."""
    profile = yaml.safe_load((ROOT / f"profiles/{name}/profile.yaml").read_text("utf-8"))
    interpreter, script = profile["cluster-generic-status-cmd"].split()
    assert interpreter == "sh"
    assert (ROOT / script).is_file()


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("COMPLETED", "success"),
        ("RUNNING", "running"),
        ("PENDING", "running"),
        ("COMPLETING", "running"),
        ("", "running"),
        ("TIMEOUT", "failed"),
        ("FAILED", "failed"),
        ("CANCELLED by 0", "failed"),
        ("NODE_FAIL", "failed"),
        ("OUT_OF_MEMORY", "failed"),
        ("PREEMPTED", "failed"),
    ],
)
def test_what_has_become_of_a_job_of_slurm_is_judged_by_its_state(tmp_path: Path, state: str, expected: str) -> None:
    program(tmp_path / "sacct", f"test -n '{state}' && echo '{state}'")
    program(tmp_path / "scontrol", "exit 1")
    assert status_of("slurm-generic", tmp_path) == expected


def test_where_slurm_keeps_no_accounts_a_job_s_state_is_what_the_controller_says(tmp_path: Path) -> None:
    program(tmp_path / "sacct", "exit 1")
    program(tmp_path / "scontrol", "echo 'JobId=7 JobName=dcpflow JobState=TIMEOUT Reason=TimeLimit'")
    assert status_of("slurm-generic", tmp_path) == "failed"


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ("slurm_load_jobs error: Invalid job id specified", "failed"),
        ("slurm_load_jobs error: Unable to contact slurm controller (connect failure)", "running"),
    ],
)
def test_a_job_that_slurm_has_forgotten_is_not_waited_for_and_one_that_it_is_silent_about_is(
    tmp_path: Path, told: str, expected: str
) -> None:
    program(tmp_path / "sacct", "exit 1")
    program(tmp_path / "scontrol", f"echo '{told}' >&2; exit 1")
    assert status_of("slurm-generic", tmp_path) == expected


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ("echo 'SuccessCriteriaMet Complete '", "success"),
        ("echo 'FailureTarget Failed '", "failed"),
        ("echo ''", "running"),
        ("echo 'Error from server (NotFound): jobs.batch \"7\" not found' >&2; exit 1", "failed"),
        ("echo 'Unable to connect to the server' >&2; exit 1", "running"),
        ("echo 'error: You must be logged in to the server (Unauthorized)' >&2; exit 1", "failed"),
        ("echo 'Error from server (Forbidden): jobs.batch \"7\" is forbidden' >&2; exit 1", "failed"),
        ("echo 'status.sh: 5: kubectl: not found' >&2; exit 127", "failed"),
    ],
)
def test_what_has_become_of_a_job_of_kubernetes(tmp_path: Path, told: str, expected: str) -> None:
    program(tmp_path / "kubectl", told)
    assert status_of("kubernetes", tmp_path) == expected


def status_of(profile: str, programs: Path) -> str:
    """What the profile's script says, with these programs in place of the cluster's."""
    environment = {"PATH": f"{programs}:{os.environ['PATH']}"}
    command = ["sh", str(ROOT / f"profiles/{profile}/status.sh"), "7"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()


def test_a_job_of_kubernetes_gets_the_shared_volume_one_try_and_nothing_of_the_environment(tmp_path: Path) -> None:
    program(tmp_path / "kubectl", f"cat >'{tmp_path}/job.json'; echo name-of-the-job")
    options = [
        "--image=image",
        "--claim=claim",
        f"--mount={tmp_path}",
        "--cpus=2",
        "--mem-mb=700",
        "--minutes=5",
        "job.sh",
    ]
    command = [sys.executable, str(ROOT / "profiles/kubernetes/submit.py"), *options]
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SECRET": "s3cret"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "name-of-the-job"
    text = (tmp_path / "job.json").read_text("utf-8")
    assert "s3cret" not in text
    job = json.loads(text)["spec"]
    (container,) = job["template"]["spec"]["containers"]
    assert job["backoffLimit"] == 0
    assert job["template"]["spec"]["activeDeadlineSeconds"] == 300
    assert "activeDeadlineSeconds" not in job, "the time that it waits for a node is not its own"
    assert container["volumeMounts"] == [{"name": "shared", "mountPath": str(tmp_path)}]
    assert container["workingDir"] == str(tmp_path)
    assert container["resources"]["requests"] == {"cpu": "2", "memory": "700M"}
    elsewhere = subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True, check=False)
    assert elsewhere.returncode == 1
    assert "is not on the shared volume" in elsewhere.stderr


# --- make --------------------------------------------------------------------------------------------------


def program(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The files that make reads, in a folder with a blank and an umlaut in its name."""
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    folder = tmp_path / "sp ace Größe"
    folder.mkdir()
    for name in ("Makefile", "requirements.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    return folder


@pytest.fixture
def ready(checkout: Path) -> Path:
    """A checkout whose environment is up to date; its programs say how they are called."""
    say = 'for a in "$@"; do printf "[%s]" "$a"; done; echo " PYTHONPATH=$PYTHONPATH VIRTUAL_ENV=$VIRTUAL_ENV $PATH"'
    for name in ("python", "dcpflow", "snakemake", "snakefmt", "ruff", "mypy"):
        program(checkout / ".venv/bin" / name, f'printf "{name} "; {say}')
    stamp = 'printf "%s" "$(cat requirements.lock pyproject.toml | cksum) $PWD" >.venv/dcpflow-stamp'
    subprocess.run(["sh", "-c", stamp], cwd=checkout, check=True)
    return checkout


def make(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("MAKE") and k not in ("CORES", "ISOLATION")}
    return subprocess.run(
        ["make", "-C", str(folder), "--no-print-directory", *arguments],
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_audit_shows_what_is_ahead_then_runs_then_shows_the_decision(ready: Path) -> None:
    run = make(ready, "audit", "CORES=2", PYTHONPATH="/elsewhere", VIRTUAL_ENV="/elsewhere")
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert [line.split(" PYTHONPATH=")[0] for line in lines] == [
        "dcpflow [preflight][--cores][2]",
        "snakemake [all][report][--cores][2]",
        "dcpflow [show]",
    ]
    for line in lines:
        assert f"PYTHONPATH= VIRTUAL_ENV= {ready}/.venv/bin:" in line


def test_choices_reach_all_three_programs_alike(ready: Path) -> None:
    run = make(ready, "audit", "ISOLATION=none", "CONFIG=config/my case.yaml")
    cores = (os.cpu_count() or 1) + 1
    options = "[--configfile][config/my case.yaml][--config][isolation={backend: none}]"
    assert [line.split(" PYTHONPATH=")[0] for line in run.stdout.splitlines()] == [
        f"dcpflow [preflight][--cores][{cores}]{options}",
        f"snakemake [all][report][--cores][{cores}]{options}",
        f"dcpflow [show]{options}",
    ]


def test_demo_is_the_audit_with_its_case(ready: Path) -> None:
    run = make(ready, "demo")
    assert run.stdout.count("[--configfile][config/cases/demo.yaml]") == 3


def test_a_failed_preflight_stops_before_anything_runs(ready: Path) -> None:
    program(ready / ".venv/bin/dcpflow", "exit 1")
    run = make(ready, "audit")
    assert run.returncode != 0
    assert "snakemake" not in run.stdout


def test_clean_keeps_results(ready: Path) -> None:
    kept = ready / "results/store/record.json"
    for folder in ("results/store", ".snakemake", "src/dcpflow/__pycache__", "tests", "scripts"):
        (ready / folder).mkdir(parents=True, exist_ok=True)
    kept.write_text("{}")
    assert make(ready, "clean").returncode == 0
    assert kept.exists() and (ready / ".snakemake").exists()
    assert not (ready / ".venv").exists() and not (ready / "src/dcpflow/__pycache__").exists()


@pytest.mark.parametrize("arguments", [[], ["PYTHON=./old python"]])
def test_an_old_python_is_named(checkout: Path, arguments: list[str]) -> None:
    # what the shell finds first, or what the user names
    old = 'if [ "$1" = --version ]; then echo Python 3.9.2; else exit 1; fi'
    for name in ("python3", "python3.11", "python3.12", "python3.13", "python3.14"):
        program(checkout / "bin" / name, old)
    program(checkout / "old python", old)
    run = make(checkout, "environment", *arguments, PATH=f"{checkout}/bin:/usr/bin:/bin")
    assert run.returncode != 0
    assert "Python 3.11 or newer is needed" in run.stderr and "Python 3.9.2" in run.stderr
    assert "make PYTHON=" in run.stderr


def test_a_missing_venv_module_is_named_with_its_package(checkout: Path) -> None:
    real = shutil.which("python3")
    body = f'case "$2" in *ensurepip*) exit 1;; *realpath*) echo "$0";; *) exec "{real}" "$@";; esac'
    python = program(checkout / "python3", body)
    run = make(checkout, "environment", f"PYTHON={python}")
    assert run.returncode != 0
    assert re.search(r"sudo apt-get install python3\.\d+-venv", run.stderr)
    assert not (checkout / ".venv").exists()


def test_a_moved_checkout_and_a_new_lock_are_noticed(ready: Path) -> None:
    refuse = program(ready / "no python", "exit 1")
    current = make(ready, "environment", f"PYTHON={refuse}")
    assert (current.returncode, current.stdout) == (0, "")
    moved = ready.rename(ready.parent / "moved")
    assert make(moved, "environment", f"PYTHON={moved}/no python").returncode != 0
    back = moved.rename(ready)
    with (back / "requirements.lock").open("a") as lock:
        lock.write("# changed\n")
    assert "installing requirements.lock" in make(back, "environment").stdout


def test_ci_checks_first_and_ends_with_the_tests(tmp_path: Path) -> None:
    (tmp_path / "clone/.ci").mkdir(parents=True)
    shutil.copy(ROOT / ".ci/run", tmp_path / "clone/.ci/run")
    program(tmp_path / "bin/make", 'echo "make $* in ${PWD##*/}"; test "$1" != "$BROKEN"')
    environment = {**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}

    def run(broken: str) -> tuple[int, list[str]]:
        done = subprocess.run(
            ["bash", "clone/.ci/run"],
            cwd=tmp_path,
            env={**environment, "BROKEN": broken},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout.splitlines()

    code, said = run("")
    assert code == 0
    assert [line for line in said if "SLURM" not in line] == [
        "make check in clone",
        "make demo in clone",
        "make test in clone",
    ]
    assert any(line.startswith("left out: audits through SLURM (") for line in said), "there is no environment"
    assert run("check")[0] != 0
    assert run("test")[0] != 0
