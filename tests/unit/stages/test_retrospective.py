"""An audit that looks back: an existing artifact, challengers and controls, no target run and no certificate."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from copy import deepcopy as copy_of
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dcpflow.bundles import interchange
from dcpflow.bundles.audit import UNFORESEEN
from dcpflow.bundles.export import export
from dcpflow.bundles.unpack import import_bundle
from dcpflow.bundles.verify import verify
from dcpflow.errors import EvidenceError, UsageError
from dcpflow.evidence import decision, folder
from dcpflow.planning import cheats, plan, simulation
from dcpflow.planning.endings import Rates
from dcpflow.protocol.config import ConfigError, load
from dcpflow.records import canonical
from dcpflow.records.draws import Nonce
from dcpflow.records.objects import ObjectStore
from dcpflow.records.registration import Registered
from dcpflow.report import material, page, screen
from dcpflow.stages import rerun
from dcpflow.stages.seal import hidden_of
from dcpflow.stages.verify import verify as verify_with_task
from dcpflow.tasks import load_task

if TYPE_CHECKING:
    from tests.conftest import Audit

LOOKED_BACK: dict[str, Any] = {
    "artifact_file": "somewhere",
    "published": "A function, <b>published</b> nowhere.",
    "boundary": "K and E0 say all that was known.",
}


def sections(artifact_file: str) -> dict[str, Any]:
    return {
        "claim": {
            "grade": "core",
            "mode": "retrospective_prepub",
            "retrospective": LOOKED_BACK | {"artifact_file": artifact_file},
        },
        "task": {"name": "affine", "settings": {}},
        "agent": {"name": "parity_learner", "model_id": "dcpflow-parity-learner-1"},
        "information": {"web": None},
        "limits": {"experiments": 24},
        "design": {"challengers": 4, "controls": 2},
        "thresholds": {"gate1": {"delta_min": 0.35}, "gate2": {"kappa": 1 / 7}},
    }


def made(new_audit: Callable[..., Audit], artifact_file: Path, **more: Any) -> Audit:
    audit, given = new_audit(), sections(str(artifact_file)) | more
    settings = {name: audit.settings[name] | keys for name, keys in given.items()}
    return replace(audit, settings=audit.settings | settings)


@pytest.fixture(scope="module")
def looked_back(new_audit: Callable[..., Audit], tmp_path_factory: pytest.TempPathFactory, backend: str) -> Audit:
    """A finished one, whose artifact is the function itself. Do not alter it."""
    path = tmp_path_factory.mktemp("artifact") / "function.json"
    strata = {"more": {"limits": {"experiments": 30}, "challengers": 2}}
    audit = made(new_audit, path, isolation={"backend": backend}, strata=strata)
    task = load_task(audit.section("task"), None)
    path.write_text(
        task.known_solution(task.presentation(bytes(32)), hidden_of(task, Nonce.read(audit.nonce_file), "main"))
    )
    audit.run_all()
    return audit


@pytest.fixture
def copy(looked_back: Audit, tmp_path: Path) -> Audit:
    return looked_back.at(shutil.copytree(looked_back.results, tmp_path / "results"))


def decision_of(audit: Audit) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(audit.job.layout.decision.read_bytes())
    return found


def test_it_stays_inconclusive_and_says_what_it_looks_back_at(looked_back: Audit) -> None:
    found = decision_of(looked_back)
    artifact = Path(looked_back.workflow.artifact_file or "").read_bytes()
    assert (found["core"]["status"], found["core"]["class"], found["core"]["rule"]) == (
        *("inconclusive", "audit_incomplete", "V17"),
    )
    assert (found["evidence"]["status"], found["gate3"], found["target_runs_started"]) == ("not_tested", None, 0)
    assert found["gate1"]["x"] == 1.0
    seal = json.loads((looked_back.results / "task" / "seal.json").read_bytes())["body"]
    assert found["retrospective"] == {
        "mode": "retrospective_prepub",
        "artifact": canonical.digest(artifact),
        "presentation": "0" * 64,
        "published": LOOKED_BACK["published"],
        "boundary": LOOKED_BACK["boundary"],
        "known": {"background": seal["background"], "public": seal["public"]},
    }
    assert any("contamination" in text for text in found["not_claimed"])
    checks = {check["name"]: check for check in found["checks"]}
    assert not checks.keys() & {"target_learned_from_experiments", "all_target_runs_shown"}
    assert checks["information_boundary"]["result"] == "not_assessed"
    assert {check["result"] for check in found["checks"] if check["needed_for"] == "core"} <= {"pass", "not_assessed"}
    assert found["strata"]["more"]["challengers"]["started"] == 2
    view = folder.read(looked_back.job.layout, looked_back.receipts, looked_back.scores).view
    assert not view.of("target")
    assert {e.record.prior_seal for e in view.of("challengers")} == {canonical.digest(artifact)}


def test_a_challenger_that_recovers_refutes_it_whatever_gate_1_says(copy: Audit) -> None:
    """A gain that is too small refutes nothing by itself, since the scorer was rebuilt; a recovery does."""
    wide = copy.with_settings(thresholds={"gate1": {"delta_min": 0.6}})
    for audit, kappa, rule in ((wide, 0.0, "V17"), (wide, 0.95, "V11")):
        amended = audit.with_settings(thresholds={"gate2": {"kappa": kappa}})
        amended.register()
        amended.decide()
        found = decision_of(amended)
        assert found["core"]["rule"] == rule
        shown = page.render(material.read(amended.job.layout)).decode()
        assert re.search(r"Gate 1: [^<]*</h3>\s*<p class=\"word\">No<", shown)
    assert found["core"]["status"] == "refuted" and found["gate2"]["witnesses"]


def test_screen_and_page_say_that_nothing_was_certified_and_which_boundary_was_rebuilt(looked_back: Audit) -> None:
    shown = screen.render(decision_of(looked_back))
    assert "no target run, RETROSPECTIVE" in shown
    assert "rebuilt as it was before the publication, by the auditor's word: K and E0 say all" in shown
    made = page.render(material.read(looked_back.job.layout)).decode()
    assert "<b>published" not in made and "&lt;b&gt;published" in made
    assert "There is none: the claimed artifact" in made
    assert "The audit is retrospective: no target was run" in made


def test_it_verifies_as_a_folder_and_as_a_bundle_and_comes_back_from_one(looked_back: Audit, tmp_path: Path) -> None:
    verify_with_task(looked_back.job)
    out = tmp_path / "claim.dcp"
    export(looked_back.results, out, Nonce.read(looked_back.nonce_file))
    found = verify(out)
    assert found.ok, found.error
    assert found.core["rule"] == "V17"
    import_bundle(out, tmp_path / "again")
    assert verify(tmp_path / "again").ok
    with pytest.raises(EvidenceError, match="its verifier might certify the claim"):
        interchange.export(looked_back.results, tmp_path / "foreign")


def test_the_artifact_has_to_be_there_as_it_was_registered(copy: Audit) -> None:
    objects = ObjectStore(copy.job.layout.objects)
    path = objects.path(copy.job.contract.artifact)
    path.chmod(0o644)
    path.write_text("another")
    assert "the claimed artifact was altered" in verify(copy.results).error
    path.unlink()
    assert f"rm -f '{copy.results / 'registration' / 'contract.json'}'" in verify(copy.results).error
    copy.freeze_contract()
    assert verify(copy.results).ok


@pytest.mark.parametrize(
    "change",
    [
        lambda claim: claim["config"].pop("mode"),
        lambda claim: claim["config"].update(mode="prospective"),
        lambda claim: claim.pop("artifact"),
        lambda claim: claim["config"].pop("retrospective"),
    ],
)
def test_nobody_gets_out_of_it_by_another_claim(looked_back: Audit, change: Callable[[dict[str, Any]], Any]) -> None:
    """Whoever edits the claim, and makes every digest anew, still has no target run, or no artifact."""
    evidence = folder.read(looked_back.job.layout, looked_back.receipts, looked_back.scores)
    registered = evidence.view.registered
    claim = copy_of(registered.parts["claim"])
    change(claim)
    seen = replace(evidence.view, registered=replace(registered, parts=registered.parts | {"claim": claim}), strata={})
    with pytest.raises(UNFORESEEN):
        decision.document(
            decision.reach(
                seen, evidence.facts, evidence.episode_facts, [registered.digest], folder.config_of(seen.registered)
            )
        )


def test_a_digest_beside_the_claim_of_a_prospective_audit_stands_for_nothing() -> None:
    claim = {"config": {"id": "claim"}, "artifact": canonical.digest(b"")}
    assert Registered("", "", {"claim": claim}).artifact == ""
    assert Registered("", "", {"claim": claim | {"config": {"mode": "odd"}}}).artifact == claim["artifact"]


# --- what is configured ------------------------------------------------------------------------------------


def test_a_prospective_audit_registers_what_it_ever_did() -> None:
    given = {"claim": {"mode": "prospective", "retrospective": None}}
    assert load(given).parts() == load({}).parts()
    assert not load({}).parts()["claim"].keys() & {"mode", "retrospective", "artifact"}


def test_where_the_artifact_lies_is_not_registered_but_what_it_is(
    tmp_path: Path, new_audit: Callable[..., Audit]
) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_text("a")
    other.write_text("a")
    first, second = (made(new_audit, path).workflow for path in (one, other))
    assert first.parts == second.parts and first.registered_sources == second.registered_sources
    other.write_text("b")
    assert made(new_audit, other).workflow.registered_sources != first.registered_sources
    assert "--artifact-file" in first.artifact_option
    assert new_audit().workflow.artifact_option == ""


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"claim": {"grade": "evidence"}}, "claim.grade"),
        ({"claim": {"mode": "prospective"}}, "claim.retrospective: goes with"),
        ({"claim": {"retrospective": None}}, "claim.retrospective.artifact_file: is missing"),
        ({"claim": {"retrospective": {"artifact_file": "a", "published": "b"}}}, "claim.retrospective.boundary"),
        ({"claim": {"retrospective": LOOKED_BACK | {"published": "two\nlines"}}}, "must be one line of text"),
        ({"claim": {"retrospective": LOOKED_BACK | {"presentation": "AB"}}}, "must be 64 hex digits"),
        ({"information": {"web": {}}}, "information.web: must be null without a target run"),
    ],
)
def test_what_does_not_go_together_is_refused(change: dict[str, Any], told: str) -> None:
    settings = sections("function.json")
    for name, keys in change.items():
        settings[name] = settings[name] | keys
    with pytest.raises(ConfigError) as caught:
        load(settings)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("content", "told"),
    [(None, "cannot be read: No such file"), (b"\xff", "no text in UTF-8"), (b"a" * 20_000, "limits.candidate_bytes")],
)
def test_a_file_that_is_no_artifact_is_told_before_any_job(
    new_audit: Callable[..., Audit], tmp_path: Path, content: bytes | None, told: str
) -> None:
    path = tmp_path / "artifact"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=told):
        _ = made(new_audit, path).workflow.registered_sources


def test_an_artifact_that_the_task_does_not_accept_is_told_before_any_job(looked_back: Audit, tmp_path: Path) -> None:
    looked_back.workflow.require_task()
    path = tmp_path / "artifact"
    path.write_text('{"inputs": ["nobody"], "constant": 0}')
    found = looked_back.settings["claim"]["retrospective"] | {"artifact_file": str(path)}
    other = looked_back.with_settings(claim={"retrospective": found})
    with pytest.raises(UsageError, match=r"the claimed artifact is invalid: .*nobody"):
        other.workflow.require_task()


def test_planning_says_what_it_cannot_say(looked_back: Audit) -> None:
    config = looked_back.workflow.config
    with pytest.raises(UsageError, match="certifies nothing"):
        plan.altered(config, {})
    setup = simulation.setup(config, simulation.Truth(Rates()), "lineage_prefix")
    with pytest.raises(UsageError, match="about a target run"):
        list(cheats.play(config, setup, 1))
    assert {ending[1] for ending in simulation.simulate(setup, 20).endings} != {"certified"}


def test_a_rerun_is_planned_with_the_artifact(looked_back: Audit) -> None:
    layout = looked_back.job.layout
    planned = rerun.registered_next(looked_back.workflow, layout, {"freeze_contract"})
    assert planned["claim"] == looked_back.job.contract.parts["claim"]
