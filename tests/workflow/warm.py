"""Starts of snakemake and dcpflow from a process that has loaded both already, which takes them a second otherwise.

Run as a program, it is that process: for each start it is asked for, it forks a child that goes on as a process of its
own, with the working folder, the environment and the output that are asked for. Where dcpflow starts snakemake itself,
to let it plan, the child forks once more.
"""

from __future__ import annotations

import array
import contextlib
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

MODULES = ("snakemake", "dcpflow")
LOADED = (
    "snakemake.cli",
    "snakemake.report.html_reporter",
    "snakemake.scheduling.greedy",
    "snakemake.storage",
    "pandas",
)
LOADED += ("smart_open", "dcpflow.cli", "dcpflow.stages.workflow", "dcpflow.stages.configuration")
PLANNING = {"stdin", "capture_output", "encoding", "check"}
"""How dcpflow starts snakemake: with output and errors apart, as text, whatever the exit code."""
OF_THE_START = ("PYTHON", "LC_", "LANG")
"""What a process reads of its environment as it starts, and cannot be told later."""


class Started:
    """A process that was forked, as subprocess.Popen shows one."""

    def __init__(self, said: socket.socket) -> None:
        self._said = said.makefile("r")
        said.close()
        self.pid = int(self._said.readline())
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, negative for a signal's number; None while it runs."""
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end.

        Raises:
            subprocess.TimeoutExpired: it takes longer.
        """
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        return code

    def _ended(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            with selectors.DefaultSelector() as waiting:
                waiting.register(self._said, selectors.EVENT_READ)
                if waiting.select(timeout):
                    self.returncode = int(self._said.readline())
                    self._said.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal to it, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)


class Warm:
    """The process that forks, started when it is first needed."""

    def __init__(self) -> None:
        self._asked: socket.socket | None = None
        self._environment = dict(os.environ)

    def can(self, command: list[str], environment: dict[str, str]) -> bool:
        """Whether a fork would be as a process that is started with this command and environment."""
        fits = command[:2] == [sys.executable, "-m"] and command[2] in MODULES
        return fits and of_the_start(environment) == of_the_start(self._environment)

    def start(self, command: list[str], folder: Path, output: int, environment: dict[str, str]) -> Started:
        """Start a command whose output and errors go to an open file."""
        if self._asked is None:
            self._asked, theirs = socket.socketpair()
            with theirs:
                subprocess.Popen(
                    [sys.executable, __file__, str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    env=self._environment,
                )
        ours, theirs = socket.socketpair()
        with theirs:
            asked = json.dumps({"argv": command[2:], "folder": str(folder), "environment": environment}).encode()
            self._asked.sendall(len(asked).to_bytes(8, "big"))
            descriptors = array.array("i", [output, theirs.fileno()])
            self._asked.sendmsg([asked[:1]], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
            self._asked.sendall(asked[1:])
        return Started(ours)


def of_the_start(environment: dict[str, str]) -> dict[str, str]:
    """The variables that only a new process can be given."""
    return {name: value for name, value in environment.items() if name.startswith(OF_THE_START)}


@dataclass
class Asked:
    """What a child is to become."""

    argv: list[str]
    folder: str
    environment: dict[str, str]
    output: int
    said: socket.socket

    @classmethod
    def receive(cls, control: socket.socket) -> Asked | None:
        """The next one; None once nobody asks any more."""
        length = control.recv(8, socket.MSG_WAITALL)
        if not length:
            return None
        first, descriptors, _, _ = socket.recv_fds(control, 1, 2)
        rest = control.recv(int.from_bytes(length, "big") - 1, socket.MSG_WAITALL)
        asked: dict[str, Any] = json.loads(first + rest)
        return cls(**asked, output=descriptors[0], said=socket.socket(fileno=descriptors[1]))

    def say(self, number: int) -> None:
        """Tell a number to who asked, if anybody still listens."""
        with contextlib.suppress(OSError):
            self.said.sendall(f"{number}\n".encode())


def serve(control: socket.socket) -> Asked | None:
    """Fork for each that is asked for; returns in each child what it is to become, and None at the end."""
    waiting = selectors.DefaultSelector()
    waiting.register(control, selectors.EVENT_READ)
    while True:
        for key, _ in waiting.select():
            if key.fileobj is not control:
                pidfd, (pid, asked) = key.fd, key.data
                waiting.unregister(pidfd)
                os.close(pidfd)
                asked.say(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
                asked.said.close()
                continue
            if (asked := Asked.receive(control)) is None:
                return None
            if (pid := os.fork()) == 0:
                others = [other.data[1].said for other in waiting.get_map().values() if other.data]
                for pidfd in [other.fd for other in waiting.get_map().values() if other.data]:
                    os.close(pidfd)
                for other in others:
                    other.close()
                waiting.close()
                control.close()
                return asked
            asked.say(pid)
            os.close(asked.output)
            waiting.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, asked))


def become(asked: Asked) -> None:
    """Go on as ``python -m`` with these words would."""
    asked.said.close()
    os.dup2(asked.output, 1)
    os.dup2(asked.output, 2)
    os.close(asked.output)
    os.environ.clear()
    os.environ.update(asked.environment)
    os.chdir(asked.folder)
    sys.path[0] = asked.folder
    subprocess.run = partial(run, subprocess.run)
    go_on_as(asked.argv)


def go_on_as(argv: list[str]) -> None:
    """Be ``python -m`` with these words from here on."""
    sys.argv = argv
    runpy.run_module(argv[0], run_name="__main__", alter_sys=True)


def run(plain: Callable[..., Any], command: list[str], **how: Any) -> Any:
    """As subprocess.run, with a fork where dcpflow has snakemake plan for it."""
    if command[:3] != [sys.executable, "-m", "snakemake"] or how.keys() - PLANNING:
        return plain(command, **how)
    with tempfile.TemporaryFile("w+b") as output, tempfile.TemporaryFile("w+b") as errors:
        if (pid := os.fork()) == 0:
            code: object = 1
            try:
                os.dup2(output.fileno(), 1)
                os.dup2(errors.fileno(), 2)
                go_on_as(command[2:])
            except SystemExit as end:
                code = end.code
            except BaseException:  # nothing of dcpflow may go on in this process
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code if isinstance(code, int) else int(code is not None))
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        said = []
        for file in (output, errors):
            file.seek(0)
            said.append(file.read().decode(how["encoding"]))
        return subprocess.CompletedProcess(command, code, *said)


if __name__ == "__main__":
    for name in LOADED:
        __import__(name)
    with socket.socket(fileno=int(sys.argv[1])) as asking:
        child = serve(asking)
    if child:
        become(child)
