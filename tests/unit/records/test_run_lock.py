"""The run lock: one run for each results folder, and nothing to clean up by hand after a kill."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dcpflow.errors import UsageError
from dcpflow.records import canonical, holders, runlock
from dcpflow.records.holders import Holder
from dcpflow.records.runlock import RunLock

NAME = ".run-lock.json"


def lock_of(results: Path) -> Holder | None:
    return Holder.from_json(canonical.decode((results / NAME).read_bytes(), NAME))


def leave(results: Path, holder: Holder) -> bytes:
    """Lay down another process's lock."""
    data = canonical.encode(holder.to_json())
    results.mkdir(parents=True, exist_ok=True)
    (results / NAME).write_bytes(data)
    return data


def dead() -> Holder:
    return replace(Holder.myself(), started=1)


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The signals that the lock has sent, in place of sending them."""
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr("os.kill", lambda pid, number: sent.append((pid, number)))
    return sent


def test_a_run_takes_the_lock_and_gives_it_back(tmp_path: Path) -> None:
    results = tmp_path / "not" / "there" / "yet"
    RunLock(results).take()
    assert lock_of(results) == Holder.myself()
    RunLock(results).release()
    assert list(results.iterdir()) == []
    RunLock(results).release()  # nothing to give back is no error
    RunLock(results).take()
    assert lock_of(results) == Holder.myself()


def test_a_second_run_is_refused_with_the_process_that_is_at_work(tmp_path: Path) -> None:
    first = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys; from pathlib import Path; from dcpflow.records.runlock import RunLock\n"
            f"lock = RunLock(Path({str(tmp_path)!r})); lock.take(); print('taken', flush=True); sys.stdin.read()",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert first.stdin and first.stdout
    assert first.stdout.readline() == b"taken\n"
    with pytest.raises(UsageError) as caught:
        RunLock(tmp_path).take()
    assert f"process {first.pid}" in str(caught.value)
    assert str(tmp_path) in str(caught.value)
    assert "execution.results" in caught.value.remedy
    first.kill()  # as a user or a scheduler would
    first.wait()
    first.stdin.close()
    first.stdout.close()
    RunLock(tmp_path).take()
    assert lock_of(tmp_path) == Holder.myself()
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


ELSEWHERE = replace(Holder.myself(), host="elsewhere.example")


def test_a_run_on_another_machine_that_shows_itself_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runlock, "POLL_SECONDS", 0.01)
    data = leave(tmp_path, ELSEWHERE)
    shown = threading.Timer(0.1, lambda: os.utime(tmp_path / NAME, ns=(1, 1)))
    shown.start()
    with pytest.raises(UsageError, match=r"on the host elsewhere\.example"):
        RunLock(tmp_path).take()
    assert (tmp_path / NAME).read_bytes() == data


def test_a_dead_run_on_another_machine_does_not_block_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(runlock, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(holders, "FOREIGN_SILENCE_SECONDS", 0.05)
    leave(tmp_path, ELSEWHERE)
    RunLock(tmp_path).take()
    assert lock_of(tmp_path) == Holder.myself()
    assert "left by a run on the host elsewhere.example" in capsys.readouterr().out


def test_a_lock_that_its_run_on_another_machine_gives_back_meanwhile_is_taken_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runlock, "POLL_SECONDS", 0.01)
    leave(tmp_path, ELSEWHERE)
    threading.Timer(0.1, (tmp_path / NAME).unlink).start()
    RunLock(tmp_path).take()
    assert lock_of(tmp_path) == Holder.myself()


def test_a_run_shows_other_machines_that_it_is_alive_until_it_gives_the_lock_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: list[tuple[int, int]]
) -> None:
    monkeypatch.setattr(runlock, "BEAT_SECONDS", 0.02)
    lock = RunLock(tmp_path)
    lock.take()
    os.utime(tmp_path / NAME, ns=(1, 1))
    assert within(5, lambda: (tmp_path / NAME).stat().st_mtime_ns > 1)
    lock.release()
    data = leave(tmp_path, ELSEWHERE)
    os.utime(tmp_path / NAME, ns=(1, 1))
    assert not within(0.2, lambda: (tmp_path / NAME).stat().st_mtime_ns > 1)
    assert (tmp_path / NAME).read_bytes() == data
    assert killed == [], "what another run does afterwards is no business of one that has ended"


def test_a_run_whose_lock_another_one_has_taken_meanwhile_says_so_and_ends_itself(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    killed: list[tuple[int, int]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(runlock, "BEAT_SECONDS", 0.02)
    lock = RunLock(tmp_path)
    lock.take()
    other = tmp_path / "of-the-other-run"
    other.write_bytes(canonical.encode(ELSEWHERE.to_json()))
    other.replace(tmp_path / NAME)
    assert within(5, lambda: killed == [(os.getpid(), signal.SIGTERM)])
    assert f"another run has taken {tmp_path / NAME}" in capsys.readouterr().err
    lock.release()
    assert lock_of(tmp_path) == ELSEWHERE


def test_a_job_on_a_machine_that_sees_the_run_goes_on_though_the_news_took_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runlock, "POLL_SECONDS", 0.01)
    leave(tmp_path, ELSEWHERE)
    runlock.require(tmp_path, patience=0)
    (tmp_path / NAME).unlink()
    threading.Timer(0.1, lambda: leave(tmp_path, ELSEWHERE)).start()
    runlock.require(tmp_path, patience=5)


@pytest.mark.parametrize("folder", ["other", "."], ids=["no folder", "another folder"])
def test_a_job_on_a_machine_with_another_results_folder_is_told_so(tmp_path: Path, folder: str) -> None:
    with pytest.raises(UsageError, match=f"host {socket.gethostname()} does not see the run") as caught:
        runlock.require(tmp_path / folder, patience=0)
    assert str(tmp_path / folder) in str(caught.value)
    assert "All nodes have to share that folder" in caught.value.remedy


def within(seconds: float, condition: Callable[[], bool]) -> bool:
    """Whether the condition comes to hold in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


@pytest.mark.parametrize("other", [dead(), replace(Holder.myself(), host="elsewhere.example")])
def test_only_the_own_lock_is_given_back(tmp_path: Path, other: Holder) -> None:
    data = leave(tmp_path, other)
    RunLock(tmp_path).release()
    assert (tmp_path / NAME).read_bytes() == data


@pytest.mark.parametrize("fourth", [False, True], ids=["put back", "a fourth run is quicker"])
def test_a_lock_that_a_third_run_takes_while_a_dead_one_is_cleared_is_never_this_run_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fourth: bool
) -> None:
    leave(tmp_path, dead())
    parent = replace(Holder.myself(), pid=os.getppid(), started=_started(os.getppid()))
    rename = Path.rename

    def replaced_at_the_last_moment(path: Path, target: Path) -> Path:
        leave(tmp_path, parent)
        moved = rename(path, target)
        if fourth:
            leave(tmp_path, parent)
        return moved

    monkeypatch.setattr(Path, "rename", replaced_at_the_last_moment)
    with pytest.raises(UsageError, match=f"process {parent.pid}"):
        RunLock(tmp_path).take()
    assert lock_of(tmp_path) == parent
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


def test_a_lock_that_is_given_back_just_after_it_was_read_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(tmp_path, dead())
    read_bytes = Path.read_bytes

    def gone_afterwards(path: Path) -> bytes:
        data = read_bytes(path)
        path.unlink()
        return data

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", gone_afterwards)
        RunLock(tmp_path).take()
    assert lock_of(tmp_path) == Holder.myself()


def test_what_a_run_of_the_same_process_number_elsewhere_has_set_aside_is_left_alone(tmp_path: Path) -> None:
    leave(tmp_path, dead())
    others = tmp_path / f".run-lock-dead-{os.getpid()}"
    others.write_bytes(b"of another host")
    RunLock(tmp_path).take()
    assert others.read_bytes() == b"of another host"


def test_a_lock_that_is_seen_to_be_another_run_s_is_not_even_set_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(tmp_path, dead())
    third = replace(Holder.myself(), pid=os.getppid(), started=_started(os.getppid()))
    alive, moved = Holder.alive, []

    def found_dead_but_replaced_meanwhile(holder: Holder) -> bool | None:
        if (result := alive(holder)) is False:
            leave(tmp_path, third)
        return result

    monkeypatch.setattr(Holder, "alive", found_dead_but_replaced_meanwhile)
    monkeypatch.setattr(Path, "rename", lambda *paths: moved.append(paths))
    with pytest.raises(UsageError, match=f"process {third.pid}"):
        RunLock(tmp_path).take()
    assert moved == []


def test_a_run_is_told_that_it_follows_a_killed_one_whose_jobs_may_still_be_queued(tmp_path: Path) -> None:
    lock = RunLock(tmp_path)
    assert not lock.take()
    lock.release()
    leave(tmp_path, dead())
    assert RunLock(tmp_path).take()


@pytest.mark.parametrize("data", [b"", b'{"host":', b"\0" * 16])
def test_a_lock_that_a_crash_left_unreadable_is_cleared(tmp_path: Path, data: bytes) -> None:
    (tmp_path / NAME).write_bytes(data)
    RunLock(tmp_path).take()
    assert lock_of(tmp_path) == Holder.myself()


def _started(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
