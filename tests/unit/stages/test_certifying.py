"""Certificates of a finished audit: the commands, the keys that they take, what verify says afterwards."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dcpflow import cli
from dcpflow.authority import kinds
from dcpflow.authority.certificate import Certificate
from dcpflow.authority.entry import Head
from dcpflow.authority.keys import Signer
from dcpflow.authority.log import Log
from dcpflow.authority.statement import Expiry
from dcpflow.bundles.export import export
from dcpflow.bundles.verify import Verification, verify
from dcpflow.errors import UsageError
from dcpflow.records import canonical, snapshot
from dcpflow.records.draws import Nonce
from dcpflow.stages import certifying, private_keys, revoking

RUN = "0" * 32


@dataclass(frozen=True)
class Desk:
    """A folder with the keys and the registry of those who sign, and the audit that they sign.

    Attributes:
        folder: where certificates are written.
        audit: the audit, verified once.
        keys: the private keys.
        registry: lists the decision.
    """

    folder: Path
    audit: Verification
    keys: dict[str, Signer]
    registry: Path

    @property
    def results(self) -> Path:
        return Path(self.audit.path)

    @property
    def certificate(self) -> Path:
        return self.folder / "certificate.dsse.json"

    def key(self, name: str) -> Path:
        return self.folder / name

    def certify(self, key: str = "auditor", expiry: Expiry | None = None, registry: bool = False) -> Certificate:
        self.certificate.unlink(missing_ok=True)
        where = str(self.registry) if registry else None
        return certifying.certify(self.audit, self.keys[key], expiry or Expiry(), where, self.certificate)[1]


@pytest.fixture(scope="module")
def audit(finished_audit: Any) -> Verification:
    return verify(finished_audit.results)


@pytest.fixture
def desk(audit: Verification, tmp_path: Path) -> Desk:
    keys = {name: Signer.new(tmp_path / name) for name in ("auditor", "registrar")}
    decision = json.loads((Path(audit.path) / "decision.json").read_bytes())
    claim, registered = decision["claim"], decision["registration"]
    slot = {"claim": claim["id"], "family": claim["family"], "slot": claim["slot"]}
    of = {**slot, "contract": registered["contract"], "registration": registered["digest"]}
    log = Log.create(tmp_path / "registry", Head("here"))
    for kind, body in (
        (
            kinds.REGISTERED,
            {**of, "alpha": 0.05, "family_alpha": 0.05, "roles": decision["roles"], "mode": "prospective"},
        ),
        (kinds.STARTED, {**of, "what": kinds.TARGET_RUN, "run": RUN, "episodes": 0}),
        (
            kinds.DECIDED,
            {
                **slot,
                "run": RUN,
                "registration": registered["digest"],
                "decision": audit.identity,
                "core": decision["core"]["status"],
                "evidence": decision["evidence"]["status"],
            },
        ),
    ):
        log = log.append(kind, body)
    log.sign(keys["registrar"])
    return Desk(tmp_path, audit, keys, tmp_path / "registry")


Told = tuple[int, str, str]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Told]:
    """Runs a command in this process: exit code, what it printed, and what it complained about."""

    def told(*arguments: object) -> Told:
        code = cli.main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return told


def trust_file(desk: Desk, **more: str) -> Path:
    path = desk.folder / "trust.yaml"
    lines = [
        f"- {{key: {desk.keys[name].public.line}, name: {name.title()}, roles: [{role}]{more.get(name, '')}}}\n"
        for name, role in (("auditor", "auditor"), ("registrar", "registry"))
    ]
    path.write_text("".join(lines))
    return path


def test_an_audit_is_certified_countersigned_and_verified(
    desk: Desk, run: Callable[..., Told], audit_copy: Any
) -> None:
    """From the command line, in a results folder, as its users do it."""
    results, beside = audit_copy.results, audit_copy.results / "certificate.dsse.json"
    code, out, _ = run("certify", results, "--key", desk.key("auditor"), "--registry", desk.registry)
    assert (code, out.split(":")[0]) == (0, f"wrote {beside}")
    code, _, err = run("certify", results, "--key", desk.key("auditor"))
    assert code == 1 and "there is a certificate already" in err
    code, out, _ = run("countersign", beside, results, "--key", desk.key("registrar"), "--registry", desk.registry)
    assert code == 0 and all(signer.public.id in out for signer in desk.keys.values())
    code, out, err = run("verify", results, "--trust", trust_file(desk), "--registry", desk.registry, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["ok"] is True
    assert found["formal_certificate_issued"] is False, "Core is inconclusive"
    assert found["certificate"]["faults"] == []
    assert [(one["name"], one["roles"], one["holds"]) for one in found["certificate"]["signatures"]] == [
        ("Auditor", ["auditor"], True),
        ("Registrar", ["registry"], True),
    ]
    assert {reason.split(",")[0] for reason in found["certificate"]["withheld"]} <= {
        "Core is inconclusive",
        "the claimant has audited itself (self_audited)",
    }
    (entry,) = [entry for entry in Log.open(desk.registry).entries if entry.kind == kinds.CERTIFIED]
    assert entry.body["keys"] == [desk.keys[name].public.line for name in ("auditor", "registrar")]
    code, out, _ = run("verify", results)
    assert code == 0 and "nobody is trusted: no trust file was given" in out

    code, out, _ = run("index", results, "--trust", trust_file(desk), "--registry", desk.registry)
    assert code == 0 and "Auditor, Registrar" in out and "without an end" in out
    run("revoke", beside, "--reason", "leaked_seal", "--registry", desk.registry)
    code, out, _ = run("index", results, "--registry", desk.registry)
    assert code == 1 and "DOES NOT HOLD: " in out and "1 of 1 verified; of 1 the certificate does not hold" in out


def test_a_recovery_on_file_is_shown_as_nobody_has_checked_it(desk: Desk, run: Callable[..., Told]) -> None:
    assert desk.audit.replayed
    registration = desk.audit.replayed.evidence.view.registered.digest
    body = {"registration": registration, "record": canonical.digest(b"record"), "text": "by hand"}
    Log.open(desk.registry).append(kinds.WITNESS, body)
    code, out, _ = run("verify", desk.results, "--registry", desk.registry)
    told = " ".join(out.split())
    assert code == 0 and "a recovery was filed on" in told and "by hand. It is shown as filed, not checked" in told


def test_without_a_certificate_verify_says_as_much(desk: Desk, run: Callable[..., Told]) -> None:
    code, out, _ = run("verify", desk.results, "--json")
    told = json.loads(out)
    assert (code, told["certificate"], told["formal_certificate_issued"]) == (0, None, False)
    code, out, _ = run("verify", desk.results, "--trust", trust_file(desk))
    assert code == 0 and "there is no certificate" in out


def test_what_does_not_hold_is_an_exit_code_and_a_line(desk: Desk, run: Callable[..., Told]) -> None:
    desk.certify()
    value = json.loads(desk.certificate.read_bytes())
    value["signatures"][0]["sig"] = "A" * 86 + "=="
    forged = desk.folder / "forged.json"
    forged.write_text(json.dumps(value))
    code, out, err = run("verify", desk.results, "--certificate", forged)
    assert code == 1 and out.startswith("VERIFIED")
    assert err.count("\n") == 1 and "the certificate does not hold" in err and "it is forged" in err
    before = forged.read_bytes()
    code, _, err = run("countersign", forged, desk.results, "--key", desk.key("registrar"))
    assert code == 1 and "is not signed, since it does not hold" in err
    assert forged.read_bytes() == before


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "not JSON"),
        (b"{}", "not a DSSE envelope"),
        (b'{"payload":"e30=","payloadType":"application/vnd.in-toto+json","signatures":[]}', "not an in-toto"),
        (b" " * (1 << 21), "too large"),
        (None, "is missing"),
    ],
)
def test_a_certificate_that_cannot_be_read(desk: Desk, data: bytes | None, says: str) -> None:
    if data is not None:
        desk.certificate.write_bytes(data)
    found = certifying.account_of(desk.audit, desk.certificate)
    assert not found.formal
    (fault,) = found.faults
    assert says in fault and str(desk.certificate) in fault


def test_a_revoked_certificate_is_told_with_the_registrys_date(desk: Desk, run: Callable[..., Told]) -> None:
    desk.certify(registry=True)
    words = ("--registry", desk.registry, "--reason", "leaked_seal", "--text", "the nonce was published")
    code, out, _ = run("revoke", desk.certificate, *words, "--key", desk.key("registrar"))
    assert code == 0 and "is revoked: entry 4" in out
    assert run("revoke", desk.certificate, *words)[1] == out, "it is listed once"
    given = ("verify", desk.results, "--certificate", desk.certificate, "--registry", desk.registry)
    code, out, err = run(*given)
    assert code == 1 and out.startswith("VERIFIED") and "here, which lists 1 revocations of this" in out
    assert err.count("\n") == 1 and "the certificate was revoked on" in err
    log = Log.open(desk.registry)
    assert log.checkpoint and log.checkpoint.size == 4
    found = certifying.account_of(desk.audit, desk.certificate, log=log)
    (fault,) = found.faults
    assert f"was revoked on {log.entries[-1].date[:10]}" in fault and "leaked_seal: the nonce was published" in fault
    refused = certifying.account_of(desk.audit, desk.certificate)
    assert refused.faults == () and "whether it was revoked is not known" in " ".join(refused.withheld)


def test_a_decision_is_revoked_by_its_folder_or_bundle(desk: Desk) -> None:
    bundle = desk.folder / "claim.dcp"
    export(desk.results, bundle)
    folder = revoking.revoke(desk.results, str(desk.registry), "verifier_flaw", "")
    assert (folder.body["of"], folder.body["digest"]) == ("decision", desk.audit.identity)
    assert revoking.revoke(bundle, str(desk.registry), "verifier_flaw", "") == folder
    desk.certify()
    (fault,) = certifying.account_of(desk.audit, desk.certificate, log=Log.open(desk.registry)).faults
    assert fault.startswith("the decision was revoked on")
    with pytest.raises(UsageError, match="does not exist"):
        revoking.revoke(desk.folder / "nowhere", str(desk.registry), "other", "")


def test_nothing_is_listed_or_signed_that_cannot_be_finished(desk: Desk, run: Callable[..., Told]) -> None:
    registry = Log.create(desk.folder / "theirs", Head("theirs", desk.keys["registrar"].public)).source.place("")
    with pytest.raises(UsageError, match="is not the key of this registry"):
        revoking.newer_model("family", "model-2", registry, desk.key("auditor"))
    assert Log.open(Path(registry)).entries == ()
    desk.certify()
    before = desk.certificate.read_bytes()
    with pytest.raises(UsageError, match="nothing can be added to http://"):
        certifying.countersign(desk.audit, desk.certificate, desk.keys["registrar"], "http://127.0.0.1:1/")
    assert desk.certificate.read_bytes() == before


def test_a_place_that_there_cannot_be_is_told(desk: Desk, run: Callable[..., Told]) -> None:
    (desk.folder / "file").touch()
    below = desk.folder / "file" / "below"
    for words in (
        ("keys", "new", below),
        ("certify", desk.results, "--key", desk.key("auditor"), "--out", below),
        ("registry", "init", below, "--origin", "x"),
    ):
        code, _, err = run(*words)
        assert code == 1 and f"{below} cannot be written: " in err


def test_a_newer_model_ends_a_certificate(desk: Desk) -> None:
    desk.certify(expiry=Expiry(None, ("family",)))
    entry = revoking.newer_model("family", "model-2", str(desk.registry), desk.key("registrar"))
    found = certifying.account_of(desk.audit, desk.certificate, log=Log.open(desk.registry))
    assert found.faults == (f"it expired: a newer model of family is listed since {entry.date[:10]}",)


def test_folder_sealed_and_revealed_bundle_have_one_certificate(desk: Desk, finished_audit: Any) -> None:
    made = desk.certify()
    for name, nonce in (("claim.dcp", None), ("revealed.dcp", Nonce.read(finished_audit.nonce_file))):
        export(desk.results, desk.folder / name, nonce)
        found = verify(desk.folder / name)
        assert certifying.account_of(found, desk.certificate).faults == ()
        shutil.copy(desk.certificate, desk.folder / f"{name}.dsse.json")
        assert certifying.account_of(found).certificate == made, "the one beside it is found"
    sealed = (desk.folder / "claim.dcp").read_bytes()
    assert made.stated.bundle == canonical.digest(sealed), "what sha256sum prints of the sealed bundle"


def test_a_registry_that_does_not_list_the_decision(desk: Desk) -> None:
    empty = desk.folder / "empty"
    Log.create(empty, Head("elsewhere"))
    with pytest.raises(UsageError, match="the registry elsewhere does not list the decision"):
        certifying.certify(desk.audit, desk.keys["auditor"], Expiry(), str(empty), desk.certificate)
    assert not desk.certificate.exists()


def test_what_its_registry_contradicts_is_neither_signed_nor_listed(
    desk: Desk, run: Callable[..., Told], audit_copy: Any
) -> None:
    """The registry knew of another audit of the claim, and the snapshot in the results, made by hand, of none."""
    desk.certify()
    log, other = Log.open(desk.registry), desk.folder / "other"
    reserved, started, decided = ((entry.kind, entry.body) for entry in log.entries)
    earlier = (kinds.REGISTERED, {**reserved[1], "slot": "earlier"})
    copy = Log.create(other, Head("here"))
    for kind, body in (earlier, reserved, started, decided):
        copy = copy.append(kind, body)
    copy.sign(desk.keys["registrar"])
    results = audit_copy.results
    for says in ("the results do not say what", "knew something else"):
        at = ("--key", desk.key("auditor"), "--registry", other)
        code, _, err = run("certify", results, *at)
        assert code == 1 and says in err
        code, _, err = run("countersign", desk.certificate, results, *at)
        assert code == 1 and says in err
        code, out, _ = run("index", results, "--registry", other)
        assert code == 1 and says in out
        snapshot.write(results / "registration", snapshot.Snapshot("here", "", 3, (), 0, 0))
    assert not (results / "certificate.dsse.json").exists()


def test_what_does_not_verify_is_not_signed(desk: Desk, run: Callable[..., Told], audit_copy: Any) -> None:
    path = audit_copy.results / "decision.json"
    path.write_bytes(path.read_bytes().replace(b'"inconclusive"', b'"certified"', 1))
    code, _, err = run("certify", audit_copy.results, "--key", desk.key("auditor"))
    assert code == 1 and "nothing is done with what does not verify" in err
    assert not (audit_copy.results / "certificate.dsse.json").exists()


def test_a_date_that_has_passed(desk: Desk, run: Callable[..., Told]) -> None:
    code, _, err = run("certify", desk.results, "--key", desk.key("auditor"), "--expires", "2020-01-01")
    assert code == 1 and "would have expired on 2020-01-01 already" in err
    with pytest.raises(SystemExit):
        run("certify", desk.results, "--key", desk.key("auditor"), "--expires", "soon")
    with pytest.raises(UsageError, match="a model family must be one line"):
        desk.certify(expiry=Expiry(None, ("",)))


@pytest.fixture
def stray(audit_copy: Any) -> Iterator[Path]:
    """A key that was put into a results folder."""
    path = audit_copy.results / "deep" / "key"
    path.parent.mkdir()
    Signer.new(path)
    yield path


def test_keys_that_must_not_be_used(desk: Desk, stray: Path, run: Callable[..., Told]) -> None:
    open_key = desk.key("auditor")
    open_key.chmod(0o640)
    code, _, err = run("certify", desk.results, "--key", open_key, "--out", desk.certificate)
    assert code == 1 and "can be read by others. Close it with: chmod 600" in err
    linked = desk.folder / "linked"
    linked.symlink_to(stray)
    for key in (stray, linked):
        code, _, err = run("certify", desk.results, "--key", key, "--out", desk.certificate)
        assert code == 1 and "lies in the results folder" in err
    assert not desk.certificate.exists()
    code, _, err = run("keys", "new", stray.with_name("another"))
    assert code == 1 and "lies in the results folder" in err
    assert sorted(path.name for path in stray.parent.iterdir()) == ["key", "key.pub"]


def test_a_new_pair(tmp_path: Path, run: Callable[..., Told]) -> None:
    code, out, _ = run("keys", "new", tmp_path / "key")
    assert code == 0 and Signer.read(tmp_path / "key").public.line in out


def test_an_encrypted_key_asks_for_its_passphrase(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

    made, path = Ed25519PrivateKey.generate(), desk.folder / "locked"
    path.touch(mode=0o600)
    path.write_bytes(made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"open")))
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    with pytest.raises(UsageError, match=r"is encrypted. There is no terminal to ask"):
        private_keys.read_key(path)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("getpass.getpass", lambda prompt: "open")
    assert private_keys.read_key(path).public.raw == made.public_key().public_bytes_raw()
    monkeypatch.setattr("getpass.getpass", lambda prompt: "shut")
    with pytest.raises(UsageError, match="the passphrase is wrong"):
        private_keys.read_key(path)
