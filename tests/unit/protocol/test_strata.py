"""Strata of challengers: classified like those that decide, and bounded at an alpha of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from dcpflow.protocol.faults import CORE_ONLY, EVERY_HIT, Fault
from dcpflow.protocol.intervals import zero_hit_upper_bound
from dcpflow.protocol.model import Attempt, AttemptStatus, Outcome, ScoredArtifact, Validity
from dcpflow.protocol.registration import EXHAUSTIVE_FINITE_SET, FINITE_SET_EXACT, Registration
from dcpflow.protocol.strata import StratumResult, evaluate_stratum

UNITS = ("one", "two")
CLAIMED = ScoredArtifact("A*", UNITS, (0.9, 0.9), Validity.VALID, "digest-of-A")
REG = Registration(
    "claim",
    inference_scope=EXHAUSTIVE_FINITE_SET,
    interval_method=FINITE_SET_EXACT,
    challenger_contract_digest="contract",
    challenge_distribution_digest="distribution",
)


def attempts(count: int = 10, score: float = 0.2, stratum: str = "strong") -> list[Attempt]:
    return [
        Attempt(
            attempt_id=f"challengers/strong/{number}",
            outcome=Outcome.ARTIFACT,
            validity=Validity.VALID,
            artifact_digest=f"digest-{number}",
            scores=(score, score),
            unit_ids=UNITS,
            stratum=stratum,
            contract_digest="contract",
            distribution_digest="distribution",
            independent_unit=f"unit-{number}",
            independent=True,
        )
        for number in range(1, count + 1)
    ]


def with_first(first: Attempt) -> list[Attempt]:
    return [first, *attempts()[1:]]


def judged(of: Sequence[Attempt], *faults: Fault) -> StratumResult:
    return evaluate_stratum(REG, "strong", of, CLAIMED, 0.1, faults)


def test_without_a_hit_the_bound_is_exact_at_the_stratum_s_own_alpha() -> None:
    found = judged(attempts())
    assert (found.hits, found.independent, found.complete) == (0, 10, True)
    assert found.bound == zero_hit_upper_bound(10, 0.1) != zero_hit_upper_bound(10, REG.alpha_recovery)


def test_copies_of_a_draw_count_once() -> None:
    copies = [replace(attempt, independent_unit="unit-1") for attempt in attempts()]
    assert judged(copies).bound == zero_hit_upper_bound(1, 0.1)


def test_a_hit_recovers_and_leaves_no_bound() -> None:
    found = judged(with_first(attempts(1, score=0.9)[0]))
    assert (found.hits, found.recovered, found.bound, found.complete) == (1, True, None, True)


@pytest.mark.parametrize(("blocks", "recovered"), [(EVERY_HIT, False), (CORE_ONLY, True)])
def test_a_hit_is_shown_unless_something_is_missing_without_which_no_hit_means_anything(
    blocks: frozenset[object], recovered: bool
) -> None:
    fault = Fault("some_check", "strata.strong", "fail: of something", blocks)  # type: ignore[arg-type]
    found = judged(with_first(attempts(1, score=0.9)[0]), fault)
    assert (found.recovered, found.complete) == (recovered, False)
    assert found.reasons == ("some_check: fail: of something",)


def test_a_fault_keeps_the_bound_from_being_computed() -> None:
    assert judged(attempts(), Fault("ledger_complete", "strata.strong", "fail: one is unlisted")).bound is None


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"stratum": "matched"}, AttemptStatus.UNRESOLVED),
        ({"contract_digest": "not-as-registered"}, AttemptStatus.EXECUTION_CONTRACT_VIOLATION),
        ({"distribution_digest": "not-as-registered"}, AttemptStatus.EXECUTION_CONTRACT_VIOLATION),
    ],
)
def test_a_hit_that_is_not_the_stratum_s_own_is_none(change: dict[str, str], status: AttemptStatus) -> None:
    found = judged(with_first(replace(attempts(1, score=0.9)[0], **change)))  # type: ignore[arg-type]
    assert found.attempts[0].status is status
    assert (found.hits, found.recovered, found.bound) == (0, False, None)
    assert not found.complete


def test_challengers_that_mostly_fail_leave_no_bound() -> None:
    fails = [
        replace(
            a, outcome=Outcome.MODEL_FAILURE, validity=Validity.UNRESOLVED, scores=None, unit_ids=(), artifact_digest=""
        )
        for a in attempts()
    ]
    few, many = judged([*fails[:1], *attempts()[1:]]), judged([*fails[:6], *attempts()[6:]])
    assert few.bound == zero_hit_upper_bound(10, 0.1)
    assert many.bound is None and any("model failures" in reason for reason in many.reasons)
