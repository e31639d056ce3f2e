"""Recoveries found later: scored as the audit's own were, written down, scored again by others, listed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dcpflow import cli
from dcpflow.authority import kinds
from dcpflow.authority.entry import Head
from dcpflow.authority.log import Log
from dcpflow.bundles.export import export
from dcpflow.bundles.unpack import import_bundle
from dcpflow.bundles.verify import Verification, verify
from dcpflow.errors import EvidenceError, UsageError
from dcpflow.records import canonical, plan, stagefile
from dcpflow.records.draws import Nonce
from dcpflow.records.objects import ObjectStore
from dcpflow.stages import certifying
from dcpflow.stages.seal import hidden_of
from dcpflow.stages.witnessing import SCHEMA, check_witness, file_witness

Write = Callable[[str], Path]


@pytest.fixture(scope="module")
def audit(finished_audit: Any) -> Verification:
    return verify(finished_audit.results, Nonce.read(finished_audit.nonce_file))


@pytest.fixture(scope="module")
def solution(finished_audit: Any, audit: Verification) -> str:
    """An artifact that recovers the outcome, in the names in which the target run saw the task."""
    assert audit.replayed
    job = finished_audit.job
    seed = audit.replayed.evidence.view.target.record.draw["presentation"]
    text = job.task.known_solution(
        job.task.presentation(bytes.fromhex(seed)), hidden_of(job.task, job.draws.nonce, plan.MAIN)
    )
    return str(text) + " "


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(text: str) -> Path:
        path = tmp_path / "artifact"
        path.write_text(text)
        return path

    return written


def test_a_recovery_is_filed_listed_and_scored_again(
    finished_audit: Any, audit: Verification, solution: str, write: Write, tmp_path: Path
) -> None:
    record, registry = tmp_path / "record.json", tmp_path / "registry"
    Log.create(registry, Head("here"))
    for _ in range(2):
        found, digest = file_witness(
            audit, write(solution), record, "by hand", "a reader", finished_audit.nonce_file, None, str(registry)
        )
    assert found.score >= found.line and found.artifact == solution
    with pytest.raises(UsageError, match="there is something else already"):
        file_witness(audit, write(solution), record, "by luck", "a reader", finished_audit.nonce_file)
    with pytest.raises(UsageError, match="nothing can be added to http://"):
        file_witness(audit, write(solution), tmp_path / "new", "by hand", "a reader", registry="http://127.0.0.1:1/")
    assert not (tmp_path / "new").exists()
    log = Log.open(registry)
    (entry,) = log.entries
    assert (entry.kind, entry.body["record"]) == (kinds.WITNESS, digest)
    assert check_witness(record, audit, finished_audit.nonce_file) == (found, digest)
    account = certifying.account_of(audit, log=log)
    assert account.registry and [one.record for one in account.registry.witnesses] == [digest]
    assert account.faults == (), "filing a record revokes nothing"


def test_anybody_scores_it_once_the_nonce_is_revealed(
    finished_audit: Any, audit: Verification, solution: str, write: Write, tmp_path: Path
) -> None:
    """From the revealed bundle alone: with nothing of the folder in which the audit ran."""
    export(finished_audit.results, tmp_path / "revealed.dcp", Nonce.read(finished_audit.nonce_file))
    import_bundle(tmp_path / "revealed.dcp", tmp_path / "theirs")
    theirs, record = verify(tmp_path / "theirs"), tmp_path / "record.json"
    found, digest = file_witness(theirs, write(solution), record, "by hand", "a reader")
    assert check_witness(record, audit, finished_audit.nonce_file) == (found, digest)
    with pytest.raises(UsageError, match="is a dcpflow bundle: a witness is scored in a results folder"):
        check_witness(record, verify(tmp_path / "revealed.dcp"))


def test_without_the_nonce_nothing_can_be_scored(finished_audit: Any, write: Write, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not revealed"):
        file_witness(verify(finished_audit.results), write("{}"), tmp_path / "record", "by hand", "a reader")


def test_what_recovers_nothing_is_refused(
    finished_audit: Any, audit: Verification, write: Write, tmp_path: Path
) -> None:
    assert audit.replayed
    job, view = finished_audit.job, audit.replayed.evidence.view
    presentation = job.task.presentation(bytes.fromhex(view.target.record.draw["presentation"]))
    own = ObjectStore(job.layout.objects).get(view.target.record.candidates[-1]).decode()
    for text, says in (
        (job.task.baseline(presentation), "below the recovery line"),
        (own, "this is the claimed artifact itself"),
        ("no artifact", "the artifact is invalid"),
        ("x" * 10_000_000, "a candidate at most"),
    ):
        with pytest.raises(EvidenceError, match=says):
            file_witness(audit, write(text), tmp_path / "record", "by hand", "a reader", finished_audit.nonce_file)
    (tmp_path / "artifact").write_bytes(b"\xff")
    with pytest.raises(EvidenceError, match="not UTF-8"):
        file_witness(audit, tmp_path / "artifact", tmp_path / "record", "a", "b", finished_audit.nonce_file)
    with pytest.raises(UsageError, match="--how must be one line"):
        file_witness(audit, write("{}"), tmp_path / "record", "two\nlines", "b", finished_audit.nonce_file)
    assert not (tmp_path / "record").exists()


def test_records_that_are_not_what_they_say(
    finished_audit: Any, audit: Verification, solution: str, write: Write, tmp_path: Path
) -> None:
    record, nonce = tmp_path / "record.json", finished_audit.nonce_file
    file_witness(audit, write(solution), record, "by hand", "a reader", nonce)
    body = json.loads(record.read_bytes())["body"]
    for change, says in (
        ({"score": 1.5}, "score is recorded as 1.5, and is"),
        ({"line": 0.0}, "line is recorded as"),
        ({"contract": canonical.digest(b"x")}, "contract is recorded as"),
        ({"decision": canonical.digest(b"x")}, "is of another decision"),
        ({"artifact": "x"}, "the artifact is invalid"),
        ({"artifact": 7}, "has other fields"),
        ({"more": ""}, "has other fields"),
    ):
        stagefile.write(record, SCHEMA, body | change)
        with pytest.raises(EvidenceError, match=says):
            check_witness(record, audit, nonce)
    record.write_bytes(record.read_bytes().replace(b"by hand", b"by luck"))
    with pytest.raises(EvidenceError, match="was altered"):
        check_witness(record, audit, nonce)


def test_the_commands(
    finished_audit: Any, solution: str, write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record, nonce = str(tmp_path / "record.json"), ["--nonce-file", str(finished_audit.nonce_file)]
    filed = ["witness", "file", str(finished_audit.results), str(write(solution)), "--how", "by hand", "--out", record]
    assert cli.main([*filed, *nonce]) == 0
    assert cli.main(["witness", "check", record, str(finished_audit.results), *nonce]) == 0
    assert capsys.readouterr().out.count("at or above the recovery line") == 2
    write("no artifact")
    assert cli.main([*filed, *nonce]) == 1
    assert "the artifact is invalid" in capsys.readouterr().err
