"""Everything that looks like chance, drawn from the sealed nonce: reproducible, and committed to beforehand."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from pathlib import Path

from dcpflow.errors import UsageError
from dcpflow.records import canonical

PUBLIC_MARK = "# public-demonstration:"


@dataclass(frozen=True, slots=True)
class Nonce:
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

    def derive(self, *path: str) -> bytes:
        """32 bytes for one purpose, from the nonce alone: hidden states, sealed units, salts.

        They do not depend on the contract, so that editing a budget does not change what is sought.
        """
        return hmac.new(self.secret, canonical.encode(["nonce", *path]), hashlib.sha256).digest()

    def commit(self, label: str, material: bytes) -> str:
        """Commitment to sealed material: SHA-256(32 sealed bytes || material).

        The sealed bytes keep it from being guessed where the material has few possible values.
        """
        return canonical.digest(self.derive("commitment", label) + material)


@dataclass(frozen=True, slots=True)
class Draws:
    """Draws of one audit: HMAC-SHA-256(nonce, contract || public randomness || stage || slot || label).

    Counts and thresholds do not enter, so more challengers never move the draws of the earlier ones.
    """

    nonce: Nonce
    contract: str
    public_randomness: str = ""

    def bytes(self, stage: str, slot: int, label: str) -> bytes:
        """32 bytes for this purpose."""
        message = canonical.encode(["draw", self.contract, self.public_randomness, stage, slot, label])
        return hmac.new(self.nonce.secret, message, hashlib.sha256).digest()

    def hex(self, stage: str, slot: int, label: str) -> str:
        """The same as 64 hex digits, as records hold it."""
        return self.bytes(stage, slot, label).hex()

    def order(self, count: int, stage: str, label: str) -> list[int]:
        """A permutation of 0 .. count - 1 that this audit's nonce decides."""
        return sorted(range(count), key=lambda index: self.bytes(stage, index, label))
