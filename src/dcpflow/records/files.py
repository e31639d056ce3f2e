"""Files that are either whole or absent: atomic writes, writes that never overwrite, reads that explain."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from dcpflow.errors import EvidenceError


def write_atomic(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Replace the file by one with these bytes; a reader or a crash sees the old or the new, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(path, data, mode)
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
    temporary = _temporary(path, data, mode)
    try:
        os.link(temporary, path)
    except FileExistsError:
        # over NFS the answer to a link that was made can be lost, and the client's second try finds it there
        if temporary.stat().st_nlink < 2:
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
        EvidenceError: the file cannot be read.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise EvidenceError(f"{what} is missing: {path}", remedy) from None
    except OSError as error:
        raise EvidenceError(f"{what} cannot be read: {path}: {error.strerror}", remedy) from None


def private_folder(path: Path) -> Path:
    """Make the folder, readable by its owner alone (mode 0700), and return it."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.chmod(0o700)
    return path


def _temporary(path: Path, data: bytes, mode: int) -> Path:
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".writing-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return Path(name)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
