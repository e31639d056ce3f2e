"""Pairs of a further neutral policy: analysed like those that decide, and never whole where something is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from dcpflow.protocol.faults import CORE_ONLY, NEUTRAL_ARM, Fault
from dcpflow.protocol.intervals import interval, zero_hit_upper_bound
from dcpflow.protocol.model import Branch, FeedbackPair, Outcome, ScoredArtifact, Validity
from dcpflow.protocol.policies import PolicyResult, evaluate_policy, spread
from dcpflow.protocol.registration import EXHAUSTIVE_FINITE_SET, FINITE_SET_EXACT, Registration

UNITS = ("one", "two")
CLAIMED = ScoredArtifact("A*", UNITS, (0.9, 0.9), Validity.VALID, "digest-of-A")
REG = Registration(
    "claim",
    inference_scope=EXHAUSTIVE_FINITE_SET,
    interval_method=FINITE_SET_EXACT,
    feedback_estimand="binary",
    feedback_interval_method="paired_binary_exact",
    challenger_contract_digest="contract",
    challenge_distribution_digest="distribution",
    neutral_contract_digest="neutral",
)
LOST = {"outcome": Outcome.INFRASTRUCTURE_INVALID, "infrastructure_independent": True, "scores": None}


def branch(number: int, arm: str, score: float) -> Branch:
    return Branch(
        branch_id=f"pairs_reference_null/{number}/{arm}",
        contract_digest="neutral" if arm == "reference_null" else "truthful",
        outcome=Outcome.ARTIFACT,
        validity=Validity.VALID,
        artifact_digest=f"digest-{number}-{arm}",
        scores=(score, score),
        unit_ids=UNITS,
    )


def pairs(count: int = 8, neutral: float = 0.2) -> list[FeedbackPair]:
    return [
        FeedbackPair(
            pair_id=f"pairs_reference_null/{number}",
            block_id=f"unit-{number}",
            distribution_digest="distribution",
            draw_receipt="draw",
            assignment_frozen=True,
            independent=True,
            truthful=branch(number, "truthful", 0.9),
            neutral=branch(number, "reference_null", neutral),
        )
        for number in range(1, count + 1)
    ]


def with_neutral(of: Sequence[FeedbackPair], **fields: object) -> list[FeedbackPair]:
    """The pairs, with something else in the neutral branch of the first one."""
    return [replace(of[0], neutral=replace(of[0].neutral, **fields)), *of[1:]]  # type: ignore[arg-type]


def judged(of: Sequence[FeedbackPair], *faults: Fault, registered: int = 8) -> PolicyResult:
    return evaluate_policy(REG, "reference_null", of, CLAIMED, registered, faults)


def test_whole_pairs_have_the_registered_interval_and_the_zero_hit_bound_of_neutral_branches() -> None:
    found = judged(pairs())
    assert found.complete and found.difference == interval("paired_binary_exact", [1.0] * 8, 1 - REG.alpha_evidence)
    assert found.neutral.bound == zero_hit_upper_bound(8, REG.alpha_neutral)


def test_a_neutral_branch_that_recovers_is_a_hit_and_takes_from_the_effect() -> None:
    found = judged(with_neutral(pairs(), scores=(0.9, 0.9)))
    assert found.complete and found.difference.mean == 7 / 8
    assert (found.neutral.hits, found.neutral.recovered, found.neutral.bound) == (1, True, None)


@pytest.mark.parametrize(("blocks", "shown"), [(NEUTRAL_ARM, False), (CORE_ONLY, True)])
def test_a_fault_of_the_neutral_arm_keeps_a_hit_from_being_shown(blocks: frozenset, shown: bool) -> None:  # type: ignore[type-arg]
    found = judged(with_neutral(pairs(), scores=(0.9, 0.9)), Fault("channels_alike", "here", "two forms", blocks))
    assert (found.neutral.hits, found.neutral.recovered) == (1, shown)
    assert not found.complete and "channels_alike" in found.reasons[0]


@pytest.mark.parametrize(
    ("of", "told"),
    [
        (pairs(7), "7 of 8 registered pairs"),
        (with_neutral(pairs(), **LOST), "7 of 8 registered pairs"),
        ([replace(pairs()[0], independent=False), *pairs()[1:]], "7 of 8 registered pairs"),
        ([replace(p, neutral=replace(p.neutral, validity=Validity.INVALID)) for p in pairs()], "valid artifacts"),
    ],
)
def test_what_is_missing_or_unhealthy_leaves_the_pairs_incomplete(of: list[FeedbackPair], told: str) -> None:
    found = judged(of)
    assert not found.complete and any(told in reason for reason in found.reasons), found.reasons


def test_a_neutral_branch_of_another_contract_bounds_nothing() -> None:
    found = judged(with_neutral(pairs(), contract_digest="another", scores=(0.9, 0.9)))
    assert (found.neutral.hits, found.neutral.bound) == (0, None)
    assert "contract violations" in found.neutral.reasons[0]


def test_what_is_open_about_recovery_leaves_a_continuous_effect_as_it_is() -> None:
    reg = replace(
        REG,
        feedback_estimand="continuous",
        feedback_interval_method="bounded_empirical_bernstein",
        inference_scope="sampled_population",
        interval_method="bounded_empirical_bernstein",
    )
    found = evaluate_policy(reg, "reference_null", pairs(), CLAIMED, 8)
    assert found.neutral.unresolved == 8 and found.neutral.bound is None and not found.neutral.complete
    assert found.complete and found.difference.mean == pytest.approx(0.7)


def test_the_spread_is_between_the_largest_and_the_smallest() -> None:
    assert spread([0.5, 0.75, 0.25]) == 0.5
    assert spread([0.5]) is spread([]) is None
