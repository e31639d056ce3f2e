"""What a registry's entries say: a kind, and of each kind the fields that its body has, each of its form."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from dcpflow.errors import EvidenceError
from dcpflow.records import canonical

REGISTERED, STARTED, AMENDED, DECIDED = "registered", "started", "amended", "decided"
CERTIFIED, REVOKED, WITNESS, NEWER_MODEL = "certified", "revoked", "witness", "newer_model"
TARGET_RUN, AUDIT = "target_run", "audit"
"""What is started: a target run with the audit of its claim, or the audit of a result that is there already."""
REASONS: Final = ("verifier_flaw", "leaked_seal", "later_witness", "other")
"""Why something is revoked."""
CERTIFICATE, DECISION = SUBJECTS = ("certificate", "decision")
"""What can be revoked, named by its digest."""
LONGEST: Final = 4_000
"""Characters of one text."""
MOST_NAMES: Final = 1_000
ALL_NAMES: Final = 65_536
"""Characters of all names of one list."""

_BREAK: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")

Form = tuple[str, Callable[[Any], bool]]


def _is_text(value: object, least: int = 1) -> bool:
    return isinstance(value, str) and least <= len(value) <= LONGEST and not _BREAK.search(value)


def _word(*allowed: str) -> Form:
    return " or ".join(allowed), lambda value: isinstance(value, str) and value in allowed


TEXT: Final[Form] = (f"one line of at most {LONGEST} characters", _is_text)
REMARK: Final[Form] = (f"one line of at most {LONGEST} characters, or empty", lambda value: _is_text(value, least=0))
DIGEST: Final[Form] = ("a digest (sha256: and 64 hex digits)", canonical.is_digest)
TOKEN: Final[Form] = ("32 hex digits", lambda value: canonical.is_digest(f"sha256:{value}{value}"))
SHARE: Final[Form] = ("a number above 0 up to 1", lambda value: type(value) in {int, float} and 0 < value <= 1)
COUNT: Final[Form] = ("a whole number from 0", lambda value: type(value) is int and value >= 0)
NAMES: Final[Form] = (
    f"a list of at most {MOST_NAMES} names with {ALL_NAMES} characters",
    lambda value: (
        isinstance(value, list)
        and len(value) <= MOST_NAMES
        and all(map(_is_text, value))
        and sum(map(len, value)) <= ALL_NAMES
    ),
)
ROLES: Final[Form] = (
    "claimant, auditor and registry as text, and self_audited",
    lambda value: (
        isinstance(value, dict)
        and value.keys() == {"claimant", "auditor", "registry", "self_audited"}
        and type(value["self_audited"]) is bool
        and all(_is_text(text) for name, text in value.items() if name != "self_audited")
    ),
)

_SLOT: Final[Mapping[str, Form]] = {"claim": TEXT, "family": TEXT, "slot": TEXT}
KINDS: Final[Mapping[str, Mapping[str, Form]]] = {
    # a slot of a family is reserved for a registration R under a contract C, and what it may spend
    REGISTERED: {
        **_SLOT,
        "alpha": SHARE,
        "family_alpha": SHARE,
        "contract": DIGEST,
        "registration": DIGEST,
        "roles": ROLES,
        "mode": TEXT,
    },
    # in the results folder of this token, in which so many episodes had been started by then
    STARTED: {
        **_SLOT,
        "what": _word(TARGET_RUN, AUDIT),
        "contract": DIGEST,
        "registration": DIGEST,
        "run": TOKEN,
        "episodes": COUNT,
    },
    AMENDED: {**_SLOT, "run": TOKEN, "old": DIGEST, "new": DIGEST, "keys": NAMES},
    DECIDED: {**_SLOT, "run": TOKEN, "registration": DIGEST, "decision": DIGEST, "core": TEXT, "evidence": TEXT},
    # a certificate of a decision, by the digest of what is signed, and the ids of the keys that had signed it
    CERTIFIED: {"certificate": DIGEST, "decision": DIGEST, "registration": DIGEST, "keys": NAMES},
    REVOKED: {"of": _word(*SUBJECTS), "digest": DIGEST, "reason": _word(*REASONS), "text": REMARK},
    # a recovery without feedback that was found later, of the claim under this registration
    WITNESS: {"registration": DIGEST, "record": DIGEST, "text": REMARK},
    # a model of a family has come out: certificates that stand until then expire
    NEWER_MODEL: {"family": TEXT, "model": TEXT},
}
"""By kind, the fields of a body: all of them, and no other."""


def shortened(names: Sequence[str]) -> list[str]:
    """As many of the names as a body can hold, each cut to what it can, and how many more there are."""
    found: list[str] = []
    for name in names:
        cut = name[:LONGEST]
        if len(found) + 1 == MOST_NAMES or sum(map(len, found)) + len(cut) + LONGEST > ALL_NAMES:
            return [*found, f"and {len(names) - len(found)} more"]
        found.append(cut)
    return found


def check(kind: object, body: object, where: str) -> dict[str, Any]:
    """The body of an entry, held against its kind.

    Args:
        kind: as it was read.
        body: likewise.
        where: what it was read from, for the error.

    Raises:
        EvidenceError: there is no such kind, or it has other fields.
    """
    if not isinstance(kind, str) or kind not in KINDS:
        raise EvidenceError(f"{where}: {kind!r:.40} is no kind of entry (expected {', '.join(KINDS)})")
    fields = KINDS[kind]
    if not isinstance(body, dict) or body.keys() != fields.keys():
        raise EvidenceError(f"{where}: an entry of kind {kind} has {', '.join(fields)}, and nothing else")
    for name, (words, holds) in fields.items():
        if not holds(body[name]):
            raise EvidenceError(f"{where}: {name} must be {words}, not {body[name]!r:.60}")
    return body
