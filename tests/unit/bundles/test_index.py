"""The list of many audits: verified each, in one order, with what failed, and safe to open."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from bundles.conftest import PUBLISHED, Change, Finished
from dcpflow import cli
from dcpflow.bundles.index import Entry, Signed, index
from dcpflow.evidence import tables
from dcpflow.report import sheet
from dcpflow.stages import indexing


def test_one_audit_has_one_decision_as_a_folder_and_as_a_bundle(finished: Finished) -> None:
    entries = index([finished.results, finished.bundle], indexing.signed())
    assert [entry.problem for entry in entries] == ["", ""]
    assert {entry.kind for entry in entries} == {"results folder", "dcpflow bundle"}
    (decision,) = {entry.decision for entry in entries}
    folder = next(entry for entry in entries if entry.kind == "results folder")
    assert (folder.identity, folder.provenance, folder.mode) == (decision, "recorded by dcpflow", "prospective")
    assert json.loads((finished.results / "decision.json").read_bytes()) == folder.document
    row = indexing.row(folder)
    assert (row["claim"], row["core"], row["core_class"]) == ("sqlite-web", "inconclusive", "audit_incomplete")
    assert (row["experiments"], row["signers"], row["expiry"], row["revoked"]) == (4, [], None, False)


def test_what_fails_is_a_row_and_ends_nothing(
    finished: Finished, altered: Callable[[Path, Change], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def certify(members: dict[str, bytes]) -> None:
        decision = json.loads(members["decision.json"])
        decision["core"]["status"] = "certified"
        members["decision.json"] = json.dumps(decision).encode()

    many = tmp_path / "many"
    many.mkdir()
    altered(finished.bundle, certify).rename(many / "altered.dcp")
    (many / "whole.dcp").write_bytes(finished.bundle.read_bytes())
    (many / "no.dcp").write_bytes(b"no bundle")
    (many / "notes.txt").write_text("not looked at")
    (many / "empty").mkdir()
    given = [str(many), str(tmp_path / "nowhere"), str(many / "empty"), str(many / "whole.dcp")]
    assert cli.main(["index", *given]) == 1
    shown = capsys.readouterr().out
    assert "1 of 5 verified, 4 not" in shown
    assert f"NOT VERIFIED  {tmp_path / 'nowhere'} does not exist" in shown
    assert f"{many / 'altered.dcp'}" in shown
    assert "certified" not in shown.replace("not verified", "")
    lines = shown.splitlines()
    assert lines[1].endswith("whole.dcp") and lines[2].startswith("-")


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="there is no folder with published bundles beside this checkout")
def test_a_bundle_of_dcp_audit_is_labelled_self_attested() -> None:
    (entry,) = index([PUBLISHED], indexing.signed())
    row = indexing.row(entry)
    assert (row["core"], row["provenance"], row["kind"]) == ("certified", "self-attested", "dcp-audit bundle")
    assert (row["experiments"], round(row["bound"], 7)) == (None, 0.0477239)


def test_the_same_bytes_in_whatever_order_the_audits_are_given(finished: Finished, tmp_path: Path) -> None:
    paths = [str(finished.bundle), str(finished.results)]
    made = []
    for number, given in enumerate((paths, [*reversed(paths), paths[0]])):
        names = [tmp_path / f"{number}.{kind}" for kind in ("parquet", "csv", "html")]
        options = [word for name in names for word in (f"--{name.suffix[1:]}", str(name))]
        assert cli.main(["index", *given, *options]) == 0
        made.append([name.read_bytes() for name in names])
    assert made[0] == made[1]
    read = pq.read_table(tmp_path / "0.parquet")
    assert read.column_names == list(tables.SCHEMAS["index"])
    with (tmp_path / "0.csv").open(newline="") as file:
        first, *rows = csv.reader(file)
    assert first == read.column_names and len(rows) == read.num_rows == 2


@pytest.fixture
def hostile(finished: Finished) -> Entry:
    """An audit whose author tries to be computed, to be run and to steer the terminal."""
    (entry,) = index([finished.results], indexing.signed())
    document: dict[str, Any] = json.loads(json.dumps(dict(entry.document)))
    document["claim"] |= {"id": "=HYPERLINK(1)", "family": "\x1b[2J<script>alert(1)</script>"}
    document["scope"] |= {"agent": " @SUM(1)", "model": "\uff1d1+1"}
    return replace(entry, document=document, signed=Signed(("+1", "B"), "-2099", revoked=True, fault="\x1b<b>+1"))


def test_hostile_text_is_shown_as_text(hostile: Entry, tmp_path: Path) -> None:
    rows = [indexing.row(hostile), indexing.row(Entry("a\nb", "", "<b>=1</b>\x1b", {}))]
    indexing.write_csv(tmp_path / "index.csv", rows)
    with (tmp_path / "index.csv").open(newline="") as file:
        first, second = csv.DictReader(file)
    assert (first["claim"], first["agent"], first["model"]) == ("'=HYPERLINK(1)", "' @SUM(1)", "'\uff1d1+1")
    assert (first["signers"], first["expiry"], first["revoked"]) == ("'+1; B", "'-2099", "yes")
    assert (second["verified"], second["revoked"], second["core"]) == ("no", "", "")
    assert not any("\x1b" in cell or "\n" in cell for found in (first, second) for cell in found.values())
    indexing.write_parquet(tmp_path / "index.parquet", rows)
    page = sheet.render(indexing.page(rows)).decode()
    assert "<script>" not in page and "&lt;script&gt;" in page and "<b>=1" not in page
    assert "\x1b" not in page + indexing.render(rows)
    assert "DOES NOT HOLD: " in page and "1 verified, 1 not" not in page
    assert "; of 1 the certificate does not hold" in indexing.render(rows)
    assert not indexing.all_hold(rows[:1])


@pytest.mark.parametrize("kind", ["parquet", "csv", "html"])
def test_a_file_that_cannot_be_written_is_told(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert cli.main(["index", str(tmp_path / "nowhere"), f"--{kind}", str(tmp_path / "file" / "below")]) == 2
    assert "cannot be written" in capsys.readouterr().err
