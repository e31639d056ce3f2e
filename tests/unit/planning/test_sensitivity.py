"""How a decision leans on its thresholds: flip points from the evidence, statuses from the engine."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.unit.planning.conftest import GOOD, ends

from dcpflow.planning import sensitivity, sensitivity_text, stand_in
from dcpflow.planning.sensitivity import Curve, Segment, Sensitivity, Stored
from dcpflow.planning.stand_in import StandIn
from dcpflow.planning.synthetic import Counts
from dcpflow.report.curves import Steps
from dcpflow.stages import sensitivity_page

if TYPE_CHECKING:
    from tests.conftest import Audit

    from dcpflow.protocol.config import Config


def stored(audit: StandIn) -> Stored:
    return Stored(audit.view, audit.facts, audit.episode_facts, audit.registrations)


def scored(audit: StandIn, worth: Callable[[str, int, float], float]) -> StandIn:
    """The audit with other scores, by stage, slot and what the artifact was worth."""

    def change(row):  # type: ignore[no-untyped-def]
        return replace(row, units=(worth(row.stage, row.slot, row.units[0]),))

    return audit.with_scores(change)


@pytest.fixture(scope="session")
def published(honest: StandIn) -> Sensitivity:
    """With the published scores of sqlite-web."""
    worth = {0.9: 0.8855, 0.3: 0.6734, 0.0: 0.0}
    return sensitivity.describe(stored(scored(honest, lambda stage, slot, value: worth[value])))


def curve(found: Sensitivity, name: str) -> Curve:
    (one,) = [c for c in found.curves if c.name == name]
    return one


def statuses(one: Curve) -> list[tuple[str, str]]:
    return [(segment.core, segment.evidence) for segment in one.segments]


CERTIFIED, REFUTED = ("certified", "certified"), ("refuted", "not_tested")
OPEN, NO_EVIDENCE = ("inconclusive", "not_tested"), ("certified", "inconclusive")


def test_core_flips_at_the_claimed_score_less_the_best_challengers(published: Sensitivity) -> None:
    one = curve(published, "epsilon")
    assert published.epsilon_flip == pytest.approx(0.2121)
    assert one.flips == (published.epsilon_flip,)
    assert statuses(one) == [CERTIFIED, REFUTED]
    assert one.segments[1].low_included, "an artifact at the line has reached it"
    assert "0.2121" in one.remark
    assert curve(published, "kappa").flips == (pytest.approx(0.4242),)


@pytest.mark.parametrize(
    ("name", "flip", "expected"),
    [
        ("rho", 1 - 0.01 ** (1 / 96), [OPEN, CERTIFIED]),
        ("alpha.recovery", 0.95**96, [OPEN, CERTIFIED]),
        ("alpha.adequacy", 0.8**45, [OPEN, CERTIFIED]),
        ("delta_min", 0.8855, [CERTIFIED, REFUTED]),
        ("delta_evidence", 0.467927, [CERTIFIED, NO_EVIDENCE]),
        ("delta_sham", 1 - 0.0025 ** (1 / 60), [NO_EVIDENCE, CERTIFIED]),
    ],
)
def test_the_other_thresholds_flip_where_their_formula_says(
    published: Sensitivity, name: str, flip: float, expected: list[tuple[str, str]]
) -> None:
    one = curve(published, name)
    assert one.flips == (pytest.approx(flip, abs=1e-6),)
    assert statuses(one) == expected


def test_where_a_challenger_does_better_than_the_claim_no_epsilon_changes_it(honest: StandIn) -> None:
    """As in the knapsack case."""
    better = scored(honest, lambda stage, slot, value: 0.95 if (stage, slot) == ("challengers", 7) else value)
    found = sensitivity.describe(stored(better))
    assert found.epsilon_flip == pytest.approx(-0.05)
    assert statuses(curve(found, "epsilon")) == [REFUTED]
    assert "no epsilon changes that" in curve(found, "epsilon").remark
    made = sensitivity_page.page(found, honest.view.registered)
    (section,) = (section for section in made.sections if section.title == "epsilon")
    assert any("no epsilon changes that" in text for text in section.words)
    assert "Neither status changes anywhere." in section.figures[0].caption


def varied(config: Config) -> StandIn:
    """Scores all over the place, so that many numbers could matter."""
    counts = Counts(0, 0, 0, 96, 44, ends(hit_miss=29, miss_miss=1), 0, 0, ends(hit_hit=59, hit_miss=1))
    draw = random.Random(3)
    shifts = (-0.21, -0.13, -0.02, 0.04)
    shift = {(stage, slot): draw.choice(shifts) for stage in ("challengers", "pairs") for slot in range(97)}
    audit = stand_in.build(config, counts, "secret")
    return scored(audit, lambda stage, slot, value: min(0.99, max(0.0, value + shift.get((stage, slot), 0.0))))


def test_between_flips_the_engine_decides_everywhere_as_the_curve_says(config: Config) -> None:
    """No number of the evidence at which a status changes was overlooked."""
    evidence = stored(varied(config))
    found = sensitivity.describe(evidence)
    draw = random.Random(4)
    for one in found.curves:
        for _ in range(2):
            value = draw.uniform(one.low, one.high)
            key = one.key.removeprefix("thresholds.")
            kappa = value / 0.5 if one.name == "epsilon" else value
            verdicts = evidence.decided({key: kappa}).decision
            (segment,) = [s for s in one.segments if sensitivity_text.holds(s, value)]
            assert (segment.core, segment.evidence) == (verdicts.core.status, verdicts.evidence.status), one.name
        (here,) = [s for s in one.segments if sensitivity_text.holds(s, one.registered)]
        assert (here.core, here.evidence) == (found.core, found.evidence), one.name


def test_segments_leave_no_gap_and_overlap_nowhere(published: Sensitivity) -> None:
    for one in published.curves:
        assert (one.segments[0].low, one.segments[-1].high) == (one.low, one.high)
        for left, right in zip(one.segments, one.segments[1:], strict=False):
            assert left.high == right.low
            assert left.high_included is not right.low_included


def test_alphas_stay_within_the_budget(published: Sensitivity) -> None:
    assert curve(published, "alpha.recovery").high == pytest.approx(0.01)
    assert "the other alphas leave 0.01 of 0.05" in curve(published, "alpha.recovery").remark


def test_a_core_audit_has_no_curves_of_gate_3(config: Config) -> None:
    core = config.model_copy(update={"claim": config.claim.model_copy(update={"grade": "core"})})
    found = sensitivity.describe(stored(stand_in.build(core, replace(GOOD, pairs=(), null_pairs=()))))
    assert (found.core, found.evidence) == ("certified", "not_tested")
    # where every challenger is farther from the claim than epsilon may be, that is said instead of a flip
    assert "0.600000" in curve(found, "epsilon").remark and "beyond what may be registered" in found.curves[0].remark
    assert not curve(found, "epsilon").flips
    assert {c.name for c in found.curves} == {
        "epsilon",
        "kappa",
        "rho",
        "delta_min",
        "alpha.recovery",
        "alpha.adequacy",
    }


def test_the_table_says_that_it_decides_nothing_and_marks_what_is_registered(published: Sensitivity) -> None:
    text = sensitivity_text.render(published, "results")
    assert "never a decision" in text
    (line,) = [line for line in text.splitlines() if line.startswith("epsilon  ")]
    assert "[0, 0.2121) *" in line
    found = json.loads(json.dumps(published.to_json(), allow_nan=False))
    assert "never a decision" in found["description"]
    assert found["curves"][0]["flips"] == [published.epsilon_flip]


def test_the_page_says_that_it_decides_nothing_and_draws_every_curve(published: Sensitivity, honest: StandIn) -> None:
    made = sensitivity_page.page(published, honest.view.registered)
    assert "never a decision" in made.notice[0] and "Core is certified" in made.notice[1]
    table, *sections = made.sections
    assert [section.title for section in sections] == [c.name for c in published.curves]
    assert ("epsilon, registered 0.005", "[0, 0.2121)", "certified", "certified") in table.tables[0].rows
    assert not {c.name for c in published.curves} - sensitivity_page.MEANING.keys()
    for one, section in zip(published.curves, sections, strict=True):
        (figure,) = section.figures
        assert isinstance(figure.shapes, Steps)
        registered, *flips = figure.shapes.marks
        assert len(flips) == len(one.flips) > 0, one.name
        steps = [step for step in figure.shapes.steps if step.start <= registered.at <= step.end]
        assert [step.kind for step in steps] == ["certified", "certified"], one.name


def test_a_value_at_a_flip_lies_in_one_segment() -> None:
    left = Segment(0.0, 1.0, True, False, "certified", "certified", "")
    right = replace(left, low=1.0, high=2.0, low_included=True, high_included=False)
    assert [sensitivity_text.holds(s, v) for s in (left, right) for v in (0.0, 1.0, 2.0)] == [
        True, False, False, False, True, False,
    ]  # fmt: skip


def test_a_results_folder_is_read_with_every_digest(finished_audit: Audit) -> None:
    found = sensitivity.describe(sensitivity.read(finished_audit.results))
    decision = json.loads((finished_audit.results / "decision.json").read_text())
    assert (found.core, found.evidence) == (decision["core"]["status"], decision["evidence"]["status"])
    best, x = decision["gate2"]["best_score"], decision["gate1"]["x"]
    assert found.epsilon_flip == pytest.approx(x - best)
