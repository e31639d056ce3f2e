"""What was altered or deleted by hand stops the next reader, who names the file and the command that restores it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dcpflow.records import stagefile
from workflow.conftest import Audit

CHALLENGER = ("challengers", 2, "withheld")


def record(audit: Audit) -> Path:
    return audit.place(*CHALLENGER) / "record.json"


def transcript(audit: Audit) -> Path:
    return audit.object(audit.record(*CHALLENGER)["transcript"])


def candidate(audit: Audit) -> Path:
    return audit.object(audit.record("pairs", 1, "neutral")["candidates"][0])


def scores(audit: Audit) -> Path:
    return audit.results / "scores/controls.json"


def table(audit: Audit) -> Path:
    return audit.results / "evidence/scores.parquet"


def part(audit: Audit) -> Path:
    return audit.results / "registration/parts/design.json"


def history(audit: Audit) -> Path:
    (found,) = audit.results.glob("history/*/entry.json")
    return found


def database(audit: Audit) -> Path:
    return audit.results / "task/public/index_design.db"


def altered(path: Path) -> None:
    """Change one value, as somebody would who wants another outcome."""
    path.chmod(0o644)
    if path.suffix == ".parquet":
        rows = pq.read_table(path, use_threads=False)
        column = rows.schema.get_field_index("score")
        values = [0.5, *rows.column(column).to_pylist()[1:]]
        pq.write_table(rows.set_column(column, rows.schema.field(column), pa.array(values)), path)
        return
    data = path.read_bytes()
    for old, new in ((b"artifact", b"artefact"), (b"0.88", b"0.89"), (b'challengers":6', b'challengers":7')):
        if path.suffix == ".json" and old in data:
            path.write_bytes(data.replace(old, new, 1))
            return
    path.write_bytes(data + b" ")


def deleted(path: Path) -> None:
    path.unlink()


CASES = [
    *((file, altered) for file in (record, transcript, candidate, table, part, history, database)),
    (record, deleted),
]


@pytest.mark.parametrize(("file", "how"), CASES, ids=lambda function: function.__name__)
def test_verify_stops_and_names_the_file_and_what_to_do(
    audit: Audit, file: Callable[[Audit], Path], how: Callable[[Path], None]
) -> None:
    path = file(audit)
    how(path)
    run = audit.dcpflow("verify")
    assert run.code == 1
    assert str(path.relative_to(audit.folder)) in run.text
    assert "Traceback" not in run.text
    if file is history:
        assert "restore it from a backup" in run.text
    else:
        assert run.remedy


def test_following_the_messages_one_by_one_restores_the_identical_decision(audit: Audit) -> None:
    damage = {record: deleted, scores: altered, part: altered}
    audit.decision_path.unlink()
    damaged = {str(file(audit).relative_to(audit.folder)): file.__name__ for file in damage}
    for file, how in damage.items():
        how(file(audit))
    named = []
    while (run := audit.run()).code:
        assert run.code == 1
        named.append(next(what for name, what in damaged.items() if name in run.complaint))
        assert len(named) <= len(damaged), run.text
        audit.obey(run.remedy)
    assert sorted(named) == ["part", "record", "scores"]
    assert audit.decision_bytes == audit.original
    assert audit.dcpflow("verify").code == 0


def test_what_verify_says_restores_what_it_names(audit: Audit) -> None:
    altered(scores(audit))
    altered(table(audit))
    while (run := audit.dcpflow("verify")).code:
        audit.obey(run.remedy)
        audit.finish()
    assert audit.decision_bytes == audit.original


def test_another_value_under_a_matching_digest_does_not_pass_either(audit: Audit) -> None:
    path = scores(audit)
    found = json.loads(path.read_bytes())
    found["body"]["rows"][0]["units"][0] = 0.5
    stagefile.write(path, found["schema"], found["body"])
    run = audit.dcpflow("verify")
    assert run.code == 1
    assert "evidence/scores.parquet" in run.text
