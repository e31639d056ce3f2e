"""A model behind an API through the whole workflow: faults, money, and a key that is written nowhere."""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from dcpflow.evidence import tables
from unit.episodes.model_server import MODEL, Played, answering, cut, openai
from workflow.conftest import CHANGE, FEWEST, Audit, Running

KEY = "sk-canary-3f9a17c2"
CALLS = 3
ASKER = """
import json, sys, urllib.request
hello = json.loads(sys.stdin.readline())
asked = {"model": "model-1", "messages": [{"role": "user", "content": hello["K"]}]}
headers = {"Content-Type": "application/json", "Authorization": "Bearer none"}
request = urllib.request.Request(sys.argv[1] + "/v1/chat/completions", json.dumps(asked).encode(), headers)
answer = json.load(urllib.request.urlopen(request, timeout=60))
use = answer["choices"][0]["message"]["tool_calls"][0]["function"]
def ask(**said):
    print(json.dumps(said), flush=True)
    sys.stdin.readline()
ask(id=1, action=use["name"], **json.loads(use["arguments"]))
ask(id=2, action="commit", candidate="", quotes={})
ask(id=3, action="finish")
"""
USD_PER_CALL = 0.11
USD_OF_A_STRANGER = 0.00011
CORE = {"claim": {"grade": "core"}, "design": FEWEST["design"]}
EPISODES = 1 + 2 + 1
HIGHER = {"thresholds": {"gate1": {"delta_min": 0.6}}}
FAULTS: dict[str, Played] = {
    "rate_limited": answering({"error": {"message": "slow down"}}, 429, Retry_After="0.01"),
    "server_error": answering({"error": {"message": f"we are down, {KEY}"}}, 500),
    "transport": cut(),
    "malformed": answering(b"{"),
    "refused": answering({"error": {"message": f"what is {KEY}?"}}, 400),
    "": answering(openai("", ("experiment", {"candidate": ""}), model="model-2")),
}
"""What every fifth call meets in turn, by the fault that the ledger shows; the last is answered by another model."""


class Researcher:
    """A model that experiments, commits and finishes, and an API that fails now and then.

    Attributes:
        base_url: where it is.
        asked: calls so far.
        met: faults that it has played, in order.
        keys: authorizations that it was shown.
    """

    def __init__(self, base_url: str, every: int) -> None:
        self.base_url = base_url
        self.asked = 0
        self.met: list[str] = []
        self.keys: set[str] = set()
        self._every = every
        self._faults = itertools.cycle(FAULTS)
        self._lock = threading.Lock()

    def play(self, body: dict[str, Any], key: str) -> Played:
        """What comes of a call."""
        with self._lock:
            self.keys.add(key)
            self.asked += 1
            if self._every and not self.asked % self._every:
                self.met.append(next(self._faults))
                return FAULTS[self.met[-1]]
        turn = sum(message["role"] == "assistant" for message in body["messages"])
        use = [
            ("experiment", {"candidate": ""}),
            ("commit", {"candidate": "", "quotes": {}}),
            ("finish", {}),
        ][min(turn, 2)]
        return answering(openai("", use, read=100_000, written=10_000))


@contextlib.contextmanager
def researching(every: int = 0) -> Iterator[Researcher]:
    """Serve it; every so many calls fail."""

    class OneCall(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with contextlib.suppress(OSError):
                model.play(body, self.headers.get("Authorization", ""))(self)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), OneCall) as http:
        model = Researcher(f"http://127.0.0.1:{http.server_address[1]}/v1", every)
        threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield model
        http.shutdown()


@pytest.fixture
def chatting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Audit]:
    """An audit of such a model, with few episodes."""
    monkeypatch.setenv("A_KEY_OF_OURS", KEY)

    def make(model: Researcher, core: bool = False, **budget: float) -> Audit:
        audit = Audit.make(tmp_path / "audit") if not (tmp_path / "audit").exists() else Audit(tmp_path / "audit")
        settings = {"base_url": model.base_url, "key_variable": "A_KEY_OF_OURS"}
        audit.change(
            {
                **(CORE if core else FEWEST),
                "agent": {"kind": "chat", "name": "researcher", "model_id": MODEL, "model": settings},
                "information": {"web": None},
                "limits": {"reply_delay_ms": 0},
                "budget": {"input_usd": 1.0, "output_usd": 1.0, **budget},
            }
        )
        return audit

    return make


def holding(audit: Audit, word: str) -> list[Path]:
    """Files of the audit that hold a word."""
    return [path for path in audit.folder.rglob("*") if path.is_file() and word.encode() in path.read_bytes()]


def calls(audit: Audit) -> list[dict[str, Any]]:
    return tables.read(audit.results / "evidence/calls.parquet", "calls")


def test_a_fault_in_every_fifth_call_costs_its_own_episode_and_the_audit_ends(
    chatting: Callable[..., Audit],
) -> None:
    with researching(every=5) as model:
        audit = chatting(model)
        audit.finish("--resources", "api=2")
    assert model.keys == {f"Bearer {KEY}"}
    shown = calls(audit)
    assert len(shown) == model.asked
    strangers = sum(call["model"] == "model-2" for call in shown)
    assert strangers == model.met.count("")
    assert sorted(call["fault"] for call in shown if call["fault"]) == sorted(filter(None, model.met))
    episodes = tables.read(audit.results / "evidence/episodes.parquet", "episodes")
    outcomes = {row["outcome"]: row for row in episodes}
    assert sum(row["outcome"] == "execution_contract_violation" for row in episodes) == strangers
    assert outcomes["artifact"]["model_calls"] >= CALLS
    # no index gains anything, which Gate 1 sees whatever the challengers came to
    core, gate2 = audit.decision["core"], audit.decision["gate2"]
    assert (core["status"], core["reason"]) == ("refuted", "the baseline recovers the outcome")
    challengers = [row["outcome"] for row in episodes if row["stage"] == "challengers"]
    assert gate2["challengers"]["started"] == len(challengers)
    for name, outcome in (
        ("violations", "execution_contract_violation"),
        ("infrastructure", "infrastructure_invalid"),
        ("model_failures", "model_failure"),
    ):
        assert gate2["challengers"][name] == challengers.count(outcome)
    assert next(check for check in audit.decision["checks"] if check["name"] == "models_registered")["result"] == "pass"
    verified = audit.dcpflow("verify")
    assert verified.code == 0, verified.text
    spent = sum(row["usd"] for row in tables.read(audit.results / "costs.parquet", "costs"))
    assert spent == pytest.approx(USD_PER_CALL * (model.asked - len(model.met)) + strangers * USD_OF_A_STRANGER)
    told = audit.dcpflow("costs").text.splitlines()
    assert [line.split("  ")[0] for line in told] == ["spent on", "target", "gate 2", "controls", "gate 3", "all"]
    assert f"{spent:.4f}" in told[-1]
    bundle = ("bundle", "export", str(audit.results), str(audit.folder / "claim.dcp"))
    exported = Running([sys.executable, "-m", "dcpflow", *bundle], audit.folder).ended()
    assert exported.code == 0, exported.text
    assert holding(audit, "model-2"), "what was answered is there"
    assert holding(audit, KEY) == []


def test_a_program_asks_its_model_through_the_door(
    chatting: Callable[..., Audit], monkeypatch: pytest.MonkeyPatch
) -> None:
    with researching() as model:
        audit = chatting(model, core=True)
        (audit.folder / "agents").mkdir()
        (audit.folder / "agents/asker.py").write_text(ASKER, encoding="utf-8")
        settings = yaml.safe_load((audit.folder / CHANGE).read_text("utf-8"))
        program = {"command": ["{python}", "-I", "/agent/asker.py", "{model}"], "files": ["agents/asker.py"]}
        audit.change(settings | {"agent": settings["agent"] | {"kind": "command", "program": program}})
        audit.finish("--resources", "api=2")
        monkeypatch.delenv("A_KEY_OF_OURS")
        audit.change(yaml.safe_load((audit.folder / CHANGE).read_text("utf-8")) | HIGHER)
        assert sorted(audit.finish().rules) == ["decide", "register"], "to decide again takes no key"
    assert model.keys == {f"Bearer {KEY}"}
    assert [(call["model"], call["fault"], call["input_tokens"]) for call in calls(audit)] == [
        (MODEL, "", 100_000)
    ] * EPISODES
    episodes = tables.read(audit.results / "evidence/episodes.parquet", "episodes")
    assert {row["outcome"] for row in episodes} == {"artifact"}
    assert audit.dcpflow("verify").code == 0
    assert holding(audit, KEY) == []


def test_a_budget_stops_the_run_and_a_higher_one_goes_on_without_paying_twice(chatting: Callable[..., Audit]) -> None:
    one = USD_PER_CALL * CALLS
    with researching() as model:
        audit = chatting(model, core=True, max_usd=3.5 * one, max_usd_per_episode=1.2 * one)
        stopped = audit.run("--resources", "api=1")
        assert stopped.code != 0
        assert not audit.decision_path.exists()
        assert "raise budget.max_usd and run snakemake again" in stopped.text
        assert model.asked == 3 * CALLS, "a fourth episode might have cost more than is left"
        audit = chatting(model, core=True)
        audit.finish("--resources", "api=2")
        assert model.asked == CALLS * EPISODES
    assert audit.decision["registration"]["amendments"] == []


def test_a_key_that_is_not_there_is_told_before_any_job(
    chatting: Callable[..., Audit], monkeypatch: pytest.MonkeyPatch
) -> None:
    with researching() as model:
        audit = chatting(model)
        monkeypatch.delenv("A_KEY_OF_OURS")
        refused = audit.run()
    assert refused.code != 0
    assert "A_KEY_OF_OURS is empty or not set" in refused.text
    assert refused.rules == []
    assert model.asked == 0
