"""A record to store, alter and look for."""

from __future__ import annotations

import os
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


@pytest.fixture
def in_children() -> Callable[[int, Callable[[int], None]], list[int]]:
    """Runs work in so many forked processes that begin together, and returns their exit codes.

    The work gets the number of its process, and ends it by ``os._exit``.
    """

    def run(count: int, work: Callable[[int], None]) -> list[int]:
        gate_in, gate_out = os.pipe()
        children = []
        for number in range(count):
            child = os.fork()
            if not child:
                try:
                    os.close(gate_out)
                    os.read(gate_in, 1)
                    work(number)
                finally:
                    os._exit(99)
            children.append(child)
        os.close(gate_in)
        os.close(gate_out)
        return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]

    return run
