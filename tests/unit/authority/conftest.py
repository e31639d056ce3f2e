"""A decision that could be certified, and those who could certify it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dcpflow.authority.certificate import Verified
from dcpflow.authority.keys import Signer
from dcpflow.records import canonical

CONTRACT, REGISTRATION = (canonical.digest(name) for name in (b"contract", b"registration"))


@pytest.fixture
def decision() -> dict[str, Any]:
    """What of a decision a certificate says, and no more."""
    verdict = {"status": "certified", "class": None, "exploratory": False, "rule": "V16", "reason": "all gates passed"}
    return {
        "claim": {"id": "claim-1", "statement": "It is so.", "family": "f", "slot": "f-1", "grade": "core"},
        "core": verdict,
        "evidence": {**verdict, "status": "not_tested"},
        "roles": {"claimant": "Claimant", "auditor": "Auditor", "registry": "Registry", "self_audited": False},
        "registration": {
            "contract": CONTRACT,
            "digest": REGISTRATION,
            "amendments": [],
            "public_demonstration": "",
        },
        "scope": {"agent": "command a", "model": "m", "budget": {"experiments": 4, "candidates": 1}},
        "gate2": {"recovery_upper_bound": 0.0399, "challengers": {"independent": 96}},
    }


@pytest.fixture
def about(decision: dict[str, Any]) -> Verified:
    """The decision as it was verified."""
    return Verified(decision, canonical.digest_of(decision), canonical.digest(b"bundle"), {REGISTRATION})


@pytest.fixture(scope="session")
def made_keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Signer]:
    """Private keys by name; nobody is told whose they are but by a trust file."""
    folder = tmp_path_factory.mktemp("keys")

    def made(path: Path) -> Signer:
        return Signer.new(path)

    return {name: made(folder / name) for name in ("auditor", "registry", "claimant", "stranger")}
