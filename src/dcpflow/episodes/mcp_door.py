"""The channel as a server of the Model Context Protocol: each call of a tool becomes one line, its reply the result.

What a host sends is read by the official SDK; what becomes a request of it goes the way of every agent's line, so that
nothing is decided here. It runs in a process of its own, and what harms that harms one episode.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from typing import Any, Final

import mcp_types
import uvicorn
from mcp.server.lowlevel import Server

from dcpflow.agents import dialogue

NAME: Final = "laboratory"
PATH: Final = "/mcp"
AT_ONCE: Final = 32
"""Connections and requests that are served at a time."""
ROOM: Final = 1 << 16
"""What a message may have in bytes besides a request of the channel."""


def serve(door: socket.socket, reads: int, writes: int, message_bytes: int) -> None:
    """Serve at the door until this process is killed.

    Args:
        door: the listening socket.
        reads: descriptor from which the channel's lines come, its first message before all.
        writes: descriptor to which requests go.
        message_bytes: the longest registered line; longer ones end the episode, much longer ones are not read.
    """
    asyncio.run(_serve(door, reads, writes, message_bytes))


async def _serve(door: socket.socket, reads: int, writes: int, message_bytes: int) -> None:
    said = asyncio.StreamReader(limit=1 << 40)
    with os.fdopen(reads, "rb", 0) as pipe:
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(said), pipe)
        hello = json.loads(await said.readline())
        line = Line(said, writes)
        app = _server(hello, line).streamable_http_app(
            streamable_http_path=PATH,
            json_response=True,
            stateless_http=True,
            # a text can be longer in JSON than it is
            max_request_body_size=8 * message_bytes + ROOM,
        )
        settings = uvicorn.Config(
            app, ws="none", log_level="critical", access_log=False, server_header=False, limit_concurrency=AT_ONCE
        )
        answering = asyncio.create_task(line.work())
        await uvicorn.Server(settings).serve(sockets=[door])
        answering.cancel()


class Line:
    """The channel, one request at a time: the next one goes out when the reply to the one before has come.

    Args:
        said: the channel's replies.
        writes: descriptor to which requests go.
    """

    def __init__(self, said: asyncio.StreamReader, writes: int) -> None:
        self._said = said
        self._writes = writes
        self._waiting: asyncio.Queue[tuple[bytes, asyncio.Future[bytes]]] = asyncio.Queue()

    async def ask(self, request: bytes) -> bytes:
        """The reply's line."""
        answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        await self._waiting.put((request, answered))
        return await answered

    async def work(self) -> None:
        """Carry requests; one whose asker has gone keeps its reply all the same, so that none is taken for another."""
        while True:
            request, answered = await self._waiting.get()
            await asyncio.to_thread(_write_all, self._writes, request + b"\n")
            reply = await self._said.readline()
            if not answered.done():
                answered.set_result(reply)


def _server(hello: dict[str, Any], line: Line) -> Server[Any]:
    offered = [
        mcp_types.Tool(name=tool.name, description=tool.description, input_schema=dict(tool.schema))
        for tool in dialogue.tools(hello)
    ]
    asked = 0

    async def tools(_: Any, __: Any) -> mcp_types.ListToolsResult:
        return mcp_types.ListToolsResult(tools=offered)

    async def call(_: Any, wanted: mcp_types.CallToolRequestParams) -> mcp_types.CallToolResult:
        nonlocal asked
        asked += 1
        reply = await line.ask(dialogue.request_line(str(asked), wanted.name, wanted.arguments or {}))
        text = mcp_types.TextContent(type="text", text=dialogue.reply_text(reply))
        return mcp_types.CallToolResult(content=[text], is_error=not json.loads(reply)["ok"])

    return Server(NAME, version="1", on_list_tools=tools, on_call_tool=call)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
