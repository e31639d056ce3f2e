"""The confidence sequence by betting: its closed form, and that it holds at all looks together."""

from __future__ import annotations

import random
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcpflow.protocol.betting import betting_interval
from dcpflow.protocol.intervals import success_lower_bound

DIFFERENCES = st.lists(st.sampled_from([-1.0, -0.25, 0.0, 0.5, 1.0]), min_size=1, max_size=40)
BETS = st.floats(0.05, 0.95)


@pytest.mark.parametrize(("n", "bet"), [(1, 0.5), (21, 0.9), (200, 0.75)])
def test_the_lower_end_of_equal_values_has_a_closed_form(n: int, bet: float) -> None:
    """(1 - b + b / m)^n = 2 / alpha, solved for m."""
    m = bet / ((2 / 0.01) ** (1 / n) - 1 + bet)
    found = betting_interval([1.0] * n, 0.99, bet)
    assert found.lower == pytest.approx(2 * m - 1, abs=1e-12)
    assert (found.mean, found.n) == (1.0, n)
    assert found.upper == pytest.approx(1.0)


@settings(max_examples=60, deadline=None)
@given(DIFFERENCES, BETS, st.randoms(use_true_random=False))
def test_order_is_nothing_sides_are_alike_and_less_error_is_wider(
    values: list[float], bet: float, shuffling: random.Random
) -> None:
    found = betting_interval(values, 0.95, bet)
    assert -1 <= found.lower <= found.upper <= 1
    shuffled = shuffling.sample(values, len(values))
    assert betting_interval(shuffled, 0.95, bet) == found
    turned = betting_interval([-value for value in values], 0.95, bet)
    assert (turned.lower, turned.upper) == pytest.approx((-found.upper, -found.lower), abs=1e-12)
    wider = betting_interval(values, 0.99, bet)
    assert wider.lower <= found.lower and found.upper <= wider.upper
    more = betting_interval([*values, 1.0], 0.95, bet)
    assert more.lower >= found.lower


@pytest.mark.parametrize("bet", [0.5, 0.9])
@pytest.mark.parametrize("chances", [(0.05, 0.45, 0.5), (0.0, 0.5, 0.5), (0.3, 0.4, 0.3)])
def test_the_mean_is_in_it_at_every_look_of_nearly_all_experiments(
    bet: float, chances: tuple[float, float, float]
) -> None:
    """After every third of 60 pairs: whoever stops at the worst moment is wrong in at most alpha of the experiments."""
    alpha, experiments, draws = 0.1, 1_500, random.Random(7)
    mean = chances[2] - chances[0]

    @cache
    def misses(minus: int, plus: int, n: int) -> bool:
        values = [-1.0] * minus + [1.0] * plus + [0.0] * (n - minus - plus)
        found = betting_interval(values, 1 - alpha, bet)
        return not found.lower <= mean <= found.upper

    wrong = 0
    for _ in range(experiments):
        values = draws.choices((-1, 0, 1), chances, k=60)
        wrong += any(misses(values[:n].count(-1), values[:n].count(1), n) for n in range(3, 61, 3))
    assert success_lower_bound(wrong, experiments, 1e-4) <= alpha


def test_what_is_no_sequence_of_differences_bounds_nothing() -> None:
    for values in ([], [1.5], [float("nan")]):
        assert not betting_interval(values, 0.95, 0.5).bounded
    for coverage, bet in ((1.0, 0.5), (0.95, 1.0), (0.95, 0.0)):
        with pytest.raises(ValueError, match="must lie in"):
            betting_interval([1.0], coverage, bet)
