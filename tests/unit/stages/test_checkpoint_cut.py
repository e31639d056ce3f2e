"""The checkpoint is cut before the first experiment, and its scope is computed from what it holds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from dcpflow.errors import EvidenceError
from dcpflow.records import canonical, packet, stagefile
from dcpflow.records.checkpoint import SCHEMA, before_first_experiment, read, scope
from dcpflow.records.packet import Packet, Page

if TYPE_CHECKING:
    from tests.conftest import Audit

HELLO = {"from": "harness", "line": '{"type":"hello"}'}


def said(value: Any) -> dict[str, str]:
    return {"from": "agent", "line": value if isinstance(value, str) else json.dumps(value)}


def answered(ok: bool = True, **more: Any) -> dict[str, str]:
    return {"from": "harness", "line": json.dumps({"id": 1, "ok": ok, **more})}


def exchange(action: str, ok: bool = True, **more: Any) -> list[dict[str, str]]:
    fields = {"url": "http://a.test/", **more} if action == "web_fetch" else more
    error = {} if ok else {"error": {"code": "bad_message", "message": "no"}}
    return [said({"id": 1, "action": action, **fields}), answered(ok, **error)]


def actions(transcript: list[dict[str, str]]) -> list[str]:
    return [one["request"]["action"] for one in before_first_experiment(transcript)]


def test_reading_before_the_first_experiment_is_kept_with_request_and_reply() -> None:
    transcript = [HELLO, *exchange("web_fetch", url="http://a.test"), *exchange("web_fetch", url="http://b.test")]
    transcript += [*exchange("experiment", candidate="x"), *exchange("web_fetch", url="http://c.test")]
    found = before_first_experiment(transcript)
    assert [one["request"]["url"] for one in found] == ["http://a.test/", "http://b.test/"]
    assert found[0]["reply"] == {"ok": True}


def test_a_fetch_is_kept_without_what_the_agent_could_write_into_it() -> None:
    """Neither its id nor the spelling of its address says anything beyond the page that was seen."""
    said_twice = [
        said({"id": "a message to the branches", "action": "web_fetch", "url": "HTTP://A.test:80/x/../%70#a-message"}),
        answered(page={"url": "http://a.test/p", "status": 200, "content_type": "text/html", "text": "t"}),
    ]
    (found,) = before_first_experiment([HELLO, *said_twice])
    assert found["request"] == {"action": "web_fetch", "url": "http://a.test/p"}
    assert found["reply"].keys() == {"ok", "page"}


def test_a_fetch_that_failed_was_seen_too_and_a_refused_one_was_not() -> None:
    transcript = [HELLO]
    for code in ("fetch_failed", "refused", "budget", "bad_message"):
        transcript += [
            said({"id": 1, "action": "web_fetch", "url": f"http://{code.replace('_', '-')}.test/"}),
            answered(False, error={"code": code, "message": "no"}),
        ]
    assert [one["request"]["url"] for one in before_first_experiment(transcript)] == ["http://fetch-failed.test/"]


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
    exchanges = [
        packet.exchange(PAGE.url, packet.answer(PAGE, TEXT))
        if action == "web_fetch"
        else {"request": {"action": action}, "reply": {"ok": True}}
        for action in history
    ]
    assert scope(exchanges, SEEN) == expected


TEXT = "what it says\n"
PAGE = Page("http://a.test/", 200, "text/plain", packet.NOTHING, canonical.digest(TEXT.encode()))
SEEN = Packet((PAGE,), {PAGE.text: TEXT})


@pytest.mark.parametrize(
    "altered",
    [
        {"request": {"action": "web_fetch", "url": "http://b.test/"}},
        {"request": {"action": "web_fetch", "url": "http://a.test/", "note": "hello"}},
        {"reply": {"ok": True, "page": {"text": "something else"}}},
        {"remark": "hello"},
    ],
    ids=str,
)
def test_whatever_is_not_in_the_packet_is_lineage(altered: dict[str, Any]) -> None:
    known = packet.exchange(PAGE.url, packet.answer(PAGE, TEXT))
    assert scope([known], SEEN) == "lineage_empty"
    assert scope([known], Packet()) == "lineage_prefix"
    assert scope([known, known | altered], SEEN) == "lineage_prefix"


def test_the_selected_checkpoint_names_the_target_s_record_and_no_score(finished_audit: Audit) -> None:
    job = finished_audit.job
    body, digest = read(job.layout, job.contract.digest)
    target = job.store.committed(next(iter(_targets())))
    assert target is not None
    assert body["target_record"] == canonical.digest(target)
    assert {one["request"]["action"] for one in body["history"]} == {"web_fetch"}
    assert (body["scope"], body["rule"]) == ("lineage_empty", "before_first_experiment")
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
