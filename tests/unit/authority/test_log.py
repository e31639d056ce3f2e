"""The registry's log: what is appended stays, and whatever is cut, edited, rewritten or forked is told by its name."""

from __future__ import annotations

import json
import multiprocessing
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dcpflow.authority import kinds
from dcpflow.authority.entry import CHECKPOINT, Checkpoint, Entry, Head
from dcpflow.authority.envelope import Envelope
from dcpflow.authority.keys import Signer
from dcpflow.authority.log import Log, verify_proof
from dcpflow.errors import EvidenceError, UsageError
from dcpflow.records import canonical

ONE, TWO = (f"sha256:{letter * 64}" for letter in "ab")


def witness(text: str) -> dict[str, Any]:
    return {"registration": ONE, "record": TWO, "text": text}


@pytest.fixture
def signer(tmp_path: Path) -> Signer:
    return Signer.new(tmp_path / "keys" / "registry")


@pytest.fixture
def log(tmp_path: Path, signer: Signer) -> Log:
    """Five entries of which three are signed, in the folder ``registry``."""
    found = Log.create(tmp_path / "registry", Head("the registry of a test", signer.public))
    for number in range(1, 6):
        found = found.append(kinds.WITNESS, witness(f"entry {number}"))
        found = found.sign(signer) if number == 3 else found
    return found


@pytest.fixture
def folder(log: Log, tmp_path: Path) -> Path:
    return tmp_path / "registry"


def entry_file(folder: Path, number: int) -> Path:
    return folder / "entries" / f"{number:08d}.json"


def put(path: Path, data: bytes) -> None:
    path.unlink(missing_ok=True)
    path.write_bytes(data)


def rewritten(folder: Path, first: int, text: str) -> None:
    """All entries from one on anew, with a chain that holds: what whoever keeps the log can always do."""
    entries = Log.open(folder).entries
    previous = entries[first - 2].digest if first > 1 else canonical.digest((folder / "registry.json").read_bytes())
    for entry in entries[first - 1 :]:
        made = Entry.make(entry.number, previous, kinds.WITNESS, entry.date, witness(text))
        put(entry_file(folder, entry.number), made.data)
        previous = made.digest


def test_what_was_appended_is_read_again(log: Log, folder: Path) -> None:
    again = Log.open(folder)
    assert again.entries == log.entries
    assert [entry.body["text"] for entry in again.entries] == [f"entry {number}" for number in range(1, 6)]
    assert [point.size for point in again.checkpoints] == [3]
    assert again.entries[0].previous == canonical.digest((folder / "registry.json").read_bytes())
    again.verify(again.checkpoint, [again.head.key] if again.head.key else [])


def test_nothing_is_written_that_is_not_read(log: Log, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = {"claim": "c", "family": "f", "slot": "s", "run": "a" * 32, "old": ONE, "new": TWO}
    many = [f"{number} {'k' * 3_900}" for number in range(300)]
    with pytest.raises(EvidenceError, match="keys must be a list of at most 1000 names with 65536 characters"):
        log.append(kinds.AMENDED, {**body, "keys": many})
    for names in (many, [str(number) for number in range(5_000)]):
        log = log.append(kinds.AMENDED, {**body, "keys": kinds.shortened(names)})
    assert log.entries[-1].body["keys"][-1] == "and 4001 more"
    assert kinds.shortened(["a", "b"]) == ["a", "b"]
    monkeypatch.setattr("dcpflow.authority.entry.LARGEST", 100)
    with pytest.raises(EvidenceError, match="at most 100 are read"):
        log.append(kinds.WITNESS, witness("x"))
    monkeypatch.undo()
    assert len(Log.open(folder).entries) == 7


def test_dates_never_go_back(log: Log, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    last = log.entries[-1]
    monkeypatch.setattr("dcpflow.authority.log.now", lambda: "2001-01-01T00:00:00Z")
    assert log.append(kinds.WITNESS, witness("a clock that was set back")).entries[-1].date == last.date
    made = Entry.make(7, Log.open(folder).entries[-1].digest, kinds.WITNESS, "2001-01-01T00:00:00Z", witness("old"))
    put(entry_file(folder, 7), made.data)
    with pytest.raises(EvidenceError, match="entry 7 is dated 2001-01-01T00:00:00Z, before the one before it"):
        Log.open(folder)


def test_a_checkpoint_is_signed_by_the_registry_first_and_then_by_whoever_witnesses_it(
    log: Log, folder: Path, signer: Signer, tmp_path: Path
) -> None:
    other = Signer.new(tmp_path / "keys" / "witness")
    with pytest.raises(UsageError, match="not the key of this registry"):
        log.sign(other)
    log.sign(signer).sign(other)
    point = Log.open(folder).checkpoint
    assert point
    assert point.size == 5
    assert point.signers([other.public, signer.public]) == [other.public, signer.public]
    assert (folder / "checkpoint.json").read_bytes() == (folder / "checkpoints/00000005.json").read_bytes()
    with pytest.raises(UsageError, match="no entry yet"):
        Log.create(tmp_path / "empty", Head("empty")).sign(other)


def test_a_proof_shows_an_entry_to_who_holds_the_key_alone(log: Log, signer: Signer, tmp_path: Path) -> None:
    proof = json.loads(json.dumps(log.prove(2)))
    entry, point = verify_proof(proof, [signer.public], "the proof")
    assert (entry, point.size) == (log.entries[1], 3)
    stranger = Signer.new(tmp_path / "keys" / "stranger")
    with pytest.raises(EvidenceError, match="no signature of a trusted key"):
        verify_proof(proof, [stranger.public], "the proof")
    shows_another: list[dict[str, Any]] = [{"entry": log.entries[2].data.decode()}, {"path": proof["path"][::-1]}]
    for change in (*shows_another, {"path": []}):
        with pytest.raises(EvidenceError, match="is not shown to be among the 3"):
            verify_proof({**proof, **change}, [signer.public], "the proof")
    malformed: list[dict[str, Any]] = [
        {"path": ["x"]},
        {"schema": "other"},
        {"more": 1},
        {"entry": 1},
        {"entry": "{}\n"},
    ]
    for change in malformed:
        with pytest.raises(EvidenceError, match="the proof: "):
            verify_proof({**proof, **change}, [signer.public], "the proof")
    with pytest.raises(UsageError, match="no checkpoint covers entry 4"):
        log.prove(4)
    with pytest.raises(UsageError, match="no entry 6"):
        log.prove(6)


def cut_in_the_middle(folder: Path) -> None:
    entry_file(folder, 4).unlink()


def cut_below_a_checkpoint(folder: Path) -> None:
    for number in (3, 4, 5):
        entry_file(folder, number).unlink()


def edited(folder: Path) -> None:
    put(entry_file(folder, 4), entry_file(folder, 4).read_bytes().replace(b"entry 4", b"entry X"))


def edited_in_form(folder: Path) -> None:
    put(entry_file(folder, 5), entry_file(folder, 5).read_bytes().replace(b":", b": ", 1))


def swapped(folder: Path) -> None:
    put(entry_file(folder, 4), entry_file(folder, 3).read_bytes())


def rewritten_below_a_checkpoint(folder: Path) -> None:
    rewritten_without_checkpoints(folder, keep=True)


def rewritten_without_checkpoints(folder: Path, *, keep: bool = False) -> None:
    kept = {path: path.read_bytes() for path in folder.rglob("*checkpoint*/*.json")}
    shutil.rmtree(folder / "checkpoints")
    (folder / "checkpoint.json").unlink()
    rewritten(folder, 2, "another history")
    for path, data in kept.items() if keep else ():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)


def foreign_file(folder: Path) -> None:
    (folder / "entries" / "notes.txt").write_text("mine")


def foreign_number(folder: Path) -> None:
    (folder / "entries" / "6.json").write_text("{}")


def another_head(folder: Path) -> None:
    put(folder / "registry.json", Head("another").to_bytes())
    shutil.rmtree(folder / "checkpoints")
    (folder / "checkpoint.json").unlink()


def another_origin(folder: Path) -> None:
    head = Head.parse((folder / "registry.json").read_bytes(), "head")
    put(folder / "registry.json", Head("another", head.key).to_bytes())


def without_signature(folder: Path) -> None:
    path = folder / "checkpoints" / "00000003.json"
    envelope = json.loads(path.read_bytes())
    put(path, canonical.encode({**envelope, "signatures": []}) + b"\n")


def with_a_forged_signature(folder: Path) -> None:
    path = folder / "checkpoints" / "00000003.json"
    point = Envelope.parse(path.read_bytes(), "here", CHECKPOINT)
    forged = dict.fromkeys(point.signatures, b"x" * 64)
    put(path, Envelope(CHECKPOINT, point.payload, forged).to_bytes())


def under_another_name(folder: Path) -> None:
    (folder / "checkpoints" / "00000003.json").rename(folder / "checkpoints" / "00000004.json")


def no_json(folder: Path) -> None:
    put(entry_file(folder, 5), b"\xff")


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (cut_in_the_middle, r"entry 4 is missing: .*00000004\.json is not there, though 00000005\.json is"),
        (cut_below_a_checkpoint, "was signed over 3 entries, but there are 2: the tail was cut"),
        (edited, r"00000005\.json: the chain is broken: .* but entry 4 has the digest sha256:"),
        (edited_in_form, r"00000005\.json: not in canonical form"),
        (swapped, r"00000004\.json: the entry calls itself number 3, not 4"),
        (rewritten_below_a_checkpoint, r"00000003\.json: the first 3 entries are not those that were signed"),
        (foreign_file, r"notes\.txt is no entry of a registry"),
        (foreign_number, r"6\.json is no entry of a registry"),
        (another_head, r"00000001\.json: the chain is broken: .* the registry's head has the digest"),
        (another_origin, r"00000001\.json: the chain is broken"),
        (without_signature, r"00000003\.json: nobody has signed this checkpoint"),
        (with_a_forged_signature, r"00000003\.json: it has no signature of the registry's key .* that holds"),
        (under_another_name, "a checkpoint of 3 entries, not of those that its name says"),
        (no_json, r"00000005\.json: not UTF-8"),
    ],
)
def test_harm_that_shows_by_the_folder_itself_is_told(folder: Path, harm: Callable[[Path], None], says: str) -> None:
    harm(folder)
    with pytest.raises(EvidenceError, match=says):
        Log.open(folder)


def test_a_cut_tail_is_found_by_who_holds_an_older_checkpoint(log: Log, folder: Path, signer: Signer) -> None:
    older = log.sign(signer).checkpoint
    (folder / "checkpoints" / "00000005.json").unlink()
    shutil.copy(folder / "checkpoints" / "00000003.json", folder / "checkpoint.json")
    entry_file(folder, 5).unlink()
    with pytest.raises(EvidenceError, match=r"the tail was cut: there are 4 entries, .* signed over 5"):
        Log.open(folder).verify(older)


def test_a_rewritten_log_is_found_by_who_holds_an_older_checkpoint(log: Log, folder: Path) -> None:
    rewritten_without_checkpoints(folder)
    with pytest.raises(EvidenceError, match="the entries were rewritten: the first 3 entries are not those"):
        Log.open(folder).verify(log.checkpoint)


def test_two_histories_under_one_key_are_called_a_fork(log: Log, folder: Path, signer: Signer) -> None:
    rewritten_without_checkpoints(folder)
    with pytest.raises(EvidenceError, match="the log is forked: the same key has signed another history"):
        Log.open(folder).sign(signer).verify(log.checkpoint, [signer.public])


def test_whose_checkpoint_it_is_is_checked(log: Log, folder: Path, signer: Signer, tmp_path: Path) -> None:
    stranger = Signer.new(tmp_path / "keys" / "stranger")
    with pytest.raises(EvidenceError, match="no signature of a trusted key: its last checkpoint, of 3 entries"):
        log.verify(keys=[stranger.public])
    elsewhere = Log.create(tmp_path / "elsewhere", Head("elsewhere"))
    with pytest.raises(EvidenceError, match="no signature of a trusted key: it has no checkpoint"):
        elsewhere.verify(keys=[signer.public])
    theirs = elsewhere.append(kinds.WITNESS, witness("x")).sign(stranger).checkpoint
    with pytest.raises(EvidenceError, match="the older checkpoint has no signature of a trusted key"):
        log.verify(theirs)
    statement = canonical.encode({"origin": "elsewhere", "size": 1, "root": "0" * 64})
    signed = Checkpoint.parse(Envelope(CHECKPOINT, statement, {}).signed_by(signer).to_bytes(), "here")
    with pytest.raises(EvidenceError, match="is one of 'elsewhere', not of 'the registry of a test'"):
        log.verify(signed)


@pytest.mark.parametrize(
    ("kind", "body", "says"),
    [
        ("noted", {}, "'noted' is no kind of entry"),
        (kinds.WITNESS, {"registration": ONE}, "has registration, record, text, and nothing else"),
        (kinds.WITNESS, {**witness(""), "record": "x"}, "record must be a digest"),
        (kinds.WITNESS, witness("two\nlines"), "text must be one line"),
        (kinds.REVOKED, {"of": "x", "digest": ONE, "reason": "other", "text": ""}, "of must be certificate or"),
    ],
)
def test_an_entry_is_of_its_kind(log: Log, kind: str, body: dict[str, Any], says: str) -> None:
    with pytest.raises(EvidenceError, match=says):
        log.append(kind, body)


def append_many(folder: Path, name: str) -> None:
    log = Log.open(folder)
    for number in range(15):
        log = log.append(kinds.WITNESS, witness(f"{name} {number}"))
        # one for all writers: whoever comes second finds it there
        shared = witness(f"shared {number}")
        log = log.append(kinds.WITNESS, shared, unless=partial(any_with, shared))


def any_with(body: dict[str, Any], entries: Sequence[Entry]) -> bool:
    return any(entry.body == body for entry in entries)


def test_appends_at_the_same_time_get_successive_numbers_and_nothing_stands_twice(tmp_path: Path) -> None:
    folder = tmp_path / "registry"
    Log.create(folder, Head("shared"))
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=append_many, args=(folder, name)) for name in "abc"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    texts = [entry.body["text"] for entry in Log.open(folder).entries]
    assert sorted(texts) == sorted(
        {f"{name} {n}" for name in "abc" for n in range(15)} | {f"shared {n}" for n in range(15)}
    )


def test_a_folder_that_is_no_registry_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no registry"):
        Log.open(tmp_path / "nowhere")
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="not empty"):
        Log.create(tmp_path, Head("late"))
