"""``dcpflow doctor``: one line for each thing that an audit needs, before it costs anything; nothing is left behind."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml

from dcpflow.agents import launch
from dcpflow.cli import main
from dcpflow.episodes import sandbox
from dcpflow.episodes.runner import Ending
from dcpflow.errors import UsageError
from dcpflow.records import canonical
from dcpflow.records.calls import Call
from dcpflow.stages import doctor
from dcpflow.stages.new_project import new_project

KEY = "canary-key-0123456789"
MODEL = {
    "api": "openai",
    "base_url": "https://api.example.org/v1",
    "key_variable": "DOCTOR_KEY",
    "accepted": ["m-1-2026"],
}
CHAT = {"kind": "chat", "name": "loop", "model_id": "m-1", "program": None, "model": MODEL}
PRICES = {"input_usd": 1.0, "output_usd": 2.0, "max_usd_per_episode": 0.5}
TALK = """\
import json, sys
hello = json.loads(sys.stdin.buffer.readline())
def send(line):
    print(line, flush=True)
    return sys.stdin.readline()
"""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str) -> Path:
    """A new project, with its small agent."""
    folder = tmp_path / "sp ace Größe"
    new_project(folder)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    change(isolation={"backend": backend}, limits={"processes": 1024})
    return folder


def change(**sections: Mapping[str, Any]) -> None:
    """Change the configuration, key by key in a section."""
    path = Path("config/config.yaml")
    settings = yaml.safe_load(path.read_text())
    for name, section in sections.items():
        settings[name] = settings.get(name, {}) | section
    path.write_text(yaml.safe_dump(settings))


def findings() -> dict[str, doctor.Finding]:
    return {found.name: found for found in doctor.examine()}


def agent(body: str) -> doctor.Finding:
    """What is found of an agent that does this once it has read its hello."""
    Path("agents/lamp_agent.py").write_text(TALK + body)
    return findings()["answer"]


def contents(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_a_new_project_is_well_and_stays_as_it_was(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(project)
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 10
    assert all(line.startswith("ok  ") for line in lines)
    assert "37 episodes" in lines[0]
    assert "first request was understood" in lines[-1]
    assert contents(project) == before


def test_a_wrong_configuration_is_one_line_and_all_else_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    change(design={"pairs": "three"}, limits={"experiment": 3})
    assert main(["doctor"]) == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("FAIL  configuration") and "design.pairs" in line and "limits.experiment" in line


def test_everything_that_is_missing_is_told_at_once_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    Path("config/audit.nonce").unlink()
    Path("agents/lamp_agent.py").unlink()
    Path("tasks/lamp.py").write_text("class LampTask:\n    pass\n")
    change(budget={})
    assert main(["doctor"]) == 1
    told = {line.split()[1]: line for line in capsys.readouterr().out.splitlines() if line.startswith("FAIL")}
    assert told.keys() == {"task", "nonce", "agent", "sandbox"}
    assert "dcpflow nonce new config/audit.nonce" in told["nonce"]
    assert "agents/lamp_agent.py is not there" in told["agent"]


def test_a_task_that_breaks_a_promise_is_found() -> None:
    text = Path("tasks/lamp.py").read_text()
    Path("tasks/lamp.py").write_text(text.replace("_lamp(way, claimed, said", "0 * _lamp(way, claimed, said"))
    found = findings()
    assert not found["task"].ok and "null_task_has_sensitivity" in found["task"].detail
    assert found["answer"].detail == "the agent was not asked"


def test_a_missing_sandbox_is_told_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "programs", lambda _: [])
    change(isolation={"backend": "bubblewrap"})
    found = findings()
    assert not found["sandbox"].ok and "apt install bubblewrap" in found["sandbox"].remedy
    assert "answer" not in found


def test_results_where_every_agent_can_read_are_refused() -> None:
    change(execution={"results": "/usr/share/dcpflow-results"})
    found = findings()["sandbox"]
    assert not found.ok and "which sandboxed agents can read" in found.detail


def test_too_small_a_disk_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1_000_000))
    found = findings()["disk"]
    assert not found.ok and "0.0 GB free" in found.detail and "execution.results" in found.remedy


# --- the agent's first turn --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("raise SystemExit('no licence\\x1b[2J')", "ended with exit code 1 without a request; it wrote: no licence"),
        ("", "ended with exit code 0 without a request"),
        ("import os, time; os.close(1); time.sleep(60)", "closed its output without a request"),
        ("send('hello')", "first line was not understood"),
        ("send(json.dumps({'id': 1, 'action': 'shell'}))", "action must be one of experiment, commit, finish"),
        ("print('x' * 70_000, flush=True)", "no request before the limit message_bytes"),
    ],
)
def test_an_agent_that_sends_no_request_is_told_why(body: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = agent(body)
    assert not found.ok and says in found.detail
    assert main(["doctor"]) == 1
    assert "\x1b" not in capsys.readouterr().out


def test_an_agent_that_cannot_be_started_is_told() -> None:
    change(agent={"program": {"command": ["/no/such/program"]}})
    found = findings()["answer"]
    assert not found.ok


def test_an_agent_that_corrects_itself_is_well_and_is_asked_no_more() -> None:
    assert agent("send('hello'); send(json.dumps({'id': 1, 'action': 'finish'})); raise SystemExit(5)").ok


def test_an_agent_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "PATIENCE_SECONDS", 0.5)
    found = agent("import time; time.sleep(600)")
    assert not found.ok and "limit wall_seconds" in found.detail


def test_the_throw_away_episode_has_draws_of_its_own() -> None:
    """Whoever watches an agent in it learns nothing of the audit's own episodes."""
    told = [agent("sys.exit(' '.join(hello['E0']['inputs']))").detail for _ in range(2)]
    assert told[0] != told[1]


# --- a model behind an API ---------------------------------------------------------------------------------


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, doctor.Finding]]:
    """What is found where the loop around the model comes to these calls, with or without a request."""

    def asked(*calls: Call, acts: bool = True, error: str = "", budget: Any = PRICES) -> dict[str, doctor.Finding]:
        def chat(session: Any, limits: Any, channel: Any, first: Any) -> Ending:
            assert session.api.key == KEY and session.model["calls"] == 2
            channel.say(first)
            if error:
                raise UsageError(error.format(key=session.api.key), "Check the key")
            if acts:
                channel.hear(b'{"id": 1, "action": "finish"}')
                assert channel.finished
            return Ending(True, False, None, b"", 0, calls=calls)

        module = ModuleType("dcpflow.episodes.chat")
        module.chat = chat  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setattr(doctor, "find_spec", lambda _: object())
        change(agent=CHAT, budget=budget)
        return findings()

    monkeypatch.setattr(launch, "DIALOGUE", Path("agents/lamp_agent.py").absolute())
    monkeypatch.setenv("DOCTOR_KEY", KEY)
    return asked


def call(model: str = "m-1-2026", fault: str = "", status: int = 200) -> Call:
    tokens = (0, 0, 0) if fault else (1_000_000, 0, 500_000)
    return Call(canonical.digest(b"q"), status, fault, "" if fault else model, *tokens, "")


def test_a_model_that_acts_is_well_with_identity_and_cost(ask: Callable[..., Any]) -> None:
    found = ask(call())
    assert [one for one in found.values() if not one.ok] == []
    assert "1500000 tokens, 2.0000 USD" in found["answer"].detail
    assert "'m-1-2026' has answered" in found["identity"].detail
    assert "at most 18.5 USD for all episodes" in found["prices"].detail


def test_another_model_is_found_before_it_has_cost_an_audit(ask: Callable[..., Any]) -> None:
    found = ask(call("m-2"))
    assert found["answer"].ok and not found["identity"].ok
    assert "'m-2'" in found["identity"].detail and "agent.model.accepted" in found["identity"].remedy


def test_a_model_that_answers_without_acting_is_a_weak_one_and_no_fault(ask: Callable[..., Any]) -> None:
    found = ask(call(), acts=False)
    assert found["answer"].ok and "not by a request" in found["answer"].detail


def test_a_call_that_fails_is_told_with_its_status(ask: Callable[..., Any]) -> None:
    found = ask(call(fault="rate_limited", status=429), acts=False)
    assert "rate_limited, HTTP status 429" in found["answer"].detail
    assert not found["answer"].ok and not found["identity"].ok


def test_a_key_is_never_told(ask: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    found = ask(error="the API refuses {key}")
    assert not found["answer"].ok
    assert main(["doctor"]) == 1
    assert KEY not in capsys.readouterr().out


def test_without_key_client_or_prices_nothing_is_asked(
    ask: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(call())
    monkeypatch.delenv("DOCTOR_KEY")
    monkeypatch.setattr(doctor, "find_spec", lambda _: None)
    change(budget={"input_usd": 0.0, "output_usd": 0.0, "max_usd_per_episode": None})
    found = findings()
    assert {name for name, one in found.items() if not one.ok} == {"libraries", "API key", "prices", "answer"}
    assert "dcpflow[chat]" in found["libraries"].remedy
    assert (
        found["API key"].detail == "the API key is not in the environment: the variable DOCTOR_KEY is empty or not set"
    )
    assert found["answer"].detail == "the agent was not asked"


def test_a_model_on_this_machine_needs_no_prices(ask: Callable[..., Any]) -> None:
    change(agent=CHAT)
    ask(call(), budget={})
    change(agent=CHAT | {"model": MODEL | {"base_url": "http://127.0.0.1:8080/v1"}})
    assert findings()["prices"].ok
