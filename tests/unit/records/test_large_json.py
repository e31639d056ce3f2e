"""Large texts are read by another reader, and come to exactly what a small one comes to."""

from __future__ import annotations

import random

import pytest

from dcpflow.errors import EvidenceError
from dcpflow.records import canonical, large_json

PADDING = b'{"padding":"%s","value":' % (b"x:" * (large_json.LARGE // 2))
VALUES = (
    b"[0.1,0.30000000000000004,5e-324,2.2250738585072011e-308,1,0,-0,-0.0,1e-6,1E+2]",
    b'{"a":{"b":[[],{},[{}],null,true,false,"a:b","\xc3\xa9"]}}',
    b"9007199254740993",
    b"[0.5,9007199254740993]",
    b"10000000000000000",
    b"[1e400]",
    b"[1,-1e400]",
    b"NaN",
    b"[0.5,Infinity]",
    b'{"a":1,"a":1}',
    b'{"a":{"x":1},"b":2,"a":[1]}',
    b'{"a:":1,"a:":2}',
    b'"\\ud800"',
    b'"\\u0061"',
    b'"\xff"',
    b'"a\nb"',
    b'"\x00"',
    b"[1,]",
    b"01",
    b"1.",
    b"+1",
    b"'a'",
    b"\xef\xbb\xbf1",
    b" [ 1 , 2 ] \n",
    b"[" * 62 + b"]" * 62,
    b"[" * 63 + b"1" + b"]" * 63,
    b"[" * 64 + b"]" * 64,
    b"[" * 5000 + b"]" * 5000,
    b"1} {",
)


def read(data: bytes) -> object:
    try:
        return repr(canonical.decode(data, "here"))
    except EvidenceError as error:
        return type(error)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value[:24]))
def test_a_large_text_is_read_or_refused_as_a_small_one(value: bytes) -> None:
    large = read(PADDING + value + b"}")
    small = read(b'{"padding":"","value":' + value + b"}")
    assert large == (small.replace("''", repr("x:" * (large_json.LARGE // 2)), 1) if isinstance(small, str) else small)


def test_scores_are_read_quickly_to_the_last_bit() -> None:
    draw = random.Random(1)
    rows = [{"reason": "a: b", "units": [draw.random() * 10.0 ** -draw.randrange(8) for _ in range(100)]}] * 600
    data = canonical.encode(rows)
    assert large_json.read(data, canonical.MAX_DEPTH) == rows == canonical.decode(data, "here")
