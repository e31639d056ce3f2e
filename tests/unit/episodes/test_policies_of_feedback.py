"""The neutral policy that answers one experiment late."""

from __future__ import annotations

import pytest

from dcpflow.episodes import policies
from dcpflow.records import plan
from dcpflow.tasks.base import CandidateInvalid


def told(candidate: str) -> dict[str, str]:
    if candidate == "invalid":
        raise CandidateInvalid("no candidate")
    return {"said of": candidate}


def test_each_experiment_is_answered_what_was_due_to_the_one_before() -> None:
    answer = policies.lagged(told, {"said of": "nothing"})
    assert [answer(candidate)["said of"] for candidate in "abba"] == ["nothing", "a", "b", "b"]


def test_a_refused_candidate_is_refused_at_once_and_moves_nothing() -> None:
    answer = policies.lagged(told, {"said of": "nothing"})
    answer("a")
    with pytest.raises(CandidateInvalid):
        answer("invalid")
    assert answer("b") == {"said of": "a"}


def test_the_policies_of_the_plan_are_uninformed() -> None:
    uninformed = policies.NEUTRAL | policies.LAGGED | policies.CONSTANT
    assert all(plan.STAGES[stage].arms == ("truthful", name) for name, stage in plan.POLICIES.items())
    assert plan.POLICIES.keys() <= uninformed and not uninformed & (policies.TRUTHFUL | {"misleading"})
