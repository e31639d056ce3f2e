"""What the channel answers to an experiment in each arm. Only ``truthful`` and ``misleading`` see a hidden state.

Of neutral policies there are three, which leave less and less of a truthful reply: ``proposed_sham`` answers what was
asked, as the task does without a hidden state; ``lagged_sham`` gives the same answers one experiment later, so that
numbers vary as before and have nothing to do with what was asked; ``reference_null`` always gives the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from dcpflow.episodes.experiments import AuditorsEvaluator
from dcpflow.records import stagefile
from dcpflow.tasks.base import Engine, Task
from dcpflow.tasks.evaluator import Answer, Evaluator, Request

HIDDEN_SCHEMA = "dcpflow.hidden/1"
Policy = Callable[[str], dict[str, Any]]

TRUTHFUL = frozenset({"target", "truthful"})
NEUTRAL = frozenset({"neutral", "proposed_sham"})
LAGGED = frozenset({"lagged_sham"})
CONSTANT = frozenset({"withheld", "control", "reference_null"})


def constant(task: Task, presentation: dict[str, Any]) -> Policy:
    """Registered constant numbers, whatever is asked: nothing is measured, so nothing can be learned."""
    reply = task.constant_reply(presentation)
    return lambda _: reply


def measured(evaluator: Evaluator | AuditorsEvaluator) -> Policy:
    """What the evaluator answers: a child, or the auditor's."""

    def ask(candidate: str) -> dict[str, Any]:
        reply: dict[str, Any] = evaluator.ask({"candidate": candidate})
        return reply

    return ask


def lagged(measure: Policy, first: dict[str, Any]) -> Policy:
    """The answer of a policy to the experiment before.

    A candidate is refused as it would be without the lag, and is no experiment then.

    Args:
        measure: the policy.
        first: what the first experiment is answered.
    """
    waiting = first

    def answer(candidate: str) -> dict[str, Any]:
        nonlocal waiting
        now, waiting = waiting, measure(candidate)
        return now

    return answer


def neutral_answers(engine: Engine, presentation: dict[str, Any]) -> Callable[[], Answer]:
    """For the evaluator of a neutral arm: it opens no hidden state, and the engine's signature takes none."""

    def prepare() -> Answer:
        return lambda request: engine.neutral(presentation, _text(request))

    return prepare


def truthful_answers(engine: Engine, presentation: dict[str, Any], hidden: Path) -> Callable[[], Answer]:
    """For the evaluator of a truthful arm: the child, and it alone, opens the hidden state."""

    def prepare() -> Answer:
        state, _ = stagefile.read(hidden, HIDDEN_SCHEMA, "the hidden state")
        return lambda request: engine.experiment(presentation, _text(request), state)

    return prepare


def misleading_answers(engine: Engine, presentation: dict[str, Any], decoy: dict[str, Any]) -> Callable[[], Answer]:
    """For the evaluator of a misled null episode: measured truthfully, on a decoy."""

    def prepare() -> Answer:
        return lambda request: engine.experiment(presentation, _text(request), decoy)

    return prepare


def _text(request: Request) -> str:
    return str(request["candidate"])
