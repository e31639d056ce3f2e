"""A chat that was killed goes on where it stopped: nothing is paid for twice, and the record is the same."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dcpflow.episodes.channel import Channel
from dcpflow.episodes.episode import outcome_of
from dcpflow.errors import EvidenceError, UsageError
from dcpflow.records.calls import call_of
from dcpflow.records.journal import Journal

from .chat_world import COMMIT, EXPERIMENT, FINISH, HELLO, LIMITS, FakeClock, World, measured, record_of
from .model_server import Handler, Played, answering, anthropic, calls, cut, openai

FORMS: dict[str, Any] = {"openai": openai, "anthropic": anthropic}


class Killed(BaseException):
    """As if the process had ended."""


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def killing(channel: Channel, after: int) -> Channel:
    """A channel whose process is killed when it has heard so many lines."""
    hear = channel.hear

    def heard(line: bytes) -> tuple[bytes, bool]:
        if channel.usage["messages"] >= after:
            raise Killed
        return hear(line)

    channel.hear = heard  # type: ignore[method-assign]
    return channel


def whole(form: Any) -> list[Played]:
    return [
        *calls([form("First.", EXPERIMENT, ("experiment", {"candidate": "b"})), form("I wonder.")]),
        answering({"error": "busy"}, 500),
        *calls([form("", ("nonsense", {})), form("", COMMIT), form("", FINISH)]),
    ]


@pytest.mark.parametrize("api", FORMS)
@pytest.mark.parametrize("heard", range(5))
def test_killed_before_any_action_and_resumed_it_gives_the_same_record(
    world: World, tmp_path: Path, api: str, heard: int
) -> None:
    script = whole(FORMS[api])
    (tmp_path / "unkilled").mkdir()
    unkilled = World(tmp_path / "unkilled").play(*script, api=api)
    with pytest.raises(Killed):
        world.play(*script, channel=killing(Channel(measured, LIMITS), heard), api=api)
    asked = sum("call" in entry for entry in Journal(world.folder, 2).earlier)
    resumed = world.play(*script[asked:], api=api)
    assert record_of(resumed) == record_of(unkilled)
    assert len(resumed.server.asked) == len(script) - asked, "nothing is asked for twice"
    assert resumed.server.asked == unkilled.server.asked[asked:]


def test_killed_again_and_again_it_ends_all_the_same(world: World, tmp_path: Path) -> None:
    script = whole(openai)
    (tmp_path / "unkilled").mkdir()
    unkilled = World(tmp_path / "unkilled").play(*script)
    left = script
    for heard in range(5):
        with pytest.raises(Killed):
            world.play(*left, channel=killing(Channel(measured, LIMITS), heard))
        left = script[sum("call" in entry for entry in Journal(world.folder, world.times + 1).earlier) :]
    assert record_of(world.play(*left)) == record_of(unkilled)


def test_one_that_had_ended_is_not_asked_again(world: World) -> None:
    first = world.play(*calls([openai("", EXPERIMENT)]), cut())
    again = world.play()
    assert record_of(again) == record_of(first)
    assert again.server.asked == []


def test_a_call_during_which_the_job_was_killed_is_made_again(world: World) -> None:
    class Gone(FakeClock):
        def sleep(self, seconds: float) -> None:
            raise Killed

    with pytest.raises(Killed):
        world.play(*calls([openai("", EXPERIMENT)]), answering({}, 500), clock=Gone())
    seen = world.play(*calls([openai("", COMMIT, FINISH)]))
    assert [call.fault for call in seen.ending.calls] == ["", "server_error", ""]
    assert seen.slept, "what was to be waited out still is"


def test_where_the_request_would_be_another_one_now_it_ends_as_interrupted(world: World) -> None:
    with pytest.raises(Killed):
        world.play(
            *calls([openai("", EXPERIMENT), openai("", EXPERIMENT), openai("", FINISH)]),
            channel=killing(Channel(measured, LIMITS), 2),
        )
    seen = world.play(channel=Channel(lambda _: {"value": "another"}, LIMITS))
    assert seen.ending.interrupted
    assert len(seen.ending.calls) == 3, "all that was paid for is in the record"
    assert seen.server.asked == []
    assert outcome_of(seen.channel, seen.ending)[0] == "unresolved"


def test_an_answer_that_is_gone_is_an_error_that_names_it(world: World) -> None:
    with pytest.raises(Killed):
        world.play(*calls([openai("", EXPERIMENT)]), channel=killing(Channel(measured, LIMITS), 0))
    (path,) = [path for path in (world.folder / "objects").rglob("*") if path.is_file()]
    path.unlink()
    with pytest.raises(EvidenceError, match="an answer of the model"):
        world.play()


def test_the_episode_s_time_goes_on_from_where_it_stood(world: World) -> None:
    clock = FakeClock()

    def slow(handler: Handler) -> None:
        clock.sleep(900)
        answering(openai("", EXPERIMENT))(handler)

    with pytest.raises(Killed):
        world.play(slow, clock=clock, channel=killing(Channel(measured, LIMITS), 0))
    late = FakeClock()

    def slow_again(handler: Handler) -> None:
        late.sleep(200)
        answering(openai("", COMMIT))(handler)

    seen = world.play(slow_again, clock=late)
    assert (seen.channel.limits_hit, seen.channel.candidates) == (["wall_seconds"], [])


def test_the_delay_of_replies_is_not_waited_for_again(world: World) -> None:
    limits = {"reply_delay_ms": 4_000}
    with pytest.raises(Killed):
        world.play(*calls([openai("", EXPERIMENT), openai("", EXPERIMENT)]), limits=limits, channel=_second(limits))
    seen = world.play(*calls([openai("", FINISH)]), limits=limits)
    assert (sum(seen.slept), seen.channel.usage["experiments"]) == (4, 2)


def _second(limits: dict[str, Any]) -> Channel:
    return killing(Channel(measured, LIMITS | limits), 1)


# --- money -------------------------------------------------------------------------------------------------


def test_an_episode_that_may_cost_too_much_stops_before_the_call_and_goes_on_with_a_higher_limit(
    world: World,
) -> None:
    world.priced(input_usd=10.0, output_usd=100.0, max_usd=0.1)
    script = calls([openai("", EXPERIMENT, read=1_000)] * 9)
    with pytest.raises(UsageError, match=r"budget\.max_usd_per_episode") as caught:
        world.play(*script)
    entries = Journal(world.folder, 2).earlier
    spent = sum(world.api.prices.of_call(call_of(entry["call"], "the journal")) for entry in entries)
    assert f"{spent:.4f} USD" in str(caught.value)
    assert 0 < spent <= 0.1
    world.api = replace(world.api, max_usd=1.0)
    seen = world.play(*calls([openai("", COMMIT, FINISH)]))
    assert len(seen.ending.calls) == len(entries) + 1
    assert len(seen.server.asked) == 1, "what was paid for is not asked for again"
    assert seen.channel.candidates == [b"ba"]


def test_the_first_call_counts_with_all_that_it_may_cost(world: World) -> None:
    world.priced(output_usd=100.0, max_usd=0.009)
    with pytest.raises(UsageError, match=r"0\.0000 USD, and its next call may cost 0\.0100 USD"):
        world.play(*calls([openai("", FINISH)]))
    assert Journal(world.folder, 2).earlier == []


@pytest.mark.parametrize("max_usd", [None, 0.001])
def test_without_prices_or_a_limit_nothing_stops_it(world: World, max_usd: float | None) -> None:
    world.priced(input_usd=0.0 if max_usd else 1e6, max_usd=max_usd)
    assert world.play(*calls([openai("", FINISH)])).channel.finished


# --- what is told does not depend on the run ---------------------------------------------------------------


def test_the_requests_of_two_runs_are_the_same_byte_for_byte(tmp_path: Path) -> None:
    found = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        seen = World(tmp_path / name).play(*whole(openai))
        found.append((json.dumps(seen.server.asked), record_of(seen)))
    assert found[0] == found[1]


def test_another_episode_s_seed_gives_other_sampling_seeds(tmp_path: Path) -> None:
    seeds = set()
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        world = World(tmp_path / name)
        world.seed = ("a" if name == "one" else "b") * 64
        seen = world.play(*calls([openai("", FINISH)]), hello=HELLO | {"seed": world.seed})
        seeds.add(seen.server.asked[0]["seed"])
    assert len(seeds) == 2
