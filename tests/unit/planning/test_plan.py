"""A plan reproduces the published numbers, agrees with brute force, and its fragment is a configuration."""

from __future__ import annotations

import html
import itertools
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.conftest import ROOT

from dcpflow.errors import EvidenceError, UsageError
from dcpflow.planning import costs, exact, looks, plan_text
from dcpflow.planning.endings import Rates, endings
from dcpflow.planning.fragment import fragment, settings
from dcpflow.planning.pair_looks import ended
from dcpflow.planning.plan import Guess, altered, plan
from dcpflow.protocol.config import load
from dcpflow.protocol.feedback_effect import effect_interval, effect_side
from dcpflow.protocol.intervals import paired_binary_exact, success_lower_bound
from dcpflow.protocol.registered import to_registration
from dcpflow.protocol.registration import registration_violations
from dcpflow.report.sheet import render
from dcpflow.stages import configuration, plan_page

if TYPE_CHECKING:
    from tests.conftest import Audit

    from dcpflow.protocol.config import Config

EXPECTED = Guess(Rates(recall=0.98, truthful=0.95, null_reference=0.99, null_proposed=0.99))


def strict(config: Config) -> Config:
    return altered(config, {"claim.grade": "core", "thresholds.alpha.recovery": 0.02})


# --- published numbers -------------------------------------------------------------------------------------


def test_challengers(config: Config) -> None:
    assert plan(config, Guess()).challengers_needed == 90
    assert plan(strict(config), Guess()).challengers_needed == 77


def test_controls(config: Config) -> None:
    assert plan(config, Guess()).controls_all == 24
    assert success_lower_bound(23, 23, 0.005) < 0.8 <= success_lower_bound(24, 24, 0.005)
    assert exact.fewest_successes(45, 0.005, 0.8) == 43
    assert exact.fewest_successes(23, 0.005, 0.8) is None


def test_truthful_branches(config: Config) -> None:
    made = plan(config, Guess(counts={"pairs": 30}))
    assert (made.pairs, made.truthful_needed) == (30, 28)


def test_null_pairs_of_which_60_may_have_two_one_sided_differences() -> None:
    test, passed = exact.PairedTest(60, 0.01), exact.within(0.17)
    assert passed(test.lower(2, 0), test.upper(2, 0))
    assert not passed(test.lower(3, 0), test.upper(3, 0))


def test_neutral_branches_for_necessity(config: Config) -> None:
    assert plan(config, EXPECTED).neutral_needed == 104
    assert plan(altered(config, {"claim.necessity": True}), EXPECTED).pairs == 104


def test_the_published_m_max_follows_from_the_published_counts(config: Config) -> None:
    made = plan(config, Guess(counts={"challengers": 96, "pairs": 30, "null_pairs": 60}))
    assert (made.m_max, made.pair_replacements, made.null_pair_replacements) == (162, 3, 6)


def test_the_error_budget_is_the_registered_one(config: Config) -> None:
    assert plan(config, Guess()).alphas["spent"] == pytest.approx(0.05)
    assert plan(strict(config), Guess()).alphas == pytest.approx(
        {"main": 0.005, "score": 0.005, "recovery": 0.02, "adequacy": 0.005, "spent": 0.035, "total": 0.05}
    )


# --- against brute force -----------------------------------------------------------------------------------


def test_the_chance_of_a_paired_test_is_that_of_all_its_outcomes() -> None:
    pairs, alpha, plus, minus = 7, 0.2, 0.6, 0.1
    chance = {1: plus, -1: minus, 0: 1 - plus - minus}
    for passed in (exact.supports(0.05, 0.01), exact.opposes(0.8, 0.05), exact.within(0.6)):
        expected = 0.0
        for values in itertools.product((1, 0, -1), repeat=pairs):
            ends = paired_binary_exact(values, 1 - alpha)
            if passed(ends.lower, ends.upper):
                expected += math.prod(chance[value] for value in values)
        assert 0 < expected < 1
        assert exact.PairedTest(pairs, alpha).chance(plus, minus, passed) == pytest.approx(expected)


def test_planned_samples_pass_with_the_asked_for_chance_and_are_not_wasteful(config: Config) -> None:
    made = plan(config, EXPECTED)
    rates = exact.discordant(0.95, 0.0)
    passed = exact.supports(0.34, 0.17)
    assert exact.PairedTest(made.pairs, 0.01).chance(*rates, passed) >= 0.9
    assert exact.PairedTest(made.pairs - 1, 0.01).chance(*rates, passed) < 0.9
    assert exact.chance_of_recall(made.controls, 0.005, 0.8, 0.98) >= 0.9
    assert exact.chance_of_recall(made.controls - 1, 0.005, 0.8, 0.98) < 0.9
    lossy = plan(config, Guess(Rates(recall=1.0, loss=0.05)))
    assert exact.at_least(90, lossy.challengers, 0.95) >= 0.9 > exact.at_least(90, lossy.challengers - 1, 0.95)


def test_chances_add_up(setup: Any) -> None:
    rates = Rates(0.003, 0.93, 0.85, 0.05, 0.97, 0.96, failure=0.05, loss=0.03)
    found = endings(setup.reg, rates, 96, 45)
    core = found.core_certified + found.core_refuted + sum(found.core_inconclusive.values())
    assert core == pytest.approx(1)
    assert found.evidence_certified is not None
    assert found.evidence_refuted is not None
    evidence = found.evidence_certified + found.evidence_refuted + sum(found.evidence_inconclusive.values())
    assert evidence == pytest.approx(found.core_certified)
    assert found.inconclusive == pytest.approx(
        sum(found.core_inconclusive.values()) + sum(found.evidence_inconclusive.values())
    )


def test_a_certificate_becomes_rarer_as_the_recovery_probability_grows(config: Config) -> None:
    curve = [y for _, y in plan(config, EXPECTED).curves["recovery"]]
    assert curve == sorted(curve, reverse=True)
    at = dict(plan(config, Guess(counts={"challengers": 96})).curves["recovery"])
    assert at[0.05] == pytest.approx(0.95**96)


# --- what cannot be planned --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rates", "says"),
    [
        (Rates(recall=0.8), "cannot show a recall of 0.8"),
        (Rates(truthful=0.5, neutral=0.2), "passes the margins"),
        (Rates(null_reference=1.0, null_proposed=0.8), "passes the margins"),
        (Rates(loss=1.0), "challengers would be needed"),
    ],
)
def test_guesses_that_no_sample_can_prove_are_refused(config: Config, rates: Rates, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        plan(config, Guess(rates))


def test_thresholds_that_the_rules_do_not_allow_are_refused(config: Config) -> None:
    with pytest.raises(UsageError, match="R6"):
        altered(config, {"thresholds.gate2.rho": 0.06})


def test_the_continuous_estimand_is_planned_by_the_width_of_its_interval(config: Config) -> None:
    continuous = altered(config, {"thresholds.gate3.estimand": "continuous"})
    made = plan(continuous, Guess(EXPECTED.rates, spread=0.1))
    assert made.truthful_needed is None
    assert made.pairs > plan(config, EXPECTED).pairs
    wider = plan(continuous, Guess(EXPECTED.rates, spread=0.3))
    assert wider.pairs > made.pairs
    assert made.endings.evidence_certified is None


# --- the fragment ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("core", [False, True])
def test_the_fragment_is_a_configuration(
    config: Config, core: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = plan(strict(config) if core else config, EXPECTED)
    text = fragment(made)
    read = load(yaml.safe_load(text))
    assert (read.design.challengers, read.design.controls) == (made.challengers, made.controls)
    path = tmp_path / "planned.yaml"
    path.write_text(text)
    monkeypatch.chdir(ROOT)
    merged = configuration.read([path]).config
    assert merged.thresholds.gate2.m_max == made.m_max
    assert not registration_violations(to_registration(merged))
    if not core:
        assert merged.design.pairs == made.pairs
        assert merged.design.null_pairs == made.null_pairs


# --- costs -------------------------------------------------------------------------------------------------


def test_costs_are_episodes_times_what_one_takes(config: Config) -> None:
    made = plan(config, Guess(counts={"challengers": 96, "controls": 45, "pairs": 30, "null_pairs": 60}))
    assert sum(made.episodes.values()) == 334
    found = costs.cost(made.episodes, costs.Price({"": 3600.0, "controls": 7200.0}, tokens=1e5, money=0.25), jobs=4)
    assert found.hours == pytest.approx((334 + 45) / 4)
    assert (found.tokens, found.money) == (334e5, 83.5)
    assert costs.cost(made.episodes, costs.Price({}), 1).seconds is None


def test_pairs_of_further_neutral_policies_cost_and_change_no_sample(config: Config) -> None:
    further = {"design.neutral_policies": ["proposed_sham", "reference_null", "lagged_sham"]}
    several = altered(config, further | {"design.neutral_policy_pairs": {"lagged_sham": 12}})
    made, plain = (plan(one, Guess()) for one in (several, config))
    assert made.episodes == plain.episodes | {"pairs_reference_null": 2 * plain.pairs, "pairs_lagged_sham": 24}
    assert (made.reg, made.endings) == (plain.reg, plain.endings)


def test_a_pilot_tells_the_seconds_of_each_stage(finished_audit: Audit) -> None:
    found = costs.of_pilot(finished_audit.results)
    assert {"target", "challengers", "controls", "pairs", "null_pairs", "misled_nulls", ""} <= found.keys()
    assert all(seconds > 0 for seconds in found.values())


def test_what_is_odd_beside_a_record_is_not_used(audit_copy: Audit) -> None:
    store = audit_copy.results / "store"
    for number, path in enumerate(sorted(store.rglob("aside-*.json"))):
        path.unlink()
        odd = [b"{", b"[]", b'{"seconds": "nan"}', b'{"seconds": -1}', b"{}", b'{"seconds": "2.5"}']
        path.write_bytes(odd[number % len(odd)])
    assert set(costs.of_pilot(audit_copy.results).values()) == {2.5}
    for path in store.rglob("aside-*.json"):
        path.unlink()
    with pytest.raises(EvidenceError, match="no episode with its time"):
        costs.of_pilot(audit_copy.results)


def test_table_page_and_json_say_the_same(config: Config) -> None:
    guess = Guess(EXPECTED.rates, counts={"pairs": 30})
    made = plan(config, guess)
    text = plan_text.render(made, guess, costs.cost(made.episodes, costs.Price({"": 10.0}), 2))
    assert "28 of 30 truthful branches must recover" in text
    assert f"{sum(made.episodes.values())}: 1 target" in text
    assert yaml.safe_load(text[text.index("# to paste") :]) == settings(made)
    page = render(plan_page.page(made, guess, costs.cost(made.episodes, costs.Price({}), 1))).decode()
    assert "28 of 30 truthful branches must recover" in page
    assert yaml.safe_load(
        html.unescape(page[page.index("<pre><code>") + 11 : page.index("</code></pre>")])
    ) == settings(made)
    found = json.loads(json.dumps(made.to_json(), allow_nan=False))
    assert found["truthful_needed"] == 28
    assert found["endings"]["core_certified"] == made.endings.core_certified


# --- several looks at the challengers ----------------------------------------------------------------------


def test_the_expected_challengers_are_those_of_all_first_hits() -> None:
    """Against the sum over the place of the first recovery."""
    p, ends = 0.03, (10, 25, 40)
    first = [(1 - p) ** (n - 1) * p for n in range(1, 41)]
    by_hand = sum(chance * next(end for end in ends if n <= end) for n, chance in enumerate(first, 1))
    assert looks.expected(ends, p) == pytest.approx(by_hand + 40 * (1 - p) ** 40)
    assert looks.expected(ends, 0.0) == 40
    assert looks.expected(ends, 1.0) == 10
    assert looks.expected((40,), p) == 40


def test_looks_are_planned_at_the_registered_shares_or_in_equal_steps(config: Config) -> None:
    registered = altered(config, {"design.gate2_looks": [24, 96]})
    made = plan(registered, Guess(Rates(recovery=0.02, loss=0.05)))
    assert made.looks == (math.ceil(made.challengers / 4), made.challengers)
    assert made.expected == looks.expected(made.looks, 0.02 * 0.95) < made.challengers
    equal = plan(config, Guess(counts={"challengers": 96}, looks=3))
    assert equal.looks == (32, 64, 96)
    pasted = settings(equal)
    assert pasted["design"]["gate2_looks"] == [32, 64, 96]
    assert "gate2_looks" not in settings(plan(config, Guess()))["design"]


def test_the_sums_over_looks_at_pairs_are_those_over_all_experiments(config: Config) -> None:
    """Against every sequence of six pairs."""
    values = {
        "design.pairs": 6,
        "design.pair_looks": [2, 4, 6],
        "design.pair_replacements": 0,
        "thresholds.gate3.bet": 0.9,
    }
    margins = {"thresholds.gate3.delta_evidence": 0.02, "thresholds.gate3.delta_sham": 0.01}
    reg = replace(to_registration(altered(config, values | margins)), alpha_evidence=0.3)
    chances = {1: 0.7, 0: 0.2, -1: 0.1}
    expected = supported = opposed = 0.0
    for sequence in itertools.product(chances, repeat=6):
        chance = math.prod(chances[value] for value in sequence)
        for end in (2, 4, 6):
            side = effect_side(reg, effect_interval(reg, sequence[:end]))
            if end == 6 or side != "inconclusive":
                expected += chance * end
                supported += chance * (side == "supported")
                opposed += chance * (side == "not_supported")
                break
    found = ended(reg, 0.7, 0.1, 0.0)
    assert (found.expected, found.supported, found.opposed) == pytest.approx((expected, supported, opposed))
    assert 2 < expected < 6 and supported and opposed


def test_a_plan_of_looks_at_pairs_says_what_they_save(config: Config) -> None:
    values = {"design.pair_looks": [15, 20, 25, 30], "design.pair_replacements": 0, "thresholds.gate3.bet": 0.9}
    looked = altered(config, values)
    made = plan(looked, EXPECTED)
    assert made.pairs == 30 and made.pair_replacements == 0
    assert made.pairs_ended is not None and made.pairs_ended.expected < 30
    assert made.endings.evidence_certified is None
    assert "are started on average" in plan_text.render(
        made, EXPECTED, costs.cost(made.episodes, costs.Price({}, None, None), 1)
    )
    pasted = settings(made)
    assert pasted["design"]["pair_looks"] == [15, 20, 25, 30]
    assert pasted["thresholds"]["gate3"]["bet"] == 0.9
    assert plan(config, EXPECTED).pairs_ended is None
