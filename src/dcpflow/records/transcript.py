"""A recorded conversation, read as requests with their replies."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any


def exchanges(transcript: Sequence[Mapping[str, str]]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Each request that is a JSON object, with the reply to it.

    Args:
        transcript: lines as the channel recorded them, the first being the hello.
    """
    for asked, answered in pairwise(transcript[1:]):
        if asked["from"] != "agent" or answered["from"] != "harness" or "line" not in asked:
            continue
        try:
            request = json.loads(asked["line"])
        except (ValueError, RecursionError):
            continue
        if isinstance(request, dict):
            yield request, json.loads(answered["line"])
