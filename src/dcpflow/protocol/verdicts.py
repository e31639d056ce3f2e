"""The two verdicts: Core (V1 to V16), Evidence (E1 to E9), and the class of an inconclusive one (1.9)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dcpflow.protocol.faults import Fault, Stake, blocking
from dcpflow.protocol.gate1 import Gate1Result
from dcpflow.protocol.gate2 import RecoveryResult
from dcpflow.protocol.gate3 import Gate3Result
from dcpflow.protocol.model import Check, Effect, InconclusiveClass, Recovery, Status, Validity
from dcpflow.protocol.registration import LINEAGE_PREFIX, Registration, Violation

AUDIT = InconclusiveClass.AUDIT_INCOMPLETE
STATISTICAL = InconclusiveClass.STATISTICAL_UNCERTAINTY


@dataclass(frozen=True, slots=True)
class Verdict:
    """One verdict.

    Attributes:
        status: The verdict.
        inconclusive_class: Why it is inconclusive; None for every other status.
        rule: The rule that decided.
        reason: In words.
    """

    status: Status
    inconclusive_class: InconclusiveClass | None
    rule: str
    reason: str


def core_verdict(  # noqa: PLR0911  (one return for each rule)
    reg: Registration,
    violations: Sequence[Violation],
    faults: Sequence[Fault],
    *,
    gate1: Gate1Result | None,
    gate2: RecoveryResult | None,
    gate3: Gate3Result | None,
    checkpoint_scope: str,
    verifier_flaw: bool,
) -> Verdict:
    """Apply V1 to V16; the first match wins. Beyond the reference, a retrospective audit ends with V17.

    Args:
        reg: The registration.
        violations: Of the registration.
        faults: Of the evidence.
        gate1: None where it may not be evaluated (O2).
        gate2: None likewise.
        gate3: None likewise, or where there is no feedback experiment.
        checkpoint_scope: Of the feedback experiment's evidence; empty without one.
        verifier_flaw: The verifier itself is known to be wrong for this evidence.
    """
    # V1
    if violations:
        return _inconclusive(AUDIT, "V1", f"the registration is not admissible: {violations[0]}")
    recovered = gate2 is not None and gate2.recovery is Recovery.RECOVERED
    neutral_witness = gate3 is not None and gate3.neutral.refutes_core
    # V2. The reference lets only a challenger's hit pass; a neutral hit inside the challengers' scope is one.
    core_faults = blocking(faults, Stake.CORE)
    if core_faults and not (recovered or neutral_witness):
        return _inconclusive(AUDIT, "V2", str(core_faults[0]))
    if gate1 is None:
        return _inconclusive(AUDIT, "V2", "Gate 1 could not be evaluated")
    early = _gate1_verdict(gate1)
    if reg.retrospective:
        return _looking_back(early, gate1, gate2, verifier_flaw=verifier_flaw)
    if early is not None:
        return early
    # V10
    if verifier_flaw:
        return _flawed()
    # V11
    if gate2 is not None and recovered:
        return _recovered(gate2)
    # V12
    if gate3 is not None and neutral_witness:
        return _refuted("V12", f"a neutral branch is a challenger here: {gate3.neutral.reason}")
    # V13
    if gate3 is not None and gate3.neutral.in_challenger_scope and gate3.neutral.unresolved:
        return _inconclusive(
            recovery_class(gate3.neutral.terminal, reg.min_independent, reg.rho_neutral),
            "V13",
            f"{gate3.neutral.unresolved} neutral branches, which are challengers here, are unresolved",
        )
    # V14
    ledger_faults = blocking(faults, Stake.NEUTRAL_LEDGER)
    scope_known = not blocking(faults, Stake.NEUTRAL_SCOPE)
    if ledger_faults and not (checkpoint_scope == LINEAGE_PREFIX and scope_known):
        return _inconclusive(AUDIT, "V14", f"neutral branches may be challengers: {ledger_faults[0]}")
    # V15
    if gate2 is None or gate2.recovery is not Recovery.NOT_RECOVERED_WITHIN_SCOPE:
        return _inconclusive(
            recovery_class(gate2, reg.min_independent, reg.rho),
            "V15",
            f"challengers: {gate2.reason}" if gate2 else "Gate 2 could not be evaluated",
        )
    # V16
    return Verdict(Status.CERTIFIED, None, "V16", gate2.reason)


def _looking_back(
    early: Verdict | None, gate1: Gate1Result, gate2: RecoveryResult | None, *, verifier_flaw: bool
) -> Verdict:
    """What becomes of a retrospective audit: a challenger's hit refutes, and nothing certifies.

    What Gate 1 refutes (V4, V6, V8) may be the fault of what was rebuilt, so that it is said and decides nothing.
    Nobody recovers an artifact that is invalid.

    Args:
        early: what Gate 1 decides alone.
        gate1: its numbers.
        gate2: None where it may not be evaluated.
        verifier_flaw: as for :func:`core_verdict`.
    """
    if early is not None and early.status is not Status.REFUTED:
        return early
    if verifier_flaw:
        return _flawed()
    recovered = gate2 is not None and gate2.recovery is Recovery.RECOVERED
    if gate2 is not None and recovered and gate1.result_valid is Check.PASS:
        return _recovered(gate2)
    besides = f"; besides, {early.reason}" if early else ""
    found = f"; challengers: {gate2.reason}" if gate2 is not None and not recovered else ""
    reason = f"a retrospective audit certifies nothing, and no witness refutes the claim{besides}{found}"
    return _inconclusive(AUDIT, "V17", reason)


def _gate1_verdict(gate1: Gate1Result) -> Verdict | None:  # noqa: PLR0911  (one return for each rule)
    """V3 to V9: what Gate 1 decides alone; None if the claim stands so far."""
    # V3
    if gate1.baseline_validity is not Validity.VALID:
        return _inconclusive(AUDIT, "V3", f"the baseline is {gate1.baseline_validity.value}")
    # V4
    if gate1.result_valid is Check.FAIL:
        return _refuted("V4", "the claimed artifact is invalid")
    # V5
    if gate1.result_valid is Check.INCONCLUSIVE:
        return _inconclusive(AUDIT, "V5", "the claimed artifact's validity is not known")
    # V6
    if gate1.baseline_fails is Check.FAIL:
        return _refuted("V6", "the baseline recovers the outcome")
    # V7
    if gate1.baseline_fails is Check.INCONCLUSIVE:
        return _inconclusive(STATISTICAL, "V7", "it is not certain that the baseline misses the outcome")
    # V8
    if gate1.gain_reached is Check.FAIL:
        return _refuted("V8", f"the gain is certainly below delta_min: at most {gate1.gain.upper:.6f}")
    # V9
    if gate1.gain_reached is Check.INCONCLUSIVE:
        return _inconclusive(STATISTICAL, "V9", f"the gain is at least {gate1.gain.lower:.6f} only")
    return None


def evidence_verdict(  # noqa: PLR0911  (one return for each rule)
    reg: Registration, core: Verdict, faults: Sequence[Fault], gate3: Gate3Result | None
) -> Verdict:
    """Apply E1 to E9; the first match wins."""
    # E1
    if reg.grade != "evidence":
        return Verdict(Status.NOT_TESTED, None, "E1", "only Core was asked for")
    # E2
    if core.status is not Status.CERTIFIED:
        return Verdict(Status.NOT_TESTED, None, "E2", "Core is not certified")
    # E3
    if gate3 is None:
        return _inconclusive(AUDIT, "E3", "there is no feedback experiment")
    neutral = gate3.neutral
    # E4
    if reg.necessity_claimed and neutral.recovery is Recovery.RECOVERED:
        return _refuted("E4", f"the feedback was not necessary: {neutral.reason}")
    # E5
    evidence_faults = blocking(faults, Stake.EVIDENCE)
    null, effect = gate3.null, gate3.effect
    if evidence_faults or null is None or effect is None:
        reason = str(evidence_faults[0]) if evidence_faults else "Gate 3 could not be evaluated"
        return _inconclusive(AUDIT, "E5", reason)
    # E6
    if null.adequacy is not Check.PASS:
        chance = null.adequacy is Check.INCONCLUSIVE and null.difference is not None and null.difference.bounded
        return _inconclusive(STATISTICAL if chance else AUDIT, "E6", f"null calibration: {null.reason}")
    # E7
    if effect.effect is Effect.SUPPORTED:
        if reg.necessity_claimed and neutral.recovery is not Recovery.NOT_RECOVERED_WITHIN_SCOPE:
            kind = recovery_class(neutral.terminal, reg.min_independent, reg.rho_neutral)
            return _inconclusive(kind, "E7", f"necessity is open: {neutral.reason}")
        return Verdict(Status.CERTIFIED, None, "E7", effect.reason)
    # E8
    if effect.effect is Effect.NOT_SUPPORTED:
        return _refuted("E8", f"no such effect: {effect.reason}")
    # E9
    chance = effect.healthy and not effect.unresolved and effect.difference.bounded
    return _inconclusive(STATISTICAL if chance else AUDIT, "E9", effect.reason)


def recovery_class(result: RecoveryResult | None, min_independent: int, rho: float) -> InconclusiveClass:
    """1.9: whether more of the same evidence could have decided an inconclusive recovery."""
    if result is None or not result.adequate:
        return AUDIT
    if result.unresolved:
        return STATISTICAL if result.unresolved_straddling == result.unresolved else AUDIT
    if result.independent < min_independent:
        return AUDIT
    return STATISTICAL if result.bound is not None and result.bound > rho else AUDIT


def _flawed() -> Verdict:
    return _inconclusive(AUDIT, "V10", "the verifier is known to be wrong here")


def _recovered(gate2: RecoveryResult) -> Verdict:
    return _refuted("V11", f"a challenger recovered the outcome: {gate2.reason}")


def _inconclusive(kind: InconclusiveClass, rule: str, reason: str) -> Verdict:
    return Verdict(Status.INCONCLUSIVE, kind, rule, reason)


def _refuted(rule: str, reason: str) -> Verdict:
    return Verdict(Status.REFUTED, None, rule, reason)
