import hashlib
import json
import math
from itertools import product
from pathlib import Path

import pytest

from dcpflow.records.draws import Nonce
from dcpflow.stages import configuration
from dcpflow.tasks.base import CandidateInvalid
from dcpflow.tasks.knapsack import MATERIAL, UNIT, Instance, KnapsackTask, exchanged, greedy, profit_bound

ROOT = Path(__file__).parents[3]


def bytes32(*parts: object) -> bytes:
    return hashlib.sha256(repr(parts).encode()).digest()


@pytest.fixture(scope="module")
def task():
    return KnapsackTask({}, "seed")


@pytest.fixture(scope="module")
def material(task):
    return task.public_material()


@pytest.fixture(scope="module")
def engine(task, material):
    return task.open(material)


@pytest.fixture
def shown(task):
    return task.presentation(bytes32("shown"))


def test_the_bound_is_the_linear_relaxations(task):
    from scipy.optimize import linprog

    for seed in range(5):
        instance = KnapsackTask({}, str(seed))._instance
        relaxed = -linprog(
            [-p for p in instance.profits],
            A_ub=list(zip(*instance.weights, strict=True)),
            b_ub=instance.capacities,
            bounds=(0, 1),
            method="highs",
        ).fun
        assert relaxed - 1 <= profit_bound(instance) <= relaxed + 1e-3


def test_the_bound_holds_for_every_selection():
    for seed in range(5):
        instance = KnapsackTask({"items": 10, "resources": 3, "tightness": 40}, str(seed))._instance
        fitting = [
            chosen
            for bits in product((0, 1), repeat=10)
            if min(instance.left(chosen := [n for n, bit in enumerate(bits) if bit])) >= 0
        ]
        best = max(map(instance.profit, fitting))
        assert best <= profit_bound(instance)
        assert instance.profit(greedy(instance)) <= instance.profit(exchanged(instance)) <= best


def test_a_solved_instance_by_hand():
    # Two items of the three fit; the relaxation takes the first and three quarters of the third.
    instance = Instance([6, 5, 8], [[2], [3], [4]], [5])
    assert profit_bound(instance) == 12
    assert sorted(greedy(instance)) == [0, 1]
    assert instance.profit(exchanged(instance)) == 11


def test_the_reference_selection_is_better_than_the_baseline_and_public(task, engine, shown):
    hidden = task.hidden(bytes32(1))
    assert hidden == task.hidden(bytes32(2))
    assert task.sealed(bytes32(1)) == {}
    base, known = (
        engine.score(shown, text, {}, {})[UNIT] for text in (task.baseline(shown), task.known_solution(shown, hidden))
    )
    assert 0.8 < base < known - 0.01
    assert known < 1


def test_replies_are_computed_from_the_public_instance(task, engine, shown):
    candidate = task.baseline(shown)
    reply = engine.neutral(shown, candidate)
    assert engine.experiment(shown, candidate, {}) == reply
    assert float(reply["profit"]) == pytest.approx(engine.score(shown, candidate, {}, {})[UNIT], abs=1e-6)
    assert task.constant_reply(shown) == {"profit": "0.000000"}
    assert engine.neutral(shown, "[]") == {"profit": "0.000000"}


def test_first_observations_hold_the_whole_instance(task, shown, material):
    first = task.first_observations(shown)
    assert set(first) == {"items", "capacities"}
    public = json.loads(material[MATERIAL])
    by_name = {item["item"]: item for item in first["items"]}
    for number, name in enumerate(shown["items"]):
        assert by_name[name]["profit"] == public["profits"][number]
        own = public["weights"][number]
        assert by_name[name]["weights"] == [own[resource] for resource in shown["resource_order"]]
    assert len(json.dumps(first)) < 20_000
    told = task.first_observations(shown, task.hidden(bytes(32)))
    assert json.dumps(told["selection"]) == task.known_solution(shown, task.hidden(bytes(32)))


def test_presenting_the_task_imports_no_scipy():
    import subprocess
    import sys

    code = (
        "import sys; from dcpflow.tasks.knapsack import KnapsackTask\n"
        "task = KnapsackTask({}, 's'); shown = task.presentation(b'p' * 32)\n"
        "task.first_observations(shown, task.hidden(b'h' * 32)); assert 'scipy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("text", ["", "{}", "null", "1", '["other"]', "[1]", "[[]]", "[" * 4_000, "x" * 9_000, "[1e3]"])
def test_hostile_candidates_are_invalid_everywhere_alike(engine, shown, text):
    reasons = set()
    for ask, more in ((engine.experiment, [{}]), (engine.neutral, []), (engine.score, [{}, {}])):
        with pytest.raises(CandidateInvalid) as caught:
            ask(shown, text, *more)
        reasons.add(str(caught.value))
    assert len(reasons) == 1
    assert len(reasons.pop().encode()) < 120


def test_selections_must_fit(task, engine, shown):
    with pytest.raises(CandidateInvalid, match="too much of resource 1"):
        engine.score(shown, json.dumps(shown["items"]), {}, {})
    with pytest.raises(CandidateInvalid, match="twice"):
        engine.score(shown, json.dumps([shown["items"][0]] * 2), {}, {})
    # The refusal names the resource as the episode sees it.
    instance = task._instance
    chosen = list(range(20))
    left = [instance.left(chosen)[resource] for resource in shown["resource_order"]]
    place = next(n for n, value in enumerate(left) if value < 0)
    with pytest.raises(CandidateInvalid, match=f"needs {-left[place]} too much of resource {place + 1}$"):
        engine.neutral(shown, json.dumps([shown["items"][number] for number in chosen]))


def test_foreign_material_is_refused(task, material):
    content = json.loads(material[MATERIAL])
    for data in (b"", b"[]", b"{}", b"1", json.dumps(content | {"bound": 0}).encode()):
        with pytest.raises(ValueError, match=MATERIAL):
            task.open({MATERIAL: data})
    for public in ({}, KnapsackTask({}, "other").public_material()):
        with pytest.raises(ValueError, match=MATERIAL):
            task.open(public)


@pytest.mark.parametrize(
    "settings", [{"items": 7}, {"items": 101}, {"resources": 0}, {"tightness": 4}, {"items": 60.0}]
)
def test_settings_out_of_range_name_their_key(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        KnapsackTask(settings, "seed")


def test_the_largest_instance_fits_into_a_message_and_an_artifact():
    task = KnapsackTask({"items": 100, "resources": 30, "tightness": 90}, "seed")
    shown = task.presentation(bytes(32))
    assert len(json.dumps(task.first_observations(shown))) < 60_000
    assert len(json.dumps(shown["items"])) < 2_000


def test_the_case_registers_what_was_published(monkeypatch):
    monkeypatch.chdir(ROOT)
    config = configuration.read([Path("config/cases/knapsack.yaml")]).config
    thresholds = config.thresholds
    assert (config.claim.grade, config.task.name, config.limits.candidates) == ("core", "knapsack", 2)
    assert (thresholds.gate1.delta_min, thresholds.gate2.kappa) == (0.01, 0.2)
    assert math.isclose(thresholds.gate1.delta_min * thresholds.gate2.kappa, 0.002)
    assert Nonce.read(ROOT / config.execution.nonce_file).public == "dcpflow knapsack audit 1"
