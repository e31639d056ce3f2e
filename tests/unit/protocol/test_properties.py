"""Properties that every decision has to have, over random evidence."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from dcpflow.protocol.decision import Decision, decide
from dcpflow.protocol.model import (
    Adequacy,
    Attempt,
    AttemptStatus,
    Gate1Evidence,
    Gate2Evidence,
    InconclusiveClass,
    Outcome,
    ScoredArtifact,
    Status,
    Validity,
)
from dcpflow.protocol.plain import plain
from dcpflow.protocol.registration import Registration

SETTINGS = settings(max_examples=60, deadline=None, derandomize=True)
UNITS = ("u1", "u2", "u3")
GRID = st.integers(0, 64).map(lambda k: k / 64)
SCORES = st.tuples(GRID, GRID, GRID)

EXACT = Registration(
    claim_id="claim",
    claim_family_id="family",
    audit_slot_id="slot",
    slot_receipt="receipt",
    model_id="model",
    interface_digest="interface",
    task_profile="profile",
    inference_scope="exhaustive_finite_set",
    interval_method="finite_set_exact",
    delta_min=0.25,
    kappa=0.5,
    challenger_contract_digest="contract",
    challenge_distribution_digest="distribution",
)
SAMPLED = replace(
    EXACT, inference_scope="sampled_population", interval_method="bounded_empirical_bernstein", max_attempts=2
)
ADEQUATE = Adequacy(
    matched_model_present=True,
    materials_readable=True,
    opportunity_floor_met=True,
    health_audit_pass=True,
    positive_control_successes=45,
    positive_control_trials=45,
    calibration_id="controls",
    checks_digest="checks",
)
CLAIMED = ScoredArtifact("claimed", UNITS, (0.9375, 1.0, 0.875), Validity.VALID, "claimed-digest")
BASELINE = ScoredArtifact("baseline", UNITS, (0.25, 0.25, 0.25), Validity.VALID, "baseline-digest")


def attempt(index: int, scores: tuple[float, ...] | None, units: tuple[str, ...] = UNITS) -> Attempt:
    return Attempt(
        attempt_id=f"attempt-{index}",
        outcome=Outcome.MODEL_FAILURE if scores is None else Outcome.ARTIFACT,
        validity=Validity.UNRESOLVED if scores is None else Validity.VALID,
        artifact_digest="" if scores is None else f"digest-{index}",
        scores=scores,
        unit_ids=() if scores is None else units,
        stratum="matched",
        contract_digest="contract",
        prestart_receipt=f"prestart-{index}",
        distribution_digest="distribution",
        draw_receipt=f"draw-{index}",
        independent_unit=f"presentation-{index}",
        independent=True,
    )


def outcome(attempts: list[Attempt], reg: Registration = EXACT) -> Decision:
    return decide(reg, Gate1Evidence(CLAIMED, BASELINE), Gate2Evidence(tuple(attempts), ADEQUATE))


def attempts_of(scores: list[tuple[float, float, float] | None]) -> list[Attempt]:
    return [attempt(index, row) for index, row in enumerate(scores)]


MISS = st.tuples(*[st.integers(0, 40).map(lambda k: k / 64)] * 3)
ANY = st.one_of(MISS, SCORES, st.none())
FEW = st.lists(ANY, min_size=1, max_size=6)


def many(few: list[tuple[float, float, float] | None]) -> list[tuple[float, float, float] | None]:
    """Enough misses around them for a certificate to be in reach."""
    return [(0.25, 0.25, 0.25)] * 80 + few


@SETTINGS
@given(FEW)
def test_one_more_hit_refutes(few: list[tuple[float, float, float] | None]) -> None:
    """Whatever the other attempts are: no second, third or tenth hit turns refuted into anything else."""
    rows = few
    for _ in range(3):
        rows = [*rows, CLAIMED.scores]
        assert outcome(attempts_of(rows)).core.status is Status.REFUTED


@settings(SETTINGS, max_examples=100)
@given(FEW, st.booleans(), SCORES, SCORES, st.sampled_from(Validity), st.sampled_from([EXACT, SAMPLED]))
def test_looking_back_certifies_nothing_and_a_hit_alone_refutes(
    few: list[tuple[float, float, float] | None],
    enough: bool,
    claimed: tuple[float, float, float],
    baseline: tuple[float, float, float],
    validity: Validity,
    reg: Registration,
) -> None:
    """Whatever the numbers are, those of Gate 1 too; a prospective audit of the same evidence may come to anything."""
    gate1 = Gate1Evidence(replace(CLAIMED, scores=claimed, validity=validity), replace(BASELINE, scores=baseline))
    gate2 = Gate2Evidence(tuple(attempts_of(many(few) if enough else few)), ADEQUATE)
    forward = decide(replace(reg, max_attempts=100), gate1, gate2)
    found = decide(replace(reg, max_attempts=100, retrospective=True), gate1, gate2)
    core, hit = found.core, found.gate2 is not None and found.gate2.hits > 0
    assert core.status in {Status.REFUTED, Status.INCONCLUSIVE}
    assert found.evidence.status is Status.NOT_TESTED
    assert (core.status is Status.REFUTED) == (core.rule == "V11")
    if core.status is Status.REFUTED:
        assert hit and validity is Validity.VALID
    if validity is Validity.INVALID:
        assert core.rule == "V17"
    elif forward.core.rule == "V11":
        assert core == forward.core
    elif forward.core.status is Status.CERTIFIED:
        assert (core.rule, core.inconclusive_class) == ("V17", InconclusiveClass.AUDIT_INCOMPLETE)
        assert "certifies nothing" in core.reason
    elif forward.core.rule in {"V6", "V8"}:
        assert core.rule == ("V11" if hit else "V17")
        assert hit or forward.core.reason in core.reason


def test_looking_back_has_no_feedback_experiment() -> None:
    found = outcome(attempts_of(many([])), replace(EXACT, retrospective=True, grade="evidence"))
    assert (found.core.rule, found.violations[0].rule) == ("V1", "R3")


@SETTINGS
@given(FEW, st.floats(0, 0.99), st.floats(0, 0.99))
def test_a_wider_tolerance_never_removes_a_hit(
    few: list[tuple[float, float, float] | None], one: float, two: float
) -> None:
    narrow, wide = sorted((one, two))

    def hits(kappa: float) -> set[str]:
        rows = outcome(attempts_of(few), replace(EXACT, kappa=kappa)).gate2.attempts
        return {row.attempt_id for row in rows if row.status is AttemptStatus.CONFIRMED_HIT}

    assert hits(narrow) <= hits(wide)


@SETTINGS
@given(FEW, st.randoms(use_true_random=False))
def test_the_order_of_challengers_changes_nothing(
    few: list[tuple[float, float, float] | None], rng: random.Random
) -> None:
    attempts = attempts_of(many(few))
    shuffled = list(attempts)
    rng.shuffle(shuffled)
    first, second = plain(outcome(attempts)), plain(outcome(shuffled))
    for record in (first, second):
        record["gate2"]["attempts"].sort(key=lambda row: row["attempt_id"])
    assert first == second


@SETTINGS
@given(FEW, st.data())
def test_better_challengers_never_help_the_claim(
    few: list[tuple[float, float, float] | None], data: st.DataObject
) -> None:
    """Raising all scores of one challenger by a constant never moves Core to certified."""
    rows = many(few)
    index = data.draw(st.integers(79, len(rows) - 1))
    scores = rows[index] or (0.0, 0.0, 0.0)
    step = data.draw(st.integers(0, round(64 * (1 - max(scores))))) / 64
    rows[index] = scores
    before = outcome(attempts_of(rows)).core.status
    rows[index] = tuple(score + step for score in scores)
    after = outcome(attempts_of(rows)).core.status
    assert not (after is Status.CERTIFIED and before is not Status.CERTIFIED)


@SETTINGS
@given(FEW, st.data())
def test_one_better_unit_never_helps_the_claim_where_the_set_is_exact(
    few: list[tuple[float, float, float] | None], data: st.DataObject
) -> None:
    rows = many(few)
    index = data.draw(st.integers(79, len(rows) - 1))
    scores = list(rows[index] or (0.0, 0.0, 0.0))
    rows[index] = tuple(scores)
    before = outcome(attempts_of(rows)).core.status
    unit = data.draw(st.integers(0, 2))
    scores[unit] = data.draw(st.floats(scores[unit], 1.0))
    rows[index] = tuple(scores)
    after = outcome(attempts_of(rows)).core.status
    assert not (after is Status.CERTIFIED and before is not Status.CERTIFIED)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.integers(0, 40), st.integers(0, 24), st.integers(0, 64))
def test_better_challengers_never_help_a_claim_about_a_population(low: int, step: int, spread: int) -> None:
    """The same with the sampled interval, on a challenger's own status: miss, then straddling, then hit."""
    order = [AttemptStatus.CONFIRMED_MISS, AttemptStatus.UNRESOLVED, AttemptStatus.CONFIRMED_HIT]
    units = tuple(f"u{i}" for i in range(400))
    claimed = replace(CLAIMED, unit_ids=units, scores=(0.9375,) * 400)
    baseline = replace(BASELINE, unit_ids=units, scores=(0.25,) * 400)
    wobble = spread / 64 * (0.9 - (low + step) / 64) / 2

    def status(level: int) -> AttemptStatus:
        scores = tuple(level / 64 + (wobble if i % 2 else 0.0) for i in range(400))
        evidence = Gate2Evidence((attempt(0, scores, units),), ADEQUATE)
        decision = decide(SAMPLED, Gate1Evidence(claimed, baseline), evidence)
        return decision.gate2.attempts[0].status

    if wobble >= 0 and (low + step) / 64 + wobble <= 1:
        assert order.index(status(low)) <= order.index(status(low + step))


@SETTINGS
@given(st.lists(SCORES, min_size=1, max_size=4), st.floats(0.001, 0.05))
def test_a_looser_rho_never_takes_a_certificate_away(few: list[tuple[float, float, float]], rho: float) -> None:
    attempts = attempts_of(many(list(few)))
    strict = outcome(attempts, replace(EXACT, rho=rho)).core.status
    loose = outcome(attempts, replace(EXACT, rho=0.05)).core.status
    assert loose is strict or strict is Status.INCONCLUSIVE
