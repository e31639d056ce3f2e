"""The evidence of an audit that never took place, as the decision engine reads it: from counts to records.

Of the episodes nothing but the counts matters to the rules, so that equal counts give equal evidence. Every name and
digest is in order: what a synthetic audit comes to follows from what its episodes came to alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Any, Final

from dcpflow.protocol.model import (
    Adequacy,
    Attempt,
    Branch,
    Conditions,
    FeedbackPair,
    Gate1Evidence,
    Gate2Evidence,
    Gate3Evidence,
    NullCalibration,
    NullPair,
    Outcome,
    ScoredArtifact,
    Validity,
)
from dcpflow.protocol.registration import BINARY, Registration

HIT: Final = "hit"
MISS: Final = "miss"
FAILURE: Final = "failure"
LOST: Final = "lost"
SCORED: Final = frozenset({HIT, MISS})
"""What leaves an artifact that is scored."""

BRANCH_ENDS: Final = (HIT, FAILURE, MISS)
"""What a branch of a pair that was not lost may come to."""

PAIR_ENDS: Final = tuple((first, second) for first in BRANCH_ENDS for second in BRANCH_ENDS)


@dataclass(frozen=True, slots=True)
class Counts:
    """What the episodes of one audit came to.

    Attributes:
        hits: challengers that recovered the outcome.
        failures: challengers that committed nothing.
        lost: challengers lost to infrastructure.
        misses: all other challengers.
        controls: positive controls that succeeded.
        pairs: feedback pairs by :data:`PAIR_ENDS`, truthful arm first.
        replaced: feedback pairs that were lost and replaced.
        pairs_lost: lost ones that could not be replaced.
        null_pairs: null pairs by :data:`PAIR_ENDS`, reference arm first.
        null_replaced: as ``replaced``.
        null_lost: as ``pairs_lost``.
    """

    hits: int
    failures: int
    lost: int
    misses: int
    controls: int
    pairs: tuple[int, ...] = ()
    replaced: int = 0
    pairs_lost: int = 0
    null_pairs: tuple[int, ...] = ()
    null_replaced: int = 0
    null_lost: int = 0

    @property
    def challengers(self) -> int:
        """Those that were started."""
        return self.hits + self.failures + self.lost + self.misses

    @property
    def pairs_started(self) -> int:
        """Feedback pairs that were started."""
        return sum(self.pairs) + self.replaced + self.pairs_lost


@dataclass(frozen=True, slots=True)
class Scores:
    """What artifacts score, unit by unit.

    Attributes:
        claimed: the claimed artifact and every one that recovers.
        baseline: the baseline.
        miss: every other artifact.
    """

    claimed: tuple[float, ...]
    baseline: tuple[float, ...]
    miss: tuple[float, ...]

    @property
    def units(self) -> tuple[str, ...]:
        """Names of the sealed units."""
        return tuple(f"unit-{number}" for number in range(1, len(self.claimed) + 1))


@dataclass(frozen=True)
class Synthesis:
    """Makes evidence under one registration.

    Attributes:
        reg: what is registered.
        controls: positive controls of each audit.
        scores: of each artifact where nothing else is said.
    """

    reg: Registration
    controls: int
    scores: Scores
    _made: dict[Any, Any] = field(default_factory=dict)

    def gate1(self, scores: Scores | None = None) -> Gate1Evidence:
        """The claimed artifact and the baseline."""
        found = scores or self.scores
        return Gate1Evidence(
            ScoredArtifact("claimed", found.units, found.claimed, Validity.VALID, "claimed artifact"),
            ScoredArtifact("baseline", found.units, found.baseline, Validity.VALID, "baseline"),
        )

    def gate2(self, counts: Counts, scores: Iterator[tuple[float, ...]] | None = None) -> Gate2Evidence:
        """Challengers and controls; the scores of artifacts one by one where they differ."""
        key = (counts.hits, counts.failures, counts.lost, counts.misses)
        if scores is None and key in self._made:
            attempts = self._made[key]
        else:
            ends = (*(HIT,) * counts.hits, *(FAILURE,) * counts.failures, *(LOST,) * counts.lost)
            attempts = tuple(
                self._attempt(number, end, scores) for number, end in enumerate((*ends, *(MISS,) * counts.misses), 1)
            )
            if scores is None:
                self._made[key] = attempts
        return Gate2Evidence(attempts, self._adequacy(counts.controls), self._conditions)

    def gate3(self, counts: Counts, scores: Iterator[tuple[float, ...]] | None = None) -> Gate3Evidence | None:
        """The feedback experiment and its null study; None for grade core."""
        reg = self.reg
        if reg.grade != "evidence":
            return None
        key = ("pairs", counts.pairs, counts.replaced, counts.pairs_lost)
        pairs = self._made.get(key) if scores is None else None
        if pairs is None:
            started = _started(counts.pairs, counts.replaced, counts.pairs_lost)
            pairs = tuple(self._pair(number, ends, parent, scores) for number, (ends, parent) in enumerate(started, 1))
            if scores is None:
                self._made[key] = pairs
        return Gate3Evidence(
            pairs=pairs,
            null=self._null(counts),
            neutral_adequacy=self._adequacy(counts.controls),
            neutral_conditions=self._conditions,
            checkpoint_scope=reg.checkpoint_scope,
            checkpoint_digest="checkpoint",
            window_digest="window",
            pairs_digest="pairs",
            paired_contract_digest=reg.paired_contract_digest,
            truthful_contract_digest=reg.truthful_contract_digest,
            neutral_contract_digest=reg.neutral_contract_digest,
            neutral_recovery_contract_digest=reg.neutral_recovery_contract_digest,
            truthful_generator_digest=reg.truthful_generator_digest,
            neutral_generator_digest=reg.neutral_generator_digest,
            preseal_receipt="checkpoint",
            sealed_before_branches=True,
            sealed_event_index=0,
            first_branch_event_index=1,
            neutral_scope_digest="scope",
            design_checks_pass=True,
            stopping_rule_pass=True,
            registered_pairs_complete=True,
            all_started_disclosed=True,
            no_replacements=not counts.replaced,
            paired_contract_audit_pass=True,
            truthful_channel_audit_pass=True,
            neutral_channel_audit_pass=True,
            started_pairs=len(pairs),
        )

    def started(self, counts: Counts) -> Iterator[tuple[str, str]]:
        """What the branches of all started feedback pairs came to, in the order of :meth:`gate3`."""
        if self.reg.grade == "evidence":
            yield from (ends for ends, _ in _started(counts.pairs, counts.replaced, counts.pairs_lost))

    @property
    def _conditions(self) -> Conditions:
        reg = self.reg
        return Conditions(
            model_id=reg.model_id,
            interface_digest=reg.interface_digest,
            resource_digest=reg.branch_resource_digest,
            opportunity_digest=reg.branch_opportunity_digest,
            policy_digest=reg.branch_policy_digest,
            knowledge_digest="K",
            initial_evidence_digest="E0",
            web_digest="W",
        )

    def _adequacy(self, successes: int) -> Adequacy:
        return Adequacy(
            matched_model_present=True,
            materials_readable=True,
            opportunity_floor_met=True,
            health_audit_pass=True,
            positive_control_successes=successes,
            positive_control_trials=self.controls,
            calibration_id="positive-controls",
            checks_digest="checks",
        )

    def _attempt(self, number: int, end: str, scores: Iterator[tuple[float, ...]] | None) -> Attempt:
        reg = self.reg
        return Attempt(
            attempt_id=f"challenger-{number}",
            stratum=reg.challenger_stratum,
            contract_digest=reg.challenger_contract_digest,
            prestart_receipt=f"prestart-{number}",
            distribution_digest=reg.challenge_distribution_digest,
            draw_receipt=f"draw-{number}",
            independent_unit=f"unit-of-draw-{number}",
            independent=True,
            **self._result(end, f"artifact-{number}", scores),
        )

    def _result(self, end: str, name: str, scores: Iterator[tuple[float, ...]] | None) -> dict[str, Any]:
        if end == LOST:
            return {"outcome": Outcome.INFRASTRUCTURE_INVALID, "infrastructure_independent": True}
        if end == FAILURE:
            return {"outcome": Outcome.MODEL_FAILURE}
        same = self.scores.claimed if end == HIT else self.scores.miss
        return {
            "outcome": Outcome.ARTIFACT,
            "validity": Validity.VALID,
            "artifact_digest": name,
            "scores": same if scores is None else next(scores),
            "unit_ids": self.scores.units,
        }

    def _pair(
        self, number: int, ends: tuple[str, str], parent: str, scores: Iterator[tuple[float, ...]] | None
    ) -> FeedbackPair:
        reg = self.reg
        return FeedbackPair(
            **_identity("pair", number, parent, reg.pair_distribution_digest),
            truthful=self._branch(f"truthful-{number}", ends[0], reg.truthful_contract_digest, scores),
            neutral=self._branch(f"neutral-{number}", ends[1], reg.neutral_contract_digest, scores),
        )

    def _branch(self, name: str, end: str, contract: str, scores: Iterator[tuple[float, ...]] | None) -> Branch:
        return Branch(
            branch_id=name,
            result_digest=f"result-{name}",
            contract_digest=contract,
            prestart_receipt=f"prestart-{name}",
            **self._result(end, f"artifact-{name}", scores),
        )

    def _null_branch(self, name: str, end: str, contract: str) -> Branch:
        result = self._result(end, f"artifact-{name}", None)
        if result["outcome"] is Outcome.ARTIFACT:
            binary = self.reg.feedback_estimand == BINARY
            high, low = (1.0, 0.0) if binary else (self.scores.claimed[0], self.scores.miss[0])
            result |= {"scores": None, "unit_ids": (), "utility": high if end == HIT else low}
        return Branch(
            branch_id=name,
            result_digest=f"result-{name}",
            contract_digest=contract,
            prestart_receipt=f"prestart-{name}",
            **result,
        )

    def _null(self, counts: Counts) -> NullCalibration:
        key = ("null", counts.null_pairs, counts.null_replaced, counts.null_lost)
        if key not in self._made:
            self._made[key] = self._null_study(counts)
        found: NullCalibration = self._made[key]
        return found

    def _null_study(self, counts: Counts) -> NullCalibration:
        reg = self.reg
        started = _started(counts.null_pairs, counts.null_replaced, counts.null_lost)
        pairs = tuple(
            NullPair(
                **_identity("null", number, parent, reg.null_distribution_digest),
                reference=self._null_branch(f"reference-{number}", ends[0], reg.null_reference_contract_digest),
                proposed=self._null_branch(f"proposed-{number}", ends[1], reg.null_proposed_contract_digest),
            )
            for number, (ends, parent) in enumerate(started, 1)
        )
        return NullCalibration(
            pairs=pairs,
            calibration_id=reg.null_calibration_id,
            development_digest="development",
            confirmatory_digest="confirmatory",
            task_profile=reg.task_profile,
            model_id=reg.model_id,
            interface_digest=reg.interface_digest,
            scaffold_digest=reg.scaffold_digest,
            feedback_schema_digest=reg.feedback_schema_digest,
            operator_digest=reg.neutral_operator_digest,
            reference_generator_digest=reg.reference_generator_digest,
            utility_scale_id=reg.utility_scale_id,
            paired_contract_digest=reg.null_paired_contract_digest,
            reference_contract_digest=reg.null_reference_contract_digest,
            proposed_contract_digest=reg.null_proposed_contract_digest,
            preseal_receipt="contract",
            sealed_before_branches=True,
            sealed_event_index=0,
            first_branch_event_index=1,
            channel_checks_pass=True,
            fresh=True,
            operator_frozen_first=True,
            development_disjoint=True,
            all_started_disclosed=True,
            no_replacements=not counts.null_replaced,
            started_pairs=len(pairs),
        )


def _identity(kind: str, number: int, parent: str, distribution: str) -> dict[str, Any]:
    return {
        "pair_id": f"{kind}-{number}",
        "block_id": f"{kind}-block-{number}",
        "distribution_digest": distribution,
        "draw_receipt": f"{kind}-draw-{number}",
        "assignment_frozen": True,
        "independent": True,
        "replacement_of": parent and f"{kind}-{parent}",
    }


def _started(ends: Sequence[int], replaced: int, lost: int) -> Iterator[tuple[tuple[str, str], str]]:
    """The started pairs with the number of the pair that each replaces, all replacements in one chain at the start."""
    terminal = [end for end, count in zip(PAIR_ENDS, ends, strict=True) for end in repeat(end, count)]
    everything = [*repeat((LOST, LOST), replaced), *terminal, *repeat((LOST, LOST), lost)]
    parents = chain([""], map(str, range(1, replaced + 1)), repeat(""))
    return zip(everything, parents, strict=False)
