"""Non-interference: under another hidden state, challengers and neutral branches see and do exactly the same."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dcpflow.episodes import policies
from dcpflow.episodes.arms import Arm
from dcpflow.episodes.policies import HIDDEN_SCHEMA
from dcpflow.records import canonical, plan, stagefile
from dcpflow.records.draws import Nonce
from dcpflow.records.episodes import EpisodeKey, EpisodeRecord
from dcpflow.records.objects import ObjectStore
from dcpflow.stages.seal import hidden_of

if TYPE_CHECKING:
    from tests.conftest import Audit


def records(audit: Audit, stage: str) -> dict[EpisodeKey, EpisodeRecord]:
    job = audit.job
    found = {}
    for slot in range(1, audit.workflow.count(stage) + 1):
        for key in plan.keys(stage, slot):
            data = job.store.committed(key)
            assert data is not None
            found[key] = EpisodeRecord.from_bytes(data, str(key))
    return found


def run_anew(audit: Audit, *stages: str) -> None:
    """Forget the stages' episodes and run them again: same contract, draws, presentations and seeds."""
    for stage in stages:
        shutil.rmtree(audit.job.store.root / stage)
        for path in audit.workflow.receipts(stage):
            Path(path).unlink()
        audit.run(stage)


@pytest.fixture
def elsewhere_hot(audit_copy: Audit) -> Audit:
    """The audit with another hidden state in place of the audited one; no family is hot in both."""
    job = audit_copy.job
    hidden = hidden_of(job.bench.task, job.nonce, plan.MAIN)
    other = job.bench.task.decoy(hidden, b"\7" * 32)
    assert not set(other["hot"]) & set(hidden["hot"])
    stagefile.write(job.layout.hidden / "main.json", HIDDEN_SCHEMA, other, mode=0o600)
    return audit_copy


def test_challengers_and_neutral_branches_are_the_same_byte_for_byte_and_truthful_ones_are_not(
    finished_audit: Audit, elsewhere_hot: Audit
) -> None:
    run_anew(elsewhere_hot, "challengers", "pairs")
    before, after = records(finished_audit, "challengers"), records(elsewhere_hot, "challengers")
    assert {key: record.to_bytes() for key, record in before.items()} == {
        key: record.to_bytes() for key, record in after.items()
    }
    before, after = records(finished_audit, "pairs"), records(elsewhere_hot, "pairs")
    for key in before:
        same = before[key].to_bytes() == after[key].to_bytes()
        assert same == (key.arm == "neutral"), key
    truthful = [key for key in before if key.arm == "truthful"]
    assert all(before[key].draw == after[key].draw for key in truthful)
    assert all(before[key].transcript != after[key].transcript for key in truthful)
    assert any(before[key].candidates != after[key].candidates for key in truthful)


def test_challengers_need_no_sealed_file_at_all(finished_audit: Audit, audit_copy: Audit) -> None:
    shutil.rmtree(audit_copy.job.layout.hidden.parent)
    run_anew(audit_copy, "challengers")
    assert records(audit_copy, "challengers") == records(finished_audit, "challengers")


@pytest.mark.parametrize("arm", sorted(policies.NEUTRAL | policies.LAGGED | policies.CONSTANT))
def test_the_reply_of_an_uninformed_arm_needs_no_sealed_file_and_no_nonce_derived_state(
    audit_copy: Audit, arm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = next(stage for stage, kind in plan.STAGES.items() if arm in kind.arms)
    bench = audit_copy.job.bench
    shutil.rmtree(audit_copy.job.layout.hidden.parent)

    def forbidden(*path: str) -> bytes:
        raise AssertionError(f"an uninformed arm asked for {path}")

    monkeypatch.setattr(Nonce, "derive", forbidden)
    presentation = bench.task.presentation(bytes.fromhex(plan.draw(bench.draws, stage, 1)["presentation"]))
    candidate = bench.task.baseline(presentation)
    with Arm(bench, EpisodeKey(stage, 1, arm)) as one:
        assert one.policy(candidate)["total"] and one.policy(candidate)["total"]


def test_branches_of_further_neutral_policies_are_the_same_byte_for_byte_under_another_hidden_state(
    audit_of_policies: Audit, tmp_path: Path
) -> None:
    audit = audit_of_policies.at(shutil.copytree(audit_of_policies.results, tmp_path / "results"))
    job = audit.job
    other = job.bench.task.decoy(hidden_of(job.bench.task, job.draws.nonce, plan.MAIN), b"\7" * 32)
    stagefile.write(job.layout.hidden / "main.json", HIDDEN_SCHEMA, other, mode=0o600)
    stages = audit.workflow.policies
    run_anew(audit, *stages)
    before = {key: record for stage in stages for key, record in records(audit_of_policies, stage).items()}
    after = {key: record for stage in stages for key, record in records(audit, stage).items()}
    assert {key.arm for key in before} == {"truthful", "reference_null", "lagged_sham"}
    for key, record in before.items():
        assert (record.to_bytes() == after[key].to_bytes()) == (key.arm != "truthful"), key


def test_a_truthful_arm_without_the_hidden_file_is_our_fault_and_commits_nothing(audit_copy: Audit) -> None:
    job = audit_copy.job
    shutil.rmtree(job.layout.hidden)
    key = EpisodeKey("pairs", 1, "truthful")
    shutil.rmtree(job.store.folder(key))
    with pytest.raises(RuntimeError, match="the hidden state is missing"):
        audit_copy.run("pairs")
    assert job.store.committed(key) is None


def test_replies_of_all_arms_have_one_form_and_one_length(finished_audit: Audit) -> None:
    job = finished_audit.job
    forms = set()
    for stage in ("target", "challengers", "pairs", "null_pairs", "misled_nulls"):
        for record in records(finished_audit, stage).values():
            data = ObjectStore(job.layout.objects).get(record.transcript)
            for line in map(json.loads, data.splitlines()):
                answer = json.loads(line["line"])
                if line["from"] == "harness" and "result" in answer:
                    result = answer["result"]
                    forms.add((len(canonical.encode(result)), tuple(sorted(map(len, result["shares"]))), *result))
    assert len(forms) == 1
