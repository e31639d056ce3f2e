"""Canonical JSON (RFC 8785) and SHA-256 digests: the only forms that enter a hash."""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Sequence
from json.encoder import encode_basestring
from typing import Any

import rfc8785

from dcpflow.errors import EvidenceError
from dcpflow.records import finite, large_json

DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
MAX_DEPTH = 64
# The standard library writes the same text, many times as fast, but for some numbers (integral floats, exponents,
# large integers) and for the order of keys with rare letters; such texts are left to rfc8785. A false alarm, from
# within a string, costs time only.
_QUICK = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"))
# a key that was no text in Python would be written as one
_KEY_TO_CARE_FOR = re.compile(r'[{,]"(?:[-+.0-9e]+|true|false|null|NaN|-?Infinity)":')
# the quotation mark before a colon spares the digests, which would give a false alarm more often than not
_NUMBER_TO_CARE_FOR = re.compile(r'(?:^|":|[,\[])-?(?:[0-9]+(?:\.0(?![0-9])|[.0-9]*e)|[0-9]{16}|Infinity|NaN)')


_LONG = re.compile("[0-9]{16}")
_TEXTS = frozenset({str})
_DIGITS = 15
_SMALL: int = 10**_DIGITS


def encode(value: Any) -> bytes:
    """Canonical JSON bytes of a value made of dict, list, str, int, float, bool and None.

    Integers must lie within ±2^53 (RFC 8785), floats must be finite; larger numbers travel as strings.
    """
    if type(value) is str and value.isascii():
        return encode_basestring(value).encode()
    try:
        quick = _QUICK.encode(value)
    except (TypeError, ValueError):
        return rfc8785.dumps(value)  # which says what has no canonical form
    looks_safe = _is_plain(value) or not (_has_number_to_care_for(quick) or _KEY_TO_CARE_FOR.search(quick))
    if looks_safe and (quick.isascii() or max(quick) < "\ud800"):
        return quick.encode()
    return rfc8785.dumps(value)


def _is_plain(value: Any) -> bool:
    """Whether a value consists of texts and small integers alone, which need no care; sooner seen than in its text."""
    match value:
        case str() | bool() | None:
            return True
        case int():
            return -_SMALL < value < _SMALL
        case list():
            return all(_is_plain(item) for item in value if type(item) is not str)
        case dict():
            # most are texts, for which no call is made
            others = [item for item in value.values() if type(item) is not str]
            return _TEXTS.issuperset(map(type, value)) and all(map(_is_plain, others))
        case _:
            return False


def _has_number_to_care_for(text: str) -> bool:
    """Whether there may be one; most texts lack what is looked for first, which takes a tenth of the time."""
    there = ".0" in text or "e-" in text or "e+" in text or "Infinity" in text or "NaN" in text or _LONG.search(text)
    return bool(there) and _NUMBER_TO_CARE_FOR.search(text) is not None


def digest(data: bytes | memoryview[Any], *more: bytes) -> str:
    """``sha256:`` and 64 lower-case hex digits of the bytes, and of those that follow them."""
    found = hashlib.sha256(data)
    for part in more:
        found.update(part)
    return f"sha256:{found.hexdigest()}"


def digest_of(value: Any) -> str:
    """Digest of the canonical JSON of a value."""
    return digest(encode(value))


def digest_of_numbers(numbers: Sequence[float]) -> str:
    """Digest of numbers in their IEEE 754 forms of eight bytes, the lowest byte first: of thousands of them much sooner
    made than their text."""
    return digest(struct.pack(f"<{len(numbers)}d", *numbers))


def decode(data: bytes, where: str) -> Any:
    """Strictly read JSON: UTF-8, no duplicate keys, no NaN or Infinity, at most 64 levels deep.

    Args:
        data: the bytes of one JSON text.
        where: the file or message that they come from, for the error.

    Raises:
        EvidenceError: the bytes are not such JSON.
    """
    if (quick := large_json.read(data, MAX_DEPTH)) is not None:
        return quick
    try:
        text = data.decode("utf-8")
        value = _DECODER.decode(text)
        if "\\ud" in text.lower():
            json.dumps(value, ensure_ascii=False).encode("utf-8")  # an unpaired surrogate is no text
    except _Odd as error:
        raise EvidenceError(f"{where}: {error}") from None
    except UnicodeDecodeError as error:
        raise EvidenceError(f"{where}: not UTF-8 at byte {error.start}") from None
    except UnicodeEncodeError:
        raise EvidenceError(f"{where}: an unpaired surrogate is no text") from None
    except json.JSONDecodeError as error:
        raise EvidenceError(f"{where}: not JSON at line {error.lineno}, column {error.colno}: {error.msg}") from None
    except (RecursionError, ValueError) as error:
        raise EvidenceError(f"{where}: not JSON that can be read ({error})") from None
    if text.count("[") + text.count("{") > MAX_DEPTH and _too_deep(value):
        raise EvidenceError(f"{where}: nested more than {MAX_DEPTH} levels deep")
    return value


def decode_encoded(data: bytes, where: str) -> Any:
    """Strictly read JSON that has to be in its canonical form.

    Raises:
        EvidenceError: the bytes are not such JSON.
    """
    if (quick := _plainly_encoded(data)) is not None:
        return quick
    value = decode(data, where)
    if encode(value) != data:
        raise EvidenceError(f"{where}: not in canonical form")
    return value


def _plainly_encoded(data: bytes) -> Any:
    """The value of texts and small integers whose canonical form the bytes plainly are; None for all other bytes.

    What is read without more care is what stands there, where writing it gives the same bytes: a key that stood twice
    would be written once.
    """
    if not data.isascii() or data.count(b"[") + data.count(b"{") > MAX_DEPTH:
        return None
    text = data.decode()
    try:
        value = _PLAIN_DECODER.decode(text)
    except (_Odd, ValueError):
        return None
    return value if _QUICK.encode(value) == text else None


class _Odd(Exception):
    """JSON that is not read here."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise _Odd(f"the key {twice!r} stands twice in one object")
    return found


def _integer(token: str) -> int | float:
    """Canonical JSON writes numbers from 2^53 on without a point; they are doubles all the same."""
    number = int(token)
    if abs(number) < 1 << 53:
        return number
    if rfc8785.dumps(float(token)) != token.encode():
        raise ValueError(f"{token:.40} is no number that a double holds")
    return float(token)


_finite, _refuse = finite.hooks(_Odd, "is beyond the range of numbers", "is not JSON")


def _small(token: str) -> int:
    if len(token) > _DIGITS:
        raise _Odd("large")
    return int(token)


_PLAIN_DECODER = json.JSONDecoder(parse_constant=_refuse, parse_int=_small, parse_float=_refuse)
_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse, parse_int=_integer, parse_float=_finite)


def _too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for node in level
            if isinstance(node, (dict, list))
            for child in (node.values() if isinstance(node, dict) else node)
        ]
        if not level:
            return False
    return True


def is_digest(value: object) -> bool:
    """Whether the value has the form of a digest."""
    return isinstance(value, str) and DIGEST.fullmatch(value) is not None
