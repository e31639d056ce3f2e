"""How a feedback experiment ends that looks at its effect in between, and after how many pairs: exact sums.

The interval by betting depends on how often each difference occurred, so that the chances of all counts can be followed
from look to look.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from dcpflow.protocol.feedback_effect import effect_interval, effect_side
from dcpflow.protocol.model import Effect
from dcpflow.protocol.registration import Registration

NEGLIGIBLE: Final = 1e-12
"""Counts with a chance below this are left out."""

Differences = tuple[int, int, int, int]
"""How many differences were +1, 0 and -1, and how many pairs were lost, which have none."""


@dataclass(frozen=True, slots=True)
class Ended:
    """What becomes of the pairs.

    Attributes:
        expected: number of pairs that are started.
        supported: chance that the interval ends above the margin.
        opposed: chance that it ends below.
    """

    expected: float
    supported: float
    opposed: float


def ended(reg: Registration, plus: float, minus: float, loss: float) -> Ended:
    """The end of an experiment with the binary estimand.

    Args:
        reg: what is registered, looks among it.
        plus: rate of pairs with a difference of +1, among those that are not lost.
        minus: rate of pairs with a difference of -1.
        loss: rate of lost pairs.
    """
    rates = {
        (1, 0, 0, 0): plus * (1.0 - loss),
        (0, 1, 0, 0): (1.0 - plus - minus) * (1.0 - loss),
        (0, 0, 1, 0): minus * (1.0 - loss),
        (0, 0, 0, 1): loss,
    }
    going: dict[Differences, float] = {(0, 0, 0, 0): 1.0}
    expected, sides = 0.0, dict.fromkeys(Effect, 0.0)
    for first, last in pairwise((0, *reg.feedback_looks)):
        expected += (last - first) * math.fsum(going.values())
        for _ in range(last - first):
            going = _one_more(going, rates)
        for counts in list(going):
            side = _side(reg, counts)
            if side is not Effect.INCONCLUSIVE:
                sides[side] += going.pop(counts)
    return Ended(expected, sides[Effect.SUPPORTED], sides[Effect.NOT_SUPPORTED])


def _one_more(going: dict[Differences, float], rates: dict[Differences, float]) -> dict[Differences, float]:
    found: defaultdict[Differences, float] = defaultdict(float)
    for (plus, same, minus, lost), chance in going.items():
        for (more, equal, less, gone), rate in rates.items():
            if chance * rate > NEGLIGIBLE:
                found[plus + more, same + equal, minus + less, lost + gone] += chance * rate
    return dict(found)


def _side(reg: Registration, counts: Differences) -> Effect:
    plus, same, minus, lost = counts
    return effect_side(reg, effect_interval(reg, [1.0] * plus + [0.0] * same + [-1.0] * minus, lost))
