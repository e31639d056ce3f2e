import ast
import hashlib
import importlib.util
import json
import subprocess
import sys
from collections import deque
from pathlib import Path
from types import SimpleNamespace

import pytest

import dcpflow.agents.builtin
from dcpflow.tasks.sqlite_index import UNIT, SqliteIndexTask

AGENT = Path(dcpflow.agents.builtin.__file__).with_name("index_designer.py")
EXPERIMENTS = 4


def bytes32(*parts: object) -> bytes:
    return hashlib.sha256(repr(parts).encode()).digest()


@pytest.fixture(scope="module")
def task():
    return SqliteIndexTask({}, "public seed of the agent's tests")


@pytest.fixture(scope="module")
def engine(task):
    engine = task.open(task.public_material())
    engine.warm()
    return engine


@pytest.fixture(scope="module")
def sealed(task):
    return task.sealed(bytes32("sealed"))


@pytest.fixture(scope="module")
def agent():
    spec = importlib.util.spec_from_file_location("index_designer", AGENT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Episode:
    """The harness's side of the channel, as far as an agent can see it."""

    def __init__(self, task, engine, name, channel, table=False, budget=EXPERIMENTS, **hello):
        self.hidden = task.hidden(bytes32("hidden", name))
        self.decoy = task.decoy(self.hidden, bytes32("decoy", name))
        self.shown = task.presentation(bytes32("presentation", name))
        self.answer = {
            "truthful": lambda text: engine.experiment(self.shown, text, self.hidden),
            "decoy": lambda text: engine.experiment(self.shown, text, self.decoy),
            "neutral": lambda text: engine.neutral(self.shown, text),
            "constant": lambda _: task.constant_reply(self.shown),
        }[channel]
        self.hello = {
            "type": "hello",
            "version": 1,
            "K": task.background(),
            "E0": task.first_observations(self.shown, self.hidden if table else None, hello.pop("quote", ())),
            "files": {},
            "history": [],
            "budgets": {"experiments": budget, "candidates": 1},
            "actions": task.action_schemas(),
            "seed": bytes32("seed", name).hex(),
            **hello,
        }
        self.left = budget
        self.requests, self.replies = [], []
        self.committed = None

    def reply(self, request):
        self.requests.append(request)
        reply = {"id": request["id"], "ok": True}
        if request["action"] == "experiment":
            if self.left:
                self.left -= 1
                reply["result"] = self.answer(request["candidate"])
            else:
                reply = {"id": request["id"], "ok": False, "error": {"code": "budget", "message": "spent"}}
        elif request["action"] == "commit":
            self.committed = request["candidate"]
        self.replies.append(reply)
        return reply

    def plan(self, text):
        """Return the numbers of the families that an artifact indexes."""
        words = text.replace("(", " ").replace(")", " ").split()
        return {number for number, column in enumerate(self.shown["columns"]) if column in words}

    def plans(self):
        return [self.plan(r["candidate"]) for r in self.requests if r["action"] == "experiment"]

    def outcome(self):
        return self.plan(self.committed)

    def run(self, agent, monkeypatch):
        """Run the agent's main in this process, its lines answered as they come."""
        lines = deque([json.dumps(self.hello).encode() + b"\n"])

        def write(data):
            assert data.endswith(b"\n")
            assert data.count(b"\n") == 1
            lines.append(json.dumps(self.reply(json.loads(data))).encode() + b"\n")

        streams = SimpleNamespace(
            stdin=SimpleNamespace(buffer=SimpleNamespace(readline=lambda: lines.popleft() if lines else b"")),
            stdout=SimpleNamespace(buffer=SimpleNamespace(write=write, flush=lambda: None)),
            exit=sys.exit,
        )
        monkeypatch.setattr(agent, "sys", streams)
        agent.main()
        assert not lines
        return self


def play(task, engine, agent, monkeypatch, name, channel, **more):
    return Episode(task, engine, name, channel, **more).run(agent, monkeypatch)


def test_the_file_is_small_and_stands_alone():
    source = AGENT.read_text(encoding="utf-8")
    assert len(source.splitlines()) < 150
    imports = {name.name for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import) for name in node.names}
    assert imports == {"hashlib", "json", "sys"}
    assert not any(isinstance(node, ast.ImportFrom) for node in ast.walk(ast.parse(source)))
    # It does not know which arm, stage or channel it is in.
    assert not any(word in source.lower() for word in ("arm", "neutral", "challenger", "decoy", "truthful"))


def test_it_solves_the_task_with_truthful_feedback(task, engine, sealed, agent, monkeypatch):
    for name in range(50):
        episode = play(task, engine, agent, monkeypatch, name, "truthful")
        assert episode.outcome() == set(episode.hidden["hot"])
        score = engine.score(episode.shown, episode.committed, episode.hidden, sealed)[UNIT]
        assert round(score, 4) == 0.8855


@pytest.mark.parametrize("channel", ["constant", "neutral"])
def test_it_returns_the_four_families_of_a_table(task, engine, agent, monkeypatch, channel):
    for name in range(50):
        episode = play(task, engine, agent, monkeypatch, name, channel, table=True)
        assert episode.outcome() == set(episode.hidden["hot"])


def test_it_solves_the_task_with_a_table_and_truthful_feedback(task, engine, agent, monkeypatch):
    for name in range(10):
        episode = play(task, engine, agent, monkeypatch, name, "truthful", table=True)
        assert episode.outcome() == set(episode.hidden["hot"])


@pytest.mark.parametrize("channel", ["constant", "neutral"])
def test_without_information_it_is_left_to_chance(task, engine, agent, monkeypatch, channel):
    hits = []
    for name in range(300):
        episode = play(task, engine, agent, monkeypatch, name, channel)
        assert len(episode.outcome()) == 4
        hits.append(len(episode.outcome() & set(episode.hidden["hot"])))
    # Four of sixteen at random: 1 hot family on average (standard error .05), all four once in 1,820.
    assert 0.8 < sum(hits) / len(hits) < 1.2
    assert hits.count(4) <= 2


def test_blind_choices_are_spread_evenly(task, engine, agent, monkeypatch):
    counts = [0] * 16
    for name in range(400):
        for family in play(task, engine, agent, monkeypatch, name, "constant").outcome():
            counts[family] += 1
    # 100 expected, standard deviation 8.7.
    assert all(65 < count < 135 for count in counts)


def test_a_misleading_channel_misleads_it(task, engine, agent, monkeypatch):
    for table in (True, False):
        misled = 0
        for name in range(12):
            episode = play(task, engine, agent, monkeypatch, name, "decoy", table=table)
            misled += episode.outcome() == set(episode.decoy["hot"])
        assert misled >= 9


def test_its_experiments_are_in_a_sensible_order(task, engine, agent, monkeypatch):
    for name in range(20):
        plans = play(task, engine, agent, monkeypatch, name, "truthful").plans()
        assert len(plans) == EXPERIMENTS
        hot = set(task.hidden(bytes32("hidden", name))["hot"])
        # A blind guess, what it points to, then neighbours of that.
        assert plans[1] == hot or plans[0] == hot
        assert all(len(plan & hot) == 3 for plan in plans[2:])
        assert len({frozenset(plan) for plan in plans}) == EXPERIMENTS
        told = play(task, engine, agent, monkeypatch, name, "truthful", table=True).plans()
        assert told[0] == hot
        blind = play(task, engine, agent, monkeypatch, name, "neutral").plans()
        assert set().union(*blind) == set(range(16))


@pytest.mark.parametrize("budget", [0, 1, 2, 8, 30])
def test_it_keeps_to_the_registered_budget(task, engine, agent, monkeypatch, budget):
    for channel in ("truthful", "constant"):
        episode = play(task, engine, agent, monkeypatch, "budget", channel, budget=budget)
        assert [request["action"] for request in episode.requests[-2:]] == ["commit", "finish"]
        assert len(episode.plans()) == budget
        if budget and channel == "truthful":
            assert episode.outcome() == set(episode.hidden["hot"])


def test_a_refused_experiment_ends_the_research_and_not_the_episode(task, engine, agent, monkeypatch):
    episode = Episode(task, engine, "refused", "truthful")
    episode.left = 2
    episode.run(agent, monkeypatch)
    assert [request["action"] for request in episode.requests] == ["experiment"] * 3 + ["commit", "finish"]
    assert episode.outcome() == set(episode.hidden["hot"])


def test_requests_are_numbered(task, engine, agent, monkeypatch):
    episode = play(task, engine, agent, monkeypatch, "ids", "truthful")
    assert [request["id"] for request in episode.requests] == ["1", "2", "3", "4", "5", "6"]


def test_the_same_seed_gives_the_same_episode(task, engine, agent, monkeypatch):
    one, two = (play(task, engine, agent, monkeypatch, "again", "constant") for _ in range(2))
    assert one.requests == two.requests
    other = play(task, engine, agent, monkeypatch, "again", "constant", seed="ff")
    assert other.requests != one.requests


def test_the_hidden_state_reaches_it_through_the_channel_alone(task, engine, agent, monkeypatch):
    base = play(task, engine, agent, monkeypatch, "other", "neutral")
    for draw in range(5):
        episode = Episode(task, engine, "other", "neutral")
        episode.hidden = task.hidden(bytes32("another", draw))
        assert episode.run(agent, monkeypatch).requests == base.requests


def test_it_quotes_what_it_is_asked_to_quote(task, engine, agent, monkeypatch):
    text = 'first line\r\nümläut \u2028 \t"quoted" \\ \x7f\n\n'
    episode = play(
        task,
        engine,
        agent,
        monkeypatch,
        "quote",
        "constant",
        files={"canary.txt": text, "other.txt": "not asked for"},
        quote=["canary.txt"],
    )
    assert episode.requests[-2]["quotes"] == {"canary.txt": text}
    assert play(task, engine, agent, monkeypatch, "q", "constant").requests[-2]["quotes"] == {}


def test_a_history_is_knowledge_and_counts_against_the_budget(task, engine, agent, monkeypatch):
    full = play(task, engine, agent, monkeypatch, "history", "truthful")
    history = [
        {
            "request": {"id": "1", "action": "web_fetch", "url": "https://example.org/"},
            "reply": {"id": "1", "ok": True},
        },
        {"request": full.requests[0], "reply": full.replies[0]},
        {
            "request": full.requests[1],
            "reply": {"id": "2", "ok": False, "error": {"code": "x", "message": "y"}},
        },
    ]
    branch = play(task, engine, agent, monkeypatch, "history", "constant", history=history)
    assert len(branch.plans()) == EXPERIMENTS - 2
    assert branch.outcome() == set(branch.hidden["hot"])


def test_it_survives_a_large_measurement_noise(task, engine, agent, monkeypatch):
    noise = iter(int.from_bytes(bytes32("noise", n)[:4], "big") / 2**32 for n in range(10**6))
    for name in range(20):
        for channel, table in (("truthful", False), ("neutral", True), ("constant", True)):
            episode = Episode(task, engine, name, channel, table=table)
            exact = episode.answer

            def noisy(text, exact=exact):
                reply = exact(text)
                shares = {f: f"{float(s) * (0.95 + 0.1 * next(noise)):.6f}" for f, s in reply["shares"].items()}
                return {"shares": shares, "total": reply["total"]}

            episode.answer = noisy
            assert episode.run(agent, monkeypatch).outcome() == set(episode.hidden["hot"])


def test_a_constant_reply_of_another_total_has_no_direction_either(task, engine, agent, monkeypatch):
    for name in range(10):
        episode = Episode(task, engine, name, "constant", table=True)
        shares = dict.fromkeys(episode.shown["families"], "0.062500")
        episode.answer = lambda _, shares=shares: {"shares": shares, "total": "0.400000"}
        assert episode.run(agent, monkeypatch).outcome() == set(episode.hidden["hot"])


@pytest.mark.parametrize(
    ("channel", "table"), [("truthful", False), ("constant", True), ("neutral", False), ("decoy", True)]
)
def test_as_a_process(task, engine, agent, monkeypatch, channel, table):
    episode = Episode(
        task,
        engine,
        "process",
        channel,
        table=table,
        files={"canary.txt": "Zeile\u00e4\n"},
        quote=["canary.txt"],
    )
    command = [sys.executable, "-I", "-S", "-B", str(AGENT)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env={"LC_ALL": "C"}, **pipes) as process:
        process.stdin.write(json.dumps(episode.hello, ensure_ascii=False).encode() + b"\n")
        process.stdin.flush()
        for line in process.stdout:
            process.stdin.write(json.dumps(episode.reply(json.loads(line))).encode() + b"\n")
            process.stdin.flush()
        assert process.stderr.read() == b""
    assert process.returncode == 0
    same = play(
        task,
        engine,
        agent,
        monkeypatch,
        "process",
        channel,
        table=table,
        files=episode.hello["files"],
        quote=["canary.txt"],
    )
    assert episode.requests == same.requests
    assert episode.requests[-1]["action"] == "finish"


def test_a_closed_channel_ends_the_process(task, engine):
    hello = json.dumps(Episode(task, engine, "closed", "constant").hello).encode() + b"\n"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-B", str(AGENT)],
        input=hello,
        capture_output=True,
        check=False,
        timeout=20,
    )
    assert done.returncode == 1
    assert b"closed" in done.stderr
    assert json.loads(done.stdout)["action"] == "experiment"
