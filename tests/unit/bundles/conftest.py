"""One small finished audit, its bundles, and what alters them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dcpflow.bundles import archive
from dcpflow.bundles.export import export
from dcpflow.bundles.format import MANIFEST, stage_bytes, with_manifest
from dcpflow.bundles.verify import Verification, verify
from dcpflow.records.draws import Nonce

PUBLISHED = Path(__file__).parents[4] / "shared" / "data" / "bundles" / "sqlite-core"

Change = Callable[[dict[str, bytes]], None]


@dataclass(frozen=True)
class Finished:
    """A finished audit that no test alters.

    Attributes:
        audit: as the other tests' fixtures make it.
        results: its folder.
        nonce_file: where its nonce lies.
        bundle: the file that it was exported to.
        revealed: the same with what was sealed.
    """

    audit: Any
    results: Path
    nonce_file: Path
    bundle: Path
    revealed: Path

    @property
    def nonce(self) -> Nonce:
        return Nonce.read(self.nonce_file)


@pytest.fixture(scope="session")
def finished(finished_audit: Any, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    audit, folder = finished_audit, tmp_path_factory.mktemp("bundles")
    export(audit.results, folder / "claim.dcp")
    export(audit.results, folder / "revealed.dcp", Nonce.read(audit.nonce_file))
    return Finished(audit, audit.results, audit.nonce_file, folder / "claim.dcp", folder / "revealed.dcp")


@pytest.fixture
def altered(tmp_path: Path) -> Callable[[Path, Change], Path]:
    """Makes an altered copy of a bundle whose manifest is true of it: what only the content can give away."""

    def alter(bundle: Path, change: Change) -> Path:
        members = archive.read(bundle)
        body = json.loads(members.pop(MANIFEST))["body"]
        change(members)
        whole = with_manifest(members, body["contract"], body["registration"], revealed=body["revealed"])
        path = tmp_path / "altered.dcp"
        path.write_bytes(archive.encode(whole))
        return path

    return alter


def edited(data: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """A stage file with another body, and with the digest of that."""
    value = json.loads(data)
    change(value["body"])
    return stage_bytes(value["schema"], value["body"])


def refusal(path: Path) -> str:
    """Why something does not verify: one line that names the file."""
    found: Verification = verify(path)
    assert not found.ok
    assert "\n" not in found.error
    assert str(path) in found.error
    return found.error


def json_members(members: Mapping[str, bytes]) -> list[str]:
    """Names of the members that hold one JSON value each."""
    return [name for name in members if name.endswith(".json")]
