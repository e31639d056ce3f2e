"""The agent that buys labels: it ends with labels that cohere, and with what it was told where they do not."""

import json
import subprocess

import pytest
from agent_episodes import Bench, Episode, command

from dcpflow.tasks.ionosphere import IonosphereTask
from dcpflow.tasks.yacht import YachtTask

SEED = "public seed of the agents' tests"
WEB = {"request": {"id": "w", "action": "web_fetch", "url": "https://example.org/"}, "reply": {"ok": True}}


@pytest.fixture(scope="module")
def yacht(data_file):
    return Bench(YachtTask({}, SEED, data_file("yacht")), "label_buyer", 8)


@pytest.fixture(scope="module")
def ionosphere(data_file):
    return Bench(IonosphereTask({}, SEED, data_file("ionosphere")), "label_buyer", 12)


@pytest.fixture(params=["yacht", "ionosphere"])
def bench(request):
    return request.getfixturevalue(request.param)


def claimed(episode):
    """The labels of the committed artifact."""
    (text,) = episode.committed
    return json.loads(text)["labels"]


def bought(episode):
    """What the episode's experiments were answered, by row."""
    found = {}
    for request, reply in zip(episode.requests, episode.replies, strict=True):
        if request["action"] == "experiment" and reply["ok"]:
            found |= zip(json.loads(request["candidate"]), reply["result"]["labels"], strict=True)
    return found


def known(episode):
    first = episode.hello["E0"]
    return first["labels"] | first.get("measured", {})


def test_with_truthful_replies_it_commits_all_that_it_measured(bench, monkeypatch):
    for name in range(2):
        episode = bench.play(monkeypatch, name, "truthful")
        assert claimed(episode) == known(episode) | bought(episode)
        # No row was bought twice.
        assert len(bought(episode)) == bench.budget * episode.hello["E0"]["batch"]
        assert episode.actions == ["experiment"] * bench.budget + ["commit", "finish"]
        blind = bench.play(monkeypatch, name, "constant")
        assert episode.score() > blind.score() + 0.5


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("channel", ["neutral", "constant"])
def test_replies_without_information_leave_it_with_what_it_was_told(bench, monkeypatch, channel, told):
    for name in range(2):
        episode = bench.play(monkeypatch, name, channel, told=told)
        assert claimed(episode) == known(episode)
        assert len(claimed(episode)) == (160 if told else len(episode.hello["E0"]["labels"]))
        assert len(bought(episode)) == bench.budget * episode.hello["E0"]["batch"]


def test_what_it_was_told_and_measures_again_is_what_it_commits(yacht, monkeypatch):
    episode = yacht.play(monkeypatch, "told", "truthful", told=True)
    assert claimed(episode) == known(episode)


def test_a_decoy_misleads_it_although_it_was_told_the_truth(yacht, ionosphere, monkeypatch):
    for bench, count, least in ((yacht, 2, 2), (ionosphere, 4, 2)):
        misled = 0
        for name in range(count):
            episode = bench.play(monkeypatch, name, "decoy", told=True)
            if claimed(episode) == known(episode):
                continue
            assert claimed(episode) == bought(episode)
            assert episode.score() < 0.1
            misled += 1
        assert misled >= least


# --- history, budget, channel ------------------------------------------------------------------------------


def test_from_the_checkpoint_it_goes_on_as_if_there_had_been_no_stop(bench, monkeypatch):
    whole = bench.play(monkeypatch, "history", "truthful")
    branch = bench.play(monkeypatch, "history", "truthful", history=[WEB])
    assert branch.requests == whole.requests


def research(episode, count):
    return [
        {"request": request, "reply": reply}
        for request, reply in zip(episode.requests[:count], episode.replies, strict=False)
    ]


def test_experiments_of_a_history_are_knowledge_and_count_against_the_budget(yacht, monkeypatch):
    whole = yacht.play(monkeypatch, "history", "truthful")
    branch = yacht.play(monkeypatch, "history", "constant", history=[WEB, *research(whole, 8)])
    assert branch.actions == ["commit", "finish"]
    assert claimed(branch) == claimed(whole)
    part = yacht.play(monkeypatch, "history", "truthful", history=research(whole, 5))
    assert part.actions == ["experiment"] * 3 + ["commit", "finish"]
    earlier = {row for entry in research(whole, 5) for row in json.loads(entry["request"]["candidate"])}
    assert not earlier & set(bought(part))
    assert set(claimed(part)) == {*known(part), *earlier, *bought(part)}


def test_a_refused_experiment_of_a_history_taught_nothing(yacht, monkeypatch):
    whole = yacht.play(monkeypatch, "history", "truthful")
    refused = {"id": "1", "ok": False, "error": {"code": "candidate", "message": "twice"}}
    history = [{"request": whole.requests[0], "reply": refused}]
    episode = yacht.play(monkeypatch, "history", "constant", history=history, budget=1)
    assert episode.actions == ["commit", "finish"]
    assert claimed(episode) == known(episode)


@pytest.mark.parametrize("budget", [0, 1, 3])
def test_it_keeps_to_the_registered_budget(yacht, monkeypatch, budget):
    episode = yacht.play(monkeypatch, "budget", "truthful", budget=budget)
    assert episode.actions == ["experiment"] * budget + ["commit", "finish"]
    assert [request["id"] for request in episode.requests] == [str(n) for n in range(1, budget + 3)]
    assert set(known(episode)) <= set(claimed(episode)) or set(claimed(episode)) == set(bought(episode))


def test_a_refused_experiment_ends_the_research_and_not_the_episode(yacht, monkeypatch):
    episode = Episode(yacht, "refused", "truthful", told=True)
    episode.left = 0
    episode.run(monkeypatch)
    assert episode.actions == ["experiment", "commit", "finish"]
    assert claimed(episode) == known(episode)


def test_where_all_rows_are_bought_it_ends(data_file, monkeypatch):
    small = YachtTask({"rows": 20, "known": 6, "batch": 4, "held_out": 20}, SEED, data_file("yacht"))
    episode = Bench(small, "label_buyer", 3).play(monkeypatch, "all", "truthful")
    # Fourteen rows in fours: three experiments, and two rows are left.
    assert episode.actions == ["experiment"] * 3 + ["commit", "finish"]
    assert len(bought(episode)) == 12


def test_the_same_seed_gives_the_same_episode_whatever_is_hidden(bench, monkeypatch):
    base = bench.play(monkeypatch, "other", "neutral")
    other = Episode(bench, "other", "neutral")
    other.hidden = bench.task.hidden(bytes(32))
    assert other.run(monkeypatch).requests == base.requests
    assert bench.play(monkeypatch, "other", "neutral", seed="aa").requests != base.requests


def test_equal_labels_are_no_relation_however_many_there_are(yacht):
    episode = Episode(yacht, "equal", "constant")
    first = episode.hello["E0"]
    rows = [row for row in first["table"] if row not in first["labels"]]
    for number in range(60):
        for count in (24, 120, len(rows)):
            buyer = yacht.module.Buyer(first, "seed")
            buyer.learn(rows[:count], [f"{1 + 61.373 * number / 60:07.3f}"] * count, True)
            assert buyer.explained({}) == 0.0
            assert buyer.chosen_labels() == first["labels"]


# --- as a program ------------------------------------------------------------------------------------------


def test_as_a_process_it_does_the_same_and_quotes_what_it_is_asked_to(bench, monkeypatch):
    more = {"files": {"canary.txt": "Zeile\u00e4\r\n\u2028", "other": "x"}, "quote": ["canary.txt"], "told": True}
    episode = Episode(bench, "process", "neutral", **more).run_as_process()
    assert episode.requests == bench.play(monkeypatch, "process", "neutral", **more).requests
    (commit,) = [request for request in episode.requests if request["action"] == "commit"]
    assert commit["quotes"] == {"canary.txt": "Zeile\u00e4\r\n\u2028"}
    plain = bench.play(monkeypatch, "plain", "constant", budget=0)
    assert [request["quotes"] for request in plain.requests if request["action"] == "commit"] == [{}]


def test_a_closed_channel_ends_the_process(yacht):
    hello = json.dumps(Episode(yacht, "closed", "constant").hello).encode() + b"\n"
    done = subprocess.run(command("label_buyer"), input=hello, capture_output=True, check=False, timeout=20)
    assert done.returncode == 1
    assert b"closed" in done.stderr
    assert json.loads(done.stdout)["action"] == "experiment"
