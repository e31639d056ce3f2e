"""The evaluator child: what hostile input does to it is the candidate's outcome, what we do wrong is ours."""

from __future__ import annotations

import json
import mmap
import os
import resource
import select
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dcpflow.tasks import evaluator as module
from dcpflow.tasks.base import CandidateInvalid
from dcpflow.tasks.evaluator import Evaluator, EvaluatorDied

Answer = Callable[[dict[str, Any]], Any]
Make = Callable[..., Evaluator]


@pytest.fixture
def evaluate() -> Iterator[Make]:
    """Makes an evaluator with this answer; its child is ended with the test."""
    made: list[Evaluator] = []

    def make(answer: Answer, seconds: float = 5, memory_mb: int = 64) -> Evaluator:
        made.append(Evaluator(lambda: answer, seconds, memory_mb))
        return made[-1]

    yield make
    for one in made:
        one.close()


def endless(_: dict[str, Any]) -> Any:
    while True:
        pass


def gone(pid: int, seconds: float = 3.0) -> bool:
    """Whether the process ends within this time; a zombie is ended."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX":
                return True
        except OSError:
            return True
        time.sleep(0.01)
    return False


def test_one_child_answers_one_request_after_the_other(evaluate: Make) -> None:
    one = evaluate(lambda request: {"pid": os.getpid(), "twice": request["n"] * 2})
    answers = [one.ask({"n": n}) for n in (1, 2, 3)]
    assert [answer["twice"] for answer in answers] == [2, 4, 6]
    assert len({answer["pid"] for answer in answers}) == 1
    assert answers[0]["pid"] != os.getpid()


def test_large_answers_and_odd_texts_come_through(evaluate: Make) -> None:
    one = evaluate(lambda request: [request["text"], "x" * 1_000_000])
    for text in ("\n", "\u2028\0\U0001f600", "\ud800", ""):
        assert one.ask({"text": text}) == [text, "x" * 1_000_000]


def test_nothing_that_a_child_changes_reaches_this_process(evaluate: Make) -> None:
    state = {"count": 0}

    def answer(_: dict[str, Any]) -> Any:
        state["count"] += 1
        return state["count"]

    one = evaluate(answer)
    assert [one.ask({}), one.ask({})] == [1, 2]
    assert state == {"count": 0}


# --- outcomes of the candidate -----------------------------------------------------------------------------


def test_a_refusal_by_the_task_is_passed_on_and_the_child_lives_on(evaluate: Make) -> None:
    def answer(request: dict[str, Any]) -> Any:
        if request["bad"]:
            raise CandidateInvalid("statement 2 does not create an index")
        return os.getpid()

    one = evaluate(answer)
    first = one.ask({"bad": False})
    with pytest.raises(CandidateInvalid, match=r"^statement 2 does not create an index$"):
        one.ask({"bad": True})
    assert one.ask({"bad": False}) == first


@pytest.mark.parametrize(
    "end",
    [
        lambda _: os.kill(os.getpid(), signal.SIGKILL),
        lambda _: os.kill(os.getpid(), signal.SIGSEGV),
        lambda _: os._exit(0),
        lambda _: (_ for _ in ()).throw(SystemExit(0)),
        lambda _: (_ for _ in ()).throw(KeyboardInterrupt()),
    ],
    ids=["killed", "crashed", "left", "exited", "interrupted"],
)
def test_a_death_in_the_child_is_the_candidate_s_outcome_and_the_next_one_gets_a_fresh_child(
    evaluate: Make, end: Answer
) -> None:
    one = evaluate(lambda request: end(request) if request["die"] else os.getpid())
    first = one.ask({"die": False})
    with pytest.raises(EvaluatorDied):
        one.ask({"die": True})
    assert gone(first)
    assert one.ask({"die": False}) not in {first, os.getpid()}


def test_an_endless_loop_is_ended_after_the_registered_time(evaluate: Make) -> None:
    one = evaluate(lambda request: endless(request) if request["loop"] else os.getpid(), seconds=0.2)
    first = one.ask({"loop": False})
    began = time.monotonic()
    with pytest.raises(EvaluatorDied, match="took too long"):
        one.ask({"loop": True})
    assert time.monotonic() - began > 0.15
    assert gone(first)
    assert one.ask({"loop": False}) != first


def test_waiting_is_no_way_around_the_time_limit(evaluate: Make) -> None:
    with pytest.raises(EvaluatorDied, match="took too long"):
        evaluate(lambda _: time.sleep(60), seconds=0.02).ask({})


def test_what_is_slow_because_the_machine_is_busy_is_not_ended(evaluate: Make) -> None:
    assert evaluate(lambda _: time.sleep(0.6), seconds=0.2).ask({}) is None


def test_the_memory_limit_holds_and_does_not_hit_this_process(evaluate: Make) -> None:
    before = resource.getrlimit(resource.RLIMIT_AS)
    one = evaluate(lambda request: len(bytearray(request["mb"] << 20)), memory_mb=64)
    with pytest.raises(EvaluatorDied, match="more than is allowed"):
        one.ask({"mb": 4096})
    assert one.ask({"mb": 8}) == 8 << 20
    assert resource.getrlimit(resource.RLIMIT_AS) == before


def test_the_registered_memory_is_the_limit_beyond_what_this_process_has(evaluate: Make) -> None:
    with pytest.raises(EvaluatorDied):
        evaluate(lambda _: len(mmap.mmap(-1, 512 << 20)), memory_mb=64).ask({})


def test_endless_recursion_is_the_candidate_s_outcome(evaluate: Make) -> None:
    def deep(request: dict[str, Any]) -> Any:
        return deep(request)

    with pytest.raises(EvaluatorDied, match="RecursionError"):
        evaluate(deep).ask({})


def test_a_child_cannot_write_a_file(evaluate: Make) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # which every user can reach
        path = Path(folder, "large")
        path.parent.chmod(0o777)

        def write(_: dict[str, Any]) -> Any:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            path.write_bytes(b"x")

        with pytest.raises(RuntimeError, match="File too large"):
            evaluate(write).ask({})
        assert path.stat().st_size == 0


# --- faults of ours ----------------------------------------------------------------------------------------


def test_an_error_in_our_own_code_stops_the_job_with_its_traceback(evaluate: Make) -> None:
    def broken(_: dict[str, Any]) -> Any:
        return {}["no such key"]

    with pytest.raises(RuntimeError, match="KeyError: 'no such key'") as caught:
        evaluate(broken).ask({})
    assert "in broken" in str(caught.value)


def test_what_cannot_be_prepared_is_a_fault_and_not_the_candidate_s(evaluate: Make) -> None:
    def prepare() -> Answer:
        raise FileNotFoundError("the hidden state is not there")

    with (
        Evaluator(prepare, 5, 64) as one,
        pytest.raises(RuntimeError, match="FileNotFoundError: the hidden state is not there"),
    ):
        one.ask({})


@pytest.mark.parametrize("answer", [{1, 2}, b"bytes", object()], ids=["set", "bytes", "object"])
def test_an_answer_that_is_no_json_is_a_fault_of_ours(evaluate: Make, answer: Any) -> None:
    with pytest.raises(RuntimeError):
        evaluate(lambda _: answer).ask({})


def test_limits_that_cannot_be_set_are_a_fault_of_ours(evaluate: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("setuid: Invalid argument")  # as in a container that maps few user numbers

    monkeypatch.setattr(module.resource, "setrlimit", fail)
    with pytest.raises(RuntimeError):
        evaluate(lambda _: 1).ask({})


# --- what the child has ------------------------------------------------------------------------------------


def test_the_child_inherits_no_open_file_or_connection(evaluate: Make, tmp_path: Path) -> None:
    with (
        (tmp_path / "secret").open("wb") as file,
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socketpair()[0] as pair,
    ):
        for thing in (file, server, pair):
            os.set_inheritable(thing.fileno(), True)

        def descriptors(_: dict[str, Any]) -> Any:
            found = {}
            for number in range(3, 512):
                try:
                    found[number] = os.fstat(number).st_mode
                except OSError:
                    continue
            return found

        # its own socket to this process is all that it has
        assert len(evaluate(descriptors).ask({})) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has privileges to give up")
def test_as_root_the_child_has_no_privileges(evaluate: Make, tmp_path: Path) -> None:
    sealed = tmp_path / "sealed"
    sealed.write_text("weights")
    sealed.chmod(0o600)

    def answer(_: dict[str, Any]) -> Any:
        try:
            sealed.read_text()
            could = True
        except PermissionError:
            could = False
        return [os.getuid(), os.geteuid(), os.getgid(), os.getgroups(), could]

    uid, euid, gid, groups, could = evaluate(answer).ask({})
    assert 0 not in {uid, euid, gid}
    assert groups == []
    assert not could


def test_what_is_prepared_is_open_to_the_child_alone(tmp_path: Path) -> None:
    sealed = tmp_path / "hidden.json"
    sealed.write_text(json.dumps({"weights": [24, 1]}))
    sealed.chmod(0o600)
    opened: list[Any] = []

    def prepare() -> Answer:
        opened.append(json.loads(sealed.read_text()))
        return lambda _: opened[0]["weights"]

    with Evaluator(prepare, 5, 64) as one:
        assert one.ask({}) == [24, 1]
    assert opened == []


def test_the_child_leaves_no_core_file_and_dies_by_its_processor_time(evaluate: Make) -> None:
    limits = evaluate(
        lambda _: [resource.getrlimit(what) for what in (resource.RLIMIT_CORE, resource.RLIMIT_CPU)], seconds=2
    ).ask({})
    assert limits[0] == [0, 0]
    assert 0 < limits[1][0] <= 10


def test_closing_ends_the_child_and_can_be_done_twice(evaluate: Make) -> None:
    one = evaluate(lambda _: os.getpid())
    pid = one.ask({})
    one.close()
    one.close()
    assert gone(pid)
    assert one.ask({}) != pid


# --- when this process dies --------------------------------------------------------------------------------


def orphaned(answer: Answer) -> int:
    """Kill a process while its evaluator's child is at work; the child's number."""
    told_in, told_out = os.pipe()

    def tell(request: dict[str, Any]) -> Any:
        os.write(0, f"{os.getpid()}\n".encode())
        return answer(request)

    # the child closes what it inherits but the standard streams
    parent = os.fork()
    if not parent:
        try:
            os.dup2(told_out, 0)
            Evaluator(lambda: tell, 60, 64).ask({})
        finally:
            os._exit(0)
    os.close(told_out)
    ready, _, _ = select.select([told_in], [], [], 5)
    assert ready, "the child did not begin"
    child = int(os.read(told_in, 64).split()[0])
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    os.close(told_in)
    return child


def test_a_child_that_waits_for_requests_ends_with_this_process(evaluate: Make) -> None:
    child = orphaned(lambda _: 1)
    assert gone(child)


@pytest.mark.parametrize("answer", [lambda _: time.sleep(20), endless], ids=["sleeping", "working"])
def test_a_child_at_work_ends_with_this_process(answer: Answer) -> None:
    child = orphaned(answer)
    try:
        assert gone(child, seconds=0.5)
    finally:
        if not gone(child, seconds=0.05):
            os.kill(child, signal.SIGKILL)


def test_while_an_answer_is_awaited_the_job_shows_that_it_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    beats: list[int] = []
    monkeypatch.setattr("dcpflow.tasks.evaluator.WAITING_SECONDS", 0.05)
    with Evaluator(lambda: lambda _: time.sleep(0.4), 5, 64, lambda: beats.append(1)) as evaluator:
        evaluator.ask({})
    assert len(beats) >= 4
