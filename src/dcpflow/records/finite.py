"""What a JSON decoder is told so that it refuses numbers that are none: infinities and NaN, by name or by overflow."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NoReturn


def hooks(
    fault: Callable[[str], Exception], too_large: str = "is too large", no_number: str = "is no JSON number"
) -> tuple[Callable[[str], float], Callable[[str], NoReturn]]:
    """``parse_float`` and ``parse_constant`` of a decoder that lets no infinity and no NaN through.

    Args:
        fault: makes the error to raise, of its text.
        too_large: what the text says of a number that no double holds.
        no_number: what it says of ``NaN``, ``Infinity`` and ``-Infinity``.
    """

    def finite(token: str) -> float:
        number = float(token)
        if not math.isfinite(number):
            raise fault(f"{token:.40} {too_large}")
        return number

    def refuse(token: str) -> NoReturn:
        raise fault(f"{token} {no_number}")

    return finite, refuse
