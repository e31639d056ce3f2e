"""Random evidence for the comparison with the reference: plausible, damaged, and tampered with.

``random_case(seed)`` gives one case and whether the verifier is called flawed. The kinds and their shares are
chosen so that every rule decides some of a few hundred cases, at little cost: long ledgers and many pairs are
rare.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

from protocol.builders import (
    EVIDENCE_NAMES,
    TRUE_FLAGS,
    Case,
    adequacy,
    artifact,
    control,
    core_registration,
    envelope,
    failed,
    feedback_experiment,
    feedback_pair,
    lineage_empty,
    lost,
    null_calibration,
    null_pair,
    seal,
)

Row = dict[str, Any]
Change = Callable[[Row], Row]

DAMAGE: tuple[Change, ...] = (
    failed,
    lost,
    lambda row: lost(row, independent=False),
    lambda row: {**row, "validity": "invalid"},
    lambda row: {**row, "validity": "unresolved"},
    lambda row: {**lost(row, independent=False), "outcome": "unresolved"},
    lambda row: {**lost(row, independent=False), "outcome": "execution_contract_violation"},
)
FLAWED_REGISTRATIONS = (
    {"rho": 0.06},
    {"m_max": 0},
    {"alpha_score": 0.04},
    {"family_max_audits": 2},
    {"kappa": 1.0},
    {"min_n_ind": 0},
    {"claim_id": "a b"},
    {"grade_requested": "core", "necessity_claim_requested": True},
)


def random_case(seed: int) -> tuple[Case, bool]:
    """One sealed (and perhaps afterwards tampered) case, and the verifier flaw to call it with."""
    rng = random.Random(seed)
    kind = rng.choices(
        ["core", "sampled", "small feedback", "sound binary", "sound continuous"], [76, 2.5, 19.2, 2, 0.3]
    )[0]
    build = {
        "core": _core,
        "sampled": _sampled,
        "small feedback": _small_feedback,
        "sound binary": _sound_binary,
        "sound continuous": _sound_continuous,
    }[kind]
    case = build(rng)
    if rng.random() < 0.12:
        _depart(rng, case)
    seal(case)
    if rng.random() < (0.15 if kind.startswith("sound") else 0.4):
        _tamper(rng, case)
    if rng.random() < 0.06:
        case["integrity"]["provenance_pass"] = False
    return case, rng.random() < 0.02


# --- whole cases -------------------------------------------------------------------------------------------


def _scores(rng: random.Random, mean: float, n: int, sd: float = 0.01) -> list[float]:
    return [min(1.0, max(0.0, rng.gauss(mean, sd))) for _ in range(n)]


def _skeleton(rng: random.Random, units: int, attempts: int, *, sound: bool, **registration: Any) -> Case:
    base = rng.choice([0.1, 0.3])
    claimed = _scores(rng, 0.9 if sound else rng.choice([0.9, 0.9, 0.9, 0.55]), units)
    baseline = _scores(rng, base if sound else rng.choice([base, base, base, 0.85]), units)
    numbers = {} if sound else {"kappa": rng.choice([0.0, 0.1, 0.5, 0.9]), "min_n_ind": rng.choice([1, 1, 60])}
    case = {
        "registration": core_registration(**{"delta_min": 0.3, "m_max": 600, **numbers, **registration}),
        "integrity": envelope(),
        "gate1": {"astar": artifact("claimed", claimed), "baseline": artifact("baseline", baseline)},
        "gate2": {"controls": [control(i, _scores(rng, base, units)) for i in range(attempts)]},
        "gate3": None,
    }
    case["gate2"]["adequacy"] = adequacy(*((45, 45) if sound else rng.choice([(45, 45), (43, 45), (42, 45)])))
    return case


def _core(rng: random.Random) -> Case:
    attempts = rng.choices([1, 2, 4, 6, 10, 20, 77, 80], [12, 12, 24, 12, 12, 4, 2, 2])[0]
    case = _skeleton(rng, rng.choice([1, 2, 5]), attempts, sound=rng.random() < 0.5)
    case["registration"]["m_max"] = rng.choice([attempts, 100, 200])
    if rng.random() < 0.1:
        case["registration"].update(_evidence_registration(2, 2))
        case["registration"]["alpha_recovery"] = 0.02
        case["registration"]["alpha_evidence"] = case["registration"]["alpha_sham"] = (
            0.005  # E3: asked for, but not there
        )
        case["integrity"]["selection_rule_hash"] = "gate3_checkpoint_selection_rule_hash"
    _spoil_gate1(rng, case)
    _spoil_challengers(rng, case)
    return case


def _sampled(rng: random.Random) -> Case:
    case = _skeleton(
        rng,
        rng.choice([60, 150, 300]),
        rng.choice([1, 2, 4]),
        sound=rng.random() < 0.7,
        inference_scope="sampled_population",
        ci_method="bounded_empirical_bernstein",
    )
    if rng.random() < 0.5:
        _add_feedback(rng, case, 4, 4, binary=rng.random() < 0.5)
    _spoil_challengers(rng, case)
    return case


def _small_feedback(rng: random.Random) -> Case:
    case = _skeleton(rng, rng.choice([1, 2]), rng.choices([2, 3, 5, 80], [12, 12, 24, 2])[0], sound=rng.random() < 0.6)
    _add_feedback(rng, case, 5, 5, binary=rng.random() < 0.5)
    _spoil_challengers(rng, case, share=0.3)
    _spoil_feedback(rng, case)
    if rng.random() < 0.5:
        lineage_empty(case)
    return case


def _sound_binary(rng: random.Random) -> Case:
    case = _skeleton(rng, 1, 90, sound=True)
    _add_feedback(rng, case, 30, rng.choice([60, 60, 12]), binary=True)
    if rng.random() < 0.5:
        _spoil_feedback(rng, case)
    if rng.random() < 0.3:
        lineage_empty(case)
    return case


def _sound_continuous(rng: random.Random) -> Case:
    case = _skeleton(rng, 1, 90, sound=True)
    _add_feedback(rng, case, 200, 200, binary=False)
    return case


# --- challengers -------------------------------------------------------------------------------------------


def _spoil_gate1(rng: random.Random, case: Case) -> None:
    if rng.random() < 0.06:
        case["gate1"][rng.choice(["astar", "baseline"])]["validity"] = rng.choice(["invalid", "unresolved"])


def _spoil_challengers(rng: random.Random, case: Case, share: float = 0.6) -> None:
    if rng.random() > share:
        return
    rows, claimed = case["gate2"]["controls"], case["gate1"]["astar"]["per_unit"]
    for index in [rng.randrange(len(rows)) for _ in range(rng.choice([1, 1, 2, 8]))]:
        change = rng.choices(["damage", "hit", "near", "stratum", "contract", "distribution"], [6, 2, 2, 1, 1, 1])[0]
        if change == "damage":
            rows[index] = rng.choice(DAMAGE)(rows[index])
        elif change in ("hit", "near") and rows[index]["per_unit"]:
            mean, sd = (claimed[0] - 0.03, 0.2) if change == "near" else (1.0, 0.0)
            rows[index]["per_unit"] = _scores(rng, mean, len(claimed), sd)
        elif change == "stratum":
            rows[index]["stratum"] = rng.choice(["stronger", "matched"])
        elif change == "contract":
            rows[index]["scope_contract_hash"] = "another-contract"
        elif change == "distribution":
            rows[index]["challenge_distribution_hash"] = "another-distribution"
    if rng.random() < 0.2:
        for left, right in zip(rows[::2], rows[1::2], strict=False):
            for key in ("independent_unit_id", "independent_draw_receipt_hash"):
                right[key] = left[key]
    if rng.random() < 0.1:
        rows[0]["independence_ok"] = False
    if rng.random() < 0.1:
        key = rng.choice(["matched_model_present", "materials_readable", "health_audit_pass"])
        case["gate2"]["adequacy"][key] = False


# --- the feedback experiment -------------------------------------------------------------------------------


def _evidence_registration(pairs: int, null_pairs: int) -> dict[str, Any]:
    return {
        "grade_requested": "evidence",
        "registered_n_feedback_pairs": pairs,
        "registered_n_sham_pairs": null_pairs,
        **{name: name for name in EVIDENCE_NAMES},
        "neutral_sham_generator_hash": "sham_operator_hash",
        "delta_evidence": 0.34,
        "delta_sham": 0.17,
        "alpha_recovery": 0.01,
        "alpha_evidence": 0.01,
        "alpha_sham": 0.01,
    }


def _add_feedback(rng: random.Random, case: Case, pairs: int, null_pairs: int, *, binary: bool) -> None:
    registration = case["registration"]
    registration.update(_evidence_registration(pairs, null_pairs))
    registration["grade_requested"] = rng.choice(["evidence"] * 9 + ["core"])
    if registration["grade_requested"] == "evidence":
        registration["necessity_claim_requested"] = rng.random() < 0.4
    if binary:
        registration |= {
            "feedback_estimand": "binary",
            "feedback_utility_mapping": "canonical_p_wrapper_v1",
            "feedback_ci_method": "paired_binary_exact",
            "sham_ci_method": "paired_binary_exact",
        }
    case["integrity"]["selection_rule_hash"] = "gate3_checkpoint_selection_rule_hash"
    claimed = case["gate1"]["astar"]["per_unit"]
    low = case["gate1"]["baseline"]["per_unit"]
    works = rng.choice([1.0, 1.0, 1.0, 0.5, 0.1])
    leaks = rng.choice([0.0] * 6 + [0.05])
    drift = rng.choice([0.0] * 6 + [0.05, 0.5])
    rows = [
        feedback_pair(
            i,
            claimed if rng.random() < works else low,
            claimed if rng.random() < leaks else _scores(rng, 0.2, len(claimed)),
        )
        for i in range(pairs)
    ]
    null_rows = []
    for i in range(null_pairs):
        utility = rng.choice([0.0, 1.0]) if binary else rng.uniform(0.6, 0.7)
        other = (1 - utility if binary else utility - 0.5) if rng.random() < drift else utility
        null_rows.append(null_pair(i, utility, other))
    case["gate3"] = feedback_experiment(rows, null_calibration(null_rows))
    # Another series than the challengers' needs an error budget of its own, and is a fault.
    case["gate3"]["neutral_adequacy"] = rng.choice(
        [None, *[copy.deepcopy(case["gate2"]["adequacy"])] * 4, adequacy(99, 100)]
    )


def _spoil_feedback(rng: random.Random, case: Case) -> None:
    gate3, null = case["gate3"], case["gate3"]["sham"]
    if rng.random() < 0.3:
        row, arm = rng.choice(gate3["pairs"]), rng.choice(["truthful", "neutral"])
        row[arm] = rng.choice(DAMAGE)(row[arm])
    for _ in range(rng.choice([0] * 10 + [1, 3])):
        row, arm = rng.choice(null["pairs"]), rng.choice(["reference_null", "proposed_sham"])
        change = rng.choice([*DAMAGE[:5], lambda r: {**r, "utility": 0.5}, lambda r: {**r, "utility": None}])
        row[arm] = change(row[arm])
    if rng.random() < 0.06:
        for row in null["pairs"][:2]:
            row["proposed_sham"] = failed(row["proposed_sham"])
    if rng.random() < 0.15:
        _straddle(rng, gate3["pairs"], case["gate1"]["astar"]["per_unit"])
    if rng.random() < 0.1:
        truthful = rng.choice(gate3["pairs"])["truthful"]
        if truthful["per_unit"]:
            mean = sum(truthful["per_unit"]) / len(truthful["per_unit"])
            truthful["utility"] = mean + rng.choice([0.0, 0.01])
    if rng.random() < 0.08:
        rng.choice(gate3["pairs"])[rng.choice(["assignment_frozen", "independence_ok"])] = False
    for family, keys in (
        (gate3, ("design_checks_pass", "stopping_rule_pass", "registered_pairs_complete")),
        (null, ("channel_checks_pass", "freshness_pass", "development_confirmatory_disjoint")),
    ):
        if rng.random() < 0.06:
            family[rng.choice(keys)] = False
    if rng.random() < 0.1:
        gate3["neutral_contract_audit_pass"] = rng.random() < 0.7
    if rng.random() < 0.04:
        null["scaffold_hash"] = "another-scaffold"
    if rng.random() < 0.25 and len(gate3["pairs"]) >= 10:
        _replace_pairs(rng, case)


def _straddle(rng: random.Random, pairs: list[Row], claimed: list[float]) -> None:
    neutral = rng.choice(pairs)["neutral"]
    if neutral["per_unit"]:
        neutral["validity"] = rng.choice(["unresolved", "valid"])
        neutral["per_unit"] = _scores(rng, claimed[0] - 0.1, len(claimed), 0.1)


def _replace_pairs(rng: random.Random, case: Case) -> None:
    registration, gate3 = case["registration"], case["gate3"]
    registration |= {
        "gate3_pair_replacement_policy": "preaction_transport_pair_replacement_v1",
        "max_feedback_pair_replacements": rng.choice([1, 2]),
        "max_sham_pair_replacements": rng.choice([0, 1]),
    }
    families = [(gate3, ("truthful", "neutral"))]
    if registration["max_sham_pair_replacements"]:
        families.append((gate3["sham"], ("reference_null", "proposed_sham")))
    for family, arms in families:
        pairs = family["pairs"]
        index = rng.randrange(len(pairs))
        first = copy.deepcopy(pairs[index])
        for key in ("pair_id", "block_id", "randomization_draw_receipt_hash"):
            first[key] += "-first"
        for arm in arms:
            first[arm]["branch_id"] += "-first"
            first[arm]["prestart_contract_receipt_hash"] += "-first"
        first[arms[0]] = (lost if rng.random() < 0.85 else failed)(first[arms[0]])
        pairs[index]["replacement_of"] = first["pair_id"]
        pairs.insert(index if rng.random() < 0.9 else 0, first)
        family["no_pair_replacements"] = False
        family["started_pair_count"] = len(pairs)


# --- what the reference decides otherwise ------------------------------------------------------------------


def _depart(rng: random.Random, case: Case) -> None:
    """Give occasion for one of the deliberate departures (``dcpflow.bundles.dcp_audit.verify.departures``)."""
    rows, claimed = case["gate2"]["controls"], case["gate1"]["astar"]
    choices = ["same artifact", "nameless units"]
    if case["gate3"] is not None:
        choices += ["null scores", "neutral hit despite a fault", "neutral unresolved despite a fault"] * 2
    choice = rng.choice(choices)
    if choice == "same artifact":
        row = rng.choice(rows)
        if row["per_unit"]:
            row["artifact_hash"] = claimed["artifact_hash"]
            if rng.random() < 0.5:
                row["per_unit"] = list(claimed["per_unit"])
    elif choice == "nameless units":
        for row in rows[:2]:
            row |= {"independence_ok": False, "independent_unit_id": ""}
    elif choice == "null scores":
        branch = rng.choice(case["gate3"]["sham"]["pairs"])["proposed_sham"]
        branch |= {"per_unit": [0.25, 0.5], "unit_ids": ["null-1", "null-2"]}
    else:
        lineage_empty(case)
        pair = case["gate3"]["pairs"][0]
        if choice == "neutral hit despite a fault":
            if pair["neutral"]["per_unit"]:
                pair["neutral"]["per_unit"] = list(claimed["per_unit"])
            case["integrity"]["provenance_pass"] = False
        else:
            pair["neutral"] |= {"validity": "unresolved"}
            case["gate3"]["truthful_channel_audit_pass"] = False


def _tamper(rng: random.Random, case: Case) -> None:
    """One change that the digests may or may not have been redone for."""
    kinds = ["attestation", "digest", "attribution", "control", "control", "registration"]
    if case["gate3"] is not None:
        kinds += ["gate3"] * 4
    kind = rng.choice(kinds)
    if kind == "attestation":
        case["integrity"][rng.choice(TRUE_FLAGS)] = False
    elif kind == "digest":
        key = rng.choice([key for key in case["integrity"] if key.endswith("_hash")])
        case["integrity"][key] = rng.choice(["", "another-digest"])
    elif kind == "attribution":
        case["integrity"] |= rng.choice(
            [
                {"human_assistance": "adaptive_scientific"},
                {"web_access_used": True},
                {"web_access_used": True, "web_replay_scope": "observed_bytes_frozen"},
                {"attribution_subject": "nobody"},
            ]
        )
    elif kind == "registration":
        case["registration"] |= rng.choice(FLAWED_REGISTRATIONS)
    elif kind == "control":
        _change_field(rng, rng.choice(case["gate2"]["controls"]))
    else:
        gate3 = case["gate3"]
        pair, null = rng.choice(gate3["pairs"]), rng.choice(gate3["sham"]["pairs"])
        _change_field(
            rng,
            rng.choice([gate3, gate3["sham"], pair, pair["truthful"], pair["neutral"], null, null["proposed_sham"]]),
        )
    if kind in ("control", "gate3") and rng.random() < 0.6:
        seal(case)


def _change_field(rng: random.Random, row: Row) -> None:
    key = rng.choice([key for key, value in row.items() if isinstance(value, str | bool | int)])
    value = row[key]
    if isinstance(value, bool):
        row[key] = not value
    elif isinstance(value, int):
        row[key] = value + 1
    elif key in ("outcome", "validity"):
        row[key] = "unresolved"
    elif key == "checkpoint_scope":
        row[key] = "lineage_empty" if value == "lineage_prefix" else "lineage_prefix"
    else:
        row[key] = rng.choice(["", "another", f"{value} "])
