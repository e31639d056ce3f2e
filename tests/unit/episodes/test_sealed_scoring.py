"""The sealed scorer: hostile artifacts are invalid, a task that does not score is our fault, and no arm is told."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from dcpflow.errors import EvidenceError
from dcpflow.scoring.scorer import Artifact, Score, score
from dcpflow.tasks.base import CandidateInvalid


class Task:
    """Just enough of a task for the scorer."""

    name = "studied"

    def presentation(self, seed: bytes) -> dict[str, Any]:
        return {"seed": seed.hex()}

    def unit_ids(self) -> tuple[str, ...]:
        return ("first", "second")


class Engine:
    """Does to the scorer what the artifact's text says."""

    def score(self, presentation: dict[str, Any], text: str, hidden: dict[str, Any], sealed: dict[str, Any]) -> Any:
        match text:
            case "loop":
                while True:
                    pass
            case "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            case "memory":
                bytearray(1 << 32)
            case "slow 99" | "slow 95" | "slow 91":
                time.sleep(0.05)
            case "wait":
                time.sleep(1.5)
            case "crash":
                os._exit(3)
            case "refused":
                raise CandidateInvalid("it breaks a rule")
            case "bug":
                raise KeyError("no such family")
            case "pid":
                return {"first": os.getpid() / 10**9, "second": 0}
            case "nan":
                return {"first": float("nan"), "second": 0.5}
            case "high":
                return {"first": 1.0000001, "second": 0.5}
            case "low":
                return {"first": -0.1, "second": 0.5}
            case "text":
                return {"first": "0.5", "second": 0.5}
            case "less":
                return {"first": 0.5}
            case "swapped":
                return {"second": 0.5, "first": 0.5}
            case "null":
                return {"first": None, "second": 0.5}
        return {"first": hidden["weight"], "second": sealed["value"]}


def scored(*texts: str, instances: tuple[str, ...] = (), workers: int = 1) -> list[Score]:
    artifacts = [
        Artifact(f"sha256:{number}", text.encode(), f"{number:064x}", instance)
        for number, (text, instance) in enumerate(zip(texts, instances or ("main",) * len(texts), strict=True))
    ]
    hidden = {"main": {"weight": 0.25}, "other": {"weight": 0.75}}
    return score(Task(), Engine(), {"value": 0.5}, hidden, artifacts, 0.5, 64, workers)  # type: ignore[arg-type]


def test_each_artifact_is_scored_on_its_own_instance_in_the_given_order() -> None:
    found = scored("a", "b", "c", instances=("main", "other", "main"))
    assert [one.units["first"] for one in found] == [0.25, 0.75, 0.25]
    assert {one.validity for one in found} == {"valid"}
    assert list(found[0].units) == ["first", "second"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [("refused", "it breaks a rule"), ("loop", "took too long"), ("crash", "could not be scored")],
)
def test_a_hostile_artifact_is_invalid_and_costs_nobody_else(text: str, reason: str) -> None:
    before, spoiled, after = scored("a", text, "b")
    assert (spoiled.validity, spoiled.units) == ("invalid", {})
    assert reason in spoiled.reason
    assert before == after == Score("valid", "", {"first": 0.25, "second": 0.5})


def test_every_artifact_meets_a_process_of_its_own() -> None:
    pids = {one.units["first"] for one in scored("pid", "pid", "pid")}
    assert len(pids) == 3
    assert os.getpid() / 10**9 not in pids


@pytest.mark.parametrize("text", ["nan", "high", "low", "text", "less", "swapped", "null"])
def test_what_is_no_score_of_every_unit_is_a_fault_of_the_task(text: str) -> None:
    with pytest.raises(EvidenceError, match="the task studied"):
        scored(text)


def test_a_bug_in_the_task_stops_the_scoring_and_is_no_invalid_artifact() -> None:
    with pytest.raises(RuntimeError, match="no such family"):
        scored("bug")


def test_what_the_scorer_is_given_says_nothing_of_stage_arm_or_slot() -> None:
    assert {field.name for field in fields(Artifact)} == {"digest", "data", "presentation", "instance"}


# --- several at a time -------------------------------------------------------------------------------------


def children() -> set[int]:
    """Child processes of this one, those that have ended and were not waited for included."""
    listed = Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text()
    return set(map(int, listed.split()))


@pytest.mark.parametrize("workers", [2, 3, 50])
def test_several_workers_give_the_scores_of_one_in_the_same_order(workers: int) -> None:
    texts = [f"slow {99 - number}" if number % 4 == 0 else str(number) for number in range(12)]
    instances = tuple(("main", "other", "main")[number % 3] for number in range(12))
    before = children()
    one, several = (scored(*texts, instances=instances, workers=count) for count in (1, workers))
    assert several == one
    assert [found.units["first"] for found in several] == [0.25, 0.75, 0.25] * 4
    assert children() == before


@pytest.mark.parametrize("text", ["loop", "crash", "killed", "memory", "refused"])
def test_a_hostile_artifact_among_several_spoils_only_itself(text: str) -> None:
    before = children()
    found = scored("a", text, "b", "c", text, "d", workers=3)
    good = Score("valid", "", {"first": 0.25, "second": 0.5})
    assert [found[place] for place in (0, 2, 3, 5)] == [good] * 4
    assert [found[place].validity for place in (1, 4)] == ["invalid"] * 2
    assert found[1] == found[4]
    assert children() == before


def test_several_are_scored_at_the_same_time() -> None:
    began = time.monotonic()
    assert {one.validity for one in scored("wait", "wait", "wait", "wait", workers=4)} == {"valid"}
    assert time.monotonic() - began < 4


@pytest.mark.parametrize("text", ["bug", "nan", "less"])
def test_a_fault_of_the_task_ends_all_children(text: str) -> None:
    before = children()
    with pytest.raises((RuntimeError, EvidenceError)):
        scored("loop", text, "loop", "loop", workers=3)
    assert children() == before


def test_an_artifact_that_cannot_be_begun_leaves_no_child_behind() -> None:
    before = children()
    with pytest.raises(KeyError):
        scored("loop", "loop", "c", instances=("main", "main", "nowhere"), workers=3)
    assert children() == before


def test_several_artifacts_meet_a_process_each() -> None:
    pids = {one.units["first"] for one in scored(*["pid"] * 6, workers=3)}
    assert len(pids) == 6
