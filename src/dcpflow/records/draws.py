"""Everything that looks like chance, drawn from the sealed nonce: reproducible, and committed to beforehand."""

from __future__ import annotations

import hashlib
import hmac
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dcpflow.errors import UsageError
from dcpflow.records import canonical

PUBLIC_MARK = "# public-demonstration:"


class Source(ABC):
    """What values are drawn from: the nonce, or those of its values that an auditor has offered."""

    @abstractmethod
    def value(self, message: list[Any]) -> bytes:
        """32 bytes: HMAC-SHA-256(nonce, message in canonical JSON).

        Without the nonce, nobody can tell them from random bytes, however many others they know.
        """

    def derive(self, *path: str) -> bytes:
        """32 bytes for one purpose, from the nonce alone: hidden states, sealed units, salts.

        They do not depend on the contract, so that editing a budget does not change what is sought.
        """
        return self.value(["nonce", *path])

    def commit(self, label: str, material: bytes) -> str:
        """Commitment to sealed material: SHA-256(32 sealed bytes || material).

        The sealed bytes keep it from being guessed where the material has few possible values.
        """
        return canonical.digest(self.derive("commitment", label) + material)


@dataclass(frozen=True, slots=True)
class Nonce(Source):
    """The sealed 256-bit nonce of an audit.

    Attributes:
        secret: 32 bytes. Never mounted, printed or hashed without a further input.
        public: the text that the nonce is the SHA-256 of, for a public demonstration; else empty.
    """

    secret: bytes = field(repr=False)
    public: str

    @classmethod
    def read(cls, path: Path) -> Nonce:
        """Read a nonce file: one line of 64 hex digits; lines that begin with # are comments.

        Raises:
            UsageError: the file is missing, others can read a secret one, or the digits are wrong.
        """
        remedy = f"Make one with: dcpflow nonce new {path}"
        try:
            text = path.read_text(encoding="ascii")
            mode = path.stat().st_mode
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"the nonce file {path} cannot be read ({error})", remedy) from None
        lines = text.splitlines()
        digits = "".join(line.strip() for line in lines if not line.startswith("#"))
        public = "".join(line.removeprefix(PUBLIC_MARK).strip() for line in lines if line.startswith(PUBLIC_MARK))
        try:
            secret = bytes.fromhex(digits)
        except ValueError:
            secret = b""
        if len(secret) != 32:
            raise UsageError(f"the nonce file {path} must hold 64 hex digits", remedy)
        if public and hashlib.sha256(public.encode()).digest() != secret:
            raise UsageError(f"the nonce in {path} is not the SHA-256 of its public text {public!r}", remedy)
        if not public and mode & 0o077:
            raise UsageError(f"the nonce file {path} can be read by others", f"Close it with: chmod 600 {path}")
        return cls(secret, public)

    def value(self, message: list[Any]) -> bytes:
        """See :meth:`Source.value`."""
        return hmac.new(self.secret, canonical.encode(message), hashlib.sha256).digest()


@dataclass(frozen=True, slots=True)
class Offered(Source):
    """Values of a nonce that somebody else holds.

    Attributes:
        values: 64 hex digits each, by message in canonical JSON.
    """

    values: Mapping[str, str] = field(repr=False)

    def value(self, message: list[Any]) -> bytes:
        """See :meth:`Source.value`.

        Raises:
            UsageError: it was not offered.
        """
        name = canonical.encode(message).decode()
        if name not in self.values:
            raise UsageError(
                f"the auditor has not offered the value {name}",
                "Give the auditor this configuration: dcpflow seal offers what its counts need",
            )
        return bytes.fromhex(self.values[name])


@dataclass(frozen=True, slots=True)
class Telling(Source):
    """A nonce that notes what is asked of it, so that this, and nothing else, can be offered.

    Attributes:
        nonce: the nonce.
        told: as :attr:`Offered.values`; grows.
    """

    nonce: Nonce
    told: dict[str, str] = field(default_factory=dict, repr=False)

    def value(self, message: list[Any]) -> bytes:
        """See :meth:`Source.value`."""
        found = self.nonce.value(message)
        self.told[canonical.encode(message).decode()] = found.hex()
        return found


@dataclass(frozen=True, slots=True)
class Draws:
    """Draws of one audit: HMAC-SHA-256(nonce, contract || public randomness || stage || slot || label).

    Counts and thresholds do not enter, so more challengers never move the draws of the earlier ones.
    """

    nonce: Source
    contract: str
    public_randomness: str = ""

    def bytes(self, stage: str, slot: int, label: str) -> bytes:
        """32 bytes for this purpose."""
        return self.nonce.value(["draw", self.contract, self.public_randomness, stage, slot, label])

    def hex(self, stage: str, slot: int, label: str) -> str:
        """The same as 64 hex digits, as records hold it."""
        return self.bytes(stage, slot, label).hex()

    def order(self, count: int, stage: str, label: str) -> list[int]:
        """A permutation of 0 .. count - 1 that this audit's nonce decides."""
        return sorted(range(count), key=lambda index: self.bytes(stage, index, label))
