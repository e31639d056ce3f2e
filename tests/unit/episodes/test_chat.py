"""A model behind an API works on an episode: what it is asked, what it may do, and when it is over."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from dcpflow.agents import dialogue
from dcpflow.episodes.channel import Channel
from dcpflow.episodes.chat import chat
from dcpflow.episodes.episode import outcome_of
from dcpflow.errors import UsageError

from .chat_world import COMMIT, EXPERIMENT, FINISH, HELLO, KEY, LIMITS, FakeClock, World, measured
from .model_server import MODEL, answering, anthropic, calls, openai, playing

FORMS: dict[str, Any] = {"openai": openai, "anthropic": anthropic}
APIS = pytest.mark.parametrize("api", FORMS)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


# --- a whole conversation ----------------------------------------------------------------------------------


@APIS
def test_a_model_experiments_commits_and_finishes(world: World, api: str) -> None:
    form = FORMS[api]
    seen = world.play(*calls([form("I try.", EXPERIMENT), form("", COMMIT), form("", FINISH)]), api=api)
    assert seen.channel.candidates == [b"ba"]
    assert seen.channel.quotes == {"canary.txt": b'quote "me"\n'}
    assert [line["action"] for line in seen.said] == ["experiment", "commit", "finish"]
    assert [line["id"] for line in seen.said] == ["t1.1", "t2.1", "t3.1"]
    assert (seen.channel.finished, seen.channel.limits_hit, seen.ending.started) == (True, [], True)
    assert outcome_of(seen.channel, seen.ending)[0] == "artifact"
    assert [(call.status, call.model, call.input_tokens, call.output_tokens) for call in seen.ending.calls] == [
        (200, MODEL, 100, 10)
    ] * 3


@APIS
def test_several_calls_of_tools_in_one_answer_are_carried_out_in_order_and_answered_together(
    world: World, api: str
) -> None:
    form = FORMS[api]
    both = form("", EXPERIMENT, ("experiment", {"candidate": "b"}))
    seen = world.play(*calls([both, form("", COMMIT, FINISH, EXPERIMENT)]), api=api)
    assert [line["id"] for line in seen.said] == ["t1.1", "t1.2", "t2.1", "t2.2"], "nothing is done after the finish"
    told = json.dumps(seen.server.asked[1]["messages"])
    assert told.index('\\"value\\": \\"2\\"') < told.index('\\"value\\": \\"1\\"')


@APIS
def test_the_model_is_told_all_that_the_first_message_says_and_what_became_of_its_actions(
    world: World, api: str
) -> None:
    form = FORMS[api]
    seen = world.play(*calls([form("Hm.", EXPERIMENT), form("", FINISH)]), api=api)
    first, second = seen.server.asked
    assert [one["content"] for one in first["messages"] if one["role"] == "user"] == [dialogue.prompt(HELLO)]
    assert second["messages"][: len(first["messages"])] == first["messages"]
    assert "You search for words." in json.dumps(first)
    assert {tool.get("function", tool)["name"] for tool in first["tools"]} == {"experiment", "commit", "finish"}
    assert "Hm." in json.dumps(second["messages"])
    assert dialogue.reply_text(json.dumps(seen.replies[0]).encode()).replace('"', '\\"') in json.dumps(second)


def test_what_was_registered_of_sampling_is_asked_for_with_another_seed_for_each_answer(world: World) -> None:
    seen = world.play(*calls([openai("", EXPERIMENT), openai("", EXPERIMENT), openai("", FINISH)]))
    seeds = [asked["seed"] for asked in seen.server.asked]
    assert len(set(seeds)) == 3
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert {(a["temperature"], a["max_tokens"], a["model"]) for a in seen.server.asked} == {(0.5, 100, MODEL)}


def test_the_version_of_anthropic_s_api_goes_with_a_registered_temperature(world: World) -> None:
    one = calls([anthropic("", FINISH)])
    warm = world.play(*one, api="anthropic")
    assert (warm.server.asked[0]["temperature"], warm.server.headers[0]["anthropic-version"]) == (0.5, "2023-06-01")
    world.folder /= "other"
    world.folder.mkdir()
    free = world.play(*one, api="anthropic", temperature=None)
    assert "temperature" not in free.server.asked[0]
    assert free.server.headers[0]["anthropic-version"] > "2023-06-01"


def test_the_requested_model_is_asked_for_in_place_of_the_registered_name(world: World) -> None:
    seen = world.play(*calls([openai("", FINISH, model="other-2")]), requested="other", accepted=["other-2"])
    assert seen.server.asked[0]["model"] == "other"
    assert seen.channel.finished


@pytest.mark.parametrize("path", ["", "/v1"])
def test_the_address_of_anthropic_s_api_may_name_its_version(world: World, path: str) -> None:
    with playing(*calls([anthropic("", FINISH)])) as server:
        session = world.session(server, api="anthropic", base_url=server.base_url.removesuffix("/v1") + path)
        chat(session, LIMITS, Channel(measured, LIMITS), HELLO)
    assert server.paths == ["/v1/messages"]


# --- the key, and what else is sent ------------------------------------------------------------------------


@APIS
def test_the_key_is_sent_to_the_api_and_nothing_of_the_environment(
    world: World, api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI", "ANTHROPIC"):
        monkeypatch.setenv(f"{name}_API_KEY", "of the environment")
        monkeypatch.setenv(f"{name}_BASE_URL", "http://127.0.0.1:1")
        monkeypatch.setenv(f"{name}_CUSTOM_HEADERS", "X-Canary: one\nAuthorization: two")
    monkeypatch.setenv("OPENAI_ORG_ID", "canary")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "canary")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    seen = world.play(*calls([FORMS[api]("", FINISH)]), api=api)
    (headers,) = seen.server.headers
    assert headers["authorization"] == f"Bearer {KEY}"
    assert not {"canary", "of the environment", "one", "two"} & set(headers.values())
    allowed = {"host", "accept", "content-type", "content-length", "user-agent", "anthropic-version"}
    assert set(headers) <= allowed | {"authorization", "accept-encoding", "connection"}


@APIS
def test_without_a_key_none_is_sent(world: World, api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "of the environment")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "of the environment")
    world.api = type(world.api)()
    seen = world.play(*calls([FORMS[api]("", FINISH)]), api=api)
    assert not {"authorization", "x-api-key"} & set(seen.server.headers[0])


@pytest.mark.parametrize("key", ["two words", "line\n", "sch\u00f6n", 'quo"te'])
def test_a_key_that_cannot_be_sent_is_named_as_such_and_not_shown(world: World, key: str) -> None:
    with pytest.raises(UsageError, match=r"agent\.model\.key_variable") as caught:
        type(world.api)(key=key)
    assert key not in str(caught.value)


# --- acting by JSON ----------------------------------------------------------------------------------------


@APIS
def test_a_model_without_tool_calls_acts_by_json(world: World, api: str) -> None:
    form = FORMS[api]
    texts = [json.dumps({"action": name, **given}) for name, given in (EXPERIMENT, COMMIT, FINISH)]
    seen = world.play(*calls([form(text) for text in texts]), api=api, tools="json")
    assert [line["action"] for line in seen.said] == ["experiment", "commit", "finish"]
    assert seen.channel.candidates == [b"ba"]
    first = seen.server.asked[0]
    assert "tools" not in first
    assert ("response_format" in first) == (api == "openai")
    assert first["messages"][-1]["content"] == dialogue.json_prompt(HELLO)
    assert seen.server.asked[1]["messages"][-1]["content"] == '{"ok": true, "result": {"value": "2"}}'


@pytest.mark.parametrize(
    "text",
    [
        "I think so.",
        '```json\n{"action": "finish"}\n```',
        '{"action": "finish"',
        '["finish"]',
        '{"action": ["finish"]}',
        '{"action": "unheard-of"}',
        '{"candidate": "ab"}',
        "7",
        '"finish"',
        "[" * 50_000,
    ],
    ids=lambda text: text[:20],
)
def test_an_answer_that_is_no_json_request_is_a_bad_message_and_the_model_is_told(world: World, text: str) -> None:
    seen = world.play(*calls([openai(text), openai('{"action": "finish"}')]), tools="json")
    assert seen.channel.usage["bad_messages"] == 1
    assert seen.channel.finished
    assert '"bad_message"' in seen.server.asked[1]["messages"][-1]["content"]


# --- what models say that is no request --------------------------------------------------------------------


@pytest.mark.parametrize(
    "use",
    [
        ("unheard-of", {}),
        ("", {}),
        ("odd name \u2713" * 20, {"candidate": "ab"}),
        ("experiment", "no JSON"),
        ("experiment", '["ab"]'),
        ("experiment", '"ab"'),
        ("experiment", '{"candidate": "ab"'),
        ("experiment", {"candidate": {"a": 1}}),
        ("experiment", {"candidat": "ab"}),
        ("experiment", '{"candidate": "\\ud800"}'),
        ("experiment", "[" * 50_000),
        ("commit", {"candidate": "ab", "quotes": ["canary.txt"]}),
        ("finish", "no JSON"),
    ],
    ids=lambda use: str(use)[:40],
)
def test_what_is_no_request_is_counted_answered_and_forgiven(world: World, use: tuple[str, Any]) -> None:
    seen = world.play(*calls([openai("", use), openai("", COMMIT, FINISH)]))
    assert seen.channel.usage["bad_messages"] == 1
    assert seen.channel.candidates == [b"ba"]
    again = seen.server.asked[1]["messages"]
    assert '"bad_message"' in again[-1]["content"]
    function = again[-2]["tool_calls"][0]["function"]
    assert isinstance(json.loads(function["arguments"]), dict), "every server can take the answer back"
    assert function["name"].isidentifier() or function["name"] == "unheard-of"


@pytest.mark.parametrize("given", ["text", ["a"], 7, None, {"candidate": 1e300}, {"candidate": None}], ids=str)
def test_arguments_of_anthropic_s_that_are_no_request_are_counted_too(world: World, given: Any) -> None:
    script = calls([anthropic("", ("experiment", given)), anthropic("", FINISH)])
    seen = world.play(*script, api="anthropic")
    assert seen.channel.usage["bad_messages"] == 1
    assert isinstance(seen.server.asked[1]["messages"][-2]["content"][0]["input"], dict)


def test_an_empty_text_stands_for_no_arguments(world: World) -> None:
    assert world.play(*calls([openai("", ("finish", ""))])).channel.usage["bad_messages"] == 0


def test_arguments_cannot_pass_for_another_action_or_id(world: World) -> None:
    use = ("experiment", {"candidate": "ab", "action": "finish", "id": "mine"})
    seen = world.play(*calls([openai("", use), openai("", FINISH)]))
    assert (seen.said[0]["action"], seen.said[0]["id"]) == ("experiment", "t1.1")


def test_names_of_calls_that_are_missing_or_stand_twice_are_replaced(world: World) -> None:
    answer = openai("", EXPERIMENT, EXPERIMENT, EXPERIMENT)
    uses = answer["choices"][0]["message"]["tool_calls"]
    del uses[0]["id"]
    uses[1]["id"] = uses[2]["id"] = "same"
    seen = world.play(*calls([answer, openai("", FINISH)]))
    *_, said, one, two, three = seen.server.asked[1]["messages"]
    names = [use["id"] for use in said["tool_calls"]]
    assert len(set(names)) == 3
    assert [one["tool_call_id"], two["tool_call_id"], three["tool_call_id"]] == names


# --- the end -----------------------------------------------------------------------------------------------


@APIS
@pytest.mark.parametrize("tools", ["native", "json"])
def test_an_answer_without_an_action_gets_a_reminder_and_the_second_in_a_row_ends_it(
    world: World, api: str, tools: str
) -> None:
    empty = FORMS[api]("I wonder." if tools == "native" else "")
    seen = world.play(*calls([empty, empty]), api=api, tools=tools)
    assert len(seen.server.asked) == 2
    assert seen.server.asked[1]["messages"][-1]["content"] in (dialogue.REMINDER, dialogue.JSON_REMINDER)
    assert outcome_of(seen.channel, seen.ending)[0] == "model_failure"
    assert (seen.channel.limits_hit, seen.channel.usage["bad_messages"]) == ([], 0)


def test_a_model_that_acts_again_may_pause_again(world: World) -> None:
    pause = openai("I wonder.")
    seen = world.play(*calls([pause, openai("", EXPERIMENT), pause, openai("", COMMIT), pause, pause]))
    assert len(seen.server.asked) == 6
    assert outcome_of(seen.channel, seen.ending)[0] == "artifact"


def test_so_many_bad_messages_end_it(world: World) -> None:
    seen = world.play(*calls([openai("", *[("nonsense", {})] * 3)] * 5))
    assert seen.channel.limits_hit == ["bad_messages"]
    assert len(seen.server.asked) == 2


def test_so_many_calls_end_it_at_a_turn_s_end(world: World) -> None:
    seen = world.play(*calls([openai("", EXPERIMENT)] * 3), calls=2)
    assert (seen.channel.limits_hit, seen.channel.usage["experiments"]) == (["model_calls"], 2)
    assert len(seen.server.asked) == 2
    reason = "no candidate was committed before the limit model_calls was reached"
    assert outcome_of(seen.channel, seen.ending) == ("model_failure", reason)


def test_so_many_tokens_end_it_after_the_answer_that_reached_them(world: World) -> None:
    seen = world.play(*calls([openai("", EXPERIMENT), openai("", COMMIT), openai("", FINISH)]), episode_tokens=220)
    assert seen.channel.limits_hit == ["episode_tokens"]
    assert outcome_of(seen.channel, seen.ending)[0] == "artifact", "what was committed counts"


def test_a_request_that_is_longer_than_a_message_may_be_ends_it(world: World) -> None:
    long = ("experiment", {"candidate": "a" * 2_000})
    seen = world.play(*calls([openai("", long)]), limits={"message_bytes": 1_024})
    assert (seen.channel.limits_hit, seen.channel.usage["messages"]) == (["message_bytes"], 0)


def test_more_output_than_registered_ends_it(world: World) -> None:
    seen = world.play(*calls([openai("", EXPERIMENT)] * 10), limits={"output_bytes": 200})
    assert seen.channel.limits_hit == ["output_bytes"]
    assert seen.channel.usage["bytes"] <= 200


def test_the_end_of_the_episode_s_time_ends_it_between_two_actions(world: World) -> None:
    clock = FakeClock()

    def slow(candidate: str) -> dict[str, Any]:
        clock.sleep(600)
        return measured(candidate)

    channel = Channel(slow, LIMITS)
    seen = world.play(*calls([openai("", EXPERIMENT, EXPERIMENT, EXPERIMENT, COMMIT)]), channel=channel, clock=clock)
    assert (channel.limits_hit, channel.usage["experiments"]) == (["wall_seconds"], 2)
    assert len(seen.server.asked) == 1


@pytest.mark.parametrize(("took", "waited", "late"), [(0.0, 2.0, 0), (0.5, 1.5, 0), (3.0, 1.0, 1)])
def test_replies_to_experiments_leave_at_multiples_of_the_registered_delay(
    world: World, took: float, waited: float, late: int
) -> None:
    clock = FakeClock()

    def policy(candidate: str) -> dict[str, Any]:
        clock.slept.append(took)
        return measured(candidate)

    limits = {"reply_delay_ms": 2_000}
    script = calls([openai("", EXPERIMENT), openai("", COMMIT, FINISH)])
    seen = world.play(*script, limits=limits, channel=Channel(policy, LIMITS | limits), clock=clock)
    assert sum(clock.slept) - took == waited
    assert seen.ending.late_replies == late


def test_calls_of_one_job_keep_their_distance_also_from_one_episode_to_the_next(world: World) -> None:
    world.api = type(world.api)(key=KEY, requests_per_minute=2.0)
    clock = FakeClock()
    script = calls([openai("", EXPERIMENT), openai("", FINISH)])
    world.play(*script, clock=clock)
    assert sum(clock.slept) == 30
    world.folder /= "next"
    world.folder.mkdir()
    world.play(*script, clock=clock)
    assert sum(clock.slept) == 90


def test_a_limit_is_met_before_a_call_that_could_not_begin_in_time(world: World) -> None:
    world.api = type(world.api)(key=KEY, requests_per_minute=0.01)
    seen = world.play(*calls([openai("", EXPERIMENT), openai("", FINISH)]))
    assert seen.channel.limits_hit == ["wall_seconds"]
    assert (len(seen.server.asked), seen.slept) == (1, [])


def test_an_answer_of_another_model_ends_it_before_it_acts(world: World) -> None:
    seen = world.play(*calls([openai("", EXPERIMENT), openai("", COMMIT, model="model-2"), openai("", FINISH)]))
    assert seen.channel.candidates == []
    assert [call.model for call in seen.ending.calls] == [MODEL, "model-2"]
    outcome, reason = outcome_of(seen.channel, seen.ending, ["model-2"])
    assert outcome == "execution_contract_violation"
    assert "model-2" in reason


def test_an_answer_that_names_no_model_is_another_s(world: World) -> None:
    seen = world.play(answering(openai("", COMMIT, model=None)))
    assert (seen.channel.candidates, [call.model for call in seen.ending.calls]) == ([], [""])


@APIS
def test_a_client_that_is_not_installed_is_named_with_the_extra_that_brings_it(
    world: World, api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, api, None)
    with pytest.raises(UsageError, match=r"pip install 'dcpflow\[chat\]'") as caught:
        world.play(api=api)
    assert api in str(caught.value)
