"""What a certificate is worth, on a terminal and for programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dcpflow.authority.certificate import Account, Signature
from dcpflow.authority.statement import Expiry
from dcpflow.bundles.screen import plain, wrapped


def render(account: Account) -> str:
    """The account for a person: who signed what, how long it stands, what is registered, whether it is formal."""
    lines = []
    if account.certificate:
        stated, claim = account.certificate.stated, account.certificate.stated.facts.get("claim", {})
        what = f"that {claim['id']} was decided as {stated.decision}, in the bundle {stated.bundle}"
        lines += wrapped("certificate", f"{account.certificate.digest}, {what}")
    for one in account.signatures:
        lines += wrapped("signature", _signature(one))
    for title, text in _standing(account):
        lines += wrapped(title, text)
    lines += wrapped("formal", "a formal certificate is issued" if account.formal else "no formal certificate:")
    for text in (*account.faults, *account.withheld):
        lines += wrapped("", text)
    return "\n".join(plain(line) for line in lines)


def _signature(one: Signature) -> str:
    if one.fault:
        return f"DOES NOT HOLD  {one.name}: {one.fault}"
    if one.party is None:
        return f"holds, of a key that nobody is trusted with: {one.fingerprint}"
    until = f" until {one.party.not_after}" if one.party.not_after else ""
    return f"holds, of {one.name}, trusted as {' and '.join(one.party.roles)}{until}"


def _standing(account: Account) -> Iterator[tuple[str, str]]:
    if account.certificate:
        yield "stands", f"{expiry(account.certificate.stated.expiry)}; asked for {account.at}"
    if account.registry:
        listed = account.registry
        for entry in listed.witnesses:
            text = f": {entry.text}" if entry.text else ""
            what = f"a recovery was filed on {entry.date} (entry {entry.entry}, record {entry.record}){text}"
            yield "witness", f"{what}. It is shown as filed, not checked: dcpflow witness check RECORD RESULTS"
        yield "registry", f"{listed.origin}, which lists {len(listed.revocations)} revocations of this"


def expiry(rule: Expiry) -> str:
    """When a certificate ceases to stand, in words."""
    rules = [f"until {rule.date}"] if rule.date else []
    rules += [f"until a newer model of {family} is listed" for family in rule.newer]
    return " and ".join(rules) or "without an end"


def to_json(account: Account) -> dict[str, Any]:
    """The account for programs."""
    certificate, listed = account.certificate, account.registry
    stated = certificate.stated if certificate else None
    return {
        "digest": certificate.digest if certificate else None,
        "decision": stated.decision if stated else None,
        "bundle": stated.bundle if stated else None,
        "at": account.at.isoformat(),
        "expires": {
            "date": stated.expiry.date.isoformat() if stated.expiry.date else None,
            "newer_models": list(stated.expiry.newer),
        }
        if stated
        else None,
        "signatures": [
            {
                "key": one.key,
                "fingerprint": one.fingerprint,
                "holds": not one.fault,
                "fault": one.fault,
                "trusted": one.party is not None,
                "name": one.party.name if one.party else None,
                "roles": list(one.party.roles) if one.party else [],
                "not_after": one.party.not_after.isoformat() if one.party and one.party.not_after else None,
            }
            for one in account.signatures
        ],
        "registry": {
            "origin": listed.origin,
            "revocations": [
                {"entry": e.entry, "date": e.date.isoformat(), "of": e.of, "reason": e.reason, "text": e.text}
                for e in listed.revocations
            ],
            "witnesses": [
                {"entry": e.entry, "date": e.date.isoformat(), "record": e.record, "text": e.text, "checked": False}
                for e in listed.witnesses
            ],
        }
        if listed
        else None,
        "faults": list(account.faults),
        "withheld": list(account.withheld),
    }
