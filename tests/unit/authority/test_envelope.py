"""DSSE envelopes: the specification's vector, another implementation, and what is refused."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from securesystemslib.dsse import Envelope as TheirEnvelope
from securesystemslib.signer import SSlibKey

from dcpflow.authority.envelope import Envelope, pre_authentication
from dcpflow.authority.keys import Signer
from dcpflow.errors import EvidenceError

TYPE = "application/vnd.dcpflow.test+json"


@pytest.fixture
def signers(tmp_path: Path) -> list[Signer]:
    return [Signer.new(tmp_path / name) for name in ("auditor", "registry", "stranger")]


def test_what_is_signed_is_the_specifications_vector() -> None:
    found = pre_authentication("http://example.com/HelloWorld", b"hello world")
    assert found == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    assert pre_authentication("é", b"") == b"DSSEv1 2 \xc3\xa9 0 "


def test_another_implementation_verifies_ours_and_ours_that_one(signers: list[Signer]) -> None:
    ours = Envelope(TYPE, b'{"a":1}', {}).signed_by(signers[0]).signed_by(signers[1])
    theirs = TheirEnvelope.from_dict(json.loads(ours.to_bytes()))
    keys = [
        SSlibKey(signer.public.line, "ed25519", "ed25519", {"public": signer.public.raw.hex()})
        for signer in signers[:2]
    ]
    assert set(theirs.verify(keys, 2)) == {signer.public.line for signer in signers[:2]}
    assert Envelope.parse(json.dumps(theirs.to_dict()).encode(), "theirs", TYPE) == ours


def test_a_signature_counts_for_its_own_key_type_and_payload_alone(signers: list[Signer]) -> None:
    auditor, registry, stranger = signers
    keys = [signer.public for signer in signers]
    signed = Envelope(TYPE, b"one", {}).signed_by(auditor).signed_by(registry)
    assert signed.signers(keys) == keys[:2]
    assert Envelope.parse(signed.to_bytes(), "here", TYPE).signers(keys) == keys[:2]
    assert Envelope(TYPE, b"two", signed.signatures).signers(keys) == []
    assert Envelope(TYPE + "2", b"one", signed.signatures).signers(keys) == []
    swapped = {auditor.public.line: signed.signatures[registry.public.line], stranger.public.line: b""}
    assert Envelope(TYPE, b"one", swapped).signers(keys) == []
    assert Envelope(TYPE, b"one", {}).signers(keys) == []


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"payloadType": "application/x"}, "expected the type"),
        ({"payload": "%%"}, "not base64"),
        ({"payload": 1}, "not base64"),
        ({"signatures": {}}, "must be a list"),
        ({"signatures": [{"keyid": "a", "sig": ""}] * 2}, "stands twice"),
        ({"signatures": [{"keyid": str(number), "sig": ""} for number in range(65)]}, "at most 64"),
        ({"signatures": [{"sig": ""}]}, "keyid and sig"),
        ({"signatures": [{"keyid": "a", "sig": None}]}, "not base64"),
        ({"more": 1}, "not a DSSE envelope"),
    ],
)
def test_a_damaged_envelope_is_refused(signers: list[Signer], change: dict[str, Any], says: str) -> None:
    whole = json.loads(Envelope(TYPE, b"one", {}).signed_by(signers[0]).to_bytes())
    with pytest.raises(EvidenceError, match=f"cert: .*{says}"):
        Envelope.parse(json.dumps(whole | change).encode(), "cert", TYPE)


def test_either_alphabet_of_base64_is_read() -> None:
    data = b"\xfb\xff\xfe"
    text = json.dumps({"payload": base64.urlsafe_b64encode(data).decode(), "payloadType": TYPE, "signatures": []})
    assert Envelope.parse(text.encode(), "here", TYPE).payload == data
