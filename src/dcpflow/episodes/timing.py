"""The time that an episode has, for those that wait in this process rather than for another one."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

HEARTBEAT_SECONDS = 5.0


def departure(asked: float, now: float, delay_ms: float) -> tuple[float, bool]:
    """When an experiment's reply leaves, whatever the arm had to do, and whether that is late.

    Args:
        asked: when it was asked for, in seconds.
        now: when the reply is ready.
        delay_ms: the registered time after which it leaves; one that was not ready by then leaves at the next multiple.
    """
    step = delay_ms / 1000
    if not step:
        return asked, False
    steps = int((now - asked) / step) + 1
    return asked + steps * step, steps > 1


@dataclass(frozen=True)
class Clock:
    """Time as it is told and waited for.

    Attributes:
        now: seconds; never goes back.
        sleep: waits for some seconds.
    """

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


class Allotted:
    """The registered duration of an episode, as it runs out.

    Args:
        clock: the time.
        seconds: all of it.
        heartbeat: called every few seconds while something is waited for.
    """

    def __init__(self, clock: Clock, seconds: float, heartbeat: Callable[[], None]) -> None:
        self._clock, self._seconds, self._heartbeat = clock, seconds, heartbeat
        self._began = clock.now()

    @property
    def now(self) -> float:
        """The clock's time."""
        return self._clock.now()

    @property
    def spent(self) -> float:
        """Seconds since the beginning."""
        return self._clock.now() - self._began

    @property
    def left(self) -> float:
        """Seconds until the end; none or fewer when it is over."""
        return self._seconds - self.spent

    def set_spent(self, seconds: float) -> None:
        """Go on from where an earlier process stood."""
        self._began = self._clock.now() - seconds

    def pause(self, seconds: float) -> None:
        """Wait."""
        until = self._clock.now() + seconds
        self._heartbeat()
        while (left := until - self._clock.now()) > 0:
            self._clock.sleep(min(left, HEARTBEAT_SECONDS))
            self._heartbeat()
