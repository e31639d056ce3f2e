"""DSSE envelopes: bytes of a named type, and who has signed them (https://github.com/secure-systems-lab/dsse, v1.0)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from dcpflow.authority.keys import PublicKey, Signer
from dcpflow.errors import EvidenceError, UsageError
from dcpflow.records import canonical

MOST_SIGNATURES = 64


@dataclass(frozen=True, slots=True)
class Envelope:
    """A signed payload.

    Attributes:
        payload_type: media type that says how the payload is to be read; it is signed too.
        payload: the bytes.
        signatures: signature by key id, in the order in which they were added. Ours is the public key itself, in one
            line: so a signature can be checked, and be told from a forged one, before its key is known or trusted. As
            the specification has it, the id is a hint that nothing vouches for.
    """

    payload_type: str
    payload: bytes
    signatures: dict[str, bytes]

    @classmethod
    def parse(cls, data: bytes, where: str, payload_type: str) -> Envelope:
        """Read an envelope strictly. That its signatures hold is :meth:`signers`'s to say.

        Args:
            data: its JSON.
            where: the file that it comes from, for the error.
            payload_type: what it has to hold; another type is another kind of statement, whoever signed it.

        Raises:
            EvidenceError: it is no such envelope.
        """
        value = canonical.decode(data, where)
        if not isinstance(value, dict) or value.keys() != {"payload", "payloadType", "signatures"}:
            raise EvidenceError(f"{where}: not a DSSE envelope (expected payload, payloadType and signatures)")
        if value["payloadType"] != payload_type:
            raise EvidenceError(f"{where}: expected the type {payload_type}, found {value['payloadType']!r:.80}")
        if not isinstance(value["signatures"], list) or len(value["signatures"]) > MOST_SIGNATURES:
            raise EvidenceError(f"{where}: signatures must be a list of at most {MOST_SIGNATURES}")
        signatures: dict[str, bytes] = {}
        for entry in value["signatures"]:
            if not isinstance(entry, dict) or entry.keys() != {"keyid", "sig"} or not isinstance(entry["keyid"], str):
                raise EvidenceError(f"{where}: a signature must have keyid and sig, and nothing else")
            if entry["keyid"] in signatures:
                raise EvidenceError(f"{where}: the key {entry['keyid']!r:.60} stands twice among the signatures")
            signatures[entry["keyid"]] = _decoded(entry["sig"], where)
        return cls(payload_type, _decoded(value["payload"], where), signatures)

    def to_bytes(self) -> bytes:
        """The JSON that files hold."""
        signatures = [{"keyid": key, "sig": _encoded(signature)} for key, signature in self.signatures.items()]
        body: dict[str, Any] = {"payload": _encoded(self.payload), "payloadType": self.payload_type}
        return canonical.encode({**body, "signatures": signatures}) + b"\n"

    def signed_by(self, signer: Signer) -> Envelope:
        """The same with one more signature, or with this key's made anew."""
        signature = signer.sign(pre_authentication(self.payload_type, self.payload))
        return Envelope(self.payload_type, self.payload, {**self.signatures, signer.public.line: signature})

    @property
    def keys(self) -> dict[str, PublicKey]:
        """The public keys among the key ids, by id; that they have signed is :meth:`signed`'s to say."""
        found = {}
        for name in self.signatures:
            with suppress(UsageError):
                found[name] = PublicKey.parse(name, "the key id")
        return found

    def signed(self, name: str, key: PublicKey) -> bool:
        """Whether the signature that stands under a key id is this key's."""
        return key.signed(pre_authentication(self.payload_type, self.payload), self.signatures.get(name, b""))

    def signers(self, keys: Iterable[PublicKey]) -> list[PublicKey]:
        """Those of the keys that have signed it, each under its own id."""
        return [key for key in keys if self.signed(key.line, key)]


def pre_authentication(payload_type: str, payload: bytes) -> bytes:
    """What is signed: type and payload, each with its length before it (DSSE v1.0, PAE)."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decoded(text: object, where: str) -> bytes:
    try:
        if not isinstance(text, str):
            raise ValueError
        # the specification lets writers choose either alphabet
        return base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
    except (ValueError, binascii.Error):
        raise EvidenceError(f"{where}: not base64: {text!r:.40}") from None
