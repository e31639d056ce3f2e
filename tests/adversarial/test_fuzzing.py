"""Twenty thousand generated messages and workspaces: none is fatal, and what is recorded of each can be recorded."""

from __future__ import annotations

import json
import os
import random
import socket
import stat
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dcpflow.episodes import workspace
from dcpflow.episodes.channel import ACTIONS, Channel
from dcpflow.episodes.workspace import read_back
from dcpflow.records import canonical
from dcpflow.tasks.base import CandidateInvalid
from dcpflow.tasks.evaluator import EvaluatorDied

BYTES, REQUESTS, WORKSPACES = 16_500, 1_000, 2_500
LIMITS = {"experiments": 3, "candidates": 2, "candidate_bytes": 60, "bad_messages": 10**6, "message_bytes": 1 << 20}
ROOM = {"workspace_mb": 1, "workspace_files": 12}
VIOLATIONS = {value for name, value in vars(workspace).items() if name.isupper() and isinstance(value, str)}
CODES = {"bad_message", "budget", "invalid_candidate"}


def policy(candidate: str) -> dict[str, Any]:
    """Refuses some, dies of some, and answers the others."""
    match len(candidate) % 3:
        case 0:
            raise CandidateInvalid(f"no {candidate[:5]!r}")
        case 1:
            raise EvaluatorDied("it took too long")
    return {"total": "1.000000"}


def hear(channel: Channel, line: bytes) -> None:
    """Whatever was said, the answer and the record have their form, and no limit is passed."""
    heard = len(channel.transcript)
    reply, is_experiment = channel.hear(line)
    answer = json.loads(reply)
    assert reply.endswith(b"\n")
    assert reply.count(b"\n") == 1
    assert set(answer) <= {"id", "ok", "result", "error"}
    assert isinstance(answer["ok"], bool)
    assert answer["ok"] or answer["error"]["code"] in CODES
    assert isinstance(is_experiment, bool)
    assert len(channel.transcript) == heard + 2
    canonical.encode(channel.transcript[heard:])
    assert len(channel.candidates) <= LIMITS["candidates"]
    assert channel.usage["experiments"] <= LIMITS["experiments"]
    assert all(len(candidate) <= LIMITS["candidate_bytes"] for candidate in channel.candidates)
    canonical.encode(channel.usage)


def spoilt(draw: random.Random) -> bytes:
    """A line: a request with bytes of it changed, pieces of JSON, or anything at all."""
    request = {"id": draw.choice([1, "a", None, -1, 2**60, []]), "action": draw.choice([*ACTIONS, "score", "", None])}
    request |= draw.choice([{}, {"candidate": "x" * draw.randrange(70)}, {"candidate": "x", "quotes": {"a": "b"}}])
    line = bytearray(json.dumps(request).encode())
    match draw.randrange(4):
        case 0:
            return bytes(line)
        case 1:
            for _ in range(draw.randrange(1, 4)):
                line[draw.randrange(len(line))] = draw.randrange(256)
            return bytes(line).replace(b"\n", b" ")
        case 2:
            pieces = [b"{", b"}", b"[", b"]", b'"', b":", b",", b"1e999", b"NaN", b"\\ud800", b'"id"', b"\xff", b"null"]
            return b"".join(draw.choices(pieces, k=draw.randrange(60))) * draw.choice([1, 1, 1, 400])
        case _:
            return draw.randbytes(draw.randrange(200)).replace(b"\n", b"")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
REQUEST = st.fixed_dictionaries(
    {},
    optional={
        "id": JSON | st.integers(-9, 9) | st.text(max_size=70),
        "action": st.sampled_from([*ACTIONS, "web_fetch"]) | JSON,
        "candidate": st.text(max_size=70) | JSON,
        "quotes": st.dictionaries(st.text(max_size=9), st.text(max_size=9), max_size=3) | JSON,
        "url": JSON,
    },
)


def made(path: bytes, data: bytes, size: int = 0, mode: int = 0o644) -> None:
    """A new file, never one that is there already, and never what a link leads to."""
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_WRONLY)
    os.write(descriptor, data)
    if size:
        os.ftruncate(descriptor, size)
    os.fchmod(descriptor, mode)
    os.close(descriptor)


def left_by(draw: random.Random, folder: Path) -> None:
    """Fill a folder with what an agent might leave, and more often than not with something forbidden."""
    folders = [os.fsencode(folder)]
    for _ in range(draw.randrange(9)):
        alphabet = draw.choice(
            [b"abc", b"abc", b"abcdef", b"a-.\n\x1b", b"abc", b"abc", bytes(range(1, 256)).replace(b"/", b"")]
        )
        name = bytes(draw.choices(alphabet, k=draw.choice([1, 2, 3, 3, 3, 3, 3, 3, 3, 130])))
        path = draw.choice(folders) + b"/" + name
        try:
            match draw.choice(["file"] * 6 + ["folder"] * 4 + ["link", "hard", "pipe", "socket", "sparse", "mode"]):
                case "file":
                    made(path, draw.randbytes(draw.randrange(50)))
                case "folder":
                    os.mkdir(path)
                    folders.append(path)
                case "link":
                    os.symlink(draw.choice([b"..", b".", b"nowhere", b"/nowhere/at/all", name]), path)
                case "hard":
                    os.link(path[:-1] + b"a", path, follow_symlinks=False)
                case "pipe":
                    os.mkfifo(path)
                case "socket":
                    with socket.socket(socket.AF_UNIX) as one:
                        one.bind(path)
                case "sparse":
                    made(path, b"", draw.choice([1 << 20, 1 << 21, 1 << 40]))
                case "mode":
                    made(path, b"", 0, draw.choice([0, 0o4755, 0o2755, 0o600, 0o111]))
        except OSError:
            continue  # such a name cannot be had here, or twice


def emptied(folder: bytes) -> None:
    """Remove what lies in a shallow folder of our own making."""
    for entry in list(os.scandir(folder)):
        if entry.is_dir(follow_symlinks=False):
            emptied(entry.path)
            os.rmdir(entry.path)
        else:
            os.unlink(entry.path)


def forbidden(folder: Path) -> bool:
    """Whether anything in it is no regular file or folder, or has two names: another way to look than the reader's."""
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            found = os.lstat(os.path.join(place, name))
            if not stat.S_ISDIR(found.st_mode) and (not stat.S_ISREG(found.st_mode) or found.st_nlink > 1):
                return True
    return False


def read_all(folder: Path, draw: random.Random, times: int) -> Counter[str]:
    """Make and read so many workspaces; what was found in them."""
    found: Counter[str] = Counter()
    descriptor = os.open(folder, os.O_RDONLY)
    open_before = len(os.listdir("/proc/self/fd"))
    for _ in range(times):
        left_by(draw, folder)
        read = read_back(descriptor, ROOM)
        assert read.violation in VIOLATIONS | {""}
        assert json.loads(read.manifest())["violation"] == read.violation
        assert read.violation or not forbidden(folder)
        assert sum(file.size for file in read.files) <= 1 << 20
        found[read.violation or "nothing"] += 1
        emptied(os.fsencode(folder))
    assert len(os.listdir("/proc/self/fd")) <= open_before
    os.close(descriptor)
    return found


def test_twenty_thousand_messages_and_workspaces(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], new_channel: Callable[[], Channel]
) -> None:
    draw = random.Random(20_000)
    channel = new_channel()
    for number in range(BYTES):
        if number % 50 == 0:
            channel = new_channel()
        hear(channel, spoilt(draw))

    asked = 0

    @settings(
        max_examples=REQUESTS, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
    )
    @given(REQUEST)
    def requests(request: dict[str, Any]) -> None:
        nonlocal asked
        asked += 1
        hear(new_channel(), json.dumps(request).encode("utf-8", "surrogatepass"))

    requests()
    found = read_all(tmp_path, draw, WORKSPACES)
    assert len(found) >= 8, "the workspaces break many rules, and some break none"
    count = BYTES + asked + sum(found.values())
    with capsys.disabled():
        print(f"\n{count} generated messages and workspaces: no unhandled exception")
    assert count >= 20_000


@pytest.fixture
def new_channel() -> Callable[[], Channel]:
    return lambda: Channel(policy, LIMITS)
