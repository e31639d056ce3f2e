"""The bundle of an audit in several looks: each look has its receipt where a results folder has it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dcpflow.bundles import archive
from dcpflow.bundles.export import export
from dcpflow.bundles.verify import verify

if TYPE_CHECKING:
    from tests.conftest import Audit


def test_a_bundle_of_amended_looks_is_verified(audit_copy: Audit, tmp_path: Path) -> None:
    amended = audit_copy.with_settings(design={"gate2_looks": [2, 6]})
    amended.register()
    amended.run("challengers")
    amended.conclude()
    export(amended.results, tmp_path / "claim.dcp")
    receipts = {name for name in archive.read(tmp_path / "claim.dcp") if name.startswith("challengers/")}
    assert receipts == {"challengers/matched/b00001-00002.json", "challengers/matched/look-2/b00003-00006.json"}
    found = verify(tmp_path / "claim.dcp")
    assert found.ok, found.error
