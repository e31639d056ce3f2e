"""The README's table "What runs again after which edit", row by row: what is planned is what then runs.

Each row lets ``dcpflow plan-rerun`` say which jobs Snakemake plans and which episodes they run, and most then run them
and hold what happened against what was said.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

import dcpflow
from workflow.conftest import DEMO, EPISODES_OF_FEWEST, FEWEST, NONCE, Audit, Run

REPORT = "results/cases/demo/report.html"
NEITHER, BOTH = [False, False], [True, True]
EVERY_EPISODE = {"run_target", "run_challenger", "run_control", "run_pair", "run_null_pair", "run_misled_null"}
SCORES = {"score_target", "score_challengers", "score_controls", "score_pairs"}
ANOTHER_CONTRACT = {"freeze_contract", "register", *EVERY_EPISODE, *SCORES, "evidence", "decide"}


def plan(audit: Audit, *targets: str) -> dict[str, Any]:
    """What plan-rerun says for programs."""
    run = audit.dcpflow("plan-rerun", *targets, "--json")
    assert run.code == 0, run.text
    found: dict[str, Any] = json.loads(run.text)
    return found


def run_as_planned(audit: Audit, said: Mapping[str, Any], *targets: str) -> Run:
    """Run what was planned: exactly these jobs run, and exactly so many episodes are added; none is changed."""
    before = audit.records()
    run = audit.finish(*(("--", *targets) if targets else ()))
    assert Counter(run.rules) == Counter(said["rules"])
    after = audit.records()
    assert {path: after[path] for path in before} == before
    added = Counter(path.parts[-5] for path in after.keys() - before.keys())
    assert added == Counter(said["episodes"])
    return run


def once(jobs: Iterable[str]) -> dict[str, int]:
    """Each of these jobs once; counts are written of the phase that has others, and of all together."""
    return {job: 1 + (job == "count_slots") for job in jobs}


def exploratory(decision: Mapping[str, Any]) -> list[bool]:
    return [decision["core"]["exploratory"], decision["evidence"]["exploratory"]]


def called(said: Mapping[str, Any]) -> list[bool]:
    return [said["exploratory"]["core"], said["exploratory"]["evidence"]]


def amended(decision: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The keys of the last amendment, with both values."""
    found: list[dict[str, Any]] = decision["registration"]["amendments"][-1]["changes"]
    return found


def statuses(decision: Mapping[str, Any]) -> list[str]:
    return [decision["core"]["status"], decision["evidence"]["status"]]


def kept(audit: Audit) -> list[Path]:
    """The folders of the history that hold a decision."""
    return [path.parent for path in sorted(audit.results.glob("history/*/decision.json"))]


def test_a_threshold_of_gate_1_2_or_3_decides_and_reports_alone(audit: Audit) -> None:
    audit.finish("--", "report")
    page = audit.folder / REPORT
    first, first_page, tables = audit.decision, page.read_bytes(), audit.contents()
    again = {"register": 1, "decide": 1, "report": 1}

    audit.change({"thresholds": {"gate1": {"delta_min": 0.6}}})
    said = plan(audit, "all", "report")
    assert audit.contents() == tables, "a plan writes nothing"
    assert (said["rules"], said["episodes"], called(said)) == (again, {}, BOTH)
    assert said["changes"] == [{"key": "thresholds.gate1.delta_min", "old": 0.5, "new": 0.6}]
    run_as_planned(audit, said, "all", "report")
    second = audit.decision_bytes
    assert exploratory(audit.decision) == BOTH
    assert amended(audit.decision) == said["changes"]
    assert statuses(audit.decision["confirmatory"]) == statuses(first)
    assert exploratory(audit.decision["confirmatory"]) == NEITHER
    assert b"thresholds.gate1.delta_min" in page.read_bytes()

    audit.change({"thresholds": {"gate2": {"rho": 0.04}, "gate3": {"delta_evidence": 0.4}}})
    said = plan(audit)
    assert (said["rules"], called(said)) == ({"register": 1, "decide": 1}, BOTH)
    run_as_planned(audit, said)
    shown = audit.dcpflow("show").text
    assert "EXPLORATORY" in shown
    assert "thresholds.gate1.delta_min: 0.5 -> 0.6" in shown
    assert "thresholds.gate2.rho: 0.05 -> 0.04" in shown
    assert REPORT not in shown, "it is the report of another decision"

    audit.change({})
    said = plan(audit, "all", "report")
    assert (said["rules"], called(said)) == (again, NEITHER)
    run_as_planned(audit, said, "all", "report")
    assert (audit.decision_bytes, page.read_bytes()) == (audit.original, first_page)
    decisions = [(folder / "decision.json").read_bytes() for folder in kept(audit)]
    assert decisions[:2] == [audit.original, second]
    assert len(decisions) == 3
    assert (kept(audit)[0] / "report.html").read_bytes() == first_page


def test_execution_budget_comments_the_order_of_keys_and_touched_files_mean_nothing(audit: Audit) -> None:
    for path in (audit.folder / "config/config.yaml", audit.folder / DEMO):
        turned = yaml.safe_dump(_turned(yaml.safe_load(path.read_text("utf-8"))), sort_keys=False, indent=5)
        path.write_text(f"# said differently\n\n{turned}\n# the end\n", encoding="utf-8")
    for path in audit.folder.rglob("*"):
        if path.is_file() and ".snakemake" not in path.parts:
            path.touch()
    audit.change({"budget": {"input_usd": 2.0}})
    assert plan(audit)["rules"] == {}
    assert audit.run(cores=1).idle

    # the same secret under another name is sealed again, and then everything is only listed again
    (audit.folder / NONCE).rename(audit.folder / "the.nonce")
    audit.change({"execution": {"nonce_file": "the.nonce"}})
    said = plan(audit)
    assert said["rules"].keys() >= {"seal_task", *ANOTHER_CONTRACT}
    assert (said["episodes"], said["changes"], called(said)) == ({}, [], NEITHER)


def _turned(value: Any) -> Any:
    """The same with the keys of each section in reverse order."""
    if not isinstance(value, dict):
        return value
    return {key: _turned(value[key]) for key in reversed(value)}


def test_another_batch_size_makes_receipts_and_what_lists_them_and_starts_no_agent(audit: Audit) -> None:
    store = _tree(audit.store)
    audit.change({"execution": {"episodes_per_job": 6}})
    said = plan(audit)
    assert said["rules"].keys() & EVERY_EPISODE == {"run_null_pair"}
    assert (said["episodes"], said["changes"], called(said)) == ({}, [], NEITHER)
    run_as_planned(audit, said)
    assert _tree(audit.store) == store
    assert audit.decision_bytes == audit.original


def _tree(folder: Path) -> dict[Path, tuple[int, int]]:
    """Inode and date of everything below a folder."""
    return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in folder.rglob("*")}


def test_more_challengers_run_the_new_ones_alone_and_fewer_run_none(audit: Audit) -> None:
    first = audit.decision
    audit.change({"design": {"challengers": 8}})
    said = plan(audit)
    jobs = {"register", "count_slots", "run_challenger", "replay_channels", "score_challengers", "evidence", "decide"}
    assert (said["rules"], said["episodes"], called(said)) == (once(jobs), {"challengers": 2}, BOTH)
    run_as_planned(audit, said)
    found = audit.decision
    assert exploratory(found) == BOTH
    assert amended(found) == [{"key": "design.challengers", "old": 6, "new": 8}]
    assert found["gate2"]["challengers"]["started"] == 8
    assert found["confirmatory"]["gate2"] == first["gate2"]

    audit.change({})
    said = plan(audit)
    jobs = {"register", "count_slots", "replay_channels", "score_challengers", "evidence", "decide"}
    assert (said["rules"], said["episodes"], called(said)) == (once(jobs), {}, NEITHER)
    run_as_planned(audit, said)
    assert audit.decision_bytes == audit.original
    assert json.loads((kept(audit)[1] / "decision.json").read_bytes()) == found
    scores = json.loads((kept(audit)[1] / "scores/challengers.json").read_bytes())
    assert len(scores["body"]["rows"]) == 8


def test_more_pairs_run_the_new_ones_alone_and_touch_core_since_their_neutral_branches_are_challengers(
    audit: Audit,
) -> None:
    assert audit.decision["gate3"]["checkpoint_scope"] == "lineage_empty"
    audit.change({"design": {"pairs": 4}})
    said = plan(audit)
    jobs = {"register", "count_slots", "run_pair", "replay_channels", "score_pairs", "evidence", "decide"}
    assert (said["rules"], said["episodes"], called(said)) == (once(jobs), {"pairs": 2}, BOTH)
    run_as_planned(audit, said)
    assert exploratory(audit.decision) == BOTH


def test_another_budget_of_the_agent_runs_all_episodes_and_keeps_what_was_there(audit: Audit) -> None:
    records, store, first = audit.records(), audit.store, audit.contents()
    audit.change({"limits": {"experiments": 3}, **FEWEST})
    said = plan(audit)
    assert said["rules"].keys() >= ANOTHER_CONTRACT - {"run_misled_null"}
    assert said["another_contract"]
    assert called(said) == BOTH
    assert sum(said["episodes"].values()) == EPISODES_OF_FEWEST
    assert {"key": "limits.experiments", "old": 4, "new": 3} in said["changes"]
    run_as_planned(audit, said)
    new = audit.records()
    assert all(store not in path.parents for path in new.keys() - records.keys())
    found = audit.decision
    assert exploratory(found) == BOTH
    assert amended(found) == said["changes"]
    assert found["confirmatory"] == json.loads(audit.original)
    verified = audit.dcpflow("verify")
    assert verified.code == 0, verified.text
    (folder,) = kept(audit)
    assert (folder / "decision.json").read_bytes() == audit.original
    replaced = {name for name in first if name.startswith(("scores/", "evidence/", "replay/", "target/checkpoint"))}
    left = audit.contents()
    assert {left[f"history/{folder.name}/{name}"] for name in replaced} == {first[name] for name in replaced}

    audit.change({})
    said = plan(audit)
    assert (said["episodes"], called(said)) == ({}, NEITHER)


def test_another_model_runs_all_episodes(audit: Audit) -> None:
    audit.change({"agent": {"model_id": "another"}})
    said = plan(audit)
    assert set(said["rules"]) >= ANOTHER_CONTRACT
    assert sum(said["episodes"].values()) == len(audit.records())
    assert called(said) == BOTH


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the library that every command of the test uses, to be edited."""
    copy = tmp_path / "library" / "dcpflow"
    shutil.copytree(Path(dcpflow.__file__).parent, copy)
    monkeypatch.setenv("PYTHONPATH", str(copy.parent))
    return copy


def edit(*paths: Path) -> None:
    for path in paths:
        path.write_bytes(path.read_bytes() + b"\n# edited\n")


@pytest.mark.parametrize(
    ("source", "key"),
    [
        ("agents/builtin/index_designer.py", "agent.sources.index_designer.py"),
        ("tasks/sqlite_index.py", "task.sources.dcpflow.tasks.sqlite_index"),
    ],
)
def test_the_source_of_task_or_agent_is_registered_and_runs_all_episodes(
    audit: Audit, library: Path, source: str, key: str
) -> None:
    edit(library / source)
    audit.change(FEWEST)
    said = plan(audit)
    assert said["rules"].keys() >= ANOTHER_CONTRACT - {"run_misled_null"}
    assert sum(said["episodes"].values()) == EPISODES_OF_FEWEST
    assert called(said) == BOTH
    assert key in [change["key"] for change in said["changes"]]


def test_other_code_of_the_library_runs_what_uses_it_and_never_an_episode(audit: Audit, library: Path) -> None:
    edit(library / "scoring/scorer.py")
    said = plan(audit)
    assert set(said["rules"]) == {*SCORES, "evidence", "decide"}
    assert {job["why"] for job in said["jobs"] if job["rule"] in SCORES} == {"library code that it uses has changed"}

    registered = json.loads((audit.results / "registration/parts/task.json").read_bytes())["sources"]
    sources = [library.parent.joinpath(*name.split(".")).with_suffix(".py") for name in registered]
    edit(*(path for path in library.rglob("*.py") if path not in sources and path.parent.name != "builtin"))
    said = plan(audit)
    assert set(said["rules"]) == {*SCORES, "replay_channels", "evidence", "decide"}
    assert (said["episodes"], said["changes"], called(said)) == ({}, [], NEITHER)
    run_as_planned(audit, said)
    assert audit.decision_bytes == audit.original
