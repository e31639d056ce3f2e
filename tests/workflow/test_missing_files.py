"""Whatever a run has made and somebody has deleted, the next run makes again, and reaches the same decision."""

from __future__ import annotations

import shutil

import pytest

from workflow.conftest import Audit

# One run each, over a copy from which these files and the decision were deleted. Files stand together only where
# none of them is made from another nor by the same rule, so that each is missed for its own sake.
CASES = {
    "first receipts": [
        "target/b00001-00001.json",
        "controls/b00001-00004.json",
        "null_pairs/b00001-00004.json",
        "misled_nulls/b00001-00003.json",
        "registration/parts/design.json",
    ],
    "later receipts, first scores": [
        "challengers/matched/b00001-00006.json",
        "pairs/b00001-00003.json",
        "scores/target.json",
        "scores/controls.json",
        "registration/parts/thresholds.json",
    ],
    "checkpoint": ["target/checkpoint.json", "scores/challengers.json", "registration/registration.json"],
    "table": ["evidence/episodes.parquet", "evidence/checks.parquet"],
    "contract": ["registration/contract.json"],
}


@pytest.mark.parametrize("case", CASES)
def test_deleted_files_come_back_with_the_identical_decision(audit: Audit, case: str) -> None:
    records = audit.records()
    kept = {name: (audit.results / name).read_bytes() for name in CASES[case]}
    for name in (*kept, "decision.json"):
        (audit.results / name).unlink()
    audit.finish()
    assert audit.decision_bytes == audit.original
    assert {name: (audit.results / name).read_bytes() for name in kept} == kept
    assert audit.records() == records, "an agent was started"


def test_files_that_were_deleted_behind_a_standing_decision_come_back(audit: Audit) -> None:
    names = ["registration/parts/design.json", "scores/pairs.json", "replay/challengers.json", "evidence/manifest.json"]
    for name in names:
        (audit.results / name).unlink()
    audit.finish()
    assert all((audit.results / name).exists() for name in names)
    assert audit.decision_bytes == audit.original


def test_deleted_private_material_comes_back_where_it_is_needed(audit: Audit) -> None:
    for kind in ("sealed", "hidden"):
        (audit.results / f"private/{kind}/main.json").unlink()
    # the sealed units are needed to score the controls, the hidden state to answer the branches
    for name in ("decision.json", "scores/controls.json"):
        (audit.results / name).unlink()
    for folder in (audit.store / "pairs", audit.results / "pairs"):
        shutil.rmtree(folder)
    audit.finish()
    assert audit.decision_bytes == audit.original
