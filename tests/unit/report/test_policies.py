"""Further neutral policies on the page and on the screen: beside the feedback effect, and called what they are."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from dcpflow.evidence import policies
from dcpflow.report import material, page, screen
from dcpflow.report.material import Material

from .conftest import Page

if TYPE_CHECKING:
    from tests.conftest import Audit


@pytest.fixture(scope="module")
def read(audit_of_policies: Audit) -> Material:
    return material.read(audit_of_policies.job.layout)


def shown(of: Material) -> Page:
    found = Page()
    found.feed(page.render(of).decode())
    assert not found.problems
    return found


def test_the_page_shows_the_policies_beside_each_other_and_what_is_not_calibrated(read: Material) -> None:
    text = shown(read).text
    assert text.index("Feedback effect") < text.index("Other neutral policies") < text.index("The target run")
    assert "decides; the null study is about this channel" in text
    assert "informative, exploratory; not calibrated: no null pair has this channel" in text
    assert "none of these effects is called supported" in " ".join(text.split())
    assert "pairs of lagged_sham, informative" in text, "the ledger names their stage"
    assert "of proposed_sham, lagged_sham, reference_null" in text or "reference_null, lagged_sham" in text
    assert "Beside the statuses" not in text


def test_the_screen_shows_them_with_their_spread(read: Material) -> None:
    text = screen.render(read.decision)
    assert "Policy    reference_null (informative, EXPLORATORY, not calibrated" in text
    assert "no null band taken off" in text and "\nSpread    of " in text


def test_a_recovery_stands_beside_the_statuses(read: Material) -> None:
    decision: dict[str, Any] = copy.deepcopy(dict(read.decision))
    block = policies.blocks(decision)["reference_null"]
    block |= {"confirmed": 1, "recovered": True, "witnesses": ["pairs_reference_null/2/reference_null"]}
    decision["headline"] = policies.headline({"reference_null": block}, "lineage_empty", necessity=False)
    text = shown(replace(read, decision=decision)).text
    words = "With another neutral policy (reference_null) the outcome was recovered (1 of 3 neutral branches"
    assert text.index(words) < text.index("Three questions")


def test_without_further_policies_the_page_has_no_word_of_them(finished_audit: Audit) -> None:
    assert "neutral policies" not in shown(material.read(finished_audit.job.layout)).text
