"""The isolation probe: an agent that tries to get out, run inside the sandbox of every job."""

from __future__ import annotations

import json
import secrets
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dcpflow.agents.launch import builtin_file, python_command
from dcpflow.episodes.sandbox import Isolation
from dcpflow.records import files

SCHEMA = "dcpflow.isolation-probe/1"
SPEC = python_command(builtin_file("isolation_probe"))


def probe(isolation: Isolation, private: Path, limits: Mapping[str, float]) -> dict[str, Any]:
    """Run the probe and return its record.

    Args:
        isolation: what is tested.
        private: the folder of sealed material; a canary file is laid there for the probe to look for.
        limits: the registered limits.

    Returns:
        ``schema``, ``backend`` and ``tests``: what was tried, ``refused`` or ``open``; no tests where the backend
        is none, or where the probe could not even report.
    """
    record: dict[str, Any] = {"schema": SCHEMA, "backend": isolation.backend, "tests": {}}
    if isolation.backend == "none":
        return record
    files.private_folder(private)
    with (
        tempfile.NamedTemporaryFile(dir=private, prefix="canary-") as canary,
        socket.create_server(("127.0.0.1", 0)) as listener,
    ):
        canary.write(secrets.token_bytes(32))
        canary.flush()
        running = isolation.start(SPEC, limits)
        try:
            told = {"canary": canary.name, "port": listener.getsockname()[1], "workspace_mb": limits["workspace_mb"]}
            question = json.dumps(told) + "\n"
            answer, _ = running.process.communicate(question.encode(), timeout=limits["wall_seconds"])
            tests = json.loads(answer)
        except (OSError, ValueError, subprocess.SubprocessError):
            tests = {}
        finally:
            running.stop()
            running.close_workspace()
    if isinstance(tests, dict) and tests and set(tests.values()) <= {"refused", "open"}:
        record["tests"] = tests
    return record


def passed(record: Mapping[str, Any]) -> bool:
    """Whether everything that the probe tried was refused."""
    return bool(record["tests"]) and set(record["tests"].values()) == {"refused"}
