"""Several looks at the challengers: a recovery ends them; what was started, left out or hidden otherwise is named."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dcpflow.evidence import decision, folder, gates, looks
from dcpflow.planning import sensitivity
from dcpflow.planning.sensitivity import Stored
from dcpflow.records import plan
from dcpflow.records.canonical import digest
from unit.evidence.conftest import Case, Chosen

ENDS = (32, 64, 96)


def staged(case: Case, ends: tuple[int, ...] = ENDS) -> Case:
    """The same challengers, looked at several times: each record names the look before, as a run makes it."""
    return in_looks(case.with_config("design", gate2_looks=list(ends)), "challengers")


def in_looks(case: Case, stage: str) -> Case:
    design = case.view.registered.config("design")
    for number, slots in enumerate(plan.looks(design, stage), 1):
        if number > 1:
            before = case.view.inputs[plan.look_phase(stage, number - 1)]
            case = case.with_record_fields(within(stage, slots), prior_seal=before)
        phase = plan.look_phase(stage, number)
        rows = tuple(row for row in case.view.scores[stage] if row.stage == stage and row.slot in slots)
        case = case.with_view(
            scores={**case.view.scores, phase: rows},
            inputs={**case.view.inputs, phase: digest(f"scores of {phase}".encode())},
        )
    scores = dict(case.view.scores)
    if others := tuple(row for row in scores.pop(stage) if row.stage != stage):
        scores["null_pairs"] = others
    return case.with_view(scores=scores)


def within(stage: str, slots: range) -> Chosen:
    return lambda e: e.key.stage == stage and e.key.slot in slots


def taken(case: Case) -> tuple[looks.Look, ...]:
    reg = gates.registration(folder.config_of(case.view.registered), case.view.registered.contract, {})
    return looks.taken("challengers", case.view, case.episode_facts, reg)


def without(case: Case, chosen: Chosen) -> Case:
    gone = {e.digest for e in case.view.episodes if chosen(e)}
    kept = case.with_view(episodes=tuple(e for e in case.view.episodes if e.digest not in gone))
    return kept.with_scores(lambda row: None if row.record in gone else row)


def after(slot: int) -> Chosen:
    return lambda e: e.key.stage == "challengers" and e.key.slot > slot


@pytest.fixture(scope="module")
def through(convincing_core: Case) -> Case:
    """All looks were run, and no challenger recovered."""
    return staged(convincing_core)


@pytest.fixture(scope="module")
def stopped(convincing_core: Case, at: Callable[..., Chosen]) -> Case:
    """A challenger of the first look recovered, and no later one was started."""
    return without(staged(convincing_core.with_hit(at("challengers", 10))), after(32))


def test_through_all_looks_the_bound_is_that_of_one_look(through: Case, convincing_core: Case) -> None:
    ours, theirs = (decision.document(case.outcome) for case in (through, convincing_core))
    assert ours["core"]["status"] == "certified"
    assert ours["gate2"].pop("looks") == [{"challengers": 32, "started": 32, "ends": False}] * 3
    assert ours["gate2"].pop("not_started") == 0
    assert ours["gate2"] == theirs["gate2"]
    assert through.checks["looks_in_order"].result == "pass"
    assert "looks_in_order" not in convincing_core.checks


def test_a_recovery_refutes_and_what_it_saved_is_outside_of_all_counts(stopped: Case) -> None:
    found = decision.document(stopped.outcome)
    assert (found["core"]["status"], found["core"]["rule"]) == ("refuted", "V11")
    assert found["gate2"]["witnesses"] == ["challengers/10"]
    assert found["gate2"]["challengers"]["started"] == 32
    assert [look["started"] for look in found["gate2"]["looks"]] == [32, 0, 0]
    assert found["gate2"]["not_started"] == 64
    assert found["faults"] == []
    assert stopped.checks["looks_in_order"].result == stopped.checks["claim_frozen"].result == "pass"


def test_a_hit_in_the_last_look_saves_nothing(convincing_core: Case, at: Callable[..., Chosen]) -> None:
    found = decision.document(staged(convincing_core.with_hit(at("challengers", 90))).outcome)
    assert (found["core"]["status"], found["gate2"]["not_started"]) == ("refuted", 0)


def test_no_early_certificate_where_later_looks_were_left_out(through: Case) -> None:
    few = without(through, after(92))
    core = few.outcome.decision.core
    assert (core.status, core.inconclusive_class) == ("inconclusive", "audit_incomplete")
    assert few.checks["looks_in_order"].reason.startswith("not so for challengers slot 93, which was not started")


@pytest.mark.parametrize("hidden", [range(10, 11), range(9, 17)])
def test_a_hit_that_is_said_not_to_have_been_started_is_missed(
    through: Case, at: Callable[..., Chosen], hidden: range
) -> None:
    """Whatever a receipt says: a slot may be left empty behind a recovery alone, and the recovery is gone with it."""
    bent = without(
        through.with_hit(at("challengers", 10)), lambda e: e.key.stage == "challengers" and e.key.slot in hidden
    )
    check = bent.checks["looks_in_order"]
    assert check.result == "fail"
    assert f"challengers slot {hidden[0]}, which was not started" in check.reason
    assert bent.outcome.decision.core.status == "inconclusive"


def test_a_look_that_began_before_the_scores_of_the_one_before_is_named(
    through: Case, at: Callable[..., Chosen]
) -> None:
    early = through.with_record_fields(at("challengers", 40), prior_seal=through.view.target.digest)
    assert "challengers slot 40 (withheld), which does not name" in early.checks["looks_in_order"].reason
    assert early.checks["claim_frozen"].result == "pass"
    assert early.outcome.decision.core.status == "inconclusive"
    other_scores = through.with_view(inputs={**through.view.inputs, "challengers-1": digest(b"other scores")})
    assert other_scores.checks["looks_in_order"].result == other_scores.checks["claim_frozen"].result == "fail"


def test_a_challenger_that_was_started_after_a_recovery_is_named_and_the_recovery_stands(
    through: Case, at: Callable[..., Chosen]
) -> None:
    more = without(through.with_hit(at("challengers", 10)), after(33))
    assert (
        "challengers slot 33, which was started after the last look that had to be"
        in more.checks["looks_in_order"].reason
    )
    assert more.outcome.decision.core.status == "refuted"


def test_an_undecided_challenger_ends_nothing(through: Case, at: Callable[..., Chosen]) -> None:
    unresolved = through.with_record_fields(at("challengers", 5), outcome="unresolved")
    assert [look.reached for look in taken(unresolved)] == [True, True, True]
    assert unresolved.outcome.decision.core.status == "inconclusive"


@pytest.mark.parametrize("ends", [(32, 64), (96,), (32, 128)])
def test_looks_that_leave_registered_challengers_out_certify_nothing(
    through: Case, convincing_core: Case, ends: tuple[int, ...]
) -> None:
    """Such looks are refused where a configuration is read; a registration may be written by hand."""
    bent = without(staged(convincing_core, ends), after(ends[-1]))
    check = bent.checks["looks_in_order"]
    assert (check.result, "do not rise to all 96 challengers" in check.reason) == ("fail", True)
    core = bent.outcome.decision.core
    assert (core.status, core.inconclusive_class) == ("inconclusive", "audit_incomplete")


def test_looks_bind_where_they_rise_to_all_slots() -> None:
    ends = ([32, 64, 96], [64, 32, 96], [32, 32, 96], [0, 96], [96], [32, 95])
    assert [plan.looks_bind({"challengers": 96, "gate2_looks": one}, "challengers") for one in ends] == [
        True, False, False, False, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("first", "now", "alike"),
    [
        ([32, 64, 96], [32, 64, 96], True),
        ([32, 96], [32, 128], True),
        ([32, 96], [32, 96, 128], True),
        (None, None, True),
        ([32, 96], [32, 64, 96], False),  # the second look would be read without slots 65 to 96
        ([32, 96], [48, 96], False),
        ([32, 64, 96], [32, 96], False),
        ([32, 96], [32, 64], False),
        (None, [32, 96], False),
        ([32, 96], None, False),
    ],
)
def test_a_decision_is_reached_again_where_its_looks_still_hold_what_they_held(
    first: list[int] | None, now: list[int] | None, alike: bool
) -> None:
    def design(ends: list[int] | None) -> dict[str, object]:
        return {"challengers": ends[-1] if ends else 96, "gate2_looks": ends, "pairs": 30}

    assert looks.alike(design(first), design(now)) is alike


# --- pairs -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def paired(convincing: Case) -> Case:
    """All thirty pairs were run in looks after 15, 25 and 30; the first 21 would have been enough."""
    case = convincing.with_config("design", pair_looks=[15, 25, 30], pair_replacements=0)
    case = case.with_config("thresholds", gate3={"bet": 0.9})
    return in_looks(case, "pairs")


@pytest.fixture(scope="module")
def decided(paired: Case) -> Case:
    """The same, ended at the look that decides."""
    return without(paired, within("pairs", range(26, 31)))


def test_pairs_end_at_the_look_that_decides_the_effect(decided: Case) -> None:
    found = decision.document(decided.outcome)
    assert (found["core"]["status"], found["evidence"]["status"]) == ("certified", "certified")
    assert found["gate3"]["pairs"] == {"registered": 30, "analysed": 25}
    assert [look["ends"] for look in found["gate3"]["looks"]] == [False, True, False]
    assert found["gate3"]["not_started"] == 5
    assert found["gate3"]["neutral_upper_bound"] is None
    assert decided.checks["pair_looks_in_order"].result == decided.checks["seals_before_branches"].result == "pass"


def test_pairs_that_go_on_after_that_or_stop_before_are_named(paired: Case, decided: Case) -> None:
    on = paired.checks["pair_looks_in_order"]
    assert on.reason.startswith("not so for pairs slot 26, which was started after the last look that had to be")
    early = without(decided, within("pairs", range(16, 26)))
    assert early.checks["pair_looks_in_order"].reason.startswith("not so for pairs slot 16, which was not started")
    between = without(decided, within("pairs", range(23, 26)))
    assert between.checks["pair_looks_in_order"].result == "fail"
    for case in (paired, early, between):
        # from an empty checkpoint neutral branches are challengers, and one that recovered may be gone
        core = case.outcome.decision.core
        assert (core.status, core.rule) == ("inconclusive", "V14")
        other = case.with_view(checkpoint={**case.view.checkpoint, "scope": "lineage_prefix"}).outcome.decision
        assert (other.core.status, other.evidence.status) == ("certified", "inconclusive")


def test_a_neutral_recovery_that_is_deleted_keeps_core_from_a_certificate(paired: Case) -> None:
    """Whoever deletes store and receipts of the pairs of a look leaves nothing that names them but the look itself."""
    refuted = paired.with_hit(lambda e: e.key.slot == 17 and e.key.arm == "neutral").outcome.decision.core
    assert (refuted.status, refuted.rule) == ("refuted", "V12")
    hidden = without(paired, within("pairs", range(16, 31)))
    assert (hidden.outcome.decision.core.status, hidden.outcome.decision.core.rule) == ("inconclusive", "V14")


def test_thresholds_at_which_an_earlier_look_would_have_decided_are_flips_too(decided: Case) -> None:
    """After 25 pairs that all say the same the lower end lies at .584, after 15 at .360: less delta_sham."""
    case = decided.with_config("thresholds", gate3={"delta_sham": 0.1})
    found = sensitivity.describe(Stored(case.view, case.facts, case.episode_facts, case.registrations))
    assert (found.core, found.evidence) == ("certified", "certified")
    curves = {curve.name: curve for curve in found.curves}
    assert curves["delta_evidence"].flips == pytest.approx((0.260, 0.484), abs=5e-4)
    # below, pairs were started that were too many; above, more had to be
    assert [one.core for one in curves["delta_evidence"].segments] == ["inconclusive", "certified", "inconclusive"]
    # (1 - b + b / m)^n = 2 / alpha at the margin's m
    m = (1 + 0.34 + 0.1) / 2
    assert curves["alpha.evidence"].flips == pytest.approx((2 / (0.1 + 0.9 / m) ** 25,))


def test_a_pair_that_began_before_the_scores_of_the_look_before_is_named(decided: Case) -> None:
    case = decided.with_record_fields(within("pairs", range(20, 21)), prior_seal=decided.view.checkpoint["digest"])
    assert "does not name what its look had to follow" in case.checks["pair_looks_in_order"].reason
    assert case.outcome.decision.core.status == "inconclusive"
