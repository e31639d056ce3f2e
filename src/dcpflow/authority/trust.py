"""The trust file: whose keys a reader believes, in which role, and until when."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from dcpflow.authority.keys import PublicKey
from dcpflow.errors import UsageError

CLAIMANT: Final = "claimant"
AUDITOR: Final = "auditor"
REGISTRY: Final = "registry"
ROLES: Final = (CLAIMANT, AUDITOR, REGISTRY)
LARGEST: Final = 1_048_576
"""Bytes above which a file is no trust file."""
REMEDY: Final = "docs/certificates.md shows a trust file"
FIELDS: Final = {"key", "name", "roles", "not_after"}


@dataclass(frozen=True, slots=True)
class Party:
    """Somebody whose key is believed.

    Attributes:
        key: the public key.
        name: whose it is. One who has several keys, of which an older one has expired, has one name in all of them.
        roles: what its signatures count as.
        not_after: last day on which a signature of the key counts; None without end.
    """

    key: PublicKey
    name: str
    roles: tuple[str, ...]
    not_after: datetime.date | None


def read(path: Path) -> tuple[Party, ...]:
    """The parties of a trust file.

    Raises:
        UsageError: it cannot be read, or an entry is not as documented; the error names the entry.
    """
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise UsageError(f"the trust file {path} cannot be read: {error.strerror}", REMEDY) from None
    if len(data) > LARGEST:
        raise UsageError(f"the trust file {path} has more than {LARGEST} bytes", REMEDY)
    try:
        value = yaml.load(data.decode("utf-8"), _Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # nothing of its text is shown: it may be a private key
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        why = getattr(error, "problem", None) or type(error).__name__
        raise UsageError(f"the trust file {path} is not YAML{where}: {why}", REMEDY) from None
    if not isinstance(value, list):
        raise UsageError(f"the trust file {path} must hold a list of keys", REMEDY)
    found: list[Party] = []
    for number, entry in enumerate(value, 1):
        where = f"the trust file {path}, entry {number}"
        party = _party(entry, where)
        if any(party.key == other.key for other in found):
            raise UsageError(f"{where}: the key of {party.name} stands twice", "One entry may have several roles")
        found.append(party)
    return tuple(found)


def holder(parties: Sequence[Party], key: PublicKey) -> Party | None:
    """Whose key it is; None where it is nobody's."""
    return next((party for party in parties if party.key == key), None)


class _Loader(yaml.SafeLoader):
    """YAML in which a key that stands twice is an error."""


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    pairs = [(loader.construct_object(key), loader.construct_object(value, deep=True)) for key, value in node.value]
    found: dict[Any, Any] = {}
    for key, value in pairs:
        if not isinstance(key, str) or key in found:
            name = f"the key {key!r}" if isinstance(key, str) and key in FIELDS else "a key"
            problem = f"{name} is no text, or stands twice in one entry"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
        found[key] = value
    return found


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def _party(entry: Any, where: str) -> Party:
    if not isinstance(entry, dict) or not FIELDS - {"not_after"} <= entry.keys() <= FIELDS:
        raise UsageError(f"{where}: expected key, name, roles and perhaps not_after, and nothing else", REMEDY)
    name, roles, until = entry["name"], entry["roles"], entry.get("not_after")
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise UsageError(f"{where}: the name must be one line of text, is {name!r:.60}", REMEDY)
    if not isinstance(roles, list) or not roles:
        raise UsageError(f"{where}: roles must be a list of {', '.join(ROLES)}, is {roles!r:.60}", REMEDY)
    for role in roles:
        if role not in ROLES:
            raise UsageError(f"{where}: unknown role {role!r:.60}; known are {', '.join(ROLES)}", REMEDY)
    if until is not None and type(until) is not datetime.date:
        raise UsageError(f"{where}: not_after must be a date such as 2031-12-31, or null, is {until!r:.60}", REMEDY)
    if not isinstance(entry["key"], str):
        raise UsageError(f"{where}: the key must be a line like 'ssh-ed25519 AAAA...'", REMEDY)
    return Party(PublicKey.parse(entry["key"], where), name, tuple(dict.fromkeys(roles)), until)
