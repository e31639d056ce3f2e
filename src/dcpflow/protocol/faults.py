"""A named condition that does not hold, and what it stands in the way of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Stake(StrEnum):
    """A conclusion that a fault can block."""

    CORE = "core"
    """Core may not be certified. A hit whose own record is clean still refutes it."""
    CHALLENGER_HIT = "challenger_hit"
    """A challenger's hit may not refute."""
    NEUTRAL_HIT = "neutral_hit"
    """A neutral branch's hit may not refute."""
    NEUTRAL_LEDGER = "neutral_ledger"
    """Not all neutral branches are shown to be on record: blocks Core where they are challengers (V14)."""
    NEUTRAL_SCOPE = "neutral_scope"
    """It is not known whether neutral branches are challengers: a ledger fault then blocks Core (V14)."""
    EVIDENCE = "evidence"
    """The feedback experiment may not be evaluated."""


CORE_ONLY: Final = frozenset({Stake.CORE})
"""For conditions that a certificate needs, but not the use of a hit: complete ledgers, provenance."""
EVERY_HIT: Final = frozenset({Stake.CORE, Stake.CHALLENGER_HIT, Stake.NEUTRAL_HIT})
"""For conditions without which not even a hit means anything: a frozen claim, a sound scorer, A*'s scores."""
CHALLENGERS: Final = frozenset({Stake.CORE, Stake.CHALLENGER_HIT})
"""For conditions on the challengers' records."""
EVIDENCE_ONLY: Final = frozenset({Stake.EVIDENCE})
"""For conditions on the truthful arm, the null calibration, or the experiment as a whole."""
NEUTRAL_ARM: Final = frozenset({Stake.EVIDENCE, Stake.NEUTRAL_HIT, Stake.NEUTRAL_LEDGER})
"""For conditions on the neutral arm's records."""
NEUTRAL_DISCLOSURE: Final = frozenset({Stake.EVIDENCE, Stake.NEUTRAL_LEDGER})
"""For conditions that say that all neutral branches are on record: a hit on record stays one."""
NEUTRAL_SCOPE: Final = NEUTRAL_ARM | {Stake.NEUTRAL_SCOPE}
"""For conditions that bind the checkpoint and its scope."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One condition that the evidence was checked for and does not meet.

    Attributes:
        check: Stable name of the condition: a rule number (``G2.12``) or a name (``attempt_id_unique``).
        place: The record concerned (``attempts[17].scores``, ``registration.slot_receipt``).
        detail: What was found, and what was expected.
        blocks: What must not be concluded while this does not hold.
        index: Position of the one attempt or pair that is at fault. Then a block on hits holds for that one
            only; None for a block on all.
    """

    check: str
    place: str
    detail: str
    blocks: frozenset[Stake] = frozenset()
    index: int | None = None

    def __str__(self) -> str:
        return f"{self.place}: {self.detail} [{self.check}]"


def blocking(faults: Iterable[Fault], stake: Stake) -> tuple[Fault, ...]:
    """The faults that block a conclusion, those on single attempts or pairs included."""
    return tuple(fault for fault in faults if stake in fault.blocks)


def blocking_all(faults: Iterable[Fault], stake: Stake) -> tuple[Fault, ...]:
    """The faults that block every hit of a kind."""
    return tuple(fault for fault in blocking(faults, stake) if fault.index is None)


def blocked_indices(faults: Iterable[Fault], stake: Stake) -> frozenset[int]:
    """Positions of the single attempts or pairs whose hit is blocked."""
    return frozenset(fault.index for fault in blocking(faults, stake) if fault.index is not None)
