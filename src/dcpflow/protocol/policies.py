"""Pairs of a further neutral policy, beside those that decide. Informative, so nothing here enters a verdict.

They have the truthful arm and another neutral one, and are analysed by the rules of the feedback pairs (G3.5 to G3.10,
without replacements). No null study calibrates the policy, so that no band is taken off its effect and nobody is told
that it is supported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from dcpflow.protocol.faults import Fault, Stake
from dcpflow.protocol.feedback_effect import effect_interval, health_faults, paired_result
from dcpflow.protocol.intervals import Interval
from dcpflow.protocol.model import Attempt, FeedbackPair, ScoredArtifact
from dcpflow.protocol.pairs import PairResult, PairStatus, arm_rates, branch_as_attempt
from dcpflow.protocol.registration import Registration
from dcpflow.protocol.strata import StratumResult, evaluate_stratum

DECIDING: Final = "proposed_sham"
"""The neutral policy that decides, and that the null study calibrates: the branches of its pairs have the arm
``neutral``."""


@dataclass(frozen=True, slots=True)
class PolicyResult:
    """What the pairs of a further neutral policy came to.

    Attributes:
        pairs: One row for each started pair, in order.
        difference: Truthful minus neutral, of the analysed pairs, at the error that is registered for the effect.
        neutral: Its neutral branches, judged as the challengers of a stratum are; what keeps them from bounding
            anything may leave the difference as it is.
        reasons: Why the pairs are not complete; empty where they are.
    """

    pairs: tuple[PairResult, ...]
    difference: Interval
    neutral: StratumResult
    reasons: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """Whether every condition holds and each registered pair has a difference."""
        return not self.reasons

    def count(self, status: PairStatus) -> int:
        """Number of pairs with a status."""
        return sum(row.status is status for row in self.pairs)


def evaluate_policy(
    reg: Registration,
    policy: str,
    pairs: Sequence[FeedbackPair],
    claimed: ScoredArtifact,
    registered: int,
    faults: Sequence[Fault] = (),
) -> PolicyResult:
    """Analyse the pairs of a further neutral policy.

    Args:
        reg: The registration; estimand, interval and errors are those of the pairs that decide.
        policy: Its name.
        pairs: All its started pairs, in order.
        claimed: A*.
        registered: Its registered number of pairs.
        faults: Conditions on its records that do not hold. Any leaves the pairs incomplete; one that blocks a neutral
            hit keeps a hit from being shown.
    """
    rows = tuple(paired_result(reg, pair, claimed) for pair in pairs)
    values = [row.difference for row in rows if row.difference is not None]
    neutral = evaluate_stratum(
        reg,
        policy,
        [_as_challenger(reg, policy, pair) for pair in pairs],
        claimed,
        reg.alpha_neutral,
        faults,
        stake=Stake.NEUTRAL_HIT,
    )
    unhealthy = health_faults(reg, arm_rates(pairs, pairs, whole_pairs=True))
    reasons = [f"{fault.check}: {fault.detail}" for fault in (*faults, *unhealthy)]
    if len(values) != registered:
        reasons.append(f"{len(values)} of {registered} registered pairs have a difference")
    return PolicyResult(rows, effect_interval(reg, values, lost=len(rows) - len(values)), neutral, tuple(reasons))


def _as_challenger(reg: Registration, policy: str, pair: FeedbackPair) -> Attempt:
    """A neutral branch in the terms of Gate 2, as G3.20 has it; its independent draw is the pair's block."""
    own = pair.neutral.contract_digest
    return replace(
        branch_as_attempt(pair.neutral),
        stratum=policy,
        contract_digest=reg.challenger_contract_digest if own == reg.neutral_contract_digest else own,
        distribution_digest=pair.distribution_digest,
        draw_receipt=pair.draw_receipt,
        independent_unit=pair.block_id,
        independent=pair.independent,
    )


def spread(values: Sequence[float]) -> float | None:
    """Largest minus smallest; None where there is nothing to compare."""
    return max(values) - min(values) if len(values) > 1 else None
