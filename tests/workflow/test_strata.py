"""A stratum of challengers in a finished audit: it runs its own episodes, and the audit's own stand as they were."""

from __future__ import annotations

from workflow.conftest import Audit

STRATUM = {"limits": {"experiments": 6}, "challengers": 2, "alpha": 0.1}


def test_a_stratum_added_to_a_finished_audit_runs_its_own_episodes_alone(audit: Audit) -> None:
    first, records = audit.decision, audit.records()
    audit.change({"strata": {"strong": STRATUM}})
    run = audit.finish()
    assert sorted(run.rules) == [
        "count_slots",
        "count_slots",
        "decide",
        "evidence",
        "freeze_stratum",
        "register",
        "replay_channels",
        "run_stratum",
        "score_stratum",
    ]
    assert {path: audit.records()[path] for path in records} == records
    assert len(audit.records()) == len(records) + 2

    added = audit.decision
    assert [added[key] for key in ("core", "evidence", "gate2", "gate3")] == [
        first[key] for key in ("core", "evidence", "gate2", "gate3")
    ]
    assert added["confirmatory"]["core"] == first["core"]
    (amendment,) = added["registration"]["amendments"]
    assert [change["key"] for change in amendment["changes"]] == ["design.strata"]
    block = added["strata"]["strong"]
    assert (block["label"], block["challengers"]["started"], block["exploratory"]) == ("informative", 2, True)
    assert "Stratum   strong (informative, EXPLORATORY)" in audit.dcpflow("show").text
    assert audit.dcpflow("verify").code == 0
    assert audit.run().idle

    # taken away again, the first registration is in force, and with it the decision that was first, which only adds
    # that there was a stratum
    audit.change({})
    assert audit.finish().code == 0
    (told,) = audit.decision["headline"]
    assert told == "the stratum strong was registered with 2 challengers (2 started) and is no longer shown"
    assert audit.decision == {**first, "headline": [told]}
