"""Files that stages hand to each other carry their digest: an edit is named, whatever was edited."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dcpflow.errors import EvidenceError
from dcpflow.records import scores, stagefile
from dcpflow.records.canonical import digest
from dcpflow.records.scores import ScoreRow

SCHEMA = "dcpflow.test/1"
BODY = {"contract": "sha256:" + "0" * 64, "episodes": [{"slot": 1, "score": 0.25}], "note": "text"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "stage" / "file.json"
    stagefile.write(path, SCHEMA, BODY)
    return path


def altered(path: Path, **members: Any) -> None:
    """Replace members of the file, and nothing else."""
    path.write_text(json.dumps(json.loads(path.read_bytes()) | members))


def test_what_was_written_is_read_with_the_digest_that_was_returned(path: Path) -> None:
    written = stagefile.write(path, SCHEMA, BODY)
    assert stagefile.read(path, SCHEMA, "the file") == (BODY, written)
    # the layout of the file is not its content
    path.write_text(json.dumps(json.loads(path.read_bytes()), indent=4))
    assert stagefile.read(path, SCHEMA, "the file") == (BODY, written)


def test_the_same_content_gives_the_same_bytes(path: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.json"
    stagefile.write(again, SCHEMA, dict(reversed(BODY.items())))
    assert again.read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    "body",
    [
        BODY | {"note": "Text"},
        BODY | {"more": 1},
        {key: value for key, value in BODY.items() if key != "note"},
        BODY | {"episodes": [{"slot": 1, "score": 0.2500000001}]},
        BODY | {"episodes": [{"slot": True, "score": 0.25}]},
        BODY | {"episodes": []},
        None,
        [],
    ],
    ids=lambda body: str(body)[:32],
)
def test_an_edited_body_is_named_with_the_command_that_makes_the_file_again(path: Path, body: Any) -> None:
    altered(path, body=body)
    with pytest.raises(EvidenceError, match="the file was altered") as caught:
        stagefile.read(path, SCHEMA, "the file")
    assert f"rm -f '{path}'" in str(caught.value)


def test_an_edited_digest_is_an_alteration_too(path: Path) -> None:
    altered(path, digest=digest(b"something"))
    with pytest.raises(EvidenceError, match="was altered"):
        stagefile.read(path, SCHEMA, "the file")


@pytest.mark.parametrize(
    "text", ["{}", "[]", "null", '"text"', '{"schema": "dcpflow.other/1", "digest": "", "body": {}}', '{"body": {}}']
)
def test_what_is_another_file_is_refused(path: Path, text: str) -> None:
    path.write_text(text)
    with pytest.raises(EvidenceError, match=r"the file is not a dcpflow\.test/1 file") as caught:
        stagefile.read(path, SCHEMA, "the file")
    assert str(path) in str(caught.value)


def test_a_digest_holds_for_one_kind_of_file_only(path: Path) -> None:
    altered(path, schema="dcpflow.other/1")
    with pytest.raises(EvidenceError, match="was altered"):
        stagefile.read(path, "dcpflow.other/1", "the file")


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b"\0" * 40, b'{"a": 1, "a": 2}', b"[" * 100_000])
def test_a_torn_file_is_named(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    with pytest.raises(EvidenceError, match=str(path)):
        stagefile.read(path, SCHEMA, "the file")


@pytest.mark.parametrize("text", ['"\\ud800"', "9007199254740993", "1e400", "10000000000000000"])
def test_an_edit_that_has_no_canonical_form_is_an_alteration_like_any_other(path: Path, text: str) -> None:
    path.write_bytes(path.read_bytes().replace(b'"text"', text.encode()))
    with pytest.raises(EvidenceError, match=str(path)):
        stagefile.read(path, SCHEMA, "the file")


def test_sealed_files_are_closed(tmp_path: Path) -> None:
    stagefile.write(tmp_path / "sealed.json", SCHEMA, BODY, mode=0o600)
    assert stat.S_IMODE((tmp_path / "sealed.json").stat().st_mode) == 0o600


def test_scores_come_back_as_they_were_scored(tmp_path: Path) -> None:
    rows = [
        ScoreRow(
            "candidate", "challengers", 1, "withheld", 1, digest(b"r"), digest(b"a"), "main", "valid", "", units, 2
        )
        for units in ((0.1 + 0.2, 1.0), (0.0, 1e-6))
    ]
    rows.append(replace(rows[0], validity="invalid", units=()))
    path = tmp_path / "scores.json"
    scores.write(path, digest(b"contract"), {"challengers/1/withheld": digest(b"r")}, rows)
    inputs, read, _ = found = scores.read(path, digest(b"contract"), ("b", "a"))
    assert scores.from_bytes(scores.to_bytes({"challengers": found, "target": found})) == {
        "challengers": found,
        "target": found,
    }
    assert (inputs, read) == ({"challengers/1/withheld": digest(b"r")}, rows)
    path.write_bytes(path.read_bytes().replace(b"0.30000000000000004", b"0.3"))
    with pytest.raises(EvidenceError, match="the scores was altered"):
        scores.read(path, digest(b"contract"), ("b", "a"))


@pytest.mark.parametrize(
    ("units", "told"),
    [
        ({"a": 0.5, "b": 0.5}, "are no list"),
        ([0.5], "are 1 numbers, where 2 were expected"),
        ([], "are 0 numbers, where 2 were expected"),
        ([0.5, 0.5, 0.5], "are 3 numbers, where 2 were expected"),
        ([0.5, "0.5"], "are not numbers alone"),
        ([0.5, True], "are not numbers alone"),
        ([0.5, None], "are not numbers alone"),
        ([0.5, 1.0000000000000002], "do not all lie in"),
        ([-5e-324, 0.5], "do not all lie in"),
    ],
    ids=str,
)
def test_units_that_are_none_are_refused(tmp_path: Path, units: object, told: str) -> None:
    path = tmp_path / "scores.json"
    row = dict.fromkeys(ScoreRow.__annotations__, "") | {"validity": "valid", "units": units}
    stagefile.write(path, scores.SCHEMA, {"contract": digest(b"contract"), "inputs": {}, "rows": [row]})
    with pytest.raises(EvidenceError, match=f"the units of row 0 {told}") as found:
        scores.read(path, digest(b"contract"), ("b", "a"))
    assert "score again" in found.value.remedy


def test_scores_of_an_earlier_form_have_to_be_scored_again(tmp_path: Path) -> None:
    path = tmp_path / "scores.json"
    stagefile.write(path, "dcpflow.scores/1", {"contract": digest(b"contract"), "inputs": {}, "rows": []})
    with pytest.raises(EvidenceError, match=r"is not a dcpflow\.scores/2 file") as found:
        scores.read(path, digest(b"contract"), ("b", "a"))
    assert found.value.remedy.startswith("To score again: rm -f")
