"""The statement of a certificate: in-toto's own library reads it, and it is read in one form only."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf import json_format
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement as TheirStatement

from dcpflow.authority.certificate import Verified
from dcpflow.authority.statement import DECISION, PREDICATE_TYPE, Expiry, Statement, day, facts
from dcpflow.errors import EvidenceError
from dcpflow.records import canonical


@pytest.fixture
def stated(about: Verified) -> Statement:
    expiry = Expiry(datetime.date(2031, 12, 31), ("family-a", "family-b"))
    return Statement(about.decision_digest, about.bundle_digest, facts(about.decision), expiry, None, "0.1.0")


def test_in_totos_own_library_validates_it(stated: Statement) -> None:
    read = json_format.Parse(stated.to_bytes(), statement_pb2.Statement())
    theirs = TheirStatement.copy_from_pb(read)
    theirs.validate()
    assert theirs.pb.predicate_type == PREDICATE_TYPE
    assert theirs.pb.subject[0].name == DECISION
    assert theirs.pb.subject[0].digest["sha256"] == stated.decision.removeprefix("sha256:")
    assert theirs.pb.predicate["recovery"]["challengers"] == 96


def test_what_was_written_is_read(stated: Statement) -> None:
    assert Statement.parse(stated.to_bytes(), "here") == stated
    endless = Statement(stated.decision, stated.bundle, stated.facts, Expiry(), None, "0.1.0")
    assert Statement.parse(endless.to_bytes(), "here") == endless


def test_it_says_what_the_decision_says(decision: dict[str, Any]) -> None:
    found = facts(decision)
    assert found["core"] == {"status": "certified", "class": None, "exploratory": False}
    assert found["recovery"] == {"upper_bound": 0.0399, "challengers": 96}
    assert (found["amended"], found["demonstration"]) == (False, False)
    decision["registration"] |= {"amendments": [{}], "public_demonstration": "text"}
    assert (facts(decision)["amended"], facts(decision)["demonstration"]) == (True, True)


Change = Callable[[dict[str, Any]], Any]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda v: v.update(_type="https://in-toto.io/Statement/v0.1"), "not an in-toto statement"),
        (lambda v: v.update(predicateType="urn:dcpflow:certificate:2"), "expected urn:dcpflow:certificate:1"),
        (lambda v: v.update(predicateType="https://slsa.dev/provenance/v1"), "expected urn:dcpflow:certificate:1"),
        (lambda v: v.update(more=1), "not in the form"),
        (lambda v: v["subject"].pop(), "not a certificate as documented"),
        (lambda v: v["subject"].reverse(), "not in the form"),
        (lambda v: v["subject"].append(v["subject"][0]), "not in the form"),
        (lambda v: v["subject"][0]["digest"].update(sha512="00"), "not in the form"),
        (lambda v: v["subject"][0]["digest"].update(sha256="00"), "sha256 is '00'"),
        (lambda v: v.update(subject=7), "not a certificate as documented"),
        (lambda v: v.update(predicate=[]), "not a certificate as documented"),
        (lambda v: v["predicate"].pop("expires"), "not a certificate as documented"),
        (lambda v: v["predicate"]["expires"].update(date="31.12.2031"), "no date such as"),
        (lambda v: v["predicate"]["expires"].update(date="2031-02-30"), "not a certificate as documented"),
        (lambda v: v["predicate"]["expires"].update(newer_models=[1]), "newer_models must be a list of text"),
        (lambda v: v["predicate"]["expires"].update(newer_models="ab"), "not in the form"),
        (lambda v: v["predicate"].update(claim="x"), "not a certificate as documented"),
        (lambda v: v["predicate"].update(dcpflow=1), "must be text"),
        (lambda v: v["predicate"].update(registry={"origin": "x"}), "registry must be null, or have"),
        (lambda v: v["predicate"].update(registry={"origin": "x", "entry": "1", "proof": {}}), "must be text, entry"),
        (lambda v: v["predicate"].update(registry={"origin": "x", "entry": 1, "proof": {}}), "checkpoint must be text"),
    ],
)
def test_another_form_is_refused(stated: Statement, change: Change, says: str) -> None:
    value = json.loads(stated.to_bytes())
    change(value)
    with pytest.raises(EvidenceError) as error:
        Statement.parse(canonical.encode(value), "cert")
    assert str(error.value).startswith("cert: ") and says in str(error.value)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"7", b"[" * 100_000, b'{"_type":1,"_type":1}', b"\xff"])
def test_what_is_no_statement_is_refused(data: bytes) -> None:
    with pytest.raises(EvidenceError, match="cert"):
        Statement.parse(data, "cert")


def test_the_same_statement_in_another_layout_is_refused(stated: Statement) -> None:
    with pytest.raises(EvidenceError, match="not in the form"):
        Statement.parse(json.dumps(json.loads(stated.to_bytes()), indent=1).encode(), "cert")


@pytest.mark.parametrize("text", ["2031-1-1", "20310101", "2031-12-31T00:00", "", None, 7, "２０３１-12-31"])
def test_days_have_one_form(text: object) -> None:
    with pytest.raises(ValueError, match="no date such as"):
        day(text)
    assert day("2031-12-31") == datetime.date(2031, 12, 31)
