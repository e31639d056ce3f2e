"""Where verifiers of such audits are known to go wrong, each by its number in the list of pitfalls (B1 to B18)."""

from __future__ import annotations

import dataclasses
import itertools
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from dcp.bundle import write_core_bundle
from dcp.evaluate import evaluate
from protocol.builders import (
    Case,
    control,
    core_case,
    decided,
    decoded,
    failed,
    lineage_empty,
    neutral_hits,
    noisy,
    reference,
    seal,
    small_evidence_case,
)

from dcpflow.bundles.dcp_audit.comparison import compare
from dcpflow.bundles.export import export
from dcpflow.bundles.verify import RECORDED_BY_US, SELF_ATTESTED, verify
from dcpflow.errors import EvidenceError, UsageError
from dcpflow.protocol import AttemptStatus, Status, intervals, plain, registration_warnings
from dcpflow.records import canonical, receipts, scores, stagefile
from dcpflow.tasks.sqlite_index import SqliteIndexTask

if TYPE_CHECKING:
    from tests.conftest import Audit

    from evidence.conftest import Case as OwnCase


def small_core(attempts: int = 80, **registration: Any) -> Case:
    controls = [control(i, noisy(0.70, 4, 0.01, seed=i + 1)) for i in range(attempts)]
    return core_case(claimed=noisy(0.90, 4, 0.01), baseline=noisy(0.70, 4, 0.01), controls=controls, **registration)


def written(case: Case, folder: Path) -> Path:
    """A bundle by the reference's own writer."""
    parts = reference(case)
    write_core_bundle(folder, parts["reg"], parts["integrity"], parts["gate1_ev"], parts["gate2_ev"], evaluate(**parts))
    return folder


def decision_of(audit: Audit) -> dict[str, Any]:
    audit.decide()
    found: dict[str, Any] = canonical.decode(audit.job.layout.decision.read_bytes(), "the decision")
    return found


def test_b1_a_mean_depends_on_neither_order_nor_interpreter() -> None:
    assert intervals.mean([0.95] * 20) == 0.95  # added up from the left it is 0.9499999999999996
    values = [0.1, 0.2, 0.3, 1e-17, 0.7]
    assert len({intervals.mean(order) for order in itertools.permutations(values)}) == 1


def test_b2_a_verifier_flaw_is_part_of_the_decision() -> None:
    found = decided(small_core(), verifier_flaw=True)
    assert (found.core.status, found.core.rule) == (Status.INCONCLUSIVE, "V10")
    assert plain(found)["verifier_flaw"] is True


def test_b3_thresholds_rewritten_after_the_results_do_not_pass(audit_copy: Audit) -> None:
    layout = audit_copy.job.layout
    easier = audit_copy.with_settings(thresholds={"gate1": {"delta_min": 1e-9}, "gate2": {"kappa": 0.0}})
    for path in (layout.registration / "parts/thresholds.json", layout.registration / "registration.json"):
        path.unlink()
    # the forger also hides what had been registered
    shutil.rmtree(layout.history)
    easier.register()
    found = decision_of(easier)
    assert found["gate1"]["delta_min"] == 1e-9
    assert any("registration_frozen_first" in fault for fault in found["faults"])
    assert found["core"]["status"] != "certified"


def test_b4_what_is_recorded_is_told_apart_from_what_is_attested(finished_audit: Audit, tmp_path: Path) -> None:
    ours, theirs = verify(finished_audit.results), verify(written(small_core(), tmp_path / "bundle"))
    assert ours.ok
    assert theirs.ok
    assert (ours.provenance, theirs.provenance) == (RECORDED_BY_US, SELF_ATTESTED)


def test_b4_without_its_transcript_an_episode_counts_for_nothing(audit_copy: Audit) -> None:
    record = audit_copy.job.store.root / "challengers/00002/withheld/1/record.json"
    digest = canonical.decode(record.read_bytes(), "the record")["transcript"][7:]
    (audit_copy.results / "objects" / digest[:2] / digest[2:]).unlink()
    with pytest.raises(EvidenceError, match="transcript"):
        audit_copy.decide()


@pytest.mark.parametrize(("saved", "expected"), [(1, True), (0, False), (96.0, 96), ("0.5", 0.5), (None, 0)])
def test_b5_values_of_other_types_are_other_values(saved: Any, expected: Any) -> None:
    assert compare({"value": saved}, {"value": expected}).differences


def test_b5_a_stage_file_has_one_form(finished_audit: Audit, tmp_path: Path) -> None:
    from dcpflow.bundles import archive
    from dcpflow.bundles.format import MANIFEST, with_manifest

    path = tmp_path / "claim.dcp"
    export(finished_audit.results, path)
    members = archive.read(path)
    body = canonical.decode(members.pop(MANIFEST), "the manifest")["body"]
    members["scores/target.json"] += b"\n"
    again = with_manifest(members, body["contract"], body["registration"], revealed=body["revealed"])
    path.write_bytes(archive.encode(again))
    assert "scores/target.json: is not in its canonical form" in verify(path).error


@pytest.mark.parametrize("brackets", [100, 10_000, 1_000_000])
def test_b6_deep_nesting_is_refused_in_words(tmp_path: Path, brackets: int) -> None:
    bundle = written(small_core(), tmp_path / "bundle")
    path = next(bundle.rglob("registration.json"))
    path.chmod(0o644)
    path.write_bytes(b'{"claim_id":' + b"[" * brackets + b"]" * brackets + b"}")
    found = verify(bundle)
    assert not found.ok
    assert "\n" not in found.error
    with pytest.raises(EvidenceError):
        canonical.decode(b"[" * brackets + b"]" * brackets, "here")


def test_b7_attempts_without_a_unit_are_not_one_unit() -> None:
    case = small_core()
    for attempt in case["gate2"]["controls"][:2]:
        attempt |= {"independence_ok": False, "independent_unit_id": ""}
    assert decided(seal(case)).core.status is Status.CERTIFIED


def test_b8_a_hit_refutes_whichever_seat_it_came_from() -> None:
    case = neutral_hits(lineage_empty(small_evidence_case()), [3])
    case["integrity"]["provenance_pass"] = False
    assert decided(case).core.status is Status.REFUTED


def test_b9_an_attempt_that_was_started_cannot_be_left_out(audit_copy: Audit) -> None:
    (path,) = [path for path in audit_copy.receipts if path.parent.name == "matched"]
    contract = audit_copy.job.contract.digest
    body = receipts.read_body(path, contract)
    kept = [line for line in body["episodes"] if line["slot"] != 3]
    stagefile.write(path, receipts.SCHEMA, body | {"episodes": kept})
    audit_copy.score("challengers")
    audit_copy.tabulate()
    found = decision_of(audit_copy)
    assert found["gate2"]["challengers"]["started"] == 5
    assert any("ledger_complete" in fault for fault in found["faults"])
    assert found["core"]["class"] == "audit_incomplete"


def test_b10_a_null_task_without_sensitivity_is_refused_before_anything_is_sealed(
    audit_copy: Audit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SqliteIndexTask, "known_solution", lambda self, *_: self.baseline({}))
    audit_copy.job.layout.seal.unlink()
    with pytest.raises(UsageError, match="the baseline scores as well as the known solution"):
        audit_copy.seal()


def test_b10_a_null_study_in_which_everything_scores_the_same_blocks_the_evidence(convincing: OwnCase) -> None:
    stages = {"null_pairs", "misled_nulls"}
    flat = convincing.with_scores(
        lambda row: dataclasses.replace(row, units=dict.fromkeys(row.units, 1.0)) if row.stage in stages else row
    )
    assert convincing.outcome.decision.evidence.status is Status.CERTIFIED
    assert flat.outcome.decision.evidence.status is Status.INCONCLUSIVE


def test_b11_controls_are_counted_from_their_scored_records(audit_copy: Audit) -> None:
    path = audit_copy.job.layout.scores("controls")
    body, _ = stagefile.read(path, scores.SCHEMA, "the scores")
    row = next(row for row in body["rows"] if row["role"] == "candidate")
    row["units"] = dict.fromkeys(row["units"], 0.0)
    stagefile.write(path, scores.SCHEMA, body)
    with pytest.raises(EvidenceError, match="is not what records and scores give"):
        audit_copy.decide()
    audit_copy.tabulate()
    controls = decision_of(audit_copy)["controls"]
    assert (controls["successes"], controls["trials"]) == (3, 4)


def test_b12_a_registered_replacement_keeps_the_number_of_pairs(convincing: OwnCase) -> None:
    from evidence.test_decision_document import replaced_pair

    assert replaced_pair(convincing, 4).outcome.decision.evidence.status is Status.CERTIFIED


@pytest.mark.parametrize("scores_of_it", [noisy(0.70, 4, 0.01), [0.0] * 4])
def test_b13_the_claimed_artifact_in_a_challengers_hands_is_never_a_miss(scores_of_it: list[float]) -> None:
    case = small_core()
    case["gate2"]["controls"][3] |= {
        "artifact_hash": case["gate1"]["astar"]["artifact_hash"],
        "per_unit": scores_of_it,
    }
    found = decided(seal(case))
    assert found.core.status is not Status.CERTIFIED
    assert found.gate2.attempts[3].status is not AttemptStatus.CONFIRMED_MISS


def test_b14_weak_floors_stand_in_the_decision(convincing: OwnCase) -> None:
    from dcpflow.evidence.decision import document

    weak = convincing.with_config(
        "thresholds", gate1={"delta_min": 0.005}, gate3={"delta_evidence": 0.002, "delta_sham": 0.001}
    )
    warnings = document(weak.outcome)["warnings"]
    for key in ("delta_min = 0.005", "delta_evidence = 0.002", "sealed_units = 1"):
        assert any(warning.startswith(key) for warning in warnings), warnings
    kept = document(convincing.outcome)["warnings"]
    assert [warning.split(" = ")[0] for warning in kept] == ["sealed_units"]


def test_b15_the_bound_without_model_failures_stands_beside_the_bound() -> None:
    case = small_core(96)
    for index in range(19):
        case["gate2"]["controls"][index] = failed(case["gate2"]["controls"][index])
    gate = decided(seal(case)).gate2
    assert gate.bound == intervals.zero_hit_upper_bound(96, 0.02)
    assert gate.bound_without_failures == intervals.zero_hit_upper_bound(77, 0.02)


def test_b16_necessity_out_of_reach_is_said_when_it_is_registered() -> None:
    asked = dataclasses.replace(
        decoded(small_evidence_case()).registration, necessity_claimed=True, feedback_pairs=30, null_pairs=60
    )
    cautions = registration_warnings(asked)
    assert any("necessity needs 104 neutral branches" in str(caution) for caution in cautions), cautions


def test_b17_too_few_pairs_for_a_continuous_interval_are_said_when_they_are_registered() -> None:
    asked = small_evidence_case(delta_sham=0.02)
    cautions = [str(caution) for caution in registration_warnings(decoded(asked).registration)]
    assert any("cannot be narrow enough below 1561 pairs" in caution for caution in cautions), cautions


def test_b18_a_core_bundle_is_not_taken_for_a_full_audit(tmp_path: Path) -> None:
    found = verify(written(small_core(), tmp_path / "bundle"))
    assert any("profile core" in detail for _, detail in found.recomputed)
    assert found.evidence["status"] == "not_tested"
