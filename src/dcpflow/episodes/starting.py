"""How a process is started for an agent: three pipes, nothing inherited, and the kernel's limits."""

from __future__ import annotations

import math
import re
import resource
import subprocess
from collections.abc import Callable, Mapping
from typing import Any

SANDBOX_PROCESSES = 2
"""Processes that a sandbox itself has."""
MIB = 1 << 20


def start(
    command: list[str], prepare: Callable[[], None] | None, own_uid: int | None = None, **more: Any
) -> subprocess.Popen[bytes]:
    """Start a process with pipes as its standard input, output and error.

    Args:
        command: what to start.
        prepare: called in the new process before it becomes the command.
        own_uid: the uid and gid that it gets, as root.
        more: for ``subprocess.Popen``.

    Raises:
        OSError: it cannot be started.
        subprocess.SubprocessError: ``prepare`` failed.
    """
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


def kernel_limits(limits: Mapping[str, float], count_processes: bool) -> dict[int, tuple[int, int]]:
    """The kernel's limits, which hold for each process: soft and hard, in the order in which to set them.

    Those that the watch names when they are reached are a little higher here: they bound what happens between two of
    its looks.

    Args:
        limits: the registered limits.
        count_processes: whether those that are counted are the agent's alone.
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
    # last: the process that sets them may be larger than what its agent is allowed
    wanted[resource.RLIMIT_AS] = (int(limits["memory_mb"]) * MIB,) * 2
    return wanted


def limit(wanted: Mapping[int, tuple[int, int]]) -> None:
    """Set limits of this process, as far as its own allow it."""
    for what, values in wanted.items():
        hard = resource.getrlimit(what)[1]
        soft_value, hard_value = (value if hard == resource.RLIM_INFINITY else min(value, hard) for value in values)
        resource.setrlimit(what, (soft_value, hard_value))


def counted_by_namespace(release: str) -> bool:
    """Whether a kernel of this release counts a user's processes in each user namespace by themselves.

    Before Linux 5.14 all that the user has on the machine are counted together, so that a limit on them means something
    only where the uid is the agent's alone.
    """
    numbers = re.match(r"(\d+)\.(\d+)", release)
    return numbers is not None and tuple(map(int, numbers.groups())) >= (5, 14)
