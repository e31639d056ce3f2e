"""From decoded payloads to the vocabulary of the protocol (5.5): every field named, typed and known.

The tables below are the format: for each payload object its fields in the format's names, the attribute of
ours that each becomes, and its type. An absent field takes the default of our class (the format's defaults),
unless it is required. Unknown fields are refused at every level.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeVar

from dcpflow.bundles.dcp_audit.envelope import Envelope
from dcpflow.bundles.dcp_audit.errors import BundleError
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
from dcpflow.protocol.registration import MAX_INTEGER, Registration

T = TypeVar("T")
Read = Callable[["Place", Any], Any]
Fields = Mapping[str, tuple[str, Read]]


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a bundle a value stands."""

    file: str
    path: str = ""

    def at(self, key: str) -> Place:
        """A field of this object."""
        return Place(self.file, f"{self.path}.{key}" if self.path else key)

    def item(self, index: int) -> Place:
        """An element of this list."""
        return Place(self.file, f"{self.path}[{index}]")

    def error(self, rule: str, detail: str) -> BundleError:
        """The error that says that a rule is broken here."""
        return BundleError(self.file, self.path, rule, detail)


@dataclass(frozen=True, slots=True)
class Decoded:
    """All payloads of a bundle in our terms. ``gate3`` is None for a core bundle."""

    registration: Registration
    envelope: Envelope
    gate1: Gate1Evidence
    gate2: Gate2Evidence
    gate3: Gate3Evidence | None


# --- values ------------------------------------------------------------------------------------------------


def _text(place: Place, value: Any) -> str:
    if not isinstance(value, str):
        raise place.error("type", f"must be a string, is {_kind(value)}")
    return value


def _flag(place: Place, value: Any) -> bool:
    if not isinstance(value, bool):
        raise place.error("type", f"must be true or false, is {_kind(value)}")
    return value


def _integer(place: Place, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise place.error("type", f"must be an integer, is {_kind(value)}")
    if abs(value) > MAX_INTEGER:
        raise place.error("range", f"an integer beyond {MAX_INTEGER}")
    return value


def _number(place: Place, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise place.error("type", f"must be a number, is {_kind(value)}")
    try:
        return float(value)
    except OverflowError:
        raise place.error("finite", "is too large") from None


def _list_of(read: Read) -> Read:
    def read_list(place: Place, value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise place.error("type", f"must be a list, is {_kind(value)}")
        return tuple(read(place.item(index), item) for index, item in enumerate(value))

    return read_list


def _or_null(read: Read) -> Read:
    return lambda place, value: None if value is None else read(place, value)


def _word_of(kind: type[StrEnum]) -> Read:
    def read_word(place: Place, value: Any) -> StrEnum:
        try:
            return kind(_text(place, value))
        except ValueError:
            words = ", ".join(member.value for member in kind)
            raise place.error("word", f"{value!r} is not one of {words}") from None

    return read_word


def _object(place: Place, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise place.error("type", f"must be an object, is {_kind(value)}")
    return value


def _kind(value: Any) -> str:
    names = {type(None): "null", bool: "a boolean", str: "a string", list: "a list", dict: "an object"}
    return names.get(type(value), "a number")


def _record(kind: type[T], fields: Fields, required: tuple[str, ...] = ()) -> Callable[[Place, Any], T]:
    """A reader of one object that becomes one instance of ``kind``."""

    def read_record(place: Place, value: Any) -> T:
        return kind(**_values(place, value, fields, required))

    return read_record


def _values(place: Place, value: Any, fields: Fields, required: tuple[str, ...]) -> dict[str, Any]:
    found = _object(place, value)
    unknown = sorted(set(found) - set(fields))
    if unknown:
        raise place.error("unknown_field", f"{unknown[0]!r} is not a field of this object")
    missing = [key for key in required if key not in found]
    if missing:
        raise place.error("missing_field", f"{missing[0]!r} is required")
    return {fields[key][0]: fields[key][1](place.at(key), item) for key, item in found.items()}


# --- the format's objects ----------------------------------------------------------------------------------

_VALIDITY = _word_of(Validity)
_OUTCOME = _word_of(Outcome)
_NUMBERS = _list_of(_number)
_TEXTS = _list_of(_text)

_REGISTRATION: Final[Fields] = {
    "claim_id": ("claim_id", _text),
    "audit_family_id": ("claim_family_id", _text),
    "audit_slot_id": ("audit_slot_id", _text),
    "audit_slot_reservation_receipt_hash": ("slot_receipt", _text),
    "grade_requested": ("grade", _text),
    "model_id": ("model_id", _text),
    "interface_hash": ("interface_digest", _text),
    "task_family_profile": ("task_profile", _text),
    "inference_scope": ("inference_scope", _text),
    "ci_method": ("interval_method", _text),
    "score_range_id": ("score_range_id", _text),
    "delta_min": ("delta_min", _number),
    "kappa": ("kappa", _number),
    "alpha_main": ("alpha_main", _number),
    "rho": ("rho", _number),
    "alpha_score": ("alpha_score", _number),
    "alpha_recovery": ("alpha_recovery", _number),
    "alpha_adequacy": ("alpha_adequacy", _number),
    "m_max": ("max_attempts", _integer),
    "min_n_ind": ("min_independent", _integer),
    "recovery_stratum": ("challenger_stratum", _text),
    "gate2_control_contract_hash": ("challenger_contract_digest", _text),
    "challenge_distribution_hash": ("challenge_distribution_digest", _text),
    "positive_control_recall_min": ("min_control_recall", _number),
    "min_valid_candidate_rate": ("min_valid_candidate_rate", _number),
    "max_infrastructure_failure_rate": ("max_infrastructure_rate", _number),
    "max_model_failure_rate": ("max_model_failure_rate", _number),
    "max_execution_contract_violation_rate": ("max_contract_violation_rate", _number),
    "necessity_claim_requested": ("necessity_claimed", _flag),
    "delta_evidence": ("delta_evidence", _number),
    "delta_sham": ("delta_null", _number),
    "rho_placebo": ("rho_neutral", _number),
    "alpha_evidence": ("alpha_evidence", _number),
    "alpha_sham": ("alpha_null", _number),
    "alpha_neutral": ("alpha_neutral", _number),
    "feedback_estimand": ("feedback_estimand", _text),
    "feedback_utility_mapping": ("utility_mapping", _text),
    "feedback_inference_scope": ("feedback_inference_scope", _text),
    "feedback_ci_method": ("feedback_interval_method", _text),
    "sham_inference_scope": ("null_inference_scope", _text),
    "sham_ci_method": ("null_interval_method", _text),
    "registered_n_feedback_pairs": ("feedback_pairs", _integer),
    "registered_n_sham_pairs": ("null_pairs", _integer),
    "gate3_pair_replacement_policy": ("replacement_policy", _text),
    "max_feedback_pair_replacements": ("max_feedback_replacements", _integer),
    "max_sham_pair_replacements": ("max_null_replacements", _integer),
    "worst_utility": ("worst_utility", _number),
    "min_feedback_arm_valid_rate": ("min_arm_valid_rate", _number),
    "max_feedback_arm_model_failure_rate": ("max_arm_model_failure_rate", _number),
    "max_feedback_pair_infrastructure_rate": ("max_pair_infrastructure_rate", _number),
    "scaffold_hash": ("scaffold_digest", _text),
    "feedback_schema_hash": ("feedback_schema_digest", _text),
    "sham_operator_hash": ("neutral_operator_digest", _text),
    "utility_scale_id": ("utility_scale_id", _text),
    "sham_calibration_id": ("null_calibration_id", _text),
    "gate3_checkpoint_scope": ("checkpoint_scope", _text),
    "gate3_checkpoint_selection_rule_hash": ("checkpoint_rule_digest", _text),
    "gate3_paired_arm_contract_hash": ("paired_contract_digest", _text),
    "gate3_truthful_arm_contract_hash": ("truthful_contract_digest", _text),
    "gate3_neutral_arm_contract_hash": ("neutral_contract_digest", _text),
    "gate3_neutral_recovery_contract_hash": ("neutral_recovery_contract_digest", _text),
    "gate3_resource_contract_hash": ("branch_resource_digest", _text),
    "gate3_opportunity_contract_hash": ("branch_opportunity_digest", _text),
    "gate3_branch_policy_hash": ("branch_policy_digest", _text),
    "truthful_feedback_generator_hash": ("truthful_generator_digest", _text),
    "neutral_sham_generator_hash": ("neutral_generator_digest", _text),
    "gate3_pair_randomization_distribution_hash": ("pair_distribution_digest", _text),
    "sham_randomization_distribution_hash": ("null_distribution_digest", _text),
    "sham_paired_arm_contract_hash": ("null_paired_contract_digest", _text),
    "sham_reference_arm_contract_hash": ("null_reference_contract_digest", _text),
    "sham_proposed_arm_contract_hash": ("null_proposed_contract_digest", _text),
    "reference_null_generator_hash": ("reference_generator_digest", _text),
    "alpha_total": ("alpha_total", _number),
    "family_alpha_total": ("family_alpha_total", _number),
    "family_max_audits": ("family_max_audits", _integer),
    "notes": ("notes", _object),
}

_ENVELOPE: Final[Fields] = {
    field.name: (field.name, _flag if field.type == "bool" else _text) for field in dataclasses.fields(Envelope)
}

_ARTIFACT: Final = _record(
    ScoredArtifact,
    {
        "name": ("name", _text),
        "per_unit": ("scores", _NUMBERS),
        "validity": ("validity", _VALIDITY),
        "artifact_hash": ("digest", _text),
        "unit_ids": ("unit_ids", _TEXTS),
    },
    required=("name", "per_unit"),
)

_GATE1: Final = _record(
    Gate1Evidence,
    {"astar": ("claimed", _ARTIFACT), "baseline": ("baseline", _ARTIFACT)},
    required=("astar", "baseline"),
)

_ATTEMPT: Final = _record(
    Attempt,
    {
        "attempt_id": ("attempt_id", _text),
        "outcome": ("outcome", _OUTCOME),
        "per_unit": ("scores", _or_null(_NUMBERS)),
        "validity": ("validity", _VALIDITY),
        "artifact_hash": ("artifact_digest", _text),
        "unit_ids": ("unit_ids", _TEXTS),
        "stratum": ("stratum", _text),
        "scope_contract_hash": ("contract_digest", _text),
        "prestart_contract_receipt_hash": ("prestart_receipt", _text),
        "challenge_distribution_hash": ("distribution_digest", _text),
        "independent_draw_receipt_hash": ("draw_receipt", _text),
        "independent_unit_id": ("independent_unit", _text),
        "independence_ok": ("independent", _flag),
        "infrastructure_outcome_independent": ("infrastructure_independent", _flag),
    },
    required=("attempt_id",),
)

_ADEQUACY: Final = _record(
    Adequacy,
    {
        "matched_model_present": ("matched_model_present", _flag),
        "materials_readable": ("materials_readable", _flag),
        "opportunity_floor_met": ("opportunity_floor_met", _flag),
        "health_audit_pass": ("health_audit_pass", _flag),
        "positive_control_successes": ("positive_control_successes", _integer),
        "positive_control_trials": ("positive_control_trials", _integer),
        "calibration_id": ("calibration_id", _text),
        "checks_manifest_hash": ("checks_digest", _text),
    },
)

_BRANCH: Final = _record(
    Branch,
    {
        "outcome": ("outcome", _OUTCOME),
        "utility": ("utility", _or_null(_number)),
        "validity": ("validity", _VALIDITY),
        "branch_id": ("branch_id", _text),
        "artifact_hash": ("artifact_digest", _text),
        "verifier_result_hash": ("result_digest", _text),
        "execution_contract_hash": ("contract_digest", _text),
        "prestart_contract_receipt_hash": ("prestart_receipt", _text),
        "per_unit": ("scores", _or_null(_NUMBERS)),
        "unit_ids": ("unit_ids", _TEXTS),
        "infrastructure_outcome_independent": ("infrastructure_independent", _flag),
    },
)

_PAIR: Final[Fields] = {
    "pair_id": ("pair_id", _text),
    "block_id": ("block_id", _text),
    "randomization_distribution_hash": ("distribution_digest", _text),
    "randomization_draw_receipt_hash": ("draw_receipt", _text),
    "assignment_frozen": ("assignment_frozen", _flag),
    "independence_ok": ("independent", _flag),
    "replacement_of": ("replacement_of", _text),
}

_FEEDBACK_PAIR: Final = _record(
    FeedbackPair,
    {**_PAIR, "truthful": ("truthful", _BRANCH), "neutral": ("neutral", _BRANCH)},
    required=("pair_id", "truthful", "neutral"),
)

_NULL_PAIR: Final = _record(
    NullPair,
    {**_PAIR, "reference_null": ("reference", _BRANCH), "proposed_sham": ("proposed", _BRANCH)},
    required=("pair_id", "reference_null", "proposed_sham"),
)

_NULL: Final = _record(
    NullCalibration,
    {
        "pairs": ("pairs", _list_of(_NULL_PAIR)),
        "calibration_id": ("calibration_id", _text),
        "development_manifest_hash": ("development_digest", _text),
        "confirmatory_manifest_hash": ("confirmatory_digest", _text),
        "task_family_profile": ("task_profile", _text),
        "model_id": ("model_id", _text),
        "interface_hash": ("interface_digest", _text),
        "scaffold_hash": ("scaffold_digest", _text),
        "feedback_schema_hash": ("feedback_schema_digest", _text),
        "operator_hash": ("operator_digest", _text),
        "reference_null_generator_hash": ("reference_generator_digest", _text),
        "utility_scale_id": ("utility_scale_id", _text),
        "paired_arm_contract_hash": ("paired_contract_digest", _text),
        "reference_arm_contract_hash": ("reference_contract_digest", _text),
        "proposed_arm_contract_hash": ("proposed_contract_digest", _text),
        "contract_preseal_receipt_hash": ("preseal_receipt", _text),
        "contract_sealed_before_branches_pass": ("sealed_before_branches", _flag),
        "contract_sealed_event_index": ("sealed_event_index", _integer),
        "first_branch_started_event_index": ("first_branch_event_index", _integer),
        "channel_checks_pass": ("channel_checks_pass", _flag),
        "freshness_pass": ("fresh", _flag),
        "operator_frozen_before_confirmatory": ("operator_frozen_first", _flag),
        "development_confirmatory_disjoint": ("development_disjoint", _flag),
        "all_started_pairs_disclosed": ("all_started_disclosed", _flag),
        "no_pair_replacements": ("no_replacements", _flag),
        "started_pair_count": ("started_pairs", _integer),
    },
    required=("pairs",),
)

_GATE3: Final[Fields] = {
    "pairs": ("pairs", _list_of(_FEEDBACK_PAIR)),
    "sham": ("null", _NULL),
    "neutral_adequacy": ("neutral_adequacy", _or_null(_ADEQUACY)),
    "design_checks_pass": ("design_checks_pass", _flag),
    "stopping_rule_pass": ("stopping_rule_pass", _flag),
    "registered_pairs_complete": ("registered_pairs_complete", _flag),
    "all_started_pairs_disclosed": ("all_started_disclosed", _flag),
    "no_pair_replacements": ("no_replacements", _flag),
    "paired_contract_audit_pass": ("paired_contract_audit_pass", _flag),
    "truthful_channel_audit_pass": ("truthful_channel_audit_pass", _flag),
    "neutral_channel_audit_pass": ("neutral_channel_audit_pass", _flag),
    "neutral_contract_audit_pass": ("neutral_contract_audit_pass", _or_null(_flag)),
    "started_pair_count": ("started_pairs", _integer),
    "checkpoint_scope": ("checkpoint_scope", _text),
    "checkpoint_hash": ("checkpoint_digest", _text),
    "window_hash": ("window_digest", _text),
    "feedback_pairs_manifest_hash": ("pairs_digest", _text),
    "paired_arm_contract_hash": ("paired_contract_digest", _text),
    "truthful_arm_contract_hash": ("truthful_contract_digest", _text),
    "neutral_arm_contract_hash": ("neutral_contract_digest", _text),
    "neutral_recovery_contract_hash": ("neutral_recovery_contract_digest", _text),
    "truthful_feedback_generator_hash": ("truthful_generator_digest", _text),
    "neutral_sham_generator_hash": ("neutral_generator_digest", _text),
    "contract_preseal_receipt_hash": ("preseal_receipt", _text),
    "contract_sealed_before_branches_pass": ("sealed_before_branches", _flag),
    "contract_sealed_event_index": ("sealed_event_index", _integer),
    "first_branch_started_event_index": ("first_branch_event_index", _integer),
    "neutral_scope_audit_manifest_hash": ("neutral_scope_digest", _text),
}

_NEUTRAL_CONDITIONS: Final[Fields] = {
    "neutral_model_id": ("model_id", _text),
    "neutral_interface_hash": ("interface_digest", _text),
    "neutral_resource_contract_hash": ("resource_digest", _text),
    "neutral_opportunity_contract_hash": ("opportunity_digest", _text),
    "neutral_challenger_policy_hash": ("policy_digest", _text),
    "neutral_k_manifest_hash": ("knowledge_digest", _text),
    "neutral_e0_manifest_hash": ("initial_evidence_digest", _text),
    "neutral_web_manifest_hash": ("web_digest", _text),
}


def decode(payloads: Mapping[str, Any]) -> Decoded:
    """Decode all payloads but the certificate.

    Args:
        payloads: By name; ``gate3`` is absent in a core bundle.

    Raises:
        BundleError: For the first field that is unknown, missing or of a wrong type.
    """
    registration = _record(Registration, _REGISTRATION, ("claim_id",))(_place("registration"), payloads["registration"])
    envelope = _record(Envelope, _ENVELOPE)(_place("integrity"), payloads["integrity"])
    gate3 = payloads.get("gate3")
    return Decoded(
        registration=registration,
        envelope=envelope,
        gate1=_GATE1(_place("gate1"), payloads["gate1"]),
        gate2=_gate2(payloads["gate2"], registration, envelope),
        gate3=None if gate3 is None else _gate3(gate3),
    )


def _place(name: str) -> Place:
    return Place(f"payload/{name}.json")


def _gate2(value: Any, registration: Registration, envelope: Envelope) -> Gate2Evidence:
    fields: Fields = {"controls": ("attempts", _list_of(_ATTEMPT)), "adequacy": ("adequacy", _ADEQUACY)}
    values = _values(_place("gate2"), value, fields, ("controls", "adequacy"))
    # The format says what the challengers were given in the envelope, and their model in the registration.
    conditions = Conditions(
        model_id=registration.model_id,
        interface_digest=registration.interface_digest,
        resource_digest=envelope.resource_contract_hash,
        opportunity_digest=envelope.opportunity_contract_hash,
        policy_digest=envelope.challenger_policy_hash,
        knowledge_digest=envelope.k_manifest_hash,
        initial_evidence_digest=envelope.e0_manifest_hash,
        web_digest=envelope.observed_web_manifest_hash,
    )
    return Gate2Evidence(**values, conditions=conditions)


def _gate3(value: Any) -> Gate3Evidence:
    fields = {**_GATE3, **_NEUTRAL_CONDITIONS}
    found = _values(_place("gate3"), value, fields, ("pairs", "sham"))
    conditions = {key: found.pop(key) for key, _ in _NEUTRAL_CONDITIONS.values() if key in found}
    return Gate3Evidence(**found, neutral_conditions=Conditions(**conditions))


def registration_payload(registration: Registration) -> dict[str, Any]:
    """The registration in the format's names, defaults filled in."""
    return {name: getattr(registration, key) for name, (key, _) in _REGISTRATION.items()}
