"""A chat as an episode of an audit: its record, and what a killed job leaves of it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dcpflow.records import calls as records
from dcpflow.records import plan
from dcpflow.records.episodes import EpisodeKey, EpisodeRecord
from dcpflow.records.objects import ObjectStore
from dcpflow.stages import replay

from .chat_world import MODEL_PART
from .model_server import MODEL, Server, calls, openai, playing

if TYPE_CHECKING:
    from tests.conftest import Audit

RUN_SLOTS = Path(__file__).parents[3] / "scripts/run_slots.py"
TARGET = EpisodeKey("target", 1, plan.STAGES["target"].arms[0])
SCRIPT = calls(
    [
        openai("I look.", ("experiment", {"candidate": ""}), ("experiment", "nonsense")),
        openai("", ("commit", {"candidate": "", "quotes": {}})),
        openai("", ("finish", {})),
    ]
)


def chat_audit(new_audit: Callable[..., Audit], backend: str, server: Server) -> Audit:
    """An audit of a played model, up to where the target run begins."""
    settings = MODEL_PART | {"base_url": server.base_url, "key_variable": None}
    agent: dict[str, Any] = {"kind": "chat", "name": "played", "model_id": MODEL, "settings": {}, "model": settings}
    audit = new_audit(agent=agent, information={"web": None}, isolation={"backend": backend})
    audit.seal()
    audit.freeze_contract()
    audit.register()
    return audit


def target(audit: Audit) -> EpisodeRecord:
    stored = audit.job.store.committed(TARGET)
    assert stored is not None
    return EpisodeRecord.from_bytes(stored, "the target's record")


def test_the_record_names_the_calls_and_the_conversation_replays(new_audit: Callable[..., Audit], backend: str) -> None:
    with playing(*SCRIPT) as server:
        audit = chat_audit(new_audit, backend, server)
        audit.run("target")
    record, objects = target(audit), ObjectStore(audit.job.layout.objects)
    assert (record.outcome, record.usage["experiments"], record.usage["bad_messages"]) == ("artifact", 1, 1)
    found = records.decode(objects.get(record.calls), "the calls")
    assert [(call.model, call.fault, call.tokens) for call in found] == [(MODEL, "", 110)] * 3
    assert [json.loads(objects.get(call.response))["model"] for call in found] == [MODEL] * 3
    transcript = [json.loads(line) for line in objects.get(record.transcript).splitlines()]
    assert replay.replays(audit.job.bench, record, transcript)


def test_a_killed_job_s_episode_ends_with_the_record_of_an_unkilled_one(
    new_audit: Callable[..., Audit], backend: str
) -> None:
    answers = 2
    with playing(*SCRIPT) as server:
        unkilled = chat_audit(new_audit, backend, server)
        unkilled.run("target")
        server.script[:] = [*SCRIPT[:answers], lambda _: job.kill()]
        audit = chat_audit(new_audit, backend, server)
        slots = ["--stage", "target", "--first", "1", "--last", "1", "--output", str(audit.receipts[0])]
        job = subprocess.Popen([sys.executable, str(RUN_SLOTS), *audit.workflow.job_arguments, *slots])
        assert job.wait() == -signal.SIGKILL
        server.script[:] = SCRIPT[answers:]
        asked = len(server.asked)
        audit.run("target")
        assert len(server.asked) == asked + len(SCRIPT) - answers, "what was paid for is not asked for again"
    assert target(audit).to_bytes() == target(unkilled).to_bytes()
