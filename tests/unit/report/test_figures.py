"""Figures place what they are given, and never put a score on the wrong side of the recovery line."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from dcpflow.report import figures

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
