"""A run from nothing: it ends in a decision, and the same one however the work was divided."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from typing import Any

import pyarrow.parquet as pq

from workflow.conftest import Audit, Finished

# the only files that may tell when, where and by whom an episode was run
ASIDE = re.compile(r"store/.*/((aside|holder)-\d+\.json|aside-\d+\.warc)|history/.*/when\.json|registry/run\.json")
RECEIPT = re.compile(r"\w+/(matched/)?b\d{5}-\d{5}\.json")
UNTOLD = {"batch", "host", "hostname", "time", "date", "started", "seconds", "pid", "cores", "folder"}


def fresh(audit: Audit) -> Audit:
    """A folder beside the copy in which nothing has been run."""
    return Audit.make(audit.folder.with_name("fresh"))


def test_an_audit_in_a_folder_with_blanks_and_umlauts_runs_to_a_decision(finished: Finished) -> None:
    assert " " in finished.audit.folder.name
    assert "ö" in finished.audit.folder.name
    assert finished.run.code == 0, finished.run.text
    assert finished.audit.decision["core"]["status"] == "inconclusive"


def test_one_core_and_one_episode_a_job_change_no_byte_of_the_evidence(audit: Audit) -> None:
    other = fresh(audit)
    other.change({"execution": {"episodes_per_job": 1}})
    run = other.finish(cores=1)
    assert run.rules.count("run_challenger") == 6
    assert other.decision_bytes == audit.decision_bytes
    assert _tables(other) == _tables(audit)
    assert _evidence(other) == _evidence(audit)
    assert _receipt_lines(other) == _receipt_lines(audit)


def _tables(audit: Audit) -> dict[str, str]:
    """Digest of the rows of each table."""
    return {
        path.stem: pq.read_schema(path).metadata[b"dcpflow.rows"].decode()
        for path in audit.results.glob("evidence/*.parquet")
    }


def _evidence(audit: Audit) -> dict[str, str]:
    """Every file of the results but receipts and what lies beside the records."""
    return {
        path: digest
        for path, digest in audit.contents().items()
        if not ASIDE.fullmatch(path) and not RECEIPT.fullmatch(path)
    }


def _receipt_lines(audit: Audit) -> list[str]:
    """What all receipts list, whatever batches they are of."""
    return sorted(
        json.dumps(line, sort_keys=True)
        for path in audit.results.rglob("b*.json")
        if RECEIPT.fullmatch(str(path.relative_to(audit.results)))
        for line in json.loads(path.read_bytes())["body"]["episodes"]
    )


def test_grade_core_plans_no_stage_of_gate_3(audit: Audit) -> None:
    core = fresh(audit)
    core.change({"claim": {"grade": "core"}})
    planned = core.finish("--dry-run").text
    rules = set(re.findall(r"^(\w+) +\d+$", planned, re.MULTILINE))
    assert {"run_target", "run_challenger", "run_control", "decide"} <= rules
    assert not any(word in rule for rule in rules for word in ("pair", "null", "checkpoint"))


def test_a_run_says_what_it_does_and_how_far_it_has_come(finished: Finished) -> None:
    text = finished.run.text
    for said in ("sealing the task", "target run", "challengers 1 to 6 of 6", "feedback pairs 1 to 3 of 3", "deciding"):
        assert said in text
    total = len(finished.run.rules) + 1
    for step in range(1, total + 1):
        assert f"{step} of {total} steps" in text


def test_every_job_has_a_log_of_its_own(finished: Finished) -> None:
    logs = [path for path in finished.audit.logs.rglob("*") if path.is_file()]
    assert len(logs) == len(finished.run.rules)


def test_a_small_audit_says_why_it_is_inconclusive(audit: Audit) -> None:
    core = audit.decision["core"]
    assert core["class"] == "audit_incomplete"
    assert "not adequate" in core["reason"]
    shown = audit.dcpflow("show").text
    assert "INCONCLUSIVE (audit_incomplete)" in shown
    assert "recall is at least 0.2659, registered floor 0.8" in shown


def test_nothing_half_written_stays_behind(finished: Finished) -> None:
    assert not finished.audit.half_written()


def test_no_receipt_score_or_table_tells_batch_host_or_time(finished: Finished) -> None:
    results = finished.audit.results
    told = [*results.rglob("b*.json"), *results.glob("scores/*.json"), *results.glob("store/**/record.json")]
    told += [*results.glob("registration/**/*.json"), results / "evidence/manifest.json"]
    for path in told:
        for key, value in _leaves(json.loads(path.read_bytes())):
            assert key not in UNTOLD, path
            assert value != socket.gethostname(), path
            assert finished.audit.folder.name not in str(value), path
    for path in results.glob("evidence/*.parquet"):
        schema = pq.read_schema(path)
        assert not UNTOLD & set(schema.names), path
        assert set(schema.metadata) <= {b"dcpflow.table", b"dcpflow.registration", b"dcpflow.rows"}, path


def _leaves(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Every key and every value that is no container."""
    if isinstance(value, dict):
        for name, below in value.items():
            yield name, None
            yield from _leaves(below, name)
    elif isinstance(value, list):
        for below in value:
            yield from _leaves(below, key)
    else:
        yield key, value
