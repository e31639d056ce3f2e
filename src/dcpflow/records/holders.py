"""Who holds a piece of work: a process of this or another machine, alive or gone."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dcpflow.errors import EvidenceError
from dcpflow.records import canonical

FOREIGN_SILENCE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Holder:
    """One process, identified so that a reused process number is never taken for it.

    Attributes:
        host: host name.
        boot: boot id of the host's kernel.
        pid: process number, as it is in its namespace.
        started: start time of the process in clock ticks since boot.
        space: the namespace of process numbers, of which containers of a host may have their own; empty where the
            system knows none.
    """

    host: str
    boot: str
    pid: int
    started: int
    space: str

    @classmethod
    def myself(cls) -> Holder:
        """The calling process."""
        return cls(socket.gethostname(), _boot_id(), os.getpid(), _start_ticks(os.getpid()), _space())

    @classmethod
    def from_json(cls, value: Any) -> Holder | None:
        """The holder that a file names, or None where a crash left it half-written or empty."""
        try:
            # a file of before there was this field is of a process of the same namespace, as was assumed then
            space = str(value["space"]) if "space" in value else _space()
            return cls(str(value["host"]), str(value["boot"]), int(value["pid"]), int(value["started"]), space)
        except (KeyError, TypeError, ValueError):
            return None

    @classmethod
    def read(cls, path: Path) -> Holder | None:
        """The holder that a file names; None where a crash left it half-written or empty.

        Raises:
            FileNotFoundError: there is no such file.
        """
        return cls.parse(path.read_bytes())

    @classmethod
    def parse(cls, data: bytes) -> Holder | None:
        """The holder that a file's bytes name, likewise."""
        try:
            return cls.from_json(canonical.decode(data, "a holder"))
        except EvidenceError:
            return None

    def to_json(self) -> dict[str, Any]:
        """The form that files hold."""
        return asdict(self)

    def alive(self) -> bool | None:
        """True or False where it can be told from here; None for a process of another host or container."""
        if self.host != socket.gethostname():
            return None
        if self.boot != _boot_id():
            return False
        if self.space != _space():
            return None
        return _start_ticks(self.pid) == self.started


class Silence:
    """Whether a file that a living process of another host or container keeps touching has gone untouched for long.

    Its dates are compared with each other, never with a clock, so that the hosts' clocks may differ.
    """

    def __init__(self) -> None:
        self._seen: tuple[str, int] = ("", 0)
        self._since = time.monotonic()
        self.heard = False

    def too_long(self, path: Path) -> bool:
        """Look at the file once more; ``heard`` then says whether it was ever seen to be touched.

        Args:
            path: the file; another one begins a new watch.
        """
        try:
            # opened, since NFS asks the server then; else it may repeat old dates for a minute or more
            with path.open("rb") as file:
                now_seen = (path.name, os.fstat(file.fileno()).st_mtime_ns)
        except FileNotFoundError:
            return False
        if now_seen != self._seen:
            self.heard = now_seen[0] == self._seen[0]
            self._seen, self._since = now_seen, time.monotonic()
        return time.monotonic() - self._since > FOREIGN_SILENCE_SECONDS


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _space() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _start_ticks(pid: int) -> int:
    """Start time of a running process; -1 where there is none, or only its zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return -1 if Path("/proc/self/stat").exists() else _portable_start(pid)
    return -1 if fields[0] in "ZX" else int(fields[19])


def _portable_start(pid: int) -> int:
    """Where there is no /proc (macOS): 0 for a living process, which a reused number can then resemble."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return -1
    except PermissionError:
        return 0
    return 0
