"""Our engine against the installed dcp-audit package, on 2,000 random evidence sets.

Compared is the whole certificate that the reference computes: both verdicts and classes, every status, count,
identifier and digest exactly, every number within 1e-12, whether each list of errors is empty. Only wording is
left out. Differences are allowed where our rules deliberately decide otherwise, and each of these departures
has to show itself.
"""

from __future__ import annotations

import copy
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from dcp.evaluate import evaluate

from dcpflow.bundles.dcp_audit import envelope_faults
from dcpflow.bundles.dcp_audit.certificate import expected_certificate
from dcpflow.bundles.dcp_audit.comparison import Comparison, compare
from dcpflow.bundles.dcp_audit.verify import departures
from dcpflow.protocol.decision import Decision, decide
from protocol.builders import (
    Case,
    decoded,
    evidence_case,
    lineage_empty,
    neutral_hits,
    reference,
    seal,
)
from protocol.random_evidence import random_case

SETS = 2000
DEPARTURES = {
    "a neutral hit in the challengers' scope survives faults of Core that do not touch it",
    "unresolved neutral branches count, though the feedback effect may not be evaluated",
    "an artifact with A*'s own digest is A*: a hit, or unresolved if its scores differ",
    "attempts that name no independent unit are not taken for one unit",
    "the utility of a null branch has to agree with its scores, where it has scores",
}
DECIDING_RULES = (
    {f"V{n}" for n in range(1, 17)}
    | {f"E{n}" for n in range(1, 10)}
    | {f"G2.{n}" for n in (*range(1, 9), 16, 17, 18)}
    | {"G3.11", "G3.12", "G3.13", "G3.15", "G3.16", "G3.17", "G3.18", "G3.19"}
)


def rules(decision: Decision) -> set[str]:
    """The rules that decided something here."""
    found = {decision.core.rule, decision.evidence.rule}
    if decision.gate2 is not None:
        found |= {decision.gate2.rule} | {row.rule for row in decision.gate2.attempts}
    if decision.gate3 is not None and decision.gate3.null is not None and decision.gate3.effect is not None:
        found |= {decision.gate3.null.rule, decision.gate3.effect.rule}
    return found


def against_the_reference(case: Case, *, flaw: bool = False) -> tuple[Comparison, Decision, tuple[str, ...]]:
    """The reference's certificate compared with ours, our decision, and the occasions for a departure."""
    theirs = evaluate(**reference(case), verifier_flaw=flaw).to_dict()
    parts = decoded(case)
    faults = envelope_faults(parts)
    decision = decide(parts.registration, parts.gate1, parts.gate2, parts.gate3, faults, verifier_flaw=flaw)
    return compare(theirs, expected_certificate(parts, decision)), decision, departures(parts, decision)


def test_the_reference_decides_the_same() -> None:
    seen: Counter[str] = Counter()
    departed: Counter[str] = Counter()
    equal = values = 0
    for seed in range(SETS):
        case, flaw = random_case(seed)
        comparison, decision, reasons = against_the_reference(case, flaw=flaw)
        values += comparison.compared
        seen.update(rules(decision))
        if not comparison.differences:
            equal += 1
            continue
        reasons = tuple(reason for reason in reasons if reason in DEPARTURES)
        assert reasons, (seed, [str(difference) for difference in comparison.differences[:5]])
        departed.update(reasons)
    print(
        f"\n{SETS} evidence sets, {values} values compared; equal: {equal}; "
        f"deliberately different: {SETS - equal}: {dict(departed)}\ndecided by: {dict(sorted(seen.items()))}",
        file=sys.stderr,
    )
    assert set(departed) == DEPARTURES
    assert set(seen) >= DECIDING_RULES, sorted(DECIDING_RULES - set(seen))
    assert equal >= 0.93 * SETS


# --- every field, altered ----------------------------------------------------------------------------------


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every value of a case; of a list its first element, and the list itself."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key != "notes":
                yield from leaves(inner, (*path, key))
    elif isinstance(value, list):
        yield path, value
        for inner in value[:1]:
            yield from leaves(inner, (*path, 0))
    else:
        yield path, value


def altered(key: Any, value: Any) -> list[Any]:
    words = {
        "outcome": ["model_failure", "infrastructure_invalid", "unresolved", "execution_contract_violation"],
        "validity": ["invalid", "unresolved"],
    }
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, str):
        return words.get(key, ["", "another", f"{value} "])
    if isinstance(value, list):
        return [[], value[:-1], value[::-1]] if value else []
    return [value + 1, -1, 0] if isinstance(value, int | float) else []


def _prefix() -> Case:
    return evidence_case(units=2, pairs=2, null_pairs=2, challengers=2)


def _empty_with_a_hit() -> Case:
    return neutral_hits(lineage_empty(_prefix()), [0])


@pytest.mark.parametrize(
    ("base", "part"), [(_prefix, ""), (_empty_with_a_hit, "gate3")], ids=["prefix", "empty with a hit"]
)
def test_every_altered_field_has_the_same_consequence(base: Any, part: str) -> None:
    """Each field with all digests redone; and once left to contradict its digests."""
    case = base()
    tried = departed = 0
    for path, value in leaves(case):
        if part and path[0] != part:
            continue
        for nth, change in enumerate(altered(path[-1], value)):
            for redo in (False, True) if nth == 0 else (True,):
                changed = copy.deepcopy(case)
                target = changed
                for key in path[:-1]:
                    target = target[key]
                if target[path[-1]] == change:
                    continue
                target[path[-1]] = change
                if redo:
                    seal(changed)
                comparison, _, reasons = against_the_reference(changed)
                tried += 1
                departed += bool(comparison.differences)
                where = (path, change, redo, [str(d) for d in comparison.differences[:4]])
                assert set(reasons) & DEPARTURES or not comparison.differences, where
    print(f"\n{base.__name__}: {tried} altered fields, {departed} deliberately different", file=sys.stderr)
    assert tried > 400
