import hashlib
import json
from itertools import combinations
from pathlib import Path
from statistics import mean

import pytest

from dcpflow.records.draws import Nonce
from dcpflow.stages import configuration
from dcpflow.tasks.affine import AffineTask
from dcpflow.tasks.base import CandidateInvalid

ROOT = Path(__file__).parents[3]


def bytes32(*parts: object) -> bytes:
    return hashlib.sha256(repr(parts).encode()).digest()


@pytest.fixture(scope="module")
def task():
    return AffineTask({}, "seed")


@pytest.fixture(scope="module")
def engine(task):
    return task.open(task.public_material())


@pytest.fixture
def shown(task):
    return task.presentation(bytes32("shown"))


@pytest.fixture
def hidden(task):
    return task.hidden(bytes32("hidden"))


@pytest.fixture(scope="module")
def sealed(task):
    return task.sealed(bytes32("sealed"))


def test_the_output_is_an_affine_function_of_the_inputs(task, engine):
    for draw in range(10):
        shown, hidden = task.presentation(bytes32(draw)), task.hidden(bytes32("h", draw))
        active = {shown["inputs"][number] for number in hidden["inputs"]}

        def value(*on, shown=shown, hidden=hidden):
            return int(engine.experiment(shown, json.dumps(on), hidden)["value"])

        assert len(active) == 6
        for on in (*combinations(shown["inputs"], 1), *list(combinations(shown["inputs"], 4))[::17]):
            assert value(*on) == (value() + len(active & set(on))) % 2


def test_a_solution_scores_one_and_everything_else_about_half(task, engine, sealed):
    scores = []
    for draw in range(60):
        shown, hidden = task.presentation(bytes32(draw)), task.hidden(bytes32("h", draw))
        solution = task.known_solution(shown, hidden)
        assert set(engine.score(shown, solution, hidden, sealed).values()) == {1.0}
        inverse = json.loads(solution)
        inverse["constant"] ^= 1
        assert set(engine.score(shown, json.dumps(inverse), hidden, sealed).values()) == {0.0}
        others = [task.baseline(shown), task.known_solution(shown, task.decoy(hidden, bytes32("d", draw)))]
        others.append(task.known_solution(shown, task.hidden(bytes32("o", draw))))
        scores += [mean(engine.score(shown, other, hidden, sealed).values()) for other in others]
    # 256 points: standard deviation .031.
    assert all(0.35 < score < 0.65 for score in scores)


def test_sealed_points_can_be_asked_by_no_experiment(task, sealed):
    points = sealed["points"]
    assert len(set(points)) == len(task.unit_ids()) == 256
    assert all(0 < point < 1 << 12 and point.bit_count() > 4 for point in points)
    assert task.sealed(bytes32("other")) != sealed


def test_functions_are_even_and_decoys_share_no_input(task):
    counts, ones = [0] * 12, 0
    for draw in range(1_200):
        hidden = task.hidden(bytes32(draw))
        assert len(set(hidden["inputs"])) == 6
        ones += hidden["constant"]
        for number in hidden["inputs"]:
            counts[number] += 1
        assert not set(hidden["inputs"]) & set(task.decoy(hidden, bytes32(draw))["inputs"])
    # 600 expected, standard deviation 17.
    assert all(530 < count < 670 for count in (*counts, ones))


def test_the_neutral_value_is_a_fair_bit_that_stays(task, engine):
    bits = []
    for draw in range(300):
        shown = task.presentation(bytes32("bits", draw))
        for on in task.experiment_examples(shown)[:4]:
            bits.append(engine.neutral(shown, on))
            assert engine.neutral(shown, on) == bits[-1]
    # 600 ones of 1,200 expected, standard deviation 17.
    assert 530 < sum(bit["value"] == "1" for bit in bits) < 670
    shown = task.presentation(bytes32("one"))
    one, two = shown["inputs"][:2]
    assert engine.neutral(shown, json.dumps([one, two])) == engine.neutral(shown, json.dumps([two, one]))


def test_presentations_give_a_fixed_strategy_no_correlation(task):
    first, inverted = [0] * 12, 0
    for draw in range(1_200):
        shown = task.presentation(bytes32("fixed", draw))
        first[shown["order"][0]] += 1
        inverted += shown["inverted"]
    # Chi-square with 11 degrees of freedom: 37.4 is exceeded once in ten thousand.
    assert sum((count - 100) ** 2 / 100 for count in first) < 37.4
    assert 530 < inverted < 670


def test_first_observations(task, shown, hidden):
    first = task.first_observations(shown)
    assert set(first) == {"inputs", "most_on", "active"}
    told = task.first_observations(shown, hidden, ["a"])
    assert told["function"] == json.loads(task.known_solution(shown, hidden))


@pytest.mark.parametrize(
    "text", ["", "{}", "null", "1", '["nothing"]', "[1]", "[[]]", "[" * 4_000, "x" * 9_000, "[1e3]"]
)
def test_hostile_experiments_are_invalid_everywhere_alike(engine, shown, hidden, text):
    with pytest.raises(CandidateInvalid) as one:
        engine.experiment(shown, text, hidden)
    with pytest.raises(CandidateInvalid) as two:
        engine.neutral(shown, text)
    assert str(one.value) == str(two.value)
    assert len(str(one.value).encode()) < 120


def test_experiments_switch_on_at_most_four_inputs(engine, shown):
    names = shown["inputs"]
    for on, reason in ((names[:5], "at most 4"), ([names[0], names[0]], "twice")):
        with pytest.raises(CandidateInvalid, match=reason):
            engine.neutral(shown, json.dumps(on))


def test_artifacts_are_functions(engine, shown, hidden, sealed):
    for artifact, reason in (
        ({"inputs": []}, "keys"),
        ({"inputs": [], "constant": 0, "more": 1}, "keys"),
        ({"inputs": [], "constant": 2}, "0 or 1"),
        ({"inputs": [], "constant": True}, "0 or 1"),
        ({"inputs": [], "constant": "1"}, "0 or 1"),
        ({"inputs": {}, "constant": 0}, "a list"),
        ({"inputs": ["other"], "constant": 0}, "no input"),
        ({"inputs": [shown["inputs"][0]] * 2, "constant": 0}, "twice"),
        ([], "keys"),
    ):
        with pytest.raises(CandidateInvalid, match=reason):
            engine.score(shown, json.dumps(artifact), hidden, sealed)


@pytest.mark.parametrize(
    "settings", [{"inputs": 3}, {"inputs": 17}, {"active": 7}, {"most_on": 11}, {"points": 3_303}, {"points": 0}]
)
def test_settings_out_of_range_name_their_key(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        AffineTask(settings, "seed")


def test_the_case_is_too_small_to_certify(monkeypatch):
    monkeypatch.chdir(ROOT)
    config = configuration.read([Path("config/cases/affine.yaml")]).config
    design = config.design
    assert (config.claim.grade, config.task.name) == ("evidence", "affine")
    assert (design.challengers, design.controls, design.pairs, design.null_pairs) == (2, 2, 2, 2)
    # The bound of two successes in two trials: exact at no floor that the protocol allows.
    assert round(config.thresholds.alpha.adequacy ** (1 / design.controls), 4) == 0.0707
    assert Nonce.read(ROOT / config.execution.nonce_file).public == "dcpflow affine audit 1"
