"""A process of ours that answers at a door: it has what it needs, and is ended whatever it does."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import socket
import time
from pathlib import Path

import pytest

from dcpflow.episodes.keeper import MEMORY, Keeper


def telling(door: socket.socket, control: socket.socket) -> None:
    """Say what this process has."""
    found = []
    for one in sorted(Path("/proc/self/fd").iterdir()):
        with contextlib.suppress(OSError):  # that of this very listing
            found += [str(one.readlink())] if int(one.name) > 2 else []
    told = {"open": found, "door": door.getsockname()[1], "memory": resource.getrlimit(resource.RLIMIT_AS)[0]}
    control.sendall(json.dumps(told).encode() + b"\n")


def never_ending(door: socket.socket, control: socket.socket) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    control.sendall(b"here")
    time.sleep(600)


def test_it_has_its_door_and_no_descriptor_of_the_job_s(tmp_path: Path) -> None:
    (tmp_path / "sealed").write_text("secret")
    reads, writes = os.pipe()
    with (tmp_path / "sealed").open(), socket.create_server(("127.0.0.1", 0)) as door:
        keeper = Keeper(telling, (writes,))
        keeper.give(door)
        told = json.loads(keeper.control.makefile("rb").readline())
        keeper.end()
        assert told["door"] == door.getsockname()[1]
    os.close(reads)
    os.close(writes)
    kinds = [name.partition(":")[0] for name in told["open"]]
    assert kinds.count("socket") == 2, "its door, and the socket to the job"
    assert kinds.count("pipe") == 1, "what it was said to need"
    assert len(kinds) == 3
    assert MEMORY < told["memory"] < 10 * MEMORY


def test_it_is_ended_whatever_it_does() -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        keeper = Keeper(never_ending)
        keeper.give(door)
        assert keeper.control.recv(16) == b"here"
        keeper.end()
    with pytest.raises(ProcessLookupError):
        os.kill(keeper._child, 0)


def test_one_that_is_given_no_door_ends() -> None:
    keeper = Keeper(never_ending)
    keeper.control.shutdown(socket.SHUT_WR)
    assert keeper.control.recv(16) == b""
    keeper.end()
