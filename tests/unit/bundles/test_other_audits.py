"""Audits that are not the plain case: amended ones, and those without a feedback experiment."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from dcp.api import verify_bundle

from bundles.conftest import Change, Finished, edited, refusal
from dcpflow.bundles import archive, interchange, screen, unpack
from dcpflow.bundles.export import export
from dcpflow.bundles.verify import verify
from dcpflow.errors import EvidenceError

Alter = Callable[[Path, Change], Path]
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def amended(finished: Finished, tmp_path_factory: pytest.TempPathFactory) -> Path:
    results = Path(shutil.copytree(finished.results, tmp_path_factory.mktemp("amended") / "results"))
    audit = finished.audit.at(results).with_settings(thresholds={"gate2": {"rho": 0.04}})
    audit.register()
    audit.decide()
    return results


def test_an_amended_audit_takes_its_history_along(amended: Path, tmp_path: Path) -> None:
    export(amended, tmp_path / "claim.dcp")
    found = verify(tmp_path / "claim.dcp")
    assert found.ok, found.error
    assert found.core["exploratory"] and found.evidence["exploratory"]
    assert dict(found.recomputed)["registration"].endswith("2 in the history")
    assert "EXPLORATORY" in screen.render(found)
    names = [name for name in archive.read(tmp_path / "claim.dcp") if name.startswith("history/")]
    assert [name.split("/")[-1] for name in sorted(names)] == ["decision.json", "entry.json", "entry.json"]
    unpack.import_bundle(tmp_path / "claim.dcp", tmp_path / "out")
    export(tmp_path / "out", tmp_path / "again.dcp")
    assert (tmp_path / "again.dcp").read_bytes() == (tmp_path / "claim.dcp").read_bytes()


def test_no_part_of_a_history_can_be_hidden(amended: Path, altered: Alter, tmp_path: Path) -> None:
    export(amended, tmp_path / "claim.dcp")

    def forget(members: dict[str, bytes]) -> None:
        del members[next(name for name in members if name.startswith("history/0001") and "entry" in name)]

    def deny(members: dict[str, bytes]) -> None:
        name = next(name for name in members if name.startswith("history/0002"))
        members[name] = edited(members[name], lambda body: body.update(changes=[]))

    def move(members: dict[str, bytes]) -> None:
        name = next(name for name in members if name.startswith("history/0001") and "decision" in name)
        members["history/0003-0123456789abcdef/decision.json"] = members.pop(name)

    def spoil(members: dict[str, bytes]) -> None:
        name = next(name for name in members if name.startswith("history/0001") and "decision" in name)
        members[name] = b'{"core": {"status": "excellent"}, "evidence": {"status": "certified"}}\n'

    told = ("the history is broken", "body.changes: are not those", "superfluous", "core.status: must be 'certified'")
    for change, text in zip((forget, deny, move, spoil), told, strict=True):
        assert text in refusal(altered(tmp_path / "claim.dcp", change))


def test_what_is_exploratory_is_no_dcp_audit_bundle(amended: Path, tmp_path: Path) -> None:
    with pytest.raises(EvidenceError, match="the decision is exploratory, which a dcp-audit bundle cannot say"):
        interchange.export(amended, tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_a_refuted_claim_of_another_task(new_audit: Callable[..., Any], backend: str, tmp_path: Path) -> None:
    case = yaml.safe_load((ROOT / "config" / "cases" / "knapsack.yaml").read_text(encoding="utf-8"))
    del case["execution"]
    audit = new_audit(**case, isolation={"backend": backend})
    audit.settings["task"]["settings"] = {}
    audit.run_all()
    export(audit.results, tmp_path / "claim.dcp")
    found = verify(tmp_path / "claim.dcp")
    assert found.ok, found.error
    assert found.core["status"] == "refuted"
    # public material may be JSON of any form: what is known of it is its digest
    assert "task/public/knapsack.json" in archive.read(tmp_path / "claim.dcp")
    made = interchange.export(audit.results, tmp_path / "out")
    assert (made.core, made.profile) == ("refuted", "core")
    assert verify_bundle(tmp_path / "out")["ok"]
    assert verify(tmp_path / "out").ok
    unpack.import_bundle(tmp_path / "out", tmp_path / "folder")
    document = json.loads((tmp_path / "folder" / "decision.json").read_bytes())
    assert document["gate3"] is None and document["gate2"]["witnesses"]
