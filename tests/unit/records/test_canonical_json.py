"""Canonical JSON: the published vectors, and nothing ambiguous that enters a digest."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from dcpflow.errors import EvidenceError
from dcpflow.records import canonical

SAFE = 2**53 - 1
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-SAFE, SAFE)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=12,
)


def test_the_example_of_rfc_8785_section_3_2_2() -> None:
    text = r"""{
      "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
      "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
      "literals": [null, true, false]
    }"""
    assert canonical.encode(json.loads(text)) == (
        b'{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        b'"string":"\xe2\x82\xac$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )


def test_keys_are_sorted_by_utf_16_code_units() -> None:
    # RFC 8785, section 3.2.3: the emoji's surrogates sort before U+FB33, although its code point does not
    names = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\u0080", "\u00f6"]
    assert list(json.loads(canonical.encode(dict.fromkeys(names, 0)))) == [
        "\r",
        "1",
        "\u0080",
        "\u00f6",
        "\u20ac",
        "\U0001f600",
        "\ufb33",
    ]


@pytest.mark.parametrize(
    ("bits", "text"),
    [
        ("0000000000000000", "0"),
        ("8000000000000000", "0"),
        ("0000000000000001", "5e-324"),
        ("7fefffffffffffff", "1.7976931348623157e+308"),
        ("4340000000000000", "9007199254740992"),
        ("4430000000000000", "295147905179352830000"),
        ("44b52d02c7e14af5", "9.999999999999997e+22"),
        ("44b52d02c7e14af6", "1e+23"),
        ("44b52d02c7e14af7", "1.0000000000000001e+23"),
        ("444b1ae4d6e2ef4f", "999999999999999900000"),
        ("444b1ae4d6e2ef50", "1e+21"),
        ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
        ("3eb0c6f7a0b5ed8d", "0.000001"),
        ("41b3de4355555557", "333333333.33333343"),
        ("becbf647612f3696", "-0.0000033333333333333333"),
        ("43143ff3c1cb0959", "1424953923781206.2"),
    ],
)
def test_numbers_as_rfc_8785_appendix_b_writes_them(bits: str, text: str) -> None:
    (value,) = struct.unpack(">d", bytes.fromhex(bits))
    assert canonical.encode(value) == text.encode()


@given(VALUES)
@settings(max_examples=100, deadline=None, database=None)
def test_every_value_reads_back_as_itself_and_has_one_form(value: Any) -> None:
    data = canonical.encode(value)
    assert data == rfc8785.dumps(value)
    again = canonical.decode(data, "here")
    assert again == value
    assert canonical.encode(again) == data


@pytest.mark.parametrize("value", [2.0**53, 1e16, 3.576250675622803e16, -1e20])
def test_large_floats_read_back_as_themselves(value: float) -> None:
    data = canonical.encode(value)
    assert canonical.encode(canonical.decode(data, "here")) == data


@pytest.mark.parametrize(
    "value",
    [
        5.0,
        -0.0,
        [1.0, -2.0, 1e-7, 1e21, 123456789012345680.0],
        {"1": 1, "true": 2, "null": 3, "1.0": 4},
        '{"a":1.0,[2.0,NaN]}',
        ['\u2028\u2029\x7f\x00\b\f\n\r\t\\"/'],
        {"\U0001f600": 1, "\ufb33": 2, "\ue000": 3},
        [SAFE, -SAFE, 999_999_999_999_999, 1_000_000_000_000_000],
        [True, 1, False, 0, None],
        ((1, 2), [3]),
    ],
    ids=lambda value: repr(value)[:32],
)
def test_what_is_written_in_a_quicker_way_is_what_the_standard_says(value: Any) -> None:
    assert canonical.encode(value) == rfc8785.dumps(value)


def test_the_order_in_which_keys_were_written_does_not_matter() -> None:
    assert canonical.digest_of({"a": 1, "b": [2, {"d": 3, "c": 4}]}) == canonical.digest_of(
        {"b": [2, {"c": 4, "d": 3}], "a": 1}
    )


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), -float("inf"), 2**53, -(2**53), 10**400, "\ud800", {"\udfff": 1}, {1: 2}, b"x", {1}],
    ids=repr,
)
def test_what_has_no_canonical_form_is_refused(value: Any) -> None:
    with pytest.raises(ValueError):
        canonical.encode(value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b'{"a": 1, "b": {"c": 2, "c": 3}}', "'c' stands twice"),
        (b'{"a": 1, "\\u0061": 2}', "'a' stands twice"),
        (b"[NaN]", "NaN is not JSON"),
        (b"[Infinity]", "Infinity is not JSON"),
        (b"[-Infinity]", "-Infinity is not JSON"),
        (b'{"a": "\xff"}', "not UTF-8 at byte 7"),
        (b"\xef\xbb\xbf{}", "not JSON"),
        (b"", "not JSON at line 1"),
        (b'{"a": 1}\n{"a": 2}', "not JSON at line 2, column 1"),
        (b"{'a': 1}", "not JSON"),
        (b'["a\nb"]', "not JSON"),
        (b"9" * 5000, "not JSON that can be read"),
        (b"[" * 70 + b"1" + b"]" * 70, "nested more than 64 levels"),
        (b'{"a":' * 70 + b"1" + b"}" * 70, "nested more than 64 levels"),
        (b"[" * 100_000, "here"),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_what_is_not_strict_json_is_refused_and_its_place_named(text: bytes, says: str) -> None:
    with pytest.raises(EvidenceError) as caught:
        canonical.decode(text, "here")
    assert str(caught.value).startswith("here: ")
    assert says in str(caught.value)


@pytest.mark.parametrize("text", [b"[1e400]", b"[-1e999]", b'["\\ud800"]', b"[9007199254740993]"], ids=repr)
def test_what_could_not_be_written_canonically_is_not_read_either(text: bytes) -> None:
    with pytest.raises(EvidenceError):
        canonical.decode(text, "here")


def test_sixty_levels_are_read() -> None:
    assert canonical.decode(b"[" * 60 + b"]" * 60, "here")


@pytest.mark.parametrize(
    "value",
    [
        "sha256:" + "0" * 63,
        "sha256:" + "0" * 65,
        "sha256:" + "0" * 64 + "\n",
        "SHA256:" + "0" * 64,
        "sha256:" + "A" * 64,
        "0" * 64,
        None,
        7,
    ],
    ids=repr,
)
def test_only_the_exact_form_is_a_digest(value: object) -> None:
    assert canonical.is_digest(canonical.digest(b""))
    assert not canonical.is_digest(value)
