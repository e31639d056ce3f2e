"""The container: one form, any zip program reads it, and nothing else is read."""

from __future__ import annotations

import io
import os
import stat
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from dcpflow.bundles import archive
from dcpflow.bundles.dcp_audit.errors import BundleError
from dcpflow.errors import EvidenceError
from dcpflow.records import canonical

MEMBERS = {"manifest.json": b"{}", "a/one.json": b"first", "a/b/two": b"", "z": b"\x00" * 300}


def written(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "claim.dcp"
    path.write_bytes(data)
    return path


def refused(tmp_path: Path, data: bytes) -> BundleError:
    with pytest.raises(BundleError) as caught:
        archive.read(written(tmp_path, data))
    return caught.value


def zipped(*names: str, **settings: object) -> bytes:
    """A zip of another program."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name in names:
            info = zipfile.ZipInfo(name)
            for key, value in settings.items():
                setattr(info, key, value)
            file.writestr(info, b"content" * 1000)
    return buffer.getvalue()


def test_reading_gives_what_was_written(tmp_path: Path) -> None:
    assert archive.read(written(tmp_path, archive.encode(MEMBERS))) == MEMBERS


def test_the_bytes_depend_on_names_and_contents_alone() -> None:
    backwards = dict(reversed(MEMBERS.items()))
    assert archive.encode(backwards) == archive.encode(MEMBERS)
    # whatever version of Python, zlib or zip library: a change of this digest is a new version of the format
    digest = "sha256:4aebf040675e4dcedaba5634d7db4702a84788d31ba17e6536c7e8548a8aea53"
    assert canonical.digest(archive.encode(MEMBERS)) == digest


def test_any_zip_program_reads_it() -> None:
    with zipfile.ZipFile(io.BytesIO(archive.encode(MEMBERS))) as file:
        assert file.testzip() is None
        assert {info.filename: file.read(info) for info in file.infolist()} == MEMBERS
        assert [info.filename for info in file.infolist()] == sorted(MEMBERS)
        assert {info.date_time for info in file.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {info.compress_type for info in file.infolist()} == {zipfile.ZIP_STORED}
        assert {stat.S_IMODE(info.external_attr >> 16) for info in file.infolist()} == {0o644}


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../up", "a/../b", "a//b", "a/", "./a", ".hidden", "a\\b", "a b",
                                  "C:x", "ä", "a/.b", "a\nb", "a\0b", "x" * 201, "/".join("abcdefghi")])  # fmt: skip
def test_names_that_no_member_has(name: str) -> None:
    with pytest.raises(EvidenceError, match=r"\[path\]"):
        archive.encode({name: b""})


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (b"", "empty"),
        (b"{}", "container"),
        (b"not a bundle", "container"),
        (b"PK\x03\x04", "container"),
        (zipped("../../etc/cron.d/x"), "path"),
        (zipped("/etc/passwd"), "path"),
        (zipped("link", external_attr=(stat.S_IFLNK | 0o777) << 16), "link"),
        (zipped("bomb", compress_type=zipfile.ZIP_DEFLATED), "stored"),
        (zipped("bomb", compress_type=zipfile.ZIP_LZMA), "stored"),
        (zipped("b", "a"), "form"),
        (zipped("a", comment=b"hidden"), "form"),
        (zipped("a", extra=b"\x01\x00\x02\x00ab"), "form"),
        (zipped("a"), "form"),
    ],
)
def test_other_files(tmp_path: Path, data: bytes, rule: str) -> None:
    assert refused(tmp_path, data).rule == rule


def test_a_zip_bomb_is_refused_by_its_directory_alone(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
        file.writestr("manifest.json", b"\0" * 50_000_000)
    assert len(buffer.getvalue()) < 100_000
    error = refused(tmp_path, buffer.getvalue())
    assert (error.file, error.rule) == ("manifest.json", "stored")


@pytest.mark.parametrize("size", [2 << 30, 0xFFFFFFFE])
def test_a_declared_size_is_checked_before_anything_is_read(tmp_path: Path, size: int) -> None:
    data = bytearray(archive.encode({"a": b"x", "b": b"y"}))
    entry = data.index(b"PK\x01\x02")
    data[entry + 20 : entry + 28] = struct.pack("<2I", size, size)
    error = refused(tmp_path, bytes(data))
    assert (error.file, error.rule) == ("a", "size")
    assert str(size) in str(error)


def test_many_members_declared(tmp_path: Path) -> None:
    data = bytearray(archive.encode({"a": b"x"}))
    data[-14:-10] = struct.pack("<2H", 0xFFFF, 0xFFFF)
    assert refused(tmp_path, bytes(data)).rule == "count"


def test_too_much_to_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_MEMBERS", 2)
    with pytest.raises(EvidenceError, match="more than a bundle holds"):
        archive.encode(MEMBERS)


def test_a_file_larger_than_any_bundle(tmp_path: Path) -> None:
    path = tmp_path / "claim.dcp"
    with path.open("wb") as file:
        file.write(b"PK\x03\x04")
        file.truncate(archive.MAX_BYTES + 1)
    with pytest.raises(BundleError, match=r"\[size\]"):
        archive.read(path)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "claim.dcp"
    os.mkfifo(path)
    with pytest.raises(BundleError, match=r"not a regular file \[file\]"):
        archive.read(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[:-1],
        lambda data: data + b"x",
        lambda data: data[: len(data) // 2],
        lambda data: b"#!/bin/sh\n" + data,
        lambda data: data.replace(b"first", b"other"),
        lambda data: data.replace(b"a/one.json", b"a/two.json", 1),
        lambda data: data.replace(b"a/one.json", b"../../json", 2),
        lambda data: data.replace(b"a/one.json", b"a/b/two.js", 1),
        lambda data: data[:-6] + b"\0\0\0\0" + data[-2:],
    ],
)
def test_any_other_byte_is_seen(tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    assert refused(tmp_path, change(archive.encode(MEMBERS)))


def test_every_single_byte_counts(tmp_path: Path) -> None:
    data = archive.encode({"a": b"12", "b/c": b"3"})
    for index in range(len(data)):
        for mask in (1, 0x80):
            other = bytearray(data)
            other[index] ^= mask
            assert refused(tmp_path, bytes(other)), index


def test_members_may_not_overlap(tmp_path: Path) -> None:
    data = bytearray(archive.encode({"a": b"x" * 40, "b": b"y" * 40}))
    first = data.index(b"PK\x01\x02")
    second = data.index(b"PK\x01\x02", first + 1)
    data[second + 42 : second + 46] = struct.pack("<I", 0)
    assert refused(tmp_path, bytes(data)).rule == "form"


def test_the_same_name_twice(tmp_path: Path) -> None:
    data = archive.encode({"a": b"x", "b": b"y"}).replace(b"\0b", b"\0a").replace(b"b\x79", b"a\x79")
    assert refused(tmp_path, data).rule in ("duplicate", "form")
