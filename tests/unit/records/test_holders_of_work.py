"""Who holds a piece of work: never somebody else who happens to have the same process number."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dcpflow.records.holders import Holder, Silence


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE
    )
    yield process
    process.kill()
    process.wait()
    assert process.stdin
    process.stdin.close()


def holder_of(process: subprocess.Popen[bytes]) -> Holder:
    stat = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return replace(Holder.myself(), pid=process.pid, started=int(stat[19]))


def test_this_process_holds_what_it_holds() -> None:
    me = Holder.myself()
    assert me.pid == os.getpid()
    assert me.alive() is True
    assert Holder.from_json(me.to_json()) == me


def test_another_process_is_alive_until_it_dies(sleeper: subprocess.Popen[bytes]) -> None:
    holder = holder_of(sleeper)
    assert holder.alive() is True
    sleeper.kill()
    sleeper.wait()
    assert holder.alive() is False


def test_a_zombie_holds_nothing(sleeper: subprocess.Popen[bytes]) -> None:
    holder = holder_of(sleeper)
    sleeper.kill()
    deadline = time.monotonic() + 5
    while ") Z" not in Path(f"/proc/{sleeper.pid}/stat").read_text() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert Path(f"/proc/{sleeper.pid}").exists()  # nobody has waited for it yet
    assert holder.alive() is False


def test_a_process_that_got_the_number_of_a_dead_one_is_not_taken_for_it() -> None:
    me = Holder.myself()
    assert replace(me, started=me.started - 1).alive() is False


def test_after_a_restart_of_the_machine_nobody_of_before_is_alive() -> None:
    assert replace(Holder.myself(), boot="00000000-0000-0000-0000-000000000000").alive() is False


def test_of_another_machine_nothing_can_be_told_from_here() -> None:
    assert replace(Holder.myself(), host="elsewhere.example").alive() is None


def test_of_a_container_of_this_machine_with_process_numbers_of_its_own_nothing_can_be_told() -> None:
    elsewhere = replace(Holder.myself(), space="pid:[1]")
    assert elsewhere.alive() is None
    assert replace(elsewhere, pid=2**22, started=1).alive() is None, "a number that nobody has here may be had there"
    assert replace(elsewhere, boot="00000000-0000-0000-0000-000000000000").alive() is False


def test_a_holder_of_before_namespaces_were_noted_is_read_and_judged_as_then() -> None:
    value = Holder.myself().to_json()
    del value["space"]
    assert Holder.from_json(value) == Holder.myself()
    earlier = Holder.from_json(value | {"started": 1})
    assert earlier is not None
    assert earlier.alive() is False


def test_a_touch_is_heard_though_the_file_s_dates_are_remembered_from_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As over NFS, which asks the server for them only once the file is opened."""
    path = tmp_path / "lock.json"
    path.touch()
    before = path.stat()
    monkeypatch.setattr(Path, "stat", lambda *_, **__: before)
    silence = Silence()
    assert not silence.too_long(path)
    os.utime(path, ns=(1, 1))
    assert not silence.too_long(path)
    assert silence.heard


@pytest.mark.parametrize(
    "value", [None, [], "text", 3, {}, {"host": "a", "boot": "b", "pid": "many", "started": 1}, {"host": "a", "pid": 1}]
)
def test_what_names_nobody_is_nobody(value: Any) -> None:
    assert Holder.from_json(value) is None
