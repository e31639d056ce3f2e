"""Amendments: recorded with what they change, marked on what rests on them, and undone by returning."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dcpflow.errors import EvidenceError, UsageError
from dcpflow.evidence import folder
from dcpflow.records import canonical, history, looks, receipts, stagefile
from dcpflow.records.draws import Nonce
from dcpflow.stages import seal
from dcpflow.stages.verify import verify

if TYPE_CHECKING:
    from tests.conftest import Audit


def amend(audit: Audit, **sections: dict[str, Any]) -> Audit:
    """Register other values in the same folder and decide again, as the workflow does after a threshold edit."""
    changed = audit.with_settings(**sections)
    changed.register()
    changed.decide()
    return changed


def decision(audit: Audit) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(audit.job.layout.decision.read_bytes())
    return found


def test_a_threshold_edit_decides_again_and_runs_nothing_again(audit_copy: Audit) -> None:
    layout = audit_copy.job.layout
    kept = {path: path.stat().st_mtime_ns for path in layout.store.rglob("*.json")} | {
        path: path.stat().st_mtime_ns for path in [*audit_copy.receipts, *audit_copy.scores.values()]
    }
    first = decision(audit_copy)
    amended = decision(amend(audit_copy, thresholds={"gate2": {"rho": 0.04}}))
    (amendment,) = amended["registration"]["amendments"]
    assert amendment["changes"] == [{"key": "thresholds.gate2.rho", "old": 0.05, "new": 0.04}]
    assert amendment["opened"]["episodes"]["challengers"] == {"started": 6, "committed": 6}
    assert set(amendment["opened"]["scores"]) == {"target", "challengers", "controls", "pairs"}
    assert amended["core"]["exploratory"] and amended["evidence"]["exploratory"]
    assert amended["gate2"]["rho"] == 0.04
    assert amended["registration"]["contract"] == first["registration"]["contract"]
    assert amended["confirmatory"]["gate2"]["rho"] == 0.05
    assert amended["confirmatory"]["core"] == first["core"]
    assert {path: path.stat().st_mtime_ns for path in kept} == kept


def test_an_edit_of_gate_3_touches_core_where_neutral_branches_are_challengers(audit_copy: Audit) -> None:
    amended = decision(amend(audit_copy, thresholds={"gate3": {"delta_evidence": 0.4}}))
    assert amended["gate3"]["checkpoint_scope"] == "lineage_empty"
    assert amended["core"]["exploratory"] and amended["evidence"]["exploratory"]


def test_returning_to_the_first_registration_gives_back_its_decision_byte_for_byte(audit_copy: Audit) -> None:
    layout = audit_copy.job.layout
    first = layout.decision.read_bytes()
    amend(audit_copy, thresholds={"gate2": {"rho": 0.04}})
    assert layout.decision.read_bytes() != first
    back = amend(audit_copy)
    assert layout.decision.read_bytes() == first
    assert len(history.entries(layout)) == 3, "what was tried in between stays in the history"
    assert history.kept_decision(layout, history.entries(layout)[0]) == first
    assert folder.verify(layout).to_bytes() == first
    verify(back.job)


@pytest.mark.parametrize(("batch", "ended"), [(24, True), (3, True), (24, False)])
def test_receipts_that_amended_looks_have_replaced_are_not_read(audit_copy: Audit, batch: int, ended: bool) -> None:
    """The same six challengers at one look, in two looks of two batches, and in two looks of other batches."""
    layout = audit_copy.job.layout

    def read_again(amended: Audit, ended: bool) -> None:
        looks.write(layout.look("challengers-1"), amended.job.contract.digest, canonical.digest(b"scores"), ended)
        amended.register()
        for number in (1, 2):
            amended.run_look(amended.job, "challengers", number)
        found = [path for path in folder.receipts(layout) if path.is_relative_to(layout.root / "challengers")]
        assert found == sorted(Path(path) for path in amended.workflow.receipts("challengers"))
        started = sum(len(receipts.read(path, amended.job.contract.digest)) for path in found)
        assert started == (2 if ended else 6)

    with_looks = audit_copy.with_settings(design={"gate2_looks": [2, 6]})
    read_again(with_looks.with_settings(execution={"episodes_per_job": 2}), not ended)
    read_again(with_looks.with_settings(execution={"episodes_per_job": batch}), ended)
    audit_copy.register()
    assert folder.verify(layout).to_bytes() == layout.decision.read_bytes()


def test_two_amendments_are_listed_one_by_one(audit_copy: Audit) -> None:
    amend(audit_copy, thresholds={"gate2": {"rho": 0.04}})
    amended = decision(amend(audit_copy, thresholds={"gate2": {"rho": 0.03}}))
    steps = [entry["changes"][0] for entry in amended["registration"]["amendments"]]
    assert [(step["old"], step["new"]) for step in steps] == [(0.05, 0.04), (0.04, 0.03)]


@pytest.fixture
def fewer_challengers(audit_copy: Audit) -> Audit:
    """Somebody registers fewer challengers once all six are scored."""
    changed = audit_copy.with_settings(design={"challengers": 4})
    changed.register()
    changed.run("challengers")
    changed.score("challengers")
    changed.tabulate()
    changed.decide()
    return changed


def test_challengers_that_are_no_longer_registered_are_not_counted_and_core_is_exploratory(
    fewer_challengers: Audit,
) -> None:
    found = decision(fewer_challengers)
    assert found["gate2"]["challengers"]["started"] == 4
    assert found["core"]["exploratory"]
    assert found["registration"]["amendments"][0]["changes"] == [{"key": "design.challengers", "old": 6, "new": 4}]


def test_fewer_challengers_do_not_make_the_first_decision_disappear(
    finished_audit: Audit, fewer_challengers: Audit
) -> None:
    confirmatory = decision(fewer_challengers)["confirmatory"]
    assert confirmatory is not None
    assert confirmatory["core"] == decision(finished_audit)["core"]


def test_a_registration_that_is_not_in_the_history_is_refused(audit_copy: Audit) -> None:
    from dcpflow.records import registration

    plan = {"design": {"config": audit_copy.section("design")}}
    changed = audit_copy.with_settings(thresholds={"gate2": {"rho": 0.04}}).section("thresholds")
    registration.write_registration(audit_copy.job.layout.registration, {**plan, "thresholds": {"config": changed}})
    with pytest.raises(EvidenceError, match="is not the last of the history") as caught:
        audit_copy.decide()
    assert "rm -f" in caught.value.remedy


def test_another_nonce_does_not_continue_an_audit(audit_copy: Audit, tmp_path: Path) -> None:
    other = tmp_path / "other.nonce"
    other.write_text("ab" * 32)
    other.chmod(0o600)
    changed = type(audit_copy)(audit_copy.results, other, audit_copy.settings)
    with pytest.raises(EvidenceError, match="was drawn with another nonce"):
        changed.run("challengers")


def test_other_public_randomness_does_not_continue_an_audit(audit_copy: Audit) -> None:
    from dataclasses import replace

    job = replace(audit_copy.job, public_randomness="beacon 7")
    with pytest.raises(EvidenceError, match="public randomness"):
        audit_copy.run("challengers", job)


# --- the seal ----------------------------------------------------------------------------------------------


def test_sealing_again_gives_the_same_commitments_and_the_same_contract(audit_copy: Audit) -> None:
    layout = audit_copy.job.layout
    before = layout.seal.read_bytes(), audit_copy.job.contract.digest
    audit_copy.seal()
    audit_copy.freeze_contract()
    assert (layout.seal.read_bytes(), audit_copy.job.contract.digest) == before


def test_the_seal_holds_commitments_and_no_plain_digest_of_what_is_sealed(finished_audit: Audit) -> None:
    from dcpflow.records import canonical

    layout = finished_audit.job.layout
    text = layout.seal.read_text()
    for path, schema in (
        (layout.hidden / "main.json", "dcpflow.hidden/1"),
        (layout.sealed / "main.json", "dcpflow.sealed/1"),
    ):
        material, carried = stagefile.read(path, schema, "sealed material")
        assert carried not in text
        assert canonical.digest_of(material) not in text
        for part in material.values():
            assert canonical.digest_of(part) not in text


@pytest.mark.parametrize("which", ["hidden", "sealed"])
def test_sealed_material_that_is_not_what_was_committed_to_is_never_scored_on(audit_copy: Audit, which: str) -> None:
    layout = audit_copy.job.layout
    material, _ = stagefile.read(layout.sealed / "main.json", seal.SEALED_SCHEMA, "sealed")
    changed = json.loads(json.dumps(material))
    if which == "hidden":
        changed["hidden"]["weights"] = changed["hidden"]["weights"][::-1]
    else:
        changed["units"]["parameters"] = changed["units"]["parameters"][::-1]
    assert changed != material
    stagefile.write(layout.sealed / "main.json", seal.SEALED_SCHEMA, changed)
    with pytest.raises(EvidenceError, match="is not what the registration commits to"):
        audit_copy.score("challengers")


@pytest.mark.parametrize("reader", ["scoring", "decide"])
def test_an_edited_public_file_is_named_and_not_used(audit_copy: Audit, reader: str) -> None:
    (path,) = list(audit_copy.job.layout.public.iterdir())
    path.write_bytes(path.read_bytes()[:-1] + b"\1")
    with pytest.raises(EvidenceError, match="public file") as caught:
        audit_copy.decide() if reader == "decide" else audit_copy.score("challengers")
    assert str(path) in str(caught.value)
    assert f"rm -f '{audit_copy.job.layout.seal}'" in caught.value.remedy


def test_a_manifest_that_names_other_scores_is_named_by_decide(audit_copy: Audit) -> None:
    path = audit_copy.job.layout.evidence / "manifest.json"
    body, _ = stagefile.read(path, folder.SCHEMA, "the manifest")
    stagefile.write(path, folder.SCHEMA, body | {"scores": {**body["scores"], "controls": body["contract"]}})
    with pytest.raises(EvidenceError, match="names other scores") as caught:
        audit_copy.decide()
    assert str(path) in caught.value.remedy


def test_a_task_on_which_every_answer_scores_the_same_is_refused_before_anything_is_sealed(
    audit_copy: Audit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pitfall B10: a null task without sensitivity."""
    from dcpflow.tasks.sqlite_index import SqliteIndexTask

    monkeypatch.setattr(SqliteIndexTask, "known_solution", lambda self, *_: self.baseline({}))
    audit_copy.job.layout.seal.unlink()
    with pytest.raises(UsageError, match="the baseline scores as well as the known solution"):
        audit_copy.seal()
    assert not audit_copy.job.layout.seal.exists()


def test_commitments_do_not_open_with_another_nonce(finished_audit: Audit) -> None:
    job = finished_audit.job
    from dcpflow.records import public

    material = public.read(job.layout, job.contract.parts["task"]["seal"]["public"])
    task = job.bench.task
    own = seal.commitments(task, job.nonce, material)
    other = seal.commitments(task, Nonce(os.urandom(32), ""), material)
    moved = {name for name in own if own[name] != other[name]}
    assert moved == {"nonce_commitment", "hidden_commitment", "sealed_commitment"}


def test_a_registration_that_lacks_a_key_is_told_to_be_another_version_s(finished_audit: Audit) -> None:
    registered = finished_audit.job.registration
    config = {name: value for name, value in registered.config("limits").items() if name != "experiments"}
    older = replace(registered, parts={**registered.parts, "limits": {**registered.parts["limits"], "config": config}})
    with pytest.raises(EvidenceError, match="no key 'experiments': another version of dcpflow wrote it") as caught:
        _ = folder.config_of(older).limits.experiments
    assert "audit in a new results folder" in caught.value.remedy
