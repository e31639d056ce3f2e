"""Further neutral policies in the decision: blocks of their own and their spread, and nothing in any status."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dcpflow.errors import EvidenceError
from dcpflow.evidence import decision, folder, gates, policies, tables
from dcpflow.evidence.checks import Context
from dcpflow.evidence.policies import Policy
from dcpflow.evidence.view import AuditView
from dcpflow.protocol.intervals import interval, zero_hit_upper_bound
from dcpflow.protocol.registration import LINEAGE_EMPTY
from dcpflow.records import canonical, history, plan
from dcpflow.report import screen

if TYPE_CHECKING:
    from tests.conftest import Audit

NAME, STAGE = "reference_null", "pairs_reference_null"


@pytest.fixture(scope="module")
def evidence(audit_of_policies: Audit) -> folder.Evidence:
    audit = audit_of_policies
    return folder.read(audit.job.layout, audit.receipts, audit.scores)


@pytest.fixture(scope="module")
def judged(evidence: folder.Evidence, audit_of_policies: Audit) -> Callable[..., Policy]:
    """Judges a policy after its view or its facts were changed."""
    registrations = [entry.registration for entry in history.entries(audit_of_policies.job.layout)]

    def judge(view: AuditView | None = None, known: gates.Facts | None = None, **facts: Any) -> Policy:
        seen, part = evidence.view, view or evidence.view.policies[NAME]
        config = folder.config_of(seen.registered)
        reg = gates.registration(config, seen.registered.contract, seen.checkpoint)
        own = replace(evidence.facts.policies[NAME], **facts)
        context = Context(part, own, known or evidence.episode_facts, registrations, config, reg)
        return policies.reach(NAME, context, gates.gate1(seen).claimed, decision.recovery_line(seen, reg))

    return judge


def with_hit(evidence: folder.Evidence, slot: int) -> AuditView:
    """Give a neutral branch of the policy the claimed artifact's score."""
    part = evidence.view.policies[NAME]
    (target,) = [row for row in evidence.view.scores["target"] if row.role == "candidate"]
    rows = tuple(replace(r, units=target.units) if (r.slot, r.arm) == (slot, NAME) else r for r in part.scores[STAGE])
    return replace(part, scores={STAGE: rows})


def block_of(policy: Policy) -> dict[str, Any]:
    deciding = {"pairs": 3, "neutral_hits": 0, "effect": {"mean": 1.0, "lower": 0.0, "upper": 1.0}, "complete": True}
    found: dict[str, Any] = policies.document(deciding, {NAME: policy})
    return found


def document(audit: Audit) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(audit.job.layout.decision.read_bytes())
    return found


def test_further_policies_change_no_status_and_no_gate(finished_audit: Audit, audit_of_policies: Audit) -> None:
    before, after = document(finished_audit), document(audit_of_policies)
    assert after.keys() - before.keys() == {"neutral_policies", "headline"}
    for part in ("core", "evidence", "gate1", "gate2", "gate3", "controls", "checks", "faults", "scope"):
        assert after[part] == before[part], part
    assert after["rests_on"]["episodes"] == before["rests_on"]["episodes"]
    assert after["rests_on"]["scores"] == before["rests_on"]["scores"]
    assert "neutral_policies" not in after["confirmatory"] and after["confirmatory"]["gate3"] == before["gate3"]
    assert not after["core"]["exploratory"] and not after["evidence"]["exploratory"] and after["headline"] == []


def test_each_has_its_pairs_its_interval_and_no_word_of_support(audit_of_policies: Audit) -> None:
    found = document(audit_of_policies)["neutral_policies"]
    assert found["deciding"]["name"] == "proposed_sham"
    assert {name: block["pairs"]["analysed"] for name, block in found["further"].items()} == {NAME: 3, "lagged_sham": 2}
    block = found["further"][NAME]
    mean, lower, upper = (block["effect"][key] for key in ("mean", "lower", "upper"))
    values = [1.0] * block["truthful_hits"] + [0.0] * (3 - block["truthful_hits"])
    expected = interval("paired_binary_exact", values, 1 - 0.01)
    assert (mean, lower, upper) == (expected.mean, expected.lower, expected.upper)
    assert block["neutral_hits"] == 0 and block["neutral_upper_bound"] == zero_hit_upper_bound(3, 0.005)
    assert (block["label"], block["exploratory"], block["complete"]) == ("informative", True, True)
    assert block["calibrated"] is False and "not calibrated" in block["calibration"]
    assert {check["result"] for check in block["checks"]} == {"pass"}
    assert not {"effect_status", "margin", "status"} & block.keys()


def test_the_spread_is_of_all_policies_with_whole_pairs(audit_of_policies: Audit) -> None:
    found = document(audit_of_policies)["neutral_policies"]
    means = [found["deciding"]["effect"]["mean"], *(block["effect"]["mean"] for block in found["further"].values())]
    assert found["spread"]["effect"] == max(means) - min(means)
    assert sorted(found["spread"]["policies"]) == ["lagged_sham", "proposed_sham", NAME]
    assert found["spread"]["left_out"] == [] and found["spread"]["neutral_rate"] == 0


def test_their_draws_are_their_own_and_both_arms_share_them(evidence: folder.Evidence) -> None:
    everyone = [evidence.view, *evidence.view.policies.values()]
    pairs = [view.of(*plan.PAIRED) for view in everyone]
    units = [{e.record.unit for e in episodes} for episodes in pairs]
    assert [len(found) for found in units] == [len(episodes) // 2 for episodes in pairs] == [3, 3, 2]
    assert len(set().union(*units)) == 8
    assert {e.record.contract for episodes in pairs for e in episodes} == {evidence.view.registered.contract}


def test_a_lagged_reply_is_the_one_that_was_due_to_the_experiment_before(
    evidence: folder.Evidence, audit_of_policies: Audit
) -> None:
    bench = audit_of_policies.job.bench
    branches = [e for e in evidence.view.policies["lagged_sham"].episodes if e.record.arm == "lagged_sham"]
    for episode in branches:
        shown = bench.task.presentation(bytes.fromhex(episode.record.draw["presentation"]))
        asked = [json.loads(line["line"]) for line in episode.transcript if line["from"] == "agent"]
        tried = [request["candidate"] for request in asked if request["action"] == "experiment"]
        due = [bench.engine.neutral(shown, candidate) for candidate in tried]
        told = [reply["result"] for reply in episode.replies() if "result" in reply]
        assert len(tried) == 4 and told == [bench.task.constant_reply(shown), *due[:-1]] != due


def test_a_neutral_branch_that_recovers_stands_in_the_headline_of_an_empty_checkpoint(
    evidence: folder.Evidence, judged: Callable[..., Policy]
) -> None:
    found = block_of(judged(with_hit(evidence, 2)))
    block = found["further"][NAME]
    assert block["recovered"] and block["neutral_upper_bound"] is None and block["neutral_hits"] == 1
    assert block["witnesses"] == [f"{STAGE}/2/{NAME}"]
    assert found["spread"]["neutral_rate"] == 1 / 3
    (told,) = policies.headline(found["further"], LINEAGE_EMPTY, necessity=False)
    assert told == (
        "with another neutral policy (reference_null) the outcome was recovered (1 of 3 neutral branches; the "
        "checkpoint is empty, so that it is a further challenger; no status rests on it)"
    )
    # behind a part of the target's history a neutral branch is no challenger, and speaks about necessity alone
    assert policies.headline(found["further"], "lineage_prefix", necessity=False) == []
    (told,) = policies.headline(found["further"], "lineage_prefix", necessity=True)
    assert "necessity is claimed for the policy that decides" in told and "challenger" not in told


def test_the_decision_puts_it_in_the_headline_and_certifies_and_refutes_as_before(
    evidence: folder.Evidence, judged: Callable[..., Policy]
) -> None:
    view, config = evidence.view, folder.config_of(evidence.view.registered)
    registrations = [e.record.registration for e in view.everything]
    outcome = decision.reach(view, evidence.facts, evidence.episode_facts, registrations, config)
    found = decision.document(replace(outcome, policies={NAME: judged(with_hit(evidence, 2))}))
    assert view.checkpoint["scope"] == LINEAGE_EMPTY
    (told,) = found["headline"]
    assert told.startswith("with another neutral policy (reference_null) the outcome was recovered")
    plain = decision.document(outcome)
    assert {key: found[key] for key in plain} == plain


def test_a_failing_check_is_said_in_the_block_and_kept_out_of_the_spread(judged: Callable[..., Policy]) -> None:
    found = block_of(judged(unlisted=[f"{STAGE} slot 9 (truthful), attempt 1"]))
    block = found["further"][NAME]
    assert not block["complete"] and block["effect"]["lower"] is None and block["neutral_upper_bound"] is None
    assert "ledger_complete" in block["reason"] and "slot 9" in block["reason"]
    assert found["spread"]["left_out"] == [NAME] and found["spread"]["effect"] is None


def test_a_hit_through_a_channel_that_does_not_replay_is_told_with_the_reason(
    evidence: folder.Evidence, judged: Callable[..., Policy]
) -> None:
    part = with_hit(evidence, 2)
    (spoilt,) = [e.digest for e in part.episodes if (e.record.slot, e.record.arm) == (1, NAME)]
    known = {**evidence.episode_facts, spoilt: {**evidence.episode_facts[spoilt], "transcript_replays": False}}
    block = block_of(judged(part, known))["further"][NAME]
    assert block["confirmed"] == 1 and not block["recovered"]
    (told,) = policies.headline({NAME: block}, LINEAGE_EMPTY, necessity=False)
    assert "the recovery line was reached, which could not be assessed (1 of 3" in told
    assert "neutral_channels_replay" in told


def test_tables_hold_their_rows_apart_from_the_pairs_that_decide(audit_of_policies: Audit) -> None:
    layout = audit_of_policies.job.layout
    found = {name: tables.read(folder.table_path(layout, name), name) for name in ("episodes", "scores", "pairs")}
    for name in ("episodes", "scores"):
        stages = Counter(stage for stage, _ in {(row["stage"], row["record"]) for row in found[name] if row["record"]})
        assert (stages["pairs"], stages[STAGE], stages["pairs_lagged_sham"]) == (6, 6, 4), name
    assert {row["phase"] for row in found["scores"] if row["stage"] == STAGE} == {STAGE}
    assert {row["stage"] for row in found["pairs"]} == {"pairs"}


def test_a_policy_whose_pairs_are_gone_is_named(audit_of_policies: Audit, tmp_path: Path) -> None:
    audit = audit_of_policies.at(shutil.copytree(audit_of_policies.results, tmp_path / "results"))
    shutil.rmtree(audit.results / STAGE)
    with pytest.raises(EvidenceError):
        folder.verify(audit.job.layout)
    shutil.copytree(audit_of_policies.results / STAGE, audit.results / STAGE)
    written = document(audit)
    del written["neutral_policies"]["further"][NAME]
    audit.job.layout.decision.write_bytes(canonical.encode(written) + b"\n")
    with pytest.raises(EvidenceError, match="is not the decision"):
        folder.verify(audit.job.layout)


# --- policies that are amended or removed once it is known what they came to ----------------------------------


def marked(*keys: str, scope: str = LINEAGE_EMPTY) -> dict[str, bool]:
    blocks = {"reference_null": {}, "lagged_sham": {}}
    found: dict[str, Any] = {"core": {}, "evidence": {}, "neutral_policies": {"further": blocks, "spread": {}}}
    decision.mark_exploratory(found, [{"key": key} for key in keys], scope)
    everything = {**blocks, "spread": found["neutral_policies"]["spread"], "core": found["core"]}
    return {name: one["exploratory"] for name, one in {**everything, "evidence": found["evidence"]}.items()}


@pytest.mark.parametrize(
    ("key", "exploratory"),
    [
        ("design.neutral_policies", {"spread"}),
        ("design.neutral_policy_pairs", {"reference_null", "lagged_sham", "spread"}),
        ("design.neutral_policy_pairs.lagged_sham", {"lagged_sham", "spread"}),
        ("design.strata.strong.config.alpha", set()),
        ("thresholds.gate3.estimand", {"reference_null", "lagged_sham", "spread", "core", "evidence"}),
    ],
)
def test_an_amended_key_makes_exploratory_what_rests_on_it(key: str, exploratory: set[str]) -> None:
    assert {name for name, yes in marked(key).items() if yes} == exploratory


def entry(opened: int, contract: str = "C", **pairs: int) -> history.Entry:
    """A registration with further policies and their numbers, and so many of their episodes before it."""
    parts: dict[str, Any] = {"design": {"config": {"neutral_policy_pairs": pairs} if pairs else {}}}
    episodes = {"episodes": {STAGE: {"started": opened, "committed": opened}}} if opened else {}
    return history.Entry(1, "R", contract, parts, "", [], episodes, "")


@pytest.mark.parametrize(
    ("later", "end"),
    [
        (entry(10), "is no longer shown"),
        (entry(10, lagged_sham=9), "is no longer shown"),
        (entry(10, contract="another", reference_null=9), "is not shown, since another contract is audited now"),
        (entry(10, reference_null=4), "is shown with 4 alone"),
    ],
)
def test_a_policy_that_was_registered_and_is_not_shown_whole_is_told(later: history.Entry, end: str) -> None:
    told = policies.no_longer_shown([entry(0, reference_null=5), later])
    assert told == {NAME: f"the neutral policy {NAME} was registered with 5 pairs (10 episodes started) and {end}"}
    assert policies.no_longer_shown([entry(0), entry(0, reference_null=5), later]) == told
    assert policies.no_longer_shown([entry(0, reference_null=5), entry(10, reference_null=6)]) == {}


def test_a_policy_that_is_taken_out_is_told_and_the_first_decision_is_back(
    finished_audit: Audit, audit_of_policies: Audit, tmp_path: Path
) -> None:
    audit = finished_audit.at(shutil.copytree(audit_of_policies.results, tmp_path / "results"))
    audit.register()
    audit.tabulate()
    audit.decide()
    found = document(audit)
    told = [
        "the neutral policy reference_null was registered with 3 pairs (6 episodes started) and is no longer shown",
        "the neutral policy lagged_sham was registered with 2 pairs (4 episodes started) and is no longer shown",
    ]
    assert found == {**document(finished_audit), "headline": told}
    assert f"beside    {told[0].capitalize()}" in screen.render(found)
