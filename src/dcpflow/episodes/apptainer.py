"""Apptainer as a sandbox, for clusters on which users can make no namespaces and Apptainer is installed setuid.

It is given an image that is nothing but empty folders, into which the same paths are bound as bubblewrap is given. What
cannot be set from outside, limits and the filter of system calls, a small program of ours sets inside, before it
becomes the agent. Whether all of that holds here, only the probe can say.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from dcpflow.agents.launch import INSIDE, LaunchSpec, builtin_file, python_command
from dcpflow.episodes import seccomp
from dcpflow.episodes.processes import children
from dcpflow.episodes.running import Running, Unconfined, adopt_orphans
from dcpflow.episodes.starting import kernel_limits, start

RULES = f"{INSIDE}/rules"
EMPTY_FOLDERS = ("usr", "proc", "sys", "dev", "etc", "tmp", "var/tmp", "ws", INSIDE.lstrip("/"))
OPTIONS = (
    *("--containall", "--cleanenv", "--no-home", "--no-privs", "--no-eval", "--net", "--network", "none"),
    *("--uts", "--hostname", "sandbox", "--no-mount", "home,cwd,hostfs,bind-paths", "--scratch", "/ws", "--pwd", "/ws"),
)


class Apptainer:
    """One apptainer program, prepared for the agents of one job.

    Args:
        program: the ``apptainer`` program, or ``singularity``.

    Raises:
        OSError: this is root, whom it would leave root, or there is no filter for this machine.
    """

    backend = "apptainer"

    def __init__(self, program: Path) -> None:
        if os.geteuid() == 0:
            raise OSError(0, "agents would run as root; root has bubblewrap")
        self._program = program
        self._folder = tempfile.TemporaryDirectory(prefix="dcpflow-image-")
        self._image = Path(self._folder.name, "image")
        self._rules = Path(self._folder.name, "rules")
        self._rules.write_bytes(seccomp.program())
        prefix = str(Path(sys.base_prefix)).lstrip("/")
        for name in (*EMPTY_FOLDERS, prefix):
            (self._image / name).mkdir(parents=True, exist_ok=True)
        for name in ("lib", "lib64", "bin", "sbin"):
            if Path("/usr", name).exists():
                (self._image / name).symlink_to(f"usr/{name}")

    def start(self, spec: LaunchSpec, limits: Mapping[str, float], handed: int | None = None) -> Running:
        """Start the agent inside."""
        confine = python_command(builtin_file("confine"))
        bound = {"/usr": Path("/usr"), sys.base_prefix: Path(sys.base_prefix), RULES: self._rules}
        bound |= {**confine.files, **spec.files}
        if Path(sys.base_prefix).is_relative_to("/usr"):
            del bound[sys.base_prefix]
        command = [str(self._program), "--quiet", "exec", *OPTIONS]
        for inside, source in bound.items():
            place = self._image / inside.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.mkdir(exist_ok=True) if source.is_dir() else place.touch()
            command += ["--bind", f"{source}:{inside}:ro"]
        wanted = [[what, *values] for what, values in kernel_limits(limits, count_processes=False).items()]
        environment = json.dumps(dict(spec.environment))
        command += [str(self._image), *confine.arguments, RULES, json.dumps(wanted), environment, *spec.arguments]
        others = children(os.getpid())
        adopt_orphans(True)
        try:
            passed = () if handed is None else (handed,)
            process = start(command, None, env={}, cwd="/", start_new_session=True, pass_fds=passed)
        except OSError:
            adopt_orphans(False)
            raise
        return Unconfined(process, others)
