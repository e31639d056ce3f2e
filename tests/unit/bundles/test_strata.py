"""The bundle of an audit with a stratum: it holds the stratum's records, and replays them."""

from __future__ import annotations

import json
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

if TYPE_CHECKING:
    from tests.conftest import Audit


def test_a_bundle_holds_and_replays_its_strata(stratified_audit: Audit, tmp_path: Path) -> None:
    out, nonce = tmp_path / "claim.dcp", Nonce.read(stratified_audit.nonce_file)
    export(stratified_audit.results, out, nonce)
    members = archive.read(out)
    assert "challengers/strong/b00001-00003.json" in members
    assert "scores/challengers/strong.json" in members
    found = verify(out)
    assert found.ok, found.error
    told = dict(found.recomputed)
    assert "strong" in told["strata"]
    episodes = sum(name.endswith("/record.json") for name in members)
    assert told["draws"].startswith(f"of {episodes} episodes, 5 scoring orders")


def test_a_stratum_that_was_removed_is_named_and_left_out_of_a_bundle_of_another_format(
    finished_audit: Audit, stratified_audit: Audit, tmp_path: Path
) -> None:
    removed = finished_audit.at(shutil.copytree(stratified_audit.results, tmp_path / "results"))
    removed.register()
    removed.tabulate()
    removed.decide()
    told = "the stratum strong was registered with 3 challengers (3 started) and is no longer shown"
    before, after = (json.loads(audit.job.layout.decision.read_bytes()) for audit in (finished_audit, removed))
    assert after == {**before, "headline": [told]}
    made = interchange.export(removed.results, tmp_path / "bundle")
    assert made.left_out == ("strong",)
    notes = read_bundle(tmp_path / "bundle").payloads["registration"]["notes"]["dcpflow"]
    assert notes["left_out"] == "informative strata of challengers, which decide nothing: strong"


def test_what_is_said_of_a_stratum_s_commitments_is_held_against_the_nonce(stratified_audit: Audit) -> None:
    """Said to be false, one would keep each of its hits from being shown."""
    audit = stratified_audit
    evidence = folder.read(audit.job.layout, audit.receipts, audit.scores)
    secrets = revealed.Secrets(Nonce.read(audit.nonce_file), {}, "the given nonce")
    revealed.recompute(evidence, secrets)
    own = evidence.facts.strata["strong"]
    said = replace(own, commitments={**own.commitments, "nonce_commitment": False})
    bent = replace(evidence, facts=replace(evidence.facts, strata={"strong": said}))
    with pytest.raises(EvidenceError, match="whether nonce_commitment opens to the given nonce: recorded False"):
        revealed.recompute(bent, secrets)


def test_a_stratum_that_was_renamed_shows_its_episodes_which_count_for_nothing(
    finished_audit: Audit, stratified_audit: Audit, tmp_path: Path
) -> None:
    """Its contract is the same, so that its episodes are there already and say the name that it had."""
    results = Path(shutil.copytree(stratified_audit.results, tmp_path / "results"))
    same = stratified_audit.settings["strata"]["strong"]
    renamed = finished_audit.with_settings(strata={"stronger": same}).at(results)
    renamed.register()
    renamed.run_strata()
    renamed.tabulate()
    renamed.decide()
    found = json.loads(renamed.job.layout.decision.read_bytes())
    block = found["strata"]["stronger"]
    assert block["challengers"]["unresolved"] == block["challengers"]["started"] == 3
    assert block["complete"] is False and block["recovery_upper_bound"] is None
    assert "attempts unresolved: 3, first challengers/stronger/1: stratum is 'strong'" in block["reason"]
    assert found["headline"] == [
        "the stratum strong was registered with 3 challengers (3 started) and is no longer shown"
    ]
    export(results, tmp_path / "claim.dcp")
    assert "challengers/stronger/b00001-00003.json" in archive.read(tmp_path / "claim.dcp")
    assert verify(tmp_path / "claim.dcp").ok
