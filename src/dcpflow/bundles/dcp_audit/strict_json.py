"""Reading JSON that somebody else wrote: strictly, within limits, with a named error for every refusal."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, Final

from dcpflow.bundles.dcp_audit.errors import BundleError
from dcpflow.records import finite, large_json

MAX_BYTES: Final = 64 * 1024 * 1024
"""Largest file that is read. The published bundles stay below 1 MiB."""
MAX_DEPTH: Final = 32
"""Deepest nesting. A bundle's own payloads need 5; ``registration.notes`` is free."""

_STRUCTURE: Final = re.compile(rb'["\\\[\]{}]')


def loads(data: bytes, file: str) -> Any:
    """Decode one JSON document.

    Refused beyond what JSON refuses: encodings other than UTF-8, a byte order mark, lone surrogates,
    duplicate keys, NaN and infinities (also as overflowing numbers), more than :data:`MAX_BYTES` bytes or
    :data:`MAX_DEPTH` levels.

    Raises:
        BundleError: Naming the rule. Never RecursionError.
    """
    if len(data) > MAX_BYTES:
        raise BundleError(file, "", "size", f"{len(data)} bytes, at most {MAX_BYTES} are read")
    if (quick := large_json.read(data, MAX_DEPTH)) is not None:
        return quick
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH:
        _check_depth(data, file)

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(items)
        if len(result) != len(items):
            twice = _first_repeated([key for key, _ in items])
            raise BundleError(file, "", "duplicate_key", f"{twice!r} stands twice in one object")
        return result

    number, constant = finite.hooks(lambda fault: BundleError(file, "", "finite", fault))
    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=pairs, parse_constant=constant, parse_float=number)
        if b"\\u" in data:
            # Escaped lone surrogates decode to strings that no digest can be taken of.
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeError as error:
        raise BundleError(file, "", "utf8", f"not UTF-8 text: {error}") from None
    except ValueError as error:
        raise BundleError(file, "", "json", f"not JSON: {error}") from None
    return value


def stored_form(value: Any) -> bytes:
    """The writer's form (5.2): sorted keys, no blanks, UTF-8, one newline at the end."""
    return compact(value) + b"\n"


def compact(value: Any) -> bytes:
    """As :func:`stored_form`, without the newline."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8")


def digest(data: bytes) -> str:
    """The bundle's digest of a file's bytes (5.2)."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def _check_depth(data: bytes, file: str) -> None:
    """One pass over brackets, quotes and backslashes.

    Before decoding, since the decoder recurses. Linear in the input, whatever it is.
    """
    depth, in_string, escaped_until = 0, False, 0
    for match in _STRUCTURE.finditer(data):
        if match.start() < escaped_until:
            continue
        token = match.group()
        if token == b"\\":
            escaped_until = match.end() + 1
        elif token == b'"':
            in_string = not in_string
        elif not in_string:
            depth += 1 if token in (b"[", b"{") else -1
            if depth > MAX_DEPTH:
                raise BundleError(file, "", "depth", f"nested deeper than {MAX_DEPTH} levels")


def _first_repeated(keys: list[str]) -> str:
    seen: set[str] = set()
    for key in keys:
        if key in seen:
            return key
        seen.add(key)
    raise AssertionError("called without a repeated key")
