"""A second run over a finished audit, beside a living one, and after a failure."""

from __future__ import annotations

import json
import signal

from dcpflow.records import stagefile
from workflow.conftest import NONCE, Audit


def test_a_dry_run_in_a_fresh_folder_makes_no_results(audit: Audit) -> None:
    fresh = Audit.make(audit.folder.with_name("fresh"))
    fresh.finish("--dry-run")
    assert not (fresh.folder / "results").exists()
    assert not (fresh.folder / "logs").exists()


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
    receipt = json.loads((audit.results / "misled_nulls/b00001-00003.json").read_bytes())
    receipt["body"]["contract"] = "sha256:" + 64 * "0"
    stagefile.write(audit.results / "misled_nulls/b00004-00006.json", receipt["schema"], receipt["body"])
    verified = audit.dcpflow("verify")
    assert verified.code == 0, verified.text
