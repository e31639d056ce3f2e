"""The checkpoint is cut before the first experiment, and its scope is computed from what it holds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from dcpflow.errors import EvidenceError
from dcpflow.records import canonical, stagefile
from dcpflow.records.checkpoint import SCHEMA, before_first_experiment, read, scope

if TYPE_CHECKING:
    from tests.conftest import Audit

HELLO = {"from": "harness", "line": '{"type":"hello"}'}


def said(value: Any) -> dict[str, str]:
    return {"from": "agent", "line": value if isinstance(value, str) else json.dumps(value)}


def answered(ok: bool = True, **more: Any) -> dict[str, str]:
    return {"from": "harness", "line": json.dumps({"id": 1, "ok": ok, **more})}


def exchange(action: str, ok: bool = True, **more: Any) -> list[dict[str, str]]:
    return [said({"id": 1, "action": action, **more}), answered(ok)]


def actions(transcript: list[dict[str, str]]) -> list[str]:
    return [one["request"]["action"] for one in before_first_experiment(transcript)]


def test_reading_before_the_first_experiment_is_kept_with_request_and_reply() -> None:
    transcript = [HELLO, *exchange("web_fetch", url="http://a"), *exchange("web_fetch", url="http://b")]
    transcript += [*exchange("experiment", candidate="x"), *exchange("web_fetch", url="http://c")]
    found = before_first_experiment(transcript)
    assert [one["request"]["url"] for one in found] == ["http://a", "http://b"]
    assert found[0]["reply"] == {"id": 1, "ok": True}


@pytest.mark.parametrize("action", ["experiment", "commit", "finish"])
def test_the_cut_is_before_the_first_experiment_commit_or_finish(action: str) -> None:
    transcript = [HELLO, *exchange("web_fetch"), *exchange(action, candidate="x"), *exchange("web_fetch")]
    assert actions(transcript) == ["web_fetch"]


@pytest.mark.parametrize("ok", [True, False])
def test_an_experiment_that_was_refused_is_the_first_experiment_too(ok: bool) -> None:
    assert actions([HELLO, *exchange("experiment", ok=ok), *exchange("web_fetch")]) == []


def test_what_the_harness_did_not_understand_is_left_out() -> None:
    transcript = [
        HELLO,
        said("nonsense"),
        answered(False),
        said("[1]"),
        answered(False),
        *exchange("web_fetch", ok=False),
    ]
    transcript += [{"from": "agent", "base64": "/w=="}, answered(False), *exchange("web_fetch")]
    assert actions(transcript) == ["web_fetch"]


@pytest.mark.parametrize("transcript", [[], [HELLO], [HELLO, said({"action": "web_fetch"})], [HELLO, HELLO, HELLO]])
def test_a_conversation_that_ended_early_has_no_history(transcript: list[dict[str, str]]) -> None:
    assert before_first_experiment(transcript) == []


def test_a_deeply_nested_line_is_left_out_like_any_other_nonsense() -> None:
    assert actions([HELLO, said("[" * 50_000), answered(False), *exchange("web_fetch")]) == ["web_fetch"]


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([], "lineage_empty"),
        (["web_fetch"], "lineage_empty"),
        (["web_fetch", "web_fetch"], "lineage_empty"),
        (["experiment"], "lineage_prefix"),
        (["web_fetch", "experiment"], "lineage_prefix"),
    ],
    ids=str,
)
def test_the_scope_is_computed_from_the_content(history: list[str], expected: str) -> None:
    assert scope([{"request": {"action": action}, "reply": {"ok": True}} for action in history]) == expected


def test_the_selected_checkpoint_names_the_target_s_record_and_no_score(finished_audit: Audit) -> None:
    job = finished_audit.job
    body, digest = read(job.layout, job.contract.digest)
    target = job.store.committed(next(iter(_targets())))
    assert target is not None
    assert body["target_record"] == canonical.digest(target)
    assert (body["history"], body["scope"], body["rule"]) == ([], "lineage_empty", "before_first_experiment")
    assert canonical.is_digest(digest)
    assert "score" not in json.dumps(body)


def _targets() -> Any:
    from dcpflow.records import plan

    return plan.keys("target", 1)


def test_selecting_again_gives_the_same_checkpoint(audit_copy: Audit) -> None:
    path = audit_copy.job.layout.checkpoint
    before = path.read_bytes()
    path.unlink()
    audit_copy.select_checkpoint()
    assert path.read_bytes() == before


def test_a_checkpoint_of_another_contract_is_refused(audit_copy: Audit) -> None:
    layout = audit_copy.job.layout
    body, _ = stagefile.read(layout.checkpoint, SCHEMA, "the checkpoint")
    stagefile.write(layout.checkpoint, SCHEMA, body | {"contract": canonical.digest(b"other")})
    with pytest.raises(EvidenceError, match="belongs to another contract"):
        read(layout, audit_copy.job.contract.digest)
