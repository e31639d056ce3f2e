"""The shipped example of an audit that looks back, through the workflow."""

from __future__ import annotations

import sys
from pathlib import Path

from workflow.conftest import Audit

CASE = "config/cases/retrospective.yaml"


class LookedBack(Audit):
    def __init__(self, folder: Path, original: bytes = b"") -> None:
        super().__init__(folder, original)
        self.results = folder / "results/cases/retrospective"
        self.decision_path = self.results / "decision.json"

    def _command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", *words, "--configfile", CASE]


def test_no_target_is_run_and_an_edit_of_the_artifact_is_another_audit(tmp_path: Path) -> None:
    audit = LookedBack.make(tmp_path / "audit")
    run = audit.finish()
    assert not {"run_target", "freeze_packet", "select_checkpoint"} & set(run.rules)
    assert not (audit.store / "target").exists()
    assert (audit.decision["core"]["rule"], audit.decision["gate2"]["challengers"]["started"]) == ("V17", 8)
    assert audit.run().idle

    artifact = audit.folder / "config/artifacts/affine.json"
    artifact.write_text(artifact.read_text().replace('"constant": 0', '"constant": 1'))
    planned = audit.dcpflow("plan-rerun").text
    assert "claim.artifact" in planned and "8 challengers" in planned
    assert "run_challenger" in planned and "run_target" not in planned
