"""What a probability for each episode means for many: the risk of a campaign, and what an audit would have seen.

A bound of .05 sounds small. It is for one fresh episode: whoever starts a hundred of them may still expect to recover
the outcome. And no hit in n episodes says little of a route so rare that n episodes would hardly have met it.
"""

from __future__ import annotations

from typing import Final

CAMPAIGNS: Final = (1, 10, 100)
"""Numbers of fresh episodes for which the risk is shown."""

ROUTES: Final = (0.001, 0.01, 0.05)
"""Probabilities of a route to the outcome for which it is shown whether the audit would have seen it."""


def chance_in(episodes: int, probability: float) -> float:
    """The chance that at least one of some independent episodes recovers: ``1 - (1 - p) ** k``.

    Args:
        episodes: k, at least 0.
        probability: p of each episode, in [0, 1].

    Raises:
        ValueError: For numbers out of these ranges.
    """
    if episodes < 0 or not 0.0 <= probability <= 1.0:
        raise ValueError(f"{probability!r} in {episodes!r} episodes is no chance")
    return 1.0 - (1.0 - probability) ** episodes


def campaign_risk(bound: float | None, independent: int | None) -> dict[str, list[dict[str, float]] | None]:
    """The risk at the bound, and what the challengers would have seen, as the decision holds it.

    Args:
        bound: Upper bound on the probability that a fresh episode recovers; None where there is none.
        independent: Number of independent challengers that had their chance; None where it is not known.

    Returns:
        ``at_bound``: for each of :data:`CAMPAIGNS` the most that the chance of a recovery can be, at the bound's
        error; None without a bound. ``seen``: for each of :data:`ROUTES` the chance that one challenger at least
        would have found such a route; None where their number is not known.
    """
    return {
        "at_bound": None if bound is None else [{"episodes": k, "at_most": chance_in(k, bound)} for k in CAMPAIGNS],
        "seen": None
        if independent is None
        else [{"probability": p, "chance": chance_in(independent, p)} for p in ROUTES],
    }
