"""Random choices that are a pure function of a seed, on every machine and Python version.

The standard ``random`` module is left out on purpose: which bits its methods consume is not promised across
versions, and its shared state would let one caller move another caller's draws.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

SEED_BYTES = 32
_WORD = 1 << 32


class Stream:
    """An endless stream of choices for one purpose, keyed by HMAC-SHA-256(seed, label).

    Different labels give independent streams, so adding a draw for one purpose never moves another.
    """

    def __init__(self, seed: bytes, label: str) -> None:
        """Start the stream.

        Args:
            seed: The key; any non-empty bytes.
            label: What the choices are for.

        Raises:
            ValueError: The seed is empty.
        """
        if not seed:
            raise ValueError("the seed is empty")
        self._key = hmac.new(seed, label.encode("utf-8"), hashlib.sha256).digest()
        self._counter = 0
        self._words: list[int] = []

    def _word(self) -> int:
        """Return the next 32 bits."""
        if not self._words:
            block = hashlib.sha256(self._key + self._counter.to_bytes(8, "big")).digest()
            self._counter += 1
            self._words = [int.from_bytes(block[i : i + 4], "big") for i in range(28, -1, -4)]
        return self._words.pop()

    def below(self, bound: int) -> int:
        """Return an integer in [0, bound), every one equally likely.

        Args:
            bound: From 1 to 2**32.

        Raises:
            ValueError: ``bound`` is out of range.
        """
        if not 1 <= bound <= _WORD:
            raise ValueError(f"the bound must be from 1 to 2**32, not {bound}")
        # Words at or above the largest multiple of the bound would favour small results: draw again.
        limit = _WORD - _WORD % bound
        word = self._word()
        while word >= limit:
            word = self._word()
        return word % bound

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """Return the items in random order, every order equally likely."""
        return self.sample(items, len(items))

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """Return ``count`` of the items, without repetition and in random order (Fisher-Yates).

        Raises:
            ValueError: There are fewer than ``count`` items, or ``count`` is negative.
        """
        pool = list(items)
        if not 0 <= count <= len(pool):
            raise ValueError(f"cannot draw {count} of {len(pool)} items")
        for place in range(count):
            other = place + self.below(len(pool) - place)
            pool[place], pool[other] = pool[other], pool[place]
        return pool[:count]


def secret_stream(secret: bytes, label: str) -> Stream:
    """Start a stream from a draw of exactly 32 bytes.

    Args:
        secret: The draw.
        label: What the choices are for.

    Raises:
        ValueError: The draw has another length.
    """
    if len(secret) != SEED_BYTES:
        raise ValueError(f"a draw has {SEED_BYTES} bytes, not {len(secret)}")
    return Stream(secret, label)
