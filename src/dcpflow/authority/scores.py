"""The signature by which an auditor returns scores: over the decision, and the scores and records that it rests on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from dcpflow.authority.envelope import Envelope
from dcpflow.errors import EvidenceError
from dcpflow.records import canonical

if TYPE_CHECKING:
    from dcpflow.authority.keys import PublicKey, Signer

FILE: Final = "scores.dsse.json"
PAYLOAD_TYPE: Final = "application/vnd.dcpflow.scores+json"
SCHEMA: Final = "dcpflow.signed-scores/1"


def signed(decision: bytes, signer: Signer) -> bytes:
    """The envelope's file.

    Args:
        decision: the bytes of ``decision.json``.
        signer: the auditor's key.
    """
    return Envelope(PAYLOAD_TYPE, _statement(decision), {}).signed_by(signer).to_bytes()


def signers(data: bytes, where: str, decision: bytes, keys: Iterable[PublicKey]) -> list[PublicKey]:
    """Those of the keys that have signed the scores of a decision.

    Args:
        data: the envelope's file.
        where: its name, for the error.
        decision: the bytes of ``decision.json``, which was verified.
        keys: whom to look for.

    Raises:
        EvidenceError: it is no such envelope, or of another decision.
    """
    envelope = Envelope.parse(data, where, PAYLOAD_TYPE)
    if envelope.payload != _statement(decision):
        raise EvidenceError(f"{where} signs other scores than those that the decision rests on")
    return envelope.signers(keys)


def _statement(decision: bytes) -> bytes:
    document = canonical.decode(decision, "decision.json")
    statement = {
        "schema": SCHEMA,
        "contract": document["registration"]["contract"],
        "registration": document["registration"]["digest"],
        "records": document["rests_on"]["episodes"],
        "scores": document["rests_on"]["scores"],
        "decision": canonical.digest(decision),
    }
    return canonical.encode(statement)
