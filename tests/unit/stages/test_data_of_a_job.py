"""A task on real data: a job refuses other data and other libraries, and a small audit of it can be scored again."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dcpflow.errors import UsageError
from dcpflow.stages import scoring, seal
from dcpflow.stages.laboratory import Job
from dcpflow.stages.verify import verify
from dcpflow.tasks import models

if TYPE_CHECKING:
    from tests.conftest import Audit

Find = Callable[[str], Path]
YACHT = {"name": "yacht", "settings": {"rows": 100, "held_out": 40}}
BUYER = {"name": "label_buyer", "model_id": "dcpflow-label-buyer-1"}


@pytest.fixture(scope="module")
def registered(new_audit: Callable[..., Audit], data_file: Find) -> Audit:
    """A registered audit of the yacht task, nothing of it run."""
    audit = new_audit(task=YACHT, agent=BUYER, claim={"grade": "core"})
    limits = audit.section("limits")
    seal.seal_task(audit.results, audit.section("task"), audit.nonce_file, limits, data_file("yacht"))
    audit.freeze_contract()
    audit.register()
    return audit


@pytest.fixture
def job(registered: Audit, data_file: Find) -> Callable[..., Job]:
    """Makes a new job, with the registered data or with another file."""
    return lambda path=None: replace(registered.job, data_file=path or data_file("yacht"))


def refusal(job: Job) -> UsageError:
    with pytest.raises(UsageError) as refused:
        _ = job.task
    return refused.value


def test_the_registered_rows_are_taken_from_any_file(job: Callable[..., Job], data_file: Find, tmp_path: Path) -> None:
    packed = tmp_path / "elsewhere.gz"
    packed.write_bytes(gzip.compress(b"\n".join(data_file("yacht").read_bytes().splitlines()[:0:-1])))
    assert job().task.engine_identity() == job(packed).task.engine_identity()
    assert job(packed).task.data_file == packed


def test_other_rows_are_refused_with_both_digests(job: Callable[..., Job], data_file: Find, tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_bytes(data_file("yacht").read_bytes().replace(b",0.27\n", b",0.28\n", 1))
    told = refusal(job(other))
    here = job().task.engine_identity()
    assert f"registered {here['data']}" in told.problem
    assert "task yacht" in told.problem
    assert told.problem.count("sha256:") == 2
    assert not any(name in told.problem for name in ("numpy", "scipy", "scikit-learn"))
    assert "task.data_file" in told.remedy


def test_other_libraries_are_refused_by_name_and_version(
    job: Callable[..., Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    registered = models.library_versions()
    other = {**registered, "scikit-learn": "0.1", "threadpoolctl": "9"}
    del other["scipy"]
    monkeypatch.setattr(models, "library_versions", lambda: other)
    told = refusal(job())
    assert f"scikit-learn: 0.1, registered {registered['scikit-learn']}" in told.problem
    assert f"scipy: none, registered {registered['scipy']}" in told.problem
    assert "threadpoolctl: 9, registered none" in told.problem
    assert "numpy" not in told.problem
    assert "data:" not in told.problem
    assert "Install the registered versions" in told.remedy


def test_data_that_are_not_there_are_told_with_the_command_that_fetches_them(
    job: Callable[..., Job], registered: Audit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "dcpflow data fetch yacht" in refusal(job(tmp_path / "none.csv")).remedy
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    told = refusal(registered.job)
    assert str(tmp_path / "dcpflow" / "yacht.csv") in told.problem


def test_nothing_of_the_data_set_that_is_held_out_or_hidden_stands_in_the_open(
    registered: Audit, job: Callable[..., Job]
) -> None:
    """Of all files, those that are sealed excepted, none holds a held-out row or the list of measured labels."""
    layout, task = registered.job.layout, job().task
    nonce = registered.job.nonce
    hidden, units = seal.hidden_of(task, nonce, "main"), seal.sealed_of(task, nonce)
    pieces = [json.dumps(row) for row in units["inputs"]] + [json.dumps(hidden["labels"]), json.dumps(units["labels"])]
    private = layout.hidden.parent
    assert layout.sealed.is_relative_to(private)
    read = 0
    for path in (path for path in registered.results.rglob("*") if path.is_file()):
        text = path.read_text().replace(",", ", ").replace(",  ", ", ")
        found = [piece for piece in pieces if piece in text]
        assert bool(found) == path.is_relative_to(private), path
        read += 1
    assert read > 5


def test_a_small_audit_on_real_data_is_scored_alike_by_one_and_by_several(
    new_audit: Callable[..., Audit],
    data_file: Find,
    backend: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "dcpflow").mkdir()
    shutil.copyfile(data_file("yacht"), tmp_path / "dcpflow" / "yacht.csv")
    audit = new_audit(
        task=YACHT,
        agent=BUYER,
        claim={"grade": "core"},
        design={"challengers": 2, "controls": 1},
        limits={"experiments": 8},
        thresholds={"gate2": {"kappa": 0.1}},
        isolation={"backend": backend},
    )
    audit.run_all()
    layout = audit.job.layout
    decision = json.loads(layout.decision.read_bytes())
    assert decision["gate1"]["x"] > 0.75
    assert decision["gate2"]["best_score"] < decision["gate2"]["recovery_line"] - 0.3
    assert (decision["controls"]["successes"], decision["controls"]["trials"]) == (1, 1)
    for phase in audit.workflow.phases:
        receipts = [Path(path) for path in audit.workflow.phase_receipts(phase)]
        again = tmp_path / f"{phase}.json"
        scoring.score_phase(audit.job, phase, receipts, again, workers=2)
        assert again.read_bytes() == layout.scores(phase).read_bytes()
    verify(audit.job)
