"""Where verifiers of such audits are known to go wrong, each by its number in the list of pitfalls (B1 to B18).

Those whose test stands better elsewhere are named by their number there.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from dcp.bundle import write_core_bundle
from dcp.evaluate import evaluate
from protocol.builders import Case, reference, small_core_case

from dcpflow.bundles.dcp_audit.comparison import compare
from dcpflow.bundles.verify import RECORDED_BY_US, SELF_ATTESTED, verify
from dcpflow.errors import EvidenceError
from dcpflow.protocol import intervals
from dcpflow.protocol.model import Status
from dcpflow.records import canonical, receipts, scores, stagefile

if TYPE_CHECKING:
    from tests.conftest import Audit

    from evidence.conftest import Case as OwnCase


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
    ours, theirs = verify(finished_audit.results), verify(written(small_core_case(), tmp_path / "bundle"))
    assert ours.ok
    assert theirs.ok
    assert (ours.provenance, theirs.provenance) == (RECORDED_BY_US, SELF_ATTESTED)


@pytest.mark.parametrize(("saved", "expected"), [(1, True), (0, False), (96.0, 96), ("0.5", 0.5), (None, 0)])
def test_b5_values_of_other_types_are_other_values(saved: Any, expected: Any) -> None:
    assert compare({"value": saved}, {"value": expected}).differences


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


def test_b10_a_null_study_in_which_everything_scores_the_same_blocks_the_evidence(convincing: OwnCase) -> None:
    stages = {"null_pairs", "misled_nulls"}
    flat = convincing.with_scores(
        lambda row: dataclasses.replace(row, units=(1.0,) * len(row.units)) if row.stage in stages else row
    )
    assert convincing.outcome.decision.evidence.status is Status.CERTIFIED
    assert flat.outcome.decision.evidence.status is Status.INCONCLUSIVE


def test_b11_controls_are_counted_from_their_scored_records(audit_copy: Audit) -> None:
    path = audit_copy.job.layout.scores("controls")
    body, _ = stagefile.read(path, scores.SCHEMA, "the scores")
    row = next(row for row in body["rows"] if row["role"] == "candidate")
    row["units"] = [0.0] * len(row["units"])
    stagefile.write(path, scores.SCHEMA, body)
    with pytest.raises(EvidenceError, match="is not what records and scores give"):
        audit_copy.decide()
    audit_copy.tabulate()
    controls = decision_of(audit_copy)["controls"]
    assert (controls["successes"], controls["trials"]) == (3, 4)


def test_b14_weak_floors_stand_in_the_decision(convincing: OwnCase) -> None:
    from dcpflow.evidence.decision import document

    weak = convincing.with_config(
        "thresholds", gate1={"delta_min": 0.005}, gate3={"delta_evidence": 0.002, "delta_sham": 0.001}
    )
    warnings = document(weak.outcome)["warnings"]
    for key in ("thresholds.gate1.delta_min = 0.005", "thresholds.gate3.delta_evidence = 0.002", "sealed_units = 1"):
        assert any(warning.startswith(key) for warning in warnings), warnings
    kept = document(convincing.outcome)["warnings"]
    assert [warning.split(" = ")[0] for warning in kept] == ["sealed_units"]


def test_b18_a_core_bundle_is_not_taken_for_a_full_audit(tmp_path: Path) -> None:
    found = verify(written(small_core_case(), tmp_path / "bundle"))
    assert any("profile core" in detail for _, detail in found.recomputed)
    assert found.evidence["status"] == "not_tested"


def test_each_pitfall_has_a_test() -> None:
    texts = [path.read_text(encoding="utf-8") for path in Path(__file__).parents[1].rglob("test_*.py")]
    found = {
        int(number)
        for text in texts
        for numbers in re.findall(r"def test_b(\d+)_|[Pp]itfalls? B(\d+)", text)
        for number in numbers
        if number
    }
    assert found == set(range(1, 19))
