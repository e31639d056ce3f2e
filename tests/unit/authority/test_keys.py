"""Keys: OpenSSH's own, ours for OpenSSH, and those that must not be used."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)

from dcpflow.authority.keys import PublicKey, Signer
from dcpflow.errors import UsageError

# RFC 8032, section 7.1, test 1
SECRET = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
PUBLIC = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
SIGNATURE = bytes.fromhex(
    "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
    "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
)


def written(path: Path, form: PrivateFormat, lock: KeySerializationEncryption | None = None) -> Path:
    key = Ed25519PrivateKey.from_private_bytes(SECRET)
    path.touch(mode=0o600)
    path.write_bytes(key.private_bytes(Encoding.PEM, form, lock or NoEncryption()))
    return path


@pytest.mark.parametrize("form", [PrivateFormat.OpenSSH, PrivateFormat.PKCS8])
def test_a_key_of_either_form_signs_as_the_rfc_has_it(tmp_path: Path, form: PrivateFormat) -> None:
    signer = Signer.read(written(tmp_path / "key", form))
    assert (signer.public.raw, signer.sign(b"")) == (PUBLIC, SIGNATURE)
    assert signer.public.signed(b"", SIGNATURE)
    assert not signer.public.signed(b"x", SIGNATURE)
    assert not signer.public.signed(b"", b"")


def test_a_new_pair_is_closed_to_others_and_never_replaced(tmp_path: Path) -> None:
    signer = Signer.new(tmp_path / "auditor")
    assert (tmp_path / "auditor").stat().st_mode & 0o777 == 0o600
    assert PublicKey.read(tmp_path / "auditor.pub") == signer.public == Signer.read(tmp_path / "auditor").public
    with pytest.raises(UsageError, match="exists"):
        Signer.new(tmp_path / "auditor")
    (tmp_path / "auditor").unlink()
    with pytest.raises(UsageError, match="exists"):
        Signer.new(tmp_path / "auditor")


@pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="no OpenSSH here")
def test_openssh_reads_our_keys_and_names_them_alike(tmp_path: Path) -> None:
    signer = Signer.new(tmp_path / "key")

    def told(*words: str) -> str:
        return subprocess.run(["ssh-keygen", *words], capture_output=True, text=True, check=True).stdout

    assert told("-y", "-f", str(tmp_path / "key")).split()[:2] == signer.public.line.split()
    assert told("-l", "-f", str(tmp_path / "key.pub")).split()[1] == signer.public.id
    told("-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "theirs"))
    assert Signer.read(tmp_path / "theirs").public == PublicKey.read(tmp_path / "theirs.pub")


def test_an_encrypted_key_asks_for_its_passphrase(tmp_path: Path) -> None:
    path = written(tmp_path / "key", PrivateFormat.PKCS8, BestAvailableEncryption(b"open"))
    assert Signer.read(path, b"open").public.raw == PUBLIC
    with pytest.raises(UsageError, match="is encrypted"):
        Signer.read(path)
    with pytest.raises(UsageError, match="passphrase is wrong"):
        Signer.read(path, b"shut")


def make_open(path: Path) -> None:
    written(path, PrivateFormat.OpenSSH).chmod(0o640)


def make_rsa(path: Path) -> None:
    made = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    path.touch(mode=0o600)
    path.write_bytes(made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def make_text(path: Path) -> None:
    path.touch(mode=0o600)
    path.write_bytes(b"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n")


def make_large(path: Path) -> None:
    path.touch(mode=0o600)
    path.write_bytes(b"x" * 99_999)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (make_open, "can be read by others. Close it with: chmod 600"),
        (make_rsa, "another kind than Ed25519"),
        (make_text, "not a private key"),
        (make_large, "too large"),
        (lambda path: None, "cannot be read: No such file"),
        (lambda path: path.mkdir(), "cannot be read: Is a directory"),
    ],
)
def test_a_key_that_must_not_be_used_is_refused(tmp_path: Path, make: Callable[[Path], None], says: str) -> None:
    make(tmp_path / "key")
    with pytest.raises(UsageError, match=says):
        Signer.read(tmp_path / "key")


@pytest.mark.parametrize("line", ["", "ssh-rsa AAAA", "ssh-ed25519", "ssh-ed25519 AAAA", "ssh-ed25519 ÄÖ", "x" * 9999])
def test_what_is_no_public_key_is_refused(line: str) -> None:
    with pytest.raises(UsageError, match=r"trust: .*public key"):
        PublicKey.parse(line, "trust")


def test_nothing_of_a_private_key_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "key"
    Signer.new(path)
    lines = path.read_text().splitlines()
    for text in (path.read_text(), *lines, f"ssh-ed25519 {lines[1]}"):
        with pytest.raises(UsageError) as told:
            PublicKey.parse(text, "trust")
        assert not any(line[:20] in str(told.value) for line in lines)
    with pytest.raises(UsageError, match="not an Ed25519 public key: ssh-rsa"):
        PublicKey.parse("ssh-rsa AAAA", "trust")
