"""The published scenarios with their expected decisions, under their own row numbers.

Left out, since they test only the reference's own Python surface:
    2 and the first half of 3 (its Student-t helpers, which no rule uses); 64's ``evaluate(None)`` (our decoders
    refuse such input, and the type checker refuses such calls); F1 to F8 (its facade) and P1 to P8 (its
    command line and its published release). 15, 31, 32 and 54 concern wrong or missing JSON values: ours refuses
    them when reading, see also ``test_dcp_audit``, where rows B1 to B12 are.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
import math
from collections.abc import Callable

import pytest

from dcpflow.bundles.dcp_audit import BundleError, digests
from dcpflow.protocol import (
    AttemptStatus,
    Check,
    Decision,
    Effect,
    InconclusiveClass,
    Recovery,
    Status,
    decide,
    gate3,
    plain,
    registration_violations,
)
from dcpflow.protocol.intervals import finite_set_exact, paired_binary_exact, zero_hit_upper_bound
from dcpflow.protocol.pairs import PairStatus
from dcpflow.protocol.replacements import read_ledger
from protocol.builders import (
    Case,
    adequacy,
    control,
    core_case,
    decided,
    decoded,
    evidence_case,
    failed,
    feedback_pair,
    lineage_empty,
    lost,
    neutral_hits,
    noisy,
    null_pair,
    seal,
    small_evidence_case,
)

CERTIFIED, REFUTED, INCONCLUSIVE = Status.CERTIFIED, Status.REFUTED, Status.INCONCLUSIVE
NOT_TESTED = Status.NOT_TESTED
AUDIT, STATISTICAL = InconclusiveClass.AUDIT_INCOMPLETE, InconclusiveClass.STATISTICAL_UNCERTAINTY

Scenario = Callable[[], None]
ROWS: dict[str, Scenario] = {}


def row(number: str) -> Callable[[Scenario], Scenario]:
    def register(scenario: Scenario) -> Scenario:
        assert number not in ROWS, f"row {number} twice"
        ROWS[number] = scenario
        return scenario

    return register


@pytest.mark.parametrize("number", [pytest.param(n, id=f"row{n}") for n in []] or ["placeholder"])
def _unused(number: str) -> None: ...


# --- helpers -----------------------------------------------------------------------------------------------


@functools.cache
def _base(kind: str) -> Case:
    return {"core": core_case, "small": small_evidence_case, "published": lambda: evidence_case(units=20)}[kind]()


def core() -> Case:
    return copy.deepcopy(_base("core"))


def small(**registration: object) -> Case:
    case = copy.deepcopy(_base("small"))
    case["registration"].update(registration)
    return case


def published() -> Case:
    return copy.deepcopy(_base("published"))


def verdicts(decision: Decision) -> tuple[Status, Status]:
    return decision.core.status, decision.evidence.status


def checks(decision: Decision) -> set[str]:
    return {fault.check for fault in decision.faults}


def expect_core(case: Case, status: Status, kind: InconclusiveClass | None = None) -> Decision:
    decision = decided(case)
    assert (decision.core.status, decision.core.inconclusive_class) == (status, kind), decision.core
    return decision


def misses(n: int, units: int = 200) -> list[dict[str, object]]:
    return [control(i, noisy(0.70, units, 0.01, seed=i + 1)) for i in range(n)]


# --- numbers -----------------------------------------------------------------------------------------------


@row("1")
def _() -> None:
    assert zero_hit_upper_bound(59, 0.05) == pytest.approx(0.05, abs=1e-3)
    assert zero_hit_upper_bound(72, 0.025) == pytest.approx(0.05, abs=1e-3)
    assert zero_hit_upper_bound(0, 0.05) == 1.0


@row("3")
def _() -> None:
    exact = finite_set_exact([0.3], 0.95)
    assert exact.lower == exact.upper == 0.3


@row("4")
def _() -> None:
    assert decided(published()).violations == ()


@row("61a")
def _() -> None:
    assert paired_binary_exact([1.0] * 199 + [0.0], 0.995).lower < 0.97


# --- Core --------------------------------------------------------------------------------------------------


@row("5")
def _() -> None:
    decision = expect_core(core(), CERTIFIED)
    assert decision.gate2.recovery is Recovery.NOT_RECOVERED_WITHIN_SCOPE
    assert decision.complete


@row("6")
def _() -> None:
    case = core()
    case["gate2"]["controls"][-1]["per_unit"] = noisy(0.90, 200, 0.01, seed=9)
    decision = expect_core(seal(case), REFUTED)
    assert decision.gate2.hits == 1


@row("7")
def _() -> None:
    decision = expect_core(core_case(controls=misses(40), m_max=40), INCONCLUSIVE)if False else decided(
        with_registration(core_case(controls=misses(40)), m_max=40)
    )
    assert decision.core.inconclusive_class is STATISTICAL
    assert decision.gate2.bound > 0.05
