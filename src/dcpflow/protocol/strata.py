"""Strata: challengers of another strength beside those that decide. Informative, so nothing here enters a verdict.

A stratum has its own agent or budget, its own number of challengers and its own alpha. Its attempts are classified by
the rules of Gate 2 (G2.1 to G2.9), and the caps on failures and losses are the same (G2.14, G2.15). Controls of its own
it has none: its bound says how often its challengers recover the outcome, not that they could have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dcpflow.protocol.faults import Fault, Stake
from dcpflow.protocol.gate2 import AttemptResult, classify_all, rate_faults
from dcpflow.protocol.intervals import zero_hit_upper_bound
from dcpflow.protocol.model import Attempt, AttemptStatus, ScoredArtifact
from dcpflow.protocol.registration import Registration


@dataclass(frozen=True, slots=True)
class StratumResult:
    """What the challengers of a stratum came to.

    Attributes:
        attempts: One row for each attempt, in order.
        independent: Number of independent draws among those that count.
        hits: Attempts that reach the recovery line.
        unresolved: Attempts of which it is not known what they came to.
        recovered: Whether a hit is shown to be one.
        bound: Upper bound on the probability of recovery at the stratum's alpha; None with a hit, or where the stratum
            is not complete.
        reasons: Why the stratum is not complete; empty where it is.
    """

    attempts: tuple[AttemptResult, ...]
    independent: int
    hits: int
    unresolved: int
    recovered: bool
    bound: float | None
    reasons: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """Whether every condition holds and it is known of each attempt what it came to."""
        return not self.reasons

    def count(self, status: AttemptStatus) -> int:
        """Number of attempts with a status."""
        return sum(row.status is status for row in self.attempts)


def evaluate_stratum(
    reg: Registration,
    stratum: str,
    attempts: Sequence[Attempt],
    claimed: ScoredArtifact,
    alpha: float,
    faults: Sequence[Fault] = (),
    stake: Stake = Stake.CHALLENGER_HIT,
) -> StratumResult:
    """Classify the attempts of a stratum and compute its exact zero-hit bound.

    Args:
        reg: The registration; its recovery line holds for every stratum.
        stratum: Its name.
        attempts: All attempts of the stratum, in order.
        claimed: A*.
        alpha: Error of the bound.
        faults: Conditions on the stratum's records that do not hold. Any keeps the bound from being computed; one that
            blocks the stake keeps a hit from being shown.
        stake: What a hit is: a challenger's, or that of a neutral branch.
    """
    rows = classify_all(
        replace(reg, challenger_stratum=stratum),
        attempts,
        claimed,
        reg.challenger_contract_digest,
        reg.challenge_distribution_digest,
    )
    statuses = Counter(row.status for row in rows)
    hits, unresolved = statuses[AttemptStatus.CONFIRMED_HIT], statuses[AttemptStatus.UNRESOLVED]
    independent = sum(row.independent for row in rows)
    reasons = [f"{fault.check}: {fault.detail}" for fault in (*faults, *rate_faults(reg, rows, statuses))]
    if unresolved:
        first = next(row for row in rows if row.status is AttemptStatus.UNRESOLVED)
        reasons.append(f"attempts unresolved: {unresolved}, first {first.attempt_id}: {first.reason}")
    return StratumResult(
        attempts=rows,
        independent=independent,
        hits=hits,
        unresolved=unresolved,
        recovered=bool(hits) and not any(stake in fault.blocks for fault in faults),
        bound=zero_hit_upper_bound(independent, alpha) if not hits and not reasons else None,
        reasons=tuple(reasons),
    )
