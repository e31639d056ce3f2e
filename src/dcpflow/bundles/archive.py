"""The container of a bundle: a stored zip whose bytes follow from the names and contents of its members alone.

Any zip program can list and extract it. Written here, since the bytes must not depend on the version of a library:
members sorted by name, no compression, no folders, no extra fields, no comments, one fixed date and mode. Reading is
the same rule backwards: each header must be the one that this module writes, so that a file has one meaning only
(no overlaps, no gaps, nothing hidden between or behind members), and everything is checked before a member is read.
"""

from __future__ import annotations

import os
import re
import stat
import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from dcpflow.bundles.dcp_audit.errors import BundleError
from dcpflow.errors import EvidenceError

MAX_BYTES: Final = 1024 * 1024 * 1024
"""Largest bundle. The default audit's has 6 MB."""
MAX_MEMBER_BYTES: Final = 256 * 1024 * 1024
"""Largest member."""
MAX_MEMBERS: Final = 65_534
"""Most members: beyond them a zip needs another format. An audit of 20,000 episodes has fewer."""
MAX_NAME: Final = 200
"""Longest name of a member, in characters."""
MAX_LEVELS: Final = 8
"""Deepest member: folders above it, and itself."""

_NAME: Final = re.compile(r"(?!\.)[A-Za-z0-9_.\-]+(?:/(?!\.)[A-Za-z0-9_.\-]+)*")
_LOCAL: Final = struct.Struct("<4s5H3I2H")
_CENTRAL: Final = struct.Struct("<4s6H3I5H2I")
_END: Final = struct.Struct("<4s4H2IH")
_LOCAL_MAGIC, _CENTRAL_MAGIC, _END_MAGIC = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
_VERSION: Final = 20
_MADE_BY: Final = 3 << 8 | _VERSION
"""A Unix system: its file modes are stated."""
_DATE: Final = 1 << 5 | 1
"""1 January 1980, midnight: the first date that a zip can state."""
_MODE: Final = (stat.S_IFREG | 0o644) << 16


def encode(members: Mapping[str, bytes]) -> bytes:
    """The bytes of the container.

    Args:
        members: content of each member by name.

    Raises:
        EvidenceError: the members are more than a bundle can hold, or one has a name that it cannot have.
    """
    size = sum(len(data) for data in members.values())
    if len(members) > MAX_MEMBERS or size > MAX_BYTES:
        raise EvidenceError(
            f"{len(members)} members of {size} bytes are more than a bundle holds "
            f"({MAX_MEMBERS} members, {MAX_BYTES} bytes)"
        )
    body, directory = bytearray(), bytearray()
    for name in sorted(members):
        data = members[name]
        _check_name(name)
        if len(data) > MAX_MEMBER_BYTES:
            raise EvidenceError(f"{name} has {len(data)} bytes, a bundle's member at most {MAX_MEMBER_BYTES}")
        crc, offset = zlib.crc32(data), len(body)
        body += _local(name, crc, len(data)) + data
        directory += _central(name, crc, len(data), offset)
    return bytes(body + directory + _end(len(members), len(directory), len(body)))


def read(path: Path) -> dict[str, bytes]:
    """The members of a bundle.

    Raises:
        BundleError: the file is not exactly what ``encode`` writes, or exceeds a limit; it names the member, the
            place and the rule.
    """
    data = _file(path)
    if not data:
        raise BundleError(".", "", "empty", "the file is empty")
    if not data.startswith(_LOCAL_MAGIC) or len(data) < _END.size:
        raise BundleError(".", "", "container", "neither a bundle of dcpflow nor any other zip file")
    count, start = _read_end(data)
    members: dict[str, bytes] = {}
    position = 0
    for name, crc, size, offset in _entries(data, count, start):
        header = _local(name, crc, size)
        content = position + len(header)
        if offset != position or data[position:content] != header or content + size > start:
            raise BundleError(name, "", "form", "does not lie where and as a bundle's writer puts it")
        member = data[content : content + size]
        if zlib.crc32(member) != crc:
            raise BundleError(name, "", "checksum", "is damaged: it does not have its CRC-32")
        members[name] = member
        position = content + size
    if position != start:
        raise BundleError(".", "", "form", f"{start - position} bytes belong to no member")
    return members


def _file(path: Path) -> bytes:
    """The whole file, which must be a regular one of a size that is read."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise BundleError(".", "", "file", f"cannot be read: {error.strerror}") from None
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise BundleError(".", "", "file", "not a regular file")
        if status.st_size > MAX_BYTES:
            raise BundleError(".", "", "size", f"{status.st_size} bytes, at most {MAX_BYTES} are read")
        return file.read(MAX_BYTES)


def _read_end(data: bytes) -> tuple[int, int]:
    """Number of members and start of the directory, from the file's last bytes."""
    magic, *numbers, comment = _END.unpack(data[-_END.size :])
    if magic != _END_MAGIC or comment:
        raise BundleError(".", "", "form", "ends with something else than a zip's directory: truncated, or appended to")
    _, _, count, _, length, start = numbers
    if count > MAX_MEMBERS:
        raise BundleError(".", "", "count", f"{count} members, at most {MAX_MEMBERS} are read")
    end = len(data) - _END.size
    if start + length != end or data[end:] != _end(count, length, start):
        raise BundleError(".", "", "form", "its directory is not where it says")
    return count, start


def _entries(data: bytes, count: int, start: int) -> Iterator[tuple[str, int, int, int]]:
    """Name, CRC-32, size and offset of each member, as the directory has them."""
    position, end = start, len(data) - _END.size
    last, total = "", 0
    for number in range(1, count + 1):
        if position + _CENTRAL.size > end:
            raise BundleError(".", f"member {number}", "form", "the directory ends too early")
        fields = _CENTRAL.unpack_from(data, position)
        method, crc, stored, size, length, mode, offset = (fields[index] for index in (4, 7, 8, 9, 10, 15, 16))
        raw = data[position + _CENTRAL.size : position + _CENTRAL.size + length]
        name = _decoded(raw, number)
        if stat.S_ISLNK(mode >> 16):
            raise BundleError(name, "", "link", "a bundle holds no links")
        if method:
            raise BundleError(name, "", "stored", "is compressed: members of a bundle are stored as they are")
        total += max(stored, size)
        if max(stored, size) > MAX_MEMBER_BYTES or total > MAX_BYTES:
            detail = f"declares {max(stored, size)} bytes, at most {MAX_MEMBER_BYTES} are read"
            raise BundleError(name, "", "size", detail)
        if name <= last:
            rule = "duplicate" if name == last else "order"
            raise BundleError(name, "", rule, f"stands behind {last}: members are sorted, each stands once")
        entry = _central(name, crc, size, offset)
        if data[position : position + len(entry)] != entry:
            raise BundleError(name, "", "form", "its directory entry is not as a bundle's writer writes it")
        position, last = position + len(entry), name
        yield name, crc, size, offset
    if position != end:
        raise BundleError(".", "", "form", f"{end - position} bytes of the directory belong to no member")


def _decoded(raw: bytes, number: int) -> str:
    try:
        name = raw.decode("ascii")
    except UnicodeDecodeError:
        raise BundleError(".", f"member {number}", "path", "has a name that is not plain ASCII") from None
    _check_name(name)
    return name


def _check_name(name: str) -> None:
    if len(name) > MAX_NAME or name.count("/") >= MAX_LEVELS or not _NAME.fullmatch(name):
        shown = name if len(name) <= 60 else name[:59] + "\N{HORIZONTAL ELLIPSIS}"
        detail = "no name of a member: a relative path of plain letters, digits, '_', '-' and '.', without '..'"
        raise BundleError(".", repr(shown), "path", detail)


def _local(name: str, crc: int, size: int) -> bytes:
    encoded = name.encode()
    return _LOCAL.pack(_LOCAL_MAGIC, _VERSION, 0, 0, 0, _DATE, crc, size, size, len(encoded), 0) + encoded


def _central(name: str, crc: int, size: int, offset: int) -> bytes:
    encoded = name.encode()
    head = (_CENTRAL_MAGIC, _MADE_BY, _VERSION, 0, 0, 0, _DATE, crc, size, size, len(encoded))
    return _CENTRAL.pack(*head, 0, 0, 0, 0, _MODE, offset) + encoded


def _end(count: int, length: int, start: int) -> bytes:
    return _END.pack(_END_MAGIC, 0, 0, count, count, length, start, 0)
