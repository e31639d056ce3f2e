"""What can go wrong between a chat and its model, and what the episode comes to then."""

from __future__ import annotations

import gzip
import json
import socket
import ssl
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trustme

from dcpflow.episodes import provider, wire
from dcpflow.episodes.episode import outcome_of
from dcpflow.episodes.session import Api
from dcpflow.errors import UsageError
from dcpflow.records import calls as records

from .chat_world import COMMIT, EXPERIMENT, FINISH, KEY, Conversation, RealClock, World
from .model_server import MODEL, Handler, answering, anthropic, calls, cut, dripping, openai, playing

FORMS: dict[str, Any] = {"openai": openai, "anthropic": anthropic}
APIS = pytest.mark.parametrize("api", FORMS)
GOOD = answering(openai("", COMMIT, FINISH))
ACTED = answering(openai("", EXPERIMENT))
ERROR = {"error": {"message": "not now", "type": "some_error"}}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def outcome(seen: Conversation) -> tuple[str, str]:
    return outcome_of(seen.channel, seen.ending)


# --- what is waited out ------------------------------------------------------------------------------------


@APIS
@pytest.mark.parametrize(
    ("status", "fault"), [(429, "rate_limited"), (500, "server_error"), (503, "server_error"), (529, "server_error")]
)
def test_what_passes_is_waited_out_and_asked_again_alike(world: World, api: str, status: int, fault: str) -> None:
    script = [answering(ERROR, status), answering(ERROR, status), *calls([FORMS[api]("", COMMIT, FINISH)])]
    seen = world.play(*script, api=api)
    assert seen.faults == [fault, fault, ""]
    assert [call.status for call in seen.ending.calls] == [status, status, 200]
    assert seen.server.asked[0] == seen.server.asked[1] == seen.server.asked[2]
    assert outcome(seen)[0] == "artifact"
    assert 0.5 <= seen.slept[0] < 1.0 <= seen.slept[1] < 2.0, "longer each time, with a drawn part"


def test_the_wait_is_drawn_and_the_same_for_the_same_episode(world: World, tmp_path: Path) -> None:
    script = [answering(ERROR, 500)] * 4 + [GOOD]
    (tmp_path / "again").mkdir()
    again = World(tmp_path / "again").play(*script)
    one = world.play(*script)
    assert one.slept == again.slept


def test_the_time_that_the_api_asks_for_is_waited(world: World) -> None:
    seen = world.play(answering(ERROR, 429, retry_after="37"), GOOD)
    assert sum(seen.slept) == 37
    assert max(seen.slept) <= 5, "and the job shows that it lives meanwhile"


@pytest.mark.parametrize("text", ["soon", "-5", "nan", "Wed, 21 Oct 2026 07:28:00 GMT", "1e99"])
def test_a_time_that_is_none_is_not_heeded(world: World, text: str) -> None:
    seen = world.play(answering(ERROR, 429, retry_after=text), GOOD)
    assert sum(seen.slept) < 1


def test_a_longer_wait_than_the_episode_has_left_ends_it_at_once(world: World) -> None:
    seen = world.play(answering(ERROR, 429, retry_after="5000"), GOOD)
    assert (seen.faults, seen.slept, seen.channel.limits_hit) == (["rate_limited"], [], ["wall_seconds"])
    assert outcome(seen)[0] == "model_failure"


def test_faults_that_do_not_pass_end_with_the_episode_s_time(world: World) -> None:
    seen = world.play(*[answering(ERROR, 500)] * 100, limits={"wall_seconds": 200.0})
    assert seen.channel.limits_hit == ["wall_seconds"]
    assert sum(seen.slept) < 200
    assert set(seen.faults) == {"server_error"}


def test_calls_that_were_waited_out_do_not_count_as_calls(world: World) -> None:
    seen = world.play(*[answering(ERROR, 500)] * 3, GOOD, calls=1)
    assert outcome(seen)[0] == "artifact"


# --- what is lost on the way -------------------------------------------------------------------------------


@APIS
@pytest.mark.parametrize("half", [False, True])
def test_a_lost_connection_before_the_first_action_is_nobody_s_failure(world: World, api: str, half: bool) -> None:
    seen = world.play(cut(half), *calls([FORMS[api]("", COMMIT, FINISH)]), api=api)
    assert seen.faults == ["transport"]
    assert len(seen.server.asked) == 1, "it is never asked for again"
    assert outcome(seen)[0] == "infrastructure_invalid"


@pytest.mark.parametrize("half", [False, True])
def test_a_lost_connection_after_an_action_is_the_model_s_failure(world: World, half: bool) -> None:
    seen = world.play(ACTED, cut(half), GOOD)
    assert seen.faults == ["", "transport"]
    assert outcome(seen) == ("model_failure", "a call to the model was lost on the way, after the agent had acted")


def test_a_bad_message_is_an_action_too(world: World) -> None:
    seen = world.play(*calls([openai("", ("nonsense", {}))]), cut())
    assert outcome(seen)[0] == "model_failure"


def test_what_was_committed_before_the_connection_was_lost_counts(world: World) -> None:
    seen = world.play(*calls([openai("", COMMIT)]), cut())
    assert outcome(seen)[0] == "artifact"


def test_nobody_there_is_a_lost_connection(world: World) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        seen = world.play(base_url=f"http://127.0.0.1:{nobody.getsockname()[1]}/v1")
    assert (seen.faults, [call.status for call in seen.ending.calls]) == (["transport"], [0])
    assert outcome(seen)[0] == "infrastructure_invalid"
    assert b"ConnectError" in seen.ending.stderr


def test_a_server_that_speaks_no_http_is_a_lost_connection(world: World) -> None:
    seen = world.play(lambda handler: handler.wfile.write(b"\x00\x01 no HTTP\r\n\r\n") and None)
    assert seen.faults == ["transport"]


# --- what does not come in time ----------------------------------------------------------------------------


def silent(handler: Handler) -> None:
    threading.Event().wait(5)


@APIS
@pytest.mark.parametrize("played", [silent, dripping(5)], ids=["silent", "dripping"])
def test_an_answer_that_is_not_whole_in_time_is_a_time_out_of_the_model(world: World, api: str, played: Any) -> None:
    seen = world.play(played, api=api, call_seconds=0.3)
    assert (seen.faults, seen.channel.limits_hit) == (["timeout"], [])
    assert outcome(seen) == ("model_failure", "a call to the model was not answered in time")


def test_a_time_out_after_a_commit_leaves_what_was_committed(world: World) -> None:
    seen = world.play(*calls([openai("", COMMIT)]), silent, call_seconds=0.3)
    assert seen.faults == ["", "timeout"]
    assert outcome(seen)[0] == "artifact"


def test_no_call_outlasts_the_episode(world: World) -> None:
    seen = world.play(silent, limits={"wall_seconds": 0.5}, call_seconds=100.0, clock=RealClock())
    assert (seen.faults, seen.channel.limits_hit) == (["timeout"], ["wall_seconds"])


@pytest.mark.parametrize("played", [silent, dripping(5)], ids=["silent", "dripping"])
def test_the_job_shows_that_it_lives_during_a_long_call(
    world: World, played: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "SLICE_SECONDS", 0.02)
    world.play(played, call_seconds=0.5)
    assert world.beats > 5


# --- over TLS ----------------------------------------------------------------------------------------------


def late(handler: Handler) -> None:
    threading.Event().wait(0.3)
    GOOD(handler)


@pytest.mark.parametrize("trusted", [True, False])
def test_the_api_is_asked_over_tls_and_only_if_its_certificate_is_trusted(
    world: World, trusted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    (trusted_ones := tmp_path / "authorities.pem").write_bytes(authority.cert_pem.bytes() if trusted else b"")
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted_ones))
    monkeypatch.setattr(wire, "SLICE_SECONDS", 0.02)
    with playing(late, context=context) as server:
        seen = world.play(base_url=server.base_url)
    assert outcome(seen)[0] == ("artifact" if trusted else "infrastructure_invalid")
    assert len(server.asked) == trusted
    assert world.beats > 3 * trusted, "an answer that is read in slices is whole all the same"


# --- what is refused ---------------------------------------------------------------------------------------


@APIS
@pytest.mark.parametrize("status", [400, 403, 404, 413, 422, 302])
def test_a_request_that_the_api_refuses_ends_the_conversation(world: World, api: str, status: int) -> None:
    seen = world.play(answering(ERROR, status, location="http://127.0.0.1:1/"), GOOD, api=api)
    assert (seen.faults, len(seen.server.asked)) == (["refused"], 1)
    assert outcome(seen) == ("model_failure", "the API did not carry out a call to the model")
    assert b"not now" in seen.ending.stderr


@pytest.mark.parametrize(
    ("status", "code", "fault"),
    [(401, "invalid_key", "refused"), (402, "billing", "refused"), (429, "insufficient_quota", "rate_limited")],
)
def test_where_the_account_is_refused_nothing_is_recorded_and_the_run_goes_on_afterwards(
    world: World, status: int, code: str, fault: str
) -> None:
    with pytest.raises(UsageError, match="not now"):
        world.play(ACTED, answering({"error": {"message": "not now", "code": code}}, status))
    seen = world.play(GOOD)
    assert (seen.faults, seen.slept) == (["", fault, ""], [])
    assert (outcome(seen)[0], seen.channel.usage["experiments"]) == ("artifact", 1)


# --- what cannot be understood -----------------------------------------------------------------------------

USELESS: dict[str, Any] = {
    "no JSON": b"<html>busy</html>",
    "nothing": b"",
    "half": json.dumps(openai("", COMMIT)).encode()[:-5],
    "no text": b"\xff\xfe{}",
    "a list": [],
    "nothing in it": {},
    "no choices": openai() | {"choices": []},
    "no message": openai() | {"choices": [{"index": 0}]},
    "no usage": {key: value for key, value in openai("", COMMIT).items() if key != "usage"},
    "usage below zero": openai("", COMMIT, read=-1),
    "usage in words": openai("", COMMIT) | {"usage": {"prompt_tokens": "many", "completion_tokens": 1}},
    "content of another kind": openai() | {"choices": [{"message": {"content": 7}}]},
    "a call without a name": openai() | {"choices": [{"message": {"tool_calls": [{"function": {}}]}}]},
    "calls of another kind": openai() | {"choices": [{"message": {"tool_calls": {"a": 1}}}]},
    "a lone surrogate": b'{"choices": [{"message": {"content": "\\ud800"}}], "usage": {}}',
    "too deep": b"[" * 100_000,
    "no number": b'{"choices": [{"message": {"content": ""}}], "usage": {"prompt_tokens": NaN}}',
}


@pytest.mark.parametrize("body", USELESS.values(), ids=USELESS.keys())
def test_an_answer_that_is_none_is_asked_for_once_more(world: World, body: Any) -> None:
    seen = world.play(answering(body), GOOD)
    assert seen.faults == ["malformed", ""]
    assert outcome(seen)[0] == "artifact"
    assert seen.server.asked[0]["messages"] == seen.server.asked[1]["messages"]
    assert seen.server.asked[0]["seed"] != seen.server.asked[1]["seed"]


def test_two_such_answers_in_a_row_end_the_conversation(world: World) -> None:
    seen = world.play(answering(b"busy"), ACTED, answering(b"busy"), answering(b"busy"), GOOD)
    assert seen.faults == ["malformed", "", "malformed", "malformed"]
    assert outcome(seen) == ("model_failure", "an answer of the model's API could not be understood")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"content": "text", "usage": {}},
        anthropic() | {"usage": {}},
        anthropic() | {"content": [{"text": "a"}]},
        anthropic() | {"content": [{"type": "tool_use", "id": "a"}]},
        anthropic() | {"content": [{"type": "text"}]},
        anthropic() | {"content": ["text"]},
    ],
)
def test_an_answer_of_anthropic_s_that_is_none_likewise(world: World, body: Any) -> None:
    seen = world.play(answering(body), answering(anthropic("", COMMIT, FINISH)), api="anthropic")
    assert seen.faults == ["malformed", ""]


def test_blocks_of_other_kinds_do_no_harm(world: World) -> None:
    answer = anthropic(" ", EXPERIMENT)
    answer["content"] += [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "new", "a": 1}]
    seen = world.play(*calls([answer, anthropic("", COMMIT, FINISH)]), api="anthropic")
    assert outcome(seen)[0] == "artifact"
    kinds = [block["type"] for block in seen.server.asked[1]["messages"][1]["content"]]
    assert kinds == ["tool_use", "thinking"], "what is empty or unknown is not sent back"


def test_an_answer_without_anything_can_be_followed_by_a_reminder(world: World) -> None:
    seen = world.play(*calls([anthropic(), anthropic("", FINISH)]), api="anthropic")
    assert all(message["content"] for message in seen.server.asked[1]["messages"])
    assert seen.channel.finished


def test_an_answer_over_10_mib_is_not_kept_and_not_acted_on(world: World) -> None:
    large = openai("a" * provider.MAX_BYTES, COMMIT)
    seen = world.play(answering(large), GOOD)
    assert seen.faults == ["malformed", ""]
    assert seen.ending.calls[0].response == ""
    assert len(world.bytes_on_disk()) < 1 << 20


def test_a_large_answer_below_that_is_one_whose_request_is_too_long(world: World) -> None:
    seen = world.play(*calls([openai("", ("experiment", {"candidate": "a" * (9 << 20)}))]))
    assert (seen.faults, seen.channel.limits_hit) == ([""], ["message_bytes"])


def test_a_compressed_answer_is_not_unpacked(world: World) -> None:
    packed = gzip.compress(json.dumps(openai("", COMMIT)).encode())
    seen = world.play(answering(packed, content_encoding="gzip"), GOOD)
    assert seen.faults == ["malformed", ""]


def test_tokens_of_a_cache_are_part_of_those_that_were_read(world: World) -> None:
    one = openai("", EXPERIMENT)
    one["usage"]["prompt_tokens_details"] = {"cached_tokens": 60}
    two = openai("", FINISH)
    two["usage"]["prompt_tokens_details"] = {"cached_tokens": 1_000}
    seen = world.play(*calls([one, two]))
    assert [(c.input_tokens, c.cached_tokens, c.output_tokens) for c in seen.ending.calls] == [
        (100, 60, 10),
        (100, 100, 10),
    ]
    records.decode(records.encode(seen.ending.calls), "the calls")


def test_tokens_of_anthropic_s_cache_are_added_up(world: World) -> None:
    answer = anthropic("", FINISH)
    answer["usage"] |= {"cache_read_input_tokens": 60, "cache_creation_input_tokens": 5}
    (call,) = world.play(answering(answer), api="anthropic").ending.calls
    assert (call.input_tokens, call.cached_tokens, call.output_tokens) == (165, 60, 10)


# --- secrets -----------------------------------------------------------------------------------------------


ECHOES: dict[str, Any] = {
    "in the text": answering(openai(f"the key is {KEY}", ("experiment", {"candidate": KEY}))),
    "as the model": answering(openai("", FINISH, model=KEY)),
    "spelled otherwise": answering(
        json.dumps(openai("x", ("experiment", {"candidate": "x"})))
        .replace('"x"', '"' + "".join(f"\\u{ord(letter):04x}" for letter in KEY) + '"')
        .encode()
    ),
    "in an error": answering({"error": {"message": f"Bearer {KEY} is not known"}}, 400),
    "in an error of the server": answering(f"Authorization: Bearer {KEY}".encode(), 500, retry_after="10000"),
    "in what cannot be understood": answering(f"<p>{KEY}</p>\xff".encode("latin-1")),
    "instead of HTTP": lambda handler: handler.wfile.write(f"{KEY} {KEY}\r\n".encode()) and None,
    "in a header": answering({}, 400, x_key=KEY),
}


@pytest.mark.parametrize("played", ECHOES.values(), ids=ECHOES.keys())
def test_a_key_that_is_sent_back_is_written_nowhere(
    world: World, played: Any, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = world.play(played, *calls([openai("", FINISH)]))
    found = [world.bytes_on_disk(), repr(seen.ending).encode(), repr(seen.channel.transcript).encode()]
    found.append("".join(capfd.readouterr()).encode())
    assert not any(KEY.encode() in text for text in found)
    assert len(seen.server.headers) >= 1
    assert all(headers["authorization"].endswith(KEY) for headers in seen.server.headers)


def test_the_key_is_in_no_error_for_the_user(world: World) -> None:
    with pytest.raises(UsageError) as caught:
        world.play(answering({"error": f"who is Bearer {KEY}?"}, 401))
    assert KEY not in str(caught.value)
    assert KEY not in repr(caught.getrepr(showlocals=False))
    assert "[key]" in str(caught.value)


def test_without_a_key_nothing_is_taken_for_one(world: World) -> None:
    world.api = replace(Api())
    seen = world.play(GOOD)
    assert outcome(seen)[0] == "artifact"
    assert seen.ending.calls[0].model == MODEL
