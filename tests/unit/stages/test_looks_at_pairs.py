"""A feedback experiment in several looks, run stage by stage: decided early, verified, and exported in our format."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dcpflow.bundles import interchange
from dcpflow.bundles.export import export
from dcpflow.bundles.verify import verify as verify_bundle
from dcpflow.errors import EvidenceError
from dcpflow.evidence import folder
from dcpflow.records import receipts
from dcpflow.stages.verify import verify

if TYPE_CHECKING:
    from tests.conftest import Audit

FEW = {"challengers": 1, "controls": 1, "pairs": 8, "pair_looks": [6, 7, 8], "null_pairs": 2, "misled_null_episodes": 0}
# margins so small, and so much error, that six pairs that all differ decide the effect
ALPHA = {"evidence": 0.045, **dict.fromkeys(("main", "score", "recovery", "adequacy", "sham", "neutral"), 0.0008)}
GATE3 = {"bet": 0.99, "delta_evidence": 0.02, "delta_sham": 0.01, "misled_min_misses": 0}


def test_pairs_end_once_the_effect_is_decided(new_audit: Callable[..., Audit], backend: str, tmp_path: Path) -> None:
    audit = new_audit(isolation={"backend": backend}, design=FEW, thresholds={"alpha": ALPHA, "gate3": GATE3})
    audit.run_all()
    found = json.loads(audit.job.layout.decision.read_bytes())
    assert [look["started"] for look in found["gate3"]["looks"]] == [6, 0, 0]
    assert found["gate3"]["not_started"] == 2
    assert [look["ends"] for look in found["gate3"]["looks"]] == [True, False, False]
    assert {path.name for path in audit.job.store.root.glob("pairs/*")} == {f"{slot:05d}" for slot in range(1, 7)}
    (later,) = map(Path, audit.workflow.look_receipts("pairs", 2))
    assert receipts.read_body(later, audit.job.contract.digest)["not_started"].startswith("sha256:")
    passed = {check["name"] for check in found["checks"] if check["result"] == "pass"}
    assert {"pair_looks_in_order", "ledger_complete", "seals_before_branches", "symmetric_scoring"} <= passed
    folder.verify(audit.job.layout)
    verify(audit.job)
    export(audit.results, tmp_path / "claim.dcp")
    assert verify_bundle(tmp_path / "claim.dcp").ok
    with pytest.raises(EvidenceError, match="for which dcp-audit has no interval"):
        interchange.export(audit.results, tmp_path / "out")
