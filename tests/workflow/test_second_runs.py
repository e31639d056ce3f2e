"""A second run over a finished audit, beside a living one, and after a failure."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import yaml

from dcpflow.records import stagefile
from workflow.conftest import DEMO, NONCE, Audit


def test_touched_files_comments_and_the_order_of_keys_in_the_configuration_mean_nothing(audit: Audit) -> None:
    for path in (audit.folder / "config/config.yaml", audit.folder / DEMO):
        turned = yaml.safe_dump(_turned(yaml.safe_load(path.read_text("utf-8"))), sort_keys=False, indent=5)
        path.write_text(f"# said differently\n\n{turned}\n# the end\n", encoding="utf-8")
    for path in audit.folder.rglob("*"):
        if path.is_file() and ".snakemake" not in path.parts:
            path.touch()
    assert audit.run().idle


def _turned(value: Any) -> Any:
    """The same with the keys of each section in reverse order."""
    if not isinstance(value, dict):
        return value
    return {key: _turned(value[key]) for key in reversed(value)}


def test_another_batch_size_starts_no_agent_and_gives_the_same_decision(audit: Audit) -> None:
    store = _tree(audit.store)
    audit.change({"execution": {"episodes_per_job": 6}})
    run = audit.finish()
    assert {"run_null_pair", "run_misled_null"} <= set(run.rules)
    assert _tree(audit.store) == store
    assert audit.decision_bytes == audit.original


def test_a_dry_run_says_what_would_be_done_and_writes_nothing(audit: Audit) -> None:
    audit.change({"thresholds": {"gate1": {"delta_min": 0.6}}})
    before = _tree(audit.results)
    run = audit.finish("--dry-run")
    assert "registering the audit" in run.text
    assert "deciding" in run.text
    assert _tree(audit.results) == before


def test_a_dry_run_in_a_fresh_folder_makes_no_results(audit: Audit) -> None:
    fresh = Audit.make(audit.folder.with_name("fresh"))
    fresh.finish("--dry-run")
    assert not (fresh.folder / "results").exists()
    assert not (fresh.folder / "logs").exists()


def _tree(folder: Path) -> dict[Path, tuple[int, int]]:
    """Inode and date of everything below a folder."""
    return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in folder.rglob("*")}


def test_a_second_run_beside_a_living_one_is_refused_and_harms_nothing(audit: Audit) -> None:
    audit.decision_path.unlink()
    first = audit.start()
    first.until((audit.results / ".run-lock.json").exists)
    first.process.send_signal(signal.SIGSTOP)
    second = audit.run()
    first.process.send_signal(signal.SIGCONT)
    assert second.code == 1
    assert f"another run (process {first.process.pid}) is at work in results/cases/demo" in second.text
    assert "Wait for it to end, or give this run a results folder of its own" in second.text
    assert not second.rules
    assert first.ended().code == 0
    assert audit.decision_bytes == audit.original


def test_a_job_that_fails_shows_why_and_leaves_nothing_half_written(audit: Audit) -> None:
    scores = audit.results / "scores/controls.json"
    scores.unlink()
    audit.decision_path.unlink()
    (audit.folder / NONCE).unlink()
    run = audit.run()
    assert run.code == 1
    assert f"the nonce file {NONCE} cannot be read" in run.text
    assert not scores.exists()
    assert not audit.decision_path.exists()
    assert not audit.half_written()


def test_receipts_that_an_earlier_contract_left_behind_do_not_disturb(audit: Audit) -> None:
    # after a run in smaller batches and an amended contract, a receipt beyond the last batch is nobody's any more
    receipt = json.loads((audit.results / "misled_nulls/b00001-00012.json").read_bytes())
    receipt["body"]["contract"] = "sha256:" + 64 * "0"
    stagefile.write(audit.results / "misled_nulls/b00013-00016.json", receipt["schema"], receipt["body"])
    verified = audit.dcpflow("verify")
    assert verified.code == 0, verified.text
