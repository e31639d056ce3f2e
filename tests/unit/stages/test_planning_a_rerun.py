"""What the next run would redo is said in words, with its cost and what the statuses would be called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dcpflow.errors import UsageError
from dcpflow.records import canonical, checkpoint, stagefile
from dcpflow.records.calls import Call, Prices
from dcpflow.records.episodes import Claim, EpisodeKey, EpisodeStore
from dcpflow.records.layout import Layout
from dcpflow.stages import rerun
from dcpflow.stages.planned import Planned, PlannedJob, jobs_of, planned
from dcpflow.stages.rerun import Asked, Rerun
from dcpflow.stages.rerun_text import render

if TYPE_CHECKING:
    from tests.conftest import Audit

PENDING, DONE = "update pending", "no update"


def row(file: str, rule: str, status: str, plan: str = PENDING) -> list[str]:
    """A row of Snakemake's summary."""
    return [file, "-", rule, "-", status, plan]


def test_files_that_are_not_made_again_are_no_job() -> None:
    assert jobs_of([row("r/decision.json", "decide", "rule implementation changed", DONE)]) == Planned([], [])


def test_stale_files_that_a_run_which_registers_does_not_get_to_are_left_for_a_second_run() -> None:
    rows = [
        row("r/registration/registration.json", "register", "params changed"),
        row("r/evidence/facts.json", "evidence", "set of input files changed", DONE),
        row("r/replay/pairs.json", "replay_channels", "params changed", DONE),
        row("r/scores/pairs.json", "score_pairs", "ok", DONE),
    ]
    found = jobs_of(rows)
    assert [job.rule for job in found.jobs] == ["register"]
    assert [job.rule for job in found.left] == ["replay_channels", "evidence"]
    text = render(asking(jobs=found.jobs, left=found.left))
    assert "left        replay_channels     1 job  library code that it uses has changed" in text
    assert "for a second run, with what rests on it: run snakemake again" in text
    assert "left" not in render(asking())


def test_files_of_one_job_are_one_job_and_those_of_a_batch_are_their_own() -> None:
    rows = [
        row("r/decision.json", "decide", "ok"),
        row("r/evidence/checks.parquet", "decide", "missing"),
        row("r/pairs/b00001-00004.json", "run_pair", "params changed"),
        row("r/pairs/b00005-00006.json", "run_pair", "missing"),
        row("r/registration/registration.json", "register", "params changed"),
        row("r/scores/pairs.json", "score_pairs", "params changed"),
    ]
    found = jobs_of(rows).jobs
    assert [(job.rule, len(job.files)) for job in found] == [
        ("register", 1),
        ("run_pair", 1),
        ("run_pair", 1),
        ("score_pairs", 1),
        ("decide", 2),
    ]
    whys = [job.why for job in found]
    assert whys[0] == "what is registered has changed"
    assert whys[2] == "r/pairs/b00005-00006.json is not there"
    assert whys[3] == "library code that it uses has changed"
    assert whys[4] == "r/evidence/checks.parquet is not there"


def test_what_keeps_snakemake_from_planning_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Snakefile").write_text("raise WorkflowError('there is no such thing')\n")
    with pytest.raises(UsageError, match=r"cannot plan the next run: .*there is no such thing"):
        planned()


def jobs(audit: Audit, *rules: str, stage: str = "challengers") -> list[PlannedJob]:
    """Jobs of these rules; a rule ``run_...`` writes all receipts of the stage."""
    files = {rule: audit.workflow.receipts(stage) if rule.startswith("run_") else ["decision.json"] for rule in rules}
    return [PlannedJob(rule, (str(audit.results / file),), "it is so") for rule in rules for file in files[rule]]


def test_an_edited_threshold_changes_a_key_and_runs_no_episode(audit_copy: Audit) -> None:
    edited = audit_copy.with_settings(thresholds={"gate2": {"rho": 0.04}})
    found = rerun.describe(edited.workflow, jobs(edited, "register", "decide"))
    assert list(found.changes) == [{"key": "thresholds.gate2.rho", "old": 0.05, "new": 0.04}]
    assert (found.episodes, found.replacements, found.another_contract) == ({}, {}, False)
    assert found.exploratory == {"core": True, "evidence": True}
    assert found.became == {"core": False, "evidence": False}
    text = render(found)
    assert "amends      thresholds.gate2.rho: 0.05 -> 0.04" in text
    assert "none: no agent is started" in text
    assert "costs       nothing: no model is asked" in text
    assert "Core: exploratory, no longer confirmatory" in text


def test_a_threshold_of_gate_3_touches_core_where_neutral_branches_are_challengers(audit_copy: Audit) -> None:
    edited = audit_copy.with_settings(thresholds={"gate3": {"delta_evidence": 0.4}})
    for scope, core in (("lineage_empty", True), ("lineage_prefix", False)):
        layout = audit_copy.job.layout
        body, _ = checkpoint.read(layout, audit_copy.job.contract.digest)
        stagefile.write(layout.checkpoint, checkpoint.SCHEMA, {**body, "scope": scope})
        found = rerun.describe(edited.workflow, jobs(edited, "register", "decide"))
        assert found.exploratory == {"core": core, "evidence": True}


def test_only_episodes_that_do_not_stand_are_counted(audit_copy: Audit) -> None:
    more = audit_copy.with_settings(design={"challengers": 8})
    found = rerun.describe(more.workflow, jobs(more, "register", "run_challenger", "decide"))
    assert found.episodes == {"challengers": 2}
    assert "episodes    2: 2 challengers" in render(found)
    again = rerun.describe(audit_copy.workflow, jobs(audit_copy, "run_challenger"))
    assert (again.episodes, again.changes) == ({}, [])
    assert "Core: confirmatory, as before" in render(again)


def test_another_contract_is_said_to_be_one_and_a_registered_source_is_named(audit_copy: Audit) -> None:
    other = audit_copy.with_settings(limits={"experiments": 5})
    rules = ["seal_task", "freeze_contract", "register", "run_challenger"]
    found = rerun.describe(other.workflow, jobs(other, *rules))
    assert found.another_contract
    assert found.episodes == {"challengers": 6}
    assert [change["key"] for change in found.changes] == ["limits.experiments"], "the seal is the same"
    assert "contract    another one" in render(found)


def test_before_the_first_run_all_is_new_and_nothing_is_written(new_audit: Any) -> None:
    audit = new_audit()
    rules = ["seal_task", "freeze_contract", "register", "run_challenger"]
    found = rerun.describe(audit.workflow, jobs(audit, *rules))
    assert (found.first, found.changes, found.exploratory) == (True, [], {"core": False, "evidence": False})
    assert found.episodes == {"challengers": 6}
    assert "registers   the audit for the first time" in render(found)
    assert not audit.results.exists()


def test_replacements_are_an_upper_bound_while_pairs_are_to_run_and_none_if_no_pair_was_lost(
    audit_copy: Audit,
) -> None:
    many = audit_copy.with_settings(design={"pairs": 20, "pair_replacements": 2})
    receipts = [path for stage in ("pairs", "pair_replacements") for path in many.workflow.receipts(stage)]
    found = rerun.describe(many.workflow, [PlannedJob("a rule", tuple(receipts), ""), *jobs(many, "register")])
    assert (found.episodes, found.replacements) == ({"pairs": 34}, {"pair_replacements": 2})
    assert "at most 2 pair replacements more, should pairs be lost" in render(found)
    alone = [PlannedJob("a rule", (many.workflow.receipts("pair_replacements")[0],), "")]
    assert rerun.episodes_to_run(audit_copy.job.layout, audit_copy.job.store, alone) == ({}, {})


CALL = Call(canonical.digest(b"asked"), 200, "", "small-1", 90_000, 0, 10_000, "")


def test_what_an_episode_costs_is_the_mean_of_those_on_record(tmp_path: Path) -> None:
    store = EpisodeStore(Layout(tmp_path).store, "sha256:" + "a" * 64)
    for slot, calls in ((1, 1), (2, 3), (3, 9)):
        key = EpisodeKey("challengers", slot, "withheld")
        claim = store.claim(key)
        assert isinstance(claim, Claim)
        for _ in range(calls):
            claim.journal().add({"call": asdict(CALL), "answer": {}})
        if slot < 3:
            store.record_path(key).write_bytes(b"{}")
    means = rerun.asked(Layout(tmp_path), Prices(1.0, 1.0, 10.0))
    assert means["challengers"] == Asked(2, 200_000.0, pytest.approx(0.38))
    tokens, usd, known = rerun.estimate({"challengers": 10, "pairs": 1}, means)
    assert (tokens, usd, known) == (2_200_000.0, pytest.approx(4.18), 2)


def asking(**fields: Any) -> Rerun:
    none = {"core": False, "evidence": False}
    made = Rerun(
        [PlannedJob("run_pair", ("f",), "so")],
        [],
        [],
        False,
        False,
        none,
        none,
        {"pairs": 2},
        {},
        True,
        True,
        2_000.0,
        0.5,
        3,
    )
    return replace(made, **fields)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "about 2,000 tokens, 0.5000 USD, as 3 episodes on record did"),
        ({"priced": False}, "about 2,000 tokens; no prices are given (budget), as 3"),
        ({"tokens": None, "usd": None}, "not known: no episode is on record yet"),
        ({"episodes": {}}, "nothing: no model is asked"),
        ({"replacements": {"pair_replacements": 1}}, "about 2,000 tokens, 0.5000 USD of those that are certain"),
        ({"model": False}, "nothing: no model is asked"),
    ],
)
def test_costs_in_words(fields: dict[str, Any], said: str) -> None:
    assert f"costs       {said}" in render(asking(**fields))


def test_nothing_to_do_is_one_line_and_odd_letters_do_not_steer_the_terminal() -> None:
    assert render(asking(jobs=[])).startswith("nothing     all that is asked for is there")
    changes: Sequence[dict[str, Any]] = [{"key": "claim.statement", "old": "\x1b[2J", "new": "x" * 200}]
    text = render(asking(changes=changes))
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) < 160
