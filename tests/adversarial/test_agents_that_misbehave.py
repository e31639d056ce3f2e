"""Whatever an agent does, its episode ends within the registered limits, and nothing of it is left behind."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from dcpflow.agents.launch import LaunchSpec
from dcpflow.episodes import runner
from dcpflow.episodes.channel import Channel
from dcpflow.episodes.runner import converse
from dcpflow.episodes.sandbox import Isolation
from dcpflow.records import canonical
from dcpflow.tasks.base import CandidateInvalid

if TYPE_CHECKING:
    from tests.adversarial.conftest import Talk

LetTalk = Callable[..., "Talk"]
KINDS = ["none", "bubblewrap"]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def ended_well(talk: Talk) -> None:
    """Whatever happened, the conversation can be recorded."""
    canonical.encode(talk.channel.transcript)
    canonical.encode(talk.channel.usage)
    assert talk.ending.started
    assert talk.channel.transcript[0]["from"] == "harness"


def test_a_well_behaved_agent_is_heard_from_hello_to_finish(talk: LetTalk, kind: str) -> None:
    one = talk(
        """
        hello = read()
        measured = ask("experiment", candidate="plan")
        commit([hello, measured, ask("experiment", candidate="other")])
        ask("finish")
        """,
        kind,
        hello={"type": "hello", "version": 1, "K": "\u2713 text"},
    )
    ended_well(one)
    reply = {"id": 1, "ok": True, "result": {"total": "1.000000"}}
    assert one.reported == [{"type": "hello", "version": 1, "K": "\u2713 text"}, reply, reply]
    assert one.channel.usage["messages"] == 4
    assert (one.channel.finished, one.channel.limits_hit, one.ending.exit_code) == (True, [], None)


def test_an_agent_that_never_says_anything_is_ended_at_the_wall_limit(talk: LetTalk, kind: str) -> None:
    one = talk("time.sleep(60)", kind, wall_seconds=0.3)
    ended_well(one)
    assert one.channel.limits_hit == ["wall_seconds"]
    assert one.channel.usage["messages"] == 0
    assert 0.3 <= one.seconds < 10


def test_signals_that_can_be_ignored_do_not_help_an_agent(talk: LetTalk, kind: str) -> None:
    one = talk(
        """
        for number in range(1, 32):
            try:
                signal.signal(number, signal.SIG_IGN)
            except OSError:
                pass
        while True:
            time.sleep(1)
        """,
        kind,
        wall_seconds=0.3,
    )
    assert one.channel.limits_hit == ["wall_seconds"]


@pytest.mark.parametrize("stream", [1, 2])
def test_a_flood_is_cut_off_at_the_registered_bytes(talk: LetTalk, kind: str, stream: int) -> None:
    one = talk(f"while True: os.write({stream}, b'x' * 1000)", kind, output_bytes=200_000, message_bytes=10**6)
    ended_well(one)
    assert one.channel.limits_hit == ["output_bytes"]
    assert one.channel.usage["bytes"] <= 200_000
    assert len(one.ending.stderr) <= 4096
    assert one.seconds < 10


def test_a_flood_of_lines_ends_with_the_wall_limit_at_the_latest(talk: LetTalk, kind: str) -> None:
    one = talk("while True: os.write(1, b'x\\n' * 500)", kind, wall_seconds=0.45, bad_messages=10**9)
    ended_well(one)
    assert set(one.channel.limits_hit) <= {"output_bytes", "wall_seconds"}
    assert one.channel.finished
    assert one.seconds < 10


def test_what_was_committed_before_a_flood_counts(talk: LetTalk, kind: str) -> None:
    one = talk("commit(); os.write(1, b'x' * 400_000)", kind, output_bytes=100_000)
    assert one.channel.candidates == [b"plan"]


@pytest.mark.parametrize("end", ["", "\\n"], ids=["without an end", "with an end"])
def test_a_line_that_is_too_long_ends_the_episode(talk: LetTalk, kind: str, end: str) -> None:
    one = talk(f"read(); os.write(1, b'x' * 5000 + b'{end}'); time.sleep(60)", kind, message_bytes=2000)
    ended_well(one)
    assert one.channel.limits_hit == ["message_bytes"]
    assert len(canonical.encode(one.channel.transcript)) < 1000


def test_a_line_of_exactly_the_registered_length_is_heard(talk: LetTalk) -> None:
    one = talk(
        """
        read()
        start = b'{"id": 1, "action": "finish", "x": "'
        os.write(1, start + b"a" * (2000 - len(start) - 2) + b'"}' + b"\\n")
        read()
        """,
        message_bytes=2000,
    )
    assert (one.channel.finished, one.channel.limits_hit) == (True, [])
    assert one.channel.usage["bytes"] == 2000


def test_malformed_lines_cost_this_episode_at_most(talk: LetTalk, kind: str) -> None:
    one = talk(
        """
        read()
        for line in (b"\\xff\\xfe", b"[" * 30000, b"", b"nonsense", b'{"id": "\\\\ud800"}'):
            os.write(1, line + b"\\n")
            assert not read()["ok"]
        commit()
        ask("finish")
        """,
        kind,
    )
    ended_well(one)
    assert one.channel.candidates == [b"plan"]
    assert one.channel.usage["bad_messages"] == 5


@pytest.mark.parametrize(
    ("end", "plain", "confined"),
    [("sys.exit(3)", 3, 3), ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, 137), ("1 / 0", 1, 1)],
    ids=["exits", "is killed", "fails"],
)
def test_an_agent_that_dies_is_known_by_its_exit_code(
    talk: LetTalk, kind: str, end: str, plain: int, confined: int
) -> None:
    one = talk(f"read(); {end}", kind)
    ended_well(one)
    assert one.ending.exit_code == (confined if kind == "bubblewrap" else plain)
    assert not one.channel.finished
    if end == "1 / 0":
        assert b"ZeroDivisionError" in one.ending.stderr


def test_an_agent_that_dies_before_it_reads_anything_has_started(talk: LetTalk, kind: str) -> None:
    one = talk("os._exit(7)", kind)
    assert (one.ending.started, one.ending.exit_code) == (True, 7)


def test_what_was_committed_before_a_death_counts(talk: LetTalk, kind: str) -> None:
    one = talk("commit('first'); send('commit', candidate='second'); os.kill(os.getpid(), signal.SIGKILL)", kind)
    assert one.channel.candidates == [b"first", b"second"]


def test_what_was_committed_before_a_hang_counts(talk: LetTalk, kind: str) -> None:
    one = talk("commit(); time.sleep(60)", kind, after=1)
    assert (one.channel.candidates, one.channel.limits_hit) == ([b"plan"], ["wall_seconds"])


def test_an_agent_that_closes_its_output_has_said_all_that_it_will_say(talk: LetTalk, kind: str) -> None:
    one = talk("commit(); os.close(1); time.sleep(60)", kind)
    assert (one.channel.candidates, one.ending.exit_code) == ([b"plan"], None)
    assert one.seconds < 10


def test_an_agent_that_closes_its_standard_error_is_heard_all_the_same(talk: LetTalk, kind: str) -> None:
    one = talk("os.close(2); read(); commit(); ask('finish')", kind)
    assert one.channel.finished


def test_a_hello_that_is_never_read_does_not_hold_up_the_audit(talk: LetTalk, kind: str) -> None:
    one = talk("time.sleep(60)", kind, hello={"K": "x" * 1_000_000}, wall_seconds=0.3)
    assert one.channel.limits_hit == ["wall_seconds"]
    assert one.seconds < 10


def test_replies_that_are_never_read_do_not_hold_up_the_audit(talk: LetTalk, kind: str) -> None:
    one = talk(
        "while True: send('commit', candidate='plan')",
        kind,
        after=2,
        output_bytes=1 << 28,
        policy=lambda _: {"total": "1"},
    )
    assert "wall_seconds" in one.channel.limits_hit
    assert one.channel.candidates == [b"plan", b"plan"]


def test_a_closed_input_is_noticed_and_what_is_said_afterwards_is_heard(talk: LetTalk, kind: str) -> None:
    one = talk("os.close(0); send('commit', candidate='plan'); send('finish'); time.sleep(60)", kind)
    assert (one.channel.candidates, one.channel.finished) == ([b"plan"], True)


def test_lines_that_arrive_in_pieces_or_together_are_heard_one_by_one(talk: LetTalk, kind: str) -> None:
    one = talk(
        """
        line = json.dumps({"id": 1, "action": "commit", "candidate": "plan"}).encode()
        for piece in (line[:7], line[7:20], line[20:] + b"\\n" + line[:3], line[3:] + b"\\n"):
            os.write(1, piece)
            time.sleep(0.02)
        os.write(1, b'{"id": 2, "action": "finish"}\\n{"id": 3, "action": "commit", "candidate": "too late"}\\n')
        """,
        kind,
        candidates=5,
    )
    assert one.channel.candidates == [b"plan", b"plan"]
    assert one.channel.usage["messages"] == 3


DAEMON = """
commit()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        {streams}
        while True:
            time.sleep(0.05)
    os._exit(0)
os.wait()
{end}
"""


@pytest.mark.parametrize("end", ["ask('finish')", "os._exit(0)", "time.sleep(60)"], ids=["finishes", "exits", "hangs"])
def test_what_an_agent_leaves_behind_in_the_sandbox_ends_with_it(talk: LetTalk, end: str) -> None:
    one = talk(DAEMON.format(streams="os.closerange(0, 3)", end=end), "bubblewrap", after=1)
    assert one.channel.candidates == [b"plan"]  # the fixture looks for what is left


def test_a_child_that_keeps_the_output_open_does_not_keep_the_episode_open(talk: LetTalk) -> None:
    one = talk(DAEMON.format(streams="pass", end="os._exit(0)"), "bubblewrap", wall_seconds=30)
    assert one.seconds < 10


@pytest.mark.parametrize("end", ["ask('finish')", "time.sleep(60)"], ids=["finishes", "hangs"])
def test_what_an_agent_leaves_behind_without_a_sandbox_ends_with_it_too(
    write_agent: Callable[[str], LaunchSpec],
    isolate: Callable[..., Isolation],
    limits: dict[str, Any],
    still_running: Callable[..., list[int]],
    end: str,
) -> None:
    # no setsid here: the process group of the agent is all that it takes
    spec = write_agent(
        f"commit()\nif os.fork() == 0:\n    os.closerange(0, 3)\n    time.sleep(5)\n    os._exit(0)\n{end}"
    )
    channel = Channel(lambda _: {}, limits)
    converse(isolate("none", spec), spec, limits | {"wall_seconds": 0.8}, channel, {}, lambda: None)
    assert channel.candidates == [b"plan"]
    left = still_running(spec, 0.3)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []


# --- the delay of replies ----------------------------------------------------------------------------------

TIMED = """
read()
took = []
for number in range(2):
    began = time.monotonic()
    ask("experiment", candidate="plan")
    took.append(time.monotonic() - began)
began = time.monotonic()
commit()
commit(took + [time.monotonic() - began])
"""
DELAY = 0.2


def instant(_: str) -> dict[str, Any]:
    return {"total": "1.000000"}


def measuring(seconds: float) -> Callable[[str], dict[str, Any]]:
    def policy(_: str) -> dict[str, Any]:
        time.sleep(seconds)
        return {"total": "0.500000"}

    return policy


def refusing(_: str) -> dict[str, Any]:
    raise CandidateInvalid("no")


@pytest.mark.parametrize(
    ("policy", "steps"),
    [(instant, 1), (measuring(0.05), 1), (refusing, 1), (measuring(DELAY + 0.05), 2)],
    ids=["constant", "measured", "refused", "slow"],
)
def test_replies_to_experiments_leave_at_multiples_of_the_registered_delay_in_every_arm(
    talk: LetTalk, policy: Callable[[str], dict[str, Any]], steps: int
) -> None:
    one = talk(TIMED, policy=policy, reply_delay_ms=int(DELAY * 1000), candidates=3)
    *experiments, committing = json.loads(one.channel.candidates[1])
    for took in experiments:
        assert steps * DELAY - 0.001 <= took < (steps + 0.6) * DELAY, experiments
    assert committing < DELAY * 0.6, "only what could tell of the arm is delayed"
    assert one.ending.late_replies == (2 if steps > 1 else 0)


# --- signs of life -----------------------------------------------------------------------------------------


@pytest.fixture
def beats(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    monkeypatch.setattr(runner, "HEARTBEAT_SECONDS", 0.05)
    yield []


def test_while_an_agent_thinks_its_job_shows_that_it_is_alive(talk: LetTalk, beats: list[int]) -> None:
    talk("time.sleep(0.5); commit(); ask('finish')", heartbeat=lambda: beats.append(1), wall_seconds=30)
    assert len(beats) >= 3


@pytest.mark.parametrize(
    "body",
    [
        "for _ in range(120): os.write(2, b'.'); time.sleep(0.005)",
        "os.write(1, b'x' * 40_000 + b'\\n')\ntime.sleep(0.6)",
    ],
    ids=["while it talks", "while it does not read"],
)
def test_its_job_shows_that_it_is_alive_whatever_the_agent_does(talk: LetTalk, beats: list[int], body: str) -> None:
    hello = {"K": "x" * 1_000_000} if "40_000" in body else {}
    talk(body, heartbeat=lambda: beats.append(1), wall_seconds=0.9, hello=hello)
    assert len(beats) >= 6
