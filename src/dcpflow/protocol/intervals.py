"""Confidence intervals and bounds (rules I1 to I5).

All sums are exactly rounded (``math.fsum``), so that a decision does not depend on the Python version, the
order of the units or the machine. Where a bound has a closed form it is used; scipy.special is imported only
for the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import sub
from typing import Final

from dcpflow.protocol.registration import EMPIRICAL_BERNSTEIN, FINITE_SET_EXACT, PAIRED_BINARY_EXACT


@dataclass(frozen=True, slots=True)
class Interval:
    """A two-sided confidence interval for the mean of differences in [-1, 1].

    Attributes:
        mean: Point estimate; NaN where there is none.
        lower: Lower end; minus infinity where the data bound nothing.
        upper: Upper end; infinity where the data bound nothing.
        n: Number of differences.
    """

    mean: float
    lower: float
    upper: float
    n: int

    @property
    def bounded(self) -> bool:
        """Whether the data said anything."""
        return math.isfinite(self.lower) and math.isfinite(self.upper)

    @property
    def estimated(self) -> bool:
        """Whether there is a point estimate."""
        return math.isfinite(self.mean)


def unbounded(n: int = 0, mean: float = math.nan) -> Interval:
    """The interval of data that bound nothing."""
    return Interval(mean, -math.inf, math.inf, n)


def mean(values: Sequence[float]) -> float:
    """The exactly rounded sum over the count; NaN for no values, and where the sum is not finite."""
    if not values or not all(map(math.isfinite, values)):
        return math.nan
    try:
        return math.fsum(values) / len(values)
    except OverflowError:
        return math.nan


def differences(left: Sequence[float], right: Sequence[float]) -> tuple[float, ...]:
    """Unit-paired ``left - right``; empty if the two are not aligned, so that nothing is bounded."""
    if len(left) != len(right):
        return ()
    return tuple(map(sub, left, right))


def within_unit_interval(values: Sequence[float]) -> bool:
    """Whether all are finite and in [0, 1], as every score has to be."""
    # no step of Python for each: there are hundreds of units to each of thousands of artifacts
    return all(map(math.isfinite, values)) and (not values or (min(values) >= 0 and max(values) <= 1))


def finite_set_exact(values: Sequence[float], coverage: float) -> Interval:
    """I1: the mean itself, of a set that is known completely. ``coverage`` is not used."""
    centre = mean(values)
    return Interval(centre, centre, centre, len(values)) if math.isfinite(centre) else unbounded(len(values))


def empirical_bernstein(values: Sequence[float], coverage: float) -> Interval:
    """I2: the empirical Bernstein interval for independent values in [-1, 1].

    With ``a = 1 - coverage``, ``L = ln(4 / a)`` and V the sample variance (``ddof`` 1), the half-width is
    ``sqrt(2 V L / n) + 14 L / (3 (n - 1))``: Maurer and Pontil (2009), Theorem 4, for a range of 2 and two
    sides. Clipped to [-1, 1]; unbounded for fewer than two values and for values out of range.
    """
    a = _error(coverage)
    n, centre = len(values), mean(values)
    if n < 2 or not math.isfinite(centre) or any(abs(v) > 1 for v in values):
        return unbounded(n, centre)
    half = half_width(n, math.fsum((v - centre) ** 2 for v in values) / (n - 1), a)
    return Interval(centre, max(-1.0, centre - half), min(1.0, centre + half), n)


def half_width(n: int, variance: float, alpha: float) -> float:
    """The half-width of the empirical Bernstein interval at error ``alpha``, before it is clipped.

    Args:
        n: Number of values, at least 2.
        variance: Their sample variance (``ddof`` 1).
        alpha: In (0, 1).
    """
    log_term = math.log(4.0 / alpha)
    return math.sqrt(2.0 * variance * log_term / n) + 14.0 * log_term / (3.0 * (n - 1))


def paired_binary_exact(values: Sequence[float], coverage: float) -> Interval:
    """I3: an exact interval for the mean of paired differences in {-1, 0, 1}.

    Clopper-Pearson bounds on the rate of +1 and on the rate of -1, each at a tail of ``(1 - coverage) / 4``,
    are combined by Bonferroni. Unbounded for no values and for any other value.
    """
    tail = _error(coverage) / 4.0
    n = len(values)
    if n < 1 or any(v not in (-1, 0, 1) for v in values):
        return unbounded(n)
    plus = sum(1 for v in values if v == 1)
    minus = sum(1 for v in values if v == -1)
    lower = success_lower_bound(plus, n, tail) - success_upper_bound(minus, n, tail)
    upper = success_upper_bound(plus, n, tail) - success_lower_bound(minus, n, tail)
    return Interval((plus - minus) / n, lower, upper, n)


METHODS: Final[dict[str, Callable[[Sequence[float], float], Interval]]] = {
    FINITE_SET_EXACT: finite_set_exact,
    EMPIRICAL_BERNSTEIN: empirical_bernstein,
    PAIRED_BINARY_EXACT: paired_binary_exact,
}


def interval(method: str, values: Sequence[float], coverage: float) -> Interval:
    """The interval of the registered method.

    Args:
        method: A key of :data:`METHODS`.
        values: Differences in [-1, 1].
        coverage: In (0, 1).

    Raises:
        KeyError: For another method (a registration with one is refused before, R4 and R13).
        ValueError: For a coverage outside (0, 1).
    """
    return METHODS[method](values, coverage)


def zero_hit_upper_bound(n: int, alpha: float) -> float:
    """I4: the upper bound at error ``alpha`` on a rate that showed no hit in ``n`` independent draws.

    ``1 - alpha ** (1 / n)``, the Clopper-Pearson bound for zero successes; 1 for ``n <= 0``.
    """
    _check_alpha(alpha)
    return 1.0 if n <= 0 else 1.0 - alpha ** (1.0 / n)


def success_lower_bound(successes: int, trials: int, alpha: float) -> float:
    """I5: one-sided Clopper-Pearson lower bound on a success rate at error ``alpha``; 0 for no success.

    Raises:
        ValueError: Unless ``0 <= successes <= trials``, ``trials >= 1`` and ``0 < alpha < 1``.
    """
    _check_count(successes, trials, alpha)
    if successes == 0:
        return 0.0
    if successes == trials:
        return float(alpha ** (1.0 / trials))
    return _beta_quantile(alpha, successes, trials - successes + 1)


def success_upper_bound(successes: int, trials: int, alpha: float) -> float:
    """One-sided Clopper-Pearson upper bound on a success rate at error ``alpha``; 1 for all successes.

    Raises:
        ValueError: As :func:`success_lower_bound`.
    """
    _check_count(successes, trials, alpha)
    if successes == trials:
        return 1.0
    if successes == 0:
        return zero_hit_upper_bound(trials, alpha)
    # The upper tail by symmetry, which keeps the precision that 1 - alpha would lose.
    return 1.0 - _beta_quantile(alpha, trials - successes, successes + 1)


def _beta_quantile(p: float, a: int, b: int) -> float:
    from scipy.special import betaincinv  # type: ignore[import-untyped]  # noqa: PLC0415  (0.3 s to import)

    return float(betaincinv(a, b, p))


def smallest_zero_hit_sample(alpha: float, rho: float) -> int:
    """The least number of draws without a hit whose bound at ``alpha`` is at most ``rho`` (in (0, 1))."""
    _check_alpha(alpha)
    n = max(1, math.floor(math.log(alpha) / math.log1p(-rho)) - 1)
    while zero_hit_upper_bound(n, alpha) > rho:  # the logarithms may be off by one in the last place
        n += 1
    return n


def _error(coverage: float) -> float:
    if not 0.0 < coverage < 1.0:
        raise ValueError(f"coverage must lie in (0, 1), not {coverage!r}")
    return 1.0 - coverage


def _check_alpha(alpha: float) -> None:
    if not 0.0 < alpha < 1.0:
        raise ValueError(f"alpha must lie in (0, 1), not {alpha!r}")


def _check_count(successes: int, trials: int, alpha: float) -> None:
    _check_alpha(alpha)
    if not (trials >= 1 and 0 <= successes <= trials):
        raise ValueError(f"{successes} successes in {trials} trials is not a count")
