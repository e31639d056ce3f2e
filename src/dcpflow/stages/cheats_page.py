"""What became of cheating claimants, as a page."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from dcpflow.planning.cheats import Noticed
from dcpflow.planning.cheats_text import noticed, of
from dcpflow.report.sheet import Section, Sheet, Table


def page(found: Iterable[Noticed], seed: int) -> Sheet:
    """The page: the same bytes for the same registration and seed."""
    return Sheet(
        kind="Simulated audits",
        title="Cheating claimants, and what notices them",
        notice=(
            "No audit was run",
            "each move is played on synthetic audits; their checks and rules are the real ones",
        ),
        sections=[_section(cheat, moves) for cheat, moves in groupby(found, key=lambda one: one.move.cheat)],
        source=f"Made by dcpflow simulate --cheats with the seed {seed}. Certified are audits whose claim was "
        "certified all the same, and not as exploratory, with the exact 95% interval where chance has a part in it.",
    )


def _section(cheat: str, moves: Iterable[Noticed]) -> Section:
    rows = [
        (one.move.how, noticed(one), f"{one.move.claim.capitalize()}: {of(one, one.paid)}", one.move.helps)
        for one in moves
    ]
    return Section(
        cheat, tables=[Table(f"Ways of doing it: {cheat}", ("how", "noticed", "certified", "would help"), rows)]
    )
