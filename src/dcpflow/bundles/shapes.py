"""The form of every file that an audit consists of: named fields, each of its type, nothing else.

Readers of the library trust the form of files that carry the right digest. Somebody else's files can carry a right
digest and any form, so they are held against these shapes first; a refusal names file, place and rule.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from dcpflow.bundles.dcp_audit.errors import BundleError
from dcpflow.protocol.registration import MAX_INTEGER
from dcpflow.records import canonical, plan, scores
from dcpflow.records.registration import CONTRACT_PARTS, PLAN_PARTS


class Mismatch(Exception):
    """A value that does not have its shape.

    Attributes:
        rule: ``type``, ``missing_field`` or ``unknown_field``.
        detail: what was found, and what was expected.
        place: where, from the outside in.
    """

    def __init__(self, rule: str, detail: str) -> None:
        super().__init__(rule, detail)
        self.rule = rule
        self.detail = detail
        self.place: list[str] = []


Shape = Callable[[Any], None]
"""Raises Mismatch for a value that does not have the shape."""


def hold(shape: Shape, value: Any, file: str, place: str = "") -> None:
    """Hold a value against a shape.

    Args:
        shape: the shape.
        value: a JSON value.
        file: where it stands, for the error.
        place: where in the file, likewise.

    Raises:
        BundleError: the value has another shape.
    """
    try:
        shape(value)
    except Mismatch as odd:
        where = "".join([place, *odd.place]).removeprefix(".")
        raise BundleError(file, where, odd.rule, odd.detail) from None


def _kind(name: str, test: Callable[[Any], bool]) -> Shape:
    def check(value: Any) -> None:
        if not test(value):
            raise Mismatch("type", f"must be {name}, is {_shown(value)}")

    return check


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = repr(value)
    return text if len(text) <= 40 else text[:39] + "\N{HORIZONTAL ELLIPSIS}"


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MAX_INTEGER


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


ANY: Final = _kind("anything", lambda _: True)
TEXT: Final = _kind("a string", lambda value: type(value) is str)
FLAG: Final = _kind("true or false", lambda value: type(value) is bool)
COUNT: Final = _kind("an integer from 0", _is_count)
POSITION: Final = _kind("an integer from 1", lambda value: _is_count(value) and value > 0)
NUMBER: Final = _kind("a finite number", _is_number)
DIGEST: Final = _kind("a digest (sha256: and 64 hex digits)", canonical.is_digest)
SEAL: Final = _kind("a digest, or empty", lambda value: value == "" or canonical.is_digest(value))
HEX: Final = _kind("64 hex digits", lambda value: canonical.is_digest(f"sha256:{value}"))
OBJECT: Final = _kind("an object", lambda value: type(value) is dict)
_LIST: Final = _kind("a list", lambda value: type(value) is list)


def units(value: Any) -> None:
    """The scores of an artifact on the sealed units, each from 0 to 1."""
    if wrong := scores.why_no_units(value):
        raise Mismatch("type", wrong)


def word(*allowed: str) -> Shape:
    """One of some words."""
    known = frozenset(allowed)
    names = " or ".join(repr(name) for name in allowed)
    return _kind(names, lambda value: type(value) is str and value in known)


def listed(shape: Shape) -> Shape:
    """A list of such values."""

    def check(value: Any) -> None:
        _LIST(value)
        for index, item in enumerate(value):
            try:
                shape(item)
            except Mismatch as odd:
                odd.place.insert(0, f"[{index}]")
                raise

    return check


def mapped(shape: Shape) -> Shape:
    """An object with any names and such values."""

    def check(value: Any) -> None:
        OBJECT(value)
        for key, item in value.items():
            _field(shape, key, item)

    return check


def named(shape: Shape) -> Shape:
    """An object whose names are such as strata have, which are parts of paths, and such values."""
    values = mapped(shape)

    def check(value: Any) -> None:
        values(value)
        for name in value:
            if not _STRATUM.fullmatch(name):
                raise Mismatch("name", f"{name!r:.60} is no name of a stratum")

    return check


def record(may_lack: tuple[str, ...] = (), /, **fields: Shape) -> Shape:
    """An object with these fields and no others; ``may_lack`` names those that may be absent."""
    names, required = fields.keys(), fields.keys() - set(may_lack)

    def check(value: Any) -> None:
        OBJECT(value)
        if missing := sorted(required - value.keys()):
            raise Mismatch("missing_field", f"has no {missing[0]!r}")
        if unknown := sorted(value.keys() - names):
            raise Mismatch("unknown_field", f"{unknown[0]!r:.60} is not a field of it")
        for key, item in value.items():
            _field(fields[key], key, item)

    return check


def _field(shape: Shape, key: str, item: Any) -> None:
    try:
        shape(item)
    except Mismatch as odd:
        odd.place.insert(0, f".{key}")
        raise


STAGE: Final = word(*plan.STAGES)
ARM: Final = word(*dict.fromkeys(arm for stage in plan.STAGES.values() for arm in stage.arms))
_STRATUM: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}")
VERDICT: Final = word("certified", "refuted", "inconclusive", "not_tested")
_SEAL_OF_TASK: Final = record(
    public=mapped(DIGEST),
    background=DIGEST,
    units=listed(TEXT),
    engine=ANY,
    nonce_commitment=DIGEST,
    hidden_commitment=DIGEST,
    sealed_commitment=DIGEST,
    public_demonstration=TEXT,
)
_REGISTERED_STRATUM: Final = record(
    config=record(agent=OBJECT, limits=OBJECT, challengers=POSITION, alpha=NUMBER),
    sources=mapped(DIGEST),
    contract=DIGEST,
)
PARTS: Final[Mapping[str, Shape]] = {
    **dict.fromkeys(("limits", "isolation", "thresholds"), record(config=OBJECT)),
    "claim": record(("artifact",), config=OBJECT, artifact=DIGEST),
    "design": record(("strata",), config=OBJECT, strata=named(_REGISTERED_STRATUM)),
    "information": record(("site",), config=OBJECT, site=mapped(DIGEST)),
    "task": record(config=OBJECT, seal=_SEAL_OF_TASK, sources=mapped(DIGEST)),
    "agent": record(config=OBJECT, sources=mapped(DIGEST)),
}
STAGE_FILE: Final = record(schema=TEXT, digest=DIGEST, body=OBJECT)
CONTRACT: Final = record(contract=DIGEST, parts=record(**dict.fromkeys(CONTRACT_PARTS, DIGEST)))
REGISTRATION: Final = record(
    registration=DIGEST, contract=DIGEST, parts=record(**dict.fromkeys((*CONTRACT_PARTS, *PLAN_PARTS), DIGEST))
)
HISTORY: Final = record(
    sequence=POSITION,
    registration=DIGEST,
    contract=DIGEST,
    parts=record(**PARTS),
    previous=SEAL,
    changes=listed(record(key=TEXT, old=ANY, new=ANY)),
    opened=record(
        ("episodes", "scores"), episodes=mapped(record(started=COUNT, committed=COUNT)), scores=mapped(DIGEST)
    ),
)
RECEIPT: Final = record(
    ("unused", "not_started"),
    contract=DIGEST,
    episodes=listed(record(stage=STAGE, slot=POSITION, arm=ARM, attempt=POSITION, record=DIGEST)),
    unused=TEXT,
    not_started=DIGEST,
)
CHECKPOINT: Final = record(
    contract=DIGEST,
    target_record=DIGEST,
    rule=TEXT,
    history=listed(OBJECT),
    scope=word("lineage_empty", "lineage_prefix"),
)
PACKET: Final = record(contract=DIGEST, target_record=DIGEST, packet=DIGEST)
_SCORED: Final[Mapping[str, Shape]] = {
    "role": word("candidate", "baseline", "known_solution", "claimed"),
    "stage": STAGE,
    "slot": POSITION,
    "arm": TEXT,
    "number": POSITION,
    "record": SEAL,
    "artifact": DIGEST,
    "instance": TEXT,
    "validity": word("valid", "invalid"),
    "reason": TEXT,
    "position": POSITION,
}
SCORE_ROW: Final = record(**_SCORED, units=ANY)
"""A row after its units were read, and with that checked."""
SCORES: Final = record(
    contract=DIGEST,
    inputs=mapped(DIGEST),
    rows=listed(record(**_SCORED, units=units)),
)
_FACTS: Final[Mapping[str, Shape]] = {
    "commitments": mapped(FLAG),
    "scoring_order": mapped(FLAG),
    "unlisted": listed(TEXT),
    "target_runs": COUNT,
}
_APART: Final = named(record((), **_FACTS))
FACTS: Final = record(contract=DIGEST, facts=record(("strata", "policies"), **_FACTS, strata=_APART, policies=_APART))
SNAPSHOT: Final = record(origin=TEXT, key=TEXT, number=POSITION, earlier=listed(TEXT), starts=COUNT, episodes=COUNT)
DRAW: Final = record(("first_arm",), presentation=HEX, agent_seed=HEX, public_randomness=TEXT, first_arm=ARM)
USAGE: Final = record(
    ("web_requests",),
    **dict.fromkeys(("experiments", "commits", "messages", "bad_messages", "bytes", "web_requests"), COUNT),
)
OUTCOME: Final = word(
    "artifact", "model_failure", "execution_contract_violation", "infrastructure_invalid", "unresolved"
)
PROBE: Final = record(schema=TEXT, backend=TEXT, tests=mapped(word("refused", "open")))
WORKSPACE: Final = record(schema=TEXT, files=listed(record(name=TEXT, size=COUNT, digest=DIGEST)), violation=TEXT)
