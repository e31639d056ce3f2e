"""The reader of workspaces: what is recorded, what is a violation, and that neither depends on anything else."""

from __future__ import annotations

import errno
import json
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dcpflow.episodes import workspace
from dcpflow.episodes.workspace import Workspace, is_plain, open_beneath, read_back

LIMITS = {"workspace_mb": 1, "workspace_files": 200}
Read = Callable[[], Workspace]


@pytest.fixture(params=["openat2", "without it"])
def read(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Read]:
    """Reads the test's folder, with openat2 and as on kernels without it."""
    folder = tmp_path / "ws"
    folder.mkdir()
    if request.param == "without it":
        monkeypatch.setattr(workspace, "OPENAT2", 99_999)
    monkeypatch.chdir(folder)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    yield lambda: read_back(descriptor, LIMITS)
    os.close(descriptor)


def test_nothing_left_is_nothing_recorded(read: Read) -> None:
    assert read() == workspace.NOTHING_LEFT
    assert json.loads(read().manifest()) == {"schema": "dcpflow.workspace/1", "files": [], "violation": ""}


def test_files_are_recorded_by_name_size_and_digest_in_the_order_of_names(read: Read) -> None:
    Path("b/c").mkdir(parents=True)
    for name, text in {"z": "", "b/c/x": "hello", "a é": "1", "b.txt": "22"}.items():
        Path(name).write_text(text)
    found = read()
    assert [(file.name, file.size) for file in found.files] == [("a é", 1), ("b.txt", 2), ("b/c/x", 5), ("z", 0)]
    assert found.files[2].digest == "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
    assert found.violation == ""
    os.utime("z", (0, 0))
    assert read().manifest() == found.manifest(), "times are not recorded"


@pytest.mark.parametrize(
    ("words", "leave"),
    [
        (workspace.LINK, lambda: os.symlink("/etc/passwd", "a")),
        (workspace.LINK, lambda: os.symlink("nowhere", "a")),
        (workspace.LINK, lambda: os.symlink("..", "a")),
        (workspace.SPECIAL, lambda: os.mkfifo("a")),
        (workspace.SPECIAL, lambda: socket.socket(socket.AF_UNIX).bind("a")),
        (workspace.HARD_LINK, lambda: (Path("a").touch(), os.link("a", "b"))),
        (workspace.SET_ID, lambda: (Path("a").touch(), Path("a").chmod(0o4755))),
        (workspace.SET_ID, lambda: (Path("a").mkdir(), Path("a").chmod(0o2755))),
        (workspace.CLOSED, lambda: Path("a").touch(mode=0o200)),
        (workspace.CLOSED, lambda: Path("a").mkdir(mode=0o600)),
        (workspace.NAME, lambda: Path("a\nb").touch()),
        (workspace.NAME, lambda: Path("-n").touch()),
        (workspace.NAME, lambda: os.close(os.open(b"\xff", os.O_CREAT))),
        (workspace.NAME, lambda: Path("\u202egpj.exe").touch()),
        (workspace.NAME, lambda: Path("\x7f").mkdir()),
        (workspace.LONG_NAME, lambda: Path("a" * 121).touch()),
        (workspace.LONG_NAME, lambda: Path("é" * 61).touch()),
        (workspace.DEEP, lambda: Path("/".join("d" * 17)).mkdir(parents=True)),
        (workspace.LARGE, lambda: Path("a").write_bytes(bytes((1 << 20) + 1))),
        (workspace.LARGE, lambda: os.truncate(os.open("a", os.O_CREAT | os.O_RDWR), 1 << 43)),
        (workspace.MANY, lambda: [Path(str(number)).touch() for number in range(201)]),
        (workspace.MANY, lambda: [Path(f"{number}/a/b").mkdir(parents=True) for number in range(70)]),
    ],
)
def test_what_breaks_the_rules_is_said_in_fixed_words(read: Read, words: str, leave: Callable[[], object]) -> None:
    leave()
    assert read().violation == words


def test_what_is_just_within_the_rules_is_recorded(read: Read) -> None:
    Path("/".join("d" * 16)).mkdir(parents=True)
    Path("a" * 120).write_bytes(bytes(1 << 20))
    Path("ls").touch(mode=0o400)
    assert read().violation == ""
    assert len(read().files) == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_somebody_else_is_a_violation(read: Read) -> None:
    Path("a").touch()
    os.chown("a", 1234, 1234)
    assert read().violation == workspace.OWNER


def test_what_was_read_before_a_violation_is_kept_in_the_list(read: Read) -> None:
    Path("a").touch()
    os.symlink("a", "b")
    Path("c").touch()
    assert [file.name for file in read().files] == ["a"]


def test_three_thousand_folders_in_each_other_are_a_violation_like_seventeen(read: Read) -> None:
    here = Path.cwd()
    for _ in range(3000):
        os.mkdir("d")
        os.chdir("d")
    os.chdir(here)
    assert read().violation == workspace.DEEP
    for _ in range(3000):  # pytest could not remove it
        os.chdir("d")
    for _ in range(3000):
        os.chdir("..")
        os.rmdir("d")


def test_nothing_stays_open(read: Read) -> None:
    Path("a/b").mkdir(parents=True)
    Path("a/b/c").touch()
    os.symlink("x", "a/b/d")
    before = os.listdir("/proc/self/fd")
    for _ in range(3):
        read()
    assert os.listdir("/proc/self/fd") == before


def test_a_file_that_changes_into_a_link_after_it_was_looked_at_is_not_followed(
    read: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cannot happen, since the agent is dead by then; the reader does not rely on it."""
    (tmp_path / "secret").write_text("answers")
    Path("a").write_text("x")
    real = os.stat

    def stat_and_replace(path: str, **more: object) -> os.stat_result:
        found = real(path, **more)  # type: ignore[arg-type]
        if path == "a":
            Path("a").unlink()
            os.symlink(tmp_path / "secret", "a")
        return found

    monkeypatch.setattr(os, "stat", stat_and_replace)
    assert read() == Workspace((), workspace.CLOSED)


def test_only_what_lies_in_the_folder_can_be_opened(read: Read, tmp_path: Path) -> None:
    (tmp_path / "outside").touch()
    folder = os.open(".", os.O_RDONLY)
    os.symlink("../outside", "link")
    for name in ("../outside", "..", ".", "/etc/hostname", "link"):
        with pytest.raises(OSError) as caught:
            os.close(open_beneath(name, folder, workspace.CAREFULLY))
            if name == ".":  # the folder itself is beneath itself
                raise OSError(errno.EXDEV, "")
        assert caught.value.errno in (errno.EXDEV, errno.ELOOP, errno.ENOSYS)
    os.close(folder)


@pytest.mark.parametrize("name", ["a", "a b", ".git", "__pycache__", "é", "日本", "a-b", "a" * 120])
def test_plain_names(name: str) -> None:
    assert is_plain(name)


@pytest.mark.parametrize("name", ["-", "-rf", "a\tb", "\x1b[2J", "a\u200b", "\udcff", "\ue000", "\u2028x\x00"])
def test_odd_names(name: str) -> None:
    assert not is_plain(name)
