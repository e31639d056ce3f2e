"""What the rules see of a configuration: batches, receipts, and parameters that only what is registered can move."""

from __future__ import annotations

import copy
import errno
import io
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from dcpflow.protocol.config import Config, ConfigError
from dcpflow.records import plan
from dcpflow.stages.workflow import Workflow

Settings = dict[str, Any]


@pytest.fixture
def workflow(default_settings: Settings) -> Callable[..., Workflow]:
    """Makes the workflow of the default configuration with some keys changed."""

    def make(**sections: Settings) -> Workflow:
        mapping = copy.deepcopy(default_settings)
        for name, keys in sections.items():
            mapping[name] |= keys
        return Workflow.from_mapping(mapping)

    return make


def turned_around(value: Any) -> Any:
    """The same mapping with its keys in the opposite order, at every depth."""
    if isinstance(value, dict):
        return {key: turned_around(value[key]) for key in reversed(value)}
    return value


def test_layout_comments_and_key_order_of_a_file_move_no_parameter(default_settings: Settings) -> None:
    text = yaml.safe_dump(turned_around(default_settings), sort_keys=False, indent=6, width=10**6)
    commented = "".join(f"{line}  # a comment\n" for line in text.splitlines() if line)
    flow = yaml.safe_dump(default_settings, default_flow_style=True)
    one, *others = (Workflow.from_mapping(yaml.safe_load(io.StringIO(written))) for written in (text, commented, flow))
    for name in one.parts:
        assert {other.section(name) for other in others} == {one.section(name)}
    assert {other.contract for other in others} == {one.contract}
    assert all(other.all_receipts == one.all_receipts for other in others)


@pytest.mark.parametrize(
    ("section", "keys", "moved"),
    [
        ("execution", {"episodes_per_job": 3}, set()),
        ("execution", {"results": "elsewhere"}, set()),
        ("thresholds", {"gate1": {"delta_min": 0.4}}, {"thresholds"}),
        ("design", {"challengers": 120}, {"design"}),
        ("limits", {"experiments": 5}, {"limits", "contract"}),
        ("agent", {"model_id": "another"}, {"agent", "contract"}),
        ("claim", {"statement": "Another."}, {"claim", "contract"}),
    ],
)
def test_an_edit_moves_the_parameters_of_its_own_section_alone(
    workflow: Callable[..., Workflow], section: str, keys: Settings, moved: set[str]
) -> None:
    before, after = workflow(), workflow(**{section: keys})
    found = {name for name in before.parts if before.section(name) != after.section(name)}
    if before.contract != after.contract:
        found.add("contract")
    assert found == moved


def test_numbers_that_are_equal_are_one_parameter_however_they_are_written(default_settings: Settings) -> None:
    written = copy.deepcopy(default_settings)
    written["limits"]["wall_seconds"] = 60
    written["thresholds"]["gate2"]["rho"] = float("5e-2")
    assert Workflow.from_mapping(written).contract == Workflow.from_mapping(default_settings).contract
    assert Workflow.from_mapping(written).section("thresholds") == Workflow.from_mapping(default_settings).section(
        "thresholds"
    )


@given(
    count=st.integers(1, 300),
    per_job=st.integers(1, 40),
    stage=st.sampled_from([stage for stage, kind in plan.STAGES.items() if kind.count and stage != "misled_nulls"]),
)
@settings(max_examples=60, deadline=None, database=None)
def test_batches_cover_every_slot_once_and_in_order(count: int, per_job: int, stage: str) -> None:
    workflow = _bare(per_job, **{plan.STAGES[stage].count: count})
    slots: list[int] = []
    for path in workflow.receipts(stage):
        batch = path.rpartition("/b")[2].removesuffix(".json")
        first, last = workflow.first(batch), workflow.last(batch)
        assert 1 <= first <= last <= count
        episodes = (last - first + 1) * len(plan.STAGES[stage].arms)
        assert episodes <= max(per_job, len(plan.STAGES[stage].arms)) or plan.STAGES[stage].replaces
        slots += range(first, last + 1)
    assert slots == list(range(1, count + 1))


def _bare(per_job: int, **design: int) -> Workflow:
    """A workflow with counts that no rule has looked at."""
    config = Config()
    return Workflow(
        config.model_copy(
            update={
                "design": config.design.model_copy(update=design),
                "execution": config.execution.model_copy(update={"episodes_per_job": per_job}),
            }
        )
    )


@pytest.mark.parametrize(
    ("stage", "count", "per_job", "expected"),
    [
        ("challengers", 96, 8, (12, "00089-00096", 89, 96)),
        ("challengers", 97, 8, (13, "00097-00097", 97, 97)),
        ("challengers", 96, 1, (96, "00096-00096", 96, 96)),
        ("challengers", 96, 500, (1, "00001-00096", 1, 96)),
        ("pairs", 30, 8, (8, "00029-00030", 29, 30)),
        ("pairs", 30, 1, (30, "00030-00030", 30, 30)),
        ("pairs", 30, 7, (10, "00028-00030", 28, 30)),
        ("pair_replacements", 3, 8, (3, "00003-00003", 3, 3)),
        ("target", 1, 8, (1, "00001-00001", 1, 1)),
    ],
)
def test_the_last_batch_ends_with_the_last_slot(
    stage: str, count: int, per_job: int, expected: tuple[int, str, int, int]
) -> None:
    key = plan.STAGES[stage].count
    workflow = _bare(per_job, **({key: count} if key else {}))
    paths = workflow.receipts(stage)
    batch = paths[-1].rpartition("/b")[2].removesuffix(".json")
    assert (len(paths), batch, workflow.first(batch), workflow.last(batch)) == expected


def test_a_stage_without_slots_has_no_receipts() -> None:
    workflow = _bare(8, pair_replacements=0, misled_null_episodes=0)
    assert workflow.receipts("pair_replacements") == workflow.receipts("misled_nulls") == []


def test_receipts_and_scores_of_all_phases_are_declared_once(workflow: Callable[..., Workflow]) -> None:
    one = workflow()
    assert len(set(one.all_receipts)) == len(one.all_receipts)
    assert {path for phase in one.phases for path in one.phase_receipts(phase)} == set(one.all_receipts)
    assert [path.rpartition("/")[2] for path in one.score_files] == [f"{phase}.json" for phase in plan.PHASES]
    assert one.folder("challengers").endswith("/challengers/matched")


def test_each_look_has_batches_and_scores_of_its_own(workflow: Callable[..., Workflow]) -> None:
    one, several = workflow(), workflow(design={"gate2_looks": [20, 30, 96]}, execution={"episodes_per_job": 8})
    ends = [
        (several.first(b), several.last(b))
        for b in (p.rpartition("/b")[2][:-5] for p in several.receipts("challengers"))
    ]
    assert [slot for first, last in ends for slot in range(first, last + 1)] == list(range(1, 97))
    assert {20, 30, 96} <= {last for _, last in ends}
    assert len(set(several.all_receipts)) == len(several.all_receipts)
    assert several.phases == ("target", "challengers-1", "challengers-2", "challengers-3", "controls", "pairs")
    assert [len(several.phase_receipts(f"challengers-{look}")) for look in (1, 2, 3)] == [3, 2, 9]
    assert several.stages == one.stages
    assert several.contract == one.contract


def test_pairs_that_are_looked_at_leave_the_null_study_a_phase_of_its_own(workflow: Callable[..., Workflow]) -> None:
    thresholds = {"gate3": {**Config().thresholds.gate3.model_dump(), "bet": 0.9}}
    looked = workflow(design={"pair_looks": [10, 30], "pair_replacements": 0}, thresholds=thresholds)
    assert looked.phases == ("target", "challengers", "controls", "pairs-1", "pairs-2", "null_pairs")
    assert looked.stages == (*workflow().stages,)
    assert len(set(looked.all_receipts)) == len(looked.all_receipts)
    core = workflow(
        design={"pair_looks": [10, 30], "pair_replacements": 0}, thresholds=thresholds, claim={"grade": "core"}
    )
    assert core.phases == ("target", "challengers", "controls")


def test_grade_core_runs_no_feedback_experiment(workflow: Callable[..., Workflow]) -> None:
    one = workflow(claim={"grade": "core"})
    assert one.stages == ("target", "challengers", "controls")
    assert not any("pairs" in path for path in one.all_receipts + one.score_files)


def test_paths_with_blanks_quotes_and_braces_reach_a_job_as_they_are(workflow: Callable[..., Workflow]) -> None:
    one = workflow(
        execution={"results": "my results $HOME 'x'", "nonce_file": "a b.nonce", "public_randomness": "7 {x}"}
    )
    written = one.shell(one.job_arguments)
    # Snakemake formats a rule's command before the shell reads it
    assert shlex.split(written.format()) == [
        "--results",
        "my results $HOME 'x'",
        "--nonce-file",
        "a b.nonce",
        "--public-randomness",
        "7 {x}",
    ]


def test_every_problem_of_a_configuration_is_told_at_once(default_settings: Settings) -> None:
    with pytest.raises(ConfigError) as caught:
        Workflow.from_mapping({**default_settings, "design": {"challengers": 0}, "unknown": 1})
    assert "design.challengers" in str(caught.value)
    assert "unknown" in str(caught.value)


def test_the_registered_sources_are_those_of_task_and_agent(workflow: Callable[..., Workflow]) -> None:
    assert workflow().registered_sources == workflow(design={"challengers": 120}).registered_sources
    assert workflow().registered_sources.startswith("sha256:")
    assert Workflow.code("stages.decide") != Workflow.code("stages.scoring")


def test_an_edit_of_a_count_moves_the_counts_of_its_own_phase_alone(workflow: Callable[..., Workflow]) -> None:
    before, after = workflow(), workflow(design={"challengers": 120})
    assert after.counts("challengers") == '{"challengers":120}'
    assert {phase for phase in before.phases if before.counts(phase) != after.counts(phase)} == {"challengers"}


def test_the_folder_that_cannot_be_written_to_is_named(
    workflow: Callable[..., Workflow], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert workflow().storage_fault() is None

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr("os.fsync", full)
    assert "results cannot be written or read: the disk is full" in str(workflow().storage_fault())


def test_a_job_may_take_as_long_and_as_much_as_is_registered_for_its_agents(workflow: Callable[..., Workflow]) -> None:
    one = workflow(limits={"wall_seconds": 600.0, "memory_mb": 2048}, execution={"episodes_per_job": 8})
    assert one.memory_mb > 2048
    assert one.minutes("target") > 10
    assert one.minutes("challengers") > 80
    assert one.minutes("pairs") > 80
    # a replacement is one pair
    assert 20 < one.minutes("pair_replacements") < 80


def test_jobs_on_a_cluster_get_of_the_environment_what_they_need_and_no_secret(
    workflow: Callable[..., Workflow],
) -> None:
    given = {
        "PATH",
        "HOME",
        "LANG",
        "LC_ALL",
        "SLURM_CONF",
        "KUBECONFIG",
        "XDG_CACHE_HOME",
        "KRB5CCNAME",
        "AWS_PROFILE",
        "AWS_SECRET_ACCESS_KEY",
        "MY_KEY",
        "SSH_AUTH_SOCK",
    }
    secrets = {"AWS_SECRET_ACCESS_KEY", "MY_KEY", "SSH_AUTH_SOCK"}
    assert set(workflow().kept_from_jobs(given)) == secrets
    model = {"api": "openai", "base_url": "https://api.example", "key_variable": "MY_KEY"}
    chat = workflow(agent={"kind": "chat", "name": "loop", "model_id": "m-1", "model": model})
    assert set(chat.kept_from_jobs(given)) == secrets - {"MY_KEY"}
