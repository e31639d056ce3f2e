"""What a certificate is worth: every way in which it does not hold has a message of its own."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dcpflow.authority import kinds
from dcpflow.authority.certificate import Account, Certificate, Listed, Revocation, Verified, assess, hold
from dcpflow.authority.entry import Head
from dcpflow.authority.envelope import Envelope
from dcpflow.authority.keys import Signer
from dcpflow.authority.listing import listed
from dcpflow.authority.log import Log
from dcpflow.authority.statement import PAYLOAD_TYPE, Expiry, Statement, facts
from dcpflow.authority.trust import Party
from dcpflow.errors import EvidenceError
from dcpflow.records import canonical

Keys = Mapping[str, Signer]
TODAY = datetime.date(2026, 6, 1)
YESTERDAY, TOMORROW = TODAY - datetime.timedelta(1), TODAY + datetime.timedelta(1)
BOTH = ("auditor", "registry")


def issue(
    about: Verified,
    keys: Keys,
    signers: Sequence[str] = BOTH,
    expiry: Expiry = Expiry(),  # noqa: B008
    registry: Mapping[str, Any] | None = None,
) -> Certificate:
    stated = Statement(about.decision_digest, about.bundle_digest, facts(about.decision), expiry, registry, "0.1.0")
    envelope = Envelope(PAYLOAD_TYPE, stated.to_bytes(), {})
    for name in signers:
        envelope = envelope.signed_by(keys[name])
    return Certificate.parse(envelope.to_bytes(), "cert")


def with_signatures(made: Certificate, signatures: dict[str, bytes]) -> Certificate:
    return replace(made, envelope=replace(made.envelope, signatures=signatures))


@pytest.fixture
def keys(made_keys: Keys) -> Keys:
    return made_keys


@pytest.fixture
def trust(keys: Keys) -> tuple[Party, ...]:
    return tuple(Party(keys[name].public, name.title(), (name,), None) for name in ("auditor", "registry", "claimant"))


def other(about: Verified) -> Verified:
    decision = {**about.decision, "scope": {**about.decision["scope"], "model": "another"}}
    return Verified(decision, canonical.digest_of(decision), canonical.digest(b"another bundle"), about.registrations)


def only(account: Account) -> str:
    """The one fault; a certificate with a fault is never formal."""
    assert not account.formal
    (fault,) = account.faults
    return fault


def test_signed_by_auditor_and_registry_it_is_formal(about: Verified, keys: Keys, trust: tuple[Party, ...]) -> None:
    found = assess(issue(about, keys), about, trust, None, TODAY)
    assert (found.formal, found.faults, found.withheld) == (True, (), ())
    assert [(one.party and one.party.name, one.fault) for one in found.signatures] == [
        ("Auditor", ""),
        ("Registry", ""),
    ]


def test_without_a_trust_file_signatures_are_told_and_nothing_is_formal(about: Verified, keys: Keys) -> None:
    found = assess(issue(about, keys, ("stranger",)), about, None, None, TODAY)
    assert (found.formal, found.faults) == (False, ())
    assert found.withheld == ("nobody is trusted: no trust file was given",)
    assert [(one.fingerprint, one.party, one.fault) for one in found.signatures] == [
        (keys["stranger"].public.id, None, "")
    ]


def test_a_forged_signature(about: Verified, keys: Keys, trust: tuple[Party, ...]) -> None:
    made = issue(about, keys)
    damaged = {**made.envelope.signatures, keys["registry"].public.line: bytes(64)}
    for parties in (trust, None):
        found = assess(with_signatures(made, damaged), about, parties, None, TODAY)
        assert "it is forged, or the certificate was altered after it was signed" in only(found)
        assert keys["registry"].public.id in only(found)


def test_a_statement_altered_after_it_was_signed(about: Verified, keys: Keys, trust: tuple[Party, ...]) -> None:
    made = issue(about, keys, ("auditor",), Expiry(YESTERDAY))
    longer = replace(made.stated, expiry=Expiry())
    envelope = replace(made.envelope, payload=longer.to_bytes())
    assert "altered after" in only(assess(Certificate(envelope, longer), about, trust, None, TODAY))


def test_stripped_of_its_signatures(about: Verified, keys: Keys, trust: tuple[Party, ...]) -> None:
    made = issue(about, keys)
    assert "it carries no signature" in only(assess(with_signatures(made, {}), about, trust, None, TODAY))
    one = issue(about, keys, ("auditor",))
    found = assess(one, about, trust, None, TODAY)
    assert (found.faults, found.withheld) == ((), ("no trusted registry has signed it",))
    known = Listed("here", (keys["registry"].public,), shown=dict.fromkeys(made.envelope.signatures, TODAY))
    assert "a signature was stripped" in only(assess(one, about, trust, known, TODAY))


def test_signatures_swapped_among_their_keys(about: Verified, keys: Keys, trust: tuple[Party, ...]) -> None:
    made = issue(about, keys)
    names, signatures = list(made.envelope.signatures), list(made.envelope.signatures.values())
    swapped = with_signatures(made, dict(zip(names, reversed(signatures), strict=True)))
    found = assess(swapped, about, trust, None, TODAY)
    assert len(found.faults) == 2 and all("signatures were swapped" in fault for fault in found.faults)
    assert not found.formal


def test_replayed_from_another_decision(about: Verified, keys: Keys, trust: tuple[Party, ...]) -> None:
    elsewhere = issue(other(about), keys)
    assert "it is of another decision" in only(assess(elsewhere, about, trust, None, TODAY))
    mine = issue(about, keys, ())
    moved = with_signatures(mine, elsewhere.envelope.signatures)
    found = assess(moved, about, trust, None, TODAY)
    assert len(found.faults) == 2 and all("forged" in fault for fault in found.faults)


def test_replayed_from_another_kind_of_statement(about: Verified, keys: Keys) -> None:
    made = issue(about, keys)
    with pytest.raises(EvidenceError, match=r"expected the type application/vnd.in-toto\+json"):
        Certificate.parse(replace(made.envelope, payload_type="application/x").to_bytes(), "cert")


def test_of_the_decision_but_of_another_bundle(about: Verified, keys: Keys, trust: tuple[Party, ...]) -> None:
    made = issue(replace(about, bundle_digest=other(about).bundle_digest), keys)
    assert "it is of another bundle of this decision" in only(assess(made, about, trust, None, TODAY))


def test_a_signer_who_states_something_else_than_the_decision(
    about: Verified, keys: Keys, trust: tuple[Party, ...]
) -> None:
    stated = issue(about, keys).stated
    for change, says in (
        ({"recovery": {"upper_bound": 0.001, "challengers": 96}}, "what it says of recovery is not what the decision"),
        ({"prize": 1}, "it says something of 'prize'"),
    ):
        false = replace(stated, facts={**stated.facts, **change})
        envelope = Envelope(PAYLOAD_TYPE, false.to_bytes(), {}).signed_by(keys["auditor"]).signed_by(keys["registry"])
        assert says in only(assess(Certificate(envelope, false), about, trust, None, TODAY))


def test_an_expired_certificate(about: Verified, keys: Keys, trust: tuple[Party, ...]) -> None:
    assert assess(issue(about, keys, expiry=Expiry(TODAY)), about, trust, None, TODAY).formal
    late = assess(issue(about, keys, expiry=Expiry(YESTERDAY)), about, trust, None, TODAY)
    assert f"it expired: it stands until {YESTERDAY}" in only(late)


def test_a_newer_model_ends_what_was_to_stand_until_then(about: Verified, keys: Keys, trust: tuple[Party, ...]) -> None:
    made, signer = issue(about, keys, expiry=Expiry(None, ("family",))), (keys["registry"].public,)
    unknown = assess(made, about, trust, None, TODAY)
    assert not unknown.formal and "whether a newer model of family is listed is not known" in unknown.withheld[0]
    assert assess(made, about, trust, Listed("here", signer), TODAY).formal
    listed_newer = Listed("here", signer, newer={"family": TODAY, "others": YESTERDAY})
    assert f"a newer model of family is listed since {TODAY}" in only(assess(made, about, trust, listed_newer, TODAY))
    assert assess(made, about, trust, listed_newer, YESTERDAY).formal


def test_a_signature_of_an_expired_key(about: Verified, keys: Keys, trust: tuple[Party, ...]) -> None:
    made, ended = issue(about, keys), (replace(trust[0], not_after=YESTERDAY), *trust[1:])
    assert assess(made, about, ended, None, YESTERDAY).formal
    found = assess(made, about, ended, None, TODAY)
    assert f"the key expired: it is trusted until {YESTERDAY}" in only(found)
    assert "no trusted auditor has signed it" in found.withheld
    shown = Listed("here", (keys["registry"].public,), signed={keys["auditor"].public.line: YESTERDAY})
    assert assess(made, about, ended, shown, TODAY).formal, "a registry shows that it was made in time"
    late = replace(shown, signed={keys["auditor"].public.line: TODAY})
    assert "the key expired" in only(assess(made, about, ended, late, TODAY))


def test_a_revoked_certificate(about: Verified, keys: Keys, trust: tuple[Party, ...]) -> None:
    entry = Revocation(7, TOMORROW, "certificate", "verifier_flaw", "the scorer was wrong")
    known = Listed("here", (keys["registry"].public,), (entry,))
    fault = only(assess(issue(about, keys), about, trust, known, TODAY))
    assert fault == (
        f"the certificate was revoked on {TOMORROW} (entry 7 of the registry here): verifier_flaw: the scorer was wrong"
    )
    assert only(assess(None, about, trust, known, TODAY)) == fault


def test_key_ids_of_others(about: Verified, keys: Keys, trust: tuple[Party, ...]) -> None:
    """DSSE leaves ids to the writer: a trusted key's signature counts under any, another cannot be checked."""
    made = issue(about, keys)
    lines = {name: keys[name].public.line for name in BOTH}
    named = {f"kid-{name}": made.envelope.signatures[line] for name, line in lines.items()}
    assert assess(with_signatures(made, named), about, trust, None, TODAY).formal
    fault = only(assess(with_signatures(made, {"kid": bytes(64)}), about, trust, None, TODAY))
    assert "its key id is no public key, and no trusted key has made it" in fault


@pytest.mark.parametrize(
    ("roles", "names", "says"),
    [
        ({"auditor": ("claimant", "auditor")}, {}, "Auditor has signed as auditor, but is the claimant"),
        ({}, {"auditor": "Claimant"}, "Claimant has signed as auditor, but is the claimant"),
        ({}, {"registry": "Claimant"}, "Claimant has signed as registry, but is the claimant"),
        ({}, {"registry": "Auditor"}, "auditor and registry are one party, Auditor"),
        ({"registry": ("auditor",)}, {}, "no trusted registry has signed it"),
        ({"auditor": ("registry",)}, {}, "no trusted auditor has signed it"),
    ],
)
def test_two_parties_have_to_sign_and_neither_is_the_claimant(
    about: Verified, keys: Keys, roles: dict[str, tuple[str, ...]], names: dict[str, str], says: str
) -> None:
    trust = [Party(keys[name].public, names.get(name, name.title()), roles.get(name, (name,)), None) for name in BOTH]
    found = assess(issue(about, keys), about, trust, None, TODAY)
    assert not found.formal and not found.faults
    assert says in found.withheld


def test_one_key_is_not_two_parties(about: Verified, keys: Keys) -> None:
    both = [Party(keys["auditor"].public, "Auditor", ("auditor", "registry"), None)]
    found = assess(issue(about, keys, ("auditor",)), about, both, None, TODAY)
    assert found.withheld == ("auditor and registry are one party, Auditor",)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"core": {"status": "inconclusive", "class": "statistical", "exploratory": False}}, "Core is inconclusive"),
        ({"core": {"status": "certified", "class": None, "exploratory": True}}, "Core is exploratory"),
        ({"roles": {"claimant": "C", "self_audited": True}}, "self_audited"),
        ({"registration": {"contract": "", "digest": "", "amendments": [], "public_demonstration": "t"}}, "was public"),
    ],
)
def test_decisions_that_are_never_formal(
    about: Verified, keys: Keys, trust: tuple[Party, ...], change: dict[str, Any], says: str
) -> None:
    such = replace(about, decision={**about.decision, **change})
    (reason,) = assess(issue(such, keys), such, trust, None, TODAY).withheld
    assert says in reason


# with a registry


@pytest.fixture
def log(tmp_path: Path, about: Verified, keys: Keys) -> Log:
    """A registry that lists the decision, and another one before it."""
    made = Log.create(tmp_path / "registry", Head("here", keys["registry"].public))
    for one in (other(about), about):
        body = {
            "claim": "claim-1",
            "family": "f",
            "slot": "f-1",
            "run": "0" * 32,
            "registration": about.decision["registration"]["digest"],
            "decision": one.decision_digest,
            "core": "certified",
            "evidence": "not_tested",
        }
        made = made.append(kinds.DECIDED, body)
    return made.sign(keys["registry"])


def shown(log: Log, number: int) -> dict[str, Any]:
    return {"origin": log.head.origin, "entry": number, "proof": log.prove(number)}


def judged(made: Certificate, about: Verified, trust: tuple[Party, ...], log: Log | None) -> Account:
    return assess(made, about, trust, listed(log, about, made) if log else None, TODAY)


def test_an_entry_in_a_registry_is_proven(about: Verified, keys: Keys, trust: tuple[Party, ...], log: Log) -> None:
    made = issue(about, keys, registry=shown(log, 2))
    assert judged(made, about, trust, log).formal
    alone = judged(made, about, trust, None)
    assert alone.withheld == ("it names the registry here, which was not given: whether it was revoked is not known",)
    unknown = judged(made, about, trust[:1], log)
    assert "no trusted registry has signed the checkpoint of here that it holds" in unknown.withheld
    assert "no trusted registry has signed the last checkpoint of here that was given" in unknown.withheld
    hold(made.stated, log)


def test_a_registry_that_has_changed_its_key(about: Verified, keys: Keys, trust: tuple[Party, ...], log: Log) -> None:
    """What it signed with the old one still counts, as far as it shows when; the state given needs the new one."""
    made = issue(about, keys, registry=shown(log, 2))
    body = {"certificate": made.digest, "decision": about.decision_digest, "registration": about.bundle_digest}
    log = log.append(kinds.CERTIFIED, {**body, "keys": list(made.envelope.signatures)}).sign(keys["registry"])
    day = datetime.date.fromisoformat(log.entries[-1].date[:10])
    new = Party(keys["stranger"].public, "Registry", ("registry",), None)
    parties, later = (trust[0], replace(trust[1], not_after=day), new), day + datetime.timedelta(1)
    old = assess(made, about, parties, listed(log, about, made), later)
    assert old.withheld == ("no trusted registry has signed the last checkpoint of here that was given",)
    now = listed(log.sign(keys["stranger"]), about, made)
    assert assess(made, about, parties, now, later).formal


def test_proofs_that_show_something_else(about: Verified, keys: Keys, trust: tuple[Party, ...], log: Log) -> None:
    right = shown(log, 2)
    proof = right["proof"]
    for registry, says in (
        (shown(log, 1), "entry 1 of the registry here, which it names, is not of this decision"),
        ({**right, "entry": 1}, "its proof is of entry 2 of the registry here, not of the one that it names"),
        ({**right, "origin": "x"}, "its proof is of entry 2 of the registry here, not of the one that it names"),
        ({**right, "proof": {**proof, "path": []}}, "entry 2 is not shown to be among the 2"),
        ({**right, "proof": {**proof, "path": [1]}}, "the path must be hashes"),
        ({**right, "proof": {**proof, "checkpoint": "{}"}}, "not a DSSE envelope"),
        ({**right, "proof": {"checkpoint": proof["checkpoint"]}}, "not a dcpflow.registry-proof/1"),
        ({**right, "proof": {**proof, "entry": proof["entry"].replace("f-1", "f-2")}}, "is not shown"),
    ):
        assert says in only(judged(issue(about, keys, registry=registry), about, trust, log)), says


def test_a_registry_that_was_rewritten_since(
    tmp_path: Path, about: Verified, keys: Keys, trust: tuple[Party, ...], log: Log
) -> None:
    made = issue(about, keys, registry=shown(log, 2))
    anew = Log.create(tmp_path / "anew", Head("here", keys["registry"].public))
    for _ in range(3):
        anew = anew.append(kinds.NEWER_MODEL, {"family": "f", "model": "m"})
    with pytest.raises(EvidenceError, match="the log is forked"):
        hold(made.stated, anew.sign(keys["registry"]))
    hold(replace(made.stated, registry=None), anew)


def test_what_a_registry_lists_of_a_decision(about: Verified, keys: Keys, trust: tuple[Party, ...], log: Log) -> None:
    registration = about.decision["registration"]["digest"]
    made = issue(about, keys)
    body = {"certificate": made.digest, "decision": about.decision_digest, "registration": registration}
    log = log.append(kinds.CERTIFIED, {**body, "keys": [keys["auditor"].public.line]})
    log = log.append(kinds.CERTIFIED, {**body, "keys": list(made.envelope.signatures)})
    log = log.append(kinds.CERTIFIED, {**body, "certificate": about.bundle_digest, "keys": ["another's"]})
    log = log.append(kinds.NEWER_MODEL, {"family": "family", "model": "m-2"})
    log = log.append(kinds.WITNESS, {"registration": registration, "record": about.bundle_digest, "text": "by hand"})
    log = log.append(kinds.WITNESS, {"registration": about.bundle_digest, "record": about.bundle_digest, "text": ""})
    day = datetime.date.fromisoformat(log.entries[-1].date[:10])
    found = listed(log, about, made)
    assert found.shown == dict.fromkeys(made.envelope.signatures, day)
    assert found.signed == {}, "what no checkpoint covers speaks for nothing"
    assert listed(log.sign(keys["registry"]), about, made).signed == found.shown
    assert found.newer == {"family": day}
    assert [(one.entry, one.date, one.text) for one in found.witnesses] == [(7, day, "by hand")]
    assert found.revocations == ()
    assert found.signers == (keys["registry"].public,)


@pytest.mark.parametrize("of", ["certificate", "decision"])
def test_each_kind_of_revocation_reaches_its_certificate(
    about: Verified, keys: Keys, trust: tuple[Party, ...], log: Log, of: str
) -> None:
    made = issue(about, keys)
    digests = {"certificate": made.digest, "decision": about.decision_digest}
    entry = {"of": of, "digest": canonical.digest(b"another"), "reason": "leaked_seal", "text": ""}
    log = log.append(kinds.REVOKED, entry)
    assert judged(made, about, trust, log).formal
    found = judged(made, about, trust, log.append(kinds.REVOKED, {**entry, "digest": digests[of]}))
    assert f"the {of} was revoked on" in only(found)


def test_one_more_signature_does_not_escape_a_revocation(about: Verified, keys: Keys) -> None:
    made = issue(about, keys, ("auditor",))
    again = Certificate(made.envelope.signed_by(keys["stranger"]), made.stated)
    assert again.digest == made.digest


def test_no_altered_byte_leaves_it_formal(about: Verified, keys: Keys, trust: tuple[Party, ...]) -> None:
    made = issue(about, keys)
    data = made.envelope.to_bytes()
    for place in range(0, len(data), 3):
        altered = bytearray(data)
        altered[place] ^= 1 << place % 7
        try:
            found = Certificate.parse(bytes(altered), "cert")
        except EvidenceError:
            continue
        # some letters of base64 have bits that mean nothing, and a key id is a hint
        parts = [(one.payload, list(one.signatures.values())) for one in (found.envelope, made.envelope)]
        assert parts[0] == parts[1] or not assess(found, about, trust, None, TODAY).formal
