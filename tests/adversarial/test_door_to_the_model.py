"""Agents in a sandbox that ask their model through the one door that they have."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trustme
from tests.adversarial.upstream import (
    KEY,
    MODEL,
    Asked,
    Pieces,
    Upstream,
    chat,
    chat_events,
    event,
    plain,
    serving,
    stream,
)

from dcpflow.episodes.session import Api
from dcpflow.errors import UsageError
from dcpflow.records import calls, canonical
from dcpflow.records.calls import Prices

if TYPE_CHECKING:
    from tests.adversarial.conftest import DoorTalk

LetTalk = Callable[..., "DoorTalk"]
Serve = Callable[..., AbstractContextManager[Upstream]]


@pytest.fixture
def serve(tmp_path: Path) -> Serve:
    return partial(serving, tmp_path / "asked")


def answered(_: Asked) -> Pieces:
    return plain(chat())


def holding(folder: Path, secret: bytes) -> list[Path]:
    """Files that hold a secret."""
    return [path for path in folder.rglob("*") if path.is_file() and secret in path.read_bytes()]


# --- asking --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["bubblewrap", "none"])
def test_an_agent_asks_its_model_and_commits_what_it_said(talk_with_model: LetTalk, serve: Serve, kind: str) -> None:
    with serve(answered) as upstream:
        one = talk_with_model(
            "read(); commit(json.loads(call()[2])['choices'][0]['message']['content']); ask('finish')",
            upstream.base_url,
            kind=kind,
        )
        asked = upstream.asked
    assert one.channel.candidates == [b"hello"]
    assert [(a.method, a.target) for a in asked] == [("POST", "/v1/chat/completions")]
    (call,) = one.ending.calls
    assert (call.status, call.fault, call.model, call.input_tokens, call.output_tokens) == (200, "", MODEL, 30, 12)
    assert call.request == canonical.digest(asked[0].body.encode())
    stored = (one.folder / "objects" / call.response[7:9] / call.response[9:]).read_bytes()
    assert json.loads(stored) == chat()
    lines = (one.folder / "journal-1.jsonl").read_text().splitlines()
    assert [calls.call_of(json.loads(line)["call"], "") for line in lines] == [call]


def test_the_key_is_sent_to_the_model_and_is_nowhere_else(talk_with_model: LetTalk, serve: Serve) -> None:
    def telling(asked: Asked) -> Pieces:
        leak = f"{asked.headers['authorization']} is wrong"
        if asked.json.get("stream"):
            return stream(*chat_events(f"your key is {KEY}"))
        if asked.json.get("fail"):
            return plain({"error": {"message": leak}}, "403 Forbidden", X_Request_Id=leak, Set_Cookie=leak)
        return plain(chat(leak))

    with serve(telling) as upstream:
        one = talk_with_model(
            """
            read()
            mine = {"Authorization": "Bearer mine", "X-Api-Key": "mine", "Cookie": "a=b", "X-Other": "x"}
            seen = [call(headers=mine), call(body={"stream": True}), call(body={"fail": 1})]
            for folder, _, names in os.walk("/proc"):
                for name in names:
                    if name in ("environ", "cmdline", "mountinfo", "maps"):
                        try:
                            seen.append(open(os.path.join(folder, name), "rb").read().decode("latin-1"))
                        except OSError:
                            pass
            commit(json.dumps([seen, dict(os.environ), sys.argv])[:16000]); ask("finish")
            """,
            upstream.base_url,
        )
        asked = upstream.asked
    assert [a.headers["authorization"] for a in asked] == [f"Bearer {KEY}"] * 3
    assert not {"cookie", "x-other", "x-api-key"} & set(asked[0].headers)
    told = one.channel.candidates[0]
    assert told.count(b"[key]") == 4
    assert b"Set-Cookie" not in told and b"set-cookie" not in told
    assert KEY.encode() not in told
    assert holding(one.folder, KEY.encode()) == []
    assert KEY not in repr(one.ending) + json.dumps(one.channel.transcript)
    assert one.faults == ["", "", "refused"]


def test_anthropic_s_key_has_its_own_header(talk_with_model: LetTalk, serve: Serve) -> None:
    usage = {"input_tokens": 5, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 3, "output_tokens": 7}
    message = {"type": "message", "model": MODEL, "content": [], "stop_reason": "end_turn", "usage": usage}
    with serve(lambda _: plain(message)) as upstream:
        one = talk_with_model(
            """
            read()
            first = call("/v1/messages?beta=true", headers={"anthropic-beta": "x-1", "authorization": "Bearer mine"})
            commit([first[0], call("/v1/messages/count_tokens")[0], call("/v1/models", method="GET")[0]])
            """,
            upstream.base_url,
            model={"api": "anthropic"},
        )
        asked = upstream.asked
    assert one.reported == [200, 200, 200]
    assert [a.target for a in asked] == ["/v1/messages?beta=true", "/v1/messages/count_tokens", "/v1/models"]
    assert {a.headers["x-api-key"] for a in asked} == {KEY}
    assert "authorization" not in asked[0].headers
    assert asked[0].headers["anthropic-beta"] == "x-1"
    assert asked[0].headers["anthropic-version"]
    (call,) = one.ending.calls  # what no model answers is no call
    assert (call.input_tokens, call.cached_tokens, call.output_tokens) == (28, 20, 7)


def test_a_stream_comes_as_it_is_made(talk_with_model: LetTalk, serve: Serve, tmp_path: Path) -> None:
    """The second half is sent once the agent has acted on the first."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)

    def in_two_halves(_: Asked) -> Pieces:
        first, *others = stream(*chat_events("first", "second", usage=False))
        yield first
        yield others[0]
        gate.read_bytes()
        yield from others[1:]

    def open_it(_: str) -> dict[str, Any]:
        gate.write_bytes(b"x")
        return {}

    with serve(in_two_halves) as upstream:
        one = talk_with_model(
            """
            read()
            connection = http.client.HTTPConnection(door.hostname, door.port)
            connection.request("POST", "/chat/completions", json.dumps({"stream": True}))
            answer = connection.getresponse()
            lines = [answer.readline().decode()]
            ask("experiment", candidate=lines[0])
            lines += answer.read().decode().splitlines()
            commit([line for line in lines if line.strip()])
            """,
            upstream.base_url,
            policy=open_it,
        )
    said = [json.loads(line[6:]) for line in one.reported[:-1]]
    assert [chunk["choices"][0]["delta"].get("content") for chunk in said] == ["first", "second", None]
    assert one.reported[-1] == "data: [DONE]"


def test_the_tokens_of_a_stream_are_known_though_the_agent_did_not_ask(talk_with_model: LetTalk, serve: Serve) -> None:
    with serve(
        lambda asked: stream(*chat_events("a", usage=asked.json["stream_options"]["include_usage"]))
    ) as upstream:
        one = talk_with_model(
            """
            read()
            asks = [{"stream": True}, {"stream": True, "stream_options": {"include_usage": True}}]
            commit([call(body=body)[2] for body in asks])
            """,
            upstream.base_url,
        )
    without, with_it = one.reported
    assert '"choices": []' not in without and '"usage"' not in without
    assert '"choices": []' in with_it
    assert [(call.input_tokens, call.output_tokens) for call in one.ending.calls] == [(9, 4), (9, 4)]


def test_a_call_is_recorded_to_its_end_though_the_agent_listens_no_more(talk_with_model: LetTalk, serve: Serve) -> None:
    """Else an agent could ask for as much as it likes, and be gone before the number of tokens is told."""
    with serve(lambda _: stream(*chat_events("a"), b"", 0.5, *chat_events("b"))) as upstream:
        one = talk_with_model(
            """
            read()
            connection = http.client.HTTPConnection(door.hostname, door.port)
            connection.request("POST", "/chat/completions", json.dumps({"stream": True}))
            connection.getresponse().readline()
            connection.close()
            ask("finish")
            """,
            upstream.base_url,
        )
    (call,) = one.ending.calls
    assert (call.fault, call.input_tokens, call.output_tokens) == ("", 9, 4)


# --- what is not passed on -----------------------------------------------------------------------------------


def test_nothing_leads_anywhere_but_to_the_registered_model(talk_with_model: LetTalk, serve: Serve) -> None:
    with serve(answered) as upstream:
        one = talk_with_model(
            f"""
            read()
            def raw(text):
                with socket.create_connection((door.hostname, door.port), timeout=20) as one:
                    one.sendall(text.encode())
                    return one.makefile("rb").readline().decode().split(" ")[1]
            there = "127.0.0.1:{upstream.port}"
            post = "POST /responses HTTP/1.1\\r\\n"
            tried = {{
                "absolute form": raw(f"GET http://{{there}}/v1/models HTTP/1.1\\r\\nHost: {{there}}\\r\\n\\r\\n"),
                "another host": raw("GET //example.com/v1/models HTTP/1.1\\r\\nHost: example.com\\r\\n\\r\\n"),
                "CONNECT": raw(f"CONNECT {{there}} HTTP/1.1\\r\\nHost: {{there}}\\r\\n\\r\\n"),
                "upgrade": raw("GET /responses HTTP/1.1\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\n\\r\\n"),
                "an old protocol": raw("GET /models HTTP/1.0\\r\\n\\r\\n"),
                "two lengths": raw(post + "Content-Length: 2\\r\\nContent-Length: 3\\r\\n\\r\\n{{}}"),
                "smuggled": raw(post + "Transfer-Encoding: chunked\\r\\nContent-Length: 2\\r\\n\\r\\n{{}}"),
                "a dot path": str(call("/models/../files", method="GET")[0]),
                "an escaped path": str(call("/models/%2e%2e/files", method="GET")[0]),
                "files": str(call("/files", method="GET")[0]),
                "deleting": str(call("/models/model-1", method="DELETE")[0]),
                "compressed": str(call(headers={{"Content-Encoding": "gzip"}})[0]),
                "no JSON": str(call(raw=b"model=x")[0]),
                "a query with an address": str(call("/models?u=http://x/", method="GET")[0]),
            }}
            assert call("/", method="HEAD")[0] == call("/files", method="HEAD")[0] == 200  # by the door itself
            commit(tried); ask("finish")
            """,
            upstream.base_url,
        )
        assert upstream.asked == []
    assert one.reported == {
        "absolute form": "403",
        "another host": "403",
        "CONNECT": "403",
        "upgrade": "403",
        "an old protocol": "505",
        "two lengths": "411",
        "smuggled": "411",
        "a dot path": "403",
        "an escaped path": "403",
        "files": "403",
        "deleting": "403",
        "compressed": "415",
        "no JSON": "400",
        "a query with an address": "403",
    }
    assert set(one.faults) == {"refused"}
    assert len(one.faults) == len(one.reported)
    assert calls.foreign(one.ending.calls, {"accepted": [], "requested": None}, MODEL) == []


def test_the_provider_does_nothing_for_an_agent_that_its_sandbox_refuses(
    talk_with_model: LetTalk, serve: Serve
) -> None:
    with serve(answered) as upstream:
        one = talk_with_model(
            """
            read()
            picture = {"type": "image_url", "image_url": {"url": "https://example.com/secrets.png"}}
            bodies = [
                {"tools": [{"type": "web_search_preview"}]},
                {"tools": [{"type": "function", "name": "f"}], "web_search_options": {}, "plugins": [{"id": "web"}]},
                {"messages": [{"role": "user", "content": [picture]}]},
                {"model": "model-1:online"},
            ]
            # of two fields of one name, one reader could take the first and another the last
            twice = b'{"tools": [{"type": "web_search"}], "tools": [], "messages": []}'
            commit([[call(body=body)[0] for body in bodies], call(raw=twice)[0]])
            """,
            upstream.base_url,
        )
        assert [asked.body for asked in upstream.asked] == ['{"tools":[],"messages":[]}']
    assert one.reported == [[403] * 4, 200]


def test_a_redirect_is_not_followed(talk_with_model: LetTalk, serve: Serve) -> None:
    def moved(asked: Asked) -> Pieces:
        return plain({}, "307 Temporary Redirect", Location="/v1/elsewhere", Set_Cookie="a=b")

    with serve(moved) as upstream:
        one = talk_with_model("read(); commit(call()); ask('finish')", upstream.base_url)
        assert len(upstream.asked) == 1
    status, headers, _ = one.reported
    assert status == 502
    assert not {"location", "set-cookie"} & set(map(str.lower, headers))
    assert [(call.status, call.fault) for call in one.ending.calls] == [(307, "malformed")]


def test_too_large_a_request_is_refused_and_too_large_an_answer_is_no_answer(
    talk_with_model: LetTalk, serve: Serve
) -> None:
    def large(asked: Asked) -> Pieces:
        yield b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
        for _ in range(65):
            yield b"x" * (1 << 20)

    with serve(large) as upstream:
        one = talk_with_model(
            "read(); commit([call(raw=b' ' * ((32 << 20) + 1))[0], call()[0]]); ask('finish')", upstream.base_url
        )
        assert len(upstream.asked) == 1
    assert one.reported == [413, 502]
    assert one.faults == ["refused", "malformed"]


# --- answers that are none -----------------------------------------------------------------------------------


def cut(_: Asked) -> Pieces:
    return [*list(plain(chat()))[:-1], b'{"model": "mod']


FAULTS: dict[str, tuple[Callable[[Asked], Pieces], int, int, str]] = {
    "rate limit": (lambda _: plain({"error": {}}, "429 Too Many Requests", Retry_After="7"), 429, 429, "rate_limited"),
    "server error": (lambda _: plain({"error": {}}, "529 Overloaded"), 529, 529, "server_error"),
    "bad request": (lambda _: plain({"error": {}}, "400 Bad Request"), 400, 400, "refused"),
    "cut off": (cut, 502, 200, "transport"),
    "nothing": (lambda _: [], 502, 0, "transport"),
    "no HTTP": (lambda _: [b"nonsense\r\n\r\n"], 502, 0, "transport"),
    "no JSON": (lambda _: plain(b"<html>"), 502, 200, "malformed"),
    "compressed": (lambda _: plain(gzip.compress(b"{}"), Content_Encoding="gzip"), 502, 200, "malformed"),
    "an error inside": (lambda _: plain({"error": {"message": "no"}}), 200, 200, "server_error"),
    "late": (lambda _: [30.0], 504, 0, "timeout"),
    "slow": (lambda _: [*list(plain(chat()))[:-1], *[b" ", 0.2] * 100], 504, 200, "timeout"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_goes_wrong_is_told_to_the_agent_and_recorded(talk_with_model: LetTalk, serve: Serve, name: str) -> None:
    answer, told, status, fault = FAULTS[name]
    with serve(answer) as upstream:
        one = talk_with_model(
            "read(); commit(call()[:2]); ask('finish')", upstream.base_url, model={"call_seconds": 2.0}
        )
    assert one.reported[0] == told
    assert one.reported[1].get("retry-after") == ("7" if name == "rate limit" else None)
    assert [(call.status, call.fault) for call in one.ending.calls] == [(status, fault)]


def test_a_stream_that_breaks_off_has_no_end_for_the_agent_either(talk_with_model: LetTalk, serve: Serve) -> None:
    def broken(asked: Asked) -> Pieces:
        kept = chat_events("half", "whole")[:1]
        return stream(*kept, end=b"" if asked.json["way"] == "connection" else b"0\r\n\r\n")

    with serve(broken) as upstream:
        one = talk_with_model(
            """
            read()
            def half(way):
                try:
                    return call(body={"stream": True, "way": way})[2]
                except http.client.IncompleteRead as error:
                    return "broken: " + error.partial.decode()
            commit([half("connection"), half("events")])
            """,
            upstream.base_url,
        )
    assert all(text.startswith("broken: ") and "half" in text for text in one.reported)
    assert one.faults == ["transport", "transport"]
    assert calls.lost(one.ending.calls)


def test_a_stream_that_tells_of_a_failure_was_not_lost_on_the_way(talk_with_model: LetTalk, serve: Serve) -> None:
    with serve(lambda _: stream(event({"type": "error", "error": {"type": "overloaded_error"}}))) as upstream:
        one = talk_with_model("read(); commit([call(body={'stream': True})[2]])", upstream.base_url)
    assert "overloaded_error" in one.reported[0]
    assert one.faults == ["server_error"]


def test_a_model_that_cannot_prove_who_it_is_is_not_asked(talk_with_model: LetTalk, serve: Serve) -> None:
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("localhost").configure_cert(context)
    with serve(answered, context) as upstream:
        one = talk_with_model(
            "read(); commit(call()[0]); ask('finish')",
            upstream.base_url.replace("http://127.0.0.1", "https://localhost"),
        )
        assert upstream.asked == []
    assert (one.reported, one.faults) == (502, ["transport"])


def test_a_model_that_is_not_registered_is_known_by_its_answer(talk_with_model: LetTalk, serve: Serve) -> None:
    with serve(lambda _: plain(chat(model="another"))) as upstream:
        one = talk_with_model("read(); call(); commit(); ask('finish')", upstream.base_url)
    assert calls.foreign(one.ending.calls, {"accepted": [], "requested": None}, MODEL) == ["another"]


# --- limits --------------------------------------------------------------------------------------------------

ASK_FOR_EVER = "read()\nwhile True:\n    call()"


def test_the_episode_ends_at_the_registered_number_of_calls(talk_with_model: LetTalk, serve: Serve) -> None:
    with serve(answered) as upstream:
        one = talk_with_model(ASK_FOR_EVER, upstream.base_url, model={"calls": 3})
        asked = len(upstream.asked)
    assert (one.channel.limits_hit, one.faults, asked) == (["model_calls"], ["", "", ""], 3)


def test_the_episode_ends_at_the_registered_number_of_tokens(talk_with_model: LetTalk, serve: Serve) -> None:
    with serve(answered) as upstream:
        one = talk_with_model(ASK_FOR_EVER, upstream.base_url, model={"episode_tokens": 80})
        assert len(upstream.asked) == 2
    assert one.channel.limits_hit == ["episode_tokens"]


def test_calls_that_the_api_did_not_carry_out_use_up_nothing_but_are_not_endless(
    talk_with_model: LetTalk, serve: Serve
) -> None:
    with serve(lambda _: plain({"error": {}}, "429 Too Many Requests")) as upstream:
        one = talk_with_model(ASK_FOR_EVER, upstream.base_url, model={"calls": 1})
        assert len(upstream.asked) == 25
    assert one.channel.limits_hit == ["model_calls"]


def test_all_calls_can_be_used_and_the_work_be_committed(talk_with_model: LetTalk, serve: Serve) -> None:
    with serve(answered) as upstream:
        one = talk_with_model("read(); call(); call(); commit(); ask('finish')", upstream.base_url, model={"calls": 2})
    assert (one.channel.limits_hit, len(one.channel.candidates)) == ([], 1)


def test_what_one_episode_may_cost_stops_the_job_and_what_was_recorded_stays(
    talk_with_model: LetTalk, serve: Serve, tmp_path: Path
) -> None:
    api = Api(key=KEY, prices=Prices(1_000.0, 1_000.0, 10_000.0), max_usd=0.2, requests_per_minute=60_000)
    with serve(answered) as upstream:
        with pytest.raises(UsageError, match=r"have cost 0\.3000 USD, and it may cost 0\.2000") as caught:
            talk_with_model(ASK_FOR_EVER, upstream.base_url, api=api)
        assert len(upstream.asked) == 2
    assert "budget.max_usd_per_episode" in str(caught.value)
    lines = (tmp_path / "attempt-0" / "journal-1.jsonl").read_text().splitlines()
    assert [json.loads(line)["call"]["output_tokens"] for line in lines] == [12, 12]


@pytest.mark.parametrize(
    ("status", "code"),
    [("401 Unauthorized", ""), ("402 Payment Required", ""), ("429 Too Many Requests", "insufficient_quota")],
)
def test_a_key_that_is_not_accepted_stops_the_job_and_is_nobody_s_failure(
    talk_with_model: LetTalk, serve: Serve, status: str, code: str
) -> None:
    with (
        serve(lambda _: plain({"error": {"code": code}}, status)) as upstream,
        pytest.raises(UsageError, match=f"refuses all calls, with status {status[:3]}"),
    ):
        talk_with_model(ASK_FOR_EVER, upstream.base_url)


def test_what_cannot_be_a_key_is_sent_nowhere(talk_with_model: LetTalk, serve: Serve) -> None:
    with serve(answered) as upstream:
        for key in ("sk-1\r\nX-Other: x", "sk-ü", "sk 1"):
            with pytest.raises(UsageError, match="the API key cannot be sent") as caught:
                talk_with_model(ASK_FOR_EVER, upstream.base_url, api=Api(key=key))
            assert key not in str(caught.value)
        assert upstream.asked == []


def test_a_flood_of_refused_requests_fills_no_record(talk_with_model: LetTalk, serve: Serve) -> None:
    with serve(answered) as upstream:
        one = talk_with_model("read()\nfor _ in range(300): call('/files')\ncommit(); ask('finish')", upstream.base_url)
    assert len(one.channel.candidates) == 1
    assert 0 < len(one.ending.calls) <= 100


def test_connections_that_say_nothing_hold_up_nobody_else(talk_with_model: LetTalk, serve: Serve) -> None:
    with serve(answered) as upstream:
        one = talk_with_model(
            """
            read()
            idle = [socket.create_connection((door.hostname, door.port)) for _ in range(7)]
            for one in idle:
                one.sendall(b"POST /chat/completions HTTP/1.1\\r\\nContent-Le")
            commit(call()[0]); ask("finish")
            """,
            upstream.base_url,
        )
    assert one.reported == 200


def test_calls_can_be_made_at_the_same_time(talk_with_model: LetTalk, serve: Serve) -> None:
    with serve(answered) as upstream:
        one = talk_with_model(
            """
            import concurrent.futures
            read()
            with concurrent.futures.ThreadPoolExecutor(6) as pool:
                commit(sorted(got[0] for got in pool.map(lambda _: call(), range(12))))
            """,
            upstream.base_url,
        )
    assert one.reported == [200] * 12
    assert one.faults == [""] * 12


def test_events_of_other_apis_are_counted_too(talk_with_model: LetTalk, serve: Serve) -> None:
    usage = {"input_tokens": 40, "input_tokens_details": {"cached_tokens": 8}, "output_tokens": 5}
    done = {"type": "response.completed", "response": {"model": MODEL, "usage": usage, "error": None}}
    with serve(lambda _: stream(event({"type": "response.created", "response": {"model": MODEL}}), event(done))) as it:
        one = talk_with_model("read(); call('/responses', {'stream': True}); commit(); ask('finish')", it.base_url)
    (call,) = one.ending.calls
    assert (call.fault, call.input_tokens, call.cached_tokens, call.output_tokens) == ("", 40, 8, 5)


@pytest.mark.parametrize("key", ["", "k-123456"])
def test_without_a_key_none_is_sent(talk_with_model: LetTalk, serve: Serve, key: str) -> None:
    with serve(answered) as upstream:
        talk_with_model("read(); call()", upstream.base_url, api=Api(key=key, requests_per_minute=60_000))
        sent: Any = upstream.asked[0].headers.get("authorization")
    assert sent == (f"Bearer {key}" if key else None)
