"""The arm of one episode: its feedback policy, with an evaluator child behind it where the arm measures."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from dcpflow.episodes import policies
from dcpflow.episodes.experiments import AuditorsEvaluator
from dcpflow.records import plan, public
from dcpflow.records.draws import Draws
from dcpflow.records.episodes import EpisodeKey
from dcpflow.records.layout import Layout
from dcpflow.records.registration import Registered
from dcpflow.tasks.base import Engine, Task
from dcpflow.tasks.evaluator import Answer, Evaluator


@dataclass(frozen=True)
class Bench:
    """The task as an episode's channel needs it.

    Attributes:
        layout: where things lie.
        contract: what an episode is.
        task: the task.
        draws: the audit's draws.
        offer: the folder of an auditor's offer, whose evaluator answers truthful experiments; None where the hidden
            state lies here.
    """

    layout: Layout
    contract: Registered
    task: Task
    draws: Draws
    offer: Path | None = None

    @cached_property
    def engine(self) -> Engine:
        """The task's engine, opened and warm before any child is forked from this process."""
        engine = self.task.open(public.read(self.layout, self.contract.parts["task"]["seal"]["public"]))
        engine.warm()
        return engine

    @property
    def limits(self) -> dict[str, int]:
        """The registered limits."""
        return self.contract.config("limits")

    @property
    def web(self) -> dict[str, Any] | None:
        """What was registered of the Web; None where it is not offered."""
        return self.contract.web


class Arm:
    """What the channel of one episode answers.

    Attributes:
        policy: a candidate to the reply's result; raises CandidateInvalid or EvaluatorDied.
        seconds: time spent measuring so far.
    """

    def __init__(self, bench: Bench, key: EpisodeKey, waiting: Callable[[], None] = lambda: None) -> None:
        self.seconds = 0.0
        self._evaluator: Evaluator | AuditorsEvaluator | None = None
        seed = plan.draw(bench.draws, key.stage, key.slot)["presentation"]
        presentation = bench.task.presentation(bytes.fromhex(seed))
        if key.arm in policies.CONSTANT:
            self.policy = policies.constant(bench.task, presentation)
            return
        seconds, memory_mb = bench.limits["experiment_seconds"], bench.limits["memory_mb"]
        if bench.offer is not None and key.arm in policies.TRUTHFUL:
            self._evaluator = AuditorsEvaluator(bench.offer, key, seconds, waiting)
        else:
            self._evaluator = Evaluator(_answers(bench, key, presentation), seconds, memory_mb, waiting)
        measure = policies.measured(self._evaluator)
        if key.arm in policies.LAGGED:
            measure = policies.lagged(measure, bench.task.constant_reply(presentation))
        self._measure = measure
        self.policy = self._timed

    def _timed(self, candidate: str) -> dict[str, Any]:
        start = time.monotonic()
        try:
            return self._measure(candidate)
        finally:
            self.seconds += time.monotonic() - start

    def __enter__(self) -> Arm:
        if self._evaluator is not None:
            self._evaluator.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._evaluator is not None:
            self._evaluator.close()


def instance_hidden(task: Task, draws: Draws, key: EpisodeKey) -> dict[str, Any]:
    """The hidden state of an episode's own instance, which its E0 reveals."""
    return task.hidden(draws.nonce.derive("hidden", plan.instance(key.stage, key.slot)))


def decoy(task: Task, draws: Draws, key: EpisodeKey) -> dict[str, Any]:
    """What a misleading channel measures in the place of an episode's own instance."""
    secret = draws.nonce.derive("decoy", plan.instance(key.stage, key.slot))
    return task.decoy(instance_hidden(task, draws, key), secret)


def hidden_path(layout: Layout) -> Path:
    """The file of the audited hidden state, which evaluator children of truthful arms open."""
    return layout.hidden / f"{plan.MAIN}.json"


def _answers(bench: Bench, key: EpisodeKey, presentation: dict[str, Any]) -> Callable[[], Answer]:
    if key.arm in policies.NEUTRAL | policies.LAGGED:
        return policies.neutral_answers(bench.engine, presentation)
    if key.arm in policies.TRUTHFUL:
        return policies.truthful_answers(bench.engine, presentation, hidden_path(bench.layout))
    return policies.misleading_answers(bench.engine, presentation, decoy(bench.task, bench.draws, key))
