"""What the sandbox must not take away, what is told of what an agent used, and that little is left of it anywhere."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dcpflow.agents.launch import LaunchSpec
from dcpflow.episodes.probe import SPEC, passed, probe
from dcpflow.episodes.processes import Process, Tree, Use, children, read_stat
from dcpflow.episodes.sandbox import Isolation
from dcpflow.episodes.scratch import Filled
from dcpflow.episodes.starting import counted_by_namespace
from dcpflow.episodes.watch import beyond
from dcpflow.protocol.config_model import Limits

if TYPE_CHECKING:
    from tests.adversarial.conftest import Talk

LetTalk = Callable[..., "Talk"]


@pytest.mark.parametrize(
    "body",
    [
        "from multiprocessing import Pool\nwith Pool(2) as pool: commit(pool.map(abs, [-1, -2]) == [1, 2])",
        "import subprocess\ncommit(subprocess.run(['/bin/sh', '-c', 'echo a | cat'], capture_output=True).stdout == b'a\\n')",
        "import threading\none = threading.Thread(target=lambda: commit(True))\none.start(); one.join()",
        "import asyncio\nasync def run(): return True\ncommit(asyncio.run(run()))",
        "import sqlite3\nwith sqlite3.connect('/ws/a.db') as db: commit(db.execute('SELECT 1').fetchone() == (1,))",
        "import tempfile\nwith tempfile.TemporaryDirectory() as one: commit(os.path.isdir(one))",
        "from multiprocessing import shared_memory\none = shared_memory.SharedMemory(create=True, size=99); commit(True); one.unlink()",
        "from concurrent.futures import ProcessPoolExecutor\nwith ProcessPoolExecutor(2) as pool: commit(sum(pool.map(int, '12')) == 3)",
        "os.symlink('/usr', '/tmp/link'); os.mkfifo('/tmp/pipe'); commit(os.path.exists('/tmp/link'))",
        "one, other = socket.socketpair(); one.send(b'x'); commit(other.recv(1) == b'x')",
        "os.makedirs('/ws/a/b'); os.chmod('/ws/a', 0o755); os.rename('/ws/a', '/ws/c'); commit(os.listdir('/ws') == ['c'])",
        "import mmap, hashlib, ssl, zlib, decimal; commit(True)",
    ],
)
def test_what_programs_do_all_day_works_in_the_sandbox(talk: LetTalk, body: str) -> None:
    one = talk(body + "\nask('finish')")
    assert one.reported is True, one.ending
    assert one.ending.workspace.violation == ""
    assert one.channel.limits_hit == []


def test_what_an_agent_leaves_in_its_workspace_is_listed(talk: LetTalk) -> None:
    one = talk("os.mkdir('/ws/a'); open('/ws/a/b', 'w').write('hello'); open('/tmp/c', 'w').write('x'); commit()")
    assert [(file.name, file.size) for file in one.ending.workspace.files] == [("a/b", 5)]


def test_a_limit_that_was_exceeded_in_a_moment_is_named_all_the_same(talk: LetTalk) -> None:
    one = talk("[os.mkdir(f'/ws/{n}') for n in range(40) if n < 31]; os._exit(0)", workspace_files=30)
    assert one.channel.limits_hit == ["workspace_files"]


def test_exactly_the_registered_files_and_bytes_are_allowed(talk: LetTalk) -> None:
    one = talk(
        "[open(f'/ws/{n}', 'w').close() for n in range(29)]; open('/ws/x', 'w').write('x' * (1 << 20)); commit()",
        workspace_files=30,
        workspace_mb=1,
    )
    assert (one.channel.limits_hit, len(one.ending.workspace.files)) == ([], 30)


def test_a_process_that_uses_up_its_time_at_once_is_told_by_how_it_died(talk: LetTalk) -> None:
    # while an experiment is measured nobody looks, but the kernel's limit holds
    one = talk(
        "send('experiment', candidate='x')\nwhile True: pass",
        policy=lambda _: time.sleep(3.5) or {},
        cpu_seconds=1,
        wall_seconds=9,
    )
    assert one.channel.limits_hit == ["cpu_seconds"]


def test_while_a_reply_waits_to_be_read_what_an_agent_says_is_read(talk: LetTalk) -> None:
    """Otherwise an agent that first says all and then listens would wait for ever for a full pipe."""
    one = talk(
        """
        read()
        for number in range(300):
            send("experiment", candidate="x" * 1000)
        heard = [read()["ok"] for _ in range(300)]
        commit(len(heard))
        """,
        experiments=300,
        policy=lambda _: {"text": "y" * 1000},
        wall_seconds=15,
    )
    assert one.reported == 300


def test_what_was_asked_in_time_is_not_carried_out_after_the_wall_limit(talk: LetTalk) -> None:
    one = talk(
        "for _ in range(4): send('experiment', candidate='x')\nsend('commit', candidate='late'); time.sleep(9)",
        policy=lambda _: time.sleep(0.5) or {},
        wall_seconds=0.8,
    )
    assert one.channel.limits_hit == ["wall_seconds"]
    assert one.channel.usage["experiments"] <= 2
    assert one.channel.candidates == []


def test_an_agent_that_closes_its_output_does_not_wait_for_the_wall_limit(talk: LetTalk) -> None:
    one = talk("commit(); os.close(1); sys.stdout = None; time.sleep(60)", wall_seconds=30)
    assert one.channel.candidates == [b"plan"]
    assert one.ending.exit_code is None
    assert one.seconds < 10


def test_a_child_that_may_still_speak_is_heard_after_its_parent_has_closed_the_output(talk: LetTalk) -> None:
    one = talk("if os.fork(): os.close(1); time.sleep(60)\ntime.sleep(0.5); commit(); ask('finish')")
    assert one.channel.candidates == [b"plan"]
    assert one.channel.finished


def test_what_an_agent_leaves_in_a_session_of_its_own_ends_without_a_sandbox_too(talk: LetTalk) -> None:
    talk(
        """
        commit()
        for _ in range(3):
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    os.closerange(0, 3)
                    while True:
                        time.sleep(0.05)
                os._exit(0)
        """,
        "none",
    )  # the fixture looks for what is left


@pytest.mark.parametrize("kind", ["none", "bubblewrap"])
@pytest.mark.parametrize(
    "body", ["commit(); ask('finish')", "os._exit(3)", "time.sleep(60)", "os.fork(); os.setsid(); time.sleep(9)"]
)
def test_no_zombie_of_an_agent_is_left_to_this_process(talk: LetTalk, kind: str, body: str) -> None:
    before = set(children(os.getpid()))
    talk(body, kind, wall_seconds=0.5)
    assert set(children(os.getpid())) <= before


def test_killed_sandboxes_leave_no_zombies_to_the_machine(
    isolate: Callable[[str, LaunchSpec], Isolation], write_agent: Callable[[str], LaunchSpec]
) -> None:
    spec = write_agent("read()")
    running = isolate("bubblewrap", spec).start(spec, Limits().model_dump() | {"processes": 1024})
    (first,) = children(running.process.pid)
    inside = [first, *children(first)]
    running.stop()
    running.close_workspace()
    assert [read_stat(pid) for pid in (running.process.pid, *inside)] == [None] * (1 + len(inside))


def test_nothing_of_the_scratch_file_system_is_left_on_the_machine(talk: LetTalk) -> None:
    before = (Path("/proc/self/mountinfo").read_text(), sorted(os.listdir("/proc/self/fd")))
    talk("open('/ws/left', 'w').write('x' * 99999)", "none" if os.geteuid() else "bubblewrap")
    after = (Path("/proc/self/mountinfo").read_text(), sorted(os.listdir("/proc/self/fd")))
    assert "size=67174400" not in after[0]
    assert after[1] == before[1]


# --- the parts ---------------------------------------------------------------------------------------------


def test_the_probe_notices_a_missing_filter(
    isolate: Callable[[str, LaunchSpec], Isolation], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = Limits().model_dump() | {"processes": 1024}
    isolation = isolate("bubblewrap", SPEC)
    monkeypatch.setattr(isolation, "_filter", bytes.fromhex("060000000000ff7f"))  # allow everything
    report = probe(isolation, tmp_path / "private", limits)
    found = {name for name, result in report["tests"].items() if result == "open"}
    assert {"vsock", "netlink", "kernel_interfaces", "setuid_file", "uncounted_memory"} <= found
    assert not passed(report)


def test_the_probe_notices_missing_limits(
    isolate: Callable[[str, LaunchSpec], Isolation], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dcpflow.episodes import scratch

    monkeypatch.setattr(scratch, "options", lambda _: "mode=0700")
    limits = Limits().model_dump() | {"processes": 1024}
    report = probe(isolate("bubblewrap", SPEC), tmp_path / "private", limits)
    assert {name for name, result in report["tests"].items() if result == "open"} == {"roomy_workspace"}


LIMITS: dict[str, Any] = {"workspace_mb": 1, "workspace_files": 10, "processes": 3, "memory_mb": 4, "cpu_seconds": 1.5}
MIB = 1 << 20


@pytest.mark.parametrize(
    ("use", "kept", "limit"),
    [
        (Use(1.5, 3 * MIB, 3), Filled(MIB, 10), None),
        (Use(1.51, 0, 0), Filled(0, 0), "cpu_seconds"),
        (Use(0, 4 * MIB + 1, 0), Filled(0, 0), "memory_mb"),
        (Use(0, 3 * MIB + 1, 0), Filled(MIB, 0), "memory_mb"),
        (Use(0, 0, 4), Filled(0, 0), "processes"),
        (Use(0, 0, 0), Filled(MIB + 1, 0), "workspace_mb"),
        (Use(0, 0, 0), Filled(0, 11), "workspace_files"),
        (Use(9, 9 * MIB, 9), Filled(9 * MIB, 99), "workspace_mb"),
    ],
)
def test_which_limit_is_exceeded(use: Use, kept: Filled, limit: str | None) -> None:
    assert beyond(use, kept, LIMITS) == limit


def test_a_process_is_read_whatever_its_name() -> None:
    code = (
        "import ctypes, time; ctypes.CDLL(None).prctl(15, b') R 1 (x) y', 0, 0, 0); print(flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-S", "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        found = read_stat(process.pid)
        assert isinstance(found, Process)
        assert (found.pid, found.threads) == (process.pid, 1)
        assert 1 << 20 < found.resident_bytes < 1 << 28
        assert children(os.getpid()).count(process.pid) == 1
        use = Tree(process.pid, counted=True).use(1 << 40, 10)
        assert use.tasks == 1
        shared = Tree(process.pid, counted=True).use(0, 10)
        assert 0 < shared.memory_bytes <= use.memory_bytes
        process.kill()
    assert read_stat(process.pid) is None
    assert Tree(process.pid, counted=True).use(0, 10) == Use(0, 0, 0)


@pytest.mark.parametrize(
    ("release", "counted"),
    [
        ("6.18.44-fc", True),
        ("5.14.0", True),
        ("5.13.19", False),
        ("4.18.0-553.el8", False),
        ("10.0", True),
        ("odd", False),
    ],
)
def test_since_when_processes_are_counted_by_namespace(release: str, counted: bool) -> None:
    assert counted_by_namespace(release) is counted
