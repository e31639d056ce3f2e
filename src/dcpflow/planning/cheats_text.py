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
        "Certified: audits whose claim was certified all the same, and not as exploratory [exact 95 % interval].",
    ]
    for cheat, moves in groupby(found, key=lambda one: one.move.cheat):
        lines += ["", cheat]
        lines += [line for one in moves for line in _lines(one)]
    return "\n".join(lines)


def _lines(one: Noticed) -> Iterable[str]:
    yield f"  {one.move.how}"
    yield f"      {noticed(one)}"
    yield f"      {one.move.claim.capitalize()} certified: {of(one, one.paid)}"
    if one.move.helps:
        yield f"      would help: {one.move.helps}"


def noticed(one: Noticed) -> str:
    """What noticed a move, and how often."""
    if one.by:
        return f"caught by {', '.join(one.by)}: {of(one, one.caught)}"
    if one.shown:
        return f"{NOT_DETECTABLE} as a cheat; shown, and blocks nothing: {', '.join(one.shown)}"
    return NOT_DETECTABLE


def of(one: Noticed, rate: Rate) -> str:
    """A count; with its interval where chance has a part in it, which a check over records knows nothing of."""
    low, high = rate.interval
    return f"{rate.count} of {rate.audits} audits" + ("" if one.move.records else f" [{low:.4f}, {high:.4f}]")
