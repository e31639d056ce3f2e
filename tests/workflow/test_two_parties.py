"""A claimant and an auditor, each with a folder and, where that can be had, a user: one audit, one sealed folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml
from tests.conftest import become

from dcpflow.authority.keys import Signer
from workflow.conftest import DEMO, FEWEST, PATIENCE, SHIPPED, SMALL_AUDIT

ROOT = Path(__file__).parents[2]
IS_ROOT = os.geteuid() == 0
ROLES = {"claimant": "the claimants", "auditor": "the auditors", "self_audited": False}


@dataclass(frozen=True)
class Party:
    """One side: a folder, and as root a user of its own."""

    folder: Path
    uid: int

    @classmethod
    def make(cls, folder: Path, uid: int, shipped: tuple[str, ...]) -> Party:
        """With what ships but no nonce, and the smallest audit of two parties."""
        folder.mkdir()
        for name in shipped:
            source = ROOT / name
            ignored = shutil.ignore_patterns("*.nonce")
            shutil.copytree(source, folder / name, ignore=ignored) if source.is_dir() else shutil.copy2(source, folder)
        sections = {**SMALL_AUDIT, **FEWEST, "claim": {"roles": ROLES}}
        (folder / "two.yaml").write_text(yaml.safe_dump(sections), encoding="utf-8")
        if IS_ROOT:
            for path in (folder, *folder.rglob("*")):
                os.chown(path, uid, uid)
        return cls(folder, uid)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a program of this environment's Python as this party."""
        named = {"HOME": str(self.folder), "USER": "party", "LOGNAME": "party", "PATH": os.environ["PATH"]}
        kept = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
        return subprocess.Popen(
            [sys.executable, *words],
            cwd=self.folder,
            env={**named, **kept, "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=(lambda: become(self.uid, self.folder.parent)) if IS_ROOT else None,  # noqa: PLW1509
        )

    def run(self, *words: str, code: int = 0) -> str:
        """Run it to its end, which is expected to be this one; returns what it printed."""
        process = self.start(*words)
        text, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == code, text
        return text

    @contextmanager
    def serving(self, *words: str) -> Iterator[None]:
        """While a program runs that says in a line when it is ready, and ends well when it is told to."""
        process = self.start(*words)
        assert process.stdout
        ready = process.stdout.readline()
        assert "answering experiments" in ready, ready + process.communicate()[0]
        try:
            yield
        finally:
            process.terminate()
            process.communicate(timeout=PATIENCE)
        assert process.returncode == 0


def test_an_audit_by_two_parties(tmp_path: Path) -> None:
    base = tmp_path / "parties"
    base.mkdir(mode=0o755)
    auditor = Party.make(base / "auditor", 70_001, ("config",))
    claimant = Party.make(base / "claimant", 70_002, SHIPPED)
    keys = {name: auditor.folder / name for name in ("key", "registry-key")}
    signers = {name: Signer.new(path) for name, path in keys.items()}
    (base / "offer").mkdir()
    for path in (base / "offer", *keys.values()) if IS_ROOT else ():
        os.chown(path, auditor.uid, auditor.uid)
    configured = ("--configfile", DEMO, "two.yaml")
    sealing = ("-m", "dcpflow", "seal", *configured, "--to", "sealed", "--for-claimant", "../offer")
    running = ("-m", "snakemake", "--cores", "2", *configured, "--config", "execution={offer: ../offer, results: mine}")

    auditor.run(*sealing)
    with auditor.serving("-m", "dcpflow", "serve-experiments", "sealed", "../offer"):
        claimant.run(*running)
        assert "Nothing to be done" in claimant.run(*running)
    assert not [path for path in claimant.folder.rglob("*") if path.suffix == ".nonce" or path.name == "nonce"]
    assert not list((claimant.folder / "mine/private").rglob("*"))
    if IS_ROOT:
        for name in ("nonce", "private/hidden/main.json", "private/sealed/main.json"):
            assert "PermissionError" in claimant.run("-c", f"open('../auditor/sealed/{name}')", code=1)

    scored = auditor.run(
        *("-m", "dcpflow", "score-for", "../claimant/mine", "--sealed", "sealed", "--to", "audited", "--key", "key")
    )
    assert "and each stands in a record" in scored
    verified = claimant.run(
        *("-m", "dcpflow", "verify", "../auditor/audited", "--auditor-key", "../auditor/key.pub"),
    )
    assert "claimant: the claimants; auditor: the auditors" in verified
    assert signers["key"].public.id in verified
    assert "from the revealed nonce" in verified
    assert "audited by the auditors" in claimant.run("-m", "dcpflow", "show", "../auditor/audited/decision.json")

    auditor.run("-m", "dcpflow", "certify", "audited", "--key", "key")
    certificate = "audited/certificate.dsse.json"
    auditor.run("-m", "dcpflow", "countersign", certificate, "audited", "--key", "registry-key")
    (base / "trust.yaml").write_text(
        "".join(
            f"- {{key: {signers[name].public.line}, name: the {role}, roles: [{role}]}}\n"
            for name, role in (("key", "auditor"), ("registry-key", "registry"))
        )
    )
    told = claimant.run("-m", "dcpflow", "verify", "../auditor/audited", "--trust", "../trust.yaml")
    assert "trusted as auditor" in told and "trusted as registry" in told
