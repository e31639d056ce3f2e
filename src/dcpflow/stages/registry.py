"""Notes an audit in its registry: its slot before the first episode, every start, amendments, the decision."""

from __future__ import annotations

import re
import secrets
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from dcpflow.authority import kinds, slots, source
from dcpflow.authority.entry import Entry, Head
from dcpflow.authority.log import HEAD, Log
from dcpflow.authority.slots import Audit, Note
from dcpflow.errors import EvidenceError, UsageError
from dcpflow.protocol.registration import PROSPECTIVE
from dcpflow.records import canonical, files, history, registration, snapshot, stagefile
from dcpflow.records.layout import Layout
from dcpflow.records.registration import Registered

OFF: Final = "none"
"""What the configuration says where no registry is kept."""
OWN: Final = "local"
"""Origin of a registry that a run has made for itself."""
REQUEST: Final = "dcpflow.registry-request/1"
_RUN: Final = "dcpflow.run/1"
_TOKEN: Final = re.compile("[0-9a-f]{32}")


def reserve(layout: Layout, registered: Registered, place: str) -> None:
    """Note slot, start or amendment, whatever is not noted yet, and keep what the registry knew before.

    Args:
        layout: the results folder; the registration is not written yet.
        registered: what is about to be in force.
        place: the registry's folder or address, or :data:`OFF`. A folder with a relative path is made where there is
            none.

    Raises:
        UsageError: the slot is taken, or has to be reserved by the registry's operator first.
        EvidenceError: the registry is not whole, or cannot be read.
    """
    if place == OFF:
        return
    log = open_place(place, make=True)
    audit = _audit(layout, registered)
    asked = [] if is_writable(log) else slots.unanswered(log.entries, audit, pending(layout))
    said = (reservation(registered), _start(layout, registered), _changed(layout, registered))
    notes = slots.missing(log.entries, audit, asked, *said)
    if is_writable(log):
        log = add(log, notes)
    else:
        _request(layout, [*asked, *notes])
    known = slots.snapshot(log.head, log.entries, audit)
    if known is None:
        raise UsageError(
            f"the registry {log.head.origin!r} ({place}) takes entries by request, and has no start of this audit in "
            f"the slot {audit.slot} of the family {audit.family}",
            f"Send its operator {_request_path(layout)} (dcpflow registry request prints it), and run the same command "
            "again once it was added (dcpflow registry add)",
        )
    snapshot.write(layout.registration, known)


def note_decision(layout: Layout, place: str) -> None:
    """Note the decision that stands in a results folder, unless it is the last one that was noted from there.

    A registry that is not there, or does not know the audit, stops no decision: it is told, and nothing is noted.

    Raises:
        EvidenceError: the registry is not whole.
    """
    if place == OFF:
        return
    data = files.read(layout.decision, "the decision")
    decision = canonical.decode(data, str(layout.decision))
    audit = _audit(layout, registration.read_registration(layout.registration))
    core, found = (_status(decision[name]) for name in ("core", "evidence"))
    note = slots.outcome(audit, canonical.digest(data), core, found)
    try:
        log = None if source.is_address(place) else open_place(place)
        if log and is_writable(log):
            add(log, [note])
        else:
            asked = pending(layout)
            _request(layout, asked if note in asked[-1:] else [*asked, note])
    except UsageError as error:
        print(f"the decision was not noted in a registry: {error}", file=sys.stderr)


def is_writable(log: Log) -> bool:
    """Whether audits write to a registry themselves."""
    return isinstance(log.source, source.Folder) and not log.head.by_request


def add(log: Log, notes: Sequence[Note]) -> Log:
    """Append what the log does not say yet; others may be appending the same.

    Raises:
        UsageError: it contradicts what is there.
    """
    for kind, body in notes:
        log = log.append(kind, body, unless=partial(_superfluous, kind, body))
    return log


def _superfluous(kind: str, body: dict[str, Any], entries: Sequence[Entry]) -> bool:
    return not slots.admit(entries, kind, body)


def pending(layout: Layout) -> list[Note]:
    """What the registry's operator was not asked yet to add, or has not added yet.

    Raises:
        EvidenceError: the request was altered.
    """
    path = _request_path(layout)
    return read_request(files.read(path, "the request"), str(path)) if path.exists() else []


def read_request(data: bytes, where: str) -> list[Note]:
    """The entries that a request asks for: what audits note themselves, and nothing that is the operator's to say.

    Raises:
        EvidenceError: it is none.
    """
    value = canonical.decode(data, where)
    if not isinstance(value, dict) or value.keys() != {"schema", "entries"} or value["schema"] != REQUEST:
        raise EvidenceError(f"{where}: not a {REQUEST} file")
    found = []
    for number, entry in enumerate(value["entries"] if isinstance(value["entries"], list) else [None], 1):
        if not isinstance(entry, dict) or entry.keys() != {"kind", "body"}:
            raise EvidenceError(f"{where}: entries must be a list of kind and body each")
        if entry["kind"] in kinds.KINDS and entry["kind"] not in slots.NOTED:
            raise EvidenceError(f"{where}: entry {number}: {entry['kind']} is nothing that an audit can request")
        found.append((entry["kind"], kinds.check(entry["kind"], entry["body"], f"{where}: entry {number}")))
    return found


def to_request(notes: Sequence[Note]) -> bytes:
    """The file that asks a registry's operator to add entries."""
    return (
        canonical.encode({"schema": REQUEST, "entries": [{"kind": kind, "body": body} for kind, body in notes]}) + b"\n"
    )


def run_token(layout: Layout) -> str:
    """What a results folder is called in registries: 32 random hex digits, made once.

    Raises:
        EvidenceError: it was altered.
    """
    path = layout.registry / "run.json"
    if not path.exists():
        body = {"run": secrets.token_hex(16)}
        made = {"schema": _RUN, "digest": stagefile.digest(_RUN, body), "body": body}
        files.write_once(path, canonical.encode(made) + b"\n")
    body, _ = stagefile.read(path, _RUN, "the token of this results folder")
    token = body.get("run")
    if body.keys() != {"run"} or not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise EvidenceError(f"the token of this results folder is none: {path}", "Restore it from a backup")
    return token


def open_place(place: str, *, make: bool = False) -> Log:
    """The registry in a folder or at an address.

    Args:
        place: which.
        make: whether a folder with a relative path is made where there is none.

    Raises:
        UsageError: there is none.
        EvidenceError: it is not whole, or cannot be read.
    """
    at = source.of(place)
    if make and isinstance(at, source.Folder) and not at.root.is_absolute() and not at.root.exists():
        try:
            Log.create(at.root, Head(OWN))
        except UsageError:
            # another first run may have made it in between
            if not (at.root / HEAD).exists():
                raise
    return Log.read(at)


def open_folder(place: str) -> Log:
    """The registry in a folder, for those who add to it; otherwise as :func:`open_place`.

    Raises:
        UsageError: it is read from afar.
    """
    if source.is_address(place):
        raise UsageError(f"nothing can be added to {place}", "Give the registry's folder: its operator adds to it")
    return open_place(place)


def _audit(layout: Layout, registered: Registered) -> Audit:
    claim = registered.config("claim")
    return Audit(claim["id"], claim["family"], claim["slot"], run_token(layout), registered.contract, registered.digest)


def reservation(registered: Registered) -> dict[str, Any]:
    """What a reservation says beyond the audit itself."""
    claim, alpha = registered.config("claim"), registered.config("thresholds")["alpha"]
    return {
        "alpha": alpha["total"],
        "family_alpha": alpha["family_total"],
        "roles": claim["roles"],
        "mode": claim.get("mode", PROSPECTIVE),
    }


def started(registered: Registered) -> str:
    """What a start begins."""
    return kinds.TARGET_RUN if registered.config("claim").get("mode", PROSPECTIVE) == PROSPECTIVE else kinds.AUDIT


def _start(layout: Layout, registered: Registered) -> dict[str, Any]:
    return {
        "what": started(registered),
        "episodes": sum(1 for _ in layout.store.glob("*/*/*/*/*/holder-1.json")),
    }


def _changed(layout: Layout, registered: Registered) -> list[str]:
    """The registered keys that differ from the registration in force before."""
    past = history.entries(layout)
    changed = history.changes(past[-1].parts, registered.parts) if past else ()
    return kinds.shortened([change["key"] for change in changed])


def _status(verdict: dict[str, Any]) -> str:
    kind = f" ({verdict['class']})" if verdict["class"] else ""
    return f"{verdict['status']}{kind}{', exploratory' if verdict['exploratory'] else ''}"


def _request_path(layout: Layout) -> Path:
    return layout.registry / "request.json"


def _request(layout: Layout, notes: Sequence[Note]) -> None:
    """Keep what the registry's operator is to be sent; nothing where all stands there."""
    if notes:
        files.write_atomic(_request_path(layout), to_request(notes))
    else:
        _request_path(layout).unlink(missing_ok=True)
