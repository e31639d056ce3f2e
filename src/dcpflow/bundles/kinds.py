"""What a path holds: recognised by itself, without reading more than the names in it."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Final

from dcpflow.bundles.dcp_audit.errors import BundleError
from dcpflow.errors import UsageError
from dcpflow.records import beside

IMPORTED: Final = "dcp-audit"
"""Where the folder of an imported dcp-audit bundle keeps the bundle itself."""
PRIVATE: Final = "private"
OBJECTS: Final = "objects"
MAX_FILES: Final = 2_000_000
MAX_FILE_BYTES: Final = 1024 * 1024 * 1024
MAX_LEVELS: Final = 16


class Kind(StrEnum):
    """What can be verified."""

    BUNDLE = "dcpflow bundle"
    RESULTS = "results folder"
    DCP_AUDIT = "dcp-audit bundle"
    IMPORTED = "imported dcp-audit bundle"


def recognise(path: Path) -> Kind:
    """The kind of a path.

    Raises:
        UsageError: there is nothing, or nothing of these kinds.
    """
    if not path.exists():
        raise UsageError(f"{path} does not exist")
    if not path.is_dir():
        return Kind.BUNDLE
    if (path / IMPORTED).is_dir():
        return Kind.IMPORTED
    if (path / "decision.json").exists() or (path / "registration").is_dir():
        return Kind.RESULTS
    if (path / "manifest.json").exists() or (path / "payload").is_dir():
        return Kind.DCP_AUDIT
    raise UsageError(
        f"{path} is neither a results folder (no decision.json) nor a dcp-audit bundle (no manifest.json)",
        "Give a results folder, a bundle of dcpflow (one file) or the folder of a dcp-audit bundle",
    )


def certificate_of(path: Path, kind: Kind) -> Path:
    """Where the certificate of an audit lies: in the results folder, or beside the file of the bundle."""
    return path.with_name(f"{path.name}.dsse.json") if kind is Kind.BUNDLE else path / "certificate.dsse.json"


def check_folder(root: Path) -> None:
    """Check that a results folder holds folders and regular files of a size that is read, and nothing else.

    The folder itself may be a link. A sealed folder that its owner alone may list is left out.

    Raises:
        BundleError: it holds a link, a device or pipe, or something too large, deep or numerous.
    """
    # where scores are large there are thousands of objects, and as many folders beside them
    with beside.begun(lambda: _count_objects(root), root.glob("scores/*.json")) as of_objects:
        if _count(root, "") + of_objects() > MAX_FILES:
            raise _too_many()


def _too_many() -> BundleError:
    return BundleError(".", "", "count", f"more than {MAX_FILES} files")


def _count_objects(root: Path) -> int:
    objects = root / OBJECTS
    # anything else of that name is met among all others
    return 0 if objects.is_symlink() or not objects.is_dir() else _count(root, OBJECTS)


def _count(root: Path, part: str) -> int:
    """The number of files and folders in the folder of objects, or in all others, each of which was checked."""
    waiting, count = [(str(root / part), part)], 0
    while waiting:
        folder, name = waiting.pop()
        if name.count("/") >= MAX_LEVELS:
            raise BundleError(name, "", "depth", f"lies more than {MAX_LEVELS} folders deep")
        try:
            found = list(os.scandir(folder))
        except PermissionError:
            if name.startswith(PRIVATE):
                continue
            raise BundleError(name or ".", "", "file", "cannot be listed: permission denied") from None
        for entry in found:
            count += 1
            if count > MAX_FILES:
                raise _too_many()
            if entry.is_file(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_size <= MAX_FILE_BYTES:
                continue
            below = f"{name}/{entry.name}".lstrip("/")
            if entry.is_symlink():
                raise BundleError(below, "", "link", "is a link, which is not followed: put a copy in its place")
            if entry.is_dir(follow_symlinks=False):
                if below != OBJECTS:
                    waiting.append((entry.path, below))
            elif not entry.is_file(follow_symlinks=False):
                raise BundleError(below, "", "file", "is neither a file nor a folder")
            else:
                raise BundleError(below, "", "size", f"is larger than {MAX_FILE_BYTES} bytes")
    return count
