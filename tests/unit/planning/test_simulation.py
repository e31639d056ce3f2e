"""Synthetic audits: sound evidence, the same on any number of processes, and rates that the formulas give."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace

import pytest
from tests.unit.planning.conftest import GOOD, ends

from dcpflow.errors import UsageError
from dcpflow.planning import exact, looks, simulation, simulation_text
from dcpflow.planning.endings import Rates, endings
from dcpflow.planning.pair_looks import ended
from dcpflow.planning.simulation import Setup, Simulated, Truth, no_challenger_recovers, simulate
from dcpflow.planning.synthetic import Counts, Synthesis
from dcpflow.protocol.betting import betting_interval
from dcpflow.protocol.decision import Decision, decide
from dcpflow.protocol.intervals import success_lower_bound, success_upper_bound
from dcpflow.protocol.registration import BETTING_SEQUENCE
from dcpflow.report.sheet import render
from dcpflow.stages import simulation_page

MIXED = Rates(0.002, 0.97, 0.95, 0.02, 0.99, 0.98, failure=0.03, loss=0.01)


def decided(setup: Setup, counts: Counts) -> Decision:
    made = Synthesis(setup.reg, setup.controls, setup.scores)
    return decide(setup.reg, made.gate1(), made.gate2(counts), made.gate3(counts))


def of(setup: Setup, truth: Truth) -> Setup:
    return replace(setup, truth=truth)


# --- the evidence ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "counts",
    [
        GOOD,
        replace(GOOD, misses=90, failures=3, lost=3, controls=43),
        replace(GOOD, replaced=3, null_replaced=2),
        replace(GOOD, pairs=ends(hit_miss=28, hit_failure=1, failure_miss=1), null_pairs=ends(hit_hit=59, miss_hit=1)),
    ],
)
def test_synthetic_evidence_is_in_order_and_certifies_what_deserves_it(setup: Setup, counts: Counts) -> None:
    found = decided(setup, counts)
    assert found.complete, found.faults
    assert (found.core.status, found.evidence.status) == ("certified", "certified"), found.evidence


def test_pairs_lost_for_good_leave_evidence_open(setup: Setup) -> None:
    found = decided(setup, replace(GOOD, pairs=ends(hit_miss=29), replaced=3, pairs_lost=1))
    assert found.evidence.status == "inconclusive"


def test_the_order_of_episodes_decides_nothing(setup: Setup) -> None:
    """Equal counts may share one decision."""
    counts = Counts(1, 2, 1, 92, 44, ends(hit_miss=20, miss_hit=4, hit_hit=6), 0, 0, ends(hit_hit=57, hit_miss=3))
    made = Synthesis(setup.reg, setup.controls, setup.scores)
    two, three = made.gate2(counts), made.gate3(counts)
    assert three is not None
    shuffle = random.Random(1)
    for _ in range(5):
        attempts, pairs, nulls = list(two.attempts), list(three.pairs), list(three.null.pairs)
        for rows in (attempts, pairs, nulls):
            shuffle.shuffle(rows)
        found = decide(
            setup.reg,
            made.gate1(),
            replace(two, attempts=tuple(attempts)),
            replace(three, pairs=tuple(pairs), null=replace(three.null, pairs=tuple(nulls))),
        )
        expected = decided(setup, counts)
        assert (found.core, found.evidence) == (expected.core, expected.evidence)


# --- the draws ---------------------------------------------------------------------------------------------


def test_a_seed_gives_the_same_audits_on_any_number_of_processes(setup: Setup) -> None:
    mine = of(setup, Truth(Rates(0.02, 0.96), dependence=0.02))
    one = simulate(mine, 1_700, seed=5, processes=1)
    assert one == simulate(mine, 1_700, seed=5, processes=3)
    assert one.endings != simulate(mine, 1_700, seed=6, processes=1).endings
    assert sum(one.endings.values()) == 1_700


def test_noise_too_small_to_matter_changes_nothing(setup: Setup) -> None:
    """The way on which every audit is decided by itself gives what sharing decisions gives."""
    rates = Rates(0.01, 0.97, 0.9, 0.1, 0.99, 0.98, failure=0.03, loss=0.02)
    plain, noisy = (simulate(of(setup, Truth(rates, noise=noise)), 30) for noise in (0.0, 1e-9))
    assert plain.endings == noisy.endings
    assert plain.decisions == noisy.decisions


def test_audits_that_share_a_decision_would_each_have_got_it(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    truth = Truth(Rates(recovery=0.01, truthful=0.9), noise=0.02, units=2, claimed=0.6)
    shared = simulate(of(setup, truth), 40)
    monkeypatch.setattr(simulation._Measured, "key", lambda *_: None)
    alone = simulate(of(setup, truth), 40)
    assert alone.endings == shared.endings
    assert shared.decisions < alone.decisions == 40


def test_where_units_are_sampled_each_audit_is_decided_by_itself(setup: Setup) -> None:
    """One noisy unit bounds nothing then."""
    sampled = replace(setup.reg, inference_scope="sampled_population", interval_method="bounded_empirical_bernstein")
    found = simulate(replace(setup, reg=sampled, truth=Truth(noise=0.01)), 3)
    assert (found.decisions, found.rate("core", "inconclusive").count) == (3, 3)


def test_noise_beyond_epsilon_hides_recoveries(setup: Setup) -> None:
    """A claimed artifact that was lucky when it was scored cannot be reached again."""
    truth = Truth(Rates(recovery=0.05))
    quiet, noisy = (simulate(of(setup, replace(truth, noise=noise)), 60) for noise in (0.0, 0.05))
    assert noisy.rate("core", "certified").count > quiet.rate("core", "certified").count + 5


# --- the rates ---------------------------------------------------------------------------------------------


def agrees(count: int, audits: int, chance: float) -> bool:
    """Whether a count is no rarer than one in ten thousand under a chance."""
    low, high = (bound(count, audits, 5e-5) for bound in (success_lower_bound, success_upper_bound))
    return low <= chance <= high


@pytest.mark.parametrize(
    "rates",
    [
        Rates(recovery=0.05),
        Rates(recovery=0.002, recall=0.95),
        Rates(recall=0.97, failure=0.15),
        Rates(recovery=0.01, loss=0.06),
    ],
)
def test_the_engine_decides_on_core_as_often_as_the_formulas_say(setup: Setup, rates: Rates) -> None:
    core = replace(setup, reg=replace(setup.reg, grade="core"), truth=Truth(rates))
    found, expected = simulate(core, 3_000), endings(core.reg, rates, 96, 45)
    for status, chance in (
        ("certified", expected.core_certified),
        ("refuted", expected.core_refuted),
        ("inconclusive", sum(expected.core_inconclusive.values())),
    ):
        count = found.rate("core", status).count
        assert agrees(count, 3_000, chance), (status, count / 3_000, chance)


@pytest.mark.parametrize(
    ("rates", "audits"),
    [
        (Rates(truthful=0.9), 2_000),
        (Rates(truthful=0.1), 2_000),
        (Rates(null_proposed=0.97), 2_000),
        (Rates(loss=0.02), 1_000),
        (Rates(truthful=0.95, failure=0.12), 150),
        (Rates(0.001, 0.98, 0.9, 0.05, 0.99, 0.98, failure=0.03, loss=0.01), 200),
    ],
)
def test_the_engine_decides_on_evidence_as_often_as_the_formulas_say(setup: Setup, rates: Rates, audits: int) -> None:
    found, expected = simulate(of(setup, Truth(rates)), audits), endings(setup.reg, rates, 96, 45)
    for status, chance in (
        ("certified", expected.evidence_certified),
        ("refuted", expected.evidence_refuted),
        ("inconclusive", sum(expected.evidence_inconclusive.values())),
    ):
        assert chance is not None
        count = found.rate("evidence", status).count
        assert agrees(count, audits, chance), (status, count / audits, chance)


def test_false_certification_stays_below_alpha_recovery(setup: Setup) -> None:
    found = simulate(of(setup, Truth(Rates(recovery=0.05))), 100_000, processes=2)
    wrong = simulation_text.errors(found)["core_false_certification"]
    assert wrong.interval[1] <= setup.reg.alpha_recovery == 0.01
    assert agrees(wrong.count, 100_000, 0.95**96)
    text = simulation_text.render(found)
    assert f"core false certification: {wrong.value:.6f}, at most {wrong.interval[1]:.6f}" in text
    assert "0.95^96 = 0.007269" in text
    assert "audits per minute on 2 processes" in text


@pytest.mark.parametrize(("dependence", "loss"), [(0.0, 0.0), (0.2, 0.0), (0.2, 0.05), (0.0, 0.05)])
def test_the_formula_holds_for_dependent_and_lost_episodes(setup: Setup, dependence: float, loss: float) -> None:
    core = replace(setup, reg=replace(setup.reg, grade="core"), truth=Truth(Rates(0.02, loss=loss), dependence))
    found = simulate(core, 4_000)
    assert agrees(4_000 - found.rate("core", "refuted").count, 4_000, no_challenger_recovers(core))


def test_dependence_makes_false_certificates_more_frequent_than_registered(setup: Setup) -> None:
    """What is registered holds for independent episodes; a simulation shows what it costs where they are not."""
    dependent = of(setup, Truth(Rates(recovery=0.05), dependence=0.1))
    assert no_challenger_recovers(dependent) > 10 * setup.reg.alpha_recovery
    assert simulate(dependent, 2_000).rate("core", "certified").value > 10 * setup.reg.alpha_recovery


def test_a_neutral_hit_refutes_where_neutral_branches_are_challengers(setup: Setup) -> None:
    truth = Truth(Rates(neutral=0.02))
    inside = replace(setup, reg=replace(setup.reg, checkpoint_scope="lineage_empty"), truth=truth)
    # a neutral branch is a challenger under the challengers' own contract and draws
    assert inside.reg.neutral_recovery_contract_digest == inside.reg.challenger_contract_digest
    assert simulate(of(setup, truth), 500).rate("core", "refuted").count == 0
    assert agrees(simulate(inside, 2_000).rate("core", "certified").count, 2_000, 0.98**30)


# --- what is refused, and what is said ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("truth", "says"),
    [
        (Truth(miss=0.9), "is no miss"),
        (Truth(noise=-1.0), "is below 0"),
        (Truth(dependence=1.0), "is not from 0 to below 1"),
    ],
)
def test_truths_that_contradict_the_registration_are_refused(setup: Setup, truth: Truth, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        simulate(of(setup, truth), 10)


def test_json_depends_on_the_machine_under_one_key_alone(setup: Setup) -> None:
    mine = of(setup, Truth(MIXED))
    first, second = (simulation_text.to_json(simulate(mine, 40, processes=n)) for n in (1, 2))
    for found in (first, second):
        assert found.pop("run")["audits_per_minute"] > 0
    assert json.dumps(first, sort_keys=True) == json.dumps(second, sort_keys=True)
    assert sum(row["count"] for row in first["core"]) == 40


def test_a_claim_that_is_true_can_be_refuted_falsely_and_not_certified_falsely(setup: Setup) -> None:
    found = Simulated(of(setup, Truth()), 1, 0, Counter(), 96, 30, 0, 1.0, 1)
    assert set(simulation_text.errors(found)) == {"core_false_refutation", "evidence_false_refutation"}
    weak = replace(found, setup=of(setup, Truth(Rates(recovery=0.05, truthful=0.3))))
    assert set(simulation_text.errors(weak)) == {"core_false_certification", "evidence_false_certification"}


# --- several looks at the challengers ----------------------------------------------------------------------


@pytest.mark.parametrize("loss", [0.0, 0.1])
def test_looks_save_challengers_and_move_no_level(setup: Setup, loss: float) -> None:
    """The claim is false: as many audits are without a hit as with one look, and start as many as the plan says."""
    truth = Truth(Rates(recovery=0.05, loss=loss))
    staged = simulate(replace(of(setup, truth), looks=(32, 64, 96)), 500)
    unhit, formula = staged.audits - staged.rate("core", "refuted").count, no_challenger_recovers(staged.setup)
    low, high = (bound(unhit, staged.audits, 1e-4) for bound in (success_lower_bound, success_upper_bound))
    assert low <= formula <= high
    assert success_lower_bound(staged.rate("core", "certified").count, staged.audits, 1e-4) <= setup.reg.alpha_recovery
    expected = looks.expected((32, 64, 96), 0.05 * (1.0 - loss))
    # four standard errors of a mean of numbers between 32 and 96
    assert abs(staged.started / staged.audits - expected) < 4 * 32 / staged.audits**0.5
    assert "challengers started" in simulation_text.render(staged)


def test_one_look_after_all_is_what_no_look_is(setup: Setup) -> None:
    truth = Truth(MIXED)
    assert simulate(of(setup, truth), 200).endings == simulate(replace(of(setup, truth), looks=(96,)), 200).endings


def test_noise_beside_looks_is_refused(setup: Setup) -> None:
    with pytest.raises(UsageError, match="beside several looks"):
        simulate(replace(of(setup, Truth(noise=0.1)), looks=(32, 96)), 10)


# --- several looks at the pairs ----------------------------------------------------------------------------

PAIR_LOOKS = (15, 20, 25, 30)


@pytest.fixture(scope="module")
def looked(setup: Setup) -> Setup:
    method = {"feedback_interval_method": BETTING_SEQUENCE, "max_feedback_replacements": 0}
    return replace(setup, reg=replace(setup.reg, feedback_looks=PAIR_LOOKS, bet=0.9, **method))


@pytest.mark.parametrize(
    ("pairs", "status"),
    [
        (ends(hit_miss=25), "certified"),
        (ends(hit_miss=24), "inconclusive"),  # decided, but after no registered look
        (ends(hit_miss=20), "inconclusive"),  # after a look that does not decide
        (ends(hit_miss=28, miss_miss=2), "certified"),
        (ends(hit_miss=20, miss_miss=10), "inconclusive"),  # after the last look, undecided
        (ends(miss_hit=15), "refuted"),
    ],
)
def test_pairs_may_end_at_a_look_that_decides_and_at_the_last(
    looked: Setup, pairs: tuple[int, ...], status: str
) -> None:
    found = decided(looked, replace(GOOD, pairs=pairs))
    assert not found.faults
    assert (found.core.status, found.evidence.status) == ("certified", status)


def test_a_lost_pair_widens_a_sequence_to_both_sides(looked: Setup) -> None:
    """Without the lost ones 21 suffice; which of them were lost, somebody may have chosen."""
    for lost, status in ((0, "certified"), (1, "inconclusive"), (3, "inconclusive")):
        found = decided(looked, replace(GOOD, pairs=ends(hit_miss=30 - lost), pairs_lost=lost))
        assert found.evidence.status == status
        assert found.gate3 is not None and found.gate3.effect is not None
        effect = found.gate3.effect
        assert (effect.analysed, effect.excluded) == (30 - lost, lost)
        values = [1.0] * (30 - lost)
        coverage = 1.0 - looked.reg.alpha_evidence
        assert effect.difference.lower == betting_interval([*values, *[-1.0] * lost], coverage, 0.9).lower
        assert effect.difference.upper == betting_interval([*values, *[1.0] * lost], coverage, 0.9).upper


def test_neutral_branches_of_an_open_number_bound_nothing(looked: Setup) -> None:
    found = decided(looked, replace(GOOD, pairs=ends(hit_miss=25)))
    assert found.gate3 is not None
    assert found.gate3.neutral.recovery == "inconclusive"


def test_sampled_experiments_end_as_the_sums_say(looked: Setup) -> None:
    """Where the truth lies at the margin, a support is an error: at most alpha, by the sums and by the sample."""
    rates = Rates(truthful=0.95, neutral=0.05, loss=0.02)
    exactly = ended(looked.reg, *exact.discordant(0.95, 0.05), 0.02)
    found = simulate(of(looked, Truth(rates)), 500)
    certified = found.rate("evidence", "certified")
    low, high = (bound(certified.count, certified.audits, 1e-4) for bound in (success_lower_bound, success_upper_bound))
    assert low <= exactly.supported <= high
    assert abs(found.pairs_started / found.audits - exactly.expected) < 4 * 8 / found.audits**0.5
    assert exactly.expected < 30
    assert "pairs started" in simulation_text.render(found)


@pytest.mark.parametrize("minus", [0.0, 0.2])
def test_looking_at_pairs_keeps_the_level(looked: Setup, minus: float) -> None:
    reg = looked.reg
    at_margin = reg.delta_evidence + reg.delta_null
    assert 0 < ended(reg, at_margin + minus, minus, 0.0).supported <= reg.alpha_evidence
    against = reg.delta_evidence - reg.delta_null
    assert ended(reg, against + minus, minus, 0.1).opposed <= reg.alpha_evidence


def test_the_page_shows_each_status_with_its_interval_and_nothing_of_the_machine(setup: Setup) -> None:
    mine = of(setup, Truth(MIXED))
    found = [simulate(mine, 40, processes=n) for n in (1, 2)]
    first, second = (render(simulation_page.page(one)) for one in found)
    assert first == second
    text = first.decode()
    for claim in ("core", "evidence"):
        for status in {status for status, _, _, _ in found[0].by_status(claim)}:
            rate = found[0].rate(claim, status)
            low, high = rate.interval
            shown = f"{claim.capitalize()} {status.replace('_', ' ')}: {rate.value:.4f} in [{low:.4f}, {high:.4f}]"
            assert shown in text


def test_a_false_certification_stands_beside_its_limits(setup: Setup) -> None:
    found = Simulated(of(setup, Truth(Rates(recovery=0.05))), 1000, 0, Counter(), 96_000, 30_000, 0, 1.0, 1)
    (section,) = (section for section in simulation_page.page(found).sections if section.title == "Wrong decisions")
    certified, refuted = (figure.shapes.marks for figure in section.figures)
    assert [mark.label for mark in certified] == ["alpha.recovery 0.01", "by formula 0.007269"]
    assert not refuted
