"""A process of ours that answers at one door of an agent's sandbox.

It is forked before the agent is started, so that it has none of the agent's pipes, keeps no descriptor but those that
it needs, and is given the door's listening socket once the agent's sandbox has handed it out. It dies with the job. A
process and not a thread, since agents and evaluators are started by forking the job's.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from typing import Final

from dcpflow.tasks.evaluator import address_space, die_with

MEMORY: Final = 4 << 30
"""Address space of such a process beyond what the job has: it is sent what an agent likes to send."""

Life = Callable[[socket.socket, socket.socket], None]
"""What the process does: with the door's listening socket, and with the socket to the job."""


class Keeper:
    """The process, as the job sees it.

    Args:
        life: what it does, until the job closes its end.
        needs: descriptors that it keeps besides.

    Attributes:
        control: the job's end of the socket to it.
    """

    def __init__(self, life: Life, needs: Sequence[int] = ()) -> None:
        self.control, theirs = socket.socketpair()
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        self._child = os.fork()
        if not self._child:
            try:
                if die_with(parent):
                    _confine((theirs.fileno(), *needs))
                    _live(life, theirs)
            finally:
                os._exit(1)
        theirs.close()

    def give(self, door: socket.socket) -> None:
        """Hand it the door at which it answers."""
        socket.send_fds(self.control, [b"door"], [door.fileno()])

    def end(self) -> None:
        """End it, whatever it is doing."""
        self.control.close()
        os.kill(self._child, signal.SIGKILL)
        os.waitpid(self._child, 0)


def _live(life: Life, control: socket.socket) -> None:
    _, descriptors, _, _ = socket.recv_fds(control, 16, 1)
    if descriptors:
        life(socket.socket(fileno=descriptors[0]), control)


def _confine(keep: Sequence[int]) -> None:
    """Close all descriptors but the standard ones and these, and limit the memory."""
    last = 2
    for descriptor in sorted(keep):
        os.closerange(last + 1, descriptor)
        last = descriptor
    os.closerange(last + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    most = address_space() + MEMORY
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
