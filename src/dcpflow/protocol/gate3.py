"""Gate 3: did the feedback make the difference? Puts the parts of the feedback experiment together.

The rules stand in ``replacements`` (G3.1 to G3.4), ``pairs`` (G3.5 to G3.8), ``feedback_effect`` (G3.9,
G3.10, G3.18, G3.19), ``null_calibration`` (G3.11 to G3.17) and ``neutral_recovery`` (G3.20 to G3.22).
"""

from __future__ import annotations

from dataclasses import dataclass

from dcpflow.protocol.faults import Fault, Stake, blocking
from dcpflow.protocol.feedback_effect import EffectResult, evaluate_effect
from dcpflow.protocol.model import Conditions, Gate3Evidence, ScoredArtifact
from dcpflow.protocol.neutral_recovery import NeutralResult, evaluate_neutral
from dcpflow.protocol.null_calibration import NullResult, evaluate_null
from dcpflow.protocol.registration import Registration
from dcpflow.protocol.replacements import Ledger, read_ledger


@dataclass(frozen=True, slots=True)
class Gate3Result:
    """What Gate 3 found.

    Attributes:
        null: The null calibration; None where faults forbid to evaluate the experiment (O3).
        effect: The feedback effect; None likewise.
        neutral: The neutral branches as challengers.
        ledger: The replacement ledger of the feedback pairs.
    """

    null: NullResult | None
    effect: EffectResult | None
    neutral: NeutralResult
    ledger: Ledger


def evaluate_gate3(
    reg: Registration,
    evidence: Gate3Evidence,
    claimed: ScoredArtifact,
    challengers: Conditions,
    faults: tuple[Fault, ...],
) -> Gate3Result:
    """Evaluate what the faults allow (O3).

    Args:
        reg: The registration.
        evidence: The feedback experiment.
        claimed: A*.
        challengers: What the challengers of Gate 2 were given.
        faults: All faults. Any that blocks ``EVIDENCE`` or ``CORE`` leaves the effect and the null
            calibration out; a neutral hit whose own records are clean is found even so.
    """
    ledger = feedback_ledger(reg, evidence)
    neutral = evaluate_neutral(reg, evidence, claimed, challengers=challengers, ledger=ledger, faults=faults)
    if blocking(faults, Stake.EVIDENCE) or blocking(faults, Stake.CORE):
        return Gate3Result(None, None, neutral, ledger)
    null = evaluate_null(reg, evidence.null)
    effect = evaluate_effect(reg, evidence, claimed, ledger, null)
    return Gate3Result(null, effect, neutral, ledger)


def feedback_ledger(reg: Registration, evidence: Gate3Evidence) -> Ledger:
    """The replacement ledger of the feedback pairs; where their number is left open, of those that were started."""
    return read_ledger(
        evidence.pairs,
        registered=len(evidence.pairs) if reg.feedback_looks else reg.feedback_pairs,
        most_replacements=reg.max_feedback_replacements,
        policy=reg.replacement_policy,
        place="pairs",
    )
