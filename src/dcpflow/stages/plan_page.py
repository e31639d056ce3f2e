"""A plan as a page: samples, chances, power curves, and the configuration to paste."""

from __future__ import annotations

from typing import Final

from dcpflow.planning.costs import Cost
from dcpflow.planning.fragment import fragment
from dcpflow.planning.plan import Guess, Plan
from dcpflow.planning.plan_text import CURVES, ENDINGS, SAMPLES, costs, endings, on_curve, samples
from dcpflow.planning.text import percent
from dcpflow.report import curves
from dcpflow.report.axes import Axis
from dcpflow.report.sheet import Figure, Section, Sheet, Table

LOGARITHMIC: Final = frozenset({"recovery"})
"""Curves whose points lie decades apart."""


def page(plan: Plan, guess: Guess, cost: Cost) -> Sheet:
    """The page."""
    return Sheet(
        kind="Plan of an audit, made before anything is registered",
        title="What the audit takes, and how it may end",
        notice=(
            "A plan",
            "nothing was run. What episodes will come to is guessed; all chances follow from that, exactly",
        ),
        sections=[
            Section("Samples", tables=[Table("Sample sizes, and why", SAMPLES, samples(plan, guess))]),
            _budget(plan, cost),
            Section("How it may end", tables=[Table("Endings and their chances", ENDINGS, endings(plan))]),
            _power(plan, guess),
            Section("To paste", ["Into a file below config/cases."], lines=fragment(plan).rstrip().split("\n")),
        ],
        source="Made by dcpflow plan.",
    )


def _budget(plan: Plan, cost: Cost) -> Section:
    return Section(
        "Errors, episodes, cost",
        [f"Cost: {costs(cost)}."],
        tables=[
            Table("Chances of error", ("alpha", "is"), [(name, f"{value:g}") for name, value in plan.alphas.items()]),
            Table(
                f"Episodes, {sum(plan.episodes.values())} together",
                ("stage", "episodes"),
                [(name.replace("_", " "), f"{count}") for name, count in plan.episodes.items()],
            ),
        ],
    )


def _power(plan: Plan, guess: Guess) -> Section:
    words = ["Each chance was computed at the points and not between them; all else is as guessed."]
    shown, tables = [], []
    for key, points in plan.curves.items():
        given, chance = CURVES[key]
        rows = [(f"{value:g}", on_curve(key, share)) for value, share in points]
        if key == "started":
            tables.append(Table(f"{chance}, as expected, by {given}", (given, chance), rows))
            continue
        shown.append(_figure(key, points, getattr(guess.rates, key)))
        tables.append(Table(f"{chance} by {given}", (given, f"chance: {chance}"), rows))
    return Section("Power", words, shown, tables)


def _figure(key: str, points: tuple[tuple[float, float], ...], guessed: float) -> Figure:
    given, chance = CURVES[key]
    logarithmic = key in LOGARITHMIC
    drawn = [point for point in points if point[0] > 0 or not logarithmic]
    first, last = drawn[0][0], drawn[-1][0]
    axis = Axis(first, last, curves.CURVE_LEFT, logarithmic)
    marks = [("claimed", f"guessed {guessed:g}", guessed)] if first <= guessed <= last else []
    shapes = curves.curve(
        [(value, share, f"{given} {value:g}: {percent(share)}") for value, share in drawn], marks, axis
    )
    caption = f"Chance: {chance}, by {given}."
    if logarithmic:
        caption += " The axis is logarithmic" + "".join(
            f"; at {value:g} the chance is {percent(share)}" for value, share in points if value <= 0
        )
        caption += "."
    return Figure(f"{chance} by {given}", shapes, caption)
