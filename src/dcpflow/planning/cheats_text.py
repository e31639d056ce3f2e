"""What became of cheating claimants, for a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from dcpflow.planning.cheats import NOT_DETECTABLE, Noticed
from dcpflow.planning.simulation import Rate


def render(found: Iterable[Noticed]) -> str:
    """One block for each cheat, one line for each way of doing it."""
    lines = [
        "Each move is played on synthetic audits; their checks and rules are the real ones.",
        "`certified` counts the audits in which the claim was certified all the same, and not as exploratory.",
    ]
    for cheat, moves in groupby(found, key=lambda one: one.move.cheat):
        lines += ["", cheat]
        lines += [line for one in moves for line in _lines(one)]
    return "\n".join(lines)


def _lines(one: Noticed) -> Iterable[str]:
    yield f"  {one.move.how}"
    if one.by:
        yield f"      caught by {', '.join(one.by)}: {_of(one.caught)}"
    elif one.shown:
        yield f"      {NOT_DETECTABLE} as a cheat, but shown by {', '.join(one.shown)}"
    else:
        yield f"      {NOT_DETECTABLE}"
    helps = f"; would help: {one.move.helps}" if one.move.helps else ""
    yield f"      {one.move.claim.capitalize()} certified: {_of(one.paid)}{helps}"


def _of(rate: Rate) -> str:
    low, high = rate.interval
    return f"{rate.count} of {rate.audits} audits (exact [{low:.4f}, {high:.4f}])"
