"""Files are whole or absent, whatever happens while they are written."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from dcpflow.errors import EvidenceError
from dcpflow.records import files

InChildren = Callable[[int, Callable[[int], None]], list[int]]


@pytest.mark.parametrize("where", ["os.fsync", "pathlib.Path.replace"])
def test_a_failure_while_writing_leaves_the_old_content_and_no_litter(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file.json"
    files.write_atomic(path, b"old")

    def fail(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(where, fail)
    with pytest.raises(OSError, match="no space left"):
        files.write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file.json"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_fault_of_the_disk_names_the_file_that_was_to_be_written_and_leaves_nothing_of_it(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("os.fsync", fail)
    for write in (files.write_atomic, files.write_once):
        with pytest.raises(OSError, match="record") as caught:
            write(tmp_path / "record.json", b"new")
        assert caught.value.filename == str(tmp_path / "record.json")
    with pytest.raises(OSError, match=str(tmp_path)) as caught:
        files.try_out(tmp_path)
    assert caught.value.errno == number
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_can_be_written_to_is_tried_out_without_a_trace(tmp_path: Path) -> None:
    files.try_out(tmp_path / "new")
    assert list((tmp_path / "new").iterdir()) == []


def test_a_link_whose_answer_was_lost_on_a_network_is_known_for_the_own_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def answered_late(source: Path, target: Path) -> None:
        link(source, target)
        link(source, target)

    monkeypatch.setattr("os.link", answered_late)
    assert files.write_once(tmp_path / "holder.json", b"mine")
    assert not files.write_once(tmp_path / "holder.json", b"another's")
    assert (tmp_path / "holder.json").read_bytes() == b"mine"


def test_a_file_system_that_cannot_sync_folders_is_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsync = os.fsync

    def files_only(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "invalid argument")
        fsync(descriptor)

    monkeypatch.setattr("os.fsync", files_only)
    files.write_atomic(tmp_path / "file.json", b"whole")
    assert (tmp_path / "file.json").read_bytes() == b"whole"


def test_a_process_that_dies_before_the_replacement_leaves_the_old_content(
    tmp_path: Path, in_children: InChildren
) -> None:
    path = tmp_path / "file.json"
    files.write_atomic(path, b"old")

    def die(_: int) -> None:
        Path.replace = lambda *_: os._exit(7)  # type: ignore[method-assign, assignment]
        files.write_atomic(path, b"new and longer")

    assert in_children(1, die) == [7]
    assert path.read_bytes() == b"old"
    assert list(tmp_path.glob("[!.]*")) == [path], "what it left behind is a hidden file"


def test_a_reader_sees_the_old_or_the_new_content_and_never_a_part(tmp_path: Path, in_children: InChildren) -> None:
    path = tmp_path / "file.json"
    versions = [b"a" * 100_000, b"b" * 100_000]
    files.write_atomic(path, versions[0])

    def rewrite(_: int) -> None:
        for turn in range(40):
            files.write_atomic(path, versions[turn % 2])
        os._exit(0)

    reader = os.fork()
    if not reader:
        whole = all(path.read_bytes() in versions for _ in range(300))
        os._exit(0 if whole else 1)
    assert in_children(1, rewrite) == [0]
    assert os.waitstatus_to_exitcode(os.waitpid(reader, 0)[1]) == 0


def test_write_once_never_overwrites_and_says_whose_content_stands(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "record.json"
    assert files.write_once(path, b"first")
    assert not files.write_once(path, b"second")
    assert path.read_bytes() == b"first"
    assert stat.S_IMODE(path.stat().st_mode) == 0o444
    assert list(path.parent.iterdir()) == [path]


def test_of_racing_processes_one_writes_the_file_and_all_others_are_told(
    tmp_path: Path, in_children: InChildren
) -> None:
    path = tmp_path / "record.json"

    def race(number: int) -> None:
        os._exit(10 if files.write_once(path, f"process {number}".encode()) else 0)

    codes = in_children(6, race)
    assert sorted(codes) == [0] * 5 + [10]
    assert path.read_text() == f"process {codes.index(10)}"


def test_reading_a_missing_file_names_it_its_meaning_and_the_way_back(tmp_path: Path) -> None:
    with pytest.raises(EvidenceError) as caught:
        files.read(tmp_path / "gone.json", "the record of challenger 17", "To restore it: do this")
    assert (
        str(caught.value) == f"the record of challenger 17 is missing: {tmp_path / 'gone.json'}. To restore it: do this"
    )
    with pytest.raises(EvidenceError, match="the record is no regular file"):
        files.read(tmp_path, "the record")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(EvidenceError, match="is no regular file"):
        files.read(tmp_path / "pipe", "the record")


def test_a_private_folder_is_closed_even_where_it_stood_open(tmp_path: Path) -> None:
    folder = tmp_path / "private" / "sealed"
    folder.mkdir(parents=True, mode=0o755)
    for path in (folder, tmp_path / "new"):
        assert stat.S_IMODE(files.private_folder(path).stat().st_mode) == 0o700


def test_a_file_that_was_created_though_the_answer_was_lost_is_one_s_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As over NFS: the client asks a second time, and is told that the name is taken."""
    link = os.link

    def answered_late(source: Path, target: Path) -> None:
        link(source, target)
        raise FileExistsError(17, "File exists")

    monkeypatch.setattr(os, "link", answered_late)
    assert files.write_once(tmp_path / "mine", b"data")
    monkeypatch.setattr(os, "link", link)
    assert not files.write_once(tmp_path / "mine", b"other")
    assert (tmp_path / "mine").read_bytes() == b"data"
    assert [entry.name for entry in tmp_path.iterdir()] == ["mine"]


def test_an_own_file_is_known_though_the_number_of_its_links_is_remembered_from_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As over NFS, where dates and counts may be seconds old."""
    link, look = os.link, Path.stat

    def answered_late(source: Path, target: Path) -> None:
        link(source, target)
        raise FileExistsError(17, "File exists")

    def one_link(path: Path, **options: bool) -> os.stat_result:
        found = list(look(path, **options))
        found[3] = 1
        return os.stat_result(found)

    monkeypatch.setattr(os, "link", answered_late)
    monkeypatch.setattr(Path, "stat", one_link)
    assert files.write_once(tmp_path / "mine", b"data")


def test_a_file_of_another_that_is_removed_at_once_is_not_one_s_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def taken(*_: object) -> None:
        raise FileExistsError(17, "File exists")

    monkeypatch.setattr(os, "link", taken)
    assert not files.write_once(tmp_path / "lock", b"data")
    assert list(tmp_path.iterdir()) == []
