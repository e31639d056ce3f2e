"""The decision counts what happened: failures, losses, invalid artifacts, hits, replacements, amendments."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from dcpflow.evidence import decision
from dcpflow.records import canonical
from dcpflow.report import screen

if TYPE_CHECKING:
    from tests.unit.evidence.conftest import Case, Chosen

    from dcpflow.evidence.view import Episode
    from dcpflow.records.scores import ScoreRow

At = Callable[..., "Chosen"]
Document = dict[str, Any]


def document(case: Case) -> Document:
    found: Document = json.loads(json.dumps(decision.document(case.outcome), allow_nan=False))
    return found


def failed(case: Case, chosen: Chosen) -> Case:
    """The agent committed nothing."""
    digests = {e.digest for e in case.view.episodes if chosen(e)}
    case = case.with_scores(lambda row: None if row.record in digests else row)
    return case.with_record_fields(chosen, outcome="model_failure", candidates=[], reason="nothing was committed")


def lost(case: Case, chosen: Chosen, messages: int = 0) -> Case:
    """The episode was lost to the infrastructure, after so many messages of the agent."""
    digests = {e.digest for e in case.view.episodes if chosen(e)}
    case = case.with_scores(lambda row: None if row.record in digests else row)
    usage = {"experiments": 0, "commits": 0, "messages": messages, "bad_messages": 0, "bytes": 0}
    return case.with_record_fields(chosen, outcome="infrastructure_invalid", candidates=[], usage=usage)


def invalid(case: Case, chosen: Chosen) -> Case:
    """The artifact breaks the task's rules."""
    digests = {e.digest for e in case.view.episodes if chosen(e)}
    return case.with_scores(lambda row: replace(row, validity="invalid", units=()) if row.record in digests else row)


def challengers(*slots: int) -> Chosen:
    return lambda e: e.key.stage == "challengers" and e.key.slot in slots


def seats(case: Case) -> dict[str, Any]:
    found: dict[str, Any] = document(case)["gate2"]["challengers"]
    return found


def test_the_document_holds_every_number_that_the_statuses_rest_on(convincing: Case) -> None:
    found = document(convincing)
    assert found["core"]["status"] == found["evidence"]["status"] == "certified"
    gate2, gate3 = found["gate2"], found["gate3"]
    assert gate2["challengers"] == {
        "started": 96,
        "independent": 96,
        "hits": 0,
        "unresolved": 0,
        "model_failures": 0,
        "infrastructure": 0,
        "violations": 0,
    }
    assert gate2["best_score"] < gate2["recovery_line"] < found["gate1"]["x"]
    assert gate2["recovery_upper_bound"] == pytest.approx(1 - 0.01 ** (1 / 96))
    assert found["controls"]["successes"] == found["controls"]["trials"] == 45
    assert (gate3["truthful_hits"], gate3["neutral_hits"]) == (30, 0)
    assert gate3["pairs"] == {"registered": 30, "analysed": 30}
    assert found["formal_certificate_issued"] is False
    assert found["not_claimed"]
    canonical.encode(found)


def test_the_same_evidence_gives_the_same_bytes(convincing: Case) -> None:
    again = replace(convincing)
    assert again.outcome is not convincing.outcome
    assert canonical.encode(document(again)) == canonical.encode(document(convincing))


def test_a_challenger_that_commits_nothing_is_counted_and_stays_in_the_denominator(convincing_core: Case) -> None:
    case = failed(convincing_core, challengers(5, 6))
    assert (seats(case)["model_failures"], seats(case)["independent"], seats(case)["hits"]) == (2, 96, 0)
    found = document(case)["gate2"]
    assert found["recovery_upper_bound_without_failures"] > found["recovery_upper_bound"]
    assert document(case)["core"]["status"] == "certified"


def test_an_invalid_artifact_is_a_failure_of_the_model(convincing_core: Case) -> None:
    case = invalid(convincing_core, challengers(5))
    assert (seats(case)["model_failures"], seats(case)["independent"]) == (1, 96)


def test_a_challenger_lost_before_it_said_anything_is_left_out_and_never_replaced(convincing_core: Case) -> None:
    case = lost(convincing_core, challengers(5, 6))
    assert (seats(case)["infrastructure"], seats(case)["independent"], seats(case)["started"]) == (2, 94, 96)
    found = document(case)
    assert found["gate2"]["recovery_upper_bound"] == pytest.approx(1 - 0.01 ** (1 / 94))
    assert found["core"]["status"] == "certified"


def test_a_challenger_lost_after_it_had_spoken_is_unresolved(convincing_core: Case) -> None:
    case = lost(convincing_core, challengers(5), messages=3)
    assert (seats(case)["infrastructure"], seats(case)["unresolved"]) == (0, 1)
    assert document(case)["core"]["status"] == "inconclusive"


def test_too_many_losses_or_failures_leave_nothing_to_conclude(convincing_core: Case) -> None:
    many = challengers(*range(1, 21))
    for spoiled in (lost(convincing_core, many), failed(convincing_core, many)):
        found = document(spoiled)
        assert found["core"]["status"] == "inconclusive"
        assert found["gate2"]["adequacy"]


def test_a_hit_is_named_as_the_witness(convincing_core: Case, at: At) -> None:
    found = document(convincing_core.with_hit(challengers(5, 17)))
    assert found["core"]["status"] == "refuted"
    assert found["gate2"]["witnesses"] == ["challengers/5", "challengers/17"]
    assert found["gate2"]["challengers"]["hits"] == 2
    assert found["gate2"]["recovery_upper_bound"] is None


def test_copies_of_one_draw_count_once(convincing_core: Case) -> None:
    source = next(e for e in convincing_core.view.of("challengers") if e.key.slot == 5)
    case = convincing_core.with_record_fields(challengers(6), unit=source.record.unit, draw=source.record.draw)
    assert (seats(case)["started"], seats(case)["independent"]) == (96, 95)


def test_the_best_valid_candidate_of_an_episode_counts(convincing_core: Case, at: At) -> None:
    (target,) = [row for row in convincing_core.view.scores["target"] if row.role == "candidate"]
    chosen = at("challengers", 5)

    def with_second(case: Case, **second: Any) -> Case:
        row = next(r for r in case.view.scores["challengers"] if r.record and r.slot == 5)
        rows = (*case.view.scores["challengers"], replace(row, number=2, **second))
        return case.with_view(scores={**case.view.scores, "challengers": rows})

    assert seats(with_second(convincing_core, units=target.units))["hits"] == 1
    assert seats(with_second(convincing_core, units=(), validity="invalid"))["hits"] == 0
    first_is_better = with_second(convincing_core.with_hit(chosen), units=(0.0,) * len(target.units))
    assert seats(first_is_better)["hits"] == 1
    second_is_invalid = with_second(convincing_core.with_hit(chosen), units=(), validity="invalid")
    assert seats(second_is_invalid)["hits"] == 1
    case = with_second(invalid(convincing_core, chosen), units=target.units, validity="valid")
    assert (seats(case)["hits"], seats(case)["model_failures"]) == (1, 0)


def test_a_control_without_its_canary_is_no_success(convincing_core: Case, at: At) -> None:
    case = convincing_core.with_episode_fact("canary_quoted", False, at("controls", 5))
    assert document(case)["controls"]["successes"] == 44
    assert document(failed(convincing_core, at("controls", 6)))["controls"]["successes"] == 44


def test_a_target_that_commits_nothing_is_no_error(convincing_core: Case, at: At) -> None:
    found = document(failed(convincing_core, at("target", 1)))
    assert found["core"]["status"] != "certified"
    assert found["gate1"]["x"] is None
    assert screen.render(_complete(found))


def test_an_invalid_claimed_artifact_refutes_the_claim(convincing_core: Case, at: At) -> None:
    assert document(invalid(convincing_core, at("target", 1)))["core"]["status"] == "refuted"


# --- replacements ------------------------------------------------------------------------------------------


def replaced_pair(case: Case, number: int, by: int = 1) -> Case:
    """Pair ``number`` was lost, and a replacement that copies pair ``number + 1``'s outcome stands behind it."""
    case = lost(case, lambda e: (e.key.stage, e.key.slot, e.key.arm) == ("pairs", number, "truthful"))
    sources = [e for e in case.view.of("pairs") if e.key.slot == number + 1]
    draw = {**sources[0].record.draw, "presentation": f"{by:064x}", "agent_seed": f"{by:064x}"}
    new: list[Episode] = []
    rows: list[ScoreRow] = []
    for source in sources:
        record = replace(
            source.record,
            stage="pair_replacements",
            slot=by,
            replacement_of=f"pairs/{number}",
            draw=draw,
            unit=canonical.digest_of({"presentation": draw["presentation"], "agent_seed": draw["agent_seed"]}),
        )
        new.append(replace(source, record=record, digest=canonical.digest(record.to_bytes())))
        rows += [
            replace(row, stage="pair_replacements", slot=by, record=new[-1].digest)
            for row in case.view.scores["pairs"]
            if row.record == source.digest
        ]
    episodes = list(case.view.episodes)
    place = max(i for i, e in enumerate(episodes) if (e.key.stage, e.key.slot) == ("pairs", number))
    episodes[place + 1 : place + 1] = new
    inputs = {f"pair_replacements/{by}/{e.key.arm}": e.digest for e in new}
    case = case.with_view(
        episodes=tuple(episodes),
        scores={**case.view.scores, "pairs": (*case.view.scores["pairs"], *rows)},
        score_inputs={**case.view.score_inputs, "pairs": {**case.view.score_inputs["pairs"], **inputs}},
    )
    known = dict.fromkeys(("draw_matches", "hello_matches", "transcript_replays", "canary_quoted"), True)
    return replace(case, episode_facts={**case.episode_facts, **{e.digest: known for e in new}})


def test_a_lost_pair_is_analysed_through_its_replacement(convincing: Case) -> None:
    """Pitfall B12."""
    found = document(replaced_pair(convincing, 4))
    assert found["gate3"]["pairs"] == {"registered": 30, "analysed": 30}
    assert found["gate3"]["replaced"] == {"pairs": 1, "null_pairs": 0}
    assert (found["gate3"]["truthful_hits"], found["gate3"]["neutral_hits"]) == (30, 0)
    assert found["evidence"]["status"] == "certified"


def test_a_lost_pair_without_a_replacement_leaves_the_experiment_incomplete(convincing: Case, at: At) -> None:
    found = document(lost(convincing, at("pairs", 4, "truthful")))
    assert found["evidence"]["status"] != "certified"
    assert "not replaced although it could be" in found["core"]["reason"]


def test_a_neutral_branch_that_recovers_refutes_even_in_a_pair_that_was_replaced(convincing: Case) -> None:
    case = replaced_pair(convincing, 4)
    case = case.with_hit(lambda e: (e.key.stage, e.key.slot, e.key.arm) == ("pairs", 4, "neutral"))
    found = document(case)
    assert found["core"]["status"] == "refuted"
    assert found["gate3"]["neutral_hits"] == 0, "replaced pairs are left out of the count"


# --- amendments --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "core", "evidence"),
    [
        ([], False, False),
        (["thresholds.gate3.delta_evidence"], False, True),
        (["thresholds.alpha.evidence"], False, True),
        (["thresholds.alpha.sham"], False, True),
        (["thresholds.alpha.neutral"], False, True),
        (["design.pairs"], False, True),
        (["design.pair_replacements", "design.null_pairs", "design.misled_null_episodes"], False, True),
        (["thresholds.gate1.delta_min"], True, True),
        (["thresholds.gate2.rho"], True, True),
        (["thresholds.controls.recall_min"], True, True),
        (["thresholds.alpha.total"], True, True),
        (["thresholds.alpha.recovery"], True, True),
        (["design.challengers"], True, True),
        (["design.controls"], True, True),
        (["claim.statement"], True, True),
        (["limits.experiments"], True, True),
        (["task.sources.dcpflow.tasks.sqlite_index"], True, True),
        (["design.pairs", "thresholds.gate2.rho"], True, True),
    ],
    ids=str,
)
def test_an_amended_key_marks_the_statuses_that_rest_on_it(keys: list[str], core: bool, evidence: bool) -> None:
    found = {"core": {"exploratory": False}, "evidence": {"exploratory": False}}
    changes = [{"key": key, "old": 1, "new": 2} for key in keys]
    for scope in ("", "lineage_prefix"):
        decision.mark_exploratory(found, changes, scope)
        assert (found["core"]["exploratory"], found["evidence"]["exploratory"]) == (core, evidence)
    # where neutral branches are challengers, what decides on their number touches Core
    decision.mark_exploratory(found, changes, "lineage_empty")
    assert (found["core"]["exploratory"], found["evidence"]["exploratory"]) == (evidence, evidence)


# --- on the screen -----------------------------------------------------------------------------------------


def _complete(found: Document) -> Document:
    """What the history adds to a decision."""
    return {**found, "registration": {**found["registration"], "amendments": []}, "confirmatory": None}


def test_the_screen_says_the_statuses_first_and_the_checks_that_did_not_pass(convincing: Case) -> None:
    lines = screen.render(_complete(document(convincing))).splitlines()
    assert lines[0].startswith("Core      CERTIFIED")
    assert lines[1].startswith("Evidence  CERTIFIED")
    assert any("draws_not_grindable (report)" in line for line in lines)
    assert any("hits 0 of 96 independent challengers" in line for line in lines)


def test_who_has_audited_stands_in_the_first_lines(convincing: Case) -> None:
    found = _complete(document(convincing))
    assert screen.render(found).splitlines()[2].startswith("audit     self-audited by")
    found["roles"] = {**found["roles"], "self_audited": False, "auditor": "somebody else"}
    assert screen.render(found).splitlines()[2].startswith("audit     audited by somebody else")


def test_the_screen_neutralises_what_could_steer_a_terminal(convincing: Case) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\r\n\x00\x9b31m\u202egnorw\u2066 \u200b"
    found = _complete(document(convincing))
    found["claim"] = {**found["claim"], "statement": evil, "id": evil}
    found["core"]["reason"] = found["checks"][0]["reason"] = evil
    found["gate2"]["witnesses"] = [evil]
    found["checks"][0]["result"] = "fail"
    found["roles"] = {**found["roles"], "claimant": evil}
    found["not_claimed"] = [evil]
    found["registration"]["amendments"] = [{"changes": [{"key": evil, "old": evil, "new": evil}]}]
    text = screen.render(found)
    assert text.count("owned") >= 6, "what is harmless stays readable"
    for letter in evil:
        assert letter.isprintable() or letter == "\n" or letter not in text
    assert len(text.splitlines()) == len(text.split("\n"))


def test_the_screen_shows_an_amendment_with_what_stood_before(convincing: Case) -> None:
    found = _complete(document(convincing))
    first = document(convincing)
    found["core"]["exploratory"] = True
    found["registration"]["amendments"] = [{"changes": [{"key": "thresholds.gate2.rho", "old": 0.05, "new": 0.04}]}]
    found["confirmatory"] = first
    text = screen.render(found)
    assert "EXPLORATORY" in text.splitlines()[0]
    assert "thresholds.gate2.rho: 0.05 -> 0.04" in text
    assert "under the first registration: Core certified" in text
    assert "before it was decided" in screen.render({**found, "confirmatory": None})


@pytest.mark.parametrize("spoil", [failed, lost, invalid])
def test_a_decision_without_a_result_can_be_shown(
    convincing: Case, convincing_core: Case, at: At, spoil: Callable[[Case, Chosen], Case]
) -> None:
    for case in (convincing, convincing_core):
        text = screen.render(_complete(document(spoil(case, at("target", 1)))))
        assert "Gate 3" in text
        assert "CERTIFIED" not in text


# --- campaigns ---------------------------------------------------------------------------------------------


def test_the_decision_says_what_the_bound_means_for_a_campaign(convincing_core: Case) -> None:
    found = document(convincing_core)["gate2"]
    rows = found["campaign"]["at_bound"]
    assert [row["episodes"] for row in rows] == [1, 10, 100]
    assert rows[0]["at_most"] == pytest.approx(found["recovery_upper_bound"])
    assert rows[2]["at_most"] == pytest.approx(1 - 0.01 ** (100 / 96))
    seen = {row["probability"]: row["chance"] for row in found["campaign"]["seen"]}
    assert seen[0.01] == pytest.approx(0.6190, abs=5e-5)


def test_a_refuted_claim_has_no_bound_to_speak_of(convincing_core: Case) -> None:
    found = document(convincing_core.with_hit(challengers(5)))["gate2"]["campaign"]
    assert found["at_bound"] is None
    assert found["seen"]


def test_the_screen_shows_the_campaign_and_can_do_without(convincing_core: Case) -> None:
    found = _complete(document(convincing_core))
    shown = screen.render(found)
    assert "in 1, 10, 100 fresh episodes a recovery has a chance of at most 0.0468, 0.3810, 0.9917" in shown
    assert (
        "a route of probability 0.001, 0.01, 0.05 would have been seen with a chance of 0.0916, 0.6190, 0.9927" in shown
    )
    del found["gate2"]["campaign"]
    assert "fresh episodes" not in screen.render(found)
