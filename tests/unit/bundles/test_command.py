"""The command as a program meets it: exit codes, one line for an error, JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bundles.conftest import PUBLISHED, Finished


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    words = [str(argument) for argument in arguments]
    return subprocess.run([sys.executable, "-m", "dcpflow", *words], check=False, capture_output=True, text=True)


def test_a_bundle_from_end_to_end(finished: Finished, tmp_path: Path) -> None:
    claim, out = tmp_path / "claim.dcp", tmp_path / "out"
    made = run("bundle", "export", finished.results, claim)
    assert (made.returncode, made.stderr) == (0, "")
    assert claim.read_bytes() == finished.bundle.read_bytes()
    assert made.stdout.startswith(f"wrote {claim}: sha256:")
    found = run("verify", claim, "--json")
    assert (found.returncode, found.stderr) == (0, "")
    assert json.loads(found.stdout)["ok"] is True
    unpacked = run("bundle", "import", claim, out)
    assert unpacked.returncode == 0
    assert run("show", out / "decision.json").returncode == 0


def test_what_does_not_verify(finished: Finished, tmp_path: Path) -> None:
    (tmp_path / "empty.dcp").touch()
    damaged = tmp_path / "damaged.dcp"
    damaged.write_bytes(finished.bundle.read_bytes().replace(b'"outcome"', b'"OUTCOME"', 1))
    for path, rule in ((tmp_path / "empty.dcp", "[empty]"), (damaged, "[checksum]")):
        for arguments in (("verify", path), ("bundle", "import", path, tmp_path / "out")):
            done = run(*arguments)
            assert (done.returncode, done.stdout) == (1, "")
            assert done.stderr.count("\n") == 1
            assert str(path) in done.stderr and rule in done.stderr
        found = run("verify", path, "--json")
        assert (found.returncode, found.stderr) == (1, "")
        assert rule in json.loads(found.stdout)["error"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["damaged.dcp", "empty.dcp"]


def test_bad_usage(finished: Finished, tmp_path: Path) -> None:
    for arguments in (
        ("verify", tmp_path / "nowhere"),
        ("verify", finished.bundle, "--nonce-file", tmp_path / "nowhere"),
        ("bundle",),
        ("bundle", "export", finished.bundle, tmp_path / "claim.dcp"),
        ("bundle", "export", finished.results, tmp_path / "out", "--format", "dcp-audit", "--reveal"),
        ("bundle", "import", finished.results, tmp_path / "out"),
    ):
        assert run(*arguments).returncode == 2, arguments
    assert not list(tmp_path.iterdir())


def test_the_task_s_code_has_the_last_word(finished: Finished) -> None:
    done = run("verify", finished.results, "--nonce-file", finished.nonce_file)
    assert done.returncode == 0, done.stderr
    assert "task: with its code: first messages, every conversation line for line, every score" in done.stdout
    assert "recorded" not in done.stdout.split("provenance")[0]


def loaded_by(path: Path) -> set[str]:
    """The modules that verifying loads, in a process of its own."""
    code = f"import sys, dcpflow.cli; dcpflow.cli.main(['verify', {str(path)!r}]); print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the published bundle is not here")
def test_a_dcp_audit_bundle_needs_nothing_heavy() -> None:
    found = loaded_by(PUBLISHED)
    assert "dcpflow.bundles.dcp_audit" in found
    assert not found & {"numpy", "scipy", "pandas", "pyarrow", "pydantic", "yaml", "snakemake", "dcpflow.evidence"}


def test_an_audit_of_ours_needs_no_more_than_it_has_to(finished: Finished) -> None:
    for path, more in ((finished.results, {"pydantic"}), (finished.bundle, {"numpy", "pyarrow"})):
        found = loaded_by(path)
        assert not found & ({"scipy", "pandas", "pyarrow.dataset", "snakemake", "dcpflow.stages"} | more)
