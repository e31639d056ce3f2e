"""Ed25519 keys of claimants, auditors and registries, in the form that OpenSSH gives them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dcpflow.errors import UsageError
from dcpflow.records import files

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

KIND: Final = "ssh-ed25519"
_HEAD: Final = len(KIND).to_bytes(4, "big") + KIND.encode() + (32).to_bytes(4, "big")
_KINDS: Final = re.compile(r"(ssh|ecdsa|sk)-[a-z0-9@.-]{1,60}")
"""Of a line that is no public key only this is shown: it may be of a private one."""
LARGEST: Final = 16_384
"""Bytes above which a file is no key."""


class KeyIsEncrypted(UsageError):
    """A private key that needs a passphrase, which was not given."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A public key.

    Attributes:
        raw: its 32 bytes (RFC 8032).
    """

    raw: bytes

    @classmethod
    def parse(cls, line: str, where: str) -> PublicKey:
        """Read a line as it stands in a ``.pub`` file: ``ssh-ed25519 BASE64``, and a comment that is passed over.

        Args:
            line: the text.
            where: the file or key that it comes from, for the error.

        Raises:
            UsageError: it is no Ed25519 public key.
        """
        remedy = "Give a line like 'ssh-ed25519 AAAA...': dcpflow keys new FILE makes a pair, and so does ssh-keygen"
        words = line.split()
        if not words or words[0] != KIND:
            kind = f": {words[0]}" if words and _KINDS.fullmatch(words[0]) else ""
            raise UsageError(f"{where}: not an Ed25519 public key{kind}", remedy)
        try:
            data = base64.b64decode(words[1], validate=True)
        except (IndexError, ValueError, binascii.Error):
            data = b""
        if len(data) != len(_HEAD) + 32 or not data.startswith(_HEAD):
            raise UsageError(f"{where}: the public key is damaged", remedy)
        return cls(data.removeprefix(_HEAD))

    @classmethod
    def read(cls, path: Path) -> PublicKey:
        """The key of a ``.pub`` file.

        Raises:
            UsageError: it cannot be read, or holds no Ed25519 public key.
        """
        return cls.parse(_read(path).decode("utf-8", errors="replace"), str(path))

    @property
    def blob(self) -> bytes:
        """The key in the form of SSH (RFC 8709)."""
        return _HEAD + self.raw

    @property
    def line(self) -> str:
        """The line that files and trust files hold, without a comment."""
        return f"{KIND} {base64.b64encode(self.blob).decode()}"

    @property
    def id(self) -> str:
        """Its short name: the fingerprint that ``ssh-keygen -l`` prints."""
        return "SHA256:" + base64.b64encode(hashlib.sha256(self.blob).digest()).decode().rstrip("=")

    def signed(self, message: bytes, signature: bytes) -> bool:
        """Whether the signature of the message is this key's."""
        from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - 40 ms, of which most need nothing
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415

        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, message)
        except (InvalidSignature, ValueError):
            return False
        return True


@dataclass(frozen=True, slots=True)
class Signer:
    """A private key, and what it is known by."""

    public: PublicKey
    _private: Ed25519PrivateKey = field(repr=False)

    @classmethod
    def read(cls, path: Path, passphrase: bytes | None = None) -> Signer:
        """The private key of a file, in OpenSSH's form or as PKCS#8 in PEM.

        Args:
            path: the file, which only its owner may be able to read.
            passphrase: what it is encrypted with; None where it is not.

        Raises:
            KeyIsEncrypted: it is encrypted, and no passphrase was given.
            UsageError: it cannot be read, others can read it, the passphrase is wrong or superfluous, or it is no
                Ed25519 key.
        """
        from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415

        data = _read(path)
        if path.stat().st_mode & 0o077:
            raise UsageError(f"the private key {path} can be read by others", f"Close it with: chmod 600 '{path}'")
        ssh = data.lstrip().startswith(b"-----BEGIN OPENSSH PRIVATE KEY-----")
        load = serialization.load_ssh_private_key if ssh else serialization.load_pem_private_key
        try:
            key = load(data, passphrase)
        except TypeError:
            if passphrase is None:
                raise KeyIsEncrypted(f"the private key {path} is encrypted", "Give its passphrase") from None
            raise UsageError(f"the private key {path} is not encrypted, but a passphrase was given") from None
        except (ValueError, UnsupportedAlgorithm):
            what = "or the passphrase is wrong" if passphrase else "in OpenSSH's form or PEM"
            raise UsageError(
                f"{path} is not a private key {what}", f"Make a pair with: dcpflow keys new '{path}.new'"
            ) from None
        if not isinstance(key, Ed25519PrivateKey):
            raise UsageError(
                f"{path} is a key of another kind than Ed25519", f"Make a pair with: dcpflow keys new '{path}.new'"
            )
        return cls._of(key)

    @classmethod
    def new(cls, path: Path) -> Signer:
        """Make a key pair: the private key, which only its owner can read, and beside it the public one, ``.pub``.

        Raises:
            UsageError: one of the files exists.
        """
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415

        made, beside = Ed25519PrivateKey.generate(), path.with_name(path.name + ".pub")
        form = (serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption())
        signer = cls._of(made)
        with files.writing_to(path):
            if beside.exists() or not files.write_once(path, made.private_bytes(*form), mode=0o600):
                raise UsageError(f"{path} or {beside} exists", "A key in use must not be replaced: give another name")
        files.write_atomic(beside, f"{signer.public.line}\n".encode())
        return signer

    @classmethod
    def _of(cls, private: Ed25519PrivateKey) -> Signer:
        return cls(PublicKey(private.public_key().public_bytes_raw()), private)

    def sign(self, message: bytes) -> bytes:
        """The 64 bytes of the message's signature (RFC 8032, section 5.1)."""
        return self._private.sign(message)


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise UsageError(f"the key {path} cannot be read: {error.strerror}", "Give the path of a key file") from None
    if len(data) > LARGEST:
        raise UsageError(f"{path} is too large for a key", "Give the path of a key file")
    return data
