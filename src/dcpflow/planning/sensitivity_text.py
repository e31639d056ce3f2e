"""The curves of a decision as a table for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from dcpflow.planning.sensitivity import DESCRIPTION, Curve, Segment, Sensitivity
from dcpflow.planning.text import number, table


def render(found: Sensitivity, where: str) -> str:
    """The table.

    Args:
        found: all curves.
        where: the results folder.
    """
    lines = [
        f"{where}: Core {found.core}, Evidence {found.evidence} under what is registered.",
        f"What follows is {DESCRIPTION}: the rules, on the same evidence, with one threshold changed at a time.",
        "",
        *table(
            ("threshold", "registered", "value", "Core", "Evidence"), [row for c in found.curves for row in _rows(c)]
        ),
        "",
        *(f"{curve.name}: {curve.remark}" for curve in found.curves if curve.remark),
    ]
    return "\n".join(lines)


def _rows(curve: Curve) -> Iterator[tuple[str, ...]]:
    for place, segment in enumerate(curve.segments):
        first = (curve.name, number(curve.registered)) if not place else ("", "")
        here = " *" if holds(segment, curve.registered) and len(curve.segments) > 1 else ""
        yield (*first, span(segment) + here, segment.core, segment.evidence)


def holds(segment: Segment, value: float) -> bool:
    """Whether a value lies in a segment."""
    return (segment.low <= value if segment.low_included else segment.low < value) and (
        value <= segment.high if segment.high_included else value < segment.high
    )


def span(segment: Segment) -> str:
    """A range as people write it, with a bracket where the end belongs to it."""
    left, right = ("[" if segment.low_included else "("), ("]" if segment.high_included else ")")
    return f"{left}{number(segment.low)}, {number(segment.high)}{right}"
