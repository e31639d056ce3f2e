"""Signs certificates of verified audits, adds signatures to them, and says what one is worth."""

from __future__ import annotations

import datetime
import getpass
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final

from dcpflow.authority import certificate, statement, trust
from dcpflow.authority.certificate import Account, Certificate, Listed, Verified
from dcpflow.authority.envelope import Envelope
from dcpflow.authority.keys import KeyIsEncrypted, PublicKey, Signer
from dcpflow.authority.statement import Expiry, Statement
from dcpflow.bundles import export
from dcpflow.bundles.kinds import Kind
from dcpflow.bundles.verify import Verification, verify
from dcpflow.errors import EvidenceError, UsageError
from dcpflow.records import canonical, files
from dcpflow.records.draws import Nonce
from dcpflow.stages.verify import with_task

NAME: Final = "certificate.dsse.json"
SUFFIX: Final = ".dsse.json"
"""Beside a bundle, its certificate has its name and this."""


def certify(
    path: Path,
    key: Path,
    expiry: Expiry,
    out: Path | None = None,
    nonce_file: Path | None = None,
    data_file: Path | None = None,
) -> tuple[Path, Certificate]:
    """Verify an audit, make its certificate, sign it and write it.

    Args:
        path: a results folder or a bundle.
        key: the private key.
        expiry: when it ceases to stand.
        out: the file to write; by default beside what was verified.
        nonce_file: the nonce, to replay all conversations and score again before signing.
        data_file: the task's data set, likewise, where it is not the downloaded one.

    Raises:
        UsageError: the key must not be used, there is a certificate already, it would have expired by now, or this is
            no audit of dcpflow.
        EvidenceError: the audit does not verify. Nothing is signed.
    """
    if expiry.date and expiry.date < today():
        raise UsageError(f"the certificate would have expired on {expiry.date} already", "Give a later date")
    signer = read_key(key, path)
    audit = examined(path, nonce_file, data_file)
    out = out or beside(path, audit.kind)
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
        registry=None,
        version=version("dcpflow"),
    )
    signed = Envelope(statement.PAYLOAD_TYPE, stated.to_bytes(), {}).signed_by(signer)
    files.write_atomic(out, signed.to_bytes())
    return out, Certificate(signed, stated)


def countersign(
    given: Path, path: Path, key: Path, nonce_file: Path | None = None, data_file: Path | None = None
) -> Certificate:
    """Verify an audit and its certificate, and add a signature to the certificate.

    Args:
        given: the certificate.
        path: the results folder or bundle that it has to be of.
        key: the private key.
        nonce_file: as for :func:`certify`.
        data_file: likewise.

    Raises:
        UsageError: the key must not be used, or this is no audit of dcpflow.
        EvidenceError: the audit does not verify, or the certificate does not hold. Nothing is signed.
    """
    signer = read_key(key, path)
    read = read_certificate(given)
    account = certificate.assess(read, verified(examined(path, nonce_file, data_file)), None, None, today())
    if account.faults:
        raise EvidenceError(f"{given} is not signed, since it does not hold: {'; '.join(account.faults)}")
    signed = Certificate(read.envelope.signed_by(signer), read.stated)
    files.write_atomic(given, signed.envelope.to_bytes())
    return signed


def account_of(
    audit: Verification,
    given: Path | None = None,
    parties: Sequence[trust.Party] | None = None,
    registry: Listed | None = None,
    at: datetime.date | None = None,
) -> Account | None:
    """What the certificate of a verified audit is worth.

    Args:
        audit: what was verified.
        given: the certificate; by default the one beside it, if there is one.
        parties: whose keys are believed; None where nobody said.
        registry: what a registry lists about it; None where none was given.
        at: the day on which it has to stand; by default today.

    Returns:
        None where there is neither a certificate nor a registry.

    Raises:
        UsageError: a certificate was given of what is no audit of dcpflow.
        EvidenceError: the certificate cannot be read, or is none.
    """
    place = given or beside(Path(audit.path), audit.kind)
    read = read_certificate(place) if given or place.exists() else None
    if read is None and registry is None:
        return None
    return certificate.assess(read, verified(audit), parties, registry, at or today())


def examined(path: Path, nonce_file: Path | None, data_file: Path | None) -> Verification:
    """An audit of ours that verifies.

    Raises:
        UsageError: it is none of ours.
        EvidenceError: it does not verify.
    """
    found = verify(path, Nonce.read(nonce_file) if nonce_file else None)
    if nonce_file:
        found = with_task(found, nonce_file, data_file)
    if not found.ok:
        raise EvidenceError(f"nothing is signed, since this does not verify: {found.error}")
    return found


def verified(audit: Verification) -> Verified:
    """What of a verified audit a certificate is held against.

    Raises:
        UsageError: it is none of ours.
    """
    if audit.replayed is None:
        raise UsageError(
            f"{audit.path} is a {audit.kind.value}: its integrity is self-attested",
            "A certificate is of an audit of dcpflow: a results folder, or its bundle",
        )
    decided = audit.replayed.decided
    return Verified(
        decision=decided.document,
        decision_digest=canonical.digest(decided.to_bytes()),
        bundle_digest=canonical.digest(export.sealed(audit.replayed)),
    )


def beside(path: Path, kind: Kind) -> Path:
    """Where the certificate of a results folder or of a bundle lies."""
    return path.with_name(path.name + SUFFIX) if kind is Kind.BUNDLE else path / NAME


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


def new_key(path: Path) -> PublicKey:
    """Make a key pair, outside of any results folder; returns the public key.

    Raises:
        UsageError: the file exists, or would lie in a results folder.
    """
    _require_outside(path)
    return Signer.new(path).public


def read_key(path: Path, results: Path) -> Signer:
    """A private key that may be used; its passphrase, if it has one, is asked for on the terminal.

    Args:
        path: the file.
        results: what is to be signed, where the key must not lie.

    Raises:
        UsageError: it lies in a results folder, others can read it, or it cannot be read.
    """
    _require_outside(path, results)
    try:
        return Signer.read(path)
    except KeyIsEncrypted as error:
        if not sys.stdin.isatty():
            raise UsageError(
                error.problem, "There is no terminal to ask for its passphrase: run this on one, or use another key"
            ) from None
        return Signer.read(path, getpass.getpass(f"Passphrase of {path}: ").encode())


def _require_outside(path: Path, *results: Path) -> None:
    """Refuse a key in a folder that is handed to others, bundled or published."""
    within = [folder.resolve() for folder in results if folder.is_dir()]
    for folder in (*path.absolute().parents, *path.resolve().parents):
        if folder.resolve() in within or (folder / "decision.json").exists() or (folder / "registration").is_dir():
            raise UsageError(f"the key {path} lies in the results folder {folder}", "Keep keys outside of results")


def today() -> datetime.date:
    """The day, UTC."""
    return datetime.datetime.now(datetime.UTC).date()
