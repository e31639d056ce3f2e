"""The decision: from registration, evidence and faults to the two verdicts (O1 to O4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from dcpflow.protocol.consistency import gate1_faults, gate2_faults
from dcpflow.protocol.faults import (
    EVIDENCE_ONLY,
    NEUTRAL_DISCLOSURE,
    Fault,
    Stake,
    blocked_indices,
    blocking,
    blocking_all,
)
from dcpflow.protocol.gate1 import Gate1Result, evaluate_gate1
from dcpflow.protocol.gate2 import RecoveryResult, classify_all, evaluate_gate2
from dcpflow.protocol.gate3 import Gate3Result, evaluate_gate3
from dcpflow.protocol.model import Gate1Evidence, Gate2Evidence, Gate3Evidence, Recovery
from dcpflow.protocol.pair_consistency import gate3_faults
from dcpflow.protocol.registration import Registration, Violation, registration_violations
from dcpflow.protocol.remarks import remarks
from dcpflow.protocol.verdicts import Verdict, core_verdict, evidence_verdict


@dataclass(frozen=True, slots=True)
class Decision:
    """Everything that was decided, and every number behind it.

    Attributes:
        core: Whether the claim is a discovery beyond the challengers' reach.
        evidence: Whether truthful feedback made the difference.
        violations: Of the registration.
        faults: Of the evidence, those found here and those handed in.
        notes: Remarks that decide nothing.
        gate1: None where it could not be evaluated (O2).
        gate2: None likewise.
        gate3: None likewise, or where there is no feedback experiment.
        verifier_flaw: As handed in.
    """

    core: Verdict
    evidence: Verdict
    violations: tuple[Violation, ...]
    faults: tuple[Fault, ...]
    notes: tuple[Fault, ...]
    gate1: Gate1Result | None
    gate2: RecoveryResult | None
    gate3: Gate3Result | None
    verifier_flaw: bool

    @property
    def complete(self) -> bool:
        """Whether nothing about the registration and the evidence stood in the way."""
        return not self.violations and not self.faults


def decide(
    reg: Registration,
    gate1: Gate1Evidence,
    gate2: Gate2Evidence,
    gate3: Gate3Evidence | None = None,
    faults: Iterable[Fault] = (),
    *,
    verifier_flaw: bool = False,
) -> Decision:
    """Decide an audit. A pure function of its arguments, which are immutable and of the annotated types (O1).

    Conditions that the evidence and the registration show by themselves are checked here (``consistency`` and
    ``pair_consistency``). All others come in as faults: for our own evidence from checks over records, for an
    imported bundle from its self-attested envelope and its digests. Each fault says what it blocks.

    Nothing about the evidence raises: what keeps a gate from being evaluated makes a verdict inconclusive.

    Beyond the reference, a neutral hit inside the challengers' scope survives a fault of Core exactly as a
    challenger's hit does, if its own records and the claim's are clean.

    Args:
        reg: What was registered.
        gate1: Sealed results of A* and the baseline.
        gate2: The challengers.
        gate3: The feedback experiment, if there is one. Its neutral branches may bear on Core
            whatever the grade.
        faults: Conditions that do not hold and that only the caller can see.
        verifier_flaw: The verifier itself is known to be wrong for this evidence (O4). Part of the decision,
            so that a replay repeats it.

    Returns:
        The decision.
    """
    violations = registration_violations(reg)
    all_faults = tuple(faults)
    one: Gate1Result | None = None
    two: RecoveryResult | None = None
    three: Gate3Result | None = None
    all_faults += gate1_faults(gate1) + gate2_faults(reg, gate2)
    if gate3 is not None:
        all_faults += gate3_faults(reg, gate2, gate3, gate1.claimed)
    if not violations:  # O2
        if gate3 is not None:
            three, unforeseen = _feedback(reg, gate1, gate2, gate3, all_faults)
            all_faults += unforeseen
        two = _challengers(reg, gate1, gate2, all_faults)
        if blocking(all_faults, Stake.CORE) and not (three is not None and three.neutral.refutes_core):
            three = None
        if two is not None or three is not None:
            one = evaluate_gate1(reg, gate1)
    core = core_verdict(
        reg,
        violations,
        all_faults,
        gate1=one,
        gate2=two,
        gate3=three,
        checkpoint_scope=gate3.checkpoint_scope if gate3 is not None else "",
        verifier_flaw=verifier_flaw,
    )
    return Decision(
        core=core,
        evidence=evidence_verdict(reg, core, all_faults, three),
        violations=violations,
        faults=all_faults,
        notes=remarks(reg, gate1, gate2, two, three),
        gate1=one,
        gate2=two,
        gate3=three,
        verifier_flaw=verifier_flaw,
    )


def _challengers(
    reg: Registration, gate1: Gate1Evidence, gate2: Gate2Evidence, faults: tuple[Fault, ...]
) -> RecoveryResult | None:
    """O2: all challengers; with a fault of Core those with clean records, and only if one of them hit."""
    if not blocking(faults, Stake.CORE):
        return evaluate_gate2(reg, gate2, gate1.claimed)
    if blocking_all(faults, Stake.CHALLENGER_HIT):
        return None
    blocked = blocked_indices(faults, Stake.CHALLENGER_HIT)
    draws = Counter(attempt.draw_receipt for attempt in gate2.attempts)
    # Attempts that share a draw lean on one another's records, so none of them stands alone.
    candidates = tuple(
        attempt
        for index, attempt in enumerate(gate2.attempts)
        if index not in blocked and draws[attempt.draw_receipt] == 1
    )
    rows = classify_all(
        reg,
        candidates,
        gate1.claimed,
        reg.challenger_contract_digest,
        reg.challenge_distribution_digest,
    )
    compared = tuple(attempt for attempt, row in zip(candidates, rows, strict=True) if row.difference is not None)
    result = evaluate_gate2(reg, replace(gate2, attempts=compared), gate1.claimed)
    return result if result.recovery is Recovery.RECOVERED else None


def _feedback(
    reg: Registration,
    gate1: Gate1Evidence,
    gate2: Gate2Evidence,
    gate3: Gate3Evidence,
    faults: tuple[Fault, ...],
) -> tuple[Gate3Result, tuple[Fault, ...]]:
    """O3: Gate 3 as far as the faults allow, and as far as it can be computed.

    A core grade's Gate 3 numbers are not validated, so they may be such that nothing can be computed from
    them. Then that part is left out, with a fault that says so: first the effect, then the neutral bound.
    What is left, the search for neutral hits, needs none of these numbers.
    """
    unforeseen: tuple[Fault, ...] = ()
    for blocks in (EVIDENCE_ONLY, NEUTRAL_DISCLOSURE):
        try:
            return evaluate_gate3(reg, gate3, gate1.claimed, gate2.conditions, faults + unforeseen), unforeseen
        except (ArithmeticError, LookupError, ValueError) as error:
            unforeseen += (Fault("evaluation_error", "gate3", f"{type(error).__name__}: {error}", blocks),)
    return evaluate_gate3(reg, gate3, gate1.claimed, gate2.conditions, faults + unforeseen), unforeseen
