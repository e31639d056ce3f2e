"""Money: no episode begins that the budget might not cover, and nothing that was paid for is lost or forgotten."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from dcpflow.errors import UsageError
from dcpflow.protocol.config import load
from dcpflow.records import canonical
from dcpflow.records.calls import Call
from dcpflow.records.episodes import Claim, EpisodeKey, EpisodeStore
from dcpflow.stages import costs, spending

CALL = Call(canonical.digest(b"asked"), 200, "", "small-1", 1_000_000, 0, 0, "")
BUDGET = {"max_usd": 10.0, "max_usd_per_episode": 2.0, "input_usd": 3.0, "output_usd": 10.0}


def config(budget: dict[str, Any] = BUDGET, **model: Any) -> Any:
    agent = {"kind": "chat", "model_id": "small-1", "model": {"base_url": "http://127.0.0.1:1/v1", **model}}
    return load({"agent": agent, "budget": budget})


def store(folder: Path, calls: int) -> EpisodeStore:
    """A store with attempts in which the model was asked, none of which has ended."""
    found = EpisodeStore(folder, "sha256:" + "1" * 64)
    for slot in range(1, calls + 1):
        claim = found.claim(EpisodeKey("challengers", slot, "withheld"))
        assert isinstance(claim, Claim)
        claim.journal().add({"call": asdict(CALL), "answer": {}})
        claim.journal().add({"heard": "…"})
    return found


@pytest.mark.parametrize(("calls", "at_once", "fine"), [(0, 5, True), (0, 6, False), (2, 2, True), (2, 3, False)])
def test_an_episode_begins_only_if_all_that_may_begin_now_are_covered(
    tmp_path: Path, calls: int, at_once: int, fine: bool
) -> None:
    spending.write(tmp_path, config(), at_once)
    told, attempts = spending.read(tmp_path), store(tmp_path / "store", calls)
    assert spending.spent(attempts, told.prices) == pytest.approx(3.0 * calls)
    if fine:
        told.check(attempts)
        return
    with pytest.raises(UsageError, match=rf"{3.0 * calls:.4f} USD are spent.*max_usd, 10") as refused:
        told.check(attempts)
    assert "raise budget.max_usd and run snakemake again" in str(refused.value)


def test_a_stratum_spends_from_a_pot_of_its_own_at_prices_of_its_own(tmp_path: Path) -> None:
    spending.write(tmp_path, config(), 1)
    spending.write(tmp_path, config(BUDGET | {"input_usd": 9.0}), 1, "larger")
    attempts = store(tmp_path / "store", 1)
    spending.read(tmp_path).check(attempts)
    with pytest.raises(UsageError, match=r"9\.0000 USD are spent"):
        spending.read(tmp_path, "larger").check(attempts)
    prices = {name: spending.read(tmp_path, name).prices for name in ("", "larger")}
    place = {"slot": 1, "arm": "withheld", "attempt": 1, "record": "sha256:1", "number": 1, **asdict(CALL)}
    rows = [{"stage": stage, **place} for stage in ("challengers", "challengers/larger")]
    priced = costs.priced(rows, prices[""], {"larger": prices["larger"]})
    assert [(row["gate"], row["usd"]) for row in priced] == [("gate 2", 3.0), ("strata", 9.0)]
    summed = {one.name: one.usd for one in costs.summed(priced)}
    assert (summed["gate 2"], summed["strata"], summed["all"]) == (3.0, 9.0, 12.0)


def test_further_neutral_policies_are_summed_apart_at_the_audit_s_own_prices() -> None:
    place = {"slot": 1, "arm": "truthful", "attempt": 1, "record": "sha256:1", "number": 1, **asdict(CALL)}
    rows = [{"stage": stage, **place} for stage in ("pairs", "pairs_lagged_sham")]
    priced = costs.priced(rows, spending.Prices(3.0, 3.0, 10.0))
    assert [row["gate"] for row in priced] == ["gate 3", "neutral policies"]
    assert [row["usd"] for row in priced] == [3.0, 3.0]
    assert "neutral policies" not in {one.name for one in costs.summed(priced[:1])}


def test_without_a_limit_nothing_is_refused(tmp_path: Path) -> None:
    spending.write(tmp_path, config({"input_usd": 3.0}), 4)
    spending.read(tmp_path).check(store(tmp_path / "store", 20))


def test_an_agent_that_asks_no_model_leaves_no_file(tmp_path: Path) -> None:
    spending.write(tmp_path, load({}), 4)
    assert list(tmp_path.iterdir()) == []
    assert spending.read(tmp_path).api().key == ""
    assert spending.read(tmp_path).budget == load({}).budget.model_dump()


def test_the_key_comes_from_the_environment_and_is_written_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = config(key_variable="A_KEY_OF_OURS")
    monkeypatch.delenv("A_KEY_OF_OURS", raising=False)
    with pytest.raises(UsageError, match="A_KEY_OF_OURS is empty or not set"):
        spending.require_key(audit)
    monkeypatch.setenv("A_KEY_OF_OURS", "sk canary")
    with pytest.raises(UsageError, match="cannot be sent"):
        spending.require_key(audit)
    monkeypatch.setenv("A_KEY_OF_OURS", "sk-canary")
    spending.require_key(audit)
    spending.write(tmp_path, audit, 4)
    api = spending.read(tmp_path).api()
    assert (api.key, api.requests_per_minute) == ("sk-canary", 150)
    assert "sk-canary" not in repr(api)
    assert api.redacted("Bearer sk-canary!") == "Bearer [key]!"
    assert b"sk-canary" not in b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_neither_key_nor_budget_is_registered() -> None:
    dear = BUDGET | {"max_usd": 99.0, "input_usd": 5.0}
    assert config().parts() == config(dear, key_variable="A_KEY_OF_OURS").parts()


def test_costs_are_summed_by_gate() -> None:
    row = {"arm": "", "attempt": 1, "number": 1, **asdict(CALL)}
    table = [
        row | {"stage": stage, "slot": slot, "record": f"{stage}{slot}", "fault": fault}
        for stage, slot, fault in (
            ("target", 1, ""),
            ("challengers", 1, ""),
            ("challengers", 1, "rate_limited"),
            ("challengers", 2, ""),
            ("controls", 1, ""),
            ("pairs", 1, ""),
            ("misled_nulls", 1, ""),
        )
    ]
    found = {one.name: one for one in costs.summed(costs.priced(table, spending.Prices(2.0, 2.0, 1.0)))}
    assert {gate: (one.episodes, one.calls, one.failed, one.usd) for gate, one in found.items()} == {
        "target": (1, 1, 0, 2.0),
        "gate 2": (2, 3, 1, 6.0),
        "controls": (1, 1, 0, 2.0),
        "gate 3": (2, 2, 0, 4.0),
        "all": (6, 7, 1, 14.0),
    }
