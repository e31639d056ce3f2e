"""Whether the records of Gate 3 can be what they say they are (the counterpart of ``consistency``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dcpflow.protocol.consistency import outcome_faults, unique_faults
from dcpflow.protocol.faults import (
    EVIDENCE_ONLY,
    NEUTRAL_ARM,
    NEUTRAL_SCOPE,
    Fault,
    Stake,
)
from dcpflow.protocol.gate3 import feedback_ledger
from dcpflow.protocol.model import (
    Branch,
    FeedbackPair,
    Gate2Evidence,
    Gate3Evidence,
    NullCalibration,
    NullPair,
    Outcome,
    ScoredArtifact,
)
from dcpflow.protocol.neutral_recovery import neutral_contract_faults
from dcpflow.protocol.null_calibration import null_ledger
from dcpflow.protocol.registration import BINARY, Registration
from dcpflow.protocol.replacements import disclosure_faults
from dcpflow.protocol.text import is_canonical, is_explicit


def gate3_faults(
    reg: Registration, gate2: Gate2Evidence, evidence: Gate3Evidence, claimed: ScoredArtifact
) -> tuple[Fault, ...]:
    """All conditions on the feedback experiment that its own records and the registration can show."""
    ledger = feedback_ledger(reg, evidence)
    return (
        *_scope_faults(reg, evidence),
        *neutral_contract_faults(reg, evidence, gate2.conditions),
        *_neutral_audit_faults(evidence),
        *_experiment_faults(reg, evidence),
        *_attempt_budget_faults(reg, gate2, evidence),
        *_neutral_adequacy_faults(gate2, evidence),
        *ledger.faults,
        *disclosure_faults(
            evidence.pairs,
            ledger,
            all_started_disclosed=evidence.all_started_disclosed,
            no_replacements=evidence.no_replacements,
            started=evidence.started_pairs,
            place="pairs",
        ),
        *_feedback_pair_faults(reg, evidence, claimed),
        *_null_faults(reg, evidence.null),
    )


def _scope_faults(reg: Registration, evidence: Gate3Evidence) -> Iterator[Fault]:
    if evidence.checkpoint_scope != reg.checkpoint_scope:
        detail = f"{evidence.checkpoint_scope!r}, registered {reg.checkpoint_scope!r}"
        yield Fault("checkpoint_scope", "gate3.checkpoint_scope", detail, NEUTRAL_SCOPE)
    for key, blocks in (("checkpoint_digest", NEUTRAL_SCOPE), ("window_digest", NEUTRAL_ARM)):
        if not is_explicit(getattr(evidence, key)):
            yield Fault(key, f"gate3.{key}", "not given", blocks)
    yield from _seal_faults("gate3", evidence, NEUTRAL_ARM)


def _seal_faults(
    place: str,
    sealing: Gate3Evidence | NullCalibration,
    blocks: frozenset[Stake],
) -> Iterator[Fault]:
    """The contracts were sealed before the first branch started."""
    sealed, first = sealing.sealed_event_index, sealing.first_branch_event_index
    if not is_explicit(sealing.preseal_receipt):
        yield Fault("preseal_receipt", f"{place}.preseal_receipt", "not given", blocks)
    if not 0 <= sealed < first:
        detail = f"contracts sealed at event {sealed}, first branch started at event {first}"
        yield Fault("preseal_order", place, detail, blocks)
    if not sealing.sealed_before_branches:
        yield Fault("preseal_order", place, "contracts not shown to be sealed before the branches", blocks)


def _neutral_audit_faults(evidence: Gate3Evidence) -> Iterator[Fault]:
    """Audits that a neutral hit needs. A separate audit of the neutral side stands in for the paired one."""
    contract = evidence.neutral_contract_audit_pass
    audited = evidence.paired_contract_audit_pass if contract is None else contract
    if not audited:
        yield Fault("neutral_contract_audit", "gate3", "the neutral contract's audit did not pass", NEUTRAL_ARM)
    if not evidence.neutral_channel_audit_pass:
        yield Fault("neutral_channel_audit", "gate3", "the neutral channel's audit did not pass", NEUTRAL_ARM)


def _experiment_faults(reg: Registration, evidence: Gate3Evidence) -> Iterator[Fault]:
    for key in ("paired_contract_audit_pass", "truthful_channel_audit_pass"):
        if not getattr(evidence, key):
            yield Fault(key, f"gate3.{key}", "is not true", EVIDENCE_ONLY)
    for key, expected in (
        ("truthful_contract_digest", reg.truthful_contract_digest),
        ("truthful_generator_digest", reg.truthful_generator_digest),
    ):
        if (value := getattr(evidence, key)) != expected:
            yield Fault(key, f"gate3.{key}", f"{value!r}, registered {expected!r}", EVIDENCE_ONLY)


def _attempt_budget_faults(reg: Registration, gate2: Gate2Evidence, evidence: Gate3Evidence) -> Iterator[Fault]:
    """Each branch may be compared with A*, and the per-attempt error is split over all comparisons."""
    comparisons = len(gate2.attempts) + 2 * len(evidence.pairs)
    if comparisons > reg.max_attempts:
        detail = f"{comparisons} comparisons with A*, registered maximum {reg.max_attempts}"
        yield Fault("attempt_number", "gate3.pairs", detail, NEUTRAL_ARM)


def _neutral_adequacy_faults(gate2: Gate2Evidence, evidence: Gate3Evidence) -> Iterator[Fault]:
    adequacy = evidence.neutral_adequacy
    if adequacy is None:
        return
    for key in ("calibration_id", "checks_digest"):
        if getattr(adequacy, key) != getattr(gate2.adequacy, key):
            yield Fault(f"neutral_{key}", f"neutral_adequacy.{key}", "not the challengers'", EVIDENCE_ONLY)


def _feedback_pair_faults(reg: Registration, evidence: Gate3Evidence, claimed: ScoredArtifact) -> Iterator[Fault]:
    pairs = evidence.pairs
    yield from _pair_identity_faults("pairs", pairs, NEUTRAL_ARM)
    for index, pair in enumerate(pairs):
        place = f"pairs[{index}]"
        if pair.distribution_digest != reg.pair_distribution_digest:
            detail = f"{pair.distribution_digest!r}, registered {reg.pair_distribution_digest!r}"
            yield Fault("pair_distribution", place, detail, NEUTRAL_ARM, index)
        if not pair.assignment_frozen:
            yield Fault("assignment_frozen", place, "the assignment was not frozen first", NEUTRAL_ARM, index)
        if not pair.independent:
            yield Fault("pair_independent", place, "not shown to be independent", EVIDENCE_ONLY, index)
        for arm, contract, blocks in (
            ("truthful", reg.truthful_contract_digest, EVIDENCE_ONLY),
            ("neutral", reg.neutral_contract_digest, NEUTRAL_ARM),
        ):
            branch: Branch = getattr(pair, arm)
            if reg.feedback_estimand == BINARY and branch.utility is not None:
                detail = "states a utility, which follows from the comparison with A* here"
                yield Fault("binary_utility", f"{place}.{arm}", detail, EVIDENCE_ONLY, index)
            yield from _branch_faults(f"{place}.{arm}", branch, contract, blocks, index)
            if branch.outcome is Outcome.ARTIFACT and branch.unit_ids != claimed.unit_ids:
                detail = "scored on other units than A*, or in another order"
                yield Fault("unit_alignment", f"{place}.{arm}", detail, blocks, index)


def _null_faults(reg: Registration, null: NullCalibration) -> Iterator[Fault]:
    yield from _seal_faults("null", null, EVIDENCE_ONLY)
    yield from _null_metadata_faults(reg, null)
    ledger = null_ledger(reg, null)
    yield from ledger.faults
    yield from disclosure_faults(
        null.pairs,
        ledger,
        all_started_disclosed=null.all_started_disclosed,
        no_replacements=null.no_replacements,
        started=null.started_pairs,
        place="null.pairs",
        blocks=EVIDENCE_ONLY,
    )
    yield from _pair_identity_faults("null.pairs", null.pairs, EVIDENCE_ONLY)
    for index, pair in enumerate(null.pairs):
        place = f"null.pairs[{index}]"
        if pair.distribution_digest != reg.null_distribution_digest:
            detail = f"{pair.distribution_digest!r}, registered {reg.null_distribution_digest!r}"
            yield Fault("pair_distribution", place, detail, EVIDENCE_ONLY, index)
        if not (pair.assignment_frozen and pair.independent):
            detail = "assignment not frozen first, or not shown to be independent"
            yield Fault("pair_independent", place, detail, EVIDENCE_ONLY, index)
        for arm, contract in (
            ("reference", reg.null_reference_contract_digest),
            ("proposed", reg.null_proposed_contract_digest),
        ):
            yield from _branch_faults(f"{place}.{arm}", getattr(pair, arm), contract, EVIDENCE_ONLY, index)


def _null_metadata_faults(reg: Registration, null: NullCalibration) -> Iterator[Fault]:
    """The study names what it calibrated, and its arms ran under the registered contracts.

    That it calibrated what was registered otherwise is G3.11's business.
    """
    for key in (
        "calibration_id",
        "development_digest",
        "confirmatory_digest",
        "task_profile",
        "model_id",
        "interface_digest",
        "scaffold_digest",
        "feedback_schema_digest",
        "operator_digest",
        "utility_scale_id",
    ):
        if not is_explicit(getattr(null, key)):
            yield Fault(f"null_{key}", f"null.{key}", "not given", EVIDENCE_ONLY)
    for key, expected in (
        ("paired_contract_digest", reg.null_paired_contract_digest),
        ("reference_contract_digest", reg.null_reference_contract_digest),
        ("proposed_contract_digest", reg.null_proposed_contract_digest),
        ("reference_generator_digest", reg.reference_generator_digest),
    ):
        if (value := getattr(null, key)) != expected:
            detail = f"{value!r}, registered {expected!r}"
            yield Fault(f"null_{key}", f"null.{key}", detail, EVIDENCE_ONLY)


def _pair_identity_faults(
    place: str, pairs: Sequence[FeedbackPair | NullPair], blocks: frozenset[Stake]
) -> Iterator[Fault]:
    columns = {
        "pair_id": [pair.pair_id for pair in pairs],
        "block_id": [pair.block_id for pair in pairs],
        "draw_receipt": [pair.draw_receipt for pair in pairs],
    }
    yield from unique_faults(place, columns, blocks)
    # Over both arms together; a fault of the truthful arm's names is none of the neutral arm's.
    both = {
        "branch_id": [branch.branch_id for pair in pairs for branch in pair.branches],
        "prestart_receipt": [branch.prestart_receipt for pair in pairs for branch in pair.branches],
    }
    yield from unique_faults(place, both, EVIDENCE_ONLY, rows_per_index=2)
    second = {
        "branch_id": [pair.branches[1].branch_id for pair in pairs],
        "prestart_receipt": [pair.branches[1].prestart_receipt for pair in pairs],
    }
    if blocks != EVIDENCE_ONLY:
        yield from unique_faults(f"{place}.neutral", second, blocks)
    for index, pair in enumerate(pairs):
        if pair.replacement_of and not is_canonical(pair.replacement_of):
            detail = f"{pair.replacement_of!r} is not a name without blanks or invisible characters"
            yield Fault("replacement_canonical", f"{place}[{index}].replacement_of", detail, blocks, index)


def _branch_faults(place: str, branch: Branch, contract: str, blocks: frozenset[Stake], index: int) -> Iterator[Fault]:
    if branch.contract_digest != contract:
        detail = f"{branch.contract_digest!r}, registered {contract!r}"
        yield Fault("branch_contract", place, detail, blocks, index)
    if not is_explicit(branch.result_digest):
        yield Fault("branch_result", place, "the scorer's record is not named", blocks, index)
    if branch.outcome is not Outcome.ARTIFACT and branch.utility is not None:
        detail = f"ended as {branch.outcome.value}, but has a utility"
        yield Fault("outcome_conflict", place, detail, blocks, index)
    if branch.scores is not None and len(branch.scores) != len(branch.unit_ids):
        detail = f"{len(branch.scores)} scores for {len(branch.unit_ids)} units"
        yield Fault("unit_alignment", place, detail, blocks, index)
    yield from outcome_faults(place, branch, blocks, index)
