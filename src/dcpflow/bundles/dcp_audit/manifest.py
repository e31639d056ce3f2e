"""The manifest of a bundle, its files and their digests (5.1, 5.3, 5.4)."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dcpflow.bundles.dcp_audit import strict_json
from dcpflow.bundles.dcp_audit.errors import BundleError

MANIFEST: Final = "manifest.json"
CORE_PROFILE: Final = "core"
FULL_PROFILE: Final = "full_audit_v1"
_FORMATS: Final = {"dcp-core-evidence-bundle": CORE_PROFILE, "dcp-audit-bundle": FULL_PROFILE}
_SCHEMA_NAMES: Final = {
    "registration": "registration",
    "integrity": "integrity-evidence",
    "gate1": "gate1-evidence",
    "gate2": "gate2-evidence",
    "gate3": "gate3-evidence",
    "certificate": "kernel-decision-record",
}
_SCHEMA_PREFIX: Final = {CORE_PROFILE: "dcp.core", FULL_PROFILE: "dcp.full-audit"}


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle whose files, digests and identity hold.

    Attributes:
        profile: ``core`` or ``full_audit_v1``.
        bundle_id: Digest of the manifest without this field.
        payloads: Decoded payloads by name.
        not_stored: Files that are not in the writer's form; their digests hold all the same.
    """

    profile: str
    bundle_id: str
    payloads: dict[str, Any]
    not_stored: tuple[str, ...]


def read_bundle(root: Path) -> Bundle:
    """Read and check a bundle.

    The root must hold the manifest, the payloads of its profile and nothing else: no other file, no other
    folder, no link (the reference lets a core bundle carry more).

    Raises:
        BundleError: At the first thing that does not hold.
    """
    names = _files(root)
    if MANIFEST not in names:
        raise BundleError(".", "", "file_set", f"there is no {MANIFEST}")
    raw = _read(root, MANIFEST, strict_json.MAX_BYTES)
    manifest = strict_json.loads(raw, MANIFEST)
    profile = _profile(manifest)
    _check_manifest(manifest, profile)
    expected = {MANIFEST, *(entry["path"] for entry in manifest["payloads"].values())}
    if names != expected:
        detail = f"missing {sorted(expected - names)}, not registered {sorted(names - expected)}"
        raise BundleError(".", "", "file_set", detail)
    identity = {key: value for key, value in manifest.items() if key != "bundle_id"}
    if strict_json.digest(strict_json.stored_form(identity)) != manifest["bundle_id"]:
        raise BundleError(MANIFEST, "bundle_id", "bundle_id", "not the digest of the manifest without it")
    payloads, not_stored = {}, [] if raw == strict_json.stored_form(manifest) else [MANIFEST]
    for name, entry in manifest["payloads"].items():
        path = entry["path"]
        data = _read(root, path, entry["size_bytes"])
        if len(data) != entry["size_bytes"]:
            detail = f"{len(data)} bytes, registered {entry['size_bytes']}"
            raise BundleError(path, "", "payload_digest", detail)
        if strict_json.digest(data) != entry["content_digest"]:
            detail = f"has {strict_json.digest(data)}, registered {entry['content_digest']}"
            raise BundleError(path, "", "payload_digest", detail)
        payloads[name] = strict_json.loads(data, path)
        if data != strict_json.stored_form(payloads[name]):
            not_stored.append(path)
    return Bundle(profile, manifest["bundle_id"], payloads, tuple(not_stored))


def payload_names(profile: str) -> tuple[str, ...]:
    """Names of a profile's payloads."""
    return tuple(name for name in _SCHEMA_NAMES if profile == FULL_PROFILE or name != "gate3")


def fixed_fields(profile: str) -> dict[str, Any]:
    """What a manifest of a profile says, whatever its payloads are."""
    fixed: dict[str, Any] = {
        "format": next(name for name, profiled in _FORMATS.items() if profiled == profile),
        "format_version": "1.0",
        "hash_algorithm": "sha256",
        "provenance_scope": "local_content_addressed_only",
        "formal_certificate_issued": False,
    }
    return fixed | {"profile": FULL_PROFILE} if profile == FULL_PROFILE else fixed


def entry_fields(profile: str, name: str) -> dict[str, str]:
    """What a manifest says of a payload, whatever its content is."""
    return {
        "path": f"payload/{name}.json",
        "schema": f"{_SCHEMA_PREFIX[profile]}.{_SCHEMA_NAMES[name]}.v1",
        "media_type": "application/json",
    }


def _profile(manifest: Any) -> str:
    name = manifest.get("format") if isinstance(manifest, dict) else None
    if not isinstance(name, str) or name not in _FORMATS:
        raise BundleError(MANIFEST, "format", "format", f"{name!r} is not one of {sorted(_FORMATS)}")
    return _FORMATS[name]


def _check_manifest(manifest: dict[str, Any], profile: str) -> None:
    fixed = fixed_fields(profile)
    _check_keys(manifest, {*fixed, "payloads", "bundle_id"}, "")
    _check_values(manifest, fixed, "")
    if not isinstance(manifest["bundle_id"], str):
        raise BundleError(MANIFEST, "bundle_id", "type", "must be a string")
    payloads = manifest["payloads"]
    if not isinstance(payloads, dict):
        raise BundleError(MANIFEST, "payloads", "type", "must be an object")
    _check_keys(payloads, set(payload_names(profile)), "payloads")
    for name, entry in payloads.items():
        place = f"payloads.{name}"
        if not isinstance(entry, dict):
            raise BundleError(MANIFEST, place, "type", "must be an object")
        own = entry_fields(profile, name)
        _check_keys(entry, {*own, "content_digest", "size_bytes"}, place)
        _check_values(entry, own, place)
        if not isinstance(entry["content_digest"], str):
            raise BundleError(MANIFEST, f"{place}.content_digest", "type", "must be a string")
        size = entry["size_bytes"]
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise BundleError(MANIFEST, f"{place}.size_bytes", "type", "must be an integer from 0")


def _check_keys(found: dict[str, Any], expected: set[str], place: str) -> None:
    if set(found) != expected:
        detail = f"missing {sorted(expected - set(found))}, unknown {sorted(set(found) - expected)}"
        raise BundleError(MANIFEST, place, "manifest_keys", detail)


def _check_values(found: dict[str, Any], expected: dict[str, Any], place: str) -> None:
    for key, value in expected.items():
        if type(found[key]) is not type(value) or found[key] != value:
            where = f"{place}.{key}".lstrip(".")
            raise BundleError(MANIFEST, where, "manifest_value", f"{found[key]!r}, must be {value!r}")


def _files(root: Path) -> set[str]:
    """Names of all files below the root; refuses links, special files and folders without a file."""
    if root.is_symlink() or not root.is_dir():
        raise BundleError(".", "", "root", "is not a folder, or is a link")
    found = set()
    for name, entry in _walk(root, ""):
        if entry.is_symlink():
            raise BundleError(name, "", "link", "a bundle holds no links")
        if entry.is_dir(follow_symlinks=False):
            if name != "payload":
                raise BundleError(name, "", "file_set", "a bundle holds no other folder than payload")
        elif entry.is_file(follow_symlinks=False):
            found.add(name)
        else:
            raise BundleError(name, "", "link", "neither file nor folder")
    return found


def _walk(folder: Path, prefix: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    # One level below the root at most: any deeper folder is refused when it is seen.
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda e: e.name):
            name = prefix + entry.name
            yield name, entry
            if name == "payload" and entry.is_dir(follow_symlinks=False):
                yield from _walk(folder / "payload", "payload/")


def _read(root: Path, name: str, size: int) -> bytes:
    """At most one byte more than registered: enough to see that a file is too long."""
    limit = min(size, strict_json.MAX_BYTES) + 1
    try:
        handle = os.open(root / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise BundleError(name, "", "file", f"cannot be read: {error.strerror}") from None
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise BundleError(name, "", "link", "not a regular file")
        return file.read(limit)
