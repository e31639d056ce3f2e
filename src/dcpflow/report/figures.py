"""Figures as shapes: where each stands, in percent of the figure's width, and in pixels of its height.

Widths are percentages, so that a figure fills a phone as well as a sheet while its letters keep their size; the
template gives shapes their markup, the style sheet their colours. No measured value is changed: only placed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from dcpflow.report.axes import LEFT, RIGHT, Axis, rounded

BINS: Final = 48
APART: Final = 2
"""A bar's count is written above it where no other bar stands within this many bins."""
MARK_HEIGHT: Final = 18
ROW_HEIGHT: Final = 92
BAR_HEIGHT: Final = 44
PLOT_HEIGHT: Final = 130
MARGIN: Final = 14.0
"""Percent left of the first experiment, where the lowest and the highest value are written."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A value that a line is drawn at, from top to bottom.

    Attributes:
        at: where, in percent.
        kind: what the style sheet calls it.
        label: its name and value.
        anchor: on which side of the line the label stands.
        y: of the label.
    """

    at: float
    kind: str
    label: str
    anchor: str
    y: int


@dataclass(frozen=True, slots=True)
class Bar:
    """Scores that lie close together.

    Attributes:
        at: left end, in percent.
        width: in percent.
        height: in pixels, of at most ``BAR_HEIGHT``.
        reaches: whether they reach the recovery line.
        label: count, written above the bar; empty where there is no room.
        text: the same in words.
    """

    at: float
    width: float
    height: float
    reaches: bool
    label: str
    text: str


@dataclass(frozen=True, slots=True)
class Strip:
    """The scores of one arm.

    Attributes:
        label: what the arm is, and how many of it reach the recovery line.
        kind: what the style sheet calls it.
        bars: from low to high scores.
        y: of the strip's top.
    """

    label: str
    kind: str
    bars: Sequence[Bar]
    y: int


@dataclass(frozen=True, slots=True)
class Strips:
    """Scores of several arms on one axis.

    Attributes:
        marks: lines across all arms.
        strips: one for each arm.
        ticks: of the axis: where, and label.
        top: of the first strip.
        height: of the figure.
    """

    marks: Sequence[Mark]
    strips: Sequence[Strip]
    ticks: Sequence[tuple[float, str]]
    top: int
    height: int


@dataclass(frozen=True, slots=True)
class Span:
    """An interval.

    Attributes:
        label: what it is of.
        start: left end, in percent.
        end: right end, in percent.
        middle: its mean, in percent; None where it has none.
        kind: what the style sheet calls it.
        y: of its line.
    """

    label: str
    start: float
    end: float
    middle: float | None
    kind: str
    y: int


@dataclass(frozen=True, slots=True)
class Spans:
    """Intervals on one axis.

    Attributes:
        marks: lines across all intervals.
        spans: the intervals.
        ticks: of the axis: where, and label.
        top: of the first interval.
        height: of the figure.
    """

    drawn_by: ClassVar = "spans"

    marks: Sequence[Mark]
    spans: Sequence[Span]
    ticks: Sequence[tuple[float, str]]
    top: int
    height: int


@dataclass(frozen=True, slots=True)
class Path:
    """One number told after each experiment.

    Attributes:
        points: where each stands: percent, pixels, whether what was tried is the claimed artifact, and its text.
        low: label of the lowest value.
        high: label of the highest value.
        ticks: of the axis: where, and number of the experiment.
        height: of the figure.
    """

    points: Sequence[tuple[float, float, bool, str]]
    low: str
    high: str
    ticks: Sequence[tuple[float, str]]
    height: int


def strips(
    arms: Sequence[tuple[str, str, Sequence[float]]], marks: Sequence[tuple[str, str, float | None]], line: float
) -> Strips:
    """Scores of arms as bars that never straddle the recovery line.

    Args:
        arms: label, kind and scores of each.
        marks: kind, label and value of each line across.
        line: the recovery line.
    """
    values = [value for _, _, scores in arms for value in scores]
    axis = Axis.around([*values, *(value for _, _, value in marks if value is not None)])
    width = (axis.high - axis.low) / BINS
    top = len(marks) * MARK_HEIGHT + 6
    rows = [
        Strip(label, kind, _bars(scores, axis, width, line), top + number * ROW_HEIGHT)
        for number, (label, kind, scores) in enumerate(arms)
    ]
    return Strips(marks_on(marks, axis), rows, axis.ticks(), top, top + len(rows) * ROW_HEIGHT + 22)


def spans(
    rows: Sequence[tuple[str, str, float | None, float | None, float | None]],
    marks: Sequence[tuple[str, str, float | None]],
    within: Sequence[float],
) -> Spans:
    """Intervals below each other.

    Args:
        rows: label, kind, lower end, mean and upper end; those without both ends are left out.
        marks: kind, label and value of each line across.
        within: values that the axis shows in any case.
    """
    known = [(label, kind, low, mean, high) for label, kind, low, mean, high in rows if low is not None]
    ends = [value for _, _, low, _, high in known for value in (low, high) if value is not None]
    axis = Axis.around([*ends, *within, *(value for _, _, value in marks if value is not None)])
    top = len(marks) * MARK_HEIGHT + 6
    placed = [
        Span(
            label=label,
            start=axis.at(low),
            end=axis.at(high),
            middle=axis.at(mean) if mean is not None else None,
            kind=kind,
            y=top + 34 + number * 46,
        )
        for number, (label, kind, low, mean, high) in enumerate(known)
        if high is not None
    ]
    return Spans(marks_on(marks, axis), placed, axis.ticks(), top, top + len(placed) * 46 + 30)


def path(values: Sequence[tuple[float, bool]], name: str) -> Path:
    """What the channel told after each experiment.

    Args:
        values: the number, and whether what was tried is the claimed artifact.
        name: of the number.
    """
    low, high = min(value for value, _ in values), max(value for value, _ in values)
    span = (high - low) or 1.0
    across = (RIGHT - LEFT - MARGIN) / max(1, len(values) - 1)
    points = [
        (
            rounded(LEFT + MARGIN + number * across),
            rounded(30 + PLOT_HEIGHT * (high - value) / span),
            claimed,
            f"experiment {number + 1} of {len(values)}: {name} {value:g}" + (", the claimed artifact" * claimed),
        )
        for number, (value, claimed) in enumerate(values)
    ]
    step = max(1, math.ceil(len(values) / 8))
    ticks = [(points[number][0], str(number + 1)) for number in range(0, len(values), step)]
    return Path(points, f"{low:g}", f"{high:g}", ticks, PLOT_HEIGHT + 66)


def marks_on(marks: Sequence[tuple[str, str, float | None]], axis: Axis) -> list[Mark]:
    """Lines across a figure, their labels below each other; one without a value is left out."""
    placed = []
    for number, (kind, label, value) in enumerate(marks):
        if value is not None:
            at = axis.at(value)
            placed.append(Mark(at, kind, label, "start" if at < 50 else "end", 13 + number * MARK_HEIGHT))
    return placed


def _bars(scores: Sequence[float], axis: Axis, width: float, line: float) -> list[Bar]:
    bins: dict[int, list[float]] = {}
    for score in sorted(scores):
        number = math.floor((score - line) / width)
        # on which side of the line a score lies is never left to rounding
        number = max(number, 0) if score >= line else min(number, -1)
        bins.setdefault(number, []).append(score)
    most = max((len(found) for found in bins.values()), default=1)
    # one of several that are as high: two counts side by side would be read as one number
    highest = next((number for number, found in bins.items() if len(found) == most), None)
    bars = []
    for number, found in bins.items():
        alone = not any(number + step in bins for step in range(-APART, APART + 1) if step)
        reaches = found[0] >= line
        ends = f"{found[0]:.4f}" if found[0] == found[-1] else f"{found[0]:.4f} to {found[-1]:.4f}"
        bars.append(
            Bar(
                at=axis.at(line + number * width),
                width=rounded((RIGHT - LEFT) / BINS),
                height=rounded(BAR_HEIGHT * len(found) / most),
                reaches=reaches,
                label=str(len(found)) if alone or number == highest else "",
                text=f"{len(found)} of {len(scores)}: {ends}" + (", reaching the recovery line" * reaches),
            )
        )
    return bars
