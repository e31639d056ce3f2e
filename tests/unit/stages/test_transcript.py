"""``dcpflow transcript`` shows what was said in an episode, whatever was said, and never steers a terminal."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dcpflow.bundles.export import export
from dcpflow.cli import main
from dcpflow.errors import UsageError
from dcpflow.records import calls, canonical
from dcpflow.records.calls import Call
from dcpflow.records.episodes import EpisodeKey, EpisodeRecord
from dcpflow.records.objects import ObjectStore
from dcpflow.report import conversation, words
from dcpflow.report.conversation import Conversation
from dcpflow.stages import transcript

if TYPE_CHECKING:
    from tests.conftest import Audit

NASTY = "\x1b[2J\u202e\u2066\x9b\r\x07<script>"


@pytest.fixture
def shown(finished_audit: Audit, capsys: pytest.CaptureFixture[str]) -> Any:
    def show(episode: str, *options: str, results: Path = finished_audit.results) -> str:
        assert main(["transcript", episode, "--results", str(results), *options]) == 0
        return capsys.readouterr().out

    return show


def test_requests_replies_candidate_and_outcome_are_shown(shown: Any) -> None:
    text = shown("pairs/2/neutral")
    assert text.startswith("pairs slot 2 (neutral): artifact, a candidate was committed\n")
    assert "harness   hello\n" in text
    assert "            families:\n" in text, "E0 is laid out field by field"
    assert text.count("\nagent     experiment ") == 4
    assert "          candidate:\n            CREATE INDEX ix_" in text
    assert text.index("agent     commit") < text.index("agent     finish")


def test_for_programs_every_line_is_as_it_was_recorded(shown: Any, finished_audit: Audit) -> None:
    record, *lines = map(json.loads, shown("target", "--json").splitlines())
    stored = ObjectStore(finished_audit.job.layout.objects).get(record["transcript"])
    assert [canonical.encode(line) for line in lines] == stored.splitlines()
    assert record["stage"] == "target"


def test_a_bundle_tells_the_same_as_the_folder_that_it_was_made_of(
    shown: Any, finished_audit: Audit, tmp_path: Path
) -> None:
    export(finished_audit.results, tmp_path / "claim.dcp")
    assert shown("controls/4", results=tmp_path / "claim.dcp") == shown("controls/4")


@pytest.mark.parametrize(
    ("episode", "key"),
    [
        ("target", EpisodeKey("target", 1, "target")),
        ("challengers/17", EpisodeKey("challengers", 17, "withheld")),
        ("challengers/17/withheld", EpisodeKey("challengers", 17, "withheld")),
        ("null_pairs/3/proposed_sham", EpisodeKey("null_pairs", 3, "proposed_sham")),
    ],
)
def test_an_episode_is_named_as_far_as_it_has_to_be(episode: str, key: EpisodeKey) -> None:
    assert transcript.key_of(episode) == key


@pytest.mark.parametrize(
    ("episode", "says"),
    [
        ("", "there are target, challengers"),
        ("nobody/1", "there are target, challengers"),
        ("pairs/3", "Write pairs/3/truthful or pairs/3/neutral"),
        ("pairs/3/withheld", "Write pairs/3/truthful or pairs/3/neutral"),
        ("challengers", "Write it like challengers/1"),
        ("pairs", "Write it like pairs/1"),
        ("pair_replacements", "Write it like pair_replacements/1"),
        ("challengers/x", "Write it like challengers/1"),
        ("challengers/\u0663", "Write it like challengers/1"),
        ("challengers/1/withheld/2", "there are target, challengers"),
        ("../../etc", "there are target, challengers"),
    ],
)
def test_what_names_no_episode_is_told_how_to_name_one(episode: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        transcript.key_of(episode)


def test_an_episode_that_was_not_run_is_one_line(finished_audit: Audit, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["transcript", "challengers/99", "--results", str(finished_audit.results)]) == 1
    assert "there is no record of challengers slot 99 (withheld)" in capsys.readouterr().err
    assert main(["transcript", "pairs/1", "--results", str(finished_audit.results)]) == 2


def test_before_a_run_it_is_told_to_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["transcript", "target", "--results", str(tmp_path / "results")]) == 2
    assert "nothing has run in" in capsys.readouterr().err


# --- hostile agents and models -----------------------------------------------------------------------------


def made(finished_audit: Audit, *lines: bytes, asked: Any = (), stderr: str = "") -> Conversation:
    record = transcript.find(finished_audit.results, "target").record
    entries = []
    for line in lines:
        try:
            entries.append({"from": "agent", "line": line.decode()})
        except UnicodeDecodeError:
            entries.append({"from": "agent", "base64": base64.b64encode(line).decode()})
    return Conversation(record, entries, asked, stderr)


@pytest.mark.parametrize(
    "line",
    [
        NASTY.encode(),
        b"\xff\x00\x1b[2J",
        json.dumps({"id": NASTY, "action": NASTY, NASTY: NASTY, "candidate": [NASTY, {NASTY: [NASTY]}]}).encode(),
        json.dumps({"id": 1, "action": "commit", "candidate": f"a\n{NASTY}\nb"}, ensure_ascii=False).encode(),
        b'{"id": 1, "action": "experiment", "candidate": "\\ud800"}',
        b'{"id": ' + b"[" * 900 + b"]" * 900 + b', "action": ' + b"[" * 900 + b"]" * 900 + b"}",
        b'{"candidate": ' + b'{"a":' * 400 + b"1" + b"}" * 400 + b"}",
        b'{"candidate": ' + b"9" * 4_000 + b"}",
        b"[" * 60_000,
    ],
    ids=lambda line: repr(line)[2:40],
)
def test_no_line_steers_a_terminal_or_breaks_the_page(finished_audit: Audit, line: bytes) -> None:
    found = made(finished_audit, line, stderr=NASTY)
    for text in (conversation.render(found), conversation.raw(found)):
        assert all(letter.isprintable() or letter == "\n" for letter in text)
        text.encode()
    assert all(len(shown) < 4_200 for shown in conversation.render(found).splitlines())


def test_what_an_agent_writes_cannot_pass_for_a_line_of_the_harness(finished_audit: Audit) -> None:
    forged = json.dumps({"id": 1, "action": "commit", "candidate": "a\nharness   reply 1\n\nagent     finish 2"})
    text = conversation.render(made(finished_audit, forged.encode()))
    assert not [line for line in text.splitlines() if line.startswith(("harness", "agent     finish"))]


def test_long_texts_are_cut_and_that_is_said(finished_audit: Audit) -> None:
    candidate = "".join(f"line {number}\n" for number in range(2_000)) + "the end"
    line = json.dumps({"id": 1, "action": "commit", "candidate": candidate, "many": list(range(9_000))}).encode()
    found = made(finished_audit, line)
    text = conversation.render(found)
    assert len(text) < 6_000
    assert "more characters: --json shows all]" in text
    assert "line 0\n" in text and "the end" not in text and "the end" in conversation.raw(found)


# --- what a model said -------------------------------------------------------------------------------------

DIGEST = canonical.digest(b"x")
OPENAI = {
    "model": "gpt",
    "choices": [
        {
            "message": {
                "content": "I measure first.",
                "tool_calls": [{"id": "c", "function": {"name": "experiment", "arguments": '{"candidate": "p"}'}}],
            }
        }
    ],
}
ANTHROPIC = {
    "content": [
        {"type": "thinking", "thinking": "Let me see."},
        {"type": "text", "text": "I measure first."},
        {"type": "tool_use", "id": "t", "name": "experiment", "input": {"candidate": "p"}},
    ]
}
RESPONSES = {
    "output": [
        {"type": "message", "content": [{"type": "output_text", "text": "I measure first."}]},
        {"type": "function_call", "name": "experiment", "arguments": '{"candidate": "p"}'},
    ]
}


def stream(*events: Any) -> bytes:
    return b"".join(b"event: x\ndata: " + json.dumps(event).encode() + b"\n\n" for event in events) + b"data: [DONE]\n"


STREAMED_ANTHROPIC = stream(
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "I measure "}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "first."}},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "name": "experiment"}},
    {
        "type": "content_block_delta",
        "index": 1,
        "delta": {"type": "input_json_delta", "partial_json": '{"candidate": '},
    },
    {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '"p"}'}},
)
STREAMED_OPENAI = stream(
    {"choices": [{"delta": {"role": "assistant", "content": "I measure "}}]},
    {"choices": [{"delta": {"content": "first."}}]},
    {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"name": "experiment", "arguments": ""}}]}}]},
    {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": '{"candidate": "p"}'}}]}}]},
    {"choices": []},
)


@pytest.mark.parametrize(
    "body",
    [
        json.dumps(OPENAI).encode(),
        json.dumps(ANTHROPIC).encode(),
        json.dumps(RESPONSES).encode(),
        STREAMED_ANTHROPIC,
        STREAMED_OPENAI,
        stream({"type": "response.created"}, {"type": "response.completed", "response": RESPONSES}),
    ],
    ids=["openai", "anthropic", "responses", "streamed anthropic", "streamed openai", "streamed responses"],
)
def test_the_words_and_tools_of_every_form_of_answer_are_found(body: bytes) -> None:
    said = [one for one in words.of_answer(body) if one.kind != "thinks"]
    assert said == [("says", "I measure first."), ("uses", 'experiment {"candidate": "p"}')]


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        "text",
        {"choices": 7},
        {"choices": [7, {"message": 7}, {"message": {"content": 7, "tool_calls": [7, {"function": 7}]}}]},
        {"content": [7, {"type": "tool_use"}, {"text": {}}]},
        {"output": [{"content": 7}, {"content": [{"text": 7}]}, {"type": "function_call"}]},
    ],
)
def test_bodies_of_no_form_give_nothing_or_little_and_never_fail(value: Any) -> None:
    for body in (json.dumps(value).encode(), stream(value, {"choices": [{"delta": value}]}), b"\xff", b"[" * 100_000):
        assert all(isinstance(one.text, str) for one in words.of_answer(body))


def test_calls_are_shown_with_model_tokens_fault_and_words(
    audit_copy: Audit, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a record holds them: by digest, the answers among the objects."""
    job = audit_copy.job
    objects, key = ObjectStore(job.layout.objects), EpisodeKey("challengers", 2, "withheld")
    answer = objects.put(json.dumps(ANTHROPIC | {"content": [{"type": "text", "text": f"words{NASTY}"}]}).encode())
    made = [Call(DIGEST, 429, "rate_limited", "", 0, 0, 0, ""), Call(DIGEST, 200, "", "m-1", 900, 100, 30, answer)]
    path = job.store.record_path(key)
    record = EpisodeRecord.from_bytes(path.read_bytes(), "the record")
    path.unlink()
    path.write_bytes(replace(record, calls=objects.put(calls.encode(made))).to_bytes())
    assert main(["transcript", "challengers/2", "--results", str(audit_copy.results)]) == 0
    text = capsys.readouterr().out
    assert "asked its model 2 times, 930 tokens" in text
    assert "1  rate_limited, HTTP status 429" in text
    assert "2  m-1: 900 tokens read, 100 of them cached, 30 written" in text
    assert "words\N{REPLACEMENT CHARACTER}" in text and "\x1b" not in text


def test_standard_error_is_shown_from_beside_the_record(audit_copy: Audit, capsys: pytest.CaptureFixture[str]) -> None:
    folder = audit_copy.job.store.folder(EpisodeKey("target", 1, "target"))
    (aside,) = folder.glob("aside-*.json")
    told = json.loads(aside.read_bytes()) | {"stderr": f"Traceback: no luck{NASTY}"}
    (folder / "aside-10.json").write_text(json.dumps(told))
    assert main(["transcript", "target", "--results", str(audit_copy.results)]) == 0
    text = capsys.readouterr().out
    assert "standard error of the agent, its end:\n  Traceback: no luck" in text and "\x1b" not in text
