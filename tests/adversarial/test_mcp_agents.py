"""Host programs of the Model Context Protocol as agents: the official SDK's client, and hostile ones."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mcp
import pytest
from tests.adversarial.upstream import KEY, chat, plain, serving

from dcpflow.agents.launch import MCP, MODEL, LaunchSpec, door_files
from dcpflow.episodes.channel import Channel
from dcpflow.episodes.doors import converse_with_doors
from dcpflow.episodes.runner import Ending
from dcpflow.episodes.sandbox import Isolation
from dcpflow.episodes.session import Api, Session
from dcpflow.episodes.web import Recorded
from dcpflow.errors import UsageError
from dcpflow.records import packet
from dcpflow.records.journal import Journal
from dcpflow.records.objects import ObjectStore
from dcpflow.records.packet import Packet

if TYPE_CHECKING:
    pass

LIBRARIES = Path(mcp.__file__).parents[1]
CANDIDATE = {
    "type": "object",
    "properties": {"candidate": {"type": "string"}},
    "required": ["candidate"],
    "additionalProperties": False,
}
WEB: dict[str, Any] = {"site": None, "https_hosts": ["a.test"], "http_hosts": [], "requests": 2}
HELLO = {
    "type": "hello",
    "version": 1,
    "K": "Find the best plan.",
    "E0": {"rows": 3},
    "files": {},
    "history": [],
    "budgets": {"experiments": 4},
    "actions": {"experiment": CANDIDATE, "commit": CANDIDATE},
    "seed": "0" * 64,
}
HOST = """\
import asyncio, json, sys
sys.path.insert(0, sys.argv[4])
prompt = sys.stdin.read()
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

def server():
    if sys.argv[2] == "http":
        return sys.argv[1]
    relay = ["-I", "-S", "-B", sys.argv[3], sys.argv[1]]
    return stdio_client(StdioServerParameters(command=sys.executable, args=relay))

def text(result):
    return [json.loads(result.content[0].text), result.is_error]

async def main(client):
    BODY

async def start():
    async with Client(server()) as client:
        await main(client)

asyncio.run(start())
"""
RAW = """\
import http.client, json, os, sys, time, urllib.parse
door = urllib.parse.urlsplit(sys.argv[1])
HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}

def post(body, path="/mcp", headers=HEADERS):
    connection = http.client.HTTPConnection(door.hostname, door.port, timeout=20)
    connection.request("POST", path, body, headers)
    answer = connection.getresponse()
    return answer.status, answer.read()

def tool(name, **arguments):
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
    return post(json.dumps(asked))
"""


@pytest.fixture
def host(
    isolate: Callable[[str, LaunchSpec], Isolation], tmp_path: Path, limits: dict[str, Any]
) -> Callable[..., tuple[Channel, Ending]]:
    """Runs a host program with the SDK at hand: the body of ``main(client)``, or all of it where ``raw`` is set."""

    def run(
        body: str,
        way: str = "http",
        kind: str = "bubblewrap",
        hello: dict[str, Any] = HELLO,
        raw: bool = False,
        base_url: str = "",
        web: Any = None,
        **changed: Any,
    ) -> tuple[Channel, Ending]:
        file = tmp_path / "host.py"
        body = textwrap.dedent(body)
        file.write_text(RAW + body if raw else HOST.replace("BODY", textwrap.indent(body, "    ").strip()))
        interpreter = LaunchSpec((), {}).behind_doors(0).arguments[0]
        doors = (MODEL, MCP) if base_url else (MCP,)
        files = {"/agent/host.py": file, "/libraries": LIBRARIES, **door_files(doors)}
        addresses = ("{mcp}", way, "/door/mcp_stdio.py", "/libraries", "{model}")[: 5 if base_url else 4]
        spec = LaunchSpec((interpreter, "-B", "/agent/host.py", *addresses), files, {"HOME": "/ws"}, doors)
        rules = limits | {"memory_mb": 2048, "wall_seconds": 60} | changed
        channel = Channel(lambda text: {"seen": text}, rules, web)
        model = {"api": "openai", "base_url": base_url, "calls": 4, "call_seconds": 9.0, "episode_tokens": 9_999}
        api = Api(key=KEY, requests_per_minute=60_000)
        objects = ObjectStore(tmp_path / "objects")
        session = Session(lambda: None, Journal(tmp_path, 1), objects, "0" * 64, "model-1", model, api)
        return channel, converse_with_doors(session, isolate(kind, spec), spec, rules, channel, hello)

    return run


Host = Callable[..., tuple[Channel, Ending]]


@pytest.mark.parametrize(("way", "kind"), [("http", "bubblewrap"), ("stdio", "bubblewrap"), ("http", "none")])
def test_a_host_finds_the_tools_and_works_with_them(host: Host, way: str, kind: str) -> None:
    channel, ending = host(
        """
        tools = {tool.name: [tool.description != "", tool.input_schema] for tool in (await client.list_tools()).tools}
        seen = [tools, prompt]
        seen.append(text(await client.call_tool("experiment", {"candidate": "a\\u2028b"})))
        seen.append(text(await client.call_tool("commit", {})))
        seen.append(text(await client.call_tool("nonsense", {"id": 7, "action": "commit", "candidate": "x"})))
        await client.call_tool("commit", {"candidate": json.dumps(seen)})
        await client.call_tool("finish", {})
        """,
        way,
        **({"kind": kind}),
    )
    assert ending.started and channel.finished and not channel.limits_hit, ending.stderr.decode()
    tools, prompt, experiment, malformed, unknown = json.loads(channel.candidates[0])
    assert list(tools) == ["experiment", "commit", "finish"]
    assert tools["experiment"] == [True, CANDIDATE]
    assert prompt.startswith("Find the best plan.")
    assert experiment == [{"ok": True, "result": {"seen": "a\u2028b"}}, False]
    assert [malformed[1], unknown[1]] == [True, True]
    assert malformed[0]["error"]["code"] == unknown[0]["error"]["code"] == "bad_message"
    assert channel.usage == {
        "experiments": 1,
        "commits": 1,
        "messages": 5,
        "bad_messages": 2,
        "bytes": channel.usage["bytes"],
    }
    assert channel.transcript[-1]["line"] == '{"id":"5","ok":true}'


def test_a_page_is_fetched_like_an_experiment_is_made(host: Host) -> None:
    hello = HELLO | {"actions": HELLO["actions"] | {packet.ACTION: {"type": "object", "properties": {"url": {}}}}}
    channel, _ = host(
        """
        tools = [tool.name for tool in (await client.list_tools()).tools]
        got = text(await client.call_tool("web_fetch", {"url": "https://a.test/page"}))
        await client.call_tool("commit", {"candidate": json.dumps([tools, got])})
        """,
        hello=hello,
        web=Recorded(WEB, Packet()),
    )
    tools, (got, is_error) = json.loads(channel.candidates[0])
    assert tools == ["experiment", "web_fetch", "commit", "finish"]
    assert (got["error"]["code"], is_error) == ("not_recorded", True)


def test_calls_at_the_same_time_are_carried_out_one_by_one(host: Host) -> None:
    channel, _ = host(
        """
        async def one(name):
            return text(await client.call_tool("experiment", {"candidate": name}))[0]["result"]["seen"]
        seen = await asyncio.gather(*(one(str(number)) for number in range(4)))
        await client.call_tool("commit", {"candidate": json.dumps(seen)})
        """
    )
    assert json.loads(channel.candidates[0]) == ["0", "1", "2", "3"]
    assert [line["from"] for line in channel.transcript] == ["harness", *["agent", "harness"] * 5]


def test_a_host_asks_its_model_too(host: Host, tmp_path: Path) -> None:
    with serving(tmp_path / "asked", lambda _: plain(chat("the answer"))) as upstream:
        channel, ending = host(
            """
            import urllib.request
            asked = urllib.request.Request(sys.argv[5] + "/chat/completions", b"{}")
            with urllib.request.urlopen(asked) as answer:
                said = json.load(answer)["choices"][0]["message"]["content"]
            await client.call_tool("commit", {"candidate": said})
            """,
            base_url=upstream.base_url,
        )
        assert upstream.asked[0].headers["authorization"] == f"Bearer {KEY}"
    assert channel.candidates == [b"the answer"]
    assert [call.fault for call in ending.calls] == [""]


def test_a_host_that_ends_has_ended_the_episode(host: Host) -> None:
    channel, ending = host(
        "sys.stderr.write('over'); sys.stdout.write('done'); sys.stdout.flush(); sys.exit(3)", raw=True
    )
    assert (channel.finished, channel.candidates, ending.exit_code) == (False, [], 3)
    assert sorted(ending.stderr.decode()) == sorted("overdone")


def test_a_host_that_reads_no_prompt_holds_up_nobody(host: Host) -> None:
    channel, _ = host("tool('commit', candidate='x'); tool('finish')", raw=True, hello=HELLO | {"K": "x" * (1 << 20)})
    assert (channel.candidates, channel.finished) == ([b"x"], True)


def test_what_a_host_writes_to_its_outputs_is_counted(host: Host) -> None:
    channel, ending = host("while True: print('x' * 1000)", raw=True)
    assert channel.limits_hit == ["output_bytes"]
    assert len(ending.stderr) == 4096


def test_a_host_that_does_not_end_is_ended(host: Host) -> None:
    channel, _ = host("tool('commit', candidate='x'); sys.stdout.close(); time.sleep(60)", raw=True, wall_seconds=4)
    assert (channel.limits_hit, channel.candidates) == (["wall_seconds"], [b"x"])


def test_what_is_no_mcp_is_answered_with_an_error_and_costs_nothing_else(host: Host) -> None:
    channel, ending = host(
        """
        statuses = [
            post(b"nonsense")[0],
            post(b"[]")[0],
            post(b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": 3}}')[0],
            post(b'{"jsonrpc": "2.0", "id": ' + b"[" * 50000)[0],
            post(b'{"jsonrpc": "2.0"}', path="/elsewhere")[0],
            post(b"{}", headers={})[0],
            post(b"x" * (1 << 22))[0],
            post(b"\\xff\\xfe")[0],
        ]
        tool("commit", candidate=json.dumps(statuses))
        tool("finish")
        """,
        raw=True,
    )
    assert channel.finished, ending.stderr.decode()
    statuses = json.loads(channel.candidates[0])
    assert statuses[4] == 404
    assert statuses[6] == 413
    assert len(statuses) == 8
    assert channel.usage["messages"] == 2, "none of these reached the channel"


def test_a_request_beyond_the_registered_length_ends_the_episode(host: Host) -> None:
    channel, _ = host("tool('commit', candidate='x' * 70000)", raw=True)
    assert channel.limits_hit == ["message_bytes"]
    assert channel.candidates == []


def test_one_who_does_not_wait_for_replies_gets_none_that_is_another_s(host: Host) -> None:
    channel, _ = host(
        """
        import socket
        asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
        for number in range(3):
            body = json.dumps(asked | {"params": {"name": "experiment", "arguments": {"candidate": str(number)}}})
            with socket.create_connection((door.hostname, door.port)) as one:
                head = "".join(f"{name}: {value}\\r\\n" for name, value in HEADERS.items())
                head += f"Content-Length: {len(body)}\\r\\n"
                one.sendall(f"POST /mcp HTTP/1.1\\r\\nHost: {door.netloc}\\r\\n{head}\\r\\n{body}".encode())
        last = json.loads(tool("experiment", candidate="last")[1])
        tool("commit", candidate=last["result"]["content"][0]["text"])
        """,
        raw=True,
    )
    assert json.loads(channel.candidates[0])["result"] == {"seen": "last"}


def test_without_the_sdk_the_error_says_what_to_install(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "mcp" else find(name, *more))
    with pytest.raises(UsageError, match=r"pip install 'dcpflow\[mcp\]'"):
        host("pass", raw=True)
