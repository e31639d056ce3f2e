"""One episode of a reference agent, played in this process or as a process, with the harness's side of the channel."""

import hashlib
import importlib.util
import json
import subprocess
import sys
from collections import deque
from pathlib import Path
from types import SimpleNamespace

import dcpflow.agents.builtin

FOLDER = Path(dcpflow.agents.builtin.__file__).parent


def bytes32(*parts: object) -> bytes:
    return hashlib.sha256(repr(parts).encode()).digest()


def load(name):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Bench:
    """A task with its engine and sealed units, and the agent that does it."""

    def __init__(self, task, agent, budget, candidates=1):
        self.task, self.agent, self.budget, self.candidates = task, agent, budget, candidates
        self.engine = task.open(task.public_material())
        self.engine.warm()
        self.sealed = task.sealed(bytes32("sealed"))
        self.module = load(agent)

    def play(self, monkeypatch, name, channel, **more):
        return Episode(self, name, channel, **more).run(monkeypatch)


class Episode:
    """What the agent sees, and what it answered.

    ``channel`` is truthful, decoy, neutral or constant; with ``told`` the hidden state stands in E0.
    """

    def __init__(self, bench, name, channel, told=False, budget=None, **hello):
        task, engine = bench.task, bench.engine
        self.bench = bench
        self.hidden = task.hidden(bytes32("hidden", name))
        self.decoy = task.decoy(self.hidden, bytes32("decoy", name))
        self.shown = task.presentation(bytes32("presentation", name))
        self.answer = {
            "truthful": lambda text: engine.experiment(self.shown, text, self.hidden),
            "decoy": lambda text: engine.experiment(self.shown, text, self.decoy),
            "neutral": lambda text: engine.neutral(self.shown, text),
            "constant": lambda _: task.constant_reply(self.shown),
        }[channel]
        self.left = bench.budget if budget is None else budget
        self.hello = {
            "type": "hello",
            "version": 1,
            "K": task.background(),
            "E0": task.first_observations(self.shown, self.hidden if told else None, hello.pop("quote", ())),
            "files": {},
            "history": [],
            "budgets": {"experiments": self.left, "candidates": bench.candidates},
            "actions": task.action_schemas(),
            "seed": bytes32("seed", name).hex(),
            **hello,
        }
        self.requests, self.replies, self.committed = [], [], []

    def reply(self, request):
        self.requests.append(request)
        reply = {"id": request["id"], "ok": True}
        if request["action"] == "experiment" and self.left:
            self.left -= 1
            reply["result"] = self.answer(request["candidate"])
        elif request["action"] == "experiment":
            reply = {"id": request["id"], "ok": False, "error": {"code": "budget", "message": "spent"}}
        elif request["action"] == "commit":
            self.committed.append(request["candidate"])
        self.replies.append(reply)
        return reply

    @property
    def actions(self):
        return [request["action"] for request in self.requests]

    def score(self, hidden=None):
        """The best mean score of what was committed."""
        units = [
            self.bench.engine.score(self.shown, text, hidden or self.hidden, self.bench.sealed).values()
            for text in self.committed
        ]
        return max(sum(values) / len(values) for values in units)

    def run(self, monkeypatch):
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
        with monkeypatch.context() as patch:
            patch.setattr(self.bench.module, "sys", streams)
            self.bench.module.main()
        assert not lines
        return self

    def run_as_process(self):
        """Run the agent as the harness does."""
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(command(self.bench.agent), env={"LC_ALL": "C"}, **pipes) as process:
            process.stdin.write(json.dumps(self.hello, ensure_ascii=False).encode() + b"\n")
            process.stdin.flush()
            for line in process.stdout:
                process.stdin.write(json.dumps(self.reply(json.loads(line))).encode() + b"\n")
                process.stdin.flush()
            assert process.stderr.read() == b""
        assert process.returncode == 0
        return self


def command(agent):
    return [sys.executable, "-I", "-S", "-B", str(FOLDER / f"{agent}.py")]
