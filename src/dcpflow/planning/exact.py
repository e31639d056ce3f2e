"""Sample sizes and powers from exact binomial sums; nothing here is simulated.

The tests that are planned for are those of :mod:`dcpflow.protocol.intervals`: a sample is large enough where the
registered bound or interval, as the decision will compute it, comes out as it must.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Final

from dcpflow.errors import UsageError
from dcpflow.protocol.intervals import success_lower_bound, success_upper_bound

MOST: Final = 10_000
"""Samples larger than this are not looked for."""


def fewest_successes(trials: int, alpha: float, rate: float) -> int | None:
    """The fewest successes of ``trials`` whose lower bound at ``alpha`` reaches ``rate``; None if not even all do."""
    if success_lower_bound(trials, trials, alpha) < rate:
        return None
    low, high = 0, trials
    while low < high:
        middle = (low + high) // 2
        if success_lower_bound(middle, trials, alpha) >= rate:
            high = middle
        else:
            low = middle + 1
    return low


def all_successes_needed(alpha: float, rate: float) -> int:
    """The least number of trials of which all succeed whose lower bound at ``alpha`` reaches ``rate`` (below 1)."""
    return smallest(lambda n: success_lower_bound(n, n, alpha) >= rate, "positive controls")


def chance_of_recall(trials: int, alpha: float, rate: float, truth: float) -> float:
    """The chance that the lower bound of ``trials`` controls reaches ``rate`` if each succeeds with ``truth``."""
    needed = fewest_successes(trials, alpha, rate)
    return 0.0 if needed is None else at_least(needed, trials, truth)


def controls_for(power: float, alpha: float, rate: float, truth: float) -> int:
    """The fewest controls that reach the recall bound with the chance ``power``."""
    return smallest(lambda n: chance_of_recall(n, alpha, rate, truth) >= power, "positive controls")


class PairedTest:
    """The exact interval of paired binary differences (I3) as a test on its two counts.

    Args:
        pairs: number of pairs.
        alpha: error of the interval.
    """

    def __init__(self, pairs: int, alpha: float) -> None:
        tail = alpha / 4
        self.pairs = pairs
        self._low = [success_lower_bound(k, pairs, tail) for k in range(pairs + 1)]
        self._high = [success_upper_bound(k, pairs, tail) for k in range(pairs + 1)]

    def lower(self, plus: int, minus: int) -> float:
        """The interval's lower end for so many differences of +1 and of -1."""
        return self._low[plus] - self._high[minus]

    def upper(self, plus: int, minus: int) -> float:
        """Its upper end."""
        return self._high[plus] - self._low[minus]

    def counts(self) -> Iterator[tuple[int, int]]:
        """Every possible pair of counts."""
        return ((plus, minus) for plus in range(self.pairs + 1) for minus in range(self.pairs + 1 - plus))

    def chance(self, plus: float, minus: float, passed: Callable[[float, float], bool]) -> float:
        """The chance that a test of the two ends is passed.

        Args:
            plus: rate of pairs with a difference of +1.
            minus: rate of pairs with a difference of -1.
            passed: whether the interval from the first to the second argument passes.
        """
        weights = (
            trinomial(self.pairs, k, m, plus, minus)
            for k, m in self.counts()
            if passed(self.lower(k, m), self.upper(k, m))
        )
        return min(1.0, math.fsum(weights))


def supports(delta_evidence: float, delta_null: float) -> Callable[[float, float], bool]:
    """Whether an effect's interval supports the claim (G3.19)."""
    return lambda lower, _: lower - delta_null >= delta_evidence


def opposes(delta_evidence: float, delta_null: float) -> Callable[[float, float], bool]:
    """Whether an effect's interval refutes the claim (G3.19)."""
    return lambda _, upper: upper + delta_null < delta_evidence


def within(delta_null: float) -> Callable[[float, float], bool]:
    """Whether a null interval lies within its band (G3.17)."""
    return lambda lower, upper: -delta_null <= lower and upper <= delta_null


def discordant(first: float, second: float) -> tuple[float, float]:
    """Rates of +1 and -1 in pairs whose two branches succeed independently with these rates."""
    return first * (1.0 - second), second * (1.0 - first)


def fewest_truthful(pairs: int, alpha: float, delta_evidence: float, delta_null: float) -> int | None:
    """Of ``pairs``, the fewest truthful branches that have to recover where no neutral one does; None if all do not
    suffice."""
    test, passed = PairedTest(pairs, alpha), supports(delta_evidence, delta_null)
    return next((k for k in range(pairs + 1) if passed(test.lower(k, 0), test.upper(k, 0))), None)


def pairs_for(power: float, alpha: float, rates: tuple[float, float], passed: Callable[[float, float], bool]) -> int:
    """The fewest pairs that pass a test of their interval with the chance ``power``.

    Args:
        power: the chance.
        alpha: error of the interval.
        rates: of the differences +1 and -1.
        passed: the test.

    Raises:
        UsageError: No number of pairs that can be run does.
    """
    # with so many pairs the interval is as narrow as it gets, around the rates themselves
    bounds = [
        (success_lower_bound(k, MOST, alpha / 4), success_upper_bound(k, MOST, alpha / 4)) for k in _of_most(rates)
    ]
    if not passed(bounds[0][0] - bounds[1][1], bounds[0][1] - bounds[1][0]):
        raise UsageError(
            f"no number of pairs up to {MOST} passes the margins at rates {rates[0]:.4g} and {rates[1]:.4g} of a "
            "difference",
            "Register other margins, or expect other rates",
        )

    def reached(n: int) -> bool:
        return PairedTest(n, alpha).chance(*rates, passed) >= power

    return smallest(reached, "pairs", coarse=True)


def _of_most(rates: tuple[float, float]) -> tuple[int, int]:
    return round(MOST * rates[0]), round(MOST * rates[1])


def at_least(successes: int, trials: int, rate: float) -> float:
    """The chance of at least so many successes in so many trials."""
    if successes <= 0:
        return 1.0
    if successes > trials:
        return 0.0
    from scipy.special import betainc  # type: ignore[import-untyped]  # noqa: PLC0415  (0.3 s to import)

    return float(betainc(successes, trials - successes + 1, rate))


def binomial(successes: int, trials: int, rate: float) -> float:
    """The chance of exactly so many successes."""
    return trinomial(trials, successes, 0, rate, 0.0)


def trinomial(trials: int, first: int, second: int, p: float, q: float) -> float:
    """The chance of ``first`` events of rate ``p`` and ``second`` events of rate ``q`` in so many trials."""
    rest = trials - first - second
    logarithm = math.lgamma(trials + 1) - math.lgamma(first + 1) - math.lgamma(second + 1) - math.lgamma(rest + 1)
    for count, rate in ((first, p), (second, q), (rest, max(0.0, 1.0 - p - q))):
        if count and rate <= 0.0:
            return 0.0
        logarithm += count * math.log(rate) if count else 0.0
    return math.exp(logarithm)


def smallest(reached: Callable[[int], bool], what: str, *, start: int = 1, coarse: bool = False) -> int:
    """The least number for which something holds.

    Args:
        reached: the condition. Bounds jump with whole counts, so that it may fail again behind its first success.
        what: is counted, for the error.
        start: the first number that is tried.
        coarse: skip ahead by a tenth where a test costs much, and look closer at what was skipped last; an earlier
            success that stands alone may be passed over.

    Raises:
        UsageError: It holds for none.
    """
    last, n = start - 1, start
    while not reached(n):
        last, n = n, n + (max(1, n // 10) if coarse else 1)
        if n > MOST:
            raise UsageError(f"more than {MOST} {what} would be needed", "Expect other rates, or register other limits")
    return next(k for k in range(last + 1, n + 1) if reached(k))
