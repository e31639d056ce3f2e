"""A disk that is full or may not be written to is told with place and remedy, and the next run goes on."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from workflow.conftest import Audit

ROOM_FOR_A_FEW_RECORDS = 40_000


@pytest.fixture
def disk(audit: Audit) -> Iterator[Path]:
    """The audit's results, moved onto a small file system of their own; challengers and decision are still to come."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    aside = audit.folder / "aside"
    audit.results.rename(aside)
    audit.results.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m,mode=0755", "none", audit.results], check=True)
    try:
        shutil.copytree(aside, audit.results, dirs_exist_ok=True)
        shutil.rmtree(audit.store / "challengers")
        (audit.results / "challengers/matched/b00001-00006.json").unlink()
        audit.decision_path.unlink()
        yield audit.results
    finally:
        subprocess.run(["umount", "--lazy", audit.results], check=True)


def test_a_full_and_a_read_only_disk_are_told_and_nothing_that_was_committed_is_lost(audit: Audit, disk: Path) -> None:
    ballast, records = disk / "ballast", audit.records()
    room = shutil.disk_usage(disk).free - ROOM_FOR_A_FEW_RECORDS
    ballast.write_bytes(bytes(room))
    run = audit.run(cores=1)
    assert run.code == 1
    assert "the disk is full. Nothing that was committed is lost: make room there, and run the same" in run.text
    assert "results/cases/demo/" in run.text
    assert "Traceback" not in run.text
    assert not audit.half_written()
    committed = audit.records()
    assert committed.items() > records.items(), "what had room was committed"
    assert len(committed) < len(records) + 6

    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    run = audit.run(cores=1)
    assert run.code == 1
    assert "Write-protected output files" in run.text, "Snakemake looks for that itself"
    assert "Traceback" not in run.text

    subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
    ballast.unlink()
    audit.finish()
    assert audit.decision_bytes == audit.original
    assert audit.records().items() > committed.items()
