"""The registration binds every part: an edit of any is named, and no part of another registration is accepted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dcpflow.errors import EvidenceError
from dcpflow.records import registration
from dcpflow.records.registration import CONTRACT_PARTS, PLAN_PARTS, Registered

CONTRACT: dict[str, dict[str, Any]] = {
    name: {"config": {"of": name, "number": 4}, "sources": {"module": "sha256:1"}} for name in CONTRACT_PARTS
}
PLAN: dict[str, dict[str, Any]] = {name: {"config": {"of": name, "number": 6}} for name in PLAN_PARTS}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    registration.write_contract(tmp_path, CONTRACT)
    registration.write_registration(tmp_path, PLAN)
    return tmp_path


def edit(path: Path, **config: Any) -> None:
    part = json.loads(path.read_bytes())
    path.write_text(json.dumps({**part, "config": part["config"] | config}))


def test_the_registration_reads_back_as_it_was_written(folder: Path) -> None:
    found = registration.read_registration(folder)
    assert found.parts == CONTRACT | PLAN
    assert found.contract == registration.read_contract(folder).digest
    assert found.config("limits") == {"of": "limits", "number": 4}


@pytest.mark.parametrize("name", [*CONTRACT_PARTS, *PLAN_PARTS])
def test_an_edit_of_any_part_is_named(folder: Path, name: str) -> None:
    path = registration.part_path(folder, name)
    edit(path, number=5)
    with pytest.raises(EvidenceError, match=f"the registered part '{name}' was altered") as caught:
        registration.read_registration(folder)
    assert f"rm -f '{path}'" in str(caught.value)


@pytest.mark.parametrize("name", [*CONTRACT_PARTS, *PLAN_PARTS])
def test_a_missing_part_is_named(folder: Path, name: str) -> None:
    path = registration.part_path(folder, name)
    path.unlink()
    with pytest.raises(EvidenceError, match=f"the registered part '{name}' is missing") as caught:
        registration.read_registration(folder)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("name", CONTRACT_PARTS)
def test_each_contract_part_moves_both_digests(name: str) -> None:
    changed = {**CONTRACT, name: {**CONTRACT[name], "sources": {"module": "sha256:2"}}}
    assert registration.contract_digest(changed) != registration.contract_digest(CONTRACT)
    assert registration.registration_digest(changed | PLAN) != registration.registration_digest(CONTRACT | PLAN)


@pytest.mark.parametrize("name", PLAN_PARTS)
def test_counts_and_thresholds_move_the_registration_and_not_the_contract(name: str) -> None:
    changed = {**CONTRACT, **PLAN, name: {"config": {"of": name, "number": 7}}}
    assert registration.contract_digest(changed) == registration.contract_digest(CONTRACT)
    assert registration.registration_digest(changed) != registration.registration_digest(CONTRACT | PLAN)


def test_two_parts_with_swapped_contents_are_another_contract() -> None:
    swapped = {**CONTRACT, "claim": CONTRACT["task"], "task": CONTRACT["claim"]}
    assert registration.contract_digest(swapped) != registration.contract_digest(CONTRACT)


def test_a_contract_frozen_anew_makes_the_old_registration_one_for_another_contract(folder: Path) -> None:
    changed = {**CONTRACT, "limits": {"config": {"experiments": 5}}}
    registration.write_contract(folder, changed)
    with pytest.raises(EvidenceError, match=r"'limits' was altered|for another contract"):
        registration.read_registration(folder)


def test_a_registration_for_another_contract_is_refused_even_with_all_its_parts(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    registration.write_contract(other, {**CONTRACT, "limits": {"config": {"experiments": 5}}})
    registration.write_registration(other, PLAN)
    for name in (*CONTRACT_PARTS, *PLAN_PARTS):
        registration.part_path(folder, name).write_bytes(registration.part_path(other, name).read_bytes())
    (folder / "registration.json").write_bytes((other / "registration.json").read_bytes())
    with pytest.raises(EvidenceError, match=str(folder)):
        registration.read_registration(folder)


@pytest.mark.parametrize("name", ["contract.json", "registration.json"])
def test_an_index_that_was_written_anew_over_edited_parts_is_another_digest(folder: Path, name: str) -> None:
    """Whoever edits a part and all digests above it has registered something else, and no record names it."""
    before = registration.read_registration(folder)
    edit(registration.part_path(folder, "thresholds" if name == "registration.json" else "limits"), number=5)
    parts = {
        part: json.loads(registration.part_path(folder, part).read_bytes()) for part in (*CONTRACT_PARTS, *PLAN_PARTS)
    }
    registration.write_contract(folder, parts)
    after = registration.write_registration(folder, {part: parts[part] for part in PLAN_PARTS})
    assert registration.read_registration(folder) == after
    assert after.digest != before.digest
    assert (after.contract != before.contract) == (name == "contract.json")


def test_a_contract_whose_index_contradicts_itself_is_refused(folder: Path) -> None:
    from dcpflow.records import stagefile

    body, _ = stagefile.read(folder / "contract.json", registration.CONTRACT_SCHEMA, "the contract")
    stagefile.write(folder / "contract.json", registration.CONTRACT_SCHEMA, body | {"contract": "sha256:" + "0" * 64})
    with pytest.raises(EvidenceError, match="the contract was altered"):
        registration.read_contract(folder)


def test_registered_names_c_and_r_apart(folder: Path) -> None:
    contract, whole = registration.read_contract(folder), registration.read_registration(folder)
    assert isinstance(whole, Registered)
    assert contract.digest == contract.contract == whole.contract != whole.digest
    assert set(contract.parts) == set(CONTRACT_PARTS)
