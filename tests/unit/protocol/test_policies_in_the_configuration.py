"""Neutral policies in the configuration: the first one decides, and the others are registered with their pairs."""

from __future__ import annotations

from typing import Any

import pytest

from dcpflow.protocol.config import ConfigError, load
from dcpflow.records import plan

BOTH = ["proposed_sham", "reference_null", "lagged_sham"]


def design(**keys: Any) -> dict[str, Any]:
    found: dict[str, Any] = load({"design": keys}).parts()["design"]
    return found


def problems(grade: str = "evidence", **keys: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        load({"claim": {"grade": grade}, "design": keys})
    return str(caught.value)


def test_without_a_further_policy_nothing_is_registered_of_them() -> None:
    assert design(neutral_policies=["proposed_sham"], neutral_policy_pairs={}) == design()
    assert not {"neutral_policies", "neutral_policy_pairs"} & design().keys()


def test_each_further_policy_is_registered_with_its_number_whatever_their_order() -> None:
    found = design(neutral_policies=BOTH, neutral_policy_pairs={"lagged_sham": 12})
    assert found["neutral_policy_pairs"] == {"reference_null": 30, "lagged_sham": 12}
    assert found == design(
        neutral_policies=[BOTH[0], *BOTH[:0:-1]], neutral_policy_pairs={"reference_null": 30, "lagged_sham": 12}
    )
    assert {name: plan.slots(stage, found) for name, stage in plan.policies(found).items()} == {
        "reference_null": 30,
        "lagged_sham": 12,
    }
    assert {name: phase.stages for name, phase in plan.phases(found).items() if name not in plan.PHASES} == {
        stage: (stage,) for stage in plan.POLICIES.values()
    }


def test_every_policy_that_can_be_named_has_a_stage() -> None:
    assert plan.policies({"neutral_policy_pairs": dict.fromkeys(BOTH[1:], 2)}) == plan.POLICIES


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"neutral_policies": ["reference_null", "proposed_sham"]}, "must begin with proposed_sham"),
        ({"neutral_policies": []}, "must begin with proposed_sham"),
        ({"neutral_policies": [*BOTH, "lagged_sham"]}, "name each policy once"),
        ({"neutral_policies": ["proposed_sham", "truthful"]}, "must be a list of names"),
        ({"neutral_policy_pairs": {"reference_null": 4}}, "is no further policy of design.neutral_policies"),
        ({"neutral_policies": BOTH, "neutral_policy_pairs": {"reference_null": 1}}, "pairs from 2 up to"),
        ({"neutral_policies": BOTH, "neutral_policy_pairs": {"reference_null": "4"}}, "a section of whole numbers"),
        ({"grade": "core", "neutral_policies": BOTH}, "grade core has none"),
    ],
)
def test_what_contradicts_is_named(keys: dict[str, Any], told: str) -> None:
    assert told in problems(**keys)
