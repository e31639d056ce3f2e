"""What may be asked of a model's API, and what its answers say of themselves."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpflow.episodes import model_api
from dcpflow.episodes.model_api import Answer, beyond, endpoint, events, read, with_usage

BASE = "https://api.example/v1"


def event(value: Any) -> bytes:
    return f"event: x\ndata: {value if isinstance(value, str) else json.dumps(value)}\n\n".encode()


def counted(answer: Answer) -> tuple[str, int, int, int, bool, bool]:
    tokens = (answer.input_tokens, answer.cached_tokens, answer.output_tokens)
    return (answer.model, *tokens, answer.whole, answer.failed)


# --- where a request goes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("api", "base_url", "target", "goes_to"),
    [
        ("openai", BASE, "/chat/completions", "/chat/completions"),
        ("openai", BASE, "/v1/chat/completions", "/chat/completions"),
        ("openai", BASE + "/", "/v1/responses", "/responses"),
        ("openai", "https://host/api", "/completions", "/completions"),
        ("anthropic", "https://api.example", "/v1/messages?beta=true", "/v1/messages?beta=true"),
        ("anthropic", BASE, "/v1/messages", "/messages"),
    ],
)
def test_a_call_goes_to_the_base_url_whichever_has_the_version(
    api: str, base_url: str, target: str, goes_to: str
) -> None:
    found = endpoint(api, base_url, "POST", target)
    assert found and found.is_call
    assert found.target == goes_to


@pytest.mark.parametrize(
    ("api", "method", "target"),
    [
        ("openai", "GET", "/models"),
        ("openai", "GET", "/v1/models/m-1.5"),
        ("openai", "POST", "/responses/input_tokens"),
        ("anthropic", "POST", "/v1/messages/count_tokens"),
        ("anthropic", "GET", "/v1/models?limit=5"),
    ],
)
def test_lists_and_counts_are_no_calls(api: str, method: str, target: str) -> None:
    found = endpoint(api, BASE, method, target)
    assert found and not found.is_call


NOWHERE = "/ * /files /v1/files //host/models http://host/models /models/.. /models/../files /models/%2e%2e /models#x"
NOWHERE += " /models?x=/ /v1/v1/models /responses/r-1 /batches"


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "CONNECT"])
@pytest.mark.parametrize("target", ["", "/models\n", *NOWHERE.split()])
def test_everything_else_goes_nowhere(method: str, target: str) -> None:
    for api in ("openai", "anthropic"):
        assert endpoint(api, BASE, method, target) is None


def test_a_model_is_called_by_post_and_by_its_own_api() -> None:
    assert endpoint("openai", BASE, "GET", "/chat/completions") is None
    assert endpoint("openai", BASE, "POST", "/messages") is None
    assert endpoint("anthropic", BASE, "POST", "/chat/completions") is None
    assert endpoint("openai", BASE, "POST", "/models") is None


# --- what is asked -------------------------------------------------------------------------------------------

OWN: list[dict[str, Any]] = [
    {},
    {"tools": None, "plugins": [], "background": False},
    {"tools": [{"type": "function", "function": {"name": "f"}}]},
    {"tools": [{"name": "f", "input_schema": {"type": "object", "properties": {"image_url": {"type": "string"}}}}]},
    {"tools": [{"type": "bash_20250124"}, {"type": "text_editor_20250728"}, {"type": "custom", "name": "x"}]},
    {"tools": [{"type": "namespace", "tools": [{"type": "function"}]}]},
    {"messages": [{"content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]}]},
    {"messages": [{"content": [{"type": "image", "source": {"type": "base64", "data": "AA"}}]}]},
    {"messages": [{"role": "user", "content": "see https://example.com/x.png"}]},
]
BEYOND: list[dict[str, Any]] = [
    {"tools": [{"type": "web_search_20250305"}]},
    {"tools": [{"type": "web_search"}]},
    {"tools": [{"type": "code_execution_20250825"}]},
    {"tools": [{"type": "mcp", "server_url": "https://x"}]},
    {"tools": [{"type": "file_search"}, {"type": "function"}]},
    {"tools": [{"type": "namespace", "tools": [{"type": "namespace", "tools": [{"type": "web_search"}]}]}]},
    {"tools": {"type": "web_search"}},
    {"tools": ["web_search"]},
    {"tools": [{"type": None}]},
    {"mcp_servers": [{"url": "https://x"}]},
    {"web_search_options": {"search_context_size": "low"}},
    {"background": True},
    {"model": "m:online"},
    {"messages": [{"content": [{"type": "document", "source": {"type": "url", "url": "https://x"}}]}]},
    {"messages": [{"content": [{"type": "image_url", "image_url": {"url": "https://x"}}]}]},
    {"input": [{"content": [{"type": "input_image", "image_url": "https://x"}]}]},
    {"input": [{"content": [{"type": "input_file", "file_url": "https://x"}]}]},
    {"messages": [{"content": [{"type": "video_url", "video_url": {"url": "https://x"}}]}]},
]


@pytest.mark.parametrize("request_", OWN, ids=str)
def test_an_agent_has_its_own_tools(request_: dict[str, Any]) -> None:
    assert beyond(request_) is None


@pytest.mark.parametrize("request_", BEYOND, ids=str)
def test_nothing_is_done_for_it_elsewhere(request_: dict[str, Any]) -> None:
    assert beyond(request_)


@pytest.mark.parametrize("body", [b"", b"[]", b"x", b"\xff", b'{"a": NaN}', b"[" * 100_000, b'"text"'])
def test_a_request_is_a_json_object(body: bytes) -> None:
    assert read(body) is None


def test_deep_nesting_is_looked_through() -> None:
    deep: Any = {"file_url": "https://x"}
    for _ in range(500):
        deep = [deep]
    assert beyond({"messages": deep})


def test_a_stream_is_asked_for_its_tokens() -> None:
    asked, added = with_usage("/chat/completions", {"stream": True, "stream_options": {"other": 1}})
    assert (asked["stream_options"], added) == ({"other": 1, "include_usage": True}, True)
    for path, request in (
        ("/chat/completions", {"stream": True, "stream_options": {"include_usage": True}}),
        ("/chat/completions", {"stream": False}),
        ("/responses", {"stream": True}),
        ("/messages", {"stream": True}),
    ):
        assert with_usage(path, request) == (request, False)


# --- what is answered ----------------------------------------------------------------------------------------


def test_a_chat_completion() -> None:
    usage = {"prompt_tokens": 20, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 16}}
    answer = Answer("openai")
    assert answer.take_body(json.dumps({"model": "m", "choices": [{}], "usage": usage}).encode())
    assert counted(answer) == ("m", 20, 16, 7, True, False)


def test_a_stream_of_chat_completions() -> None:
    answer = Answer("openai")
    said = {"model": "m", "choices": [{"delta": {"content": "x"}, "finish_reason": None}], "usage": None}
    assert answer.take_event(event(said))
    assert not answer.whole
    assert answer.take_event(event({"model": "m", "choices": [{"delta": {}, "finish_reason": "stop"}]}))
    assert answer.whole
    assert not answer.take_event(event({"model": "m", "choices": [], "usage": {"prompt_tokens": 3}}))
    assert answer.take_event(event("[DONE]"))
    assert counted(answer) == ("m", 3, 0, 0, True, False)


def test_a_response_and_its_stream() -> None:
    usage = {"input_tokens": 40, "input_tokens_details": {"cached_tokens": 8}, "output_tokens": 5}
    response = {"object": "response", "model": "m", "status": "completed", "error": None, "usage": usage}
    whole, stream = Answer("openai"), Answer("openai")
    assert whole.take_body(json.dumps(response).encode())
    stream.take_event(event({"type": "response.created", "response": {"model": "m", "usage": None}}))
    stream.take_event(event({"type": "response.output_text.delta", "delta": "x"}))
    assert not stream.whole
    stream.take_event(event({"type": "response.completed", "response": response}))
    assert counted(whole) == counted(stream) == ("m", 40, 8, 5, True, False)


def test_a_response_that_failed() -> None:
    answer = Answer("openai")
    answer.take_event(event({"type": "response.failed", "response": {"model": "m", "error": {"code": "x"}}}))
    assert answer.failed


def test_a_message() -> None:
    usage = {"input_tokens": 5, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 3, "output_tokens": 7}
    answer = Answer("anthropic")
    assert answer.take_body(json.dumps({"type": "message", "model": "m", "usage": usage}).encode())
    assert counted(answer) == ("m", 28, 20, 7, True, False)


def test_a_stream_of_a_message() -> None:
    answer = Answer("anthropic")
    usage = {"input_tokens": 5, "cache_read_input_tokens": 20, "cache_creation_input_tokens": None, "output_tokens": 1}
    answer.take_event(event({"type": "message_start", "message": {"model": "m", "usage": usage}}))
    assert counted(answer) == ("m", 25, 20, 1, False, False)
    answer.take_event(event({"type": "ping"}))
    answer.take_event(event({"type": "message_delta", "delta": {}, "usage": {"output_tokens": 30}}))
    answer.take_event(event({"type": "message_stop"}))
    assert counted(answer) == ("m", 25, 20, 30, True, False)


@pytest.mark.parametrize("api", ["openai", "anthropic"])
def test_an_error_in_place_of_an_answer(api: str) -> None:
    whole, stream = Answer(api), Answer(api)
    error = model_api.error(api, "overloaded_error", "later")
    assert whole.take_body(error)
    stream.take_event(b"event: error\ndata: " + error + b"\n\n")
    assert whole.failed and stream.failed and not stream.whole


@pytest.mark.parametrize("tokens", [-1, 1.5, "7", None, True, 1 << 60, [1]])
def test_numbers_that_are_none_count_nothing(tokens: Any) -> None:
    for api, name in (("openai", "prompt_tokens"), ("openai", "input_tokens"), ("anthropic", "input_tokens")):
        answer = Answer(api)
        answer.take_body(json.dumps({"usage": {name: tokens}}).encode())
        assert answer.input_tokens == 0


def test_more_tokens_from_a_cache_than_were_read_are_as_many_as_were_read() -> None:
    answer = Answer("openai")
    usage = {"prompt_tokens": 3, "prompt_tokens_details": {"cached_tokens": 9}}
    answer.take_body(json.dumps({"usage": usage}).encode())
    assert answer.cached_tokens == 3


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"null", b"\xff\xfe"])
def test_what_is_no_json_object_is_no_answer(body: bytes) -> None:
    assert not Answer("openai").take_body(body)


def test_a_name_that_no_file_could_hold_is_made_one_that_can() -> None:
    answer = Answer("openai")
    answer.take_body(json.dumps({"model": "\ud800" + "m" * 500}).encode())
    answer.model.encode()
    assert len(answer.model) == 200


@given(st.lists(st.sampled_from(["a", "bc", "d\ne", ""]), max_size=6), st.lists(st.integers(1, 40), max_size=20))
def test_events_are_found_wherever_a_stream_is_cut(texts: list[str], lengths: list[int]) -> None:
    made = [
        f"data: {json.dumps(text)}{end}".encode() for text, end in zip(texts, ["\n\n", "\r\n\r\n"] * 3, strict=False)
    ]
    data, waiting, found = b"".join(made) + b"data: rest", bytearray(), []
    for length in lengths:
        found += list(events(waiting, data[:length]))
        data = data[length:]
    found += list(events(waiting, data))
    assert found == made
    assert bytes(waiting) == b"data: rest"


@given(
    st.recursive(st.none() | st.integers() | st.text(), lambda part: st.lists(part) | st.dictionaries(st.text(), part))
)
def test_whatever_an_answer_is_it_is_read(value: Any) -> None:
    for api in ("openai", "anthropic"):
        answer = Answer(api)
        for said in (value, {"usage": value, "model": value}, {"type": "message_start", "message": value}):
            answer.take_event(event(said))
            answer.take_body(json.dumps(said).encode())
        assert 0 <= answer.cached_tokens <= answer.input_tokens
        assert answer.output_tokens >= 0
