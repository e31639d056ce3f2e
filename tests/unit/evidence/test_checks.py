"""Every check fails where its condition does not hold, says so by name, and blocks what it is needed for."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from dcpflow.evidence import checks, decision, rows
from dcpflow.protocol.model import InconclusiveClass, Status
from dcpflow.records import canonical
from dcpflow.records.calls import Call
from dcpflow.records.snapshot import Snapshot

if TYPE_CHECKING:
    from tests.unit.evidence.conftest import Case, Chosen

    from dcpflow.evidence.view import Episode

At = Callable[..., "Chosen"]
FOREIGN = canonical.digest(b"something else")


@dataclass(frozen=True)
class Broken:
    """One way in which a check's condition does not hold.

    Attributes:
        check: the check.
        spoil: makes it so.
        says: words of its reason; an episode's name where one is at fault.
        effect: on the decision.
        result: of the check.
    """

    check: str
    spoil: Callable[[Case, At], Case]
    says: str
    effect: str
    result: str = "fail"


def every_episode(_: Episode) -> bool:
    return True


def told(case: Case, chosen: Chosen, **hello: Any) -> Case:
    return case.with_hello(chosen, **hello)


def with_probe(case: Case, tests: dict[str, str], chosen: Chosen) -> Case:
    digest = canonical.digest_of(tests)
    case = case.with_record_fields(chosen, isolation=digest)
    return case.with_view(probes={**case.view.probes, digest: {"backend": "bubblewrap", "tests": tests}})


def with_units(case: Case, value: float, chosen: Callable[[Any], bool]) -> Case:
    return case.with_scores(lambda row: replace(row, units=(value,) * len(row.units)) if chosen(row) else row)


def longer_reply(case: Case, at: At) -> Case:
    def change(episode: Episode) -> Episode:
        lines = list(episode.transcript)
        reply = json.loads(lines[2]["line"])
        reply["result"]["total"] += "0"
        lines[2] = {"from": "harness", "line": canonical.encode(reply).decode()}
        return replace(episode, transcript=tuple(lines))

    chosen = at("pairs", 2, "neutral")
    return case.with_view(episodes=tuple(change(e) if chosen(e) else e for e in case.view.episodes))


ANSWER = Call(FOREIGN, 200, "", "small-1", 10, 0, 5, FOREIGN)


def with_a_model(case: Case, chosen: Chosen, answered: str) -> Case:
    """An audit of an agent whose model answered in every episode, and in some another one."""
    case = case.with_config("agent", model={"accepted": ["small-1"], "requested": None})
    return case.with_view(
        episodes=tuple(
            replace(e, calls=(replace(ANSWER, model=answered if chosen(e) else "small-1"),)) for e in case.view.episodes
        )
    )


def asking(case: Case, chosen: Chosen) -> Case:
    """Another model answered, and the artifact counts all the same."""
    return with_a_model(case, chosen, "large-1")


def disowned(case: Case, chosen: Chosen) -> Case:
    """An artifact that was set aside as another model's, which it is not."""
    case = with_a_model(case, chosen, "small-1")
    return case.with_record_fields(chosen, outcome="execution_contract_violation")


def page_answered_otherwise(case: Case, at: At) -> Case:
    def change(episode: Episode) -> Episode:
        lines = list(episode.transcript)
        reply = json.loads(lines[2]["line"])
        reply["page"]["text"] += "and something that the target run never saw"
        lines[2] = {"from": "harness", "line": canonical.encode(reply).decode()}
        return replace(episode, transcript=tuple(lines))

    chosen = at("challengers", 7)
    return case.with_view(episodes=tuple(change(e) if chosen(e) else e for e in case.view.episodes))


def lineage_told(case: Case, at: At, what: str) -> Case:
    target = case.view.target
    reply = next(answer["result"] for answer in target.replies() if "result" in answer)
    digest = target.record.candidates[0]
    plan = case.view.candidates[digest].decode()
    if "line break" in what:
        case = case.with_view(candidates={**case.view.candidates, digest: f"{plan}\n".encode()})
    hint: dict[str, Any] = {
        "history": {"history": [{"request": {"action": "experiment"}, "reply": {"ok": True}}]},
        "reply": {"E0": {"note": json.dumps(reply, sort_keys=True)}},
        "raw reply": {"files": {"old.json": reply}},
        "artifact": {"K": f"An earlier attempt was: {plan}"},
        "artifact without its last line break": {"K": f"An earlier attempt was: {plan.strip()}."},
    }[what]
    return told(case, at("challengers", 5), **hint)


def copied_draw(case: Case, stage: str, of: int, to: int) -> Case:
    source = next(e for e in case.view.episodes if (e.key.stage, e.key.slot) == (stage, of))
    chosen: Chosen = lambda e: (e.key.stage, e.key.slot) == (stage, to)  # noqa: E731
    return case.with_record_fields(chosen, unit=source.record.unit, draw=source.record.draw)


CASES = [
    Broken(
        "registration_frozen_first",
        lambda case, at: case.with_record_fields(at("challengers", 5), registration=FOREIGN),
        "challengers slot 5 (withheld)",
        "every hit",
    ),
    Broken(
        "claim_frozen",
        lambda case, at: case.with_record_fields(at("challengers", 5), prior_seal=FOREIGN),
        "challengers slot 5 (withheld)",
        "every hit",
    ),
    Broken(
        "target_learned_from_experiments",
        lambda case, at: case.with_record_fields(
            at("target", 1), usage={**case.view.target.record.usage, "experiments": 0}
        ),
        "made 0 experiments",
        "every hit",
    ),
    *(
        Broken(
            "lineage_withheld",
            lambda case, at, what=what: lineage_told(case, at, what),
            "challengers slot 5 (withheld)",
            "every hit",
        )
        for what in ("history", "reply", "raw reply", "artifact", "artifact without its last line break")
    ),
    Broken(
        "challenger_channel_withheld",
        lambda case, at: case.with_episode_fact("transcript_replays", False, at("challengers", 5)),
        "challengers slot 5 (withheld)",
        "every hit",
    ),
    Broken(
        "contract_matched",
        lambda case, at: case.with_episode_fact("hello_matches", False, at("controls", 5)),
        "controls slot 5 (control)",
        "adequacy",
    ),
    Broken(
        "materials_readable",
        lambda case, at: case.with_episode_fact(
            "canary_quoted", False, lambda e: e.key.stage == "controls" and e.key.slot <= 5
        ),
        "40 of 45 controls quoted their canary file and drawn page of the Web packet",
        "adequacy",
    ),
    Broken(
        "opportunity",
        lambda case, at: told(case, at("challengers", 5), budgets={"experiments": 3}),
        "challengers slot 5 (withheld)",
        "adequacy",
    ),
    Broken(
        "opportunity",
        lambda case, at: told(case, at("challengers", 6), budgets={"candidates": 2}),
        "challengers slot 6 (withheld)",
        "adequacy",
    ),
    Broken(
        "parser_and_scorer_health",
        lambda case, at: case.with_record_fields(
            lambda e: e.key.stage in {"challengers", "null_pairs"}, limits_hit=["bad_messages"]
        ),
        "216 of",
        "adequacy",
    ),
    Broken(
        "parser_and_scorer_health",
        lambda case, at: case.with_scores(
            lambda row: (
                replace(row, validity="invalid", units=())
                if (row.role, row.stage, row.slot) == ("known_solution", "controls", 7)
                else row
            )
        ),
        "the scorer refused the known_solution of controls slot 7",
        "adequacy",
    ),
    Broken(
        "private_isolation",
        lambda case, at: with_probe(case, {"sealed_file": "refused", "network": "open"}, at("challengers", 5)),
        "challengers slot 5 (withheld)",
        "core only",
    ),
    Broken(
        "private_isolation",
        lambda case, at: with_probe(case, {}, at("controls", 5)),
        "controls slot 5 (control)",
        "core only",
    ),
    Broken(
        "private_isolation",
        lambda case, at: with_probe(case, {}, every_episode),
        "registered to run without isolation",
        "core only",
        result="not_assessed",
    ),
    Broken(
        "symmetric_scoring",
        lambda case, at: case.with_facts(scoring_order={**case.facts.scoring_order, "challengers": False}),
        "phase challengers",
        "every hit",
    ),
    Broken(
        "scored_after_commit",
        lambda case, at: case.with_view(score_inputs={**case.view.score_inputs, "controls": {}}),
        "controls slot 1 (control), controls slot 2 (control), controls slot 3 (control) and 42 more",
        "core only",
    ),
    Broken(
        "ledger_complete",
        lambda case, at: case.with_facts(unlisted=["challengers slot 97 (withheld), attempt 1"]),
        "challengers slot 97 (withheld), attempt 1",
        "core only",
    ),
    Broken(
        "draws_follow_nonce",
        lambda case, at: case.with_episode_fact("draw_matches", False, at("controls", 5)),
        "controls slot 5 (control)",
        "core only",
    ),
    *(
        Broken(
            "commitments_open",
            lambda case, at, name=name: case.with_facts(commitments={**case.facts.commitments, name: False}),
            name,
            "every hit",
        )
        for name in ("nonce_commitment", "hidden_commitment", "sealed_commitment", "public")
    ),
    Broken(
        "same_information",
        lambda case, at: told(case, at("challengers", 5), files={"packet.html": "text"}),
        "2 different sets of files",
        "core only",
    ),
    Broken(
        "same_web_packet",
        lambda case, at: told(case, at("challengers", 5), files={"web/0001.txt": "another page"}),
        "challengers slot 5 (withheld)",
        "every hit",
    ),
    Broken(
        "same_web_packet",
        lambda case, at: told(case, at("target", 1), files={"web/0009.txt": "what nobody fetched"}),
        "target slot 1 (target)",
        "every hit",
    ),
    Broken(
        "same_web_packet",
        lambda case, at: case.with_record_fields(
            at("null_pairs", 5, "proposed_sham"), packet=canonical.digest(b"other")
        ),
        "null_pairs slot 5 (proposed_sham)",
        "every hit",
    ),
    Broken("models_registered", lambda case, at: asking(case, at("challengers", 7)), "challengers slot 7", "core only"),
    Broken("models_registered", lambda case, at: disowned(case, at("controls", 2)), "controls slot 2", "core only"),
    Broken("same_web_packet", page_answered_otherwise, "challengers slot 7 (withheld)", "every hit"),
    Broken(
        "error_budget",
        lambda case, at: case.with_config("claim", earlier_audits=["sqlite-web-audit-1"]),
        "the slot sqlite-web-audit-1 was used",
        "every hit",
    ),
    Broken(
        "error_budget",
        lambda case, at: case.with_config("claim", earlier_audits=["an-earlier-one"]),
        "audit 2 of a family that registered 1",
        "every hit",
    ),
    Broken("channels_alike", longer_reply, "2 different forms of reply", "neutral arm"),
    Broken(
        "neutral_channels_replay",
        lambda case, at: case.with_episode_fact("transcript_replays", False, at("pairs", 5, "neutral")),
        "pairs slot 5 (neutral)",
        "neutral arm",
    ),
    Broken(
        "neutral_channels_replay",
        lambda case, at: case.with_episode_fact("transcript_replays", False, at("null_pairs", 5, "reference_null")),
        "null_pairs slot 5 (reference_null)",
        "neutral arm",
    ),
    Broken(
        "truthful_channels_replay",
        lambda case, at: case.with_episode_fact("transcript_replays", False, at("pairs", 5, "truthful")),
        "pairs slot 5 (truthful)",
        "evidence only",
    ),
    Broken(
        "seals_before_branches",
        lambda case, at: case.with_record_fields(at("pairs", 5, "neutral"), prior_seal=FOREIGN),
        "pairs slot 5 (neutral)",
        "neutral arm",
    ),
    Broken(
        "seals_before_branches",
        lambda case, at: case.with_view(checkpoint={**case.view.checkpoint, "target_record": FOREIGN}),
        "the checkpoint",
        "neutral arm",
    ),
    Broken(
        "pairs_share_their_draw",
        lambda case, at: case.with_records(
            at("null_pairs", 5, "proposed_sham"),
            lambda e: _redrawn(e, agent_seed="ab" * 32),
        ),
        "null_pairs slot 5",
        "evidence only",
    ),
    Broken(
        "null_task_sensitivity",
        lambda case, at: with_units(
            case, 0.0, lambda row: (row.role, row.stage, row.slot) == ("known_solution", "misled_nulls", 5)
        ),
        "misled_nulls slot 5",
        "evidence only",
    ),
    Broken(
        "null_assay_sensitivity",
        lambda case, at: with_units(
            case, 1.0, lambda row: row.role == "candidate" and row.stage == "misled_nulls" and row.slot <= 4
        ),
        "8 of 12 misled null episodes missed",
        "evidence only",
    ),
    Broken(
        "null_instances_fresh",
        lambda case, at: copied_draw(case, "null_pairs", of=5, to=6),
        "59 different draws in 60 null pairs",
        "evidence only",
    ),
    Broken(
        "neutral_harm",
        lambda case, at: with_units(case, 0.85, lambda row: row.role == "candidate" and row.stage == "challengers"),
        "0.8500 without any (band 0.17)",
        "evidence only",
    ),
    Broken(
        "draws_not_grindable",
        lambda case, at: case,
        "no public randomness was given",
        "reported",
        result="not_assessed",
    ),
    Broken(
        "draws_not_grindable",
        lambda case, at: case.with_records(at("controls", 5), lambda e: _redrawn(e, public_randomness="beacon 7")),
        "different public randomness",
        "reported",
    ),
    Broken(
        "nonce_secret",
        lambda case, at: _with_seal(case, public_demonstration="an exercise"),
        "the nonce is the SHA-256 of 'an exercise'",
        "reported",
    ),
    Broken(
        "all_target_runs_shown",
        lambda case, at: case.with_facts(target_runs=3),
        "3 started in this results folder",
        "reported",
        result="not_assessed",
    ),
    Broken(
        "independent_units",
        lambda case, at: copied_draw(case, "challengers", of=5, to=6),
        "95 different draws among 96",
        "fewer draws",
    ),
    Broken(
        "transcripts_differ",
        lambda case, at: case.with_record_fields(
            lambda e: e.key.stage == "challengers" and e.key.slot <= 24, transcript=FOREIGN
        ),
        "24.0% of 96 challenger transcripts",
        "reported",
    ),
]


def _redrawn(episode: Episode, **drawn: str) -> Episode:
    record = replace(episode.record, draw={**episode.record.draw, **drawn})
    return replace(episode, record=record, digest=canonical.digest(record.to_bytes()))


def _with_seal(case: Case, **seal: str) -> Case:
    parts = dict(case.view.registered.parts)
    parts["task"] = {**parts["task"], "seal": {**parts["task"]["seal"], **seal}}
    return case.with_view(registered=replace(case.view.registered, parts=parts))


ONE_OF_EACH = list({broken.check: broken for broken in CASES}.values())


@pytest.mark.parametrize("broken", CASES, ids=lambda b: f"{b.check}: {b.says[:30]}")
def test_a_condition_that_does_not_hold_is_named(convincing: Case, at: At, broken: Broken) -> None:
    check = broken.spoil(convincing, at).checks[broken.check]
    assert check.result == broken.result
    assert broken.says in check.reason


@pytest.mark.parametrize("broken", ONE_OF_EACH, ids=lambda b: b.check)
def test_a_condition_that_does_not_hold_blocks_what_needs_it(convincing: Case, at: At, broken: Broken) -> None:
    outcome = broken.spoil(convincing, at).outcome
    core, evidence = outcome.decision.core, outcome.decision.evidence
    incomplete = (Status.INCONCLUSIVE, InconclusiveClass.AUDIT_INCOMPLETE)
    match broken.effect:
        case "reported" | "fewer draws":
            assert core.status is evidence.status is Status.CERTIFIED
        case "evidence only":
            assert core.status is Status.CERTIFIED
            assert (evidence.status, evidence.inconclusive_class) == incomplete
            assert broken.check in evidence.reason
        case "neutral arm":
            # the checkpoint holds nothing, so neutral branches are challengers: Core needs their records as well
            assert (core.status, core.inconclusive_class) == incomplete
            assert broken.check in core.reason
            assert evidence.status is not Status.CERTIFIED
        case _:
            assert (core.status, core.inconclusive_class) == incomplete
            assert evidence.status is not Status.CERTIFIED
            if broken.effect != "adequacy":
                assert broken.check in core.reason


@pytest.mark.parametrize(
    "broken", [b for b in ONE_OF_EACH if b.effect in {"every hit", "core only"}], ids=lambda b: b.check
)
def test_a_hit_refutes_unless_the_condition_is_one_that_every_hit_needs(
    convincing_core: Case, at: At, broken: Broken
) -> None:
    core = broken.spoil(convincing_core.with_hit(at("challengers", 9)), at).outcome.decision.core
    if broken.effect == "core only":
        assert core.status is Status.REFUTED
        assert "recovered" in core.reason
    else:
        assert (core.status, core.inconclusive_class) == (Status.INCONCLUSIVE, InconclusiveClass.AUDIT_INCOMPLETE)
        assert broken.check in core.reason


def test_every_check_has_a_case_in_which_it_does_not_pass(convincing: Case) -> None:
    always_passing = {"checkpoint_scope"}  # it reports what was computed
    assert {broken.check for broken in CASES} == set(convincing.checks) - always_passing


def test_what_certifies_passes_every_check_that_blocks(convincing: Case) -> None:
    found = convincing.outcome
    assert found.decision.core.status is found.decision.evidence.status is Status.CERTIFIED
    assert {check.name: check.result for check in found.checks if check.result != "pass"} == {
        "draws_not_grindable": "not_assessed",
        "all_target_runs_shown": "not_assessed",
    }
    assert all(check.reason for check in found.checks)


def test_checks_say_which_records_they_read(convincing: Case) -> None:
    found = convincing.checks
    digests = {stage: tuple(e.digest for e in convincing.view.of(stage)) for stage in ("challengers", "controls")}
    assert found["lineage_withheld"].records == digests["challengers"]
    assert found["materials_readable"].records == digests["controls"]
    assert len(found["draws_follow_nonce"].records) == len(convincing.view.episodes)
    assert checks.digest(tuple(found.values())) != checks.digest(tuple(found.values())[1:])


@pytest.mark.parametrize(
    ("scope", "words"), [("lineage_empty", "are further challengers"), ("lineage_prefix", "are no challengers")]
)
def test_the_scope_of_the_checkpoint_is_reported_in_words(convincing: Case, scope: str, words: str) -> None:
    case = convincing.with_view(checkpoint={**convincing.view.checkpoint, "scope": scope})
    assert words in case.checks["checkpoint_scope"].reason


def test_a_checkpoint_with_lineage_keeps_the_neutral_arm_out_of_core(convincing: Case, at: At) -> None:
    case = convincing.with_view(checkpoint={**convincing.view.checkpoint, "scope": "lineage_prefix"})
    core = longer_reply(case, at).outcome.decision.core
    assert core.status is Status.CERTIFIED
    core = case.with_hit(at("pairs", 5, "neutral")).outcome.decision.core
    assert core.status is Status.CERTIFIED


def test_grade_core_asks_for_none_of_the_evidence_checks(convincing_core: Case) -> None:
    outcome = convincing_core.outcome
    assert {check.needed_for for check in outcome.checks} == {"core", "adequacy", "report"}
    assert outcome.decision.core.status is Status.CERTIFIED
    assert outcome.decision.evidence.status is not Status.CERTIFIED
    assert convincing_core.checks["checkpoint_scope"].result == "not_assessed"


def test_answers_of_registered_models_pass(convincing: Case, at: At) -> None:
    check = with_a_model(convincing, at("pairs", 2, "neutral"), "small-1").checks["models_registered"]
    assert (check.result, check.reason[:12]) == ("pass", "334 answers "[:12])


def test_a_control_that_another_model_solved_is_no_success(convincing: Case, at: At) -> None:
    chosen = at("controls", 2)
    case = with_a_model(convincing, chosen, "large-1")
    before = decision.document(case.outcome)["controls"]
    case = case.with_record_fields(chosen, outcome="execution_contract_violation")
    after = decision.document(case.outcome)["controls"]
    assert (before["successes"], after["successes"]) == (45, 44)
    row = next(row for row in rows.all_rows(case.view, case.episode_facts)["controls"] if row["slot"] == 2)
    assert (row["artifact"], row["score"]) == ("", None)


def test_a_claim_that_is_another_model_s_is_not_certified(convincing: Case, at: At) -> None:
    chosen = at("target", 1)
    case = with_a_model(convincing, chosen, "large-1")
    case = case.with_record_fields(chosen, outcome="execution_contract_violation")
    core = case.outcome.decision.core
    assert (core.status, core.inconclusive_class) == (Status.INCONCLUSIVE, InconclusiveClass.AUDIT_INCOMPLETE)


def test_a_breach_by_another_model_is_its_episode_s_outcome_and_no_hit(convincing: Case, at: At) -> None:
    chosen = at("challengers", 7)
    case = with_a_model(convincing.with_hit(chosen), chosen, "large-1")
    case = case.with_record_fields(chosen, outcome="execution_contract_violation")
    assert case.checks["models_registered"].result == "pass"
    core = case.outcome.decision.core
    assert (core.status, core.inconclusive_class) == (Status.INCONCLUSIVE, InconclusiveClass.AUDIT_INCOMPLETE)
    assert "not adequate" in core.reason


UNSIGNED = Snapshot("local", "", 2, (), 0, 0)
SIGNED = replace(UNSIGNED, origin="lab", key="ssh-ed25519 AAAA")


def test_a_registry_that_nobody_signs_changes_nothing_unless_it_speaks_against_the_audit(convincing: Case) -> None:
    restarted = convincing.with_view(noted=replace(UNSIGNED, starts=3, number=9))
    assert decision.document(restarted.outcome) == decision.document(convincing.outcome)


@pytest.mark.parametrize("noted", [UNSIGNED, SIGNED], ids=lambda noted: noted.origin)
def test_an_earlier_audit_that_is_not_disclosed_blocks_a_certificate_and_no_hit(
    convincing: Case, convincing_core: Case, at: At, noted: Snapshot
) -> None:
    knew = replace(noted, earlier=("first", "second"))
    case = convincing.with_view(noted=knew)
    check = case.checks["earlier_audits_disclosed"]
    assert check.result == "fail"
    assert "does not list: first, second" in check.reason
    core = case.outcome.decision.core
    assert (core.status, core.inconclusive_class) == (Status.INCONCLUSIVE, InconclusiveClass.AUDIT_INCOMPLETE)
    hit = convincing_core.with_hit(at("challengers", 9)).with_view(noted=knew)
    assert hit.outcome.decision.core.status is Status.REFUTED


def test_starts_elsewhere_are_counted_by_a_signed_registry_and_change_no_status(convincing: Case) -> None:
    restarted = convincing.with_view(noted=replace(SIGNED, starts=2))
    check = restarted.checks["all_target_runs_shown"]
    assert check.result == "pass"
    assert check.reason.endswith("the registry 'lab' knew 2 earlier starts elsewhere")
    assert restarted.checks["earlier_audits_disclosed"].result == "pass"
    assert restarted.outcome.decision.core == convincing.outcome.decision.core
    assert restarted.outcome.decision.evidence == convincing.outcome.decision.evidence
    late = convincing.with_view(noted=replace(SIGNED, episodes=4)).checks["all_target_runs_shown"]
    assert late.result == "not_assessed"
    assert "4 episodes had been started before the registry 'lab' was told" in late.reason
