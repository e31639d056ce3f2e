"""Objects are what their digest says, or an error that names them."""

from __future__ import annotations

from pathlib import Path

import pytest

from dcpflow.errors import EvidenceError
from dcpflow.records.canonical import digest
from dcpflow.records.objects import ObjectStore


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return ObjectStore(tmp_path / "objects")


@pytest.mark.parametrize("data", [b"", b"text", bytes(range(256)) * 300])
def test_an_object_comes_back_byte_for_byte(store: ObjectStore, data: bytes) -> None:
    assert store.put(data) == digest(data)
    assert store.get(digest(data)) == data


def test_storing_the_same_bytes_again_changes_nothing(store: ObjectStore) -> None:
    name = store.put(b"text")
    before = store.path(name).stat()
    assert store.put(b"text") == name
    after = store.path(name).stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_missing_object_is_named_with_what_it_was_and_how_to_get_it_back(store: ObjectStore) -> None:
    name = digest(b"never stored")
    with pytest.raises(EvidenceError) as caught:
        store.get(name, "the transcript of challengers slot 3 (withheld)", "To run it again: do this")
    for part in ("the transcript of challengers slot 3", name, "is missing", str(store.path(name)), "do this"):
        assert part in str(caught.value)


@pytest.mark.parametrize("altered", [b"", b"texT", b"text\n", b"tex"])
def test_an_altered_object_is_named_and_never_returned(store: ObjectStore, altered: bytes) -> None:
    name = store.put(b"text")
    path = store.path(name)
    path.chmod(0o644)
    path.write_bytes(altered)
    with pytest.raises(EvidenceError, match="was altered") as caught:
        store.get(name, "the candidate", "do this")
    assert str(path) in str(caught.value)
    assert "do this" in str(caught.value)


def test_storing_the_right_bytes_again_repairs_an_altered_object(store: ObjectStore) -> None:
    name = store.put(b"text")
    store.path(name).chmod(0o644)
    store.path(name).write_bytes(b"altered")
    store.put(b"text")
    assert store.get(name) == b"text"


@pytest.mark.parametrize("name", ["", "../../etc/passwd", "sha256:../../../etc/passwd", "sha256:" + "0" * 63])
def test_what_is_no_digest_opens_no_file(store: ObjectStore, name: str) -> None:
    with pytest.raises(EvidenceError, match="is not a digest"):
        store.get(name)
