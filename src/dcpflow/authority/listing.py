"""What a registry's entries say about one decision and its certificate."""

from __future__ import annotations

import datetime
from collections.abc import Iterable

from dcpflow.authority import kinds
from dcpflow.authority.certificate import Certificate, Filed, Listed, Revocation, Verified
from dcpflow.authority.entry import Entry
from dcpflow.authority.log import Log


def listed(log: Log, about: Verified, certificate: Certificate | None) -> Listed:
    """What concerns a decision.

    Args:
        log: the registry.
        about: the verified audit.
        certificate: its certificate; None where there is none.
    """
    mine = certificate.digest if certificate else ""
    subjects = {(kinds.DECISION, about.decision_digest), (kinds.CERTIFICATE, mine)}
    point = log.checkpoint
    shown = [
        (key, entry)
        for entry in log.entries
        if entry.kind == kinds.CERTIFIED and entry.body["certificate"] == mine
        for key in entry.body["keys"]
    ]
    return Listed(
        origin=log.head.origin,
        signers=tuple(point.signers(point.envelope.keys.values())) if point else (),
        revocations=tuple(
            Revocation(entry.number, _day(entry), entry.body["of"], entry.body["reason"], entry.body["text"])
            for entry in log.entries
            if entry.kind == kinds.REVOKED and (entry.body["of"], entry.body["digest"]) in subjects
        ),
        newer=_first((entry.body["family"], entry) for entry in log.entries if entry.kind == kinds.NEWER_MODEL),
        shown=_first(shown),
        signed=_first((key, entry) for key, entry in shown if point and entry.number <= point.size),
        witnesses=tuple(
            Filed(entry.number, _day(entry), entry.body["record"], entry.body["text"])
            for entry in log.entries
            if entry.kind == kinds.WITNESS and entry.body["registration"] in about.registrations
        ),
    )


def _first(found: Iterable[tuple[str, Entry]]) -> dict[str, datetime.date]:
    """For each name the day of its first entry."""
    days: dict[str, datetime.date] = {}
    for name, entry in found:
        days.setdefault(name, _day(entry))
    return days


def _day(entry: Entry) -> datetime.date:
    return datetime.date.fromisoformat(entry.date[:10])
