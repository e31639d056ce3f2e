"""The task's public material on disk, held against the digests that the contract binds."""

from __future__ import annotations

from collections.abc import Mapping

from dcpflow.errors import EvidenceError
from dcpflow.records import canonical, files
from dcpflow.records.layout import Layout


def write(layout: Layout, material: Mapping[str, bytes]) -> None:
    """Write the material; a file of an earlier task does not stay behind."""
    for name, data in material.items():
        files.write_atomic(layout.public / name, data)
    for path in layout.public.iterdir():
        if path.name not in material and path.is_file():
            path.unlink()


def read(layout: Layout, digests: Mapping[str, str]) -> dict[str, bytes]:
    """The registered public files.

    Args:
        layout: where things lie.
        digests: name and digest of each file, from the contract's seal.

    Raises:
        EvidenceError: one is missing or was altered.
    """
    remedy = f"To make it again: rm -f '{layout.seal}' and run snakemake again"
    found = {}
    for name, digest in digests.items():
        path = layout.public / name
        data = files.read(path, f"the task's public file {name}", remedy)
        if canonical.digest(data) != digest:
            raise EvidenceError(f"the task's public file {path} was altered", remedy)
        found[name] = data
    return found
