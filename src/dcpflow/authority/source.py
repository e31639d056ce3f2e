"""What a registry is read from: a folder, or a static file server that publishes one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dcpflow.authority.entry import LARGEST
from dcpflow.errors import EvidenceError


class Source(Protocol):
    """What a registry is read from: a folder, or a static file server (:mod:`dcpflow.authority.source`)."""

    def read(self, name: str) -> bytes | None:
        """The bytes of a file below the registry; None where there is none.

        Raises:
            EvidenceError: it cannot be read, or is larger than :data:`dcpflow.authority.entry.LARGEST`.
        """

    def place(self, name: str) -> str:
        """What the file is called in messages."""

    def names(self, folder: str) -> list[str] | None:
        """All that lies in a folder below the registry, sorted; None where it cannot be listed."""


@dataclass(frozen=True)
class Folder:
    """A registry's folder as a source."""

    root: Path

    def read(self, name: str) -> bytes | None:  # noqa: D102 - as the protocol says
        path = self.root / name
        try:
            with path.open("rb") as file:
                data = file.read(LARGEST + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise EvidenceError(f"{path} cannot be read: {error.strerror}") from None
        if len(data) > LARGEST:
            raise EvidenceError(f"{path} is larger than {LARGEST} bytes: no file of a registry")
        return data

    def place(self, name: str) -> str:  # noqa: D102
        return str(self.root / name)

    def names(self, folder: str) -> list[str]:  # noqa: D102
        path = self.root / folder
        # what a process that was killed while it wrote has left is none of the registry's files
        return sorted(one.name for one in path.iterdir() if not one.name.startswith(".")) if path.is_dir() else []
