"""A confidence sequence for the mean of paired differences: its interval holds at all looks together.

Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting", Journal of the Royal Statistical
Society B 86 (2024), the hedged capital process with a constant bet. A difference D is mapped to ``X = (D + 1) / 2`` in
[0, 1]. If the mean of X given all that went before is m, whoever puts the share ``b`` of his capital on ``X / m`` at
each step has the capital ``prod(1 - b + b X / m)``, a martingale that is never negative; so has whoever puts it on
``(1 - X) / (1 - m)``. Each starts with one half, so that by Ville's inequality the chance that either ever reaches
``1 / alpha`` is at most alpha, at whichever look. The interval holds the means at which neither has. Each capital is
monotone in m, so that this is an interval, and depends on how often each value occurred, not on their order.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from dcpflow.protocol.intervals import Interval, mean, unbounded

HALVINGS: Final = 60
"""Of the unit interval, in the search for an end: below the spacing of floating-point numbers there."""


def betting_interval(values: Sequence[float], coverage: float, bet: float) -> Interval:
    """The confidence sequence's interval after these values.

    Args:
        values: Differences in [-1, 1], as many as have been looked at.
        coverage: Of all looks together, in (0, 1).
        bet: The share of the capital that is put at stake on each value, in (0, 1).

    Returns:
        The interval; unbounded for no values and for values out of range.

    Raises:
        ValueError: For a coverage or a bet outside (0, 1).
    """
    for name, value in (("coverage", coverage), ("bet", bet)):
        if not 0.0 < value < 1.0:
            raise ValueError(f"{name} must lie in (0, 1), not {value!r}")
    n, centre = len(values), mean(values)
    if n < 1 or not math.isfinite(centre) or any(abs(value) > 1 for value in values):
        return unbounded(n, centre)
    needed = math.log(2.0 / (1.0 - coverage))
    counts = Counter((value + 1.0) / 2.0 for value in values)
    turned = {1.0 - value: count for value, count in counts.items()}
    return Interval(centre, 2.0 * _lower(counts, needed, bet) - 1.0, 1.0 - 2.0 * _lower(turned, needed, bet), n)


def _lower(counts: Mapping[float, int], needed: float, bet: float) -> float:
    """The largest mean, rounded down, at which the capital of a bet on larger values has grown enough."""
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        if _growth(counts, middle, bet) >= needed:
            low = middle
        else:
            high = middle
    return low


def _growth(counts: Mapping[float, int], m: float, bet: float) -> float:
    """Logarithm of the capital, which starts at 1, against the mean ``m`` above 0."""
    return math.fsum(count * math.log(1.0 - bet + bet * x / m) for x, count in sorted(counts.items()))
