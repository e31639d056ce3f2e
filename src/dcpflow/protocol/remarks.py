"""Remarks on the evidence that decide nothing, and that a reader of a certificate should see."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from dcpflow.protocol.faults import Fault
from dcpflow.protocol.gate2 import RecoveryResult
from dcpflow.protocol.gate3 import Gate3Result
from dcpflow.protocol.model import Attempt, Check, Gate1Evidence, Gate2Evidence
from dcpflow.protocol.registration import EXHAUSTIVE_FINITE_SET, Registration


def remarks(
    reg: Registration,
    gate1: Gate1Evidence,
    gate2: Gate2Evidence,
    recovery: RecoveryResult | None,
    feedback: Gate3Result | None,
) -> tuple[Fault, ...]:
    """All remarks; they block nothing."""
    return (
        *_units(reg, gate1),
        *_failures_in_bound(reg, recovery),
        *_scored_twice(gate2.attempts),
        *_null_without_spread(feedback),
    )


def _units(reg: Registration, gate1: Gate1Evidence) -> Iterator[Fault]:
    if reg.inference_scope == EXHAUSTIVE_FINITE_SET:
        n = len(gate1.claimed.unit_ids)
        detail = f"exact on {n} sealed units; nothing is said about any other unit"
        yield Fault("finite_set", "gate1", detail)


def _failures_in_bound(reg: Registration, recovery: RecoveryResult | None) -> Iterator[Fault]:
    """A bound that holds only because episodes without an artifact count as misses."""
    if recovery is None or recovery.bound is None or recovery.bound_without_failures is None:
        return
    if recovery.bound <= reg.rho < recovery.bound_without_failures:
        detail = (
            f"the bound is {recovery.bound:.6f} with model failures as misses, and "
            f"{recovery.bound_without_failures:.6f} without them, above rho {reg.rho}"
        )
        yield Fault("bound_rests_on_failures", "gate2", detail)


def _scored_twice(attempts: Sequence[Attempt]) -> Iterator[Fault]:
    """One artifact with different scores: the scorer is not a function of the artifact."""
    results: dict[str, set[tuple[float, ...]]] = defaultdict(set)
    for attempt in attempts:
        if attempt.artifact_digest and attempt.scores is not None:
            results[attempt.artifact_digest].add(attempt.scores)
    for digest, scores in results.items():
        if len(scores) > 1:
            detail = f"artifact {digest!r} has {len(scores)} different score records"
            yield Fault("artifact_scored_twice", "attempts", detail)


def _null_without_spread(feedback: Gate3Result | None) -> Iterator[Fault]:
    """A null study in which every branch scored the same could not have shown a difference."""
    if feedback is None or feedback.null is None or feedback.null.adequacy is not Check.PASS:
        return
    values = {value for row in feedback.null.pairs for value in row.utilities or ()}
    if len(values) == 1:
        detail = f"every null branch has the utility {values.pop()}; it could not have shown a difference"
        yield Fault("null_without_spread", "null.pairs", detail)
