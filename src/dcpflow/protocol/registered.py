"""From a configuration to a registration: where each registered number stands, and what is computed.

Apart from :mod:`dcpflow.protocol.config`, so that whoever decides or verifies need not load the model of the file: a
configuration is here anything that has the model's sections and keys as attributes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from dcpflow.protocol.registration import (
    BETTING_SEQUENCE,
    FEEDBACK_METHODS,
    LINEAGE_PREFIX,
    NO_REPLACEMENT,
    PROSPECTIVE,
    TRANSPORT_REPLACEMENT,
    UTILITY_MAPPINGS,
    Registration,
)

KEY_OF_FIELD: Final[Mapping[str, str]] = {
    "claim_id": "claim.id",
    "claim_family_id": "claim.family",
    "audit_slot_id": "claim.slot",
    "grade": "claim.grade",
    "necessity_claimed": "claim.necessity",
    "model_id": "agent.model_id",
    "task_profile": "task.name",
    "challenger_stratum": "design.stratum",
    "feedback_pairs": "design.pairs",
    "null_pairs": "design.null_pairs",
    "max_feedback_replacements": "design.pair_replacements",
    "max_null_replacements": "design.null_pair_replacements",
    "inference_scope": "thresholds.inference.scope",
    "interval_method": "thresholds.inference.method",
    "alpha_total": "thresholds.alpha.total",
    "alpha_main": "thresholds.alpha.main",
    "alpha_score": "thresholds.alpha.score",
    "alpha_recovery": "thresholds.alpha.recovery",
    "alpha_adequacy": "thresholds.alpha.adequacy",
    "alpha_evidence": "thresholds.alpha.evidence",
    "alpha_null": "thresholds.alpha.sham",
    "alpha_neutral": "thresholds.alpha.neutral",
    "family_alpha_total": "thresholds.alpha.family_total",
    "family_max_audits": "thresholds.alpha.family_max_audits",
    "delta_min": "thresholds.gate1.delta_min",
    "kappa": "thresholds.gate2.kappa",
    "rho": "thresholds.gate2.rho",
    "max_attempts": "thresholds.gate2.m_max",
    "min_independent": "thresholds.gate2.min_independent",
    "min_valid_candidate_rate": "thresholds.gate2.min_valid_candidate_rate",
    "max_infrastructure_rate": "thresholds.gate2.max_infrastructure_failure_rate",
    "max_model_failure_rate": "thresholds.gate2.max_model_failure_rate",
    "max_contract_violation_rate": "thresholds.gate2.max_contract_violation_rate",
    "min_control_recall": "thresholds.controls.recall_min",
    "feedback_estimand": "thresholds.gate3.estimand",
    "delta_evidence": "thresholds.gate3.delta_evidence",
    "delta_null": "thresholds.gate3.delta_sham",
    "rho_neutral": "thresholds.gate3.rho_placebo",
    "min_arm_valid_rate": "thresholds.gate3.min_arm_valid_rate",
    "max_arm_model_failure_rate": "thresholds.gate3.max_arm_model_failure_rate",
    "max_pair_infrastructure_rate": "thresholds.gate3.max_pair_infrastructure_rate",
}
"""Field of :class:`Registration` to the key of the configuration that holds its value."""

FIXED_FIELDS: Final = frozenset(
    {
        "retrospective",
        "utility_mapping",
        "feedback_interval_method",
        "feedback_looks",
        "bet",
        "null_interval_method",
        "replacement_policy",
        "checkpoint_scope",
        "score_range_id",
        "feedback_inference_scope",
        "null_inference_scope",
        "worst_utility",
        "notes",
    }
)
"""Fields that follow from others, or for which the protocol knows one value only."""

COMPUTED_FIELDS: Final = tuple(
    f.name for f in fields(Registration) if f.name not in KEY_OF_FIELD and f.name not in FIXED_FIELDS
)
"""Fields that no user writes: digests of contracts, channels and rules, and the names of the null study."""

STAND_IN: Final = "stand-in"
"""Value of every computed field in a registration that is only held against the floors and caps."""


def to_registration(
    config: Any, computed: Mapping[str, str] | None = None, *, checkpoint_scope: str = LINEAGE_PREFIX
) -> Registration:
    """The registration that a configuration asks for.

    Args:
        config: The configuration.
        computed: The value of every field in :data:`COMPUTED_FIELDS`. Without it they all hold
            :data:`STAND_IN`, which is good for checking floors and caps and for nothing else.
        checkpoint_scope: ``lineage_empty`` or ``lineage_prefix``, as computed from the checkpoint.

    Raises:
        ValueError: A computed field is missing, or one is given that no registration has.
    """
    if computed is None:
        computed = dict.fromkeys(COMPUTED_FIELDS, STAND_IN)
    if wrong := set(COMPUTED_FIELDS) ^ set(computed):
        raise ValueError(f"computed fields missing or unknown: {', '.join(sorted(wrong))}")
    values: dict[str, Any] = {name: value_at(config, key) for name, key in KEY_OF_FIELD.items()}
    values.update(computed)
    estimand = config.thresholds.gate3.estimand
    # a registration leaves out what it does without: the mode of a prospective audit, looks at pairs with their bet
    retrospective = vars(config.claim).get("mode", PROSPECTIVE) != PROSPECTIVE
    looks, bet = vars(config.design).get("pair_looks"), vars(config.thresholds.gate3).get("bet")
    looked = bool(looks and bet)
    replaces = config.design.pair_replacements or config.design.null_pair_replacements
    return Registration(
        **values,
        retrospective=retrospective,
        utility_mapping=UTILITY_MAPPINGS[estimand],
        feedback_interval_method=BETTING_SEQUENCE if looked else FEEDBACK_METHODS[estimand],
        feedback_looks=tuple(looks) if looked else (),
        bet=bet if looked else 0.0,
        null_interval_method=FEEDBACK_METHODS[estimand],
        replacement_policy=TRANSPORT_REPLACEMENT if replaces else NO_REPLACEMENT,
        checkpoint_scope=checkpoint_scope,
    )


def value_at(config: Any, key: str) -> Any:
    """The value at a dotted key such as ``thresholds.gate2.rho``."""
    value: Any = config
    for name in key.split("."):
        value = getattr(value, name)
    return value
