"""What is read beside: the same result and the same errors, whichever process did the work."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from dcpflow.errors import EvidenceError
from dcpflow.records import beside, large_json

HERE = os.getpid()


@pytest.fixture
def large(tmp_path: Path) -> list[Path]:
    path = tmp_path / "large"
    path.write_bytes(bytes(large_json.LARGE))
    return [path]


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As in a process with one thread, on two processors, which that of the tests need not be."""
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / "1").touch()
    monkeypatch.setattr(beside, "_THREADS", str(tmp_path / "task"))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})


@pytest.mark.usefixtures("alone")
def test_much_is_read_in_another_process_and_little_here(large: list[Path], tmp_path: Path) -> None:
    with beside.begun(os.getpid, large) as result:
        assert result() != HERE
    for little in ([], [tmp_path / "gone"]):
        with beside.begun(os.getpid, little) as result:
            assert result() == HERE


def test_a_process_with_another_thread_does_the_work_itself(large: list[Path]) -> None:
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    try:
        with beside.begun(os.getpid, large) as result:
            assert result() == HERE
    finally:
        end.set()
        thread.join()


@pytest.mark.usefixtures("alone")
def test_an_error_is_raised_where_the_result_is_asked_for(large: list[Path]) -> None:
    def refuse() -> None:
        raise EvidenceError("the scores were altered", "To score again: do this")

    with beside.begun(refuse, large) as result, pytest.raises(EvidenceError, match=r"altered\. To score again"):
        result()


@pytest.mark.usefixtures("alone")
def test_half_an_answer_is_none(large: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside, "_LENGTH", 1)

    def half(found: int) -> bytes:
        monkeypatch.setattr(beside, "_LENGTH", 2)
        return str(found).encode()

    with beside.begun(os.getpid, large, half, int) as result:
        assert result() == HERE


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGTERM])
def test_where_the_other_process_is_lost_the_work_is_done_here(large: list[Path], signal_number: int) -> None:
    def work() -> int:
        if os.getpid() != HERE:
            os.kill(os.getpid(), signal_number)
        return os.getpid()

    with beside.begun(work, large) as result:
        assert result() == HERE


@pytest.mark.usefixtures("alone")
def test_nothing_is_left_of_work_that_nobody_has_asked_for(large: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    children, fork = [], os.fork

    def noted() -> int:
        children.append(fork())
        return children[-1]

    monkeypatch.setattr(os, "fork", noted)
    with pytest.raises(KeyError), beside.begun(signal.pause, large):
        raise KeyError
    with pytest.raises(ChildProcessError):
        os.waitpid(children[0], os.WNOHANG)
