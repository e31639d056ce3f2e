"""Neutral branches read as challengers (G3.20 to G3.22).

A neutral branch had no information from the experiment. If it recovers the outcome, the feedback was not
necessary; and if it started from an empty checkpoint under the challengers' contract, it is a challenger, and
its hit refutes Core.

The neutral arm is judged by its own records only: faults of the truthful arm or of the null calibration
change nothing here. (The reference drops the whole neutral result on such a fault, so that an unresolved
neutral branch inside the challengers' scope no longer keeps Core from being certified.)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from dcpflow.protocol.faults import (
    NEUTRAL_ARM,
    Fault,
    Stake,
    blocked_indices,
    blocking,
    blocking_all,
)
from dcpflow.protocol.gate2 import AttemptResult, RecoveryResult, classify_all, evaluate_recovery
from dcpflow.protocol.model import (
    Adequacy,
    Attempt,
    AttemptStatus,
    Conditions,
    FeedbackPair,
    Gate3Evidence,
    Recovery,
    ScoredArtifact,
)
from dcpflow.protocol.pairs import branch_as_attempt
from dcpflow.protocol.registration import LINEAGE_EMPTY, Registration
from dcpflow.protocol.replacements import Ledger


@dataclass(frozen=True, slots=True)
class NeutralResult:
    """What the neutral branches came to as challengers.

    Attributes:
        recovery: The answer.
        reason: In words.
        terminal: The rules of 1.4 on the terminal pairs; None where a fault of the neutral records forbids.
        rows: What every neutral branch with clean records of its own came to, replaced pairs included; empty
            where a fault forbids the use of any.
        in_challenger_scope: Whether neutral branches are challengers (G3.22).
    """

    recovery: Recovery
    reason: str
    terminal: RecoveryResult | None
    rows: tuple[AttemptResult, ...]
    in_challenger_scope: bool

    @property
    def witnesses(self) -> tuple[AttemptResult, ...]:
        """Confirmed hits whose own records are clean (G3.21)."""
        return tuple(row for row in self.rows if row.status is AttemptStatus.CONFIRMED_HIT)

    @property
    def refutes_core(self) -> bool:
        """Whether a neutral hit is a challenger's hit (G3.22)."""
        return bool(self.witnesses) and self.in_challenger_scope

    @property
    def unresolved(self) -> int:
        """Neutral branches of which it is not known what they came to."""
        return self.terminal.unresolved if self.terminal else 0


def evaluate_neutral(
    reg: Registration,
    evidence: Gate3Evidence,
    claimed: ScoredArtifact,
    *,
    challengers: Conditions,
    ledger: Ledger,
    faults: Iterable[Fault],
) -> NeutralResult:
    """Apply G3.20 to G3.22.

    Args:
        reg: The registration.
        evidence: The feedback experiment.
        claimed: A*.
        challengers: What the challengers of Gate 2 were given.
        ledger: The replacement ledger of the feedback pairs.
        faults: All faults; those that block ``NEUTRAL_HIT`` or ``NEUTRAL_LEDGER`` count here.
    """
    faults = tuple(faults)
    rows: tuple[AttemptResult, ...] = ()
    if not blocking_all(faults, Stake.NEUTRAL_HIT):
        rows = _clean_rows(reg, evidence, claimed, blocked_indices(faults, Stake.NEUTRAL_HIT))
    hits = sum(row.status is AttemptStatus.CONFIRMED_HIT for row in rows)
    terminal = None
    if not blocking(faults, Stake.NEUTRAL_LEDGER):
        terminal = _terminal_recovery(reg, evidence, claimed, ledger)
    if hits:
        recovery, reason = Recovery.RECOVERED, f"neutral branches that recovered the outcome: {hits}"
    elif terminal is None:
        recovery, reason = Recovery.INCONCLUSIVE, "the neutral records are not clean"
    elif reg.feedback_looks:
        recovery, reason = Recovery.INCONCLUSIVE, "their number depends on what they came to, so they bound nothing"
    else:
        recovery, reason = terminal.recovery, terminal.reason
        if recovery is Recovery.NOT_RECOVERED_WITHIN_SCOPE and blocking(faults, Stake.EVIDENCE):
            # That nothing was recovered says something only within a sound experiment.
            recovery, reason = Recovery.INCONCLUSIVE, "the feedback experiment may not be evaluated"
    return NeutralResult(
        recovery=recovery,
        reason=reason,
        terminal=terminal,
        rows=rows,
        in_challenger_scope=in_challenger_scope(reg, evidence, challengers),
    )


def _terminal_recovery(
    reg: Registration, evidence: Gate3Evidence, claimed: ScoredArtifact, ledger: Ledger
) -> RecoveryResult:
    """G3.20: the rules of 1.4 on the neutral branches of the terminal pairs. No second cohort exists."""
    return evaluate_recovery(
        reg,
        [neutral_attempt(reg, evidence, evidence.pairs[index]) for index in ledger.terminal],
        claimed,
        evidence.neutral_adequacy or Adequacy(),
        contract_digest=reg.neutral_recovery_contract_digest,
        distribution_digest=reg.pair_distribution_digest,
        bound_alpha=reg.alpha_neutral,
        rho=reg.rho_neutral,
    )


def _clean_rows(
    reg: Registration, evidence: Gate3Evidence, claimed: ScoredArtifact, blocked: Collection[int]
) -> tuple[AttemptResult, ...]:
    """G3.21: neutral branches whose own records are clean, whatever is wrong elsewhere."""
    return classify_all(
        reg,
        [neutral_attempt(reg, evidence, p) for index, p in enumerate(evidence.pairs) if index not in blocked],
        claimed,
        reg.neutral_recovery_contract_digest,
        reg.pair_distribution_digest,
    )


def neutral_attempt(reg: Registration, evidence: Gate3Evidence, pair: FeedbackPair) -> Attempt:
    """G3.20: a neutral branch in the terms of Gate 2; its independent draw is the pair's block."""
    return replace(
        branch_as_attempt(pair.neutral),
        stratum=reg.challenger_stratum,
        contract_digest=evidence.neutral_recovery_contract_digest,
        distribution_digest=pair.distribution_digest,
        draw_receipt=pair.draw_receipt,
        independent_unit=pair.block_id,
        independent=pair.independent,
    )


def in_challenger_scope(reg: Registration, evidence: Gate3Evidence, challengers: Conditions) -> bool:
    """G3.22: whether neutral branches are the same experiment as challengers."""
    neutral = evidence.neutral_conditions
    return (
        evidence.checkpoint_scope == LINEAGE_EMPTY
        and evidence.neutral_recovery_contract_digest == reg.challenger_contract_digest
        and reg.pair_distribution_digest == reg.challenge_distribution_digest
        and neutral.resource_digest == challengers.resource_digest
        and neutral.opportunity_digest == challengers.opportunity_digest
        and neutral.policy_digest == challengers.policy_digest
    )


def neutral_contract_faults(reg: Registration, evidence: Gate3Evidence, challengers: Conditions) -> Iterator[Fault]:
    """G3.20: whether the neutral arm ran under the registered contract, with the challengers' information."""
    arm = (
        ("neutral_contract_digest", reg.neutral_contract_digest),
        ("neutral_recovery_contract_digest", reg.neutral_recovery_contract_digest),
        ("neutral_generator_digest", reg.neutral_generator_digest),
        ("paired_contract_digest", reg.paired_contract_digest),
    )
    given = (
        ("model_id", reg.model_id),
        ("interface_digest", reg.interface_digest),
        ("resource_digest", reg.branch_resource_digest),
        ("opportunity_digest", reg.branch_opportunity_digest),
        ("policy_digest", reg.branch_policy_digest),
        ("knowledge_digest", challengers.knowledge_digest),
        ("initial_evidence_digest", challengers.initial_evidence_digest),
        ("web_digest", challengers.web_digest),
    )
    found = [(f"gate3.{key}", key, getattr(evidence, key), expected) for key, expected in arm] + [
        (
            f"gate3.neutral_conditions.{key}",
            f"neutral_{key}",
            getattr(evidence.neutral_conditions, key),
            expected,
        )
        for key, expected in given
    ]
    for place, check, value, expected in found:
        if value != expected:
            yield Fault(check, place, f"{value!r}, expected {expected!r}", NEUTRAL_ARM)
