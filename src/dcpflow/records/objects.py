"""The object store: immutable bytes, found by their digest."""

from __future__ import annotations

from pathlib import Path

from dcpflow.errors import EvidenceError
from dcpflow.records import canonical, files


class ObjectStore:
    """Objects below one folder, each at ``<first two hex digits>/<rest>``.

    Args:
        root: the folder; made with the first object.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, digest: str) -> Path:
        """Where the object with this digest lies."""
        return self.root / _place(digest)

    def put(self, data: bytes) -> str:
        """Store the bytes and return their digest; what an altered file holds in their place is put right."""
        digest = canonical.digest(data)
        path = self.path(digest)
        if not files.write_once(path, data) and canonical.digest(path.read_bytes()) != digest:
            files.write_atomic(path, data, mode=0o444)
        return digest

    def get(self, digest: str, what: str = "object", remedy: str = "") -> bytes:
        """The bytes with this digest.

        Raises:
            EvidenceError: the object is missing, or its bytes have another digest.
        """
        data = files.read_below(self.root, _place(digest), f"{what} ({digest})", remedy)
        if canonical.digest(data) != digest:
            raise EvidenceError(f"{what} was altered: {self.path(digest)} does not have the digest {digest}", remedy)
        return data


def _place(digest: str) -> str:
    if not canonical.is_digest(digest):
        raise EvidenceError(f"{digest!r} is not a digest (expected sha256: and 64 hex digits)")
    name = digest.removeprefix("sha256:")
    return f"{name[:2]}/{name[2:]}"
