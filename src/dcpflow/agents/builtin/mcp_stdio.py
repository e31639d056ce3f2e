"""Stands between a host program that speaks MCP on standard input and output, and the MCP server behind its door.

Argument: the server's address. Every line is one message of JSON-RPC, passed on by itself; what comes back is one line.
"""

import json
import sys
from http import client
from urllib.parse import urlsplit

HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
SERVER_ERROR = -32000

server = urlsplit(sys.argv[1])
version = ""


def passed_on(line):
    """The server's answer to one message; empty where it has none."""
    connection = client.HTTPConnection(server.hostname, server.port)
    try:
        connection.request("POST", server.path, line, HEADERS | ({"MCP-Protocol-Version": version} if version else {}))
        return connection.getresponse().read()
    finally:
        connection.close()


for line in sys.stdin.buffer:
    try:
        message = json.loads(line)
        asked = message.get("id") if isinstance(message, dict) else None
    except ValueError:
        message, asked = None, None
    try:
        answer = passed_on(line)
    except (OSError, client.HTTPException) as error:
        failure = {"code": SERVER_ERROR, "message": f"the server cannot be reached: {error}"}
        answer = json.dumps({"jsonrpc": "2.0", "id": asked, "error": failure}).encode() if asked is not None else b""
    if asked is not None and message.get("method") == "initialize":
        version = json.loads(answer).get("result", {}).get("protocolVersion", "")
    if answer.strip():
        sys.stdout.buffer.write(answer.strip().replace(b"\n", b" ") + b"\n")
        sys.stdout.buffer.flush()
