"""The Web packet in a real run: declared between the target run and all that reads it, and the same for everybody."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from workflow.conftest import Audit, Finished

RULES_BEHIND = {"run_challenger", "run_control", "run_pair", "run_null_pair", "run_misled_null"}


def transcript(audit: Audit, stage: str, slot: int, arm: str) -> list[dict[str, str]]:
    data = audit.object(audit.record(stage, slot, arm)["transcript"]).read_bytes()
    return [json.loads(line) for line in data.splitlines()]


def pages(audit: Audit, stage: str, slot: int, arm: str) -> dict[str, str]:
    """Each reply to a fetch behind its id, byte for byte, by the address in it."""
    found = {}
    for line in transcript(audit, stage, slot, arm)[1:]:
        if line["from"] == "harness" and '"page":' in line["line"]:
            found[json.loads(line["line"])["page"]["url"]] = line["line"].partition(",")[2]
    return found


@pytest.mark.parametrize(
    ("stage", "arm"), [("challengers", "withheld"), ("controls", "control"), ("null_pairs", "proposed_sham")]
)
def test_others_are_answered_as_the_target_was_byte_for_byte(finished: Finished, stage: str, arm: str) -> None:
    told = pages(finished.audit, "target", 1, "target")
    assert len(told) == 4
    assert pages(finished.audit, stage, 1, arm) == told
    hello: dict[str, Any] = json.loads(transcript(finished.audit, stage, 1, arm)[0]["line"])
    files = [text for name, text in hello["files"].items() if name.startswith("web/") and name != "web/index.txt"]
    assert sorted(files) == sorted(json.loads("{" + rest)["page"]["text"] for rest in told.values())


def test_the_packet_stands_before_any_other_episode(finished: Finished) -> None:
    rules = finished.run.rules
    assert rules.index("run_target") < rules.index("freeze_packet") < min(rules.index(rule) for rule in RULES_BEHIND)
    assert finished.audit.decision["web"]["on_loopback"].startswith("sqlite-notes.test")


def test_a_deleted_packet_comes_back_and_no_agent_is_started(audit: Audit) -> None:
    path, records = audit.results / "target" / "packet.json", audit.records()
    kept = path.read_bytes()
    path.unlink()
    run = audit.finish()
    assert "run_target" not in run.rules
    assert path.read_bytes() == kept
    assert (audit.records(), audit.decision_bytes) == (records, audit.original)


@pytest.mark.parametrize("web", [{"requests": 5}, {"text_bytes": 4096}, None], ids=str)
def test_an_edit_of_what_is_registered_of_the_web_is_another_contract(audit: Audit, web: dict[str, Any] | None) -> None:
    audit.change({"information": {"web": web}})
    planned = set(re.findall(r"^(\w+) +\d+$", audit.finish("--dry-run").text, re.MULTILINE))
    assert planned > {"freeze_contract", "run_target", *RULES_BEHIND}
    assert ("freeze_packet" in planned) == (web is not None)
