"""The curves of a decision as a page: statuses as functions of each threshold, drawn to scale."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from dcpflow.planning.sensitivity import Curve, Sensitivity
from dcpflow.planning.sensitivity_text import holds, span
from dcpflow.planning.text import number
from dcpflow.records.registration import Registered
from dcpflow.report import curves
from dcpflow.report.axes import Axis
from dcpflow.report.sheet import Figure, Section, Sheet, Table

STATUSES: Final = ("certified", "inconclusive", "refuted", "not_tested")
"""From top to bottom of a figure."""
MAX_FLIPS: Final = 4
"""Flip points that a figure names, those next to the registered value; the table holds all."""
MEANING: Final = {
    "epsilon": "How far below the claimed score a challenger may stay and still have recovered the outcome.",
    "kappa": "The share of delta_min that epsilon is.",
    "rho": "How often a fresh challenger may recover the outcome, at most.",
    "delta_min": "How much better than the baseline the claimed artifact must be, at least.",
    "alpha.recovery": "The chance of error that the bound on recovery may have.",
    "alpha.adequacy": "The chance of error that the bound on the controls' recall may have.",
    "delta_evidence": "How much truthful feedback must add, at least.",
    "delta_sham": "How far two channels that cannot inform may differ.",
    "alpha.evidence": "The chance of error that the interval of the feedback effect may have.",
    "alpha.sham": "The chance of error that the interval of the null study may have.",
}


def page(found: Sensitivity, under: Registered) -> Sheet:
    """The page.

    Args:
        found: all curves.
        under: the registration whose evidence was decided again.
    """
    return Sheet(
        kind="Sensitivity of a decision to its thresholds",
        title=f"{under.config('claim')['id']}: how the decision leans on its thresholds",
        notice=(
            "A description, never a decision",
            "the rules, on the same evidence, with one threshold changed at a time. "
            f"Under what is registered, Core is {_said(found.core)} and Evidence is {_said(found.evidence)}",
        ),
        sections=[_table(found), *(_section(curve) for curve in found.curves)],
        source=f"Made by dcpflow from the evidence under the registration {under.digest}. Numbers are rounded to four "
        "digits; the decision's are not.",
    )


def _said(status: str) -> str:
    return status.replace("_", " ")


def _table(found: Sensitivity) -> Section:
    words = "A status changes only where a threshold meets a number of the evidence, so that flip points are exact."
    table = Table(
        "Statuses over what may be registered, one threshold at a time",
        ("threshold", "value", "Core", "Evidence"),
        [row for curve in found.curves for row in _rows(curve)],
    )
    return Section("All thresholds", [words], tables=[table])


def _rows(curve: Curve) -> Iterator[tuple[str, ...]]:
    for segment in curve.segments:
        here = f", registered {number(curve.registered)}" if holds(segment, curve.registered) else ""
        yield curve.name + here, span(segment), _said(segment.core), _said(segment.evidence)


def _section(curve: Curve) -> Section:
    words = [MEANING[curve.name]] if curve.name in MEANING else []
    if curve.remark:
        name = "" if curve.remark.startswith(curve.name) else f"{curve.name}: "
        words.append(f"{name}{curve.remark}.")
    axis = _axis(curve)
    shapes = curves.steps(
        [
            ("Core", [(s.low, s.high, s.core, f"{_said(s.core)} in {span(s)}") for s in curve.segments]),
            ("Evidence", [(s.low, s.high, s.evidence, f"{_said(s.evidence)} in {span(s)}") for s in curve.segments]),
        ],
        STATUSES,
        [
            ("claimed", f"registered {number(curve.registered)}", curve.registered),
            *(("baseline", f"flips at {number(flip)}", flip) for flip in _named(curve)),
        ],
        axis,
    )
    return Section(curve.name, words, [Figure(f"Core and Evidence along {curve.name}", shapes, _caption(curve, axis))])


def _named(curve: Curve) -> list[float]:
    return sorted(sorted(curve.flips, key=lambda flip: abs(flip - curve.registered))[:MAX_FLIPS])


def _axis(curve: Curve) -> Axis:
    """From the least to the largest value that may be registered; that of a chance of error is logarithmic."""
    if not curve.name.startswith("alpha."):
        # where a single value may be registered there is no length to divide by
        high = curve.high if curve.high > curve.low else curve.low + 1.0
        return Axis(curve.low, high, curves.STEPS_LEFT)
    least = min(curve.registered, *(flip for flip in curve.flips if flip > 0), curve.high)
    return Axis(10.0 ** (math.floor(math.log10(least)) - 1), curve.high, curves.STEPS_LEFT, logarithmic=True)


def _caption(curve: Curve, axis: Axis) -> str:
    words = [f"{curve.name}, over what may be registered while all else stays as it is."]
    if axis.logarithmic:
        words.append("The axis is logarithmic; left of its end nothing changes.")
    if not curve.flips:
        words.append("Neither status changes anywhere.")
    elif len(curve.flips) > MAX_FLIPS:
        words.append(f"{MAX_FLIPS} of {len(curve.flips)} flip points are named; all stand in the table.")
    return " ".join(words)
