"""Predicates on identifiers and digests (rules 1.0)."""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import TypeGuard


def is_explicit(value: object) -> TypeGuard[str]:
    """EXPLICIT: a string that says something: not blank, and not "unspecified" in any case or combination."""
    return isinstance(value, str) and bool(value.strip()) and "unspecified" not in value.casefold()


def is_canonical(value: object) -> TypeGuard[str]:
    """CANON: explicit, in NFC, and free of whitespace and of control, format and unassigned characters.

    Two canonical identifiers that look alike to a careful reader are the same string, which is why everything
    that has to be unique (attempts, units, draws, receipts) has to be canonical.
    """
    if not is_explicit(value):
        return False
    if value.isascii():  # the same question, asked quickly: almost every name is ASCII
        return value.isprintable() and " " not in value
    return unicodedata.is_normalized("NFC", value) and not any(
        c.isspace() or unicodedata.category(c).startswith("C") for c in value
    )


@lru_cache(maxsize=16)
def all_canonical(names: tuple[str, ...]) -> bool:
    """Whether all are. The sealed units, of which there are hundreds, stand in the same tuple at each artifact."""
    return all(map(is_canonical, names))
