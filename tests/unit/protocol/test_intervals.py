"""Intervals and bounds: against the published numbers, scipy.stats, statsmodels and the reference."""

from __future__ import annotations

import math
import random
import subprocess
import sys

import dcp.stats
import pytest

from dcpflow.protocol.intervals import (
    empirical_bernstein,
    finite_set_exact,
    interval,
    paired_binary_exact,
    smallest_zero_hit_sample,
    success_lower_bound,
    success_upper_bound,
    zero_hit_upper_bound,
)


def pairs_of(plus: int, minus: int, n: int) -> list[float]:
    return [1.0] * plus + [-1.0] * minus + [0.0] * (n - plus - minus)


@pytest.mark.parametrize(
    ("n", "alpha", "published"), [(96, 0.01, 0.0468381), (80, 0.02, 0.0477239), (30, 0.005, 0.1619)]
)
def test_published_zero_hit_bounds(n: int, alpha: float, published: float) -> None:
    assert zero_hit_upper_bound(n, alpha) == pytest.approx(published, abs=6e-5 if n == 30 else 6e-8)


@pytest.mark.parametrize(("alpha", "needed"), [(0.01, 90), (0.02, 77), (0.005, 104)])
def test_published_least_numbers_of_challengers(alpha: float, needed: int) -> None:
    assert smallest_zero_hit_sample(alpha, 0.05) == needed
    assert zero_hit_upper_bound(needed, alpha) <= 0.05 < zero_hit_upper_bound(needed - 1, alpha)


def test_published_chance_of_seeing_a_rare_route() -> None:
    assert pytest.approx(0.6190, abs=5e-5) == 1 - (1 - 0.01) ** 96
    # The bound is the rate at which that chance is 1 - alpha.
    rate = zero_hit_upper_bound(96, 0.01)
    assert 1 - (1 - rate) ** 96 == pytest.approx(0.99, abs=1e-12)


@pytest.mark.parametrize(
    ("successes", "trials", "published"),
    [(45, 45, 0.8889), (60, 60, 0.9155), (2, 2, 0.0707), (43, 45, 0.8099), (42, 45, 0.7768)],
)
def test_published_positive_control_bounds(successes: int, trials: int, published: float) -> None:
    assert success_lower_bound(successes, trials, 0.005) == pytest.approx(published, abs=6e-5)


@pytest.mark.parametrize(
    ("plus", "minus", "lower", "upper"),
    [
        (30, 0, 0.6379, 1.0),
        (28, 0, 0.5239, None),
        (27, 0, 0.4772, None),
        (16, 0, 0.0944, 0.7789),
        (9, 0, -0.0779, 0.5709),
    ],
)
def test_published_feedback_intervals(plus: int, minus: int, lower: float, upper: float | None) -> None:
    found = paired_binary_exact(pairs_of(plus, minus, 30), 0.99)
    assert found.lower == pytest.approx(lower, abs=6e-5)
    if upper is not None:
        assert found.upper == pytest.approx(upper, abs=6e-5)


@pytest.mark.parametrize(("plus", "bound"), [(0, 0.0950), (2, 0.1577), (3, 0.1840)])
def test_published_null_study_intervals(plus: int, bound: float) -> None:
    found = paired_binary_exact(pairs_of(plus, 0, 60), 0.99)
    assert max(found.upper, -found.lower) == pytest.approx(bound, abs=6e-5)


def test_published_evidence_margin() -> None:
    assert paired_binary_exact([1.0] * 30, 0.99).lower - 0.17 == pytest.approx(0.4679, abs=6e-5)


def test_published_least_continuous_null_study() -> None:
    """About 1560 pairs for a band of .02, even without any variance."""
    assert empirical_bernstein([0.0] * 1560, 0.995).upper > 0.02 > empirical_bernstein([0.0] * 1561, 0.995).upper


@pytest.mark.parametrize("alpha", [0.005, 0.01 / 4, 0.05, 0.2])
def test_clopper_pearson_against_scipy_and_statsmodels(alpha: float) -> None:
    import scipy.stats
    from statsmodels.stats.proportion import proportion_confint

    for trials in (1, 2, 7, 45, 300):
        for successes in sorted({0, 1, trials // 3, trials - 1, trials} & set(range(trials + 1))):
            lower = success_lower_bound(successes, trials, alpha)
            upper = success_upper_bound(successes, trials, alpha)
            theirs = proportion_confint(successes, trials, alpha=2 * alpha, method="beta")
            assert (lower, upper) == pytest.approx(theirs, abs=1e-12)
            if successes:
                ppf = scipy.stats.beta.ppf(alpha, successes, trials - successes + 1)
                assert lower == pytest.approx(ppf, abs=1e-12)
            assert lower == pytest.approx(dcp.stats.binomial_lower_bound(successes, trials, alpha), abs=1e-12)
            assert upper == pytest.approx(dcp.stats.binomial_upper_bound(successes, trials, alpha), abs=1e-12)


def test_intervals_against_the_reference() -> None:
    rng = random.Random(5)
    theirs = {
        "finite_set_exact": lambda v, c: dcp.stats.paired_ci(v, c, method="finite_set_exact"),
        "bounded_empirical_bernstein": dcp.stats.bounded_empirical_bernstein_interval,
        "paired_binary_exact": dcp.stats.paired_binary_interval,
    }
    for _ in range(400):
        n = rng.choice([1, 2, 3, 20, 300])
        coverage = rng.choice([0.9, 0.99, 0.995, 1 - 0.005 / 162])
        for method, reference in theirs.items():
            values = [
                float(rng.choice([-1, 0, 1])) if method == "paired_binary_exact" else rng.uniform(-1, 1)
                for _ in range(n)
            ]
            ours, expected = interval(method, values, coverage), reference(values, coverage)
            assert (ours.lower, ours.upper) == pytest.approx((expected.lcb, expected.ucb), abs=1e-12)
            assert ours.mean == pytest.approx(expected.mean, abs=1e-12)


@pytest.mark.parametrize("method", ["finite_set_exact", "bounded_empirical_bernstein", "paired_binary_exact"])
@pytest.mark.parametrize("values", [[], [math.nan, 0.0], [math.inf, 0.0], [1e308, 1e308]])
def test_data_without_meaning_bound_nothing(method: str, values: list[float]) -> None:
    found = interval(method, values, 0.95)
    assert (found.lower, found.upper, found.bounded) == (-math.inf, math.inf, False)


@pytest.mark.parametrize("values", [[0.5], [0.5, 1.5], [0.5, -1.1]])
def test_bernstein_needs_two_values_in_range(values: list[float]) -> None:
    assert not empirical_bernstein(values, 0.95).bounded


def test_binary_interval_refuses_fractions() -> None:
    assert not paired_binary_exact([0.5, 1.0], 0.95).bounded


def test_bernstein_covers() -> None:
    """A rough check of the formula's direction: the true mean lies inside in at least the stated share."""
    rng = random.Random(1)
    inside = 0
    for _ in range(300):
        values = [rng.uniform(-0.5, 0.7) for _ in range(100)]
        found = empirical_bernstein(values, 0.9)
        inside += found.lower <= 0.1 <= found.upper
    assert inside >= 270


def test_mean_is_exactly_rounded() -> None:
    assert finite_set_exact([0.95] * 20, 0.99).mean == 0.95  # plain summation gives 0.9499999999999996
    assert finite_set_exact([0.1] * 10, 0.99).mean == 0.1


@pytest.mark.parametrize("coverage", [0.0, 1.0, -0.1, 1.1, math.nan])
def test_impossible_coverage_is_refused(coverage: float) -> None:
    for method in ("bounded_empirical_bernstein", "paired_binary_exact"):
        with pytest.raises(ValueError, match="coverage"):
            interval(method, [0.0, 1.0], coverage)


@pytest.mark.parametrize(("successes", "trials"), [(1, 0), (-1, 5), (6, 5)])
def test_impossible_counts_are_refused(successes: int, trials: int) -> None:
    with pytest.raises(ValueError, match="is not a count"):
        success_lower_bound(successes, trials, 0.05)


def test_closed_forms_load_neither_numpy_nor_scipy() -> None:
    """A replay of an audit without hits has to start fast."""
    program = (
        "import sys\n"
        "from dcpflow.protocol.intervals import *\n"
        "zero_hit_upper_bound(96, .01), success_lower_bound(45, 45, .005), success_lower_bound(0, 5, .05)\n"
        "paired_binary_exact([1.0] * 30, .99), paired_binary_exact([0.0] * 60, .99)\n"
        "finite_set_exact([.5], .99), empirical_bernstein([.5, .2], .99)\n"
        "sys.exit(bool({'numpy', 'scipy'} & set(sys.modules)))\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
