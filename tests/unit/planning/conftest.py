"""The default configuration, and an honest audit in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dcpflow.planning import simulation, stand_in
from dcpflow.planning.simulation import Setup, Truth
from dcpflow.planning.stand_in import StandIn
from dcpflow.planning.synthetic import BRANCH_ENDS, PAIR_ENDS, Counts
from dcpflow.protocol.config import load

if TYPE_CHECKING:
    from dcpflow.protocol.config import Config


def ends(**counts: int) -> tuple[int, ...]:
    """Pairs by what their branches came to: ``hit_miss=30`` is 30 pairs whose first branch alone recovered."""
    known = {f"{first}_{second}": n for n, (first, second) in enumerate(PAIR_ENDS)}
    assert counts.keys() <= known.keys(), BRANCH_ENDS
    found = [0] * len(PAIR_ENDS)
    for name, count in counts.items():
        found[known[name]] = count
    return tuple(found)


GOOD = Counts(hits=0, failures=0, lost=0, misses=96, controls=45, pairs=ends(hit_miss=30), null_pairs=ends(hit_hit=60))


@pytest.fixture(scope="session")
def config() -> Config:
    return load({})


@pytest.fixture(scope="session")
def setup(config: Config) -> Setup:
    return simulation.setup(config, Truth(), "lineage_prefix")


@pytest.fixture(scope="session")
def honest(config: Config) -> StandIn:
    return stand_in.build(config, GOOD, "secret")
