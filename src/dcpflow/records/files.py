"""Files that are either whole or absent: atomic writes, writes that never overwrite, reads that explain."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, cast

from dcpflow.errors import EvidenceError, UsageError

TRIED: Final = bytes(65_536)
"""What a folder has to have room for, to be called writable."""
_READING: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK


class IrregularError(OSError):
    """What lies there is a folder, a pipe or a device."""


def write_atomic(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Replace the file by one with these bytes; a reader or a crash sees the old or the new, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(path.parent, path, data, mode)
    try:
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def write_once(path: Path, data: bytes, mode: int = 0o444) -> bool:
    """Create the file with these bytes unless it is there already; True if this call created it.

    link(2) is used because, unlike rename(2), it never overwrites: a job left over from a killed run cannot
    replace what another one has committed since.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(path.parent, path, data, mode)
    try:
        os.link(temporary, path)
    except FileExistsError:
        # on NFS the answer to a link that was made can be lost, and the request that is sent again meets it; whose it
        # is shows by the file itself, since the number of its links may be remembered from before
        if not _same(temporary, path):
            return False
    finally:
        temporary.unlink()
    _sync_folder(path.parent)
    return True


def read(path: Path, what: str, remedy: str = "") -> bytes:
    """The bytes of a file; a missing or unreadable one is an error that names it.

    Args:
        path: the file.
        what: what it is, for the error ("the record of challenger 17").
        remedy: the command that brings it back.

    Raises:
        EvidenceError: the file cannot be read, or is a pipe or device.
    """
    return read_below(path, "", what, remedy)


def read_below(folder: Path, name: str, what: str, remedy: str = "") -> bytes:
    """The same of a file below a folder, of which there may be thousands.

    Args:
        folder: the folder, or, without a name, the file itself.
        name: the file's path from there, with "/" between folders.
        what: as for :func:`read`.
        remedy: likewise.

    Raises:
        EvidenceError: likewise.
    """
    try:
        return whole(folder, name)
    except FileNotFoundError:
        problem = f"{what} is missing: {folder / name}"
    except IrregularError:
        problem = f"{what} is no regular file: {folder / name}"
    except OSError as error:
        problem = f"{what} cannot be read: {folder / name}: {error.strerror}"
    raise EvidenceError(problem, remedy)


def whole(folder: Path, name: str) -> bytes:
    """The bytes of a file below a folder, without waiting for a pipe; paths are slow to join and to ask.

    Raises:
        OSError: there is none, or it cannot be read; IrregularError where it is no file.
    """
    if not isinstance(folder, Path):
        # one in memory
        return cast(Path, folder / name).read_bytes()
    path = f"{folder}/{name}" if name else folder
    try:
        descriptor = os.open(path, _READING)
    except OSError as error:
        if error.errno == errno.ENXIO:
            # a socket
            raise IrregularError(error.errno, error.strerror, str(path)) from None
        raise
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise IrregularError(errno.EINVAL, "is no regular file", str(path))
        data = os.read(descriptor, found.st_size)
        while len(data) < found.st_size and (more := os.read(descriptor, found.st_size - len(data))):
            data += more
        return data
    finally:
        os.close(descriptor)


@contextmanager
def writing_to(path: Path) -> Iterator[None]:
    """Around what writes to a place that the user has named.

    Raises:
        UsageError: there can be no such file or folder.
    """
    try:
        yield
    except (FileExistsError, IsADirectoryError, NotADirectoryError) as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}", "Give another place") from None


def require_folder(path: Path) -> None:
    """See that a folder is there or could be made, before anything else is.

    Raises:
        UsageError: it, or one above it, is a file.
    """
    there = next(one for one in (path, *path.absolute().parents) if os.path.lexists(one))
    if not there.is_dir():
        raise UsageError(f"{path} cannot be made: {there} is no folder", "Give another path")


def private_folder(path: Path) -> Path:
    """Make the folder, readable by its owner alone (mode 0700), and return it."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.chmod(0o700)
    return path


def _temporary(folder: Path, path: Path, data: bytes, mode: int) -> Path:
    """A whole file of another name in a folder, which is to become the path."""
    descriptor, name = tempfile.mkstemp(dir=folder, prefix=".writing-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
    except BaseException as error:
        Path(name).unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno and not error.filename:
            # a fault of writing knows no name, and the user has to know where there is no room
            error.filename = str(path)
        raise
    return Path(name)


def try_out(folder: Path) -> None:
    """Write a small file into a folder, which is made if it is not there, and remove it.

    Raises:
        OSError: it cannot be written to; it names the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _temporary(folder, folder, TRIED, 0o600).unlink()


def _same(temporary: Path, path: Path) -> bool:
    try:
        return temporary.samefile(path)
    except FileNotFoundError:
        return False  # another's, which has been removed since


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # some network file systems know this for files only; a fault of the disk is told
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(descriptor)
