"""Files of a registry: what it says that it is, its entries, its signed checkpoints. Each is read strictly."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dcpflow.authority import kinds
from dcpflow.authority.envelope import Envelope
from dcpflow.authority.keys import PublicKey
from dcpflow.errors import EvidenceError, UsageError
from dcpflow.records import canonical

SCHEMA: Final = "dcpflow.registry/1"
CHECKPOINT: Final = "application/vnd.dcpflow.registry-checkpoint+json"
LARGEST: Final = 1 << 20
"""Bytes of the largest file of a registry."""
MOST: Final = 99_999_999
"""Most entries: their numbers have eight digits."""
_DATE: Final = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True, slots=True)
class Head:
    """What a registry says that it is.

    Attributes:
        origin: its name, which every checkpoint holds.
        key: the key that signs its checkpoints; None where nobody does.
        by_request: whether its operator adds what audits request; else they write to it themselves.
    """

    origin: str
    key: PublicKey | None = None
    by_request: bool = False

    @classmethod
    def parse(cls, data: bytes, where: str) -> Head:
        """Read it strictly.

        Raises:
            EvidenceError: it is no head of a registry.
        """
        value = from_file(data, where)
        if not isinstance(value, dict) or value.get("schema") != SCHEMA:
            raise EvidenceError(f"{where}: not a {SCHEMA} file")
        if value.keys() != {"schema", "origin", "key", "by_request"} or type(value["by_request"]) is not bool:
            raise EvidenceError(f"{where}: expected schema, origin, key and by_request, and nothing else")
        words, is_text = kinds.TEXT
        if not is_text(value["origin"]):
            raise EvidenceError(f"{where}: origin must be {words}, not {value['origin']!r:.60}")
        line = value["key"]
        if line is not None and not isinstance(line, str):
            raise EvidenceError(f"{where}: key must be the line of a public key, or null")
        try:
            key = None if line is None else PublicKey.parse(line, where)
        except UsageError as error:
            raise EvidenceError(error.problem) from None
        return cls(value["origin"], key, value["by_request"])

    def to_bytes(self) -> bytes:
        """The file."""
        key = self.key and self.key.line
        return to_file({"schema": SCHEMA, "origin": self.origin, "key": key, "by_request": self.by_request})


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry.

    Attributes:
        number: from 1.
        previous: digest of the entry before, or of the head.
        kind: see :mod:`dcpflow.authority.kinds`.
        date: when the registry took it in, UTC, as ``2026-01-31T23:59:59Z``.
        body: by its kind.
        data: the file's bytes: a leaf of the tree.
    """

    number: int
    previous: str
    kind: str
    date: str
    body: dict[str, Any]
    data: bytes

    @classmethod
    def make(cls, number: int, previous: str, kind: str, date: str, body: Mapping[str, Any]) -> Entry:
        """A new entry, whose body is held against its kind.

        Raises:
            EvidenceError: the body is not as its kind asks for, or larger than what is read.
        """
        found = kinds.check(kind, dict(body), f"a new entry of kind {kind}")
        data = to_file({"number": number, "previous": previous, "kind": kind, "date": date, "body": found})
        if len(data) > LARGEST:
            raise EvidenceError(f"a new entry of kind {kind} has {len(data)} bytes, and at most {LARGEST} are read")
        return cls(number, previous, kind, date, found, data)

    @classmethod
    def parse(cls, data: bytes, where: str, number: int, previous: str) -> Entry:
        """Read one strictly, as the entry of this number after that digest.

        Raises:
            EvidenceError: it is none, or another one.
        """
        value = from_file(data, where)
        if not isinstance(value, dict) or value.keys() != {"number", "previous", "kind", "date", "body"}:
            raise EvidenceError(f"{where}: an entry has number, previous, kind, date and body, and nothing else")
        if type(value["number"]) is not int or value["number"] != number:
            raise EvidenceError(f"{where}: the entry calls itself number {value['number']!r:.20}, not {number}")
        if value["previous"] != previous:
            before = f"entry {number - 1}" if number > 1 else "the registry's head"
            raise EvidenceError(
                f"{where}: the chain is broken: it follows {value['previous']!r:.80}, but {before} has the digest "
                f"{previous}: one of the two was altered or replaced"
            )
        if not _is_date(value["date"]):
            raise EvidenceError(f"{where}: date must be as 2026-01-31T23:59:59Z, not {value['date']!r:.40}")
        body = kinds.check(value["kind"], value["body"], where)
        return cls(number, previous, value["kind"], value["date"], body, data)

    @property
    def digest(self) -> str:
        """Of the file: what ``sha256sum`` prints, and what the next entry names."""
        return canonical.digest(self.data)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The signed state of a log.

    Attributes:
        origin: the registry's name.
        size: how many entries it had.
        root: of the Merkle tree over their files, 64 hex digits.
        envelope: the statement and its signatures.
    """

    origin: str
    size: int
    root: str
    envelope: Envelope

    @classmethod
    def parse(cls, data: bytes, where: str) -> Checkpoint:
        """Read one strictly. Whose signatures hold is :meth:`signers`'s to say.

        Raises:
            EvidenceError: it is no checkpoint, or nobody has signed it.
        """
        envelope = Envelope.parse(data, where, CHECKPOINT)
        value = canonical.decode(envelope.payload, where)
        if not isinstance(value, dict) or value.keys() != {"origin", "size", "root"}:
            raise EvidenceError(f"{where}: a checkpoint has origin, size and root, and nothing else")
        origin, size, root = value["origin"], value["size"], value["root"]
        if not kinds.TEXT[1](origin) or type(size) is not int or not 1 <= size <= MOST:
            raise EvidenceError(f"{where}: origin must be a line of text, and size the number of entries")
        if not isinstance(root, str) or not canonical.is_digest(f"sha256:{root}"):
            raise EvidenceError(f"{where}: root must be 64 hex digits, not {root!r:.80}")
        if not envelope.signatures:
            raise EvidenceError(f"{where}: nobody has signed this checkpoint")
        return cls(origin, size, root, envelope)

    @classmethod
    def read(cls, path: Path) -> Checkpoint:
        """A checkpoint that somebody has kept.

        Raises:
            UsageError: it cannot be read.
            EvidenceError: it is none.
        """
        try:
            with path.open("rb") as file:
                return cls.parse(file.read(LARGEST), str(path))
        except OSError as error:
            raise UsageError(f"the checkpoint {path} cannot be read: {error.strerror}", "Give its file") from None

    def signers(self, keys: Iterable[PublicKey]) -> list[PublicKey]:
        """Those of the keys that have signed it."""
        return self.envelope.signers(keys)


def to_file(value: Any) -> bytes:
    """The bytes of a file that holds the value: the one form that it has."""
    return canonical.encode(value) + b"\n"


def from_file(data: bytes, where: str) -> Any:
    """A value whose file has to have the one form in which it is written."""
    value = canonical.decode(data, where)
    try:
        same = to_file(value) == data
    except ValueError:
        same = False
    if not same:
        raise EvidenceError(f"{where}: not in canonical form: it was edited, or written by something else")
    return value


def now() -> str:
    """The date of an entry that is added now."""
    return time.strftime(_DATE, time.gmtime())


def _is_date(value: object) -> bool:
    try:
        return isinstance(value, str) and time.strftime(_DATE, time.strptime(value, _DATE)) == value
    except ValueError:
        return False
