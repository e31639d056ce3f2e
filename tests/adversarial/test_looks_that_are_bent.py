"""Whoever runs an audit in several looks hides a recovery, or goes on after one: the folder's own records tell."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from dcpflow.bundles import interchange
from dcpflow.evidence import folder
from dcpflow.records import canonical, looks, plan, receipts, stagefile
from dcpflow.records.episodes import EpisodeKey
from dcpflow.stages.verify import verify

if TYPE_CHECKING:
    from tests.conftest import Audit

ROOT = Path(__file__).parents[2]
CHALLENGER = EpisodeKey("challengers", 1, "withheld")


@pytest.fixture(scope="module")
def ended(new_audit: Callable[..., Audit], backend: str) -> Audit:
    """The public knapsack: challenger 1, the first look alone, recovers, and two more looks are not started."""
    case = yaml.safe_load((ROOT / "config" / "cases" / "knapsack.yaml").read_text(encoding="utf-8"))
    del case["execution"]
    design = {"challengers": 3, "gate2_looks": [1, 2, 3], "controls": 1}
    audit = new_audit(**case, isolation={"backend": backend}, design=design)
    audit.settings["task"]["settings"] = {}
    audit.run_all()
    return audit


@pytest.fixture
def copy(ended: Audit, tmp_path: Path) -> Audit:
    return ended.at(Path(shutil.copytree(ended.results, tmp_path / "results")))


def decided(audit: Audit) -> dict[str, Any]:
    audit.conclude()
    found: dict[str, Any] = json.loads(audit.job.layout.decision.read_bytes())
    return found


def check(document: dict[str, Any], name: str) -> str:
    (found,) = [check for check in document["checks"] if check["name"] == name]
    return f"{found['result']}: {found['reason']}"


def test_a_recovery_ends_the_challengers_and_the_audit_verifies(ended: Audit, tmp_path: Path) -> None:
    found = json.loads(ended.job.layout.decision.read_bytes())
    assert found["core"]["status"] == "refuted"
    assert found["gate2"]["not_started"] == 2
    assert [look["started"] for look in found["gate2"]["looks"]] == [1, 0, 0]
    later = [Path(path) for look in (2, 3) for path in ended.workflow.look_receipts("challengers", look)]
    scores = canonical.decode(ended.job.layout.scores("challengers-1").read_bytes(), "scores")["digest"]
    body = receipts.read_body(later[0], ended.job.contract.digest)
    assert (body["episodes"], body["not_started"]) == ([], scores)
    assert {path.name for path in ended.job.store.root.glob("challengers/*")} == {"00001"}
    assert check(found, "looks_in_order").startswith("pass")
    folder.verify(ended.job.layout)
    verify(ended.job)
    assert interchange.export(ended.results, tmp_path / "out").core == "refuted"


def test_a_receipt_that_says_of_a_recovery_that_it_was_not_started(copy: Audit) -> None:
    """The receipt is edited, the record removed, everything that follows made anew, the next look run."""
    (path,) = map(Path, copy.workflow.look_receipts("challengers", 1))
    body = {"contract": copy.job.contract.digest, "episodes": [], "not_started": canonical.digest(b"a look before")}
    stagefile.write(path, receipts.SCHEMA, body)
    shutil.rmtree(copy.job.store.record_path(CHALLENGER, 1).parents[2])
    for number in (1, 2, 3):
        if number > 1:
            copy.run_look(copy.job, "challengers", number)
        copy.score(plan.look_phase("challengers", number))
        copy.read_look("challengers", number)
    found = decided(copy)
    assert check(found, "looks_in_order").startswith("fail: not so for challengers slot 1, which was not started")
    assert check(found, "ledger_complete").startswith("fail")


def test_a_look_that_goes_on_after_a_recovery(copy: Audit) -> None:
    """The bit is edited, so that the next look starts; its records are in order, and the scores say otherwise."""
    layout = copy.job.layout
    body = looks.read(layout.look("challengers-1"), copy.job.contract.digest)
    looks.write(layout.look("challengers-1"), body["contract"], body["scores"], ended=False)
    copy.run_look(copy.job, "challengers", 2)
    found = decided(copy)
    assert check(found, "looks_in_order") == (
        "fail: not so for challengers slot 2, which was started after the last look that had to be"
    )
    assert found["core"]["status"] == "refuted"


def test_a_look_that_is_begun_before_the_scores_of_the_one_before(copy: Audit) -> None:
    """Run on a made-up look: its records hold another digest than that of the scores."""
    layout = copy.job.layout
    looks.write(layout.look("challengers-1"), copy.job.contract.digest, canonical.digest(b"no scores yet"), ended=False)
    copy.run_look(copy.job, "challengers", 2)
    found = decided(copy)
    assert check(found, "claim_frozen").startswith("fail: not so for challengers slot 2")
    assert check(found, "looks_in_order").startswith("fail")
    assert found["core"]["status"] == "inconclusive"


def test_an_amendment_that_undoes_the_recovery_starts_what_was_left_out_and_can_be_returned_from(copy: Audit) -> None:
    first = copy.job.layout.decision.read_bytes()
    amended = copy.with_settings(thresholds={"gate1": {"delta_min": 0.01}, "gate2": {"kappa": 0.0}})
    amended.settings["thresholds"]["inference"] = {
        "scope": "sampled_population",
        "method": "bounded_empirical_bernstein",
    }
    amended.register()
    amended.run("challengers")
    found = decided(amended)
    assert found["gate2"]["challengers"]["started"] == 3
    assert found["confirmatory"]["core"] == json.loads(first)["core"]
    copy.register()
    copy.run("challengers")
    assert decided(copy) == json.loads(first)
