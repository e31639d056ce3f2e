"""The append-only history of registrations: what was registered first, and every amendment since."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dcpflow.errors import EvidenceError
from dcpflow.records import canonical, files, plan, registration, stagefile
from dcpflow.records.layout import Layout
from dcpflow.records.registration import Registered

SCHEMA = "dcpflow.history/1"
REPLACED: Final = (
    "scores/**/*.json",
    "replay/**/*.json",
    "evidence/*",
    "target/checkpoint.json",
    "target/packet.json",
    "costs.parquet",
    "report.html",
)
"""Results that a run under another registration writes again, beside the decision."""
STRATA: Final = "design.strata"
"""Where the strata stand by name, among the keys that :func:`changes` tells."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One registration in force, in the order of coming into force.

    Attributes:
        sequence: 1 for the first registration.
        registration: R.
        contract: C.
        parts: all registered parts.
        previous: digest of the entry before; empty for the first.
        changes: changed keys with ``key``, ``old`` and ``new``; none for the first.
        opened: what there was at that time: ``started`` and ``committed`` episodes by stage (those of a stratum as
            ``challengers/NAME``), and the digests of the scores that were already there.
        digest: of this entry.
    """

    sequence: int
    registration: str
    contract: str
    parts: dict[str, dict[str, Any]]
    previous: str
    changes: list[dict[str, Any]]
    opened: dict[str, Any]
    digest: str


def entries(layout: Layout) -> list[Entry]:
    """All entries, oldest first, with every digest and link recomputed.

    Raises:
        EvidenceError: an entry is missing, altered, does not follow the one before it, or names another registration
            than its parts give.
    """
    found: list[Entry] = []
    for path in sorted(layout.history.glob("*/entry.json")):
        body, digest = stagefile.read(
            path, SCHEMA, "the history entry", "The history is append-only: restore it from a backup"
        )
        try:
            entry = Entry(**body, digest=digest)
            altered = registration.registration_digest(entry.parts) != entry.registration
        except (LookupError, TypeError, ValueError, AttributeError):
            altered = True
        if altered:
            raise EvidenceError(
                f"the history was altered: {path} does not hold the registration that it names",
                "The history is append-only: restore it from a backup",
            )
        follows = entry.previous == found[-1].digest if found else not (entry.previous or entry.opened or entry.changes)
        if entry.sequence != len(found) + 1 or not follows:
            raise EvidenceError(
                f"the history is broken before {path}: an entry was removed or altered",
                "The history is append-only: restore it from a backup",
            )
        found.append(entry)
    return found


def since_the_first_episode(past: Sequence[Entry]) -> Sequence[Entry]:
    """The entries from that on which was in force when the first episode started: it is the confirmatory one.

    What was registered before, and changed while nothing had begun, was no commitment to anything.
    """
    begun = next((n for n, entry in enumerate(past) if _started(entry.opened)), len(past))
    return past[max(0, begun - 1) :]


def _started(opened: dict[str, Any]) -> bool:
    return any(counts["started"] for counts in opened.get("episodes", {}).values())


def challengers(past: Sequence[Entry]) -> dict[str, set[str]]:
    """The names that the challengers of each contract ever had: of those that decide, and of strata."""
    found: dict[str, set[str]] = {}
    for entry in past:
        design = entry.parts["design"]
        found.setdefault(entry.contract, set()).add(design["config"]["stratum"])
        for name, stratum in design.get("strata", {}).items():
            found.setdefault(stratum["contract"], set()).add(name)
    return found


def append(layout: Layout, registered: Registered) -> None:
    """Add the registration unless it is the one in force already; what there is by then is kept with the last entry."""
    known = entries(layout)
    last = known[-1] if known else None
    if last and last.registration == registered.digest:
        return
    if last:
        _keep_results(layout, last)
    sequence = len(known) + 1
    body = {
        "sequence": sequence,
        "registration": registered.digest,
        "contract": registered.contract,
        "parts": registered.parts,
        "previous": last.digest if last else "",
        "changes": list(changes(last.parts, registered.parts)) if last else [],
        "opened": _opened(layout, known) if last else {},
    }
    folder = _folder(layout, sequence, registered.digest)
    files.write_atomic(folder / "when.json", canonical.encode({"registered": f"{time.time():.0f}"}))
    stagefile.write(folder / "entry.json", SCHEMA, body, mode=0o444)


def _keep_results(layout: Layout, last: Entry) -> None:
    """Copy decision, scores and tables to the entry of the registration that is being left, before they are replaced.

    Records and objects are never replaced. A decision that is still that of a registration before is kept there
    already: then a run was stopped between registering and deciding.
    """
    data = layout.decision.read_bytes() if layout.decision.exists() else None
    if data is not None and _decided_under(data) not in {"", last.registration}:
        return
    folder = _folder(layout, last.sequence, last.registration)
    for path in sorted(path for pattern in REPLACED for path in layout.root.glob(pattern)):
        # a job of the same run, which does not wait for the registration, may be about to write it again
        with suppress(FileNotFoundError):
            files.write_once(folder / path.relative_to(layout.root), path.read_bytes())
    if data is not None:
        files.write_once(folder / layout.decision.name, data)


def _decided_under(data: bytes) -> str:
    """R of a decision; empty where it was altered so much that it does not say."""
    try:
        return str(canonical.decode(data, "the decision")["registration"]["digest"])
    except (EvidenceError, KeyError, TypeError):
        return ""


def changes(old: Any, new: Any, key: str = "") -> Iterator[dict[str, Any]]:
    """The keys in which two registrations differ, with both values; the ``config`` level of a part or a stratum is not
    named, but a stratum that has that name is.

    A key that one of them lacks has the value None there.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted(old.keys() | new.keys()):
            below = key if name == "config" and key != STRATA else f"{key}.{name}".lstrip(".")
            if name in old and name in new:
                yield from changes(old[name], new[name], below)
            else:
                yield {"key": below, "old": old.get(name), "new": new.get(name)}
    elif canonical.encode(old) != canonical.encode(new):
        yield {"key": key, "old": old, "new": new}


def _folder(layout: Layout, sequence: int, digest: str) -> Path:
    return layout.history / f"{sequence:04d}-{digest.removeprefix('sha256:')[:16]}"


def _opened(layout: Layout, known: Sequence[Entry]) -> dict[str, Any]:
    """What was started, committed and scored by now."""
    strata = {
        stratum["contract"].removeprefix("sha256:"): name
        for entry in known
        for name, stratum in entry.parts["design"].get("strata", {}).items()
    }
    stages: dict[str, dict[str, int]] = {}
    for arm in sorted(layout.store.glob("*/*/*/*")):
        stage = plan.place(arm.parts[-3], strata.get(arm.parts[-4], ""))
        counts = stages.setdefault(stage, {"started": 0, "committed": 0})
        counts["started"] += any(arm.glob("*/holder-*.json"))
        counts["committed"] += any(arm.glob("*/record.json"))
    folder = layout.root / "scores"
    scored = {
        str(path.relative_to(folder).with_suffix("")): canonical.digest(path.read_bytes())
        for path in sorted(folder.rglob("*.json"))
    }
    return {"episodes": stages, "scores": scored}


def kept_decision(layout: Layout, entry: Entry) -> bytes | None:
    """The decision that stood when the entry's registration was amended, or None."""
    path = _folder(layout, entry.sequence, entry.registration) / "decision.json"
    return path.read_bytes() if path.exists() else None
