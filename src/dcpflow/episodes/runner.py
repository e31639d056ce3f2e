"""Runs one conversation between a sandboxed agent process and its channel, within the registered limits."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

from dcpflow.agents.launch import LaunchSpec
from dcpflow.episodes.channel import Channel
from dcpflow.episodes.running import Running
from dcpflow.episodes.sandbox import Isolation
from dcpflow.episodes.timing import HEARTBEAT_SECONDS, departure
from dcpflow.episodes.watch import look, look_back
from dcpflow.episodes.workspace import NOTHING_LEFT, Workspace, read_back
from dcpflow.records.calls import Call

CHUNK = 1 << 16
LOOK_SECONDS = 0.1
SHORT_SECONDS = 0.002
CPU_TIME_IS_UP = (-signal.SIGXCPU, 128 + signal.SIGXCPU)
STDERR_KEPT = 4096


@dataclass(frozen=True, slots=True)
class Ending:
    """How an agent process ended.

    Attributes:
        started: False where the agent's program never ran: a fault of the infrastructure.
        killed: the sandbox was killed by somebody else, which no agent can do: neither its failure nor an outcome.
        exit_code: of an agent that ended without finishing, as the operating system reports it; else None.
        stderr: the last bytes of its standard error; of its standard output too, where that is not the channel.
        late_replies: experiments whose reply was later than the registered delay.
        workspace: what it left in its workspace.
        calls: what it asked its model through us, and what came of it.
        interrupted: the job was killed after the agent had acted, and it cannot go on where it stopped.
    """

    started: bool
    killed: bool
    exit_code: int | None
    stderr: bytes
    late_replies: int
    workspace: Workspace = NOTHING_LEFT
    calls: tuple[Call, ...] = ()
    interrupted: bool = False


@dataclass(frozen=True, slots=True)
class Aside:
    """A channel that is held elsewhere than on the agent's own standard input and output.

    Attributes:
        heard: descriptor from which the agent's lines are read.
        said: descriptor to which replies are written.
        prompt: what the agent reads on its standard input, which then ends.
    """

    heard: int
    said: int
    prompt: bytes


class Surroundings:
    """What an agent has around it besides its channel, and which is not there once it has ended: nothing.

    Attributes:
        handed: a descriptor that the agent's process inherits.
        aside: where the channel is held; None for its standard input and output.
        watched: descriptors of ours, and what is to be called when there is something to read.
    """

    handed: int | None = None
    aside: Aside | None = None
    watched: Mapping[int, Callable[[], None]] = MappingProxyType({})

    def ready(self) -> bool:
        """Called once the agent's process is there: whether all that it needs has come up."""
        return True


NOTHING_AROUND = Surroundings()


def converse(
    isolation: Isolation,
    spec: LaunchSpec,
    limits: Mapping[str, float],
    channel: Channel,
    hello: Mapping[str, Any],
    heartbeat: Callable[[], None],
    around: Surroundings = NOTHING_AROUND,
) -> Ending:
    """Start the agent, say hello, answer until it finishes, dies or reaches a limit, and end all of it.

    Args:
        isolation: where to start it.
        spec: what to start.
        limits: the registered limits.
        channel: the conversation's state; holds all that was said when this returns.
        hello: the first message.
        heartbeat: called every few seconds.
        around: what the agent has besides.
    """
    greeting = channel.say(hello)
    try:
        running = isolation.start(spec, limits, around.handed)
    except OSError as error:
        return Ending(False, False, None, str(error).encode(), 0)
    workspace = NOTHING_LEFT
    try:
        try:
            conversation = _Conversation(running, limits, channel, heartbeat, around)
            ending = conversation.run(greeting) if around.ready() else conversation.never_began()
        finally:
            running.stop()
        if running.workspace is not None:
            left_full = look_back(running, limits)
            if left_full and left_full not in channel.limits_hit:
                channel.cut_off(left_full)
            workspace = read_back(running.workspace, limits)
    finally:
        running.close_workspace()
    return replace(ending, workspace=workspace)


class _Conversation:
    """One agent's lines in, the channel's replies out, one at a time and in order.

    What the agent writes is always read, up to the registered amount; what it asks is answered once it has taken, or
    can no longer take, the reply before. So an agent that does not read holds up itself alone.
    """

    def __init__(
        self,
        running: Running,
        limits: Mapping[str, float],
        channel: Channel,
        heartbeat: Callable[[], None],
        around: Surroundings,
    ) -> None:
        process = running.process
        assert process.stdout and process.stderr and process.stdin
        self._running = running
        self._limits = limits
        self._channel = channel
        self._heartbeat = heartbeat
        self._stdin = process.stdin
        self._watched = around.watched
        self._aside = around.aside
        if self._aside:
            self._in, self._out, self._prompt = self._aside.said, self._aside.heard, memoryview(self._aside.prompt)
            self._tails = [process.stdout.fileno(), process.stderr.fileno()]
        else:
            self._in, self._out, self._prompt = process.stdin.fileno(), process.stdout.fileno(), memoryview(b"")
            self._tails = [process.stderr.fileno()]
        now = time.monotonic()
        self._deadline = now + limits["wall_seconds"]
        self._last_beat = self._last_look = now
        self._heard = bytearray()
        self._reply = memoryview(b"")
        self._reply_at = now
        self._stderr = b""
        self._output = 0
        self._late = 0
        self._ended = False

    def run(self, greeting: bytes) -> Ending:
        for descriptor in (self._out, self._in, self._stdin.fileno(), *self._tails):
            os.set_blocking(descriptor, False)
        self._reply = memoryview(greeting)
        with selectors.DefaultSelector() as self._selector:
            self._selector.register(self._out, selectors.EVENT_READ, self._read_stdout)
            for descriptor in self._tails:
                self._selector.register(descriptor, selectors.EVENT_READ, partial(self._read_tail, descriptor))
            for descriptor, call in self._watched.items():
                self._selector.register(descriptor, selectors.EVENT_READ, call)
            if self._aside:
                self._selector.register(self._stdin, selectors.EVENT_WRITE, self._send_prompt)
            while not self._channel.finished:
                self._send_what_is_due()
                if not self._reply and self._answer_one():
                    continue
                if self._channel.finished or (self._ended and not self._reply):
                    break
                self._wait()
            # what finishes a conversation is answered too, as far as the agent can take it at once
            self._send_what_is_due()
        if self._channel.finished:
            return self._ending(True, None)
        code = self._exit_code()
        if code in CPU_TIME_IS_UP:
            self._channel.cut_off("cpu_seconds")
        ran = bool(self._channel.usage["messages"]) or code is None or not self._running.never_ran()
        return self._ending(ran, code)

    def never_began(self) -> Ending:
        """The end of an agent that did not come up, with what it wrote about that."""
        os.set_blocking(self._tails[-1], False)
        with suppress(BlockingIOError):
            self._stderr = os.read(self._tails[-1], STDERR_KEPT)
        return Ending(False, False, None, self._stderr, 0)

    def _ending(self, started: bool, code: int | None) -> Ending:
        killed = code is not None and self._running.killed_outside()
        return Ending(started, killed, code, self._stderr[-STDERR_KEPT:], self._late)

    def _wait(self) -> None:
        """Until there is something to read, or to send, or to look after; at the deadline the conversation is over."""
        now = time.monotonic()
        due = self._reply_at if self._reply and self._reply_at > now else self._deadline
        next_look = self._last_look + LOOK_SECONDS
        left = min(due, self._deadline, next_look) - now
        if due < min(self._deadline, next_look) and left < SHORT_SECONDS:
            # a selector rounds up to its clock, by which the time of a reply could tell something
            time.sleep(max(0.0, left))
            return
        if self._deadline <= now:
            self._channel.cut_off("wall_seconds")
            return
        for key, _ in self._selector.select(max(0.0, left - SHORT_SECONDS if due < self._deadline else left)):
            if key.data is not None:
                key.data()
        self._look_after()

    def _look_after(self) -> None:
        """Now and then: show that this job lives, and see that the agent keeps its limits."""
        now = time.monotonic()
        if now - self._last_beat >= HEARTBEAT_SECONDS:
            self._last_beat = now
            self._heartbeat()
        if now - self._last_look < LOOK_SECONDS or self._channel.finished:
            return
        if limit := look(self._running, self._limits):
            self._channel.cut_off(limit)
        elif not self._ended and self._over():
            while not self._ended and self._read_stdout():
                pass
            self._end_of_output()
        self._last_look = time.monotonic()

    def _over(self) -> bool:
        """Whether nothing more will be said, although what it would be said on is not closed."""
        return self._running.process.poll() is not None if self._aside else self._running.fell_silent()

    def _read_stdout(self) -> bool:
        """Take what is there; False if that is nothing."""
        try:
            data = os.read(self._out, CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self._end_of_output()
            return False
        self._count(len(data))
        self._heard += data
        return not self._channel.finished

    def _end_of_output(self) -> None:
        if not self._ended:
            self._ended = True
            self._selector.unregister(self._out)

    def _answer_one(self) -> bool:
        """Answer the first line that was heard; False if there is no whole one."""
        end = self._heard.find(b"\n")
        length = len(self._heard) if end < 0 else end
        if length > self._limits["message_bytes"]:
            self._channel.overlong(bytes(self._heard[:length]))
            return False
        if end < 0:
            return False
        if time.monotonic() >= self._deadline:
            self._channel.cut_off("wall_seconds")
            return False
        line = bytes(self._heard[:end])
        del self._heard[: end + 1]
        asked = time.monotonic()
        reply, is_experiment = self._channel.hear(line)
        self._reply_at = asked
        if is_experiment:
            self._reply_at, late = departure(asked, time.monotonic(), self._limits["reply_delay_ms"])
            self._late += late
        self._reply = memoryview(reply)
        self._look_after()
        return True

    def _send_what_is_due(self) -> None:
        """Write to the agent as much as it takes; one that is gone is found out by its pipe."""
        waiting = self._in in self._selector.get_map()
        if self._reply and self._reply_at <= time.monotonic():
            try:
                self._reply = self._reply[os.write(self._in, self._reply) :]
            except BlockingIOError:
                if not waiting:
                    self._selector.register(self._in, selectors.EVENT_WRITE)
                return
            except OSError:
                self._reply = memoryview(b"")
        if waiting and not self._reply:
            self._selector.unregister(self._in)

    def _send_prompt(self) -> None:
        """Write to the agent's standard input as much as it takes, and close it after the last."""
        try:
            self._prompt = self._prompt[os.write(self._stdin.fileno(), self._prompt) :]
        except BlockingIOError:
            return
        except OSError:
            self._prompt = memoryview(b"")
        if not self._prompt:
            self._selector.unregister(self._stdin)
            self._stdin.close()

    def _read_tail(self, descriptor: int) -> None:
        """Take what the agent writes where it is only counted, and its end kept."""
        data = os.read(descriptor, CHUNK)
        if not data:
            self._selector.unregister(descriptor)
            return
        self._count(len(data))
        self._stderr = (self._stderr + data)[-STDERR_KEPT:]

    def _count(self, size: int) -> None:
        self._output += size
        if self._output > self._limits["output_bytes"] and not self._channel.finished:
            self._channel.cut_off("output_bytes")

    def _exit_code(self) -> int | None:
        """The exit code of an agent that has closed its output; it gets a moment to end by itself."""
        try:
            return self._running.process.wait(timeout=max(0.0, min(1.0, self._deadline - time.monotonic())))
        except subprocess.TimeoutExpired:
            return None
