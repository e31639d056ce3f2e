"""Writes a dcp-audit bundle: stored forms, digests, manifest (5.1 to 5.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dcpflow.bundles.dcp_audit.manifest import FULL_PROFILE, MANIFEST
from dcpflow.bundles.dcp_audit.strict_json import digest, stored_form

_SCHEMAS: Final = {
    "registration": "registration",
    "integrity": "integrity-evidence",
    "gate1": "gate1-evidence",
    "gate2": "gate2-evidence",
    "gate3": "gate3-evidence",
    "certificate": "kernel-decision-record",
}


def bundle_files(payloads: Mapping[str, Any]) -> dict[str, bytes]:
    """The files of a bundle, by relative path.

    Args:
        payloads: every payload by name, the certificate included. With ``gate3`` the bundle is of the full profile,
            otherwise of the core profile.
    """
    data = {f"payload/{name}.json": stored_form(payload) for name, payload in payloads.items()}
    return {MANIFEST: stored_form(_manifest(data, full="gate3" in payloads)), **data}


def _manifest(data: Mapping[str, bytes], *, full: bool) -> dict[str, Any]:
    prefix = "dcp.full-audit" if full else "dcp.core"
    names = {path.removeprefix("payload/").removesuffix(".json"): path for path in data}
    manifest: dict[str, Any] = {
        "format": "dcp-audit-bundle" if full else "dcp-core-evidence-bundle",
        "format_version": "1.0",
        "hash_algorithm": "sha256",
        "provenance_scope": "local_content_addressed_only",
        "formal_certificate_issued": False,
        "payloads": {
            name: {
                "path": path,
                "schema": f"{prefix}.{_SCHEMAS[name]}.v1",
                "media_type": "application/json",
                "content_digest": digest(data[path]),
                "size_bytes": len(data[path]),
            }
            for name, path in names.items()
        },
    }
    if full:
        manifest["profile"] = FULL_PROFILE
    return {**manifest, "bundle_id": digest(stored_form(manifest))}
