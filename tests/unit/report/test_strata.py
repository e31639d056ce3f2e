"""Strata on the page and on the screen: apart from the challengers that decide, and a hit where nobody overlooks it."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from dcpflow.evidence import strata
from dcpflow.report import material, page, screen
from dcpflow.report.material import Material

from .conftest import Page

if TYPE_CHECKING:
    from tests.conftest import Audit


@pytest.fixture(scope="module")
def read(stratified_audit: Audit) -> Material:
    return material.read(stratified_audit.job.layout)


@pytest.fixture(scope="module")
def with_hit(read: Material) -> Material:
    """As if one of the stratum's three challengers had recovered the outcome."""
    decision: dict[str, Any] = copy.deepcopy(dict(read.decision))
    block = decision["strata"]["strong"]
    block |= {"recovered": True, "recovery_upper_bound": None, "witnesses": ["challengers/strong/2"]}
    block["challengers"]["hits"] = 1
    block["agent"] = "builtin <script>alert(1)</script>"
    decision["headline"] = strata.headline(decision["strata"])
    return replace(read, decision=decision)


def shown(of: Material) -> Page:
    found = Page()
    found.feed(page.render(of).decode())
    assert not found.problems
    return found


def test_the_page_shows_a_stratum_with_its_arm_and_denominator(read: Material) -> None:
    text = shown(read).text
    assert "stratum strong, informative: 0 of 3 reach the line" in text
    assert "challengers, told nothing: 0 of 6 reach the line" in text
    assert "0 of 3 independent challengers of this stratum reached the recovery line" in text
    assert "at confidence 0.9, the stratum's own" in text
    assert "Beside the statuses" not in text


def test_a_hit_stands_beside_the_statuses(with_hit: Material) -> None:
    found = shown(with_hit)
    words = "Another challenger (strong) recovered the outcome; Core is about the matched agent"
    assert found.text.index(words) < found.text.index("Three questions")
    assert not any(tag == "script" for tag, _ in found.tags)
    lines = screen.render(with_hit.decision).splitlines()
    assert words in lines[2]
    assert lines[0].startswith("Core      INCONCLUSIVE")
