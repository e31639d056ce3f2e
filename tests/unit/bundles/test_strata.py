"""The bundle of an audit with a stratum: it holds the stratum's records, and replays them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dcpflow.bundles import archive
from dcpflow.bundles.export import export
from dcpflow.bundles.verify import verify
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
