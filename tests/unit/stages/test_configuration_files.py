"""Configuration files are merged as Snakemake merges them, so that every command sees the same audit."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from dcpflow.errors import UsageError
from dcpflow.stages import configuration

ROOT = Path(__file__).parents[3]
LEAVES = st.dictionaries(st.sampled_from("abc"), st.integers() | st.text(max_size=3) | st.none(), max_size=3)
INNER = st.dictionaries(st.sampled_from(["gate1", "gate2"]), LEAVES, max_size=2)
SECTIONS = st.dictionaries(
    st.sampled_from(["claim", "design", "thresholds"]),
    st.tuples(LEAVES, INNER).map(lambda both: both[0] | both[1]),
    max_size=3,
)


@pytest.fixture(autouse=True)
def in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def case_file(folder: Path, content: dict[str, Any] | str) -> Path:
    path = folder / "case.yaml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content), encoding="utf-8")
    return path


@given(st.lists(SECTIONS, min_size=2, max_size=3))
@settings(max_examples=30, deadline=None, database=None)
def test_mappings_are_merged_as_snakemake_merges_them(layers: list[dict[str, Any]]) -> None:
    utils = pytest.importorskip("snakemake.utils")
    ours: dict[str, Any] = {}
    theirs: dict[str, Any] = {}
    for layer in layers:
        configuration._merge(ours, copy.deepcopy(layer))
        utils.update_config(theirs, copy.deepcopy(layer))
    assert ours == theirs


def test_a_case_file_changes_what_it_names_and_nothing_else(tmp_path: Path) -> None:
    default = configuration.read()
    case = configuration.read([case_file(tmp_path, {"design": {"challengers": 120}, "claim": {"id": "mine"}})])
    assert case.config.design.challengers == 120
    assert case.config.design.controls == default.config.design.controls
    assert case.config.claim.id == "mine"
    assert case.section("thresholds") == default.section("thresholds")


def test_later_files_and_the_command_line_win(tmp_path: Path) -> None:
    second = tmp_path / "second.yaml"
    second.write_text("limits: {experiments: 7}\nexecution: {results: second}\n")
    first = case_file(tmp_path, {"limits": {"experiments": 6, "candidates": 2}})
    found = configuration.read([first, second], ["execution={results: third}"])
    assert (found.config.limits.experiments, found.config.limits.candidates) == (7, 2)
    assert found.results == "third"


@pytest.mark.parametrize(
    "setting",
    [
        "isolation={backend: none}",
        "execution={results: my results}",
        "execution={results: results/x, nonce_file: a.nonce}",
        "claim={id: a-b, slot: 'c d'}",
        "information={}",
    ],
)
def test_settings_of_the_command_line_are_read_as_snakemake_reads_them(setting: str) -> None:
    cli = pytest.importorskip("snakemake.cli")
    name, _, text = setting.partition("=")
    assert cli.parse_config([setting]) == {name: configuration._setting(text, "here")}


@pytest.mark.parametrize("setting", ["execution={public_randomness: 2026}", "execution={results: 007}"])
def test_a_nested_value_that_looks_like_a_number_is_the_same_for_all_commands(setting: str) -> None:
    cli = pytest.importorskip("snakemake.cli")
    name, _, text = setting.partition("=")
    assert cli.parse_config([setting]) == {name: configuration._setting(text, "here")}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("- a\n- b\n", "expected a mapping of sections"),
        ("a: [", "is not YAML"),
        ("a: \x07", "is not YAML"),
        ("", "mapping"),
    ],
)
def test_a_file_that_is_no_configuration_is_named(tmp_path: Path, content: str, says: str) -> None:
    path = case_file(tmp_path, content)
    with pytest.raises(UsageError, match=says) as caught:
        configuration.read([path])
    assert str(path) in str(caught.value)


def test_a_missing_file_is_named_with_where_to_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="folder that holds the Snakefile"):
        configuration.read()


@pytest.mark.parametrize("setting", ["isolation", "isolation:none", "", "a={"])
def test_a_setting_that_cannot_be_read_is_named(setting: str) -> None:
    with pytest.raises(UsageError, match=r"--config"):
        configuration.read(settings=[setting])


def test_a_rule_that_is_broken_on_the_command_line_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"isolation\.backend"):
        configuration.read(settings=["isolation={backend: docker}"])


def test_every_shipped_case_can_be_read() -> None:
    cases = sorted((ROOT / "config" / "cases").glob("*.yaml"))
    assert cases
    folders = {configuration.read([path]).results for path in cases} | {configuration.read().results}
    assert len(folders) == len(cases) + 1, "every case has a results folder of its own"
