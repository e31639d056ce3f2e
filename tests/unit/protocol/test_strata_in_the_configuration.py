"""Strata in the configuration: what differs from the audited agent and limits, held against the same rules."""

from __future__ import annotations

from typing import Any

import pytest

from dcpflow.protocol.config import ConfigError, load

CHAT = {
    "kind": "chat",
    "name": "loop",
    "model_id": "m-1",
    "model": {"base_url": "https://api.example.org/v1", "key_variable": "KEY", "calls": 12},
}


def problems(**sections: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        load(sections)
    return str(caught.value)


def test_without_strata_nothing_is_registered_of_them() -> None:
    assert load({}).registered_strata() == {}
    assert load({"strata": {}}).parts() == load({}).parts()


def test_strata_are_no_part_of_what_the_audit_s_own_episodes_are() -> None:
    assert load({"strata": {"more": {"limits": {"experiments": 9}}}}).parts() == load({}).parts()


def test_a_stratum_takes_over_what_it_does_not_give() -> None:
    config = load({"agent": CHAT, "strata": {"larger": {"agent": {"model_id": "m-2", "model": {"calls": 40}}}}})
    own = config.of_stratum("larger")
    assert (own.agent.kind, own.agent.model_id) == ("chat", "m-2")
    assert own.agent.model is not None
    assert (own.agent.model.calls, own.agent.model.base_url) == (40, "https://api.example.org/v1")
    assert own.agent.model.key_variable == "KEY"
    assert (own.design.stratum, own.design.challengers, own.limits) == ("larger", 30, config.limits)


def test_another_agent_takes_nothing_over() -> None:
    paid = {"input_usd": 1.0, "max_usd": 5.0, "max_usd_per_episode": 0.1}
    config = load({"agent": CHAT, "budget": paid, "strata": {"built-in": {"agent": {"name": "index_designer"}}}})
    assert config.of_stratum("built-in").agent == load({}).agent
    assert "model" not in config.registered_strata()["built-in"]["agent"]


def test_each_stratum_s_model_has_a_budget_of_its_own() -> None:
    config = load(
        {
            "agent": CHAT,
            "budget": {"input_usd": 1.0, "max_usd": 5.0, "max_usd_per_episode": 0.1},
            "strata": {"larger": {"agent": {"model_id": "m-2"}, "budget": {"input_usd": 9.0}}},
        }
    )
    own = config.of_stratum("larger").budget
    assert (own.input_usd, own.max_usd) == (9.0, 5.0), "a limit that was given is never lost"
    assert "budget" not in config.registered_strata()["larger"]


@pytest.mark.parametrize(
    ("strata", "key", "fault"),
    [
        ({"same": {}}, "strata.same", "has agent and limits of the challengers that decide"),
        ({"a": {"limits": {"experiments": 9}}, "b": {"limits": {"experiments": 9}}}, "strata.b", "of the stratum a"),
        ({"matched": {"limits": {"experiments": 9}}}, "strata.matched", "design.stratum"),
        ({"../up": {"limits": {"experiments": 9}}}, "strata.../up", "must be a name"),
        ({"x": {"limits": {"experiments": -1}}}, "strata.x.limits.experiments", "must be a whole number"),
        ({"x": {"limits": {"experiment": 1}}}, "strata.x.limits.experiment", "unknown key"),
        ({"x": {"agent": {"kind": "chat", "name": "loop"}}}, "strata.x.agent.model", "is missing"),
        ({"x": {"limits": {"experiments": 9}, "alpha": 0}}, "strata.x.alpha", "above 0 up to 0.5"),
        ({"x": {"limit": {"experiments": 9}}}, "strata.x.limit", "did you mean strata.x.limits?"),
        ({"x": 3}, "strata.x", "must be a section"),
        ([{"name": "x"}], "strata", "a section for each stratum"),
        ({7: {}}, "strata.7", "a name must be text"),
    ],
)
def test_what_is_wrong_with_a_stratum_is_told_by_its_key(strata: Any, key: str, fault: str) -> None:
    told = problems(strata=strata)
    assert any(line.startswith(f"  {key}") and fault in line for line in told.splitlines()), told
