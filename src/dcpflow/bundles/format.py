"""The bundle of an audit, ``dcpflow.bundle/2``: one file, from which its decision can be reached again offline.

The file is a zip that stores its members as they are (:mod:`dcpflow.bundles.archive`); its bytes depend on the audit
alone, never on where, when, in which batches or by which version of a library it was made. Members, by name:

=====================================  ==============================================================================
``manifest.json``                      what this module describes below
``registration/*.json, parts/*.json``  the registration in force: contract digest C, registration digest R, all parts
``registration/registry.json``         what the registry knew when the audit was started, if it was one
                                       that is signed, or knew earlier audits of the family or the claim
``history/<n>-<R>/entry.json``         every registration since the first; ``decision.json`` beside it is the decision
                                       that stood when it was amended
``<stage>/b<first>-<last>.json``       the receipt of each stage: the digests of its episodes' records
                                       (below ``challengers/<stratum>`` for challengers; those of a later look below
                                       ``look-<n>``)
``store/<C>/<stage>/<slot>/<arm>/``    ``<attempt>/record.json``: the record of each episode
``objects/<2 hex>/<62 hex>``           what the records name: transcripts, committed candidates, isolation probes,
                                       lists of what was left in workspaces
``target/packet.json``                 names the Web packet, where the Web is offered; its pages are objects
``target/checkpoint.json``             the checkpoint from which Gate 3 branched, where there is a Gate 3
``task/public/*``                      the task's public material
``scores/<phase>.json``                the sealed scorer's results (of a stratum that does not decide:
                                       ``scores/challengers/<stratum>.json``)
``evidence/<table>.jsonl``             each table as its canonical rows: the digest of these bytes is the table's
                                       (the digest of what an artifact scored on each unit stands there)
``evidence/manifest.json, facts.json`` digests of the tables, and what only nonce and task could tell
``decision.json``                      the decision
``revealed/*.json``                    nonce, hidden state and sealed units: in a revealed bundle only
=====================================  ==============================================================================

The manifest is a stage file: ``{"schema": "dcpflow.bundle/2", "digest": ..., "body": ...}``, its digest (of schema and
body) is the bundle's name. Its body holds ``version`` (2), ``contract``, ``registration``, ``revealed`` (whether the
sealed material is included) and ``members``: digest and size in bytes of every other member. Nothing else may be in
the file, and of what is listed nothing may be missing, superfluous, or in another form than the canonical one.

What is sealed goes in only as the salted commitments of the contract (``registration/parts/task.json``).

A reader refuses every other version than its own by its name. Version 1 listed the scores of an artifact unit by unit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from dcpflow.bundles.dcp_audit import strict_json
from dcpflow.bundles.dcp_audit.errors import BundleError
from dcpflow.bundles.shapes import COUNT, DIGEST, FLAG, hold, mapped, record
from dcpflow.records import canonical

VERSION: Final = 2
NAME: Final = "dcpflow.bundle"
SCHEMA: Final = f"{NAME}/{VERSION}"
MANIFEST: Final = "manifest.json"
_SCHEMA: Final = re.compile(re.escape(NAME) + r"/([0-9]{1,9})")
_BODY: Final = record(
    version=COUNT,
    contract=DIGEST,
    registration=DIGEST,
    revealed=FLAG,
    members=mapped(record(digest=DIGEST, bytes=COUNT)),
)


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a bundle says that it is.

    Attributes:
        digest: the bundle's name.
        contract: C.
        registration: R.
        revealed: whether nonce, hidden state and sealed units are included.
        members: number of members, the manifest not counted.
    """

    digest: str
    contract: str
    registration: str
    revealed: bool
    members: int


def stage_bytes(schema: str, body: Mapping[str, Any]) -> bytes:
    """The bytes of a stage file, as :func:`dcpflow.records.stagefile.write` writes them."""
    digest = canonical.digest_of({"schema": schema, "body": body})
    return canonical.encode({"schema": schema, "digest": digest, "body": body}) + b"\n"


def with_manifest(
    members: Mapping[str, bytes], contract: str, registration: str, *, revealed: bool
) -> dict[str, bytes]:
    """All members of a bundle, the manifest included."""
    listed = {name: {"digest": canonical.digest(data), "bytes": len(data)} for name, data in members.items()}
    body = {
        "version": VERSION,
        "contract": contract,
        "registration": registration,
        "revealed": revealed,
        "members": listed,
    }
    return {**members, MANIFEST: stage_bytes(SCHEMA, body)}


def check_manifest(members: Mapping[str, bytes]) -> Manifest:
    """The manifest of a bundle, after it was held against every member.

    Raises:
        BundleError: it is missing, of a newer version, or not true of the members.
    """
    if MANIFEST not in members:
        raise BundleError(".", "", "manifest", f"there is no {MANIFEST}: not a bundle of dcpflow")
    value = strict_json.loads(members[MANIFEST], MANIFEST)
    body = _body(value)
    if stage_bytes(SCHEMA, body) != members[MANIFEST]:
        detail = "was altered: not the canonical form of its body with the digest of that"
        raise BundleError(MANIFEST, "digest", "manifest", detail)
    listed = body["members"]
    for name in sorted(listed.keys() ^ (members.keys() - {MANIFEST})):
        detail = "is listed in the manifest, but not there" if name in listed else "is not listed in the manifest"
        raise BundleError(name, "", "member", detail)
    for name, entry in listed.items():
        if len(members[name]) != entry["bytes"] or canonical.digest(members[name]) != entry["digest"]:
            raise BundleError(name, "", "member", "was altered: it does not have the digest that the manifest lists")
    return Manifest(value["digest"], body["contract"], body["registration"], body["revealed"], len(listed))


def _body(value: Any) -> dict[str, Any]:
    schema = value.get("schema") if isinstance(value, dict) else None
    found = _SCHEMA.fullmatch(schema) if isinstance(schema, str) else None
    if found is None:
        raise BundleError(MANIFEST, "schema", "schema", f"{schema!r:.60} is not {SCHEMA}: not a bundle of dcpflow")
    if schema != SCHEMA:
        detail = f"a bundle of version {found[1]}; this dcpflow reads version {VERSION} ({SCHEMA})"
        raise BundleError(MANIFEST, "schema", "version", detail)
    if value.keys() != {"schema", "digest", "body"}:
        raise BundleError(MANIFEST, "", "manifest", "holds something else than schema, digest and body")
    hold(_BODY, value["body"], MANIFEST, "body")
    body: dict[str, Any] = value["body"]
    if body["version"] != VERSION:
        raise BundleError(MANIFEST, "body.version", "version", f"{body['version']}, but the schema is {SCHEMA}")
    return body
