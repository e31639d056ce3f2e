"""Receipts resolve: each line leads to the record that it names, or to an error with file and command."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dcpflow.errors import EvidenceError
from dcpflow.records import receipts
from dcpflow.records.canonical import digest
from dcpflow.records.episodes import Claim, EpisodeKey, EpisodeRecord, EpisodeStore

MakeRecord = Callable[..., EpisodeRecord]


@pytest.fixture
def store(tmp_path: Path, contract: str) -> EpisodeStore:
    return EpisodeStore(tmp_path / "store", contract)


@pytest.fixture
def receipt(tmp_path: Path, store: EpisodeStore, contract: str, make_record: MakeRecord) -> Path:
    """The receipt of two committed challengers."""
    path = tmp_path / "challengers" / "b0001.json"
    records = []
    for slot in (3, 4):
        record = make_record(slot=slot)
        claim = store.claim(record.key)
        assert isinstance(claim, Claim)
        records.append(claim.commit(record, {}))
    receipts.write(path, contract, records)
    return path


def commands(error: EvidenceError) -> list[str]:
    """The words of the command that an error proposes."""
    return shlex.split(error.remedy.partition(": ")[2].partition(" and run")[0])


def test_each_line_leads_to_its_record(
    receipt: Path, store: EpisodeStore, contract: str, make_record: MakeRecord
) -> None:
    lines = receipts.read(receipt, contract)
    assert [line.key for line in lines] == [EpisodeKey("challengers", slot, "withheld") for slot in (3, 4)]
    assert [receipts.resolve(line, store, receipt) for line in lines] == [make_record(slot=3), make_record(slot=4)]


def test_a_receipt_does_not_say_in_which_batch_or_when_its_episodes_ran(
    receipt: Path, tmp_path: Path, contract: str, make_record: MakeRecord
) -> None:
    again = tmp_path / "elsewhere" / "b0007.json"
    receipts.write(again, contract, [make_record(slot=slot).to_bytes() for slot in (3, 4)])
    assert again.read_bytes() == receipt.read_bytes()


def test_a_note_stands_in_the_receipt_for_later_stages(tmp_path: Path, contract: str) -> None:
    path = tmp_path / "b0001.json"
    receipts.write(path, contract, [], note={"unused": "no pair needs a replacement"})
    assert receipts.read(path, contract) == []
    assert receipts.read_body(path, contract)["unused"] == "no pair needs a replacement"


def test_a_missing_record_is_named_with_the_command_that_restores_it(
    receipt: Path, store: EpisodeStore, contract: str
) -> None:
    line = receipts.read(receipt, contract)[1]
    place = store.record_path(line.key)
    place.unlink()
    with pytest.raises(EvidenceError, match=r"challengers slot 4 \(withheld\) is missing") as caught:
        receipts.resolve(line, store, receipt)
    assert str(place) in caught.value.problem
    # without its folder a slot is claimed anew, and without the receipt its job runs
    assert commands(caught.value) == ["rm", "-rf", str(place.parent), str(receipt)]


def test_a_pipe_in_the_place_of_a_record_is_not_waited_for(receipt: Path, store: EpisodeStore, contract: str) -> None:
    line = receipts.read(receipt, contract)[1]
    place = store.record_path(line.key)
    place.unlink()
    os.mkfifo(place)
    with pytest.raises(EvidenceError, match="is no regular file"):
        receipts.resolve(line, store, receipt)


def test_an_altered_record_is_named_with_both_files(receipt: Path, store: EpisodeStore, contract: str) -> None:
    line = receipts.read(receipt, contract)[0]
    place = store.record_path(line.key)
    place.chmod(0o644)
    place.write_bytes(place.read_bytes().replace(b'"experiments":4', b'"experiments":3'))
    with pytest.raises(EvidenceError, match=r"challengers slot 3 \(withheld\) was altered") as caught:
        receipts.resolve(line, store, receipt)
    assert str(place) in caught.value.problem
    assert str(receipt) in caught.value.problem
    assert commands(caught.value)[:2] == ["rm", "-rf"]


@pytest.mark.parametrize("change", [{"slot": 9}, {"arm": "truthful"}, {"stage": "controls"}, {"attempt": 2}], ids=str)
def test_the_record_of_another_episode_is_not_accepted_in_its_place(
    tmp_path: Path, store: EpisodeStore, contract: str, make_record: MakeRecord, change: dict[str, object]
) -> None:
    # the receipt's digest fits, but what lies there was made for another place
    foreign = make_record(**change)
    place = store.record_path(make_record().key)
    place.parent.mkdir(parents=True)
    place.write_bytes(foreign.to_bytes())
    line = receipts.Receipt(make_record().key, 1, digest(foreign.to_bytes()))
    with pytest.raises(EvidenceError, match="holds the record of another episode") as caught:
        receipts.resolve(line, store, tmp_path / "b0001.json")
    assert str(place) in str(caught.value)


def test_a_missing_receipt_is_named(tmp_path: Path, contract: str) -> None:
    path = tmp_path / "b0001.json"
    with pytest.raises(EvidenceError, match="the receipt is missing") as caught:
        receipts.read(path, contract)
    assert str(path) in str(caught.value)


def test_an_altered_receipt_is_named(receipt: Path, contract: str) -> None:
    receipt.write_bytes(receipt.read_bytes().replace(b'"slot":4', b'"slot":5'))
    with pytest.raises(EvidenceError, match="the receipt was altered") as caught:
        receipts.read(receipt, contract)
    assert commands(caught.value) == ["rm", "-f", str(receipt)]


def test_the_receipt_of_another_contract_is_refused(receipt: Path) -> None:
    with pytest.raises(EvidenceError, match="belongs to another contract") as caught:
        receipts.read(receipt, digest(b"another contract"))
    assert commands(caught.value) == ["rm", "-f", str(receipt)]


def test_a_path_with_blanks_and_quotes_gives_a_command_that_can_be_pasted(
    tmp_path: Path, store: EpisodeStore, contract: str, make_record: MakeRecord
) -> None:
    path = tmp_path / "my results" / "b0001.json"
    receipts.write(path, contract, [make_record().to_bytes()])
    with pytest.raises(EvidenceError, match="is missing") as caught:
        receipts.resolve(receipts.read(path, contract)[0], store, path)
    assert commands(caught.value)[-1] == str(path)


def test_a_line_names_its_attempt(tmp_path: Path, store: EpisodeStore, contract: str, make_record: MakeRecord) -> None:
    path = tmp_path / "b0001.json"
    record = replace(make_record(), attempt=2)
    receipts.write(path, contract, [record.to_bytes()])
    place = store.record_path(record.key, attempt=2)
    place.parent.mkdir(parents=True)
    place.write_bytes(record.to_bytes())
    assert receipts.resolve(receipts.read(path, contract)[0], store, path) == record
