"""Tables have the declared columns and a digest of their rows; a view is read only where every digest fits."""

from __future__ import annotations

import gc
import json
import os
import shlex
import shutil
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dcpflow.errors import EvidenceError
from dcpflow.evidence import folder, rows, tables
from dcpflow.records import beside, canonical, plan, receipts, scores, stagefile
from dcpflow.records.calls import Call
from dcpflow.records.episodes import EpisodeKey, EpisodeRecord
from dcpflow.records.layout import Layout
from dcpflow.records.objects import ObjectStore

if TYPE_CHECKING:
    from tests.conftest import Audit
    from tests.unit.evidence.conftest import Case

R = canonical.digest(b"registration")
CALL = Call(R, 200, "", "small-1", 10, 4, 5, R)


@pytest.fixture(scope="module")
def contents(small: Case) -> dict[str, list[rows.Row]]:
    episodes = tuple(replace(episode, calls=(CALL,)) for episode in small.view.episodes)
    return rows.all_rows(replace(small.view, episodes=episodes), small.episode_facts)


def test_what_two_processes_read_is_decided_as_by_one(
    finished_audit: Audit, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / "1").touch()
    monkeypatch.setattr(beside, "_THREADS", str(tmp_path / "task"))
    monkeypatch.setattr(beside, "LARGE", 0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    children, fork = [], os.fork

    def noted() -> int:
        children.append(fork())
        return children[-1]

    monkeypatch.setattr(os, "fork", noted)
    held: list[folder.Evidence] = []
    decided = folder.verify(Layout(finished_audit.results), held.append)
    assert decided.to_bytes() == (finished_audit.results / "decision.json").read_bytes()
    # tables, scores, expected rows, what they are held against
    assert len(children) == 4
    assert held == [], "that was in another process"


def test_the_collector_is_left_as_it_was(finished_audit: Audit) -> None:
    gc.freeze()
    folder.verify(Layout(finished_audit.results))
    assert gc.isenabled() and gc.get_freeze_count() > 0


@pytest.mark.parametrize("name", folder.TABLES)
def test_every_row_has_exactly_the_declared_columns_and_comes_back_from_its_file(
    contents: dict[str, list[rows.Row]], name: str, tmp_path: Path
) -> None:
    assert contents[name]
    for row in contents[name]:
        assert list(row) != [] and set(row) == set(tables.SCHEMAS[name])
    path = tmp_path / f"{name}.parquet"
    digest = tables.write(path, name, contents[name], R)
    read = tables.read(path, name)
    written = [{column: row[column] for column in tables.SCHEMAS[name]} for row in contents[name]]
    for row in written if name == "scores" else ():
        # of the units, what is read is their digest
        row["units"] = canonical.digest_of_numbers(row["units"])
    assert written == read
    assert tables.rows_digest(name, read) == digest == tables.rows_digest(name, contents[name])


def test_there_is_one_row_for_every_attempt_and_none_is_left_out(
    contents: dict[str, list[rows.Row]], small: Case
) -> None:
    assert [row["record"] for row in contents["episodes"]] == [e.digest for e in small.view.episodes]
    assert len(contents["pairs"]) == 3
    assert len(contents["null_pairs"]) == 4
    assert len(contents["controls"]) == 4
    assert len(contents["scores"]) == sum(len(group) for group in small.view.scores.values())


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"compression": "none"},
        {"compression": "gzip", "row_group_size": 2},
        {"version": "1.0"},
        {"use_dictionary": False, "write_statistics": False, "data_page_version": "2.0"},
    ],
    ids=str,
)
def test_how_a_file_is_written_does_not_move_the_digest_of_its_rows(
    contents: dict[str, list[rows.Row]], tmp_path: Path, options: dict[str, Any]
) -> None:
    path = tmp_path / "episodes.parquet"
    digest = tables.write(path, "episodes", contents["episodes"], R)
    pq.write_table(pq.read_table(path), path, **options)
    assert tables.rows_digest("episodes", tables.read(path, "episodes")) == digest


def test_any_other_row_order_or_value_moves_the_digest(contents: dict[str, list[rows.Row]]) -> None:
    own = contents["controls"]
    digests = {
        tables.rows_digest("controls", changed)
        for changed in (
            own,
            own[::-1],
            own[:-1],
            [{**own[0], "score": own[0]["score"] - 1e-16}, *own[1:]],
            [{**own[0], "score": None}, *own[1:]],
            [{**own[0], "canary_quoted": not own[0]["canary_quoted"]}, *own[1:]],
        )
    }
    assert len(digests) == 6
    assert tables.rows_digest("candidates", []) != tables.rows_digest("controls", [])


def test_the_rows_of_a_long_table_are_canonical_line_by_line(contents: dict[str, list[rows.Row]]) -> None:
    """Whole numbers and exponents, which Python spells otherwise, and rows beyond those that are encoded at a time."""
    numbers = [0.0, -0.0, 1.0, 0.1, 1e-7, 1.5e-7, 123456789.25, 1e16, 1e21, 5e-324, 2.0**53, 1 / 3, 1, 0, None]
    row = contents["scores"][0]
    many = [{**row, "slot": n, "score": numbers[n % len(numbers)]} for n in range(tables.ROWS_AT_A_TIME + 40)]
    columns = list(tables.SCHEMAS["scores"])
    # in the place of an artifact's units stands the digest of their eight-byte forms, the lowest byte first
    units = canonical.digest(struct.pack(f"<{len(row['units'])}d", *row["units"]))
    named = [{**one, "units": units} for one in many]
    lines = [canonical.encode(["scores", columns]), *(canonical.encode([one[c] for c in columns]) for one in named)]
    assert tables.encode_rows("scores", many) == b"\n".join(lines)
    assert tables.decode_rows("scores", b"\n".join(lines), "here")[3]["units"] == units
    assert tables.rows_digest("scores", many) == canonical.digest(b"\n".join(lines))
    with pytest.raises(ValueError, match="nan"):
        tables.encode_rows("scores", [{**row, "score": float("nan")}])


def test_the_sign_of_a_unit_that_is_nothing_is_seen_too(contents: dict[str, list[rows.Row]], tmp_path: Path) -> None:
    path, digests = tmp_path / "scores.parquet", set()
    for nothing in (0.0, -0.0):
        changed = [{**contents["scores"][0], "units": (nothing, 0.5)}, *contents["scores"][1:]]
        written = tables.write(path, "scores", changed, R)
        read = tables.read(path, "scores")
        assert tables.rows_digest("scores", read) == written
        digests.add(written)
    assert len(digests) == 2


def test_a_table_says_what_it_is_and_under_which_registration(
    contents: dict[str, list[rows.Row]], tmp_path: Path
) -> None:
    path = tmp_path / "pairs.parquet"
    digest = tables.write(path, "pairs", contents["pairs"], R)
    found = pq.read_schema(path).metadata
    assert found[b"dcpflow.table"] == b"pairs"
    assert found[b"dcpflow.registration"] == R.encode()
    assert found[b"dcpflow.rows"] == digest.encode()


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.drop_columns(["outcome"]),
        lambda table: table.append_column("more", pa.array([1] * len(table))),
        lambda table: table.set_column(1, "slot", table["slot"].cast(pa.int64())),
        lambda table: table.rename_columns(["Stage", *table.column_names[1:]]),
        lambda table: table.select(table.column_names[::-1]),
    ],
    ids=["a column less", "a column more", "another type", "another name", "another order"],
)
def test_a_table_with_other_columns_is_named(
    contents: dict[str, list[rows.Row]], tmp_path: Path, change: Callable[[pa.Table], pa.Table]
) -> None:
    path = tmp_path / "controls.parquet"
    tables.write(path, "controls", contents["controls"], R)
    pq.write_table(change(pq.read_table(path)), path)
    with pytest.raises(EvidenceError, match="does not have the declared columns of the table controls") as caught:
        tables.read(path, "controls")
    assert f"rm -f '{path}'" in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"PAR1", b"not parquet at all", b"PAR1" + b"\0" * 100 + b"PAR1"])
def test_what_is_no_parquet_file_is_named(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "pairs.parquet"
    path.write_bytes(data)
    with pytest.raises(EvidenceError, match=str(path)):
        tables.read(path, "pairs")


@pytest.mark.parametrize("name", [*folder.TABLES, "checks"])
def test_no_rows_are_a_table_too(tmp_path: Path, name: str) -> None:
    tables.write(tmp_path / "t.parquet", name, [], R)
    assert tables.read(tmp_path / "t.parquet", name) == []


# --- evidence on disk --------------------------------------------------------------------------------------


def read(audit: Audit) -> folder.Evidence:
    return folder.read(audit.job.layout, audit.receipts, audit.scores)


def fails(audit: Audit, *says: str) -> EvidenceError:
    with pytest.raises(EvidenceError) as caught:
        folder.decide(audit.job.layout, audit.receipts, audit.scores)
    for part in says:
        assert part in str(caught.value), str(caught.value)
    assert caught.value.remedy
    return caught.value


def overwrite(path: Path, data: bytes) -> None:
    path.chmod(0o644)
    path.write_bytes(data)


def record_of(audit: Audit, key: EpisodeKey) -> EpisodeRecord:
    data = audit.job.store.committed(key)
    assert data is not None
    return EpisodeRecord.from_bytes(data, "here")


CHALLENGER = EpisodeKey("challengers", 2, "withheld")


def test_the_finished_audit_decides_the_same_again(finished_audit: Audit) -> None:
    decided = folder.decide(finished_audit.job.layout, finished_audit.receipts, finished_audit.scores)
    assert decided.to_bytes() == finished_audit.job.layout.decision.read_bytes()
    assert folder.verify(finished_audit.job.layout).document == decided.document


@pytest.mark.parametrize("kind", ["transcript", "candidate"])
@pytest.mark.parametrize("how", ["missing", "altered"])
def test_a_spoiled_object_is_named_with_its_episode(audit_copy: Audit, kind: str, how: str) -> None:
    record = record_of(audit_copy, CHALLENGER)
    digest = record.transcript if kind == "transcript" else record.candidates[0]
    path = ObjectStore(audit_copy.job.layout.objects).path(digest)
    if how == "missing":
        path.unlink()
    else:
        overwrite(path, path.read_bytes() + b" ")
    fails(audit_copy, f"the {kind} of {CHALLENGER}", str(path), f"{'is' if how == 'missing' else 'was'} {how}")


@pytest.mark.parametrize("how", ["missing", "altered"])
def test_the_command_that_an_error_proposes_brings_a_spoiled_transcript_back(audit_copy: Audit, how: str) -> None:
    before = audit_copy.job.layout.decision.read_bytes()
    path = ObjectStore(audit_copy.job.layout.objects).path(record_of(audit_copy, CHALLENGER).transcript)
    path.unlink() if how == "missing" else overwrite(path, b"altered")
    proposed = fails(audit_copy, str(path)).remedy.partition(": ")[2].partition(" and run")[0]
    program, options, *paths = shlex.split(proposed)
    assert (program, options) == ("rm", "-rf")
    for target in map(Path, paths):
        assert target.is_relative_to(audit_copy.results), "an error proposes to remove nothing else"
        shutil.rmtree(target)
    audit_copy.run("challengers")  # as the workflow would, since the receipts are gone
    decided = folder.decide(audit_copy.job.layout, audit_copy.receipts, audit_copy.scores)
    assert decided.to_bytes() == before


def test_a_record_that_a_receipt_does_not_list_is_found(audit_copy: Audit) -> None:
    extra = audit_copy.job.store.folder(EpisodeKey("challengers", 3, "withheld"), attempt=2)
    extra.mkdir(parents=True)
    audit_copy.tabulate()
    document = folder.decide(audit_copy.job.layout, audit_copy.receipts, audit_copy.scores).document
    (check,) = [check for check in document["checks"] if check["name"] == "ledger_complete"]
    assert check["result"] == "fail"
    assert "challengers slot 3 (withheld), attempt 2" in check["reason"]


def test_a_receipt_without_one_of_its_episodes_is_found(audit_copy: Audit) -> None:
    job = audit_copy.job
    path = next(path for path in audit_copy.receipts if "challengers" in str(path))
    kept = [job.store.committed(line.key) for line in receipts.read(path, job.contract.digest)[:-1]]
    receipts.write(path, job.contract.digest, [data for data in kept if data])
    fails(audit_copy, "challengers")


def test_two_receipts_may_list_an_episode_but_not_two_records_of_it(audit_copy: Audit) -> None:
    job = audit_copy.job
    path = next(path for path in audit_copy.receipts if "challengers" in str(path))
    again = path.with_name("b0009.json")
    shutil.copy(path, again)
    paths = [*audit_copy.receipts, again]
    folder.decide(job.layout, paths, audit_copy.scores)
    body, _ = stagefile.read(again, receipts.SCHEMA, "the receipt")
    body["episodes"][0]["record"] = canonical.digest(b"another")
    stagefile.write(again, receipts.SCHEMA, body)
    with pytest.raises(EvidenceError, match="lists another record of challengers slot 1"):
        folder.decide(job.layout, paths, audit_copy.scores)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda inputs, rows: inputs.pop("controls/2/control"), "controls/2/control was committed but not scored"),
        (
            lambda inputs, rows: inputs.update({"controls/2/control": R}),
            "another record of controls/2/control than the one that stands",
        ),
        (
            lambda inputs, rows: rows.remove(next(r for r in rows if r["record"] and r["slot"] == 2)),
            "candidate 1 of controls slot 2 (control) has no score",
        ),
        (
            lambda inputs, rows: next(r for r in rows if r["record"] and r["slot"] == 2).update(record=R),
            "scores a candidate of controls slot 2 that no record holds",
        ),
        (
            lambda inputs, rows: next(r for r in rows if r["record"] and r["slot"] == 2).update(number=2),
            "scores a candidate of controls slot 2 that no record holds",
        ),
        (
            lambda inputs, rows: rows.append(dict(next(r for r in rows if r["record"] and r["slot"] == 2))),
            "controls slot 2",
        ),
    ],
    ids=["an episode not scored", "another record", "no score", "a foreign record", "another number", "scored twice"],
)
def test_scores_must_be_those_of_the_records_that_stand(
    audit_copy: Audit, spoil: Callable[[dict[str, str], list[dict[str, Any]]], None], says: str
) -> None:
    path = audit_copy.scores["controls"]
    body, _ = stagefile.read(path, scores.SCHEMA, "the scores")
    spoil(body["inputs"], body["rows"])
    stagefile.write(path, scores.SCHEMA, body)
    fails(audit_copy, says)


@pytest.mark.parametrize("name", folder.TABLES)
def test_an_edited_table_is_named(audit_copy: Audit, name: str) -> None:
    path = folder.table_path(audit_copy.job.layout, name)
    found = tables.read(path, name)
    if name == "calls":
        found = [{**dict.fromkeys(tables.SCHEMAS[name]), "record": R}]
    else:
        found[0] = {**found[0], "record": R} if "record" in found[0] else {**found[0], "unit": R}
    if name == "scores":
        found = [{**row, "units": (0.5,)} for row in found]
    tables.write(path, name, found, R)
    fails(audit_copy, str(path), "rm -f")


def test_a_unit_of_the_other_sign_is_named_even_where_it_is_nothing(audit_copy: Audit) -> None:
    path = folder.table_path(audit_copy.job.layout, "scores")
    table = pq.read_table(path)
    signed = [[-unit if unit == 0 else unit for unit in units] for units in table["units"].to_pylist()]
    assert signed == table["units"].to_pylist() and "-0.0" in str(signed)
    column = table.column_names.index("units")
    pq.write_table(table.set_column(column, table.field("units"), pa.array(signed, pa.list_(pa.float64()))), path)
    fails(audit_copy, str(path), "rm -f")


def test_a_table_edited_together_with_its_manifest_is_still_not_what_the_records_give(audit_copy: Audit) -> None:
    layout = audit_copy.job.layout
    path = folder.table_path(layout, "controls")
    found = tables.read(path, "controls")
    digest = tables.write(path, "controls", [{**found[0], "score": 1.0}, *found[1:]], R)
    body, _ = stagefile.read(layout.evidence / "manifest.json", folder.SCHEMA, "the manifest")
    body["tables"]["controls"] = digest
    stagefile.write(layout.evidence / "manifest.json", folder.SCHEMA, body)
    fails(audit_copy, "is not what records and scores give", str(path), "Run snakemake again, which makes")


@pytest.mark.parametrize("name", ["manifest.json", "facts.json", "pairs.parquet"])
def test_a_missing_evidence_file_is_named(audit_copy: Audit, name: str) -> None:
    path = audit_copy.job.layout.evidence / name
    path.unlink()
    fails(audit_copy, str(path), "is missing")


@pytest.mark.parametrize("key", ["core", "gate2", "checks"])
def test_an_edited_decision_does_not_verify(audit_copy: Audit, key: str) -> None:
    layout = audit_copy.job.layout
    document = json.loads(layout.decision.read_bytes())
    document[key] = {**document[key], "status": "certified"} if isinstance(document[key], dict) else []
    layout.decision.write_bytes(canonical.encode(document) + b"\n")
    with pytest.raises(EvidenceError, match="is not the decision that its evidence gives"):
        folder.verify(layout)


def test_an_edited_table_of_checks_does_not_verify(audit_copy: Audit) -> None:
    layout = audit_copy.job.layout
    path = folder.table_path(layout, "checks")
    found = tables.read(path, "checks")
    tables.write(path, "checks", [{**row, "result": "pass"} for row in found], R)
    with pytest.raises(EvidenceError, match=str(path)):
        folder.verify(layout)


def test_every_stage_of_the_plan_is_scored_in_exactly_one_phase() -> None:
    scored = [*(stage for group in plan.PHASES.values() for stage in group), *plan.POLICIES.values()]
    assert sorted(scored) == sorted(plan.STAGES)
