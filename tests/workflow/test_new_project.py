"""From an empty folder with the installed package alone: init, doctor, snakemake, show, transcript, verify."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import yaml


def test_a_new_project_runs_to_its_decision_as_it_stands(installed: Path, tmp_path: Path, backend: str) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SNAKEMAKE")}
    environment["PYTHONPATH"] = str(installed)

    def run(*words: str, folder: Path = tmp_path / "an audit") -> str:
        command = [sys.executable, "-m", *words]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    where = run("dcpflow", "init", "an audit", folder=tmp_path)
    assert "snakemake --cores 2 results/decision.json" in where
    project = tmp_path / "an audit"
    # the same whenever it runs; a new one would let a challenger guess the lamp in one run of a thousand
    (project / "config/audit.nonce").write_text(hashlib.sha256(b"the nonce of the tests").hexdigest() + "\n")
    if backend == "none":
        path = project / "config/config.yaml"
        path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | {"isolation": {"backend": backend}}))
    assert "FAIL" not in run("dcpflow", "doctor")
    assert not (project / "results").exists()
    run("snakemake", "--cores", "2", "results/decision.json")
    decision = json.loads((project / "results/decision.json").read_bytes())
    # the claim holds as far as it was tried, and so few episodes show nothing: both are said
    assert decision["core"]["status"] == "inconclusive" and decision["core"]["class"] == "audit_incomplete"
    assert decision["gate1"]["x"] == 1.0 and not decision["registration"]["public_demonstration"]
    assert "INCONCLUSIVE" in run("dcpflow", "show")
    assert "agent     commit" in run("dcpflow", "transcript", "target")
    assert run("dcpflow", "verify").startswith("VERIFIED  results")
