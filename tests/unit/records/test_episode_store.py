"""The episode store: a slot is claimed once, a record is committed once, and no death needs a manual step."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from dcpflow.errors import EvidenceError
from dcpflow.records import canonical, episodes, holders
from dcpflow.records.episodes import Claim, EpisodeKey, EpisodeRecord, EpisodeStore
from dcpflow.records.holders import Holder
from dcpflow.records.objects import ObjectStore

KEY = EpisodeKey("challengers", 3, "withheld")
MakeRecord = Callable[..., EpisodeRecord]


@pytest.fixture
def store(tmp_path: Path, contract: str, monkeypatch: pytest.MonkeyPatch) -> EpisodeStore:
    monkeypatch.setattr(episodes, "POLL_SECONDS", 0.01)
    return EpisodeStore(tmp_path / "store", contract)


@pytest.fixture(autouse=True)
def no_endless_wait() -> Iterator[None]:
    """A claim that waits for nobody fails its test instead of stopping all tests."""

    def fail(*_: object) -> None:
        raise AssertionError("a claim still waits after two minutes")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(120)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def claimed(store: EpisodeStore, key: EpisodeKey = KEY) -> Claim:
    claim = store.claim(key)
    assert isinstance(claim, Claim)
    return claim


def in_child(work: Callable[[], None]) -> int:
    """Run the work in a forked process and return its exit code."""
    child = os.fork()
    if not child:
        code = 99
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def held_by(store: EpisodeStore, holder: dict[str, Any] | bytes) -> Path:
    """Lay down a holder's file as if that process had claimed the slot."""
    path = store.folder(KEY) / "holder-1.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(holder if isinstance(holder, bytes) else canonical.encode(holder))
    return path


def test_a_claimed_episode_is_run_once_and_then_only_listed(store: EpisodeStore, make_record: MakeRecord) -> None:
    record = make_record()
    assert store.committed(KEY) is None
    data = claimed(store).commit(record, {"host": "here"})
    assert data == record.to_bytes() == store.committed(KEY) == store.claim(KEY)
    assert EpisodeRecord.from_bytes(data, "here") == record


def test_times_and_hosts_lie_beside_the_record_and_not_in_it(store: EpisodeStore, make_record: MakeRecord) -> None:
    claimed(store).commit(make_record(), {"host": "machine-7", "seconds": "12.5"})
    assert json.loads((store.folder(KEY) / "aside-1.json").read_bytes()) == {"host": "machine-7", "seconds": "12.5"}
    committed = store.committed(KEY)
    assert committed is not None
    assert b"machine-7" not in committed


def test_slots_arms_and_contracts_do_not_share_a_folder(store: EpisodeStore, tmp_path: Path) -> None:
    keys = [KEY, replace(KEY, slot=30), replace(KEY, arm="truthful"), replace(KEY, stage="pairs")]
    other = EpisodeStore(tmp_path / "store", canonical.digest(b"another contract"))
    folders = {store.folder(key) for key in keys} | {other.folder(KEY), store.folder(KEY, attempt=2)}
    assert len(folders) == 6


def test_the_attempt_of_a_dead_process_is_taken_over_without_a_manual_step(
    store: EpisodeStore, make_record: MakeRecord
) -> None:
    assert in_child(lambda: (claimed(store), None)[1]) == 0  # it claims and dies
    assert len(list(store.folder(KEY).iterdir())) == 1
    record = make_record()
    assert claimed(store).commit(record, {}) == record.to_bytes()


def test_a_living_process_is_waited_for_and_its_record_returned(store: EpisodeStore, make_record: MakeRecord) -> None:
    ready_in, ready_out = os.pipe()
    go_in, go_out = os.pipe()
    record = make_record()
    child = os.fork()
    if not child:
        try:
            claim = claimed(store)
            os.write(ready_out, b"x")
            os.read(go_in, 1)
            claim.commit(record, {})
        finally:
            os._exit(0)
    os.read(ready_in, 1)
    waited_for: list[Holder] = []
    result: list[Claim | bytes] = []
    waiter = threading.Thread(target=lambda: result.append(store.claim(KEY, waited_for.append)))
    waiter.start()
    time.sleep(0.1)
    assert waiter.is_alive()
    os.write(go_out, b"x")
    waiter.join(timeout=5)
    os.waitpid(child, 0)
    assert result == [record.to_bytes()]
    assert [holder.pid for holder in waited_for] == [child], "told once, with the process that is waited for"


def test_a_living_process_that_dies_while_it_is_waited_for_is_taken_over(store: EpisodeStore) -> None:
    ready_in, ready_out = os.pipe()
    child = os.fork()
    if not child:
        try:
            claimed(store)
            os.write(ready_out, b"x")
            time.sleep(0.15)
        finally:
            os._exit(0)
    os.read(ready_in, 1)
    # the dead child stays a zombie until this process waits for it
    assert isinstance(store.claim(KEY), Claim)
    os.waitpid(child, 0)


def test_of_two_that_take_over_at_once_one_runs_and_the_other_gets_its_record(
    store: EpisodeStore, make_record: MakeRecord
) -> None:
    in_child(lambda: (claimed(store), None)[1])
    gate_in, gate_out = os.pipe()
    children = []
    for number in range(4):
        child = os.fork()
        if not child:
            code = 99
            try:
                os.close(gate_out)
                os.read(gate_in, 1)
                claim = store.claim(KEY)
                if isinstance(claim, Claim):
                    time.sleep(0.05)
                    claim.commit(make_record(reason=f"run by {number}"), {})
                    code = 1
                else:
                    code = 0
            finally:
                os._exit(code)
        children.append(child)
    os.close(gate_in)
    os.close(gate_out)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert sorted(codes) == [0, 0, 0, 1]
    committed = store.committed(KEY)
    assert committed is not None
    assert f"run by {codes.index(1)}".encode() in committed


def test_hundreds_of_jobs_that_commit_at_once_lose_and_mix_up_nothing(
    store: EpisodeStore, make_record: MakeRecord, in_children: Callable[..., list[int]], tmp_path: Path
) -> None:
    """Two jobs for each slot, as when those of a killed run are still at work; all put the same object, too."""
    objects, slots, jobs = ObjectStore(tmp_path / "objects"), 100, 200

    def work(number: int) -> None:
        record = make_record(slot=1 + number % slots, reason=f"job {number}")
        assert objects.put(b"what all agents were told") == objects.put(b"what all agents were told")
        claim = Claim(store, record.key, store.folder(record.key) / f"holder-{1 + number}.json")
        stands = claim.commit(record, {"job": number})
        os._exit(0 if stands == store.committed(record.key) else 1)

    assert in_children(jobs, work) == [0] * jobs
    for slot in range(1, slots + 1):
        key = make_record(slot=slot).key
        record = EpisodeRecord.from_bytes(store.committed(key) or b"", "a record")
        assert record.slot == slot
        assert record.reason in {f"job {slot - 1}", f"job {slot - 1 + slots}"}
    left = [path for path in tmp_path.rglob("*") if path.name.startswith(".")]
    assert left == []
    assert len([path for path in objects.root.rglob("*") if path.is_file()]) == 1


def test_what_an_orphaned_job_commits_late_changes_nothing(store: EpisodeStore, make_record: MakeRecord) -> None:
    orphan = claimed(store)
    # its run was killed, the process left behind: to the next run it looks dead
    path = store.folder(KEY) / "holder-1.json"
    path.write_bytes(canonical.encode(replace(Holder.myself(), started=1).to_json()))
    successor = claimed(store)
    first = make_record(reason="of the second run")
    assert successor.commit(first, {"seconds": "1"}) == first.to_bytes()
    late = make_record(reason="of the orphan")
    assert orphan.commit(late, {"seconds": "99"}) == first.to_bytes()
    assert store.committed(KEY) == first.to_bytes()
    assert {path.name for path in store.folder(KEY).glob("aside-*")} == {"aside-1.json", "aside-2.json"}


def test_a_record_that_is_committed_between_look_and_claim_is_not_run_again(
    store: EpisodeStore, make_record: MakeRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = make_record()
    other = claimed(store)

    def committed_and_ended_meanwhile(_: Path) -> tuple[int, Holder]:
        other.commit(record, {})
        return 1, replace(Holder.myself(), started=1)

    monkeypatch.setattr(episodes, "_last_holder", committed_and_ended_meanwhile)
    assert store.claim(KEY) == record.to_bytes()


def test_a_process_of_another_machine_is_waited_for_as_long_as_it_shows_itself(
    store: EpisodeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holders, "FOREIGN_SILENCE_SECONDS", 0.15)
    path = held_by(store, replace(Holder.myself(), host="elsewhere.example").to_json())
    began = time.monotonic()
    stop = threading.Event()

    def show_itself() -> None:
        while not stop.wait(0.03):
            path.touch()

    showing = threading.Thread(target=show_itself)
    showing.start()
    result: list[Claim | bytes] = []
    waiter = threading.Thread(target=lambda: result.append(store.claim(KEY)))
    waiter.start()
    time.sleep(0.4)
    still_waiting = waiter.is_alive()
    stop.set()
    showing.join()
    waiter.join(timeout=5)
    assert still_waiting, "taken over from a living process of another machine"
    assert isinstance(result[0], Claim)
    assert time.monotonic() - began < 3


def test_an_attempt_shows_that_it_is_alive(store: EpisodeStore) -> None:
    claim = claimed(store)
    path = store.folder(KEY) / "holder-1.json"
    os.utime(path, ns=(1, 1))
    claim.still_here()
    assert path.stat().st_mtime_ns > 1


@pytest.mark.parametrize("data", [b"", b'{"host": "h', b"\0\0\0\0"])
def test_a_holder_file_that_a_crash_left_unreadable_holds_nothing(store: EpisodeStore, data: bytes) -> None:
    held_by(store, data)
    assert isinstance(store.claim(KEY), Claim)


# --- reading records ---------------------------------------------------------------------------------------

WRONG = {"str": [None, 7, ["a"]], "int": [True, 1.5, "3", None], "list[str]": ["a", [1], {"a": "b"}, None]}
WRONG |= {
    "dict[str, str]": [[], {"a": 1}, {"a": None}, "a"],
    "dict[str, int]": [{"a": True}, {"a": 1.5}, {"a": "1"}, []],
}


@pytest.mark.parametrize(
    ("name", "value"),
    [(field.name, value) for field in EpisodeRecord.__dataclass_fields__.values() for value in WRONG[str(field.type)]],
    ids=lambda value: repr(value)[:24],
)
def test_a_record_with_a_field_of_another_type_is_refused(make_record: MakeRecord, name: str, value: Any) -> None:
    fields = {"schema": "dcpflow.episode/1", **asdict(make_record()), name: value}
    with pytest.raises(EvidenceError, match=f"here: {name} must be") as caught:
        EpisodeRecord.from_bytes(canonical.encode(fields), "here")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("name", EpisodeRecord.__dataclass_fields__)
def test_a_record_without_a_field_is_refused(make_record: MakeRecord, name: str) -> None:
    fields = {"schema": "dcpflow.episode/1", **asdict(make_record())}
    del fields[name]
    with pytest.raises(EvidenceError, match=f"missing or unknown: {name}"):
        EpisodeRecord.from_bytes(canonical.encode(fields), "here")


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"null", b"{}", b'{"schema": "dcpflow.episode/2"}', b'{"schema": ["dcpflow.episode/1"]}', b"\xff"],
)
def test_what_is_no_record_is_refused_by_name(data: bytes) -> None:
    with pytest.raises(EvidenceError, match=r"^here: "):
        EpisodeRecord.from_bytes(data, "here")


def test_a_record_with_one_more_field_is_refused(make_record: MakeRecord) -> None:
    fields = {"schema": "dcpflow.episode/1", **asdict(make_record()), "wall_seconds": 3}
    with pytest.raises(EvidenceError, match="missing or unknown: wall_seconds"):
        EpisodeRecord.from_bytes(canonical.encode(fields), "here")
