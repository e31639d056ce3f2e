"""Cheating claimants: what is noticed, by what, and what is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.planning.conftest import GOOD
from tests.unit.planning.test_simulation import agrees

from dcpflow.errors import UsageError
from dcpflow.planning import cheats, cheats_text, moves, simulation, stand_in
from dcpflow.planning.cheats import NOT_DETECTABLE, Noticed
from dcpflow.planning.plan import altered
from dcpflow.planning.simulation import Truth
from dcpflow.planning.stand_in import StandIn
from dcpflow.protocol.model import Status
from dcpflow.stages import cheats_page

if TYPE_CHECKING:
    from dcpflow.planning.simulation import Setup
    from dcpflow.protocol.config import Config


@pytest.fixture(scope="module")
def played(config: Config, setup: Setup) -> list[Noticed]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cheats, "WHOLE_AUDITS", 1)
        return list(cheats.play(config, setup, 1))


def test_the_stand_in_audit_is_one_that_passes_every_check_and_is_certified(honest: StandIn) -> None:
    """Else it would prove nothing that a check fails on it."""
    found = honest.decided()
    assert {c.name for c in found.checks if c.result == "fail"} == set()
    assert (found.decision.core.status, found.decision.evidence.status) == (Status.CERTIFIED, Status.CERTIFIED)


def test_every_cheat_of_the_list_is_played(played: list[Noticed]) -> None:
    assert {one.move.cheat for one in played} == {
        "hits relabelled as failures",
        "dropped attempts",
        "starved information packet",
        "weaker challenger",
        "holds back when the channel looks neutral",
        "best of k target runs",
        "unlisted restarts",
        "nonce grinding",
        "thresholds set after the scores",
        "poisoned neutral arm",
        "edited records",
    }


@pytest.mark.parametrize(
    ("cheat", "how", "by"),
    [
        ("hits relabelled", "the label alone", "challenger_channel_withheld"),
        ("hits relabelled", "label, artifact and score", "challenger_channel_withheld"),
        ("dropped attempts", "every trace", "ledger_complete"),
        ("unlisted restarts", "in this results folder", "ledger_complete"),
        ("starved", "fewer files", "same_web_packet"),
        ("weaker challenger", "a smaller budget", "opportunity"),
        ("weaker challenger", "which controls show", "rule G2.12"),
        ("holds back", "in the null study too", "null study (G3.17)"),
        ("holds back", "to a score of 0", "neutral_harm"),
        ("thresholds", "an amendment", "amendment on record: exploratory"),
        ("thresholds", "history of registrations is removed", "registration_frozen_first"),
        ("poisoned", "not the registered policy", "neutral_channels_replay"),
        ("poisoned", "another length", "channels_alike"),
        ("poisoned", "registered as neutral", "null study (G3.17)"),
        ("edited records", "a record in the store", "digests (the record of an episode was altered)"),
        ("edited records", "record and receipt", "rule V2 (artifact_digest)"),
    ],
)
def test_what_leaves_a_mark_is_caught_by_name(played: list[Noticed], cheat: str, how: str, by: str) -> None:
    (one,) = [n for n in played if n.move.cheat.startswith(cheat) and how in n.move.how]
    assert by in one.by
    assert one.caught.count > 0
    if one.move.records:
        assert one.caught.value == 1
        assert one.paid.count == 0, "what was caught was certified all the same"


@pytest.mark.parametrize(
    ("cheat", "how"),
    [
        ("hits relabelled", "the conversation is rewritten too"),
        ("unlisted restarts", "elsewhere"),
        ("starved", "the target knew more"),
        ("weaker challenger", "which can do the controls"),
        ("holds back", "to what challengers score"),
        ("holds back", "in the challengers' seat too"),
        ("best of k", "elsewhere"),
        ("thresholds", "made again under them"),
        ("edited records", "everything that follows"),
    ],
)
def test_what_lies_outside_of_the_evidence_is_said_to_be_not_detectable(
    played: list[Noticed], cheat: str, how: str
) -> None:
    (one,) = [n for n in played if n.move.cheat.startswith(cheat) and how in n.move.how]
    assert one.by == ()
    assert one.to_json()["caught_by"] == NOT_DETECTABLE
    assert one.paid.count > 0, "a cheat that never pays proves nothing"
    assert one.move.helps


def test_more_target_runs_do_not_make_a_false_certificate_more_likely(played: list[Noticed]) -> None:
    (one,) = [n for n in played if n.move.cheat.startswith("best of k") and "elsewhere" in n.move.how]
    assert agrees(one.paid.count, one.paid.audits, 0.95**96)


def test_grinding_pays_without_public_randomness_and_not_with_it(played: list[Noticed]) -> None:
    without, given = [n for n in played if n.move.cheat == "nonce grinding"]
    assert without.shown == ("draws_not_grindable: not_assessed",)
    assert agrees(without.paid.count, without.paid.audits, 1 - (1 - 0.95**96) ** 100)
    assert given.shown == ("draws_not_grindable: pass",)
    assert agrees(given.paid.count, given.paid.audits, 0.95**96)


def test_the_table_says_plainly_what_is_not_detectable(played: list[Noticed]) -> None:
    text = cheats_text.render(played)
    block = text[text.index("  the conversation is rewritten too") :].splitlines()
    assert block[1].strip() == "not detectable"
    assert "Core certified: 2000 of 2000 audits [0.9982, 1.0000]" in block[2]
    assert "would help: an auditor who runs the challengers" in block[3]


def test_a_core_audit_plays_no_cheats_for_evidence(config: Config, setup: Setup) -> None:
    from dataclasses import replace

    core = replace(setup, reg=replace(setup.reg, grade="core"))
    some = tuple(m for m in moves.MOVES if m.records is None)
    assert {one.move.claim for one in cheats.play(config, core, 1, some)} == {"core"}


def test_an_interval_that_one_unit_cannot_bound_is_refused(config: Config, setup: Setup) -> None:
    from dataclasses import replace

    sampled = replace(setup, reg=replace(setup.reg, interval_method="bounded_empirical_bernstein"))
    with pytest.raises(UsageError, match="one exact sealed unit"):
        next(cheats.play(config, sampled, 1))


def test_an_audit_in_several_looks_is_played_as_one(config: Config) -> None:
    looks = {"design.gate2_looks": [32, 96], "design.pair_looks": [15, 30], "design.pair_replacements": 0}
    once = stand_in.looked_at_once(altered(config, looks | {"thresholds.gate3.bet": 0.9}))
    assert simulation.setup(once, Truth(), "lineage_prefix").reg.feedback_looks == ()
    outcome = stand_in.build(once, GOOD, "secret").decided()
    assert (outcome.decision.core.status, outcome.decision.evidence.status) == ("certified", "certified")


def test_the_page_says_of_each_move_what_the_text_says(played: list[Noticed]) -> None:
    made = cheats_page.page(played, 1)
    rows = [row for section in made.sections for row in section.tables[0].rows]
    assert [row[0] for row in rows] == [one.move.how for one in played]
    text = cheats_text.render(played)
    assert all(cell in text for row in rows for cell in row[:2])
    assert any(NOT_DETECTABLE in row[1] and row[3] for row in rows)
