"""An audit and its registry: the slot before the first episode, every start, amendments, the decision."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dcpflow.authority import kinds, slots
from dcpflow.authority.entry import Head
from dcpflow.authority.keys import Signer
from dcpflow.authority.log import Log
from dcpflow.bundles.export import export
from dcpflow.bundles.verify import verify as verify_bundle
from dcpflow.cli import main
from dcpflow.errors import EvidenceError, UsageError
from dcpflow.records import canonical, registration, snapshot
from dcpflow.stages import registry, registry_desk, registry_proof

if TYPE_CHECKING:
    from tests.conftest import Audit

STRICTER = {"thresholds": {"gate2": {"rho": 0.04}}}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The folder of an empty registry to which audits write themselves."""
    Log.create(tmp_path / "registry", Head("test"))
    return tmp_path / "registry"


@pytest.fixture
def registering(new_audit: Callable[..., Audit], place: Path) -> Callable[..., Audit]:
    """Makes an audit in a results folder of its own that is noted in the registry, up to its frozen contract."""

    def make(at: Path = place, **sections: dict[str, Any]) -> Audit:
        audit = new_audit(**sections, execution={"registry": str(at)})
        audit.seal()
        audit.freeze_contract()
        return audit

    return make


def noted(place: Path) -> list[str]:
    return [entry.kind for entry in Log.open(place).entries]


def test_two_first_runs_make_one_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    create = Log.create

    def another_before(folder: Path, head: Head) -> Log:
        create(folder, head)
        return create(folder, head)

    monkeypatch.setattr(Log, "create", another_before)
    assert registry.open_place("registry", make=True).head == Head("local")


def known(audit: Audit) -> snapshot.Snapshot:
    found = snapshot.read(audit.job.layout.registration)
    assert found
    return found


def test_the_slot_is_reserved_once_before_the_first_episode(registering: Callable[..., Audit], place: Path) -> None:
    audit = registering()
    audit.register()
    audit.register()
    reserved, started = Log.open(place).entries
    registered = registration.read_registration(audit.job.layout.registration)
    claim = registered.config("claim")
    assert reserved.kind == kinds.REGISTERED
    assert reserved.body["registration"] == started.body["registration"] == registered.digest
    assert [reserved.body[name] for name in ("claim", "family", "slot")] == [claim[n] for n in ("id", "family", "slot")]
    assert reserved.body["alpha"] == 0.05
    assert started.body["what"] == "target_run"
    assert started.body["episodes"] == 0
    assert known(audit) == snapshot.Snapshot("test", "", 2, (), 0, 0)


def test_a_second_results_folder_is_another_start_of_the_same_slot(
    registering: Callable[..., Audit], place: Path
) -> None:
    registering().register()
    again = registering()
    again.register()
    assert noted(place) == ["registered", "started", "started"]
    assert known(again) == snapshot.Snapshot("test", "", 3, (), 1, 0)
    # what others note later changes nothing of it, so that it can be made again
    registering().register()
    again.register()
    assert known(again).starts == 1


def test_a_slot_that_is_taken_is_refused_and_nothing_is_registered(
    registering: Callable[..., Audit], place: Path
) -> None:
    registering().register()
    other = registering(**STRICTER)
    with pytest.raises(UsageError, match=r"the slot .* is taken: entry 1 has reserved it .*claim\.earlier_audits"):
        other.register()
    assert not (other.job.layout.registration / "registration.json").exists()
    assert noted(place) == ["registered", "started"]


def test_an_amendment_and_the_way_back_are_noted_and_open_no_other_slot(
    registering: Callable[..., Audit], place: Path
) -> None:
    audit = registering()
    audit.register()
    audit.with_settings(**STRICTER).register()
    audit.with_settings(**STRICTER).register()
    audit.register()
    assert noted(place) == ["registered", "started", "amended", "amended"]
    there, back = Log.open(place).entries[2:]
    assert there.body["keys"] == back.body["keys"] == ["thresholds.gate2.rho"]
    assert (there.body["old"], there.body["new"]) == (back.body["new"], back.body["old"])
    # in a folder of its own the amended registration would look like a first one
    with pytest.raises(UsageError, match="is taken"):
        registering(**STRICTER).register()


def test_another_contract_is_an_amendment_and_another_target_run(
    registering: Callable[..., Audit], place: Path
) -> None:
    audit = registering()
    audit.register()
    changed = audit.with_settings(limits={"experiments": 5})
    changed.freeze_contract()
    changed.register()
    changed.register()
    assert noted(place) == ["registered", "started", "amended", "started"]


def test_another_slot_of_the_claim_is_seen_as_an_earlier_audit(registering: Callable[..., Audit], place: Path) -> None:
    registering().register()
    other = registering(claim={"slot": "second", "family": "another-family"})
    other.register()
    assert known(other).earlier == ("sqlite-web-audit-1",)
    assert known(other).starts == 1


def test_a_decision_is_noted_once_and_a_registry_that_is_gone_stops_none(
    audit_copy: Audit, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    audit = audit_copy.with_settings(execution={"registry": str(place)})
    audit.register()
    before = audit.job.layout.decision.read_bytes()
    audit.decide()
    audit.decide()
    entry = Log.open(place).entries[-1]
    assert noted(place) == ["registered", "started", "decided"]
    assert entry.body["decision"] == canonical.digest(before)
    assert entry.body["core"] == "inconclusive (audit_incomplete)"
    # the registry was told when all episodes stood, and says so
    assert known(audit).episodes == 37
    assert audit.job.layout.decision.read_bytes() == before
    shutil.rmtree(place)
    audit.decide()
    assert "the decision was not noted in a registry" in capsys.readouterr().err


def test_a_registry_by_request_is_sent_what_is_missing_and_then_knows_the_audit(
    registering: Callable[..., Audit], tmp_path: Path
) -> None:
    place = tmp_path / "lab"
    Log.create(place, Head("lab", by_request=True))
    audit = registering(place)
    with pytest.raises(UsageError, match=r"Send its operator .*request\.json"):
        audit.register()
    assert not (audit.job.layout.registration / "registration.json").exists()
    request = tmp_path / "request.json"
    request.write_text(registry_desk.request(audit.results))
    assert registry_desk.add(str(place), request).count("\n") == 1
    assert registry_desk.add(str(place), request) == "nothing was added: all of it stands there already"
    audit.register()
    assert noted(place) == ["registered", "started"]
    with pytest.raises(UsageError, match="nothing for a registry's operator"):
        registry_desk.request(audit.results)
    # an amendment waits for nobody, but its operator is to be told
    audit.with_settings(**STRICTER).register()
    assert [kind for kind, _ in registry.pending(audit.job.layout)] == ["amended"]
    # what the operator was not told between two visits is asked for in its order
    audit.with_settings(thresholds={"gate2": {"rho": 0.03}}).register()
    first, second = (body for _, body in registry.pending(audit.job.layout))
    assert first["new"] == second["old"]
    request.write_text(registry_desk.request(audit.results))
    audit.register()
    assert len(registry.pending(audit.job.layout)) == 3
    registry_desk.add(str(place), request)
    audit.register()
    ((kind, last),) = registry.pending(audit.job.layout)
    assert (kind, last["old"]) == ("amended", second["new"])
    assert noted(place) == ["registered", "started", "amended", "amended"]


def test_an_operator_adds_nothing_that_contradicts_the_log(registering: Callable[..., Audit], place: Path) -> None:
    audit = registering()
    audit.register()
    reserved, started = Log.open(place).entries
    other = {**reserved.body, "registration": f"sha256:{'0' * 64}"}
    names = ("claim", "family", "slot", "run")
    place_of = {name: started.body[name] for name in names}
    change = {"old": started.body["registration"], "new": f"sha256:{'2' * 64}", "keys": ["k"]}
    amended = {**place_of, **change}
    rival = slots.Audit(**{**place_of, "claim": "rival"}, contract=change["new"], registration=change["new"])
    for kind, body, says in (
        (kinds.REGISTERED, other, "is taken"),
        (kinds.STARTED, {**started.body, "registration": f"sha256:{'0' * 64}", "run": "0" * 32}, "is taken"),
        (kinds.STARTED, {**started.body, "slot": "unknown"}, "was not reserved"),
        (kinds.STARTED, {**started.body, "claim": "other", "run": "0" * 32}, "is taken"),
        (kinds.AMENDED, {**amended, "claim": "other"}, "is taken"),
        (kinds.AMENDED, {**amended, "run": "0" * 32}, "nothing was started"),
        (kinds.AMENDED, {**amended, "old": f"sha256:{'3' * 64}"}, "is in force"),
        (kinds.DECIDED, {**slots.outcome(rival, f"sha256:{'4' * 64}", "c", "e")[1]}, "is taken"),
    ):
        path = place.parent / "request.json"
        path.write_bytes(registry.to_request([(kind, body)]))
        with pytest.raises(UsageError, match=says):
            registry_desk.add(str(place), path)
    for kind, body in ((kinds.NEWER_MODEL, {"family": "f", "model": "m"}), (kinds.REVOKED, {})):
        path.write_bytes(registry.to_request([(kind, body)]))
        with pytest.raises(EvidenceError, match=f"{kind} is nothing that an audit can request"):
            registry_desk.add(str(place), path)
    for data in (b"{}", b'{"schema":"dcpflow.registry-request/1","entries":[{}]}', b"["):
        path.write_bytes(data)
        with pytest.raises(EvidenceError, match=r"request\.json: "):
            registry_desk.add(str(place), path)
    assert noted(place) == ["registered", "started"]


@pytest.fixture
def signed(audit_copy: Audit, place: Path, tmp_path: Path) -> Audit:
    """The finished audit, noted in a registry that is signed."""
    shutil.rmtree(place)
    signer = Signer.new(tmp_path / "keys" / "registry")
    Log.create(place, Head("lab", signer.public))
    audit = audit_copy.with_settings(execution={"registry": str(place)})
    audit.register()
    audit.decide()
    registry_desk.sign(str(place), tmp_path / "keys" / "registry")
    return audit


def test_verify_holds_an_audit_against_its_registry(signed: Audit, place: Path, tmp_path: Path) -> None:
    older = shutil.copy(place / "checkpoint.json", tmp_path / "older.json")
    found = registry_proof.verify(signed.results, str(place), Path(older))
    assert dict(found.recomputed)["registry"].startswith(
        "'lab', 3 entries: slot reserved by entry 1, started by entry 2"
    )
    assert "by Merkle proof" in dict(found.recomputed)["inclusion"]
    assert dict(found.recomputed)["consistency"].startswith("continues the checkpoint of 3 entries")
    assert found.remarks == ("37 episodes had been started before the registry 'lab' was told",)
    bundle = tmp_path / "audit.dcp"
    export(signed.results, bundle)
    assert registry_proof.verify(bundle, str(place)) == registry_proof.verify(signed.results, str(place))


def test_verify_tells_what_a_registry_has_against_an_audit(signed: Audit, place: Path, tmp_path: Path) -> None:
    log = Log.open(place)
    empty = tmp_path / "empty"
    Log.create(empty, Head("empty"))
    with pytest.raises(EvidenceError, match="has not reserved the slot sqlite-web-audit-1"):
        registry_proof.verify(signed.results, str(empty))
    reserved, started = log.entries[:2]
    foreign = {"contract": f"sha256:{'0' * 64}", "registration": f"sha256:{'0' * 64}"}
    registry.add(Log.open(empty), [(kinds.REGISTERED, {**reserved.body, **foreign})])
    with pytest.raises(EvidenceError, match=r"has reserved the slot .* for another registration: entry 1"):
        registry_proof.verify(signed.results, str(empty))
    # the same audit, but another log than the one that it was noted in
    anew = tmp_path / "anew"
    registry.add(Log.create(anew, Head("anew")), [(entry.kind, entry.body) for entry in (reserved, started)])
    with pytest.raises(EvidenceError, match="knew something else at the start than registration/"):
        registry_proof.verify(signed.results, str(anew))
    log.append(kinds.STARTED, {**started.body, "run": "0" * 32})
    remarks = registry_proof.verify(signed.results, str(place)).remarks
    assert any(
        "has another start of the claim or its family: sqlite-web-audit-1 (entry 4, " in text for text in remarks
    )


def retold(place: Path, audit: Audit, *lies: dict[str, Any]) -> Path:
    """A registry of the first entries of another one, each with a lie, and results that say that they know it."""
    anew = place.parent / f"retold {lies!r:.80}".replace("/", " ")
    log = Log.create(anew, Head("anew"))
    for entry, lie in zip(Log.open(place).entries, lies, strict=False):
        log = log.append(entry.kind, {**entry.body, **lie})
    snapshot.write(audit.job.layout.registration, snapshot.Snapshot("anew", "", 2, (), 0, 37))
    return anew


@pytest.mark.parametrize(
    ("lies", "says"),
    [
        (({"alpha": 0.0001}, {}), "entry 1 gives another alpha than the registration"),
        (({"family_alpha": 0.0001}, {}), "entry 1 gives another family_alpha"),
        (({"contract": f"sha256:{'0' * 64}"}, {}), "entry 1 gives another contract"),
        (({"mode": "retrospective"}, {}), "entry 1 gives another mode"),
        (({"claim": "other"}, {"claim": "other"}), "entry 1 gives another claim"),
        (({}, {"claim": "other"}), "entry 2 gives another claim"),
        (({}, {"what": "audit"}), "entry 2 gives another what"),
    ],
)
def test_a_reservation_says_what_its_registration_says(
    signed: Audit, place: Path, lies: tuple[dict[str, Any], ...], says: str
) -> None:
    registry_proof.verify(signed.results, str(retold(place, signed, {}, {})))
    with pytest.raises(EvidenceError, match=says):
        registry_proof.verify(signed.results, str(retold(place, signed, *lies)))


def test_results_without_the_snapshot_do_not_pass(signed: Audit, place: Path) -> None:
    snapshot.path(signed.job.layout.registration).unlink()
    with pytest.raises(EvidenceError, match=r"do not say what the registry 'lab' knew .*registry\.json is missing"):
        registry_proof.verify(signed.results, str(place))


def test_a_run_that_was_stopped_before_it_registered_may_be_edited(audit_copy: Audit, place: Path) -> None:
    audit = audit_copy.with_settings(execution={"registry": str(place)})
    layout = audit.job.layout
    registered = registration.read_registration(layout.registration)
    parts = copy.deepcopy(registered.parts)
    parts["thresholds"]["config"]["gate2"]["rho"] = 0.03
    edited = registration.Registered(registration.registration_digest(parts), registered.contract, parts)
    registry.reserve(layout, edited, str(place))
    audit.register()
    assert noted(place) == ["registered", "started", "amended"]
    remarks = registry_proof.verify(audit.results, str(place)).remarks
    assert any(
        "entry 2 of the registry 'test' is of a registration that was amended before" in text for text in remarks
    )


def test_an_unnoted_amendment_is_told(audit_copy: Audit, place: Path) -> None:
    audit = audit_copy.with_settings(execution={"registry": str(place)})
    audit.register()
    audit.decide()
    audit.with_settings(**STRICTER, execution={"registry": "none"}).register()
    audit.decide()
    with pytest.raises(EvidenceError, match="was not told of the amendment to the registration in force"):
        registry_proof.verify(audit.results, str(place))


def test_a_signed_registry_stands_in_the_decision_and_travels_with_the_bundle(signed: Audit, tmp_path: Path) -> None:
    decision = json.loads(signed.job.layout.decision.read_bytes())
    told = {check["name"]: check for check in decision["checks"]}
    assert told["earlier_audits_disclosed"]["result"] == "pass"
    assert "37 episodes had been started before the registry 'lab' was told" in told["all_target_runs_shown"]["reason"]
    bundle = tmp_path / "audit.dcp"
    export(signed.results, bundle)
    verified = verify_bundle(bundle)
    assert verified.ok
    assert "registry" in dict(verified.recorded)
    assert "registry" not in dict(verified.with_registry((), ()).recorded)
    snapshot.path(signed.job.layout.registration).unlink()
    found = verify_bundle(signed.results)
    assert not found.ok
    assert "is not the decision that its evidence gives" in found.error


def test_a_private_key_is_not_taken_from_what_is_handed_on(signed: Audit, place: Path, tmp_path: Path) -> None:
    for folder, says in ((place, "lies in the registry"), (signed.results / "keys", "lies in the results folder")):
        folder.mkdir(exist_ok=True)
        key = shutil.copy(tmp_path / "keys" / "registry", folder / "key")
        with pytest.raises(UsageError, match=says):
            registry_desk.sign(str(place), Path(key))


def test_the_commands_make_fill_sign_and_check_a_registry(
    registering: Callable[..., Audit], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key, place, proof = tmp_path / "keys" / "lab", tmp_path / "lab", tmp_path / "proof.json"
    Signer.new(key)
    public = f"{key}.pub"
    at = ["--registry", str(place)]
    assert main(["registry", "init", str(place), "--origin", "lab", "--key", public]) == 0
    registering(place).register()
    assert main(["registry", "sign", *at, "--key", str(key)]) == 0
    older = shutil.copy(place / "checkpoint.json", tmp_path / "older.json")
    registering(place).register()
    capsys.readouterr()
    assert main(["registry", "show", *at]) == 0
    assert capsys.readouterr().out.count("  started ") == 2
    assert main(["registry", "check", *at, "--since", str(older), "--trust", public]) == 0
    assert "it continues the signed checkpoint of 2 entries" in capsys.readouterr().out
    assert main(["registry", "prove", "1", *at]) == 0
    proof.write_text(capsys.readouterr().out)
    assert main(["registry", "proven", str(proof), "--trust", public]) == 0
    assert "is among the 2 entries of 'lab' that were signed" in capsys.readouterr().out
    (place / "entries" / "00000002.json").unlink()
    (place / "entries" / "00000003.json").unlink()
    (place / "checkpoints" / "00000002.json").unlink()
    (place / "checkpoint.json").unlink()
    assert main(["registry", "check", *at]) == 0
    assert main(["registry", "check", *at, "--since", str(older)]) == 1
    assert "the tail was cut: there are 1 entries, and an older checkpoint was signed over 2" in capsys.readouterr().err
