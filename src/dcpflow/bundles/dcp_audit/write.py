"""Writes a dcp-audit bundle: stored forms, digests, manifest (5.1 to 5.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dcpflow.bundles.dcp_audit.manifest import CORE_PROFILE, FULL_PROFILE, MANIFEST, entry_fields, fixed_fields
from dcpflow.bundles.dcp_audit.strict_json import digest, stored_form


def bundle_files(payloads: Mapping[str, Any]) -> dict[str, bytes]:
    """The files of a bundle, by relative path.

    Args:
        payloads: every payload by name, the certificate included. With ``gate3`` the bundle is of the full profile,
            otherwise of the core profile.
    """
    profile = FULL_PROFILE if "gate3" in payloads else CORE_PROFILE
    fields = {name: entry_fields(profile, name) for name in payloads}
    data = {name: stored_form(payload) for name, payload in payloads.items()}
    manifest = {
        **fixed_fields(profile),
        "payloads": {
            name: {**fields[name], "content_digest": digest(stored), "size_bytes": len(stored)}
            for name, stored in data.items()
        },
    }
    whole = {**manifest, "bundle_id": digest(stored_form(manifest))}
    return {MANIFEST: stored_form(whole), **{fields[name]["path"]: stored for name, stored in data.items()}}
