"""Warnings about an admissible registration: what may be registered, but is weak or cannot succeed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from dcpflow.protocol.intervals import smallest_zero_hit_sample, zero_hit_upper_bound
from dcpflow.protocol.registered import KEY_OF_FIELD
from dcpflow.protocol.registration import (
    EMPIRICAL_BERNSTEIN,
    NO_REPLACEMENT,
    Registration,
    registration_violations,
)

MARGIN_FLOOR: Final = 0.01
"""Margins below one hundredth of the score range are hardly a discovery, and hardly an effect."""

UNITS_FLOOR: Final = 5
"""With fewer sealed units than this, one of them can carry a claim whose inference is exact on just these units."""


@dataclass(frozen=True, slots=True)
class Caution:
    """A registered value that deserves a second look.

    Attributes:
        key: Field of :class:`~dcpflow.protocol.registration.Registration`, or ``sealed_units``. As text it is named
            by its key in the configuration.
        value: What was registered.
        advice: What to consider.
    """

    key: str
    value: object
    advice: str

    def __str__(self) -> str:
        return f"{KEY_OF_FIELD.get(self.key, self.key)} = {self.value!r}: {self.advice}"


def registration_warnings(reg: Registration, sealed_units: int | None = None) -> tuple[Caution, ...]:
    """What an admissible registration should be warned about; empty for an inadmissible one.

    None of these keeps an audit from running: they say that a margin means little, that a claim rests on few
    units, or that the registered numbers can never lead to a certificate. They stand in the decision.

    Args:
        reg: The registration.
        sealed_units: Number of sealed units; None where the task has not said it yet.
    """
    if registration_violations(reg):
        return ()
    found = [*_margins(reg), *_units(sealed_units), *_challengers(reg)]
    if reg.grade == "evidence":
        found += [*_pairs(reg), *_neutral(reg)]
    return tuple(found)


def _margins(reg: Registration) -> Iterator[Caution]:
    keys = ("delta_min", "delta_evidence") if reg.grade == "evidence" else ("delta_min",)
    for key in keys:
        value = getattr(reg, key)
        if value < MARGIN_FLOOR:
            yield Caution(key, value, f"below {MARGIN_FLOOR}: so small a margin means little")
        if value > 1:
            yield Caution(key, value, "above 1: scores lie in [0, 1], so it can never be reached")


def _units(sealed_units: int | None) -> Iterator[Caution]:
    if sealed_units is not None and sealed_units < UNITS_FLOOR:
        yield Caution("sealed_units", sealed_units, f"below {UNITS_FLOOR}: the claim is about these units alone")


def _challengers(reg: Registration) -> Iterator[Caution]:
    needed = smallest_zero_hit_sample(reg.alpha_recovery, reg.rho)
    challengers = max(needed, reg.min_independent)
    branches = 2 * reg.feedback_pairs if reg.grade == "evidence" else 0
    if reg.max_attempts < challengers + branches:
        advice = f"certifying takes {challengers} independent challengers and {branches} branches to compare"
        yield Caution("max_attempts", reg.max_attempts, advice)
    if reg.min_independent < needed:
        advice = f"below the {needed} that the bound needs: more challengers than this will be required"
        yield Caution("min_independent", reg.min_independent, advice)


def _pairs(reg: Registration) -> Iterator[Caution]:
    for key, n, alpha, room, method in (
        ("null_pairs", reg.null_pairs, reg.alpha_null, reg.delta_null, reg.null_interval_method),
        (
            "feedback_pairs",
            reg.feedback_pairs,
            reg.alpha_evidence,
            1 - reg.delta_evidence - reg.delta_null,
            reg.feedback_interval_method,
        ),
    ):
        # The interval's width without any variance.
        least = 14 * math.log(4 / alpha) / (3 * (n - 1))
        if method == EMPIRICAL_BERNSTEIN and least > room:
            enough = math.ceil(least * (n - 1) / room) + 1 if room > 0 else "any number of"
            yield Caution(key, n, f"the continuous interval cannot be narrow enough below {enough} pairs")
    if reg.replacement_policy == NO_REPLACEMENT:
        # beside looks a lost feedback pair is not missed
        kind, lost = ("null", "null pair") if reg.feedback_looks else ("feedback", "pair")
        key = f"max_{kind}_replacements"
        advice = f"one {lost} lost in transport leaves the Evidence verdict inconclusive"
        yield Caution(key, getattr(reg, key), advice)


def _neutral(reg: Registration) -> Iterator[Caution]:
    bound = zero_hit_upper_bound(reg.feedback_pairs, reg.alpha_neutral)
    if reg.necessity_claimed and bound > reg.rho_neutral:
        needed = smallest_zero_hit_sample(reg.alpha_neutral, reg.rho_neutral)
        advice = f"necessity needs {needed} neutral branches at alpha_neutral {reg.alpha_neutral}"
        yield Caution("feedback_pairs", reg.feedback_pairs, advice)
