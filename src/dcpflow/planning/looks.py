"""How many challengers an audit starts that looks at their scores in between: exact sums."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise


def scaled(ends: Sequence[int], challengers: int) -> tuple[int, ...]:
    """Looks at the same shares of another number of challengers; those that fall together are one.

    Args:
        ends: after how many challengers the scores are looked at, rising.
        challengers: the number at the last look, at least 1.
    """
    return tuple(sorted({-(-end * challengers // ends[-1]) for end in ends}))


def expected(ends: Sequence[int], recovery: float) -> float:
    """The expected number of challengers that are started.

    A look is started if none before it had a recovery, which has a chance of ``(1 - recovery) ** n`` after ``n``
    challengers. (One that is not decided counts as none: it ends nothing.)

    Args:
        ends: after how many challengers the scores are looked at, rising.
        recovery: the chance that one challenger recovers the outcome, losses taken into account.
    """
    return math.fsum((last - first) * (1.0 - recovery) ** first for first, last in pairwise((0, *ends)))
