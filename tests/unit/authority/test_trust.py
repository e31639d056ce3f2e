"""The trust file: what it says, and what is refused of it."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from dcpflow.authority.keys import PublicKey
from dcpflow.authority.trust import LARGEST, Party, holder, read
from dcpflow.errors import UsageError

ONE, OTHER = PublicKey(bytes(32)), PublicKey(bytes([1] * 32))
ENTRY = f"- key: {ONE.line} comment\n  name: Auditors\n  roles: [auditor]\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "trust.yaml"
    path.write_text(text)
    return path


def test_what_it_says(tmp_path: Path) -> None:
    text = f"{ENTRY}  not_after: 2030-06-30\n- key: {OTHER.line}\n  name: Registry\n  roles: [registry, auditor]\n"
    parties = read(written(tmp_path, text))
    assert parties == (
        Party(ONE, "Auditors", ("auditor",), datetime.date(2030, 6, 30)),
        Party(OTHER, "Registry", ("registry", "auditor"), None),
    )
    assert holder(parties, OTHER) == parties[1]
    assert holder(parties, PublicKey(bytes([2] * 32))) is None
    assert read(written(tmp_path, "[]")) == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: 1", "must hold a list"),
        ("", "must hold a list"),
        ("- [", "is not YAML"),
        ("[" * 5_000, "is not YAML"),
        ("- 1", "entry 1: expected key, name, roles"),
        (ENTRY + "  more: 1\n", "entry 1: expected key, name, roles"),
        (ENTRY + "  name: Twice\n", "'name' is no text, or stands twice"),
        (ENTRY + ENTRY, "entry 2: the key of Auditors stands twice"),
        (ENTRY.replace("auditor]", "boss]"), "unknown role 'boss'; known are claimant, auditor, registry"),
        (ENTRY.replace("[auditor]", "auditor"), "roles must be a list"),
        (ENTRY.replace("[auditor]", "[]"), "roles must be a list"),
        (ENTRY.replace("[auditor]", "[[]]"), "unknown role"),
        (ENTRY.replace("Auditors", '""'), "name must be one line"),
        (ENTRY.replace("Auditors", '"a\\nb"'), "name must be one line"),
        (ENTRY.replace(ONE.line, "ssh-rsa AAAA"), "entry 1: not an Ed25519 public key"),
        (ENTRY.replace(ONE.line + " comment", "7"), "entry 1: the key must be a line"),
        (ENTRY + "  not_after: soon\n", "not_after must be a date"),
        (ENTRY + "  not_after: 2030-01-01 10:00:00\n", "not_after must be a date"),
        (ENTRY + "  not_after: 2030-13-45\n", "is not YAML"),
        ("- !!python/object/apply:os.system ['true']", "is not YAML"),
        ("#" * (LARGEST + 1), "more than"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(UsageError, match=r"trust\.yaml") as error:
        read(written(tmp_path, text))
    assert says in str(error.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read(tmp_path / "trust.yaml")


def test_nothing_of_a_private_key_is_shown(tmp_path: Path) -> None:
    for text in ("SECRET: [\n", "- SECRET: 1\n  SECRET: 2\n", "- @SECRET\n"):
        with pytest.raises(UsageError, match="is not YAML, line") as told:
            read(written(tmp_path, text))
        assert "SECRET" not in str(told.value)
