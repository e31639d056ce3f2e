"""Agents with doors: what they can reach besides their channel, without a network.

A door is a listening socket that belongs to the loopback of the agent's own sandbox. It is opened inside by a few lines
of ours (``agents/builtin/doors.py``) before they become the agent, and handed out over an inherited socket; outside, a
process of ours answers at it. So nothing bridges the two in between, and nothing else can be reached.
"""

from __future__ import annotations

import importlib.util
import json
import os
import socket
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from dcpflow.agents.dialogue import prompt
from dcpflow.agents.launch import MCP, MODEL, LaunchSpec
from dcpflow.episodes.channel import Channel
from dcpflow.episodes.episode import earlier_calls
from dcpflow.episodes.keeper import Keeper
from dcpflow.episodes.runner import Aside, Ending, Surroundings, converse
from dcpflow.episodes.sandbox import Isolation
from dcpflow.episodes.session import Session
from dcpflow.episodes.timing import HEARTBEAT_SECONDS
from dcpflow.errors import EvidenceError, UsageError
from dcpflow.records.calls import Call, call_of

STARTING_SECONDS: Final = 30.0
CHUNK: Final = 1 << 16
LOOPBACK: Final = "127.0.0.1"


def converse_with_doors(
    session: Session,
    isolation: Isolation,
    spec: LaunchSpec,
    limits: Mapping[str, float],
    channel: Channel,
    hello: Mapping[str, Any],
) -> Ending:
    """Start the agent behind its doors, and speak with it until one side ends it.

    Args:
        session: the attempt.
        isolation: where to start it.
        spec: what to start; it has doors.
        limits: the registered limits.
        channel: the conversation's state.
        hello: the first message.

    Raises:
        UsageError: the calls have cost what one episode may; the API does not accept the key; what MCP takes is not
            installed; or this sandbox can have no doors.
        EvidenceError: a process of ours died.
    """
    kinds: dict[str, Callable[[], Door]] = {
        MODEL: lambda: ModelDoor(session, channel),
        MCP: lambda: McpDoor(limits, prompt(hello)),
    }
    answering: list[Door] = []
    with ExitStack() as opened:
        for name in spec.doors:
            answering.append(kinds[name]())
            opened.callback(answering[-1].end)
        doors = Doors(isolation.backend, answering)
        opened.callback(doors.close)
        launcher = spec.behind_doors(doors.handed)
        ending = converse(isolation, launcher, limits, channel, hello, session.heartbeat, doors)
    made = (call for door in answering for call in door.calls)
    return replace(ending, calls=(*earlier_calls(session), *made))


class Door(ABC):
    """A door, as the job sees it.

    Attributes:
        keeper: who answers at it.
        watched: as for all surroundings of an agent.
        aside: likewise.
        calls: what was asked of a model through it.
    """

    keeper: Keeper
    watched: Mapping[int, Callable[[], None]] = MappingProxyType({})
    aside: Aside | None = None

    def __init__(self) -> None:
        self.calls: list[Call] = []

    @abstractmethod
    def end(self) -> None:
        """End who answers at it."""


class Doors(Surroundings):
    """The doors of one agent, from where they are opened to those who answer at them.

    Args:
        backend: the kind of sandbox.
        doors: all of them, in the agent's order.
    """

    handed: int

    def __init__(self, backend: str, doors: Sequence[Door]) -> None:
        self._backend = backend
        self._keepers = [door.keeper for door in doors]
        self._ours, self._theirs = socket.socketpair()
        self.handed = self._theirs.fileno()
        self.watched = {descriptor: call for door in doors for descriptor, call in door.watched.items()}
        self.aside = next((door.aside for door in doors if door.aside), None)

    def ready(self) -> bool:
        """Take the doors and give them to those who answer; False if the agent's program did not come up.

        Raises:
            UsageError: in this sandbox there can be none, as far as one can tell.
        """
        self._theirs.close()
        doors = received(self._ours, len(self._keepers))
        try:
            for keeper, door in zip(self._keepers, doors, strict=False):
                keeper.give(door)
        finally:
            for door in doors:
                door.close()
        if not doors and self._backend == "apptainer":
            raise UsageError(
                "the agent's doors could not be opened: in this Apptainer no program listens on the loopback, or it "
                "passes no descriptors on",
                "Agents that ask a model or use MCP need bubblewrap here, or an Apptainer whose network 'none' has a "
                "loopback that is up",
            )
        return bool(doors) and became_the_agent(self._ours)

    def close(self) -> None:
        """Let go of both ends."""
        self._ours.close()
        self._theirs.close()


def received(hatch: socket.socket, number: int, seconds: float = STARTING_SECONDS) -> list[socket.socket]:
    """The doors that come out of a sandbox: as many as were asked for, or none.

    What comes from there is believed in nothing: each has to be a socket for streams that listens on IPv4 loopback.

    Args:
        hatch: where they come.
        number: how many there have to be.
        seconds: how long they are waited for.
    """
    hatch.settimeout(seconds)
    try:
        room = socket.CMSG_LEN((number + 1) * array("i").itemsize)
        _, parts, flags, _ = hatch.recvmsg(16, room, socket.MSG_CMSG_CLOEXEC)
    except OSError:
        return []
    descriptors = array("i")
    for level, kind, data in parts:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    doors = []
    with ExitStack() as unwanted:
        for descriptor in descriptors:
            try:
                doors.append(unwanted.enter_context(socket.socket(fileno=descriptor)))
            except OSError:
                os.close(descriptor)
        whole = len(descriptors) == number and not flags & socket.MSG_CTRUNC
        if whole and len(doors) == number and all(map(_is_door, doors)):
            unwanted.pop_all()
            return doors
    return []


def became_the_agent(hatch: socket.socket) -> bool:
    """Whether the agent's program took the place of what opened its doors: then the socket has closed behind it."""
    try:
        return hatch.recv(CHUNK) == b""
    except OSError:
        return False


def _is_door(door: socket.socket) -> bool:
    if (door.family, door.type, door.proto) != (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP):
        return False
    return bool(door.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)) and door.getsockname()[0] == LOOPBACK


class ModelDoor(Door):
    """The door to the model.

    Args:
        session: the attempt.
        channel: the conversation, which ends at a limit on calls.
    """

    def __init__(self, session: Session, channel: Channel) -> None:
        super().__init__()
        from dcpflow.episodes.model_door import keep  # noqa: PLC0415 - HTTP and TLS: where there is such a door

        self._session = session
        self._channel = channel
        self._waiting = b""
        self._over = False
        spent = session.spent(list(earlier_calls(session)))
        self.keeper = Keeper(partial(keep, session=session, spent=spent))
        self.watched = {self.keeper.control.fileno(): self.hear}

    def hear(self) -> None:
        """Take what it tells.

        Raises:
            UsageError: the calls have cost what one episode may, or the API does not accept the key.
            EvidenceError: it is gone.
        """
        if not self._take():
            raise EvidenceError(
                "the process at the door to the model has ended by itself",
                "Run snakemake again: nothing was recorded, and the episode is closed or starts anew",
            )

    def end(self) -> None:
        """Wait for the calls that are under way, so that all are recorded, and end it."""
        self._over = True
        control = self.keeper.control
        try:
            with suppress(OSError):
                control.shutdown(socket.SHUT_WR)
            control.settimeout(HEARTBEAT_SECONDS)
            listening = True
            while listening:
                self._session.heartbeat()
                with suppress(TimeoutError):
                    listening = self._take()
        finally:
            self.keeper.end()

    def _take(self) -> bool:
        """Read what is there; False if there will be nothing more."""
        try:
            data = self.keeper.control.recv(CHUNK)
        except ConnectionError:
            return False
        *lines, self._waiting = (self._waiting + data).split(b"\n")
        for line in lines:
            self._act(json.loads(line))
        return bool(data)

    def _act(self, message: Mapping[str, Any]) -> None:
        match message:
            case {"call": call}:
                self.calls.append(call_of(call, "the door to the model"))
            case {"cut_off": limit} if not self._channel.finished:
                self._channel.cut_off(limit)
            case {"account": status} if not self._over:
                raise UsageError(
                    f"the API of the model refuses all calls, with status {status}",
                    "Check the key and the account, and run snakemake again; what was recorded stays",
                )
            case {"overspent": spent} if not self._over:
                raise UsageError(
                    f"the calls to the model of one episode have cost {spent:.4f} USD, and it may cost "
                    f"{self._session.api.max_usd:.4f} USD",
                    "Raise budget.max_usd_per_episode and run snakemake again; what was recorded stays",
                )


class McpDoor(Door):
    """The door to the MCP server, which holds the channel.

    Args:
        limits: the registered limits.
        told: what the agent is told on its standard input.
    """

    def __init__(self, limits: Mapping[str, float], told: str) -> None:
        super().__init__()
        if importlib.util.find_spec("mcp") is None:
            raise UsageError(
                "agent.kind is mcp, and the MCP SDK is not installed", "Install it: pip install 'dcpflow[mcp]'"
            )
        heard, writes = os.pipe()
        reads, said = os.pipe()
        life: Callable[[socket.socket, socket.socket], None] = partial(_serve_mcp, reads, writes, limits)
        self.keeper = Keeper(life, (reads, writes))
        os.close(reads)
        os.close(writes)
        self._ours = (heard, said)
        self.aside = Aside(heard, said, told.encode())

    def end(self) -> None:
        """End it."""
        for descriptor in self._ours:
            os.close(descriptor)
        self.keeper.end()


def _serve_mcp(reads: int, writes: int, limits: Mapping[str, float], door: socket.socket, _: socket.socket) -> None:
    from dcpflow.episodes.mcp_door import serve  # noqa: PLC0415 - the SDK takes a second to load, in its process alone

    serve(door, reads, writes, int(limits["message_bytes"]))
