"""Signs certificates of verified audits, adds signatures to them, and says what one is worth."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dcpflow.authority import certificate, kinds, statement
from dcpflow.authority.certificate import Account, Certificate, Verified
from dcpflow.authority.envelope import Envelope
from dcpflow.authority.keys import Signer
from dcpflow.authority.listing import listed
from dcpflow.authority.log import Log
from dcpflow.authority.statement import Expiry, Statement
from dcpflow.authority.trust import Party
from dcpflow.bundles import export
from dcpflow.bundles.kinds import certificate_of
from dcpflow.bundles.verify import Verification, verify
from dcpflow.errors import EvidenceError, UsageError
from dcpflow.records import canonical, files, history
from dcpflow.records.draws import Nonce
from dcpflow.stages.registry import open_folder, open_place
from dcpflow.stages.registry_proof import with_registry
from dcpflow.stages.verify import with_task


def certify(
    audit: Verification, signer: Signer, expiry: Expiry, registry: str | None = None, out: Path | None = None
) -> tuple[Path, Certificate]:
    """Make the certificate of a verified audit, sign it and write it.

    Args:
        audit: as :func:`examined` gave it.
        signer: whose certificate it is, see :func:`dcpflow.stages.private_keys.read_key`.
        expiry: when it ceases to stand.
        registry: folder or address of the registry that lists the decision; None where none does.
        out: the file to write; by default beside what was verified.

    Raises:
        UsageError: there is a certificate already, it would have expired by now, this is no audit of dcpflow, or the
            registry does not list the decision. Nothing is written.
    """
    path = Path(audit.path)
    if expiry.date and expiry.date < today():
        raise UsageError(f"the certificate would have expired on {expiry.date} already", "Give a later date")
    words, is_text = kinds.TEXT
    if not all(map(is_text, expiry.newer)):
        raise UsageError(f"a model family must be {words}, is {expiry.newer!r:.60}", "Give another")
    out = out or certificate_of(path, audit.kind)
    if out.exists():
        raise UsageError(
            f"there is a certificate already: {out}",
            f"To add a signature to it: dcpflow countersign '{out}' '{path}' --key FILE; to make another, remove it",
        )
    about = verified(audit)
    stated = Statement(
        decision=about.decision_digest,
        bundle=about.bundle_digest,
        facts=statement.facts(about.decision),
        expiry=expiry,
        registry=_shown(open_place(registry), about) if registry else None,
        version=version("dcpflow"),
    )
    signed = Envelope(statement.PAYLOAD_TYPE, stated.to_bytes(), {}).signed_by(signer)
    with files.writing_to(out):
        files.write_atomic(out, signed.to_bytes())
    return out, Certificate(signed, stated)


def _shown(log: Log, about: Verified) -> dict[str, Any]:
    """Where the registry lists the decision, with the proof."""
    for entry in reversed(log.entries):
        if entry.kind == kinds.DECIDED and entry.body["decision"] == about.decision_digest:
            return {"origin": log.head.origin, "entry": entry.number, "proof": log.prove(entry.number)}
    raise UsageError(
        f"the registry {log.head.origin} does not list the decision {about.decision_digest}",
        "Have it registered as decided first, or leave --registry out",
    )


def countersign(audit: Verification, given: Path, signer: Signer, registry: str | None = None) -> Certificate:
    """Add a signature to the certificate of a verified audit.

    Args:
        audit: as :func:`examined` gave it: what the certificate has to be of.
        given: the certificate.
        signer: who signs it.
        registry: folder of the registry, which then lists the certificate with all its signatures; None for no entry.

    Raises:
        UsageError: this is no audit of dcpflow, or nothing can be added to the registry. Nothing is signed.
        EvidenceError: the certificate does not hold. Nothing is signed.
    """
    log = open_folder(registry) if registry else None
    account = account_of(audit, given, log=log)
    if account.faults or account.certificate is None:
        raise EvidenceError(f"{given} is not signed, since it does not hold: {'; '.join(account.faults)}")
    read = account.certificate
    signed = Certificate(read.envelope.signed_by(signer), read.stated)
    body = {
        "certificate": signed.digest,
        "decision": signed.stated.decision,
        "registration": signed.stated.facts["registration"],
        "keys": list(signed.envelope.signatures),
    }
    if log:
        kinds.check(kinds.CERTIFIED, body, f"what the registry {log.head.origin!r} would list")
    files.write_atomic(given, signed.envelope.to_bytes())
    if log:
        log.append(kinds.CERTIFIED, body, unless=lambda entries: any(entry.body == body for entry in entries))
    return signed


def account_of(
    audit: Verification,
    given: Path | None = None,
    parties: Sequence[Party] | None = None,
    log: Log | None = None,
    at: datetime.date | None = None,
) -> Account:
    """What the certificate of a verified audit is worth.

    Args:
        audit: what was verified.
        given: the certificate; by default the one beside it, if there is one.
        parties: whose keys are believed; None where nobody said.
        log: a registry that may list it; None where none was given.
        at: the day on which it has to stand; by default today.

    Raises:
        UsageError: this is no audit of dcpflow.
    """
    about, unread, read = verified(audit), "", None
    place = given or certificate_of(Path(audit.path), audit.kind)
    try:
        read = read_certificate(place) if given or place.exists() else None
        if read and log:
            certificate.hold(read.stated, log)
    except EvidenceError as error:
        unread = error.problem
    found = listed(log, about, read) if log else None
    return certificate.assess(read, about, parties, found, at or today(), unread)


def examined(
    path: Path,
    nonce_file: Path | None,
    data_file: Path | None = None,
    registry: str | None = None,
    *,
    replay: bool = True,
) -> Verification:
    """An audit that verifies.

    Args:
        path: a results folder or a bundle.
        nonce_file: the nonce; None where it is not known.
        data_file: the task's data set, where it is not the downloaded one.
        registry: folder or address of the registry that it is held against; None for none.
        replay: whether to replay all conversations and to score again too, where the nonce is known.

    Raises:
        UsageError: there is nothing that can be verified, or no registry.
        EvidenceError: it does not verify, or the registry says something else of it.
    """
    found = verify(path, Nonce.read(nonce_file) if nonce_file else None)
    if nonce_file and replay:
        found = with_task(found, nonce_file, data_file)
    if registry:
        found = with_registry(found, registry)
    if not found.ok:
        raise EvidenceError(f"nothing is done with what does not verify: {found.error}")
    return found


def verified(audit: Verification) -> Verified:
    """What of a verified audit a certificate is held against.

    Raises:
        UsageError: it is none of ours.
    """
    if audit.replayed is None:
        raise UsageError(
            f"{audit.path} is of another kind ({audit.kind.value}), whose integrity is self-attested",
            "A certificate is of an audit of dcpflow: a results folder, or its bundle",
        )
    decided, layout = audit.replayed.decided, audit.replayed.source.layout
    return Verified(
        decision=decided.document,
        decision_digest=canonical.digest(decided.to_bytes()),
        bundle_digest=canonical.digest(export.sealed(audit.replayed)),
        registrations={entry.registration for entry in history.entries(layout)},
    )


def read_certificate(path: Path) -> Certificate:
    """The certificate in a file.

    Raises:
        EvidenceError: it cannot be read, or is none.
    """
    if path.exists() and not path.is_file():
        raise EvidenceError(f"the certificate {path} is no file")
    if path.exists() and path.stat().st_size > certificate.LARGEST:
        raise EvidenceError(f"{path} is too large for a certificate")
    return Certificate.parse(files.read(path, "the certificate"), str(path))


def today() -> datetime.date:
    """The day, UTC."""
    return datetime.datetime.now(datetime.UTC).date()
