"""What a revealed nonce lets anybody recompute: draws, scoring orders, canary files, commitments."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dcpflow.bundles.contents import REVEALED
from dcpflow.bundles.dcp_audit import strict_json
from dcpflow.bundles.dcp_audit.errors import BundleError
from dcpflow.bundles.format import stage_bytes
from dcpflow.bundles.shapes import HEX, STAGE_FILE, TEXT, hold, record
from dcpflow.errors import EvidenceError
from dcpflow.evidence.facts import AuditFacts
from dcpflow.evidence.folder import Evidence
from dcpflow.evidence.view import AuditView
from dcpflow.records import canonical, packet, plan
from dcpflow.records.draws import Draws, Nonce
from dcpflow.records.layout import Layout

MATERIAL: Final = ("hidden", "sealed")
_SCHEMAS: Final = {name: f"dcpflow.{name}/1" for name in ("nonce", *MATERIAL)}
NONCE: Final = f"{REVEALED}/nonce.json"
_NONCE: Final = record(nonce=HEX, public=TEXT)


@dataclass(frozen=True, slots=True)
class Secrets:
    """What was sealed during the audit.

    Attributes:
        nonce: the nonce.
        material: ``hidden`` and ``sealed`` material as far as it was revealed.
        source: where the nonce comes from, in words.
    """

    nonce: Nonce
    material: Mapping[str, dict[str, Any]]
    source: str


def find(layout: Layout, seen: AuditView, given: Nonce | None) -> Secrets | None:
    """The secrets of an audit as far as they are known: given, revealed beside it, or public from the start.

    Args:
        layout: a results folder, or a bundle opened as one.
        seen: its evidence.
        given: the nonce, if the caller has it.

    Raises:
        EvidenceError: the given nonce is not this audit's, or what is revealed cannot be read.
    """
    revealed = _stage_body(layout, layout.root / _file("nonce"), "nonce")
    text = seen.registered.parts["task"]["seal"]["public_demonstration"]
    if given is not None:
        if not _opens(seen, given, "nonce", given.secret):
            raise EvidenceError(
                "the given nonce is not the one that this audit's contract commits to",
                "Give the audit's own (execution.nonce_file)",
            )
        nonce, source = given, "the given nonce"
    elif revealed is not None:
        hold(_NONCE, revealed, _file("nonce"), "body")
        nonce, source = Nonce(bytes.fromhex(revealed["nonce"]), revealed["public"]), "the revealed nonce"
    elif text:
        nonce, source = Nonce(hashlib.sha256(text.encode()).digest(), text), "the demonstration's public nonce"
    else:
        return None
    places = {name: (layout.root / _file(name), _sealed_path(layout, name)) for name in MATERIAL}
    bodies = {
        name: body
        for name, paths in places.items()
        for path in paths
        if (body := _stage_body(layout, path, name)) is not None
    }
    return Secrets(nonce, bodies, source)


def members(layout: Layout, secrets: Secrets | None, *, reveal: bool) -> dict[str, bytes]:
    """The members that reveal what was sealed: what was revealed before, or all of it now.

    Args:
        layout: the results folder, or a bundle opened as one.
        secrets: what is known, after it was held against the evidence.
        reveal: whether to reveal it now.

    Raises:
        EvidenceError: something sealed is missing.
    """
    if not reveal or secrets is None:
        files = {name: _read(layout.root / name) for name in map(_file, ("nonce", *MATERIAL))}
        shown = {name: data for name, data in files.items() if data is not None}
        if shown and len(shown) < len(files):
            missing = sorted(files.keys() - shown.keys())
            raise BundleError(missing[0], "", "revealed", "is missing, though other sealed material is revealed")
        return shown
    found = {}
    for name in MATERIAL:
        data = _read(layout.root / _file(name)) or _read(_sealed_path(layout, name))
        if data is None:
            raise EvidenceError(
                f"the {name} material is missing: {_sealed_path(layout, name)}",
                "It can be made again from the nonce: run snakemake again",
            )
        found[_file(name)] = data
    body = {"nonce": secrets.nonce.secret.hex(), "public": secrets.nonce.public}
    return found | {_file("nonce"): stage_bytes(_SCHEMAS["nonce"], body)}


def _file(name: str) -> str:
    return f"{REVEALED}/{name}.json"


def _sealed_path(layout: Layout, name: str) -> Path:
    return (layout.hidden if name == "hidden" else layout.sealed) / f"{plan.MAIN}.json"


def _read(path: Path) -> bytes | None:
    """The file's bytes; None where there is none, or where its owner alone may read it."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, PermissionError):
        return None


def _stage_body(layout: Layout, path: Path, name: str) -> dict[str, Any] | None:
    """The body of a stage file; None where it cannot be read."""
    data = _read(path)
    if data is None:
        return None
    file = str(path.relative_to(layout.root))
    value = strict_json.loads(data, file)
    hold(STAGE_FILE, value, file)
    if value["schema"] != _SCHEMAS[name]:
        raise BundleError(file, "schema", "schema", f"{value['schema']!r:.60} is not {_SCHEMAS[name]}")
    if value["digest"] != canonical.digest_of({"schema": value["schema"], "body": value["body"]}):
        raise BundleError(file, "digest", "digest", "was altered: not the digest of schema and body")
    body: dict[str, Any] = value["body"]
    return body


@dataclass(frozen=True, slots=True)
class Recomputed:
    """What was recomputed with the secrets.

    Attributes:
        draws: episodes whose presentation, seed, unit and arm order were drawn again.
        orders: phases whose scoring order was drawn again.
        canaries: canary files that were made again.
        commitments: names of the commitments that were opened.
    """

    draws: int
    orders: int
    canaries: int
    commitments: tuple[str, ...]


def recompute(evidence: Evidence, secrets: Secrets) -> Recomputed:
    """Recompute from the secrets what the evidence records of them.

    Raises:
        EvidenceError: something comes out otherwise than it is recorded.
    """
    seen, nonce = evidence.view, secrets.nonce
    opened = _open(seen, secrets)
    for facts in (evidence.facts, *evidence.facts.strata.values(), *evidence.facts.policies.values()):
        for name, holds in opened.items():
            _agree(f"whether {name} opens to {secrets.source}", facts.commitments.get(name), holds)
    randomness = seen.public_randomness
    parts = [(seen, evidence.facts)]
    parts += [(part, evidence.facts.strata[name]) for name, part in seen.strata.items()]
    parts += [(part, evidence.facts.policies[name]) for name, part in seen.policies.items()]
    canaries = sum(
        _recompute(part, Draws(nonce, part.registered.contract, randomness), evidence, own, secrets)
        for part, own in parts
    )
    orders = sum(len(part.scores) for part, _ in parts)
    return Recomputed(len(seen.everything), orders, canaries, tuple(opened))


def _recompute(seen: AuditView, draws: Draws, evidence: Evidence, facts: AuditFacts, secrets: Secrets) -> int:
    """Recompute the draws of one contract; the number of canary files among them."""
    canaries = 0
    for episode in seen.episodes:
        key, known = episode.key, evidence.episode_facts[episode.digest]
        drawn = plan.draw(draws, key.stage, key.slot)
        holds = episode.record.draw == drawn and episode.record.unit == plan.unit(drawn)
        _agree(f"whether {key} was drawn from {secrets.source}", known["draw_matches"], holds)
        asked = plan.to_quote(draws, key.stage, key.slot, seen.packet)
        for name, holds in packet.quoted(episode.record.quotes, asked).items():
            _agree(f"whether {key} quoted its files ({name})", known[name], holds)
        canaries += plan.CANARY in asked
    for phase, rows in seen.scores.items():
        order = draws.order(len(rows), f"scores {phase}", "scoring order")
        holds = [rows[index].position for index in order] == list(range(1, len(rows) + 1))
        _agree(f"whether phase {phase} was scored in its drawn order", facts.scoring_order.get(phase), holds)
    return canaries


def _open(seen: AuditView, secrets: Secrets) -> dict[str, bool]:
    opened = {"nonce_commitment": _opens(seen, secrets.nonce, "nonce", secrets.nonce.secret)}
    for name, material in secrets.material.items():
        opened[f"{name}_commitment"] = _opens(seen, secrets.nonce, name, canonical.encode(material))
    return opened


def _opens(seen: AuditView, nonce: Nonce, name: str, material: bytes) -> bool:
    return bool(nonce.commit(name, material) == seen.registered.parts["task"]["seal"][f"{name}_commitment"])


def _agree(what: str, recorded: bool | None, found: bool) -> None:
    if recorded is not found:
        raise EvidenceError(f"{what}: recorded {recorded}, recomputed {found}")
