"""The bundle of an audit with further neutral policies: it holds their pairs, and replays them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dcpflow.bundles import archive, interchange, revealed
from dcpflow.bundles.export import export
from dcpflow.bundles.verify import verify
from dcpflow.errors import EvidenceError
from dcpflow.evidence import folder
from dcpflow.records import history, stagefile
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


def test_with_the_task_the_scores_of_each_policy_are_made_again(
    audit_of_policies: Audit, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, made = audit_of_policies.job, []
    score_again = with_task.score_again
    monkeypatch.setattr(with_task, "score_again", lambda _, phase, view: made.append((phase, view)))
    with_task.verify(job)
    assert [phase for phase, _ in made][-2:] == ["pairs_reference_null", "pairs_lagged_sham"]
    phase, view = made[-1]
    score_again(job, phase, view)
    first, *others = view.scores[phase]
    spoilt = (replace(first, units=tuple(1 - unit for unit in first.units)), *others)
    with pytest.raises(EvidenceError, match="is not what the sealed units give"):
        score_again(job, phase, replace(view, scores={phase: spoilt}))


def test_what_is_said_of_a_policy_s_scoring_order_is_held_against_the_nonce(audit_of_policies: Audit) -> None:
    audit = audit_of_policies
    evidence = folder.read(audit.job.layout, audit.receipts, audit.scores)
    secrets = revealed.Secrets(Nonce.read(audit.nonce_file), {}, "the given nonce")
    own = evidence.facts.policies["lagged_sham"]
    said = replace(own, scoring_order={"pairs_lagged_sham": False})
    bent = replace(evidence, facts=replace(evidence.facts, policies={**evidence.facts.policies, "lagged_sham": said}))
    with pytest.raises(EvidenceError, match="whether phase pairs_lagged_sham was scored in its drawn order"):
        revealed.recompute(bent, secrets)


@pytest.fixture
def altered(audit_of_policies: Audit, tmp_path: Path) -> Callable[[str, Callable[[dict[str, Any]], None]], Audit]:
    """Copies the audit and alters the body of a stage file, whose digest is made anew, by its name below results."""

    def make(name: str, change: Callable[[dict[str, Any]], None]) -> Audit:
        copy = audit_of_policies.at(shutil.copytree(audit_of_policies.results, tmp_path / "results"))
        path = copy.results / name
        file = json.loads(path.read_bytes())
        change(file["body"])
        stagefile.write(path, file["schema"], file["body"])
        return copy

    return make


def test_scores_of_a_policy_have_the_form_of_all_scores(altered: Callable[..., Audit]) -> None:
    def extend(body: dict[str, Any]) -> None:
        body["rows"].append({**body["rows"][0], "role": "hello", "units": []})

    audit = altered("scores/pairs_lagged_sham.json", extend)
    found = verify(audit.results)
    assert not found.ok and "pairs_lagged_sham" in found.error


def test_an_episode_is_scored_in_its_own_phase(altered: Callable[..., Audit]) -> None:
    moved: list[tuple[str, str]] = []
    audit = altered("scores/challengers.json", lambda body: moved.append(body["inputs"].popitem()))
    path = audit.results / "scores/pairs_lagged_sham.json"
    file = json.loads(path.read_bytes())
    file["body"]["inputs"] |= dict(moved)
    stagefile.write(path, file["schema"], file["body"])
    with pytest.raises(EvidenceError, match=r"pairs_lagged_sham\.json was made from challengers/"):
        folder.read(audit.job.layout, audit.receipts, audit.scores)


def test_a_bundle_of_another_format_leaves_them_out_and_says_so(audit_of_policies: Audit) -> None:
    audit = audit_of_policies
    layout = audit.job.layout
    past, document = history.entries(layout), json.loads(layout.decision.read_bytes())
    found = interchange.not_held(document, past)
    assert found == {"strata of challengers": (), "neutral policies": ("lagged_sham", "reference_null")}
    evidence = folder.read(layout, audit.receipts, audit.scores)
    notes = interchange.interchanged(evidence, document, [], found).registration.notes["dcpflow"]
    assert notes["left_out"] == "informative neutral policies, which decide nothing: lagged_sham, reference_null"
    del document["neutral_policies"]
    gone = interchange.not_held(document, [*past, past[0]])
    assert {kind: set(names) for kind, names in gone.items()} == {kind: set(names) for kind, names in found.items()}
