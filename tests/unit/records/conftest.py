"""A record to store, alter and look for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dcpflow.records.canonical import digest
from dcpflow.records.episodes import EpisodeRecord

CONTRACT = digest(b"contract")


@pytest.fixture
def contract() -> str:
    return CONTRACT


@pytest.fixture
def make_record() -> Callable[..., EpisodeRecord]:
    """Makes a record of challenger 3; keyword arguments replace fields."""

    def make(**fields: Any) -> EpisodeRecord:
        values: dict[str, Any] = {
            "contract": CONTRACT,
            "registration": digest(b"registration"),
            "stage": "challengers",
            "stratum": "matched",
            "slot": 3,
            "arm": "withheld",
            "attempt": 1,
            "replacement_of": "",
            "prior_seal": digest(b"target"),
            "draw": {"presentation": "00" * 32, "agent_seed": "11" * 32, "public_randomness": ""},
            "unit": digest(b"unit"),
            "outcome": "artifact",
            "reason": "a candidate was committed",
            "candidates": [digest(b"candidate")],
            "quotes": {},
            "transcript": digest(b"transcript"),
            "limits_hit": [],
            "usage": {"experiments": 4, "commits": 1, "messages": 6, "bad_messages": 0, "bytes": 900},
            "packet": "",
            "isolation": digest(b"probe"),
            "workspace": "",
            "calls": "",
        }
        return EpisodeRecord(**values | fields)

    return make
