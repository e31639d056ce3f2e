"""Further neutral policies in a finished audit: their pairs run, and the audit's own stand as they were."""

from __future__ import annotations

import json
from collections import Counter

from workflow.conftest import Audit

POLICIES = {"neutral_policies": ["proposed_sham", "reference_null", "lagged_sham"]}
PAIRS = {"neutral_policy_pairs": {"reference_null": 2, "lagged_sham": 2}}


def test_policies_added_to_a_finished_audit_run_their_own_pairs_alone(audit: Audit) -> None:
    first, records = audit.decision, audit.records()
    audit.change({"design": POLICIES | PAIRS})
    planned = json.loads(audit.dcpflow("plan-rerun", "--json").text)
    assert planned["episodes"] == {"pairs_reference_null": 4, "pairs_lagged_sham": 4}
    assert planned["exploratory"] == {"core": False, "evidence": False}
    run = audit.finish()
    assert Counter(run.rules) == Counter(
        {
            "register": 1,
            "count_slots": 3,
            "run_policy_pair": 2,
            "score_policy": 2,
            "replay_channels": 2,
            "evidence": 1,
            "decide": 1,
        }
    )
    assert {path: audit.records()[path] for path in records} == records
    assert len(audit.records()) == len(records) + 8

    added = audit.decision
    same = ("core", "evidence", "gate2", "gate3", "checks")
    assert [added[key] for key in same] == [first[key] for key in same]
    (amendment,) = added["registration"]["amendments"]
    assert [change["key"] for change in amendment["changes"]] == [
        "design.neutral_policies",
        "design.neutral_policy_pairs",
    ]
    further = added["neutral_policies"]["further"]
    assert {name: block["pairs"]["analysed"] for name, block in further.items()} == PAIRS["neutral_policy_pairs"]
    assert all(block["complete"] and block["exploratory"] for block in further.values())
    assert audit.run().idle

    # taken out again, the first registration is in force, and with it the decision that was first, which only adds
    # that there were other policies
    audit.change({})
    assert audit.finish().code == 0
    assert audit.decision == {**first, "headline": audit.decision["headline"]}
    assert len(audit.decision["headline"]) == 2
