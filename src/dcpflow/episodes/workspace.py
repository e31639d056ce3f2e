"""Reads what an agent left in its workspace, as what it is: something hostile.

Read only after everything inside the sandbox is dead, so that nothing changes under the reader. Folders are walked by
descriptor, never by path; nothing that is no regular file is opened, and no link is followed. What breaks the rules is
said in fixed words, never in the agent's: the first thing that does, in the order of names, ends the reading.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import stat
import struct
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from dcpflow.records import canonical

SCHEMA = "dcpflow.workspace/1"
MIB = 1 << 20
MAX_DEPTH: Final = 16
MAX_NAME_BYTES: Final = 120
CHUNK: Final = 1 << 20

LINK = "a symbolic link"
SPECIAL = "a device, socket or FIFO"
HARD_LINK = "a file with more than one name"
OWNER = "a file that is not the agent's own"
SET_ID = "a file with a setuid or setgid bit"
NAME = "a name that is no plain text"
LONG_NAME = f"a name longer than {MAX_NAME_BYTES} bytes"
DEEP = f"folders more than {MAX_DEPTH} deep"
MANY = "more files than are allowed"
LARGE = "more bytes than are allowed"
CLOSED = "something that cannot be read"
OF_LIMITS: Final = (MANY, LARGE)
"""What a registered limit says too, by its name, where that was reached."""

OPENAT2 = 437
RESOLVE_NO_XDEV, RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS, RESOLVE_BENEATH = 0x01, 0x02, 0x04, 0x08
RESOLVE = RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH
CAREFULLY = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
READABLE: Final = {stat.S_IFREG: stat.S_IRUSR, stat.S_IFDIR: stat.S_IRUSR | stat.S_IXUSR}
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class LeftFile:
    """A regular file.

    Attributes:
        name: its path within the workspace.
        size: in bytes.
        digest: of its bytes.
    """

    name: str
    size: int
    digest: str


@dataclass(frozen=True, slots=True)
class Workspace:
    """What an agent left.

    Attributes:
        files: its files, by name, as far as they were read.
        violation: what broke the rules, in fixed words; empty if nothing did.
    """

    files: tuple[LeftFile, ...] = ()
    violation: str = ""

    def manifest(self) -> bytes:
        """What is recorded of it: no content, no times, no owner."""
        files: list[dict[str, Any]] = [
            {"name": file.name, "size": file.size, "digest": file.digest} for file in self.files
        ]
        return canonical.encode({"schema": SCHEMA, "files": files, "violation": self.violation})


NOTHING_LEFT: Final = Workspace()


class _Violation(Exception):
    """What ends the reading; its text is one of the fixed ones."""


def read_back(folder: int, limits: Mapping[str, float]) -> Workspace:
    """Read a workspace whose agent is dead.

    Args:
        folder: descriptor of its folder; stays open.
        limits: the registered limits on size and number of files.
    """
    reader = _Reader(os.fstat(folder), int(limits["workspace_mb"]) * MIB, int(limits["workspace_files"]))
    try:
        for file in reader.walk(folder):
            reader.files.append(file)
    except _Violation as violation:
        return Workspace(tuple(sorted(reader.files, key=lambda file: file.name)), str(violation))
    return Workspace(tuple(sorted(reader.files, key=lambda file: file.name)))


class _Reader:
    def __init__(self, root: os.stat_result, most_bytes: int, most_files: int) -> None:
        self.files: list[LeftFile] = []
        self._owner = root.st_uid
        self._device = root.st_dev
        self._bytes_left = most_bytes
        self._files_left = most_files

    def walk(self, folder: int) -> Iterator[LeftFile]:
        """Every file below; iterative, and with no more open than one folder for each level."""
        opened: list[int] = []
        path: list[str] = []
        waiting = [iter(self._names(folder))]
        try:
            while waiting:
                name = next(waiting[-1], None)
                here = opened[-1] if opened else folder
                if name is None:
                    waiting.pop()
                    if opened:
                        os.close(opened.pop())
                        path.pop()
                    continue
                found = os.stat(name, dir_fd=here, follow_symlinks=False)
                self._judge(found)
                if stat.S_ISDIR(found.st_mode):
                    if len(path) + 1 > MAX_DEPTH:
                        raise _Violation(DEEP)
                    opened.append(self._open(name, here, found, os.O_DIRECTORY))
                    path.append(name)
                    waiting.append(iter(self._names(opened[-1])))
                else:
                    yield self._file("/".join((*path, name)), name, here, found)
        finally:
            for descriptor in opened:
                os.close(descriptor)

    def _names(self, folder: int) -> list[str]:
        names = []
        with os.scandir(folder) as entries:
            for entry in entries:
                self._files_left -= 1
                if self._files_left < 0:
                    raise _Violation(MANY)
                names.append(entry.name)
        for name in sorted(names):
            if len(os.fsencode(name)) > MAX_NAME_BYTES:
                raise _Violation(LONG_NAME)
            if not is_plain(name):
                raise _Violation(NAME)
        return sorted(names)

    def _judge(self, found: os.stat_result) -> None:
        """Refuse by what it is; nothing has been opened yet."""
        if stat.S_ISLNK(found.st_mode):
            raise _Violation(LINK)
        if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
            raise _Violation(SPECIAL)
        if found.st_uid != self._owner or found.st_dev != self._device:
            raise _Violation(OWNER)
        if found.st_mode & (stat.S_ISUID | stat.S_ISGID):
            raise _Violation(SET_ID)
        # root can read it all the same, but what an episode comes to must not depend on who audits
        if found.st_mode & READABLE[stat.S_IFMT(found.st_mode)] != READABLE[stat.S_IFMT(found.st_mode)]:
            raise _Violation(CLOSED)
        if stat.S_ISREG(found.st_mode):
            if found.st_nlink != 1:
                raise _Violation(HARD_LINK)
            self._bytes_left -= found.st_size
            if self._bytes_left < 0:
                raise _Violation(LARGE)

    def _file(self, path: str, name: str, folder: int, found: os.stat_result) -> LeftFile:
        descriptor = self._open(name, folder, found)
        try:
            digest, size = hashlib.sha256(), 0
            while size < found.st_size and (data := os.read(descriptor, min(CHUNK, found.st_size - size))):
                digest.update(data)
                size += len(data)
        finally:
            os.close(descriptor)
        return LeftFile(path, size, f"sha256:{digest.hexdigest()}")

    def _open(self, name: str, folder: int, found: os.stat_result, more: int = 0) -> int:
        """Open what was looked at, and nothing else under its name."""
        try:
            descriptor = open_beneath(name, folder, CAREFULLY | more)
        except OSError:
            raise _Violation(CLOSED) from None
        now = os.fstat(descriptor)
        if (now.st_dev, now.st_ino, now.st_mode) != (found.st_dev, found.st_ino, found.st_mode):
            os.close(descriptor)
            raise _Violation(CLOSED)
        return descriptor


def is_plain(name: str) -> bool:
    """Whether a file's name can be shown and recorded as it is: printable, in UTF-8, and no option of any program."""
    return not name.startswith("-") and not any(unicodedata.category(letter).startswith("C") for letter in name)


def open_beneath(name: str, folder: int, flags: int) -> int:
    """Open one entry of a folder: no link is followed and no other file system entered, whatever the name.

    Where the kernel has no openat2, or a filter refuses it, a single component is opened without following a link,
    which is as safe as long as the name holds no slash.

    Raises:
        OSError: it cannot be opened so.
    """
    how = struct.pack("<QQQ", flags, 0, RESOLVE)
    descriptor: int = _LIBC.syscall(OPENAT2, folder, os.fsencode(name), how, len(how))
    if descriptor >= 0:
        return descriptor
    error = ctypes.get_errno()
    if error not in (errno.ENOSYS, errno.EPERM) or "/" in name or name in (".", ".."):
        raise OSError(error, os.strerror(error))
    return os.open(name, flags, dir_fd=folder)
