"""Mounting in namespaces of this process's own, which Python has no calls for."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 0x2, 0x4, 0x1000, 0x4000, 0x40000
_LIBC = ctypes.CDLL(None, use_errno=True)


def unshare(flags: int) -> None:
    """Give this process namespaces of its own.

    Raises:
        OSError: it may not have them.
    """
    if _LIBC.unshare(flags):
        raise OSError(ctypes.get_errno(), f"unshare: {os.strerror(ctypes.get_errno())}")


def mount(source: str, target: Path, kind: str | None, flags: int, options: str | None = None) -> None:
    """Mount; the arguments are those of mount(2).

    Raises:
        OSError: it is refused.
    """
    encoded = [None if text is None else text.encode() for text in (source, str(target), kind, options)]
    if _LIBC.mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3]):
        raise OSError(ctypes.get_errno(), f"mount {target}: {os.strerror(ctypes.get_errno())}")
