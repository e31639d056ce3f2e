"""Faults of disk, mount and rights: told in one line with what to do, by every command and every job."""

from __future__ import annotations

import argparse
import errno
import os
from pathlib import Path

import pytest

from dcpflow.arguments import run
from dcpflow.cli import main
from dcpflow.errors import storage_error


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOSPC, "the disk is full. Nothing that was committed is lost: make room there"),
        (errno.EDQUOT, "the quota is used up. Nothing that was committed is lost: make room there"),
        (errno.EROFS, "the file system is mounted read-only"),
        (errno.EACCES, "permission is denied"),
        (errno.EIO, "the device gives an input/output error"),
        (errno.ENOTCONN, "the mounted file system is gone"),
        (errno.ESTALE, "the mounted file system is gone or was replaced"),
    ],
)
def test_a_fault_of_a_place_says_what_is_wrong_where_and_what_to_do(number: int, said: str) -> None:
    told = str(storage_error(OSError(number, os.strerror(number), "results/decision.json")))
    assert told.startswith(f"results/decision.json cannot be written or read: {said}")
    assert "run the same command again, which goes on from here" in told


def test_other_faults_are_none_of_a_place() -> None:
    assert storage_error(FileNotFoundError(errno.ENOENT, "no such file", "x")) is None
    assert storage_error(OSError("without a number")) is None


def test_a_command_that_meets_a_full_disk_ends_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr("os.fsync", full)
    assert main(["nonce", "new", str(tmp_path / "new.nonce")]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"dcpflow: {tmp_path / 'new.nonce'} cannot be written or read: the disk is full")
    assert list(tmp_path.iterdir()) == []


def test_a_job_whose_mount_has_vanished_ends_with_one_line_and_other_faults_keep_their_trace(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def work(error: OSError) -> None:
        raise error

    monkeypatch.setattr("sys.argv", ["decide.py"])
    gone = OSError(errno.ESTALE, "stale file handle", "results/store")
    with pytest.raises(SystemExit) as caught:
        run(argparse.ArgumentParser(), lambda _: work(gone))
    assert caught.value.code == 1
    assert capsys.readouterr().err.startswith("results/store cannot be written or read: the mounted file system")
    with pytest.raises(FileNotFoundError):
        run(argparse.ArgumentParser(), lambda _: work(FileNotFoundError(errno.ENOENT, "no such file")))
