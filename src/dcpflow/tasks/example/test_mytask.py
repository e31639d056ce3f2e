"""The task keeps what an audit relies on, and its score tells a discovery from everything else."""

from __future__ import annotations

import hashlib
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from dcpflow.tasks import load_task
from dcpflow.tasks.base import CandidateInvalid, Task
from dcpflow.tasks.conformance import check

CHECKOUT = Path(__file__).parents[2]
PLACE = "tasks/mytask.py:MyTask"


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> Task:
    """The task as an audit loads it, from the folder that holds the Snakefile."""
    monkeypatch.chdir(CHECKOUT)
    return load_task({"name": PLACE, "settings": {}, "public_seed": "a seed"})


def draw(*what: object) -> bytes:
    """Thirty-two bytes that are the same in every run."""
    return hashlib.sha256(repr(what).encode()).digest()


def score(task: Task, artifact: str, episode: int = 0) -> float:
    """The mean score of an artifact."""
    shown, hidden, sealed = task.presentation(draw("shown", episode)), task.hidden(draw("hidden")), draw("sealed")
    engine = task.open(task.public_material())
    return mean(engine.score(shown, artifact, hidden, task.sealed(sealed)).values())


def test_it_keeps_all_that_an_audit_relies_on(task: Task) -> None:
    assert [finding for finding in check(task) if not finding.ok] == []


def test_the_solution_scores_one_and_anything_else_much_less(task: Task) -> None:
    shown, hidden = task.presentation(draw("shown", 0)), task.hidden(draw("hidden"))
    assert score(task, task.known_solution(shown, hidden)) == 1
    assert score(task, task.baseline(shown)) < 0.65
    others = [task.hidden(draw("another", number)) for number in range(20)]
    assert all(score(task, task.known_solution(shown, other)) < 0.75 for other in others if other != hidden)


def test_an_experiment_shows_the_lamp(task: Task) -> None:
    shown, hidden = task.presentation(draw("shown", 0)), task.hidden(draw("hidden"))
    engine = task.open(task.public_material())
    dark = engine.experiment(shown, "[]", hidden)
    turned = [
        number for number, name in enumerate(shown["names"]) if engine.experiment(shown, f'["{name}"]', hidden) != dark
    ]
    assert turned == hidden["wired"]


@pytest.mark.parametrize("candidate", ["", "[]", '{"inputs": []}', '{"inputs": ["none such"], "constant": 0}'])
def test_what_is_no_artifact_is_refused(task: Task, candidate: str) -> None:
    with pytest.raises(CandidateInvalid):
        score(task, candidate)


@pytest.mark.parametrize("settings", [{"switches": 7}, {"units": 0}, {"lamps": 1}])
def test_wrong_settings_are_named(task: Task, settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        type(task)(settings, "a seed")
