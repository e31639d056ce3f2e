"""A folder in memory, for code that reads paths: a bundle is verified without writing anything anywhere."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import ClassVar, Self, cast


class _Node(PurePosixPath):
    """A path below a folder that exists in memory only; a subclass of its own for each folder."""

    members: ClassVar[Mapping[str, bytes]]
    top: ClassVar[PurePosixPath]

    def read_bytes(self) -> bytes:
        """As for a file."""
        try:
            return self.members[self._name()]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self)) from None

    def exists(self) -> bool:
        """Whether there is such a file, or a file below such a folder."""
        return self._name() in self.members or any(self._below())

    def glob(self, pattern: str) -> Iterator[Self]:
        """The files below this folder whose path from here matches the pattern, level by level."""
        levels = len(PurePosixPath(pattern).parts)
        return (path for path in self._below() if len(path.parts) - len(self.parts) == levels and path.match(pattern))

    def rglob(self, pattern: str) -> Iterator[Self]:
        """The files at any depth below this folder whose name matches the pattern."""
        return (path for path in self._below() if path.match(pattern))

    def _below(self) -> Iterator[Self]:
        above = "" if self == self.top else f"{self._name()}/"
        return (type(self)(self.top, name) for name in sorted(self.members) if name.startswith(above))

    def _name(self) -> str:
        return str(self.relative_to(self.top))


def in_memory(top: str, members: Mapping[str, bytes]) -> Path:
    """A folder with these files that can be read like one on disk.

    Args:
        top: how the folder is called in messages.
        members: content of each file by its relative path, with "/" between folders.

    Returns:
        What answers as a ``Path`` to joining, ``read_bytes``, ``exists``, ``glob`` and ``rglob``, and to nothing that
        would need a disk.
    """
    node = type("Node", (_Node,), {"members": members, "top": PurePosixPath(top)})
    return cast(Path, node(top))
