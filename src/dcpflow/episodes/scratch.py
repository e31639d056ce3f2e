"""The one place where a sandboxed agent can write: a file system in memory, of limited size and number of files.

It is mounted by the process that becomes the sandbox, in namespaces of its own and with the rights of an ordinary
user, so that it is the same for root and for everybody else. No path of the host leads to it: the harness is handed a
descriptor of its workspace folder, and when that is closed all of it is gone, whatever was in there.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dcpflow.episodes.mounts import CLONE_NEWNS, CLONE_NEWUSER, MS_NODEV, MS_NOSUID, mount, unshare

PR_SET_DUMPABLE = 4
MIB = 1 << 20
ROOM_FOR_ONE_MORE: Final = 1 << 16
"""The file system holds a little more than is allowed, so that an agent at its limit can be told from one beyond."""
FOLDERS: Final = {"ws": "/ws", "tmp": "/tmp", "shm": "/dev/shm"}
"""What it holds, and where each stands inside the sandbox."""


@dataclass(frozen=True, slots=True)
class Filled:
    """How full a scratch file system is.

    Attributes:
        size: bytes in use.
        files: files, folders and whatever else has an inode, the three folders aside.
    """

    size: int
    files: int


def options(limits: Mapping[str, float]) -> str:
    """Mount options for the registered limits."""
    size = int(limits["workspace_mb"]) * MIB + ROOM_FOR_ONE_MORE
    # its root and the three folders, and one more than is allowed
    inodes = int(limits["workspace_files"]) + 1 + len(FOLDERS) + 1
    return f"size={size},nr_inodes={inodes},mode=0700"


def filled(descriptor: int) -> Filled:
    """How full the file system is that this descriptor lies on."""
    told = os.fstatvfs(descriptor)
    return Filled((told.f_blocks - told.f_bfree) * told.f_frsize, told.f_files - told.f_ffree - 1 - len(FOLDERS))


def mount_point() -> Path:
    """An empty folder of this user's to mount on; nothing is ever mounted there for anybody else to see.

    Raises:
        OSError: what stands there is somebody else's.
    """
    path = Path(tempfile.gettempdir(), f"dcpflow-scratch-{os.geteuid()}")
    path.mkdir(mode=0o700, exist_ok=True)
    if path.is_symlink() or path.stat().st_uid != os.geteuid():
        raise OSError(0, f"{path} belongs to somebody else")
    return path


def make(point: Path, mounted_with: str) -> int:
    """In the process that becomes the sandbox: mount on ``point``, and return a descriptor of the workspace.

    Raises:
        OSError: there can be no such file system here.
    """
    _own_namespaces()
    mount("tmpfs", point, "tmpfs", MS_NOSUID | MS_NODEV, mounted_with)
    for name in FOLDERS:
        (point / name).mkdir(mode=0o700)
    return os.open(point / "ws", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _own_namespaces() -> None:
    """A user and a mount namespace of this process, in which it may mount what an ordinary user may."""
    uid, gid = os.geteuid(), os.getegid()
    # a process that has changed its uid does not own its files in /proc until this is said
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
    unshare(CLONE_NEWUSER | CLONE_NEWNS)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        # nothing may be imported any more, not even an encoding: this uid may not be able to read the library
        file = os.open(f"/proc/self/{name}", os.O_WRONLY)
        os.write(file, text.encode())
        os.close(file)
