"""What all reference agents of the small tasks have in common, and the blind chance of each."""

import ast
import json
import subprocess
from statistics import mean

import pytest
from agent_episodes import FOLDER, Bench, Episode, command, load

from dcpflow.tasks.affine import AffineTask
from dcpflow.tasks.catalyst import CatalystTask
from dcpflow.tasks.device import DeviceTask
from dcpflow.tasks.example.mytask import MyTask
from dcpflow.tasks.knapsack import KnapsackTask, exchanged, greedy
from dcpflow.tasks.sqlite_shop import SqliteShopTask

SEED = "public seed of the agents' tests"
AGENTS = ("gain_finder", "packer", "parity_learner", "plate_reader")
LEARNERS = {"plate_reader": (CatalystTask, 1), "gain_finder": (DeviceTask, 4), "parity_learner": (AffineTask, 24)}


@pytest.fixture(scope="module")
def benches():
    return {name: Bench(task({}, SEED), name, budget) for name, (task, budget) in LEARNERS.items()}


@pytest.fixture(params=LEARNERS)
def bench(request, benches):
    return benches[request.param]


@pytest.fixture(scope="module")
def knapsack():
    return Bench(KnapsackTask({}, SEED), "packer", 2, candidates=2)


@pytest.mark.parametrize("agent", [*AGENTS, "label_buyer"])
def test_the_file_is_small_and_stands_alone(agent):
    source = (FOLDER / f"{agent}.py").read_text(encoding="utf-8")
    assert len(source.splitlines()) < 150
    tree = ast.parse(source)
    imports = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    imports |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imports <= {"hashlib", "itertools", "json", "math", "operator", "random", "sys"}
    # It does not know which arm, stage or channel it is in.
    assert not any(word in source.lower() for word in ("arm", "neutral", "challenger", "decoy", "truthful"))


# Agents that learn from their channel


def test_it_solves_the_task_with_truthful_feedback(bench, monkeypatch):
    for name in range(40):
        assert bench.play(monkeypatch, name, "truthful").score() == 1.0
        assert bench.play(monkeypatch, name, "truthful", told=True).score() == 1.0


@pytest.mark.parametrize("channel", ["constant", "neutral"])
def test_it_returns_what_it_was_told(bench, monkeypatch, channel):
    for name in range(60):
        assert bench.play(monkeypatch, name, channel, told=True).score() == 1.0


@pytest.mark.parametrize("told", [True, False])
def test_a_misleading_channel_misleads_it(bench, monkeypatch, told):
    misled = 0
    for name in range(12):
        episode = bench.play(monkeypatch, name, "decoy", told=told)
        assert episode.score() < 0.95
        misled += episode.score(episode.decoy) == 1.0
    assert misled >= 9


def test_the_example_that_task_new_writes_is_solved_by_its_agent(monkeypatch):
    bench = Bench(MyTask({}, SEED), "parity_learner", 24)
    for name in range(20):
        assert bench.play(monkeypatch, name, "truthful").score() == 1.0
        assert bench.play(monkeypatch, name, "neutral", told=True).score() == 1.0
        assert bench.play(monkeypatch, name, "neutral").score() < 0.95
        assert bench.play(monkeypatch, name, "decoy", told=True).score() < 0.95


@pytest.mark.parametrize("channel", ["constant", "neutral"])
def test_without_information_it_misses(bench, monkeypatch, channel):
    # At most one blind hit in 1,848 (affine): two of 150 would be a chance of 3 in 1,000.
    hits = sum(bench.play(monkeypatch, name, channel).score() >= 0.95 for name in range(150))
    assert hits <= 1


def test_blind_recipes_are_left_to_chance(benches, monkeypatch):
    right = []
    for name in range(300):
        episode = benches["plate_reader"].play(monkeypatch, name, "constant")
        best = json.loads(episode.bench.task.known_solution(episode.shown, episode.hidden))
        chosen = json.loads(episode.committed[0])
        assert not set(chosen.items()) & set(episode.hello["E0"]["anchor"].items())
        right.append(sum(chosen[control] == best[control] for control in best))
    # One level of seven in each of five controls; standard error .045.
    assert 0.58 < mean(right) < 0.85


def test_blind_gains_are_left_to_chance(benches, monkeypatch):
    wrong = []
    for name in range(300):
        episode = benches["gain_finder"].play(monkeypatch, name, "constant")
        truth = json.loads(episode.bench.task.known_solution(episode.shown, episode.hidden))
        chosen = json.loads(episode.committed[0])
        assert sorted(chosen.values()) == [-1] * 12 + [1] * 12
        assert {control: chosen[control] for control in episode.hello["E0"]["known"]} == episode.hello["E0"]["known"]
        wrong.append(sum(chosen[control] != truth[control] for control in truth))
    # Ten of twenty, in steps of two; standard error .13.
    assert 9.5 < mean(wrong) < 10.5
    assert all(count % 2 == 0 for count in wrong)


def test_blind_functions_are_left_to_chance(benches, monkeypatch):
    right, ones = [], []
    for name in range(300):
        episode = benches["parity_learner"].play(monkeypatch, name, "constant")
        truth = json.loads(episode.bench.task.known_solution(episode.shown, episode.hidden))
        chosen = json.loads(episode.committed[0])
        assert len(chosen["inputs"]) == 6
        right.append(len(set(chosen["inputs"]) & set(truth["inputs"])))
        ones.append(chosen["constant"] == truth["constant"])
    # Three of six (standard error .05), and one of two constants (.03).
    assert 2.8 < mean(right) < 3.2
    assert 0.4 < mean(ones) < 0.6


def test_the_same_seed_gives_the_same_episode(bench, monkeypatch):
    one, two = (bench.play(monkeypatch, "again", "constant") for _ in range(2))
    assert one.requests == two.requests
    others = [bench.play(monkeypatch, "again", "constant", seed=seed).requests for seed in ("aa", "bb", "cc")]
    assert any(requests != one.requests for requests in others)


def test_the_hidden_state_reaches_it_through_the_channel_alone(bench, monkeypatch):
    base = bench.play(monkeypatch, "other", "neutral")
    for draw in range(5):
        episode = Episode(bench, "other", "neutral")
        episode.hidden = bench.task.hidden(bytes([draw]) * 32)
        assert episode.run(monkeypatch).requests == base.requests


@pytest.mark.parametrize("channel", ["truthful", "constant"])
@pytest.mark.parametrize("budget", [0, 1, 3, 30])
def test_it_keeps_to_the_registered_budget(bench, monkeypatch, budget, channel):
    episode = bench.play(monkeypatch, "budget", channel, budget=budget)
    assert episode.actions == ["experiment"] * budget + ["commit", "finish"]
    assert [request["id"] for request in episode.requests] == [str(n) for n in range(1, budget + 3)]
    if budget >= bench.budget and channel == "truthful":
        assert episode.score() == 1.0


def test_a_refused_experiment_ends_the_research_and_not_the_episode(bench, monkeypatch):
    episode = Episode(bench, "refused", "truthful", told=True)
    episode.left = 0
    episode.run(monkeypatch)
    assert episode.actions == ["experiment", "commit", "finish"]
    assert episode.score() == 1.0


def test_a_history_is_knowledge_and_counts_against_the_budget(bench, monkeypatch):
    full = bench.play(monkeypatch, "history", "truthful")
    research = list(zip(full.requests, full.replies, strict=True))[: bench.budget]
    history = [{"request": {"id": "w", "action": "web_fetch", "url": "https://example.org/"}, "reply": {"ok": True}}]
    history += [{"request": request, "reply": reply} for request, reply in research]
    branch = bench.play(monkeypatch, "history", "constant", history=history)
    assert branch.actions == ["commit", "finish"]
    assert branch.score() == 1.0


def test_a_mixed_device_is_not_believed(benches, monkeypatch):
    # Half of the answers come from another device: they agree with no gains at all.
    bench = benches["gain_finder"]
    for name in range(10):
        episode = Episode(bench, name, "truthful", told=True)
        count = iter(range(9))
        honest, other = episode.answer, Episode(bench, name, "decoy").answer
        episode.answer = lambda text, h=honest, o=other, c=count: (h if next(c) < 2 else o)(text)
        assert episode.run(monkeypatch).score() == 1.0


# The packer, which needs no channel


@pytest.mark.parametrize("channel", ["constant", "neutral", "truthful"])
def test_the_packer_beats_the_baseline_without_feedback(knapsack, monkeypatch, channel):
    task, bound = knapsack.task, json.loads(knapsack.task.public_material()["knapsack.json"])["bound"]
    base = task._instance.profit(greedy(task._instance)) / bound
    scores = []
    for name in range(12):
        episode = knapsack.play(monkeypatch, name, channel)
        assert episode.actions == ["experiment", "commit", "experiment", "commit", "finish"]
        scores.append(episode.score())
    assert min(scores) > base
    # Whichever run were the claimed one, another reaches its line: all but perhaps the very best.
    recovered = [sum(other >= score - 0.002 for other in scores) > 1 for score in scores]
    assert sum(recovered) >= 10


def test_the_packer_uses_a_selection_that_it_is_told(knapsack, monkeypatch):
    task = knapsack.task
    bound = json.loads(task.public_material()["knapsack.json"])["bound"]
    known = task._instance.profit(exchanged(task._instance)) / bound
    for name in range(6):
        assert knapsack.play(monkeypatch, name, "constant", told=True).score() >= known


def test_the_packer_commits_nothing_that_is_refused(knapsack, monkeypatch):
    episode = Episode(knapsack, "refused", "truthful")
    episode.left = 1
    episode.run(monkeypatch)
    assert episode.actions == ["experiment", "commit", "experiment", "finish"]
    alone = knapsack.play(monkeypatch, "alone", "constant", budget=0)
    assert alone.actions == ["commit", "commit", "finish"]


# As programs


@pytest.mark.parametrize("agent", AGENTS)
def test_as_a_process(benches, knapsack, monkeypatch, agent):
    bench = benches.get(agent, knapsack)
    more = {"files": {"canary.txt": "Zeile\u00e4\r\n\u2028", "other": "x"}, "quote": ["canary.txt"], "told": True}
    episode = Episode(bench, "process", "neutral", **more).run_as_process()
    assert episode.requests == bench.play(monkeypatch, "process", "neutral", **more).requests
    commits = [request for request in episode.requests if request["action"] == "commit"]
    assert all(commit["quotes"] == {"canary.txt": "Zeile\u00e4\r\n\u2028"} for commit in commits)
    assert len(commits) == bench.candidates
    plain = bench.play(monkeypatch, "plain", "constant")
    assert [request["quotes"] for request in plain.requests if request["action"] == "commit"] == [{}] * bench.candidates


@pytest.mark.parametrize("agent", AGENTS)
def test_a_closed_channel_ends_the_process(benches, knapsack, agent):
    hello = json.dumps(Episode(benches.get(agent, knapsack), "closed", "constant").hello).encode() + b"\n"
    done = subprocess.run(command(agent), input=hello, capture_output=True, check=False, timeout=20)
    assert done.returncode == 1
    assert b"closed" in done.stderr
    assert json.loads(done.stdout)["action"] == "experiment"


def test_the_index_designer_does_the_shop_as_well(monkeypatch):
    small = {"rows": 2_000, "distinct_values": 100, "sealed_parameters": 1}
    bench = Bench(SqliteShopTask(small, SEED), "index_designer", 4)
    assert load("index_designer").FLAT > 1
    for name in range(8):
        solution = Episode(bench, name, "truthful")
        solution.committed = [bench.task.known_solution(solution.shown, solution.hidden)]
        best = solution.score()
        assert bench.play(monkeypatch, name, "truthful").score() == pytest.approx(best, abs=1e-9)
        for channel in ("constant", "neutral"):
            assert bench.play(monkeypatch, name, channel, told=True).score() == pytest.approx(best, abs=1e-9)
            assert bench.play(monkeypatch, name, channel).score() < best - 0.05
