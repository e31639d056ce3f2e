"""Figures place what they are given, and never put a score on the wrong side of the recovery line."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from dcpflow.report import curves, figures
from dcpflow.report.axes import Axis

SCORES = st.lists(st.floats(-1e6, 1e6), max_size=60)


@given(SCORES, st.floats(-1e6, 1e6))
def test_every_score_is_in_one_bar_on_its_own_side_of_the_line(scores: list[float], line: float) -> None:
    found = figures.strips([("arm", "withheld", scores)], [("line", "line", line)], line)
    (strip,), (mark,) = found.strips, found.marks
    counted = dict.fromkeys((True, False), 0)
    for bar in strip.bars:
        words = re.match(r"(\d+) of (\d+): ", bar.text)
        assert words and int(words[2]) == len(scores)
        counted[bar.reaches] += int(words[1])
        assert bar.at >= 0 and bar.at + bar.width <= 100 and 0 < bar.height <= figures.BAR_HEIGHT
        if bar.reaches:
            assert bar.at >= mark.at - 0.002
        else:
            assert bar.at + bar.width <= mark.at + 0.002
    assert counted == {True: sum(s >= line for s in scores), False: sum(s < line for s in scores)}


@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.booleans()), min_size=1, max_size=40))
def test_a_path_has_a_point_for_each_experiment_within_the_figure(values: list[tuple[float, bool]]) -> None:
    found = figures.path(values, "score")
    assert [claimed for _, _, claimed, _ in found.points] == [claimed for _, claimed in values]
    assert all(0 <= at <= 100 and 0 <= y <= found.height for at, y, _, _ in found.points)
    heights = sorted((value, -y) for (value, _), (_, y, _, _) in zip(values, found.points, strict=True))
    assert [y for _, y in heights] == sorted(y for _, y in heights)


def test_an_interval_that_could_not_be_computed_is_left_out() -> None:
    found = figures.spans(
        [("known", "effect", 0.1, 0.2, 0.3), ("unknown", "null", None, None, None)], [("line", "line", 0.25)], (0.0,)
    )
    (span,) = found.spans
    assert span.label == "known" and span.start < span.end
    assert span.start < found.marks[0].at < span.end


@given(st.floats(-1e3, 1e3), st.floats(1e-6, 1e3))
def test_ticks_are_few_and_in_order(low: float, length: float) -> None:
    found = figures.spans([("row", "effect", low, None, low + length)], [], ())
    places = [at for at, _ in found.ticks]
    assert 2 <= len(places) <= 13 and places == sorted(places)


def test_counts_of_neighbouring_bars_are_not_read_as_one_number() -> None:
    found = figures.strips([("arm", "withheld", [0.50, 0.53])], [("line", "line", 0.9), ("base", "base", 0.0)], 0.9)
    assert [bar.label for bar in found.strips[0].bars] == ["1", ""]


@given(st.floats(-9, -2), st.floats(0.5, 6))
def test_a_logarithmic_axis_puts_equal_ratios_equally_far_apart(power: float, decades: float) -> None:
    axis = Axis(10**power, 10 ** (power + decades), logarithmic=True)
    middle = axis.at(10 ** (power + decades / 2))
    assert abs(middle - (axis.at(axis.low) + axis.at(axis.high)) / 2) < 0.01
    assert axis.at(0.0) == axis.at(axis.low)
    places = [at for at, _ in axis.ticks()]
    assert places == sorted(places) and len(places) <= 7
    assert all(axis.at(axis.low) - 0.01 <= at <= axis.at(axis.high) + 0.01 for at in places)
    assert all(abs(axis.at(float(label)) - at) < 0.01 for at, label in axis.ticks())


@given(st.lists(st.floats(0.01, 0.99), min_size=1, max_size=8, unique=True), st.floats(0, 1))
def test_steps_stand_where_a_status_holds_and_each_status_at_a_height_of_its_own(
    flips: list[float], registered: float
) -> None:
    ends = [0.0, *sorted(flips), 1.0]
    statuses = ["certified", "refuted"] * len(ends)
    pieces = [(low, high, status, status) for low, high, status in zip(ends, ends[1:], statuses, strict=False)]
    axis = Axis(0.0, 1.0, curves.STEPS_LEFT)
    found = curves.steps([("Core", pieces)], ("certified", "inconclusive", "refuted"), [("m", "m", registered)], axis)
    assert [level for level, _ in found.levels] == ["certified", "refuted"]
    heights = dict(found.levels)
    assert all(step.y == heights[step.kind] < found.height for step in found.steps)
    assert all(left.end == right.start for left, right in zip(found.steps, found.steps[1:], strict=False))
    # two flips may fall on one place of the page
    here, piece = next(
        (step, piece) for step, piece in zip(found.steps, pieces, strict=True) if piece[0] <= registered <= piece[1]
    )
    assert (here.start, here.end, here.kind) == (axis.at(piece[0]), axis.at(piece[1]), piece[2])
    assert here.start <= found.marks[0].at <= here.end


@given(st.lists(st.tuples(st.floats(0.001, 1), st.floats(0, 1)), min_size=1, max_size=9))
def test_a_chance_is_drawn_as_high_as_it_is(points: list[tuple[float, float]]) -> None:
    given_points = [(value, chance, "") for value, chance in sorted(points)]
    found = curves.curve(given_points, [], Axis(0.001, 1.0, curves.CURVE_LEFT, logarithmic=True))
    bottom, top = (dict(found.scale)[share] for share in ("0", "1"))
    for (_, chance, _), (at, y, _) in zip(given_points, found.points, strict=True):
        assert abs((bottom - y) / (bottom - top) - chance) < 0.01
        assert found.left <= at <= 95
