"""The in-toto statement of a certificate: which decision it is about, what that says, and how long it stands.

The form is Statement v1 (https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md) with a predicate of
our own, which docs/certificates.md documents field by field. What the predicate says of the decision follows from the
decision alone (:func:`facts`), so that a reader holds the one against the other.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from dcpflow.errors import EvidenceError
from dcpflow.records import canonical

TYPE: Final = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE: Final = "urn:dcpflow:certificate:1"
PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
DECISION: Final = "decision.json"
BUNDLE: Final = "bundle"
VERDICTS: Final = ("core", "evidence")
TERMS: Final = frozenset({"expires", "registry", "dcpflow"})
"""Fields of the predicate that its first signer sets. All others follow from the decision."""
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_HEX: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Expiry:
    """When a certificate ceases to stand.

    Attributes:
        date: the last day on which it stands; None where no day ends it.
        newer: model families. Once the registry lists a newer model of one of them, it stands no longer.
    """

    date: datetime.date | None = None
    newer: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Statement:
    """What is signed.

    Attributes:
        decision: digest of the bytes of ``decision.json``.
        bundle: digest of the bytes of the audit's bundle, without what is revealed later.
        facts: what it says of the decision, see :func:`facts`.
        expiry: when it ceases to stand.
        registry: where the decision stands in a registry: ``origin``, ``entry`` (its number) and ``proof``, as
            :meth:`dcpflow.authority.log.Log.prove` gives it, with a checkpoint; None where it stands in none.
        version: of dcpflow, of the one who made it.
    """

    decision: str
    bundle: str
    facts: Mapping[str, Any]
    expiry: Expiry
    registry: Mapping[str, Any] | None
    version: str

    def to_bytes(self) -> bytes:
        """The payload of the envelope: canonical JSON."""
        return canonical.encode(
            {
                "_type": TYPE,
                "subject": [_subject(DECISION, self.decision), _subject(BUNDLE, self.bundle)],
                "predicateType": PREDICATE_TYPE,
                "predicate": {
                    **self.facts,
                    "expires": {
                        "date": self.expiry.date.isoformat() if self.expiry.date else None,
                        "newer_models": list(self.expiry.newer),
                    },
                    "registry": self.registry,
                    "dcpflow": self.version,
                },
            }
        )

    @classmethod
    def parse(cls, payload: bytes, where: str) -> Statement:
        """Read a payload strictly; that the facts are the decision's is for whoever has the decision to say.

        Args:
            payload: the bytes.
            where: the file that they come from, for the error.

        Raises:
            EvidenceError: it is another statement than a certificate of this version, or not in its form.
        """
        value = canonical.decode(payload, where)
        if not isinstance(value, dict) or value.get("_type") != TYPE:
            raise EvidenceError(f"{where}: not an in-toto statement ({TYPE})")
        if value.get("predicateType") != PREDICATE_TYPE:
            raise EvidenceError(f"{where}: expected {PREDICATE_TYPE}, found {value.get('predicateType')!r:.80}")
        try:
            found = cls._of(value)
            if found.to_bytes() != payload:
                raise EvidenceError(f"{where}: the statement is not in the form in which dcpflow writes it")
        except (KeyError, TypeError, ValueError) as error:
            raise EvidenceError(f"{where}: not a certificate as documented ({error})") from None
        return found

    @classmethod
    def _of(cls, value: Mapping[str, Any]) -> Statement:
        """The statement of a JSON object. Whatever is not read here, or in another place, changes its bytes."""
        predicate = value["predicate"]
        subjects = {entry["name"]: entry["digest"]["sha256"] for entry in value["subject"]}
        for digest in subjects.values():
            if not isinstance(digest, str) or not _HEX.fullmatch(digest):
                raise ValueError(f"a subject's sha256 is {digest!r:.80}")
        if not isinstance(predicate["claim"]["id"], str) or not isinstance(predicate["dcpflow"], str):
            raise TypeError("claim.id and dcpflow must be text")
        facts = {name: content for name, content in predicate.items() if name not in TERMS}
        expires, registry = predicate["expires"], predicate["registry"]
        newer = tuple(expires["newer_models"])
        if not all(isinstance(family, str) for family in newer):
            raise TypeError("expires.newer_models must be a list of text")
        if registry is not None:
            _check_listing(registry)
        return cls(
            decision=f"sha256:{subjects[DECISION]}",
            bundle=f"sha256:{subjects[BUNDLE]}",
            facts=facts,
            expiry=Expiry(None if expires["date"] is None else day(expires["date"]), newer),
            registry=registry,
            version=predicate["dcpflow"],
        )


def facts(decision: Mapping[str, Any]) -> dict[str, Any]:
    """What a certificate says of a decision.

    Args:
        decision: the content of ``decision.json``.
    """
    gate2 = decision["gate2"]
    return {
        "claim": decision["claim"],
        "contract": decision["registration"]["contract"],
        "registration": decision["registration"]["digest"],
        "amended": bool(decision["registration"]["amendments"]),
        "demonstration": bool(decision["registration"]["public_demonstration"]),
        **{name: {key: decision[name][key] for key in ("status", "class", "exploratory")} for name in VERDICTS},
        "recovery": {"upper_bound": gate2["recovery_upper_bound"], "challengers": gate2["challengers"]["independent"]},
        "scope": decision["scope"],
        "roles": decision["roles"],
    }


def _check_listing(registry: Any) -> None:
    if not isinstance(registry, dict) or registry.keys() != {"origin", "entry", "proof"}:
        raise TypeError("registry must be null, or have origin, entry and proof")
    proof = registry["proof"]
    if not isinstance(registry["origin"], str) or type(registry["entry"]) is not int or not isinstance(proof, dict):
        raise TypeError("registry.origin must be text, entry a number and proof an object")
    if not isinstance(proof.get("checkpoint"), str):
        raise TypeError("registry.proof.checkpoint must be text")


def day(text: object) -> datetime.date:
    """A date as it stands in a certificate.

    Raises:
        ValueError: it is none, or in another form than ``2031-12-31``.
    """
    if not isinstance(text, str) or not _DATE.fullmatch(text):
        raise ValueError(f"{text!r:.40} is no date such as 2031-12-31")
    return datetime.date.fromisoformat(text)


def _subject(name: str, digest: str) -> dict[str, Any]:
    return {"name": name, "digest": {"sha256": digest.removeprefix("sha256:")}}
