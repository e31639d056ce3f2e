"""Entries by which a registry's operator ends certificates: revocations, and newer models of a family."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dcpflow.authority import kinds
from dcpflow.authority.entry import Entry
from dcpflow.bundles import archive
from dcpflow.errors import UsageError
from dcpflow.records import canonical, files
from dcpflow.stages.certifying import read_certificate
from dcpflow.stages.private_keys import read_key
from dcpflow.stages.registry import open_folder

NAME = "decision.json"


def revoke(path: Path, registry: str, reason: str, text: str, key: Path | None = None) -> Entry:
    """List in a registry that a certificate, or a decision with all its certificates, is revoked.

    What is revoked need not verify: that it does not may be the reason.

    Args:
        path: a certificate, or the results folder or bundle of a decision.
        registry: folder of the registry.
        reason: one of :data:`dcpflow.authority.kinds.REASONS`.
        text: in words, one line.
        key: the registry's private key, to sign a checkpoint over the entry at once; None to sign none.

    Raises:
        UsageError: there is nothing to revoke, or the key must not be used or is not the registry's. Nothing is listed.
        EvidenceError: the file is neither a certificate nor a bundle.
    """
    of, digest = _subject(path)
    return _append(registry, kinds.REVOKED, {"of": of, "digest": digest, "reason": reason, "text": text}, key)


def newer_model(family: str, model: str, registry: str, key: Path | None = None) -> Entry:
    """List in a registry that a newer model of a family has come out.

    Args:
        family: as certificates name it in their expiry rule.
        model: the newer model.
        registry: folder of the registry.
        key: as for :func:`revoke`.
    """
    return _append(registry, kinds.NEWER_MODEL, {"family": family, "model": model}, key)


def _append(registry: str, kind: str, body: Mapping[str, Any], key: Path | None) -> Entry:
    """The entry with this body, which stands in the registry once, however often it is asked for."""
    signer = read_key(key) if key else None
    log = open_folder(registry)
    if signer:
        log.require_key(signer)
    log = log.append(kind, body, unless=lambda entries: any(_same(entry, kind, body) for entry in entries))
    if signer:
        log.sign(signer)
    return next(entry for entry in log.entries if _same(entry, kind, body))


def _same(entry: Entry, kind: str, body: Mapping[str, Any]) -> bool:
    return entry.kind == kind and entry.body == body


def _subject(path: Path) -> tuple[str, str]:
    """What is revoked, and its digest."""
    if path.is_dir():
        return kinds.DECISION, canonical.digest(files.read(path / NAME, "the decision"))
    if not path.is_file():
        raise UsageError(f"{path} does not exist", "Give a certificate, a results folder or a bundle")
    with path.open("rb") as file:
        is_json = file.read(1) == b"{"
    if is_json:
        return kinds.CERTIFICATE, read_certificate(path).digest
    members = archive.read(path)
    if NAME not in members:
        raise UsageError(f"{path} holds no decision", "Give a certificate, a results folder or a bundle")
    return kinds.DECISION, canonical.digest(members[NAME])
