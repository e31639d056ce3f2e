"""Functions as shapes: a status that changes from step to step, and a chance that is computed at some points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from dcpflow.report.axes import Axis, rounded
from dcpflow.report.figures import MARK_HEIGHT, PLOT_HEIGHT, Mark, marks_on

STEPS_LEFT: Final = 24.0
"""Percent left of the steps, where the name of each level is written, on a phone too."""
CURVE_LEFT: Final = 9.0
LEVEL_HEIGHT: Final = 22
FOOT: Final = 24
"""Pixels below the lowest shape, for the axis and its labels."""


@dataclass(frozen=True, slots=True)
class Step:
    """A range over which a function has one value.

    Attributes:
        start: left end, in percent.
        end: right end, in percent.
        y: of its line.
        kind: what the style sheet calls its value.
        text: the same in words.
    """

    start: float
    end: float
    y: int
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Steps:
    """Functions that take one of a few values, below each other on one axis.

    Attributes:
        marks: lines across all functions.
        names: of the functions: text and where it stands.
        levels: values that a function takes: text and where it stands.
        steps: of all functions, from left to right.
        ticks: of the axis: where, and label.
        left: where the axis begins, in percent.
        height: of the figure.
    """

    drawn_by: ClassVar = "steps"

    marks: Sequence[Mark]
    names: Sequence[tuple[str, int]]
    levels: Sequence[tuple[str, int]]
    steps: Sequence[Step]
    ticks: Sequence[tuple[float, str]]
    left: float
    height: int


@dataclass(frozen=True, slots=True)
class Curve:
    """A chance along an axis.

    Attributes:
        marks: lines from top to bottom.
        points: where each stands: percent, pixels, and its text.
        scale: chances that are written at the left: text and where it stands.
        ticks: of the axis: where, and label.
        left: where the axis begins, in percent.
        height: of the figure.
    """

    drawn_by: ClassVar = "curve"

    marks: Sequence[Mark]
    points: Sequence[tuple[float, float, str]]
    scale: Sequence[tuple[str, int]]
    ticks: Sequence[tuple[float, str]]
    left: float
    height: int


def steps(
    functions: Sequence[tuple[str, Sequence[tuple[float, float, str, str]]]],
    order: Sequence[str],
    marks: Sequence[tuple[str, str, float | None]],
    axis: Axis,
) -> Steps:
    """Functions as steps; a level that a function never takes is left out.

    Args:
        functions: name of each, and its pieces: both ends, value, and the piece in words.
        order: the values, from top to bottom.
        marks: kind, label and value of each line across.
        axis: from end to end of what is shown, beginning at ``STEPS_LEFT``.
    """
    y = len(marks) * MARK_HEIGHT + 6
    names, levels, placed = [], [], []
    for name, pieces in functions:
        names.append((name, y + 14))
        y += LEVEL_HEIGHT
        taken = [value for value in order if any(piece[2] == value for piece in pieces)]
        heights = {value: y + place * LEVEL_HEIGHT + LEVEL_HEIGHT // 2 for place, value in enumerate(taken)}
        levels += [(value.replace("_", " "), height) for value, height in heights.items()]
        placed += [
            Step(axis.at(low), axis.at(high), heights[value], value, f"{name} {words}")
            for low, high, value, words in pieces
        ]
        y += len(taken) * LEVEL_HEIGHT
    return Steps(marks_on(marks, axis), names, levels, placed, axis.ticks(), axis.left, y + FOOT)


def curve(
    points: Sequence[tuple[float, float, str]], marks: Sequence[tuple[str, str, float | None]], axis: Axis
) -> Curve:
    """A chance from 0 to 1 as points, which the template joins.

    Args:
        points: value on the axis, chance there, and both in words; from left to right.
        marks: kind, label and value of each line across.
        axis: from end to end of what is shown, beginning at ``CURVE_LEFT``.
    """
    top = len(marks) * MARK_HEIGHT + 12
    placed = [(axis.at(value), rounded(top + PLOT_HEIGHT * (1.0 - chance)), words) for value, chance, words in points]
    scale = [(f"{share:g}", round(top + PLOT_HEIGHT * (1.0 - share))) for share in (0.0, 0.5, 1.0)]
    return Curve(marks_on(marks, axis), placed, scale, axis.ticks(), axis.left, top + PLOT_HEIGHT + FOOT)
