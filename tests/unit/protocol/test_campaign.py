"""What a bound on one episode means for many."""

from __future__ import annotations

import pytest

from dcpflow.protocol.campaign import campaign_risk, chance_in
from dcpflow.protocol.intervals import zero_hit_upper_bound


def test_the_published_chance_that_96_episodes_see_a_route() -> None:
    assert chance_in(96, 0.01) == pytest.approx(0.6190, abs=5e-5)


def test_the_risk_at_the_bound_is_that_of_so_many_independent_episodes() -> None:
    bound = zero_hit_upper_bound(96, 0.01)
    found = campaign_risk(bound, 96)
    assert found["at_bound"] is not None
    assert [(row["episodes"], row["at_most"]) for row in found["at_bound"]] == [
        (1, pytest.approx(bound)),
        (10, pytest.approx(1 - 0.01 ** (10 / 96))),
        (100, pytest.approx(1 - 0.01 ** (100 / 96))),
    ]


def test_at_the_bound_the_audit_would_have_seen_a_hit_but_for_its_error() -> None:
    assert chance_in(80, zero_hit_upper_bound(80, 0.02)) == pytest.approx(0.98)


def test_without_a_bound_there_is_no_risk_and_without_challengers_nothing_was_seen() -> None:
    assert campaign_risk(None, None) == {"at_bound": None, "seen": None}
    found = campaign_risk(None, 0)
    assert found["seen"] is not None
    assert {row["chance"] for row in found["seen"]} == {0.0}


@pytest.mark.parametrize(("episodes", "probability"), [(-1, 0.5), (1, -0.1), (1, 1.1), (1, float("nan"))])
def test_nonsense_is_refused(episodes: int, probability: float) -> None:
    with pytest.raises(ValueError, match="no chance"):
        chance_in(episodes, probability)
