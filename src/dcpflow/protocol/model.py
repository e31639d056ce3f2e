"""The vocabulary of the decision: what an audit observed, in the terms of the field.

Everything here is plain, immutable data. A value says what was recorded, never what it means: meaning is
given by :mod:`~dcpflow.protocol.gate1`, :mod:`~dcpflow.protocol.gate2` and the Gate 3 modules, and the
numbers to compare with stand in :class:`~dcpflow.protocol.registration.Registration`.

Conventions:
    * A *digest* or *receipt* is an opaque string to the rules; whoever builds the evidence has recomputed it.
    * Scores are fractions of the registered score range, in [0, 1], one for each sealed unit, in the order
      of ``unit_ids``.
    * A field that defaults to ``False``, ``""`` or ``UNRESOLVED`` defaults to "not shown", which never helps
      a claim.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Validity(StrEnum):
    """Whether an artifact keeps the task's rules, as the sealed scorer found it."""

    VALID = "valid"
    INVALID = "invalid"
    UNRESOLVED = "unresolved"


class Outcome(StrEnum):
    """How an episode ended, before anything is scored."""

    ARTIFACT = "artifact"
    """It committed an artifact."""
    MODEL_FAILURE = "model_failure"
    """The agent had its full opportunity and committed none."""
    EXECUTION_CONTRACT_VIOLATION = "execution_contract_violation"
    """It ran outside the registered contract."""
    INFRASTRUCTURE_INVALID = "infrastructure_invalid"
    """Our side failed (transport, provider, host), not the agent."""
    UNRESOLVED = "unresolved"
    """It is not known how it ended."""


class Status(StrEnum):
    """A verdict on a claim. ``NOT_TESTED`` exists for the Evidence claim only."""

    CERTIFIED = "certified"
    REFUTED = "refuted"
    INCONCLUSIVE = "inconclusive"
    NOT_TESTED = "not_tested"


class InconclusiveClass(StrEnum):
    """Why a verdict is inconclusive: the audit is unfinished, or it is finished and chance remains."""

    AUDIT_INCOMPLETE = "audit_incomplete"
    STATISTICAL_UNCERTAINTY = "statistical_uncertainty"


class Check(StrEnum):
    """The result of one test against a registered line."""

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


class AttemptStatus(StrEnum):
    """What one attempt to recover the outcome without feedback came to (rules G2.1 to G2.8)."""

    CONFIRMED_HIT = "confirmed_hit"
    CONFIRMED_MISS = "confirmed_miss"
    MODEL_FAILURE = "model_failure"
    EXECUTION_CONTRACT_VIOLATION = "execution_contract_violation"
    INFRASTRUCTURE_INVALID = "infrastructure_invalid"
    UNRESOLVED = "unresolved"


class Recovery(StrEnum):
    """Whether attempts without feedback recovered the claimed outcome."""

    RECOVERED = "recovered"
    NOT_RECOVERED_WITHIN_SCOPE = "not_recovered_within_scope"
    INCONCLUSIVE = "inconclusive"


class Effect(StrEnum):
    """Whether truthful feedback did better than neutral feedback by the registered margin."""

    SUPPORTED = "supported"
    NOT_SUPPORTED = "not_supported"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class ScoredArtifact:
    """The claimed artifact A* or the baseline, with its sealed scores.

    Attributes:
        name: For people; no rule reads it.
        unit_ids: Sealed units in their registered order.
        scores: One score in [0, 1] for each unit.
        validity: Of the artifact under the task's rules.
        digest: Of the artifact's bytes.
    """

    name: str
    unit_ids: tuple[str, ...] = ()
    scores: tuple[float, ...] = ()
    validity: Validity = Validity.UNRESOLVED
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One challenger episode, or one neutral branch read as such (G3.20).

    Attributes:
        attempt_id: Unique in the audit.
        outcome: How the episode ended.
        validity: Of its artifact; ``UNRESOLVED`` where there is none.
        artifact_digest: Of the artifact's bytes; empty where there is none.
        scores: Sealed scores in [0, 1], aligned with ``unit_ids``; None where there is none.
        unit_ids: Sealed units that the scores belong to.
        stratum: Which kind of challenger this is (``matched`` by default).
        contract_digest: Of the contract that it ran under.
        prestart_receipt: Of the record written before it started.
        distribution_digest: Of the distribution that its presentation was drawn from.
        draw_receipt: Of that draw.
        independent_unit: Name of the independent draw that the episode belongs to; episodes that share it
            count once in the zero-hit bound.
        independent: Whether it was shown to be an independent draw.
        infrastructure_independent: For ``INFRASTRUCTURE_INVALID``: whether the failure was shown to have
            nothing to do with what the agent did.
    """

    attempt_id: str
    outcome: Outcome = Outcome.UNRESOLVED
    validity: Validity = Validity.UNRESOLVED
    artifact_digest: str = ""
    scores: tuple[float, ...] | None = None
    unit_ids: tuple[str, ...] = ()
    stratum: str = ""
    contract_digest: str = ""
    prestart_receipt: str = ""
    distribution_digest: str = ""
    draw_receipt: str = ""
    independent_unit: str = ""
    independent: bool = False
    infrastructure_independent: bool = False


@dataclass(frozen=True, slots=True)
class Adequacy:
    """Whether the challengers were able to recover at all (G2.10, G2.12).

    Attributes:
        matched_model_present: Challengers used the claimant's model and interface.
        materials_readable: They could read the materials given to them (canaries were quoted).
        opportunity_floor_met: Each had the registered budget.
        health_audit_pass: Parser, provider, scorer and independence checks passed.
        positive_control_successes: Controls that reached their own recovery line.
        positive_control_trials: Controls that were run; -1 when there is no record of them.
        calibration_id: Name of the series of positive controls.
        checks_digest: Of the record that these values were read from.
    """

    matched_model_present: bool = False
    materials_readable: bool = False
    opportunity_floor_met: bool = False
    health_audit_pass: bool = False
    positive_control_successes: int = -1
    positive_control_trials: int = -1
    calibration_id: str = ""
    checks_digest: str = ""

    @property
    def controls_on_record(self) -> bool:
        """Whether the two counts can be a result of positive controls."""
        return 1 <= self.positive_control_trials <= 2**53 and (
            0 <= self.positive_control_successes <= self.positive_control_trials
        )


@dataclass(frozen=True, slots=True)
class Conditions:
    """What an arm's episodes were given: model, interface, information and budget, each by its digest.

    Two arms with equal conditions (and equal contracts) are the same experiment (G3.20, G3.22).

    Attributes:
        model_id: The model behind the agent.
        interface_digest: Of the action interface.
        resource_digest: Of the budget (calls, tokens, seconds).
        opportunity_digest: Of the number and form of the candidates that may be committed.
        policy_digest: Of the scaffold's policy.
        knowledge_digest: Of K, what is known to everybody.
        initial_evidence_digest: Of E0, what was known before the first experiment.
        web_digest: Of the Web packet W_obs.
    """

    model_id: str = ""
    interface_digest: str = ""
    resource_digest: str = ""
    opportunity_digest: str = ""
    policy_digest: str = ""
    knowledge_digest: str = ""
    initial_evidence_digest: str = ""
    web_digest: str = ""


@dataclass(frozen=True, slots=True)
class Branch:
    """One arm of a randomized pair: a continuation from the checkpoint under one feedback channel.

    Attributes:
        outcome: How it ended.
        validity: Of its artifact.
        utility: Its utility in [0, 1] where it was recorded directly; None where it follows from ``scores``.
        branch_id: Unique over both arms of all pairs of its family.
        artifact_digest: Of the artifact's bytes; empty where there is none.
        result_digest: Of the scorer's record of this branch.
        contract_digest: Of the contract that it ran under.
        prestart_receipt: Of the record written before it started.
        scores: Sealed scores in [0, 1], aligned with ``unit_ids``; None where there is none.
        unit_ids: Sealed units that the scores belong to.
        infrastructure_independent: As for :class:`Attempt`.
    """

    outcome: Outcome = Outcome.UNRESOLVED
    validity: Validity = Validity.UNRESOLVED
    utility: float | None = None
    branch_id: str = ""
    artifact_digest: str = ""
    result_digest: str = ""
    contract_digest: str = ""
    prestart_receipt: str = ""
    scores: tuple[float, ...] | None = None
    unit_ids: tuple[str, ...] = ()
    infrastructure_independent: bool = False


@dataclass(frozen=True, slots=True)
class FeedbackPair:
    """A randomized pair: one branch with truthful feedback, one with neutral feedback.

    Attributes:
        pair_id: Unique among the feedback pairs.
        truthful: Branch that was told the truth.
        neutral: Branch whose replies were computed without hidden or sealed material.
        block_id: The independent unit of randomization.
        distribution_digest: Of the distribution that the assignment was drawn from.
        draw_receipt: Of that draw.
        assignment_frozen: The assignment stood before either branch started.
        independent: The pair was shown to be an independent draw.
        replacement_of: ``pair_id`` of the pair that this one replaces; empty for an original pair.
    """

    pair_id: str
    truthful: Branch
    neutral: Branch
    block_id: str = ""
    distribution_digest: str = ""
    draw_receipt: str = ""
    assignment_frozen: bool = False
    independent: bool = False
    replacement_of: str = ""

    @property
    def branches(self) -> tuple[Branch, Branch]:
        """Both arms, truthful first."""
        return self.truthful, self.neutral


@dataclass(frozen=True, slots=True)
class NullPair:
    """A pair on a task that E0 alone answers: both channels carry nothing.

    Attributes:
        pair_id: Unique among the null pairs.
        reference: Branch under the reference-null channel (constant registered numbers).
        proposed: Branch under the neutral policy that Gate 3 uses.
        block_id: The independent unit of randomization.
        distribution_digest: Of the distribution that the assignment was drawn from.
        draw_receipt: Of that draw.
        assignment_frozen: The assignment stood before either branch started.
        independent: The pair was shown to be an independent draw.
        replacement_of: ``pair_id`` of the pair that this one replaces; empty for an original pair.
    """

    pair_id: str
    reference: Branch
    proposed: Branch
    block_id: str = ""
    distribution_digest: str = ""
    draw_receipt: str = ""
    assignment_frozen: bool = False
    independent: bool = False
    replacement_of: str = ""

    @property
    def branches(self) -> tuple[Branch, Branch]:
        """Both arms, reference first."""
        return self.reference, self.proposed


@dataclass(frozen=True, slots=True)
class NullCalibration:
    """The null study: shows that the neutral channel neither helps nor harms by more than ``delta_null``.

    Attributes:
        pairs: All started pairs, in order, replaced ones included.
        calibration_id: Name of the study.
        development_digest: Of the pairs on which the neutral policy was built.
        confirmatory_digest: Of ``pairs``; must differ from the development digest.
        task_profile: Task family.
        model_id: Model behind the agent.
        interface_digest: Of the action interface.
        scaffold_digest: Of the scaffold.
        feedback_schema_digest: Of the form of a reply.
        operator_digest: Of the neutral policy that was calibrated.
        reference_generator_digest: Of the reference-null channel.
        utility_scale_id: Name of the utility scale.
        paired_contract_digest: Of the contract that both arms share.
        reference_contract_digest: Of the reference arm's contract.
        proposed_contract_digest: Of the proposed arm's contract.
        preseal_receipt: Of the record that seals these contracts.
        sealed_before_branches: That record stood before the first branch.
        sealed_event_index: Position of the seal in the ledger; negative when unknown.
        first_branch_event_index: Position of the first branch's start; negative when unknown.
        channel_checks_pass: Replies carry no information and look alike.
        fresh: The confirmatory pairs were not seen before.
        operator_frozen_first: The policy was frozen before the confirmatory pairs started.
        development_disjoint: Development and confirmatory pairs share nothing.
        all_started_disclosed: ``pairs`` holds every started pair.
        no_replacements: No pair was replaced.
        started_pairs: Number of started pairs; negative when unknown.
    """

    pairs: tuple[NullPair, ...] = ()
    calibration_id: str = ""
    development_digest: str = ""
    confirmatory_digest: str = ""
    task_profile: str = ""
    model_id: str = ""
    interface_digest: str = ""
    scaffold_digest: str = ""
    feedback_schema_digest: str = ""
    operator_digest: str = ""
    reference_generator_digest: str = ""
    utility_scale_id: str = ""
    paired_contract_digest: str = ""
    reference_contract_digest: str = ""
    proposed_contract_digest: str = ""
    preseal_receipt: str = ""
    sealed_before_branches: bool = False
    sealed_event_index: int = -1
    first_branch_event_index: int = -1
    channel_checks_pass: bool = False
    fresh: bool = False
    operator_frozen_first: bool = False
    development_disjoint: bool = False
    all_started_disclosed: bool = False
    no_replacements: bool = False
    started_pairs: int = -1


@dataclass(frozen=True, slots=True)
class Gate1Evidence:
    """Sealed results of the claimed artifact and of the baseline, on the same units."""

    claimed: ScoredArtifact
    baseline: ScoredArtifact


@dataclass(frozen=True, slots=True)
class Gate2Evidence:
    """The challengers.

    Attributes:
        attempts: Every started challenger episode, in registered order.
        adequacy: Whether they were able to recover at all.
        conditions: What they were given.
    """

    attempts: tuple[Attempt, ...]
    adequacy: Adequacy = Adequacy()
    conditions: Conditions = Conditions()


@dataclass(frozen=True, slots=True)
class Gate3Evidence:
    """The randomized feedback experiment and its null calibration.

    Attributes:
        pairs: All started feedback pairs, in order, replaced ones included.
        null: The null calibration.
        neutral_adequacy: Adequacy of the neutral arm as challengers; None when it was not assessed.
        neutral_conditions: What the neutral branches were given.
        checkpoint_scope: ``lineage_empty`` (the checkpoint holds nothing of the lineage, so neutral branches
            are challengers) or ``lineage_prefix``.
        checkpoint_digest: Of the checkpoint.
        window_digest: Of the window of the target run that the branches continue.
        pairs_digest: Of ``pairs``.
        paired_contract_digest: Of the contract that both arms share.
        truthful_contract_digest: Of the truthful arm's contract.
        neutral_contract_digest: Of the neutral arm's contract.
        neutral_recovery_contract_digest: Of the contract under which neutral branches count as challengers.
        truthful_generator_digest: Of the truthful channel.
        neutral_generator_digest: Of the neutral channel.
        preseal_receipt: Of the record that seals these contracts.
        sealed_before_branches: That record stood before the first branch.
        sealed_event_index: Position of the seal in the ledger; negative when unknown.
        first_branch_event_index: Position of the first branch's start; negative when unknown.
        neutral_scope_digest: Of the record that binds the neutral arm's scope.
        design_checks_pass: Randomization and symmetry checks passed.
        stopping_rule_pass: The experiment stopped where it was registered to stop.
        registered_pairs_complete: All registered pairs were run.
        all_started_disclosed: ``pairs`` holds every started pair.
        no_replacements: No pair was replaced.
        paired_contract_audit_pass: The audit of the shared contract passed.
        truthful_channel_audit_pass: The truthful channel told the truth.
        neutral_channel_audit_pass: The neutral channel carried nothing.
        neutral_contract_audit_pass: A separate audit of the neutral side's contract; None when there was
            none, and then ``paired_contract_audit_pass`` stands for it.
        started_pairs: Number of started pairs; negative when unknown.
    """

    pairs: tuple[FeedbackPair, ...]
    null: NullCalibration
    neutral_adequacy: Adequacy | None = None
    neutral_conditions: Conditions = Conditions()
    checkpoint_scope: str = ""
    checkpoint_digest: str = ""
    window_digest: str = ""
    pairs_digest: str = ""
    paired_contract_digest: str = ""
    truthful_contract_digest: str = ""
    neutral_contract_digest: str = ""
    neutral_recovery_contract_digest: str = ""
    truthful_generator_digest: str = ""
    neutral_generator_digest: str = ""
    preseal_receipt: str = ""
    sealed_before_branches: bool = False
    sealed_event_index: int = -1
    first_branch_event_index: int = -1
    neutral_scope_digest: str = ""
    design_checks_pass: bool = False
    stopping_rule_pass: bool = False
    registered_pairs_complete: bool = False
    all_started_disclosed: bool = False
    no_replacements: bool = False
    paired_contract_audit_pass: bool = False
    truthful_channel_audit_pass: bool = False
    neutral_channel_audit_pass: bool = False
    neutral_contract_audit_pass: bool | None = None
    started_pairs: int = -1
