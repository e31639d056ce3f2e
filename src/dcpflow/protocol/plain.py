"""The decision as plain data, for JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any


def plain(value: Any) -> Any:  # noqa: PLR0911  (one return for each kind)
    """Dataclasses become objects, tuples lists, enumerations words, and numbers that are not finite null.

    A :class:`~dcpflow.protocol.decision.Decision` gives the same plain data on every machine, so its canonical
    JSON has the same digest.

    Raises:
        TypeError: For anything else than the protocol's own results are made of.
    """
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, str):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, frozenset):
        return sorted(plain(item) for item in value)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    raise TypeError(f"{type(value).__name__} is no part of a decision")
