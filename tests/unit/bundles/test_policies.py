"""The bundle of an audit with further neutral policies: it holds their pairs, and replays them."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dcpflow.bundles import archive, interchange, revealed
from dcpflow.bundles.dcp_audit import read_bundle
from dcpflow.bundles.export import export
from dcpflow.bundles.verify import verify
from dcpflow.errors import EvidenceError
from dcpflow.evidence import folder
from dcpflow.records.draws import Nonce
from dcpflow.stages import verify as with_task

if TYPE_CHECKING:
    from tests.conftest import Audit


def test_a_bundle_holds_and_replays_its_neutral_policies(audit_of_policies: Audit, tmp_path: Path) -> None:
    out = tmp_path / "claim.dcp"
    export(audit_of_policies.results, out, Nonce.read(audit_of_policies.nonce_file))
    members = archive.read(out)
    assert "pairs_reference_null/b00001-00003.json" in members
    assert "scores/pairs_lagged_sham.json" in members
    found = verify(out)
    assert found.ok, found.error
    told = dict(found.recomputed)
    assert told["neutral policies"] == "reference_null, lagged_sham: informative"
    episodes = sum(name.endswith("/record.json") for name in members)
    assert told["draws"].startswith(f"of {episodes} episodes, 6 scoring orders")


def test_with_task_and_nonce_each_conversation_is_replayed_and_each_score_made_again(audit_of_policies: Audit) -> None:
    with_task.verify(audit_of_policies.job)


def test_what_is_said_of_a_policy_s_scoring_order_is_held_against_the_nonce(audit_of_policies: Audit) -> None:
    audit = audit_of_policies
    evidence = folder.read(audit.job.layout, audit.receipts, audit.scores)
    secrets = revealed.Secrets(Nonce.read(audit.nonce_file), {}, "the given nonce")
    own = evidence.facts.policies["lagged_sham"]
    said = replace(own, scoring_order={"pairs_lagged_sham": False})
    bent = replace(evidence, facts=replace(evidence.facts, policies={**evidence.facts.policies, "lagged_sham": said}))
    with pytest.raises(EvidenceError, match="whether phase pairs_lagged_sham was scored in its drawn order"):
        revealed.recompute(bent, secrets)


def test_a_bundle_of_another_format_leaves_them_out_and_says_so(audit_of_policies: Audit, tmp_path: Path) -> None:
    results = shutil.copytree(audit_of_policies.results, tmp_path / "results")
    made = interchange.export(Path(results), tmp_path / "bundle")
    assert made.left_out == ("reference_null", "lagged_sham")
    notes = read_bundle(tmp_path / "bundle").payloads["registration"]["notes"]["dcpflow"]
    assert notes["left_out"] == "informative neutral policies, which decide nothing: reference_null, lagged_sham"
