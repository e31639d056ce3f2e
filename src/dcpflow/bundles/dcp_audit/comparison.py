"""Comparing a saved certificate with what our engine decides, field by field and type by type.

An expected value is plain data, compared exactly by type (true is not 1, and a count is no float), numbers
within :data:`TOLERANCE`; or one of the pattern classes below, for what is known only in part.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

TOLERANCE: Final = 1e-12
"""Largest difference between two computations of one number: sums are rounded differently."""


@dataclass(frozen=True, slots=True)
class Words:
    """Any text: wording is the writer's own."""


@dataclass(frozen=True, slots=True)
class Reasons:
    """A list of texts, of which only matters whether it is empty; None where not even that."""

    empty: bool | None


@dataclass(frozen=True, slots=True)
class Echo:
    """A value repeated from the evidence, or left blank where the gate was not evaluated."""

    value: Any
    blank: Any


@dataclass(frozen=True, slots=True)
class Difference:
    """One place where certificate and decision differ."""

    place: str
    saved: Any
    expected: Any

    def __str__(self) -> str:
        return f"{self.place}: the certificate has {self.saved!r}, the evidence gives {self.expected!r}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of comparing two trees.

    Attributes:
        compared: Number of values compared.
        texts: Number of texts that were only looked at for being texts.
        differences: Where they differ.
    """

    compared: int
    texts: int
    differences: tuple[Difference, ...]


_MISSING: Final = "(absent)"


def compare(saved: Any, expected: Any) -> Comparison:
    """Compare a saved tree with an expected one. A key that only one of them has is a difference."""
    compared = texts = 0
    differences = []
    for place, found, wanted in _leaves(saved, expected, ""):
        if isinstance(wanted, Words | Reasons):
            texts += 1
        else:
            compared += 1
        if not _agrees(found, wanted):
            differences.append(Difference(place, found, wanted))
    return Comparison(compared, texts, tuple(differences))


def _leaves(saved: Any, expected: Any, place: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(expected, Echo):
        blank = same(saved, expected.blank)
        yield from _leaves(saved, expected.blank if blank else expected.value, place)
    elif isinstance(expected, Mapping) and isinstance(saved, dict):
        for key in sorted({*expected, *saved}):
            inner = f"{place}.{key}" if place else key
            if key in expected and key in saved:
                yield from _leaves(saved[key], expected[key], inner)
            else:
                yield inner, saved.get(key, _MISSING), expected.get(key, _MISSING)
    elif _is_list(expected) and isinstance(saved, list) and len(expected) == len(saved):
        for index, (left, right) in enumerate(zip(saved, expected, strict=True)):
            yield from _leaves(left, right, f"{place}[{index}]")
    else:
        yield place, saved, expected


def _agrees(saved: Any, expected: Any) -> bool:
    if isinstance(expected, Words):
        return isinstance(saved, str)
    if isinstance(expected, Reasons):
        texts = isinstance(saved, list) and all(isinstance(item, str) for item in saved)
        return texts and (expected.empty is None or bool(saved) is not expected.empty)
    return same(saved, expected)


def same(left: Any, right: Any) -> bool:
    """Equality of plain data by type and value; an expected float may be written as an integer."""
    if isinstance(right, float):
        if isinstance(left, bool) or not isinstance(left, int | float):
            return False
        return math.isfinite(left) and abs(left - right) <= TOLERANCE
    if isinstance(right, Mapping) and isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in right)
    if _is_list(right) and isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and left == right


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)
