"""Folders that appear whole or not at all."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dcpflow.errors import UsageError


@contextmanager
def new_folder(out: Path, outside: Path | None = None) -> Iterator[Path]:
    """Fill a temporary folder beside ``out``, which takes its place at the end; after an error nothing is left.

    Args:
        out: must not exist, or be an empty folder.
        outside: a folder that it may not lie in.

    Yields:
        The folder to fill.

    Raises:
        UsageError: there is something at ``out``, or it lies where it may not.
    """
    if out.is_symlink() or (out.exists() and not (out.is_dir() and not any(out.iterdir()))):
        raise UsageError(f"{out} exists already", "Give a folder that does not exist yet")
    if outside is not None and out.resolve().is_relative_to(outside.resolve()):
        raise UsageError(f"{out} lies in the folder that it is made of, {outside}", "Give a place outside of it")
    out.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=out.parent, prefix=".writing-"))
    try:
        made.chmod(0o755)
        yield made
        made.replace(out)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise


def write(path: Path, data: bytes) -> None:
    """Write a file of a new folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
