"""Runs one conversation between a sandboxed agent process and its channel, within the registered limits."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dcpflow.agents.launch import LaunchSpec
from dcpflow.episodes.channel import Channel
from dcpflow.episodes.sandbox import Isolation, Running

CHUNK = 1 << 16
STDERR_KEPT = 4096
HEARTBEAT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Ending:
    """How an agent process ended.

    Attributes:
        started: False where the agent's program never ran: a fault of the infrastructure.
        killed: the sandbox was killed by somebody else, which no agent can do: neither its failure nor an outcome.
        exit_code: of an agent that ended without finishing, as the operating system reports it; else None.
        stderr: the last bytes of its standard error.
        late_replies: experiments whose reply was later than the registered delay.
    """

    started: bool
    killed: bool
    exit_code: int | None
    stderr: bytes
    late_replies: int


def converse(
    isolation: Isolation,
    spec: LaunchSpec,
    limits: Mapping[str, int],
    channel: Channel,
    hello: Mapping[str, Any],
    heartbeat: Callable[[], None],
) -> Ending:
    """Start the agent, say hello, answer until it finishes, dies or reaches a limit, and end all of it.

    Args:
        isolation: where to start it.
        spec: what to start.
        limits: the registered limits.
        channel: the conversation's state; holds all that was said when this returns.
        hello: the first message.
        heartbeat: called every few seconds.
    """
    greeting = channel.say(hello)
    try:
        running = isolation.start(spec, limits)
    except OSError as error:
        return Ending(False, False, None, str(error).encode(), 0)
    try:
        return _Conversation(running, limits, channel, heartbeat).run(greeting)
    finally:
        running.stop()


class _Conversation:
    def __init__(
        self,
        running: Running,
        limits: Mapping[str, int],
        channel: Channel,
        heartbeat: Callable[[], None],
    ) -> None:
        self._running = running
        self._process = running.process
        self._limits = limits
        self._channel = channel
        self._heartbeat = heartbeat
        self._deadline = time.monotonic() + limits["wall_seconds"]
        self._pending = b""
        self._stderr = b""
        self._output = 0
        self._late = 0
        self._last_beat = time.monotonic()

    def run(self, greeting: bytes) -> Ending:
        assert self._process.stdout and self._process.stderr and self._process.stdin
        out, err = self._process.stdout.fileno(), self._process.stderr.fileno()
        self._stdin = self._process.stdin.fileno()
        for descriptor in (out, err, self._stdin):
            os.set_blocking(descriptor, False)
        with selectors.DefaultSelector() as self._selector:
            self._selector.register(out, selectors.EVENT_READ)
            self._selector.register(err, selectors.EVENT_READ)
            self._send(greeting)
            while not self._channel.finished:
                ready = self._wait()
                if ready is None:
                    self._channel.cut_off("wall_seconds")
                elif err in ready:
                    self._read_stderr(err)
                elif out in ready and not self._read_stdout(out):
                    break
        if self._channel.finished:
            return Ending(True, False, None, self._stderr[-STDERR_KEPT:], self._late)
        code = self._exit_code()
        ran = bool(self._channel.usage["messages"]) or code is None or not self._running.never_ran()
        return Ending(ran, self._running.killed_outside(), code, self._stderr[-STDERR_KEPT:], self._late)

    def _wait(self) -> set[int] | None:
        """Descriptors that can be read; None at the deadline."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            return None
        ready = {key.fd for key, _ in self._selector.select(min(left, HEARTBEAT_SECONDS))}
        self._show_life()
        return ready

    def _show_life(self) -> None:
        if time.monotonic() - self._last_beat >= HEARTBEAT_SECONDS:
            self._last_beat = time.monotonic()
            self._heartbeat()

    def _read_stdout(self, descriptor: int) -> bool:
        data = os.read(descriptor, CHUNK)
        if not data:
            return False
        self._count(len(data))
        self._pending += data
        while b"\n" in self._pending and not self._channel.finished:
            line, _, self._pending = self._pending.partition(b"\n")
            if len(line) > self._limits["message_bytes"]:
                self._channel.overlong(line)
                return True
            self._answer(line)
        if len(self._pending) > self._limits["message_bytes"]:
            self._channel.overlong(self._pending)
        return True

    def _answer(self, line: bytes) -> None:
        asked = time.monotonic()
        reply, is_experiment = self._channel.hear(line)
        if is_experiment:
            self._delay(asked)
        self._send(reply)

    def _delay(self, asked: float) -> None:
        """Send every experiment's reply a registered time after it was asked for, whatever the arm had to do.

        A reply that was not ready by then goes out at the next multiple of that time.
        """
        step = self._limits["reply_delay_ms"] / 1000
        if not step:
            return
        steps = int((time.monotonic() - asked) / step) + 1
        self._late += steps > 1
        time.sleep(max(0.0, asked + steps * step - time.monotonic()))

    def _read_stderr(self, descriptor: int) -> None:
        data = os.read(descriptor, CHUNK)
        if not data:
            self._selector.unregister(descriptor)
            return
        self._count(len(data))
        self._stderr = (self._stderr + data)[-STDERR_KEPT:]

    def _count(self, size: int) -> None:
        self._output += size
        if self._output > self._limits["output_bytes"]:
            self._channel.cut_off("output_bytes")

    def _send(self, data: bytes) -> None:
        """Write to the agent; one that does not read meets the deadline, one that is gone is found out by its pipe."""
        view = memoryview(data)
        with selectors.DefaultSelector() as writable:
            writable.register(self._stdin, selectors.EVENT_WRITE)
            while view:
                try:
                    view = view[os.write(self._stdin, view) :]
                except BlockingIOError:
                    left = self._deadline - time.monotonic()
                    if left <= 0:
                        self._channel.cut_off("wall_seconds")
                        return
                    writable.select(min(left, HEARTBEAT_SECONDS))
                    self._show_life()
                except OSError:
                    return

    def _exit_code(self) -> int | None:
        """The exit code of an agent that has closed its output; it gets a moment to end by itself."""
        try:
            return self._process.wait(timeout=max(0.0, min(1.0, self._deadline - time.monotonic())))
        except subprocess.TimeoutExpired:
            return None
