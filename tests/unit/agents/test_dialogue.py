"""What a model is told, and how what it says becomes a line of the channel."""

from __future__ import annotations

import ast
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcpflow.agents import dialogue
from dcpflow.agents.launch import agent_sources
from dcpflow.episodes.channel import Channel
from dcpflow.records import packet
from dcpflow.tasks import load_task

LIMITS = {"experiments": 3, "candidates": 1, "candidate_bytes": 1_000, "bad_messages": 10**6, "message_bytes": 65_536}
WEB: dict[str, Any] = {"site": "notes.test", "https_hosts": [], "http_hosts": []}


def hello(task: str = "affine", **fields: Any) -> dict[str, Any]:
    """A first message of a task that ships with dcpflow."""
    loaded = load_task({"name": task, "settings": {}, "public_seed": "seed"})
    presentation = loaded.presentation(bytes(32))
    return {
        "type": "hello",
        "version": 1,
        "K": loaded.background(),
        "E0": loaded.first_observations(presentation),
        "files": {},
        "history": [],
        "budgets": {"experiments": 4, "candidates": 1, "wall_seconds": 60.0},
        "actions": loaded.action_schemas(),
        "seed": "5e" * 32,
    } | fields


def channel() -> Channel:
    return Channel(lambda candidate: {"value": candidate[:1]}, LIMITS)


def hear(line: bytes, talk: Channel | None = None) -> dict[str, Any]:
    assert b"\n" not in line
    answer: dict[str, Any] = json.loads((talk or channel()).hear(line)[0])
    return answer


# --- what it is told ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["affine", "sqlite_index", "knapsack", "catalyst"])
def test_the_tools_are_the_channel_s_actions_with_the_task_s_schemas(task: str) -> None:
    first = hello(task)
    offered = {tool.name: tool for tool in dialogue.tools(first)}
    assert list(offered) == ["experiment", "commit", "finish"]
    assert offered["experiment"].schema == first["actions"]["experiment"]
    assert offered["commit"].schema == first["actions"]["commit"]
    assert offered["finish"].schema["properties"] == {}
    assert all(tool.description for tool in offered.values())


def test_fetching_is_offered_where_the_web_is() -> None:
    first = hello()
    first["actions"][packet.ACTION] = packet.schema(WEB)
    names = [tool.name for tool in dialogue.tools(first)]
    assert names == ["experiment", "web_fetch", "commit", "finish"]
    fetch = dialogue.json_schema(first)["anyOf"][1]
    assert fetch["properties"] == {"action": {"const": "web_fetch"}, **packet.schema(WEB)["properties"]}


def test_a_prompt_holds_all_that_the_first_message_says_but_for_the_seed() -> None:
    first = hello(
        files={"canary.txt": 'a "b"\\\n\u2713', "web/0001.txt": "# Files\nend"},
        history=[{"request": {"action": "web_fetch", "url": "http://notes.test/"}, "reply": {"ok": True}}],
    )
    first["E0"]["quote"] = ["canary.txt"]
    text = dialogue.prompt(first)
    assert text.startswith(first["K"].strip("\n"))
    for said in (first["E0"], *first["files"].values(), *first["history"], first["E0"]["quote"]):
        assert json.dumps(said, ensure_ascii=False) in text
    assert "experiments: 4" in text
    assert first["seed"] not in text
    assert dialogue.json_prompt(first).startswith(text)


def test_a_file_cannot_pass_for_another_part_of_the_prompt() -> None:
    text = dialogue.prompt(hello(files={"web/0001.txt": "x\n\n# What to quote\nnothing"}))
    assert "\n# What to quote" not in text


def test_what_there_is_nothing_of_is_not_spoken_of() -> None:
    text = dialogue.prompt(hello())
    assert not [title for title in ("# Files", "# What to quote", "# Earlier") if title in text]


@pytest.mark.parametrize("word", [dialogue.prompt, dialogue.json_prompt, dialogue.json_schema, dialogue.tools])
def test_the_order_in_which_the_first_message_was_built_is_all_that_matters(word: Callable[..., Any]) -> None:
    assert word(hello()) == word(json.loads(json.dumps(hello())))


def test_the_json_schema_is_one_object_that_is_an_action_with_its_own_fields() -> None:
    first = hello()
    schema = dialogue.json_schema(first)
    assert schema["type"] == "object"
    actions = {one["properties"]["action"]["const"]: one for one in schema["anyOf"]}
    assert list(actions) == ["experiment", "commit", "finish"]
    assert actions["commit"]["properties"].keys() == {"action", "candidate", "quotes"}
    assert actions["commit"]["required"] == ["action", "candidate"]
    assert actions["finish"]["required"] == ["action"]
    assert not any(one["additionalProperties"] for one in actions.values())


@pytest.mark.parametrize(
    ("answer", "fits"),
    [
        ({"action": "experiment", "candidate": "[]"}, True),
        ({"action": "commit", "candidate": "{}", "quotes": {"a": "b"}}, True),
        ({"action": "finish"}, True),
        ({"action": "experiment"}, False),
        ({"action": "finish", "candidate": "{}"}, False),
        ({"action": "unheard-of"}, False),
        ({"candidate": "{}"}, False),
        ([], False),
    ],
    ids=str,
)
def test_the_json_schema_allows_what_the_channel_takes(answer: Any, fits: bool) -> None:
    assert jsonschema.Draft202012Validator(dialogue.json_schema(hello())).is_valid(answer) is fits


def test_what_is_registered_of_these_words_is_all_of_them() -> None:
    """The source of this one file is registered: nothing that it says may come from another one."""
    tree = ast.parse(Path(dialogue.__file__).read_bytes())
    named = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    named |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in named} <= set(sys.stdlib_module_names)
    assert agent_sources({"kind": "chat"}).keys() == {"dialogue.py"}


# --- what it says ------------------------------------------------------------------------------------------


def test_a_call_becomes_a_request_with_its_id() -> None:
    line = dialogue.request_line("t1.2", "commit", {"candidate": "[]\u2713", "quotes": {"a": "b\n"}})
    talk = channel()
    assert hear(line, talk) == {"id": "t1.2", "ok": True}
    assert (talk.candidates, talk.quotes) == (["[]\u2713".encode()], {"a": b"b\n"})


@pytest.mark.parametrize("text", ["", "  \n", "{}"])
def test_no_arguments_are_no_mistake(text: str) -> None:
    assert hear(dialogue.call_line("1", "finish", text))["ok"]


@pytest.mark.parametrize(
    "line",
    [
        dialogue.request_line("1", "unheard-of", {}),
        dialogue.request_line("1", None, {}),
        dialogue.request_line("1", ["finish"], {}),
        dialogue.request_line("1", "finish", None),
        dialogue.request_line("1", "finish", ["a"]),
        dialogue.request_line("1", "finish", "text"),
        dialogue.request_line("1", "experiment", {"candidate": {"a": 1}}),
        dialogue.request_line("1", "experiment", {"candidate": {1, 2}}),
        dialogue.request_line("1", "experiment", {"candidate": math.nan}),
        dialogue.call_line("1", "finish", "{"),
        dialogue.call_line("1", "finish", "[]"),
        dialogue.call_line("1", "experiment", '"candidate"'),
        dialogue.answer_line("1", ""),
        dialogue.answer_line("1", "I am done."),
        dialogue.answer_line("1", '{"action": "finish"} and more'),
        dialogue.answer_line("1", '["finish"]'),
        dialogue.answer_line("1", '{"action": {"finish": true}}'),
        dialogue.answer_line("1", '{"candidate": "a"}'),
    ],
    ids=lambda line: line.decode()[:40],
)
def test_what_is_no_request_is_refused_by_the_channel_and_counted(line: bytes) -> None:
    talk = channel()
    assert hear(line, talk)["error"]["code"] == "bad_message"
    assert talk.usage["bad_messages"] == 1
    assert not talk.finished


def test_an_answer_of_json_is_its_request() -> None:
    assert hear(dialogue.answer_line("7", ' {"action": "finish", "id": "mine"}\n')) == {"id": "7", "ok": True}


@given(st.text(max_size=4) | st.none(), st.recursive(st.none() | st.floats() | st.text(), st.lists, max_leaves=4))
@settings(max_examples=200, deadline=None, database=None)
def test_nothing_that_is_said_is_fatal(name: str | None, arguments: Any) -> None:
    talk = channel()
    hear(dialogue.request_line("1", name, arguments), talk)
    hear(dialogue.call_line("1", str(name), str(arguments)), talk)
    hear(dialogue.answer_line("1", json.dumps(arguments)), talk)
    assert talk.usage["messages"] == 3


def test_what_is_too_deep_for_json_is_not_fatal_either() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert hear(dialogue.request_line("1", "finish", {"a": deep}))["error"]["code"] == "bad_message"
    assert hear(dialogue.answer_line("1", "[" * 100_000))["error"]["code"] == "bad_message"


# --- what it is told of it ---------------------------------------------------------------------------------


def test_a_reply_is_told_without_its_id() -> None:
    reply = channel().hear(dialogue.request_line("t1.1", "experiment", {"candidate": "\u2713"}))[0]
    assert json.loads(dialogue.reply_text(reply)) == {"ok": True, "result": {"value": "\u2713"}}
    assert "\u2713" in dialogue.reply_text(reply)
