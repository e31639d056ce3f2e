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
    if one.by:
        yield f"      caught by {', '.join(one.by)}: {_of(one, one.caught)}"
    elif one.shown:
        yield f"      {NOT_DETECTABLE} as a cheat; shown, and blocks nothing: {', '.join(one.shown)}"
    else:
        yield f"      {NOT_DETECTABLE}"
    yield f"      {one.move.claim.capitalize()} certified: {_of(one, one.paid)}"
    if one.move.helps:
        yield f"      would help: {one.move.helps}"


def _of(one: Noticed, rate: Rate) -> str:
    """A count; with its interval where chance has a part in it, which a check over records knows nothing of."""
    low, high = rate.interval
    return f"{rate.count} of {rate.audits} audits" + ("" if one.move.records else f" [{low:.4f}, {high:.4f}]")
