"""What the operator of a registry and its readers do: make one, add requests, sign, check, prove, show."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dcpflow.authority import kinds
from dcpflow.authority.entry import LARGEST, Checkpoint, Entry, Head
from dcpflow.authority.keys import PublicKey
from dcpflow.authority.log import Log, verify_proof
from dcpflow.errors import UsageError
from dcpflow.records import canonical
from dcpflow.records.layout import Layout
from dcpflow.report.screen import plain
from dcpflow.stages import registry
from dcpflow.stages.private_keys import read_key


def make(folder: Path, origin: str, key: Path | None, *, by_request: bool) -> str:
    """Make an empty registry; returns what to say of it.

    Args:
        folder: where; a new or empty folder.
        origin: what it is called.
        key: file of the public key that will sign its checkpoints.
        by_request: whether its operator adds what audits request, and they write nothing themselves.

    Raises:
        UsageError: the folder is not empty, the name is none, or the key cannot be read or is a private one.
    """
    words, is_text = kinds.TEXT
    if not is_text(origin):
        raise UsageError(f"the name of a registry is {words}", "Give another --origin")
    Log.create(folder, Head(origin, PublicKey.read(key) if key else None, by_request))
    signs = (
        "signed by the key of that file" if key else "signed by nobody: give --key FILE.pub for one that others trust"
    )
    return f"made the registry {origin!r} in {folder}, {signs}"


def show(place: str) -> str:
    """The entries of a registry, one a line, oldest first.

    Raises:
        DcpflowError: there is none, it cannot be read, or is not whole.
    """
    log = registry.open_place(place)
    lines = [_described(log, place), *(_line(entry) for entry in log.entries)]
    return "\n".join(map(plain, lines))


def add(place: str, request: Path) -> str:
    """Add what an audit has requested; what stands there already is passed over.

    Raises:
        DcpflowError: the request is none, or contradicts what is there. What comes before that is added.
    """
    notes = registry.read_request(_read(request), str(request))
    before = registry.open_place(place)
    after = registry.add(before, notes)
    added = after.entries[len(before.entries) :]
    return "\n".join(map(plain, map(_line, added))) if added else "nothing was added: all of it stands there already"


def sign(place: str, key: Path) -> str:
    """Sign a checkpoint of all entries.

    Raises:
        DcpflowError: the key cannot be used, or lies where it would be published; there is nothing to sign.
    """
    log = registry.open_place(place)
    point = log.sign(read_key(key)).checkpoint
    assert point
    return f"signed {point.size} entries of {point.origin!r}: root {point.root}"


def check(place: str, older: Path | None, trust: Sequence[Path]) -> str:
    """Hold a registry against its chain, its checkpoints, and one that somebody has kept; returns what held.

    Args:
        place: its folder or address.
        older: the kept checkpoint.
        trust: files of public keys, one of which must have signed.

    Raises:
        DcpflowError: it was cut, edited, rewritten or forked, a signature is missing, or something cannot be read.
    """
    log = registry.open_place(place)
    kept = Checkpoint.read(older) if older else None
    log.verify(kept, [PublicKey.read(path) for path in trust])
    lines = [_described(log, place)]
    if kept and kept.signers([log.head.key] if log.head.key else []):
        lines.append(f"it continues the signed checkpoint of {kept.size} entries in {older}")
    elif kept:
        how = "signed by a trusted key" if trust else "whose signature was not checked: give --trust FILE.pub"
        lines.append(f"it continues the checkpoint of {kept.size} entries in {older}, {how}")
    return "\n".join(map(plain, lines))


def prove(place: str, number: int) -> str:
    """What shows that an entry is in the log to those who hold its last checkpoint or key alone, as JSON.

    Raises:
        DcpflowError: there is no such entry, or no checkpoint covers it.
    """
    return json.dumps(registry.open_place(place).prove(number), indent=2)


def proven(proof: Path, trust: Sequence[Path]) -> str:
    """What a proof shows.

    Args:
        proof: what :func:`prove` gave.
        trust: files of public keys, one of which must have signed its checkpoint.

    Raises:
        DcpflowError: it shows nothing.
    """
    value = canonical.decode(_read(proof), str(proof))
    found: dict[str, Any] = value if isinstance(value, dict) else {}
    entry, point = verify_proof(found, [PublicKey.read(path) for path in trust], str(proof))
    where = f"is among the {point.size} entries of {point.origin!r} that were signed"
    return f"{plain(_line(entry))}\n{plain(where)}"


def request(results: Path) -> str:
    """What the registry's operator is to be sent.

    Raises:
        DcpflowError: there is nothing to send, or it was altered.
    """
    notes = registry.pending(Layout(results))
    if not notes:
        raise UsageError(
            f"{results} has nothing for a registry's operator",
            "A run writes it where execution.registry names a registry that takes entries by request",
        )
    return registry.to_request(notes).decode().rstrip()


def _described(log: Log, place: str) -> str:
    size, point = len(log.entries), log.checkpoint
    signed = (
        f"the last over {point.size}, signed by {', '.join(key.id for key in point.envelope.keys.values())}"
        if point
        else "none"
    )
    name = f"the registry {log.head.origin!r} ({place})"
    return f"{name}: {size} entries, each follows the one before; checkpoints: {signed}"


def _line(entry: Entry) -> str:
    body = entry.body
    match entry.kind:
        case kinds.REGISTERED:
            what = f"{_slot(body)}: {_short(body['registration'])}, alpha {body['alpha']:g} of {body['family_alpha']:g}"
        case kinds.STARTED:
            late = f", after {body['episodes']} episodes" if body["episodes"] else ""
            name = body["what"].replace("_", " ")
            what = f"{_slot(body)}: {name} under {_short(body['registration'])} in {body['run'][:8]}{late}"
        case kinds.AMENDED:
            change = f"{_short(body['old'])} to {_short(body['new'])}"
            what = f"{_slot(body)}: {change} in {body['run'][:8]} ({', '.join(body['keys'])})"
        case kinds.DECIDED:
            told = f"Core {body['core']}, Evidence {body['evidence']}"
            what = f"{_slot(body)}: {told} ({_short(body['decision'])}) in {body['run'][:8]}"
        case kinds.CERTIFIED:
            names = f"certificate {_short(body['certificate'])} of the decision {_short(body['decision'])}"
            what = f"{names}, signed with {len(body['keys'])} keys"
        case kinds.REVOKED:
            what = f"{body['of']} {_short(body['digest'])}: {body['reason'].replace('_', ' ')} {body['text']}".rstrip()
        case _:
            what = ", ".join(f"{name} {_short(value)}" for name, value in body.items() if value)
    return f"{entry.number:8}  {entry.date}  {entry.kind:10}  {what}"


def _slot(body: dict[str, Any]) -> str:
    return f"{body['family']}/{body['slot']}"


def _short(text: str) -> str:
    return text[:19] if canonical.is_digest(text) else text


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(LARGEST)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", "Give the path of its file") from None
