"""Calls to a model: read back strictly, priced, and held against the models that are registered."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dcpflow.errors import EvidenceError
from dcpflow.records import calls, canonical
from dcpflow.records.calls import Call, Prices

ANSWERED = Call(
    request=canonical.digest(b"asked"),
    status=200,
    fault="",
    model="small-1",
    input_tokens=1_000,
    cached_tokens=400,
    output_tokens=50,
    response=canonical.digest(b"answered"),
)
LOST = Call(canonical.digest(b"asked"), 0, "transport", "", 0, 0, 0, "")
MODEL: dict[str, Any] = {"accepted": [], "requested": None}


def test_calls_come_back_as_they_were_written() -> None:
    assert calls.decode(calls.encode([ANSWERED, LOST]), "here") == [ANSWERED, LOST]
    assert calls.decode(b"", "here") == []


@pytest.mark.parametrize(
    "changed",
    [
        {"fault": "lazy"},
        {"status": 1_000},
        {"status": True},
        {"cached_tokens": 1_001},
        {"output_tokens": -1},
        {"request": "asked"},
        {"response": "answered"},
        {"model": None},
    ],
)
def test_what_no_call_can_have_been_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(EvidenceError, match="the list, line 1"):
        calls.decode(calls.encode([replace(ANSWERED, **changed)]), "the list")


@pytest.mark.parametrize("data", [b"{}\n", b"[]\n", b'{"status":200}\n', calls.encode([ANSWERED])[:-1], b" \n"])
def test_other_lines_are_refused(data: bytes) -> None:
    with pytest.raises(EvidenceError, match="the list"):
        calls.decode(data, "the list")


def test_what_was_read_from_a_cache_has_a_price_of_its_own() -> None:
    budget = {"input_usd": 3.0, "cached_usd": 0.5, "output_usd": 10.0}
    assert Prices.of(budget).of_call(ANSWERED) == pytest.approx((600 * 3 + 400 * 0.5 + 50 * 10) / 1e6)
    assert Prices.of(budget | {"cached_usd": None}).of_call(ANSWERED) == pytest.approx((1000 * 3 + 50 * 10) / 1e6)
    assert Prices.of(budget).of_call(LOST) == 0


@pytest.mark.parametrize(
    ("registered", "answered", "strangers"),
    [
        ({}, ["small-1"], []),
        ({}, ["small-2", "small-1", "small-2"], ["small-2"]),
        ({}, [""], [""]),
        ({"requested": "small"}, ["small-1"], ["small-1"]),
        ({"requested": "small", "accepted": ["small-1", "small-2"]}, ["small-1", "small-2"], []),
        ({"accepted": ["small-2"]}, ["small-1"], ["small-1"]),
    ],
)
def test_a_model_that_is_not_registered_is_named(
    registered: dict[str, Any], answered: list[str], strangers: list[str]
) -> None:
    found = calls.foreign([replace(ANSWERED, model=name) for name in answered], MODEL | registered, "small-1")
    assert found == strangers


def test_a_call_that_failed_is_answered_by_nobody() -> None:
    assert calls.foreign([LOST], MODEL, "small-1") == []
    assert calls.lost([ANSWERED, LOST])
    assert not calls.lost([LOST, ANSWERED])
    assert not calls.lost([])


@pytest.mark.parametrize(
    ("status", "body", "fault", "of_the_account"),
    [
        (200, b"{}", "", False),
        (401, b"{}", "refused", True),
        (402, b"{}", "refused", True),
        (404, b"{}", "refused", False),
        (429, b'{"error": {"code": "slow_down"}}', "rate_limited", False),
        (429, b'{"error": {"code": "insufficient_quota"}}', "rate_limited", True),
        (529, b"", "server_error", False),
    ],
)
def test_what_a_status_says(status: int, body: bytes, fault: str, of_the_account: bool) -> None:
    assert calls.fault_of(status) == fault
    assert calls.of_the_account(status, body) is of_the_account
