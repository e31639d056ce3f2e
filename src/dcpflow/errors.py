"""The errors that a user meets: what is wrong, where, and what to do about it."""

from __future__ import annotations

import errno
from typing import Final


class DcpflowError(Exception):
    """A fault that the user can act on; printed in one line, without a traceback, exit code 1.

    Args:
        problem: what is wrong and where, with the expected value.
        remedy: what to do, as a command where there is one.
    """

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(f"{problem}. {remedy}" if remedy else problem)
        self.problem = problem
        self.remedy = remedy


def plain(text: str) -> str:
    """Text that cannot steer a terminal, in one line: what others wrote may hold escape characters."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


def shown(error: Exception) -> str:
    """An error for a terminal, in its lines: it may quote what others wrote, names of files too."""
    return "\n".join(map(plain, str(error).split("\n")))


class EvidenceError(DcpflowError):
    """A record, object, score, table or registration part is missing, altered or foreign."""


class UsageError(DcpflowError):
    """The command or its configuration cannot be carried out as given."""


class StorageError(DcpflowError):
    """What has to be read or written cannot be: the disk is full or gone, or may not be written to."""


FULL: Final = "make room there"
GONE: Final = "see that it is there again (dmesg and mount tell more)"
RIGHTS: Final = "make it writable for the user who runs this"
STORAGE: Final = {
    errno.ENOSPC: ("the disk is full", FULL),
    errno.EDQUOT: ("the quota is used up", FULL),
    errno.EFBIG: ("the file would be larger than is allowed here", "raise that limit (ulimit -f)"),
    errno.EROFS: ("the file system is mounted read-only", RIGHTS),
    errno.EACCES: ("permission is denied", RIGHTS),
    errno.EPERM: ("it is not permitted", RIGHTS),
    errno.EIO: ("the device gives an input/output error", GONE),
    errno.ENXIO: ("the device is gone", GONE),
    errno.ENODEV: ("the device is gone", GONE),
    errno.ENOTCONN: ("the mounted file system is gone", GONE),
    errno.ESTALE: ("the mounted file system is gone or was replaced", GONE),
}
"""By error number: what is wrong with the place, and what to do."""

OF_THE_PLACE: Final = STORAGE.keys() - {errno.EACCES, errno.EPERM}
"""Of these, what says nothing of the program that met it."""


def storage_error(error: OSError) -> StorageError | None:
    """A fault of disk, mount or rights as one that the user can act on; None for any other."""
    if error.errno not in STORAGE:
        return None
    what, remedy = STORAGE[error.errno]
    return StorageError(
        f"{error.filename or 'a file'} cannot be written or read: {what}",
        f"Nothing that was committed is lost: {remedy}, and run the same command again, which goes on from here",
    )


def told(error: Exception) -> DcpflowError | None:
    """An error as one that is told in a line; None for a fault of the program, which keeps its traceback."""
    if isinstance(error, OSError):
        return storage_error(error)
    return error if isinstance(error, DcpflowError) else None
