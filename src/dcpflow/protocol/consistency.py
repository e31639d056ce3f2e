"""Whether the records of Gate 1 and Gate 2 can be what they say they are.

These conditions need nothing but the evidence and the registration, so ``decision.decide`` checks them
itself, for our own evidence as for imported bundles. What needs more (digests, order of events, attestations)
comes to it as faults from outside.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from dcpflow.protocol.faults import CHALLENGERS, CORE_ONLY, EVERY_HIT, Fault, Stake
from dcpflow.protocol.intervals import within_unit_interval
from dcpflow.protocol.model import (
    Attempt,
    Branch,
    Gate1Evidence,
    Gate2Evidence,
    Outcome,
    ScoredArtifact,
    Validity,
)
from dcpflow.protocol.registration import Registration
from dcpflow.protocol.text import all_canonical, is_canonical, is_explicit


def gate1_faults(evidence: Gate1Evidence) -> tuple[Fault, ...]:
    """A*'s and the baseline's records; without them not even a hit means anything."""
    claimed, baseline = evidence.claimed, evidence.baseline
    found = [*_artifact_faults("gate1.claimed", claimed), *_artifact_faults("gate1.baseline", baseline)]
    if baseline.unit_ids != claimed.unit_ids:
        found.append(_every_hit("unit_alignment", "gate1.baseline.unit_ids", "not A*'s units in A*'s order"))
    if is_explicit(claimed.digest) and baseline.digest == claimed.digest:
        same = (baseline.scores, baseline.validity) == (claimed.scores, claimed.validity)
        if not same:
            detail = "one artifact with two different results: it has A*'s digest"
            found.append(_every_hit("artifact_identity", "gate1.baseline", detail))
    return tuple(found)


def gate2_faults(reg: Registration, evidence: Gate2Evidence) -> tuple[Fault, ...]:
    """The challengers' records, each by itself and all together."""
    attempts = evidence.attempts
    return (
        *_attempt_faults(attempts),
        *unique_faults(
            "attempts",
            {
                "attempt_id": [attempt.attempt_id for attempt in attempts],
                "prestart_receipt": [attempt.prestart_receipt for attempt in attempts],
            },
            CHALLENGERS,
        ),
        *_draw_faults(attempts),
        *_number_faults(reg, evidence),
    )


def outcome_faults(place: str, row: Attempt | Branch, blocks: frozenset[Stake], index: int) -> Iterator[Fault]:
    """Whether an attempt's or branch's result agrees with how it ended."""
    if row.outcome is Outcome.ARTIFACT:
        if not is_explicit(row.artifact_digest):
            yield Fault("artifact_digest", place, "an artifact without a digest", blocks, index)
    else:
        carries = row.scores is not None or row.unit_ids or is_explicit(row.artifact_digest)
        unresolved = row.outcome in (Outcome.INFRASTRUCTURE_INVALID, Outcome.UNRESOLVED)
        validity = (Validity.UNRESOLVED,) if unresolved else (Validity.UNRESOLVED, Validity.INVALID)
        if carries or row.validity not in validity:
            detail = f"ended as {row.outcome.value}, but carries an artifact's results"
            yield Fault("outcome_conflict", place, detail, blocks, index)
        if row.infrastructure_independent and row.outcome is not Outcome.INFRASTRUCTURE_INVALID:
            detail = "called a loss independent of the agent, but it was not lost to infrastructure"
            yield Fault("outcome_conflict", place, detail, blocks, index)
    if row.scores is not None and not within_unit_interval(row.scores):
        yield Fault("scores", f"{place}.scores", "not all finite and within [0, 1]", blocks, index)
    if not all_canonical(row.unit_ids):
        detail = "a name with blanks or invisible characters"
        yield Fault("unit_canonical", f"{place}.unit_ids", detail, blocks, index)


def unique_faults(
    place: str, columns: Mapping[str, Sequence[str]], blocks: frozenset[Stake], *, rows_per_index: int = 1
) -> Iterator[Fault]:
    """Identifiers that must be canonical and name one row each.

    Args:
        place: Name of the table.
        columns: Its identifying columns.
        blocks: What a fault blocks.
        rows_per_index: Number of consecutive values that belong to one index (2 for the arms of a pair).
    """
    for name, values in columns.items():
        rows: dict[str, list[int]] = defaultdict(list)
        for position, value in enumerate(values):
            index = position // rows_per_index
            rows[value].append(index)
            if not is_canonical(value):
                detail = f"{value!r} is not a name without blanks or invisible characters"
                yield Fault(f"{name}_canonical", f"{place}[{index}].{name}", detail, blocks, index)
        for value, where in rows.items():
            if len(where) > 1 and is_canonical(value):
                for index in sorted(set(where)):
                    detail = f"{value!r} is used {len(where)} times"
                    yield Fault(f"{name}_unique", f"{place}[{index}].{name}", detail, blocks, index)


def _artifact_faults(place: str, artifact: ScoredArtifact) -> Iterator[Fault]:
    if not is_explicit(artifact.name):
        yield _every_hit("artifact_name", f"{place}.name", "an artifact without a name")
    if not is_explicit(artifact.digest):
        yield _every_hit("artifact_digest", f"{place}.digest", "an artifact without a digest")
    if not artifact.scores:
        yield _every_hit("scores", f"{place}.scores", "no scores")
    if len(artifact.unit_ids) != len(artifact.scores):
        detail = f"{len(artifact.scores)} scores for {len(artifact.unit_ids)} units"
        yield _every_hit("unit_alignment", place, detail)
    if not all_canonical(artifact.unit_ids):
        yield _every_hit("unit_canonical", f"{place}.unit_ids", "a name with blanks or invisible characters")
    if len(set(artifact.unit_ids)) != len(artifact.unit_ids):
        yield _every_hit("unit_unique", f"{place}.unit_ids", "a unit twice")
    if not within_unit_interval(artifact.scores):
        yield _every_hit("scores", f"{place}.scores", "not all finite and within [0, 1]")


def _every_hit(check: str, place: str, detail: str) -> Fault:
    return Fault(check, place, detail, EVERY_HIT)


def _attempt_faults(attempts: Sequence[Attempt]) -> Iterator[Fault]:
    for index, attempt in enumerate(attempts):
        place = f"attempts[{index}]"
        yield from outcome_faults(place, attempt, CHALLENGERS, index)
        for name in ("contract_digest", "distribution_digest"):
            if not is_explicit(getattr(attempt, name)):
                yield Fault(name, f"{place}.{name}", "not given", CHALLENGERS, index)
        names = {"stratum": attempt.stratum, "draw_receipt": attempt.draw_receipt}
        if attempt.independent:
            names["independent_unit"] = attempt.independent_unit
        for name, value in names.items():
            if not is_canonical(value):
                detail = f"{value!r} is not a name without blanks or invisible characters"
                yield Fault(f"{name}_canonical", f"{place}.{name}", detail, CHALLENGERS, index)


def _draw_faults(attempts: Sequence[Attempt]) -> Iterator[Fault]:
    """Independent units and draws must be one and the same partition of the attempts.

    An attempt that names no unit belongs to none; the reference takes all of them for one unit, and so finds
    a conflict between any two of them.
    """
    units: dict[str, set[str]] = defaultdict(set)
    draws: dict[str, set[str]] = defaultdict(set)
    for attempt in attempts:
        if attempt.independent_unit.strip():
            units[attempt.independent_unit].add(attempt.draw_receipt)
            draws[attempt.draw_receipt].add(attempt.independent_unit)
    for index, attempt in enumerate(attempts):
        if len(units.get(attempt.independent_unit, ())) > 1:
            detail = f"independent unit {attempt.independent_unit!r} comes from more than one draw"
            yield Fault("draw_of_unit", f"attempts[{index}]", detail, CORE_ONLY, index)
        if len(draws.get(attempt.draw_receipt, ())) > 1:
            detail = f"draw {attempt.draw_receipt!r} is used for more than one independent unit"
            yield Fault("draw_reused", f"attempts[{index}]", detail, CHALLENGERS, index)


def _number_faults(reg: Registration, evidence: Gate2Evidence) -> Iterator[Fault]:
    attempts = evidence.attempts
    if len(attempts) > reg.max_attempts:
        detail = f"{len(attempts)} attempts, registered maximum {reg.max_attempts}"
        yield Fault("attempt_number", "attempts", detail, CHALLENGERS)
    matched = any(attempt.contract_digest == reg.challenger_contract_digest for attempt in attempts)
    if matched and not evidence.adequacy.matched_model_present:
        # One of the two statements is wrong, and a hit could be another model's.
        detail = "says that no challenger matched the claimant, but one ran under the registered contract"
        yield Fault("matched_model", "adequacy.matched_model_present", detail, CHALLENGERS)
    adequacy = evidence.adequacy
    if not adequacy.controls_on_record:
        detail = f"{adequacy.positive_control_successes} successes in {adequacy.positive_control_trials} trials"
        yield Fault("positive_controls", "adequacy.positive_controls", detail, CORE_ONLY)
    if not is_explicit(adequacy.calibration_id):
        yield Fault("calibration_id", "adequacy.calibration_id", "positive controls without a name", CORE_ONLY)
