"""What a certificate is worth: who signed it, whether it is of this decision, whether it still stands.

A pure function of the certificate, what was verified, whom the reader trusts, what a registry lists, and a day.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from dcpflow.authority import kinds, statement
from dcpflow.authority.entry import Checkpoint, Entry
from dcpflow.authority.envelope import Envelope
from dcpflow.authority.keys import PublicKey
from dcpflow.authority.log import Log, verify_proof
from dcpflow.authority.statement import Statement
from dcpflow.authority.trust import AUDITOR, CLAIMANT, REGISTRY, Party, holder
from dcpflow.errors import EvidenceError
from dcpflow.records import canonical

LARGEST: Final = 1 << 20
"""Bytes above which a file is no certificate."""
CERTIFIED: Final = "certified"


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate as it was read.

    Attributes:
        envelope: the payload and its signatures.
        stated: what the payload states.
    """

    envelope: Envelope
    stated: Statement

    @classmethod
    def parse(cls, data: bytes, where: str) -> Certificate:
        """Read one strictly. What it is worth is :func:`assess`'s to say.

        Raises:
            EvidenceError: it is none.
        """
        envelope = Envelope.parse(data, where, statement.PAYLOAD_TYPE)
        return cls(envelope, Statement.parse(envelope.payload, where))

    @property
    def digest(self) -> str:
        """Its identity: the digest of what is signed. A signature more or less makes no other certificate of it, so
        that nobody escapes a revocation by adding one."""
        return canonical.digest(self.envelope.payload)


@dataclass(frozen=True, slots=True)
class Verified:
    """The audit that a certificate is held against, after it was verified.

    Attributes:
        decision: the content of its ``decision.json``.
        decision_digest: of that file's bytes.
        bundle_digest: of the bytes of its bundle, without what was revealed.
        registrations: every R in its history.
    """

    decision: Mapping[str, Any]
    decision_digest: str
    bundle_digest: str
    registrations: Set[str]


@dataclass(frozen=True, slots=True)
class Revocation:
    """An entry by which a registry revokes.

    Attributes:
        entry: its number.
        date: on which the registry took it in.
        of: what is revoked: ``certificate`` or ``decision``.
        reason: one of the registry's reasons.
        text: in words; may be empty.
    """

    entry: int
    date: datetime.date
    of: str
    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class Filed:
    """A recovery that was filed after the decision.

    Attributes:
        entry: number of the entry.
        date: on which the registry took it in.
        record: digest of the recovery record. What it says, nobody has recomputed here.
        text: in words; may be empty.
    """

    entry: int
    date: datetime.date
    record: str
    text: str


@dataclass(frozen=True, slots=True)
class Listed:
    """What a registry lists about one decision; its dates are the only ones that are known of anything.

    Attributes:
        origin: name of the registry.
        signers: keys whose signatures hold on its last checkpoint.
        revocations: of this certificate or decision.
        newer: day on which a newer model was first listed, by model family.
        shown: keys whose signatures of this certificate the registry was shown, by key id, and since when.
        signed: of these what its last checkpoint covers: what nobody has signed speaks against a certificate only.
        witnesses: recoveries that were filed.
    """

    origin: str
    signers: tuple[PublicKey, ...] = ()
    revocations: tuple[Revocation, ...] = ()
    newer: Mapping[str, datetime.date] = field(default_factory=dict)
    shown: Mapping[str, datetime.date] = field(default_factory=dict)
    signed: Mapping[str, datetime.date] = field(default_factory=dict)
    witnesses: tuple[Filed, ...] = ()


@dataclass(frozen=True, slots=True)
class Signature:
    """One signature.

    Attributes:
        key: its key id, as it stands in the envelope.
        fingerprint: of the key that made it or is said to have, as ``ssh-keygen -l`` prints it; the key id,
            quoted, where that is no public key.
        party: whose key it is, of those trusted; None where it is nobody's.
        fault: why it does not hold, or no longer counts; empty where it does.
    """

    key: str
    fingerprint: str
    party: Party | None
    fault: str = ""

    @property
    def name(self) -> str:
        """How it is called in messages."""
        return f"{self.party.name} ({self.fingerprint})" if self.party else self.fingerprint


@dataclass(frozen=True, slots=True)
class Account:
    """What a decision's certificate is worth on one day.

    Attributes:
        certificate: the certificate; None where there is none.
        at: the day.
        signatures: all of them, in the order in which they were added.
        faults: why it does not hold, or why the decision no longer stands; empty where they do.
        withheld: why, faults aside, this is no formal certificate; empty where nothing else stands in the way.
        registry: what the given registry lists; None where none was given.
    """

    certificate: Certificate | None
    at: datetime.date
    signatures: tuple[Signature, ...]
    faults: tuple[str, ...]
    withheld: tuple[str, ...]
    registry: Listed | None

    @property
    def formal(self) -> bool:
        """Whether a formal certificate is issued."""
        return not self.faults and not self.withheld


def assess(
    certificate: Certificate | None,
    verified: Verified,
    trust: Sequence[Party] | None,
    registry: Listed | None,
    at: datetime.date,
    unread: str = "",
) -> Account:
    """Say what a certificate is worth.

    Args:
        certificate: the certificate; None to say what the registry lists about the decision alone.
        verified: the audit that it is held against.
        trust: whose keys are believed; None where nobody said.
        registry: what a registry lists about this decision; None where none was given.
        at: the day on which it has to stand.
        unread: why the certificate cannot be read, or the registry is not the one that it knows; empty otherwise.
    """
    known = (*([unread] if unread else []), *_revoked(registry))
    if certificate is None:
        return Account(None, at, (), known, ("there is no certificate",), registry)
    stated = certificate.stated
    signatures = tuple(_signatures(certificate.envelope, trust or (), registry, at))
    faults = (*_foreign(stated, verified), *_unsigned(signatures, registry), *_unlisted(stated))
    faults = tuple(dict.fromkeys((*faults, *_expired(stated, registry, at), *known)))
    withheld = (*_parties(signatures, trust, verified), *_decision(verified.decision), *_unknown(stated, registry))
    if trust is not None:
        withheld += tuple(_unvouched(stated, registry, [party for party in trust if REGISTRY in party.roles], at))
    return Account(certificate, at, signatures, faults, withheld, registry)


def hold(stated: Statement, log: Log) -> None:
    """Hold a registry against the checkpoint that a certificate of its decision carries.

    Raises:
        EvidenceError: it was cut, rewritten or forked since. Of another registry nothing is said.
    """
    if stated.registry is not None and stated.registry["origin"] == log.head.origin:
        _, point = _shown(stated.registry)
        log.verify(point)


def _signatures(
    envelope: Envelope, trust: Sequence[Party], registry: Listed | None, at: datetime.date
) -> Iterator[Signature]:
    keys = envelope.keys
    for name in envelope.signatures:
        key = keys.get(name)
        if key:
            party = holder(trust, key)
        else:
            # somebody else's software may name keys in its own way, and an id is no more than a hint
            party = next((party for party in trust if envelope.signed(name, party.key)), None)
            key = party.key if party else None
        until = party.not_after if party else None
        fault = ""
        if key is None:
            fault = "its key id is no public key, and no trusted key has made it"
        elif not envelope.signed(name, key):
            other = next((other.id for other in keys.values() if envelope.signed(name, other)), "")
            fault = (
                f"it was made with another key, {other}: signatures were swapped"
                if other
                else "it is forged, or the certificate was altered after it was signed"
            )
        elif until and (registry.signed.get(name, at) if registry else at) > until:
            fault = f"the key expired: it is trusted until {until}, and no registry was shown the signature by then"
        yield Signature(name, key.id if key else f"{name!r:.80}", party, fault)


def _foreign(stated: Statement, verified: Verified) -> Iterator[str]:
    """Whether it is of this decision and bundle, and says of them what they say."""
    if stated.decision != verified.decision_digest:
        yield f"it is of another decision ({stated.decision}), not of this one ({verified.decision_digest})"
        return
    if stated.bundle != verified.bundle_digest:
        yield f"it is of another bundle of this decision ({stated.bundle}), not of this one ({verified.bundle_digest})"
    expected = statement.facts(verified.decision)
    for name in sorted(expected.keys() | stated.facts.keys()):
        found = stated.facts.get(name)
        if name not in expected or name not in stated.facts:
            what = "something" if name in stated.facts else "nothing"
            yield f"it says {what} of {name!r:.60}, as no certificate does"
        elif canonical.encode(found) != canonical.encode(expected[name]):
            yield f"what it says of {name} is not what the decision says ({found!r:.80}, not {expected[name]!r:.80})"


def _unsigned(signatures: Sequence[Signature], registry: Listed | None) -> Iterator[str]:
    if not signatures:
        yield "it carries no signature: it was stripped of them, or never signed"
    for one in signatures:
        if one.fault:
            yield f"the signature of {one.name}: {one.fault}"
    present = {one.key for one in signatures}
    for key, day in registry.shown.items() if registry else ():
        if key not in present:
            yield f"a signature was stripped: the registry was shown that of {key} on {day}"


def _expired(stated: Statement, registry: Listed | None, at: datetime.date) -> Iterator[str]:
    last = stated.expiry.date
    if last and at > last:
        yield f"it expired: it stands until {last}, and this is {at}"
    for family in stated.expiry.newer if registry else ():
        day = registry.newer.get(family) if registry else None
        if day and day <= at:
            yield f"it expired: a newer model of {family} is listed since {day}"


def _revoked(registry: Listed | None) -> Iterator[str]:
    """A revocation counts whatever day is asked for."""
    for entry in registry.revocations if registry else ():
        where = f"entry {entry.entry} of the registry {registry.origin}" if registry else ""
        why = f"{entry.reason}: {entry.text}" if entry.text else entry.reason
        yield f"the {entry.of} was revoked on {entry.date} ({where}): {why}"


def _parties(signatures: Sequence[Signature], trust: Sequence[Party] | None, verified: Verified) -> Iterator[str]:
    """Whether an auditor and a registry have signed, two parties of which neither is the claimant."""
    if trust is None:
        yield "nobody is trusted: no trust file was given"
        return
    claimants = {party.name for party in trust if CLAIMANT in party.roles} | {verified.decision["roles"]["claimant"]}
    counting = [one.party for one in signatures if one.party and not one.fault]
    found = {}
    for role in (AUDITOR, REGISTRY):
        names = {party.name for party in counting if role in party.roles}
        yield from (f"{name} has signed as {role}, but is the claimant" for name in sorted(names & claimants))
        found[role] = names - claimants
        if not found[role]:
            yield f"no trusted {role} has signed it"
    if all(found.values()) and len(found[AUDITOR] | found[REGISTRY]) == 1:
        yield f"auditor and registry are one party, {found[AUDITOR].pop()}"


def _decision(decision: Mapping[str, Any]) -> Iterator[str]:
    if decision["core"]["status"] != CERTIFIED:
        yield f"Core is {decision['core']['status']}, not {CERTIFIED}"
    if decision["core"]["exploratory"]:
        yield "Core is exploratory: it was decided under an amended registration"
    if decision["roles"]["self_audited"]:
        yield "the claimant has audited itself (self_audited)"
    if decision["registration"]["public_demonstration"]:
        yield "the nonce was public from the start: a demonstration, in which nothing was sealed"


def _unknown(stated: Statement, registry: Listed | None) -> Iterator[str]:
    """What only a registry could tell that was not given."""
    named = stated.registry["origin"] if stated.registry else ""
    if named and (registry is None or registry.origin != named):
        yield f"it names the registry {named}, which was not given: whether it was revoked is not known"
    if stated.expiry.newer and registry is None:
        yield f"no registry was given: whether a newer model of {', '.join(stated.expiry.newer)} is listed is not known"


def _unlisted(stated: Statement) -> Iterator[str]:
    """Whether the registry's entry that it holds is of this decision, and is shown to be in the registry."""
    if stated.registry is None:
        return
    try:
        entry, point = _shown(stated.registry)
    except EvidenceError as error:
        yield error.problem
        return
    if (entry.number, point.origin) != (stated.registry["entry"], stated.registry["origin"]):
        yield f"its proof is of entry {entry.number} of the registry {point.origin}, not of the one that it names"
    if entry.kind != kinds.DECIDED or entry.body["decision"] != stated.decision:
        yield f"entry {entry.number} of the registry {point.origin}, which it names, is not of this decision"


def _shown(registry: Mapping[str, Any]) -> tuple[Entry, Checkpoint]:
    """Entry and checkpoint of a proof; whoever has signed the checkpoint, what it shows has to hold."""
    proof, where = registry["proof"], "its proof of the registry's entry"
    point = Checkpoint.parse(str(proof["checkpoint"]).encode("utf-8", "surrogatepass"), where)
    return verify_proof(proof, point.envelope.keys.values(), where)


def _unvouched(
    stated: Statement, registry: Listed | None, trusted: Sequence[Party], at: datetime.date
) -> Iterator[str]:
    """Whether a trusted registry has signed what is said to be the registry's, and the state given with a key that is
    still trusted; that in the certificate is older."""
    if stated.registry is not None:
        with suppress(EvidenceError):
            _, point = _shown(stated.registry)
            if not point.signers(party.key for party in trusted):
                yield f"no trusted registry has signed the checkpoint of {point.origin} that it holds"
    current = {party.key for party in trusted if party.not_after is None or at <= party.not_after}
    if registry and not current & set(registry.signers):
        yield f"no trusted registry has signed the last checkpoint of {registry.origin} that was given"
