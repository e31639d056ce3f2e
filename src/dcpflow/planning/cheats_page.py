"""What became of cheating claimants, as a page."""

from __future__ import annotations

from collections.abc import Sequence

from dcpflow.planning.cheats import Noticed
from dcpflow.planning.cheats_text import noticed, of
from dcpflow.planning.simulation import CONFIDENCE
from dcpflow.report import figures
from dcpflow.report.sheet import Figure, Section, Sheet, Table


def page(found: Sequence[Noticed], seed: int) -> Sheet:
    """The page: the same bytes for the same registration and seed."""
    return Sheet(
        kind="Simulated audits",
        title="Cheating claimants, and what notices them",
        notice=("No audit was run", "each move is played on synthetic audits; their checks and rules are the real ones"),
        sections=[_certified(found), _moves(found)],
        source=f"Made by dcpflow simulate --cheats with the seed {seed}.",
    )


def _certified(found: Sequence[Noticed]) -> Section:
    """Moves in which chance has a part; where it has none, one audit tells of all."""
    shown = []
    for one in found:
        if not one.move.records:
            low, high = one.paid.interval
            label = f"{one.move.cheat}, {one.move.how}: {of(one, one.paid)}"
            shown.append((label, "effect", low, one.paid.value, high))
    words = "Moves that change what episodes come to, and leave no other mark. A move that pays stands at the right."
    caption = f"Share of audits whose claim is certified all the same, with its exact {CONFIDENCE:.0%} interval."
    return Section(
        "How often a cheat pays",
        [words],
        [Figure("Audits certified in spite of a cheat", figures.spans(shown, [], (0.0, 1.0)), caption)],
    )


def _moves(found: Sequence[Noticed]) -> Section:
    rows = [
        (
            one.move.cheat,
            one.move.how,
            noticed(one),
            f"{one.move.claim.capitalize()}: {of(one, one.paid)}",
            one.move.helps,
        )
        for one in found
    ]
    headings = ("cheat", "how", "noticed", "certified all the same", "would help")
    return Section("Each move", tables=[Table("Every move, and what notices it", headings, rows)])
