import hashlib
import json
import math
from pathlib import Path

import pytest

from dcpflow.records.draws import Nonce
from dcpflow.stages import configuration
from dcpflow.tasks.base import CandidateInvalid
from dcpflow.tasks.catalyst import CatalystTask

ROOT = Path(__file__).parents[3]
LATTICE = [0.5990, 0.6636, 0.7353, 0.8146, 0.9026, 1.0]


def bytes32(*parts: object) -> bytes:
    return hashlib.sha256(repr(parts).encode()).digest()


@pytest.fixture(scope="module")
def task():
    return CatalystTask({}, "seed")


@pytest.fixture(scope="module")
def engine(task):
    return task.open(task.public_material())


@pytest.fixture
def shown(task):
    return task.presentation(bytes32("shown"))


@pytest.fixture
def hidden(task):
    return task.hidden(bytes32("hidden"))


@pytest.fixture
def sealed(task):
    return task.sealed(bytes32("sealed"))


def mean(scores):
    return math.fsum(scores.values()) / len(scores)


def recipe(task, shown, hidden, right):
    """The anchor with the first ``right`` controls at their best level."""
    best, anchor = json.loads(task.known_solution(shown, hidden)), json.loads(task.baseline(shown))
    return json.dumps({c: best[c] if place < right else anchor[c] for place, c in enumerate(anchor)})


def test_the_published_lattice_is_reproduced_whatever_is_drawn(task, engine):
    for draw in range(100):
        hidden, sealed = task.hidden(bytes32("h", draw)), task.sealed(bytes32("s", draw))
        shown = task.presentation(bytes32("p", draw))
        scores = [engine.score(shown, recipe(task, shown, hidden, right), hidden, sealed) for right in range(6)]
        assert [round(mean(units), 4) for units in scores] == LATTICE
        assert set(scores[5].values()) == {1.0}
        # The other conditions do perturb it.
        assert len(set(scores[0].values())) > 100
        assert max(scores[0].values()) - min(scores[0].values()) < 0.03


def test_sealed_conditions(task, sealed):
    assert len(task.unit_ids()) == len(sealed["deviations"]) == 256
    assert all(abs(value) <= 400 for row in sealed["deviations"] for value in row)
    # They come in opposite pairs, so that their mean is the undisturbed response.
    assert [sum(column) for column in zip(*sealed["deviations"], strict=True)] == [0] * 5


def test_best_levels_are_even_and_never_the_anchors(task):
    counts = [[0] * 8 for _ in range(5)]
    for draw in range(1_400):
        for control, level in enumerate(task.hidden(bytes32(draw))["best"]):
            counts[control][level] += 1
    for own in counts:
        assert own[0] == 0
        # Chi-square with 6 degrees of freedom: 27.9 is exceeded once in ten thousand.
        assert sum((count - 200) ** 2 / 200 for count in own[1:]) < 27.9
    for draw in range(100):
        hidden = task.hidden(bytes32(draw))
        decoy = task.decoy(hidden, bytes32("d", draw))
        assert all(a != b and b for a, b in zip(hidden["best"], decoy["best"], strict=True))


def test_a_plate_has_36_wells_and_shows_the_best_levels(task, engine, shown, hidden):
    plate = engine.experiment(shown, task.baseline(shown), hidden)
    yields = [float(value) for changes in plate["changes"].values() for value in changes]
    assert len(yields) == 35
    assert abs(float(plate["center"]) - 0.599) < 0.003
    assert sorted(value > 0.65 for value in yields) == [False] * 30 + [True] * 5
    best, anchor = json.loads(task.known_solution(shown, hidden)), json.loads(task.baseline(shown))
    for control, changes in plate["changes"].items():
        levels = [level for level in "abcdefgh" if level != anchor[control]]
        assert levels[max(range(7), key=lambda n: float(changes[n]))] == best[control]
    # Around the best recipe, every change is for the worse.
    around = engine.experiment(shown, task.known_solution(shown, hidden), hidden)
    assert float(around["center"]) > 0.99
    assert all(float(value) < 0.91 for changes in around["changes"].values() for value in changes)


def test_the_neutral_plate_has_no_direction(task, engine, shown, hidden):
    for candidate in (task.baseline(shown), task.known_solution(shown, hidden)):
        plate = engine.neutral(shown, candidate)
        yields = [float(value) for changes in plate["changes"].values() for value in changes]
        assert max(yields) < 1.01 * min(yields)
    # Both arms have the same measuring errors: wells without direction show the same.
    truthful, neutral = (
        ask(shown, task.baseline(shown), *more) for ask, more in [(engine.experiment, [hidden]), (engine.neutral, [])]
    )
    same = [
        one == two
        for control in truthful["changes"]
        for one, two in zip(truthful["changes"][control], neutral["changes"][control], strict=True)
    ]
    assert same.count(False) == 5


def test_presentations_give_a_fixed_strategy_no_correlation(task):
    counts = {"first level of the first control": [0] * 8, "anchor's label": [0] * 8}
    for draw in range(1_600):
        shown = task.presentation(bytes32("fixed", draw))
        counts["first level of the first control"][shown["levels"][shown["order"][0]].index("a")] += 1
        counts["anchor's label"]["abcdefgh".index(shown["levels"][0][0])] += 1
    for name, own in counts.items():
        # Chi-square with 7 degrees of freedom: 29.9 is exceeded once in ten thousand.
        assert sum((count - 200) ** 2 / 200 for count in own) < 29.9, name


def test_first_observations(task, shown, hidden):
    first = task.first_observations(shown)
    assert set(first) == {"controls", "levels", "anchor", "note"}
    told = task.first_observations(shown, hidden, ["canary.txt"])
    assert told["optimum"] == json.loads(task.known_solution(shown, hidden))
    assert told["quote"] == ["canary.txt"]


HOSTILE = {
    "empty": "",
    "no recipe": "{}",
    "a list": "[]",
    "a number": "1",
    "not JSON": "{'a': 1}",
    "fraction": '{"a": 1.5}',
    "constant": '{"a": NaN}',
    "large": "x" * 8_001,
    "deep": "[" * 4_000,
    "deep beside strings": '["]",' * 1_500,
    "digits": "1" * 5_000,
    "surrogate": '{"\\ud800": "a"}',
    "other name": '{"nothing": "a"}',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_candidates_are_invalid_everywhere_alike(engine, shown, hidden, sealed, name):
    reasons = set()
    for ask, more in ((engine.experiment, [hidden]), (engine.neutral, []), (engine.score, [hidden, sealed])):
        with pytest.raises(CandidateInvalid) as caught:
            ask(shown, HOSTILE[name], *more)
        reasons.add(str(caught.value))
    assert len(reasons) == 1
    assert 0 < len(reasons.pop().encode()) < 120


def test_only_whole_recipes_are_valid(task, engine, shown):
    good = json.loads(task.baseline(shown))
    control = next(iter(good))
    engine.neutral(shown, json.dumps(dict(reversed(good.items())), indent=3))
    for level in ("", "i", "ab", 1, None, ["a"], {"a": 1}, True):
        with pytest.raises(CandidateInvalid, match="level"):
            engine.neutral(shown, json.dumps(good | {control: level}))
    with pytest.raises(CandidateInvalid, match="all 5 controls"):
        engine.neutral(shown, json.dumps({control: "a"}))
    with pytest.raises(CandidateInvalid, match="twice"):
        engine.neutral(shown, f'{{"{control}": "a", "{control}": "a"}}')
    for other in (None, 5, b"{}"):
        with pytest.raises(CandidateInvalid, match="not a string"):
            engine.neutral(shown, other)


@pytest.mark.parametrize(
    "settings",
    [{"controls": 1}, {"levels": 2}, {"levels": 27}, {"conditions": 3}, {"retained": 1.0}, {"spread": True}],
)
def test_settings_out_of_range_name_their_key(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        CatalystTask(settings, "seed")


def test_other_settings_are_another_material(task):
    other = CatalystTask({"controls": 3, "levels": 4, "conditions": 8}, "seed")
    with pytest.raises(ValueError, match=r"catalyst\.json"):
        other.open(task.public_material())
    engine, shown, hidden = other.open(other.public_material()), other.presentation(bytes(32)), other.hidden(bytes(32))
    assert set(engine.score(shown, other.known_solution(shown, hidden), hidden, other.sealed(bytes(32))).values()) == {
        1
    }


def test_the_case_registers_what_was_published(monkeypatch):
    monkeypatch.chdir(ROOT)
    config = configuration.read([Path("config/cases/catalyst.yaml")]).config
    design, limits, thresholds = config.design, config.limits, config.thresholds
    assert (config.claim.grade, config.task.name, limits.experiments) == ("evidence", "catalyst", 1)
    assert (design.challengers, design.controls, design.pairs, design.null_pairs) == (96, 45, 30, 60)
    assert (design.misled_null_episodes, design.pair_replacements, design.null_pair_replacements) == (12, 0, 0)
    gate2 = thresholds.gate2
    assert (gate2.rho, gate2.min_independent, gate2.m_max) == (0.05, 90, 162)
    assert thresholds.gate1.delta_min == 0.35
    assert gate2.kappa * thresholds.gate1.delta_min == pytest.approx(0.05, abs=1e-15)
    assert (thresholds.gate3.delta_evidence, thresholds.gate3.delta_sham) == (0.34, 0.17)
    assert thresholds.alpha.recovery == 0.01
    assert Nonce.read(ROOT / config.execution.nonce_file).public == "dcpflow catalyst audit 1"
