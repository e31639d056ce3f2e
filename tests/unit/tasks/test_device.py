import hashlib
import json
import math
from itertools import combinations
from pathlib import Path

import pytest

from dcpflow.records.draws import Nonce
from dcpflow.stages import configuration
from dcpflow.tasks.base import CandidateInvalid
from dcpflow.tasks.device import DeviceTask

ROOT = Path(__file__).parents[3]


def bytes32(*parts: object) -> bytes:
    return hashlib.sha256(repr(parts).encode()).digest()


@pytest.fixture(scope="module")
def task():
    return DeviceTask({}, "seed")


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
def score(task, engine, shown, hidden):
    sealed = task.sealed(bytes32("sealed"))

    def ask(gains):
        artifact = json.dumps(dict(zip(shown["controls"], gains, strict=True)))
        return math.fsum(engine.score(shown, artifact, hidden, sealed).values())

    return ask


def test_the_public_baseline_is_right_for_110_of_300(task, engine):
    for draw in range(50):
        shown, hidden = task.presentation(bytes32(draw)), task.hidden(bytes32("h", draw))
        scores = engine.score(shown, task.baseline(shown), hidden, task.sealed(bytes32("s", draw)))
        assert len(scores) == 300
        assert set(scores.values()) == {0.0, 1.0}
        assert sum(scores.values()) == 110
        assert round(110 / 300, 4) == 0.3667
        solved = engine.score(shown, task.known_solution(shown, hidden), hidden, task.sealed(bytes32("s", draw)))
        assert set(solved.values()) == {1.0}


def test_scores_of_balanced_guesses(hidden, score):
    plus = [n for n in range(4, 24) if hidden["gains"][n] == 1]
    minus = [n for n in range(4, 24) if hidden["gains"][n] == -1]
    expected = {0: 1.0, 1: 0.8467, 2: 0.7133, 3: 0.6, 4: 0.5067, 5: 0.4333, 6: 0.38}
    for swapped, value in expected.items():
        gains = list(hidden["gains"])
        for number in plus[:swapped] + minus[:swapped]:
            gains[number] = -gains[number]
        assert round(score(gains) / 300, 4) == value


def test_the_recovery_line_needs_all_twenty_signs(hidden, score):
    for number in range(24):
        for other in (0, -hidden["gains"][number]):
            gains = [other if place == number else gain for place, gain in enumerate(hidden["gains"])]
            assert score(gains) <= 0.92 * 300


def test_units_are_all_doubles_and_pairs(task):
    units, pairs = task.unit_ids(), task.sealed(bytes32("s"))["pairs"]
    assert len(set(units)) == len(pairs) == 300
    assert sum(one == two for one, two in pairs) == 24
    assert sorted(map(tuple, (p for p in pairs if p[0] != p[1]))) == sorted(combinations(range(24), 2))


def test_hidden_gains_are_balanced_and_even(task):
    counts = [0] * 24
    for draw in range(800):
        gains = task.hidden(bytes32(draw))["gains"]
        assert gains[:4] == [1, -1, 1, -1]
        assert sorted(gains[4:]) == [-1] * 10 + [1] * 10
        counts = [count + (gain == 1) for count, gain in zip(counts, gains, strict=True)]
        assert task.decoy({"gains": gains}, bytes32(draw))["gains"] == gains[:4] + [-gain for gain in gains[4:]]
    # 400 expected, standard deviation 14.
    assert all(340 < count < 460 for count in counts[4:])


def test_sums_of_groups(task, engine, shown, hidden):
    gain = dict(zip(shown["controls"], hidden["gains"], strict=True))
    for candidate in task.experiment_examples(shown):
        groups = json.loads(candidate)
        sums = engine.experiment(shown, candidate, hidden)["sums"]
        assert list(map(int, sums)) == [sum(gain[name] for name in group) for group in groups]
        # The order within a group changes nothing.
        turned = json.dumps([group[::-1] for group in groups])
        assert engine.experiment(shown, turned, hidden)["sums"] == sums
        assert engine.neutral(shown, turned) == engine.neutral(shown, candidate)


def test_neutral_sums_are_drawn_anew_for_every_group(task, engine):
    # A fixed pair of known controls beside each unknown one, and then another pair: real gains would agree.
    agreed = total = 0
    for draw in range(30):
        shown = task.presentation(bytes32(draw))
        names = shown["controls"]
        for start in (4, 14):
            groups = [[[names[k], names[k + 1], names[n]] for n in range(start, start + 10)] for k in (0, 2)]
            one, two = (engine.neutral(shown, json.dumps(own))["sums"] for own in groups)
            agreed += sum(a == b for a, b in zip(one, two, strict=True))
            total += 10
    # Two sums of three fair signs are equal with probability 20/64.
    assert abs(agreed / total - 20 / 64) < 0.08


def test_presentations_give_a_fixed_strategy_no_correlation(task):
    counts, first = [0] * 24, [0] * 24
    for draw in range(2_400):
        shown = task.presentation(bytes32("fixed", draw))
        counts[min(range(24), key=shown["controls"].__getitem__)] += 1
        first[shown["order"][0]] += 1
    for own in (counts, first):
        # Chi-square with 23 degrees of freedom: 56.0 is exceeded once in seven thousand.
        assert sum((count - 100) ** 2 / 100 for count in own) < 56.0


def test_first_observations(task, shown, hidden):
    first = task.first_observations(shown)
    assert set(first) == {"controls", "known", "groups", "group", "note"}
    assert sorted(first["known"].values()) == [-1, -1, 1, 1]
    assert list(first["known"]) == [name for name in first["controls"] if name in first["known"]]
    told = task.first_observations(shown, hidden)
    assert told["gains"] == dict(zip(shown["controls"], hidden["gains"], strict=True))


HOSTILE = ["", "{}", "[]", "null", "[[]]", "[1]", "1", "[" * 4_000, '["]",' * 1_500, "x" * 9_000, "[1.5]", "\ud800"]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_experiments_are_invalid_everywhere_alike(engine, shown, hidden, text):
    with pytest.raises(CandidateInvalid) as one:
        engine.experiment(shown, text, hidden)
    with pytest.raises(CandidateInvalid) as two:
        engine.neutral(shown, text)
    assert str(one.value) == str(two.value)
    assert len(str(one.value).encode()) < 120


def test_groups_have_three_different_controls(task, engine, shown):
    good = json.loads(task.experiment_examples(shown)[0])
    names = shown["controls"]
    for group, reason in (
        (names[:2], "list of 3"),
        (names[:4], "list of 3"),
        ([names[0], names[1], names[0]], "twice"),
        ([names[0], names[1], "other"], "no control"),
        ([names[0], names[1], ["x"]], "no control"),
        ("abc", "list of 3"),
    ):
        with pytest.raises(CandidateInvalid, match=reason):
            engine.neutral(shown, json.dumps([group, *good[1:]]))
    for groups in (good[1:], [*good, good[0]]):
        with pytest.raises(CandidateInvalid, match="exactly 10 groups"):
            engine.neutral(shown, json.dumps(groups))


def test_artifacts_give_every_gain(task, engine, shown, hidden):
    sealed, good = task.sealed(bytes(32)), json.loads(task.baseline(shown))
    name = next(iter(good))
    for gain in (2, -2, True, "1", None, [1], {}):
        with pytest.raises(CandidateInvalid, match="a gain must be"):
            engine.score(shown, json.dumps(good | {name: gain}), hidden, sealed)
    for text, reason in (
        (json.dumps({name: 1}), "all 24"),
        (json.dumps(good | {"other": 1}), "no control"),
        ("[]", "an object"),
        (json.dumps(good)[:-1] + f', "{name}": 1}}', "twice"),
        (json.dumps(good).replace("-1", "-1.0"), "whole"),
    ):
        with pytest.raises(CandidateInvalid, match=reason):
            engine.score(shown, text, hidden, sealed)


@pytest.mark.parametrize("settings", [{"controls": 23}, {"known": 3}, {"known": 22}, {"groups": 0}, {"controls": "24"}])
def test_settings_out_of_range_name_their_key(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        DeviceTask(settings, "seed")


def test_the_case_registers_what_was_published(monkeypatch):
    monkeypatch.chdir(ROOT)
    config = configuration.read([Path("config/cases/device.yaml")]).config
    thresholds = config.thresholds
    assert (config.claim.grade, config.task.name) == ("core", "device")
    assert (config.design.challengers, config.design.controls) == (80, 60)
    assert (thresholds.gate1.delta_min, thresholds.gate2.kappa, thresholds.gate2.rho) == (0.5, 0.1, 0.05)
    assert (thresholds.gate2.min_independent, thresholds.gate2.m_max, thresholds.alpha.recovery) == (77, 80, 0.02)
    assert Nonce.read(ROOT / config.execution.nonce_file).public == "dcpflow device audit 1"
