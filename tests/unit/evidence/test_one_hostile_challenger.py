"""One hostile challenger among 96: what the audit comes to is what was registered for that challenger's outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dcpflow.evidence.decision import document
from dcpflow.protocol.model import Status

if TYPE_CHECKING:
    from tests.unit.evidence.conftest import Case

HOSTILE = ("challengers", 17)


def with_outcome(case: Case, outcome: str) -> Case:
    """The case with one challenger that committed nothing."""
    (episode,) = [e for e in case.view.episodes if (e.key.stage, e.key.slot) == HOSTILE]
    alone = case.with_scores(lambda row: None if row.record == episode.digest else row)
    return alone.with_record_fields(lambda e: e.key == episode.key, outcome=outcome, candidates=[])


def test_without_it_everything_is_certified(convincing: Case) -> None:
    decision = convincing.outcome.decision
    assert (decision.core.status, decision.evidence.status) == (Status.CERTIFIED, Status.CERTIFIED)


def test_one_that_reaches_a_limit_is_one_failure_of_96(convincing: Case) -> None:
    decision = with_outcome(convincing, "model_failure").outcome.decision
    assert (decision.core.status, decision.evidence.status) == (Status.CERTIFIED, Status.CERTIFIED)


def test_one_that_breaks_the_contract_leaves_the_audit_inconclusive_and_is_named(convincing: Case) -> None:
    """The protocol allows no violation at all (R7), so that nobody can leave out whom they do not like."""
    found = document(with_outcome(convincing, "execution_contract_violation").outcome)
    assert found["core"]["status"] == "inconclusive"
    assert found["gate2"]["adequacy"] == ["share of contract violations 0.010, cap 0"]


@pytest.mark.parametrize("outcome", ["model_failure", "execution_contract_violation"])
def test_neither_makes_a_hit_or_a_refutation(convincing: Case, outcome: str) -> None:
    assert with_outcome(convincing, outcome).outcome.decision.core.status is not Status.REFUTED
