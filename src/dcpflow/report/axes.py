"""Axes of figures: where a value stands, in percent of the figure's width."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

LEFT, RIGHT = 3.0, 95.0
"""Ends of the axis; a bar that begins at its right end still lies within the figure."""
TICKS: Final = 5


@dataclass(frozen=True, slots=True)
class Axis:
    """A range of values, placed from left to right.

    Attributes:
        low: value at its left end.
        high: value at its right end.
        left: where its left end stands, in percent.
        logarithmic: whether equal ratios are equally far apart; ``low`` is above 0 then.
    """

    low: float
    high: float
    left: float = LEFT
    logarithmic: bool = False

    @classmethod
    def around(cls, values: Sequence[float]) -> Axis:
        """An axis that shows all values, with ends that are easy to read."""
        low, high = (min(values), max(values)) if values else (0.0, 1.0)
        step = _step((high - low) or 1.0)
        return cls(math.floor(low / step) * step, math.ceil(high / step) * step if high > low else low + step)

    def at(self, value: float) -> float:
        """The place of a value, in percent; on a logarithmic axis, what lies below it stands at its left end."""
        if self.logarithmic:
            share = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return rounded(self.left + (RIGHT - self.left) * share)

    def ticks(self) -> list[tuple[float, str]]:
        """Places and labels of round values."""
        if self.logarithmic:
            # a power of ten that is the end itself must not be lost to rounding
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            apart = max(1, math.ceil((last - first) / TICKS))
            return [(self.at(10.0**power), f"{10.0**power:.6g}") for power in range(last, first - 1, -apart)][::-1]
        step = _step(self.high - self.low)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [(self.at(number * step), f"{number * step:.6g}") for number in range(first, last + 1)]


def _step(span: float) -> float:
    """A round distance between ticks, of which about TICKS fit."""
    magnitude = 10.0 ** math.floor(math.log10(span / TICKS))
    return next(factor * magnitude for factor in (1.0, 2.0, 2.5, 5.0, 10.0) if span / (factor * magnitude) <= TICKS)


def rounded(value: float) -> float:
    """A place with as many digits as a page needs."""
    return round(value, 3)
