"""Reading, verifying and refusing dcp-audit bundles: real, synthetic, tampered with, hostile.

Rows B1 to B12 of the published scenarios are here, but for B4 and B11 (the reference's command line) and the
half of B10 that concerns its writer.
"""

from __future__ import annotations

import copy
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dcp import bundle as reference_bundle
from dcp import integrity as reference_digests
from dcp.evaluate import evaluate
from protocol.builders import (
    Case,
    control,
    core_case,
    decoded,
    lineage_empty,
    lost,
    neutral_hits,
    noisy,
    reference,
    seal,
    small_evidence_case,
)
from protocol.random_evidence import random_case

from dcpflow.bundles.dcp_audit import BundleError, decode, digests, strict_json, verify
from dcpflow.bundles.dcp_audit.manifest import read_bundle
from dcpflow.protocol.model import Status

PUBLISHED = Path(__file__).parents[4] / "shared" / "data" / "bundles" / "sqlite-core"


# --- making bundles ----------------------------------------------------------------------------------------


def core_hit() -> Case:
    """The base of rows B1 to B4: 20 units, one control that hits, so Core is refuted."""
    case = core_case(claimed=noisy(0.9, 20, 0.01), baseline=noisy(0.7, 20, 0.01), controls=[])
    case["gate2"]["controls"] = [control(0, case["gate1"]["astar"]["per_unit"])]
    return seal(case)


def full_hit() -> Case:
    """The same with a small binary feedback experiment."""
    case = small_evidence_case(
        feedback_estimand="binary",
        feedback_utility_mapping="canonical_p_wrapper_v1",
        feedback_ci_method="paired_binary_exact",
        sham_ci_method="paired_binary_exact",
        registered_n_feedback_pairs=2,
        registered_n_sham_pairs=2,
    )
    gate3 = case["gate3"]
    for family in (gate3, gate3["sham"]):
        del family["pairs"][2:]
        family["started_pair_count"] = 2
    for pair in gate3["sham"]["pairs"]:
        pair["reference_null"]["utility"] = pair["proposed_sham"]["utility"] = 1.0
    case["gate2"]["controls"] = [control(0, case["gate1"]["astar"]["per_unit"])]
    return seal(case)


def write(root: Path, case: Case) -> Path:
    """Write a bundle with the reference's own writer and its own decision."""
    parts = reference(case)
    certificate = evaluate(**parts)
    shared = (parts["reg"], parts["integrity"], parts["gate1_ev"], parts["gate2_ev"])
    if parts["gate3_ev"] is None:
        reference_bundle.write_core_bundle(root, *shared, certificate)
    else:
        reference_bundle.write_full_audit_bundle(root, *shared, parts["gate3_ev"], certificate)
    return root


def payload(root: Path, name: str) -> Any:
    return json.loads((root / "payload" / f"{name}.json").read_text(encoding="utf-8"))


def rewrite(root: Path, change: Callable[[dict[str, Any]], None], name: str) -> Path:
    """Change a payload and redo the manifest, so that all digests hold."""
    changed = payload(root, name)
    change(changed)
    put(root, name, strict_json.stored_form(changed))
    return root


def put(root: Path, name: str, data: bytes) -> None:
    """Put bytes in place of a payload, with a manifest that goes with them."""
    (root / "payload" / f"{name}.json").write_bytes(data)
    manifest = json.loads((root / "manifest.json").read_text(encoding="utf-8"))
    manifest["payloads"][name] |= {"content_digest": strict_json.digest(data), "size_bytes": len(data)}
    put_manifest(root, manifest)


def put_manifest(root: Path, manifest: dict[str, Any]) -> None:
    manifest = {key: value for key, value in manifest.items() if key != "bundle_id"}
    manifest["bundle_id"] = strict_json.digest(strict_json.stored_form(manifest))
    (root / "manifest.json").write_bytes(strict_json.stored_form(manifest))


def refused(root: Path) -> BundleError:
    report = verify(root)
    assert not report.ok
    assert not report.intact
    assert report.decision is None
    assert report.error is not None
    return report.error


@pytest.fixture(params=["core", "full"])
def bundle(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return write(tmp_path / "bundle", core_hit() if request.param == "core" else full_hit())


# --- the published bundle ----------------------------------------------------------------------------------

published = pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the published bundle is not at hand")


@published
def test_the_published_bundle_replays() -> None:
    report = verify(PUBLISHED)
    assert report.ok, report.error or report.comparison
    assert report.bundle_id == "sha256:3690bebc8b3ac882ab17ad0f8a61b05ea630443dbc85e36965eabf27e1f1bbca"
    assert (report.profile, report.provenance) == ("core", "self-attested")
    assert report.decision.core.status is Status.CERTIFIED
    assert report.decision.gate2.bound == pytest.approx(0.0477239, abs=5e-8)
    assert report.decision.gate2.control_recall_bound == pytest.approx(0.8889, abs=5e-5)
    assert report.comparison.compared > 1400
    assert report.departures == ()


@published
def test_thresholds_cannot_be_rewritten_in_the_published_bundle(tmp_path: Path) -> None:
    """Digests redone, certificate not: the replay gives other numbers than the certificate."""
    root = tmp_path / "bundle"
    shutil.copytree(PUBLISHED, root)
    root.chmod(0o755)
    for path in root.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    rewrite(root, lambda registration: registration.update(kappa=0.0), "registration")
    report = verify(root)
    assert report.intact
    assert not report.replays
    places = {difference.place for difference in report.comparison.differences}
    assert {"scope.kappa", "scope.epsilon", "registration.frozen.kappa", "validity.epsilon"} <= places


# --- rows B1 to B12 ----------------------------------------------------------------------------------------


def test_row_b1_core_round_trip(tmp_path: Path) -> None:
    root = write(tmp_path / "bundle", core_hit())
    report = verify(root)
    assert report.ok
    assert len(read_bundle(root).payloads) == 5
    assert (report.saved_core, report.decision.core.status) == ("refuted", Status.REFUTED)


def test_row_b2_registration_edited(tmp_path: Path) -> None:
    root = write(tmp_path / "bundle", core_hit())
    path = root / "payload" / "registration.json"
    path.write_bytes(path.read_bytes().replace(b'"rho":0.05', b'"rho":0.04'))
    error = refused(root)
    assert (error.file, error.rule) == ("payload/registration.json", "payload_digest")


def test_row_b3_false_certificate(tmp_path: Path) -> None:
    root = write(tmp_path / "bundle", core_hit())
    rewrite(root, lambda certificate: certificate["verdict"].update(core="certified"), "certificate")
    report = verify(root)
    assert report.intact
    assert not report.ok
    assert [str(difference.place) for difference in report.comparison.differences] == ["verdict.core"]
    assert (report.saved_core, report.decision.core.status) == ("certified", Status.REFUTED)


def test_row_b5_full_round_trip(tmp_path: Path) -> None:
    root = write(tmp_path / "bundle", full_hit())
    report = verify(root)
    assert report.ok, report.comparison
    assert report.profile == "full_audit_v1"
    assert len(read_bundle(root).payloads) == 6
    assert "neutral_contract_audit_pass" not in payload(root, "gate3")


def test_row_b6_explicit_neutral_audit(tmp_path: Path) -> None:
    case = full_hit()
    case["gate3"]["neutral_contract_audit_pass"] = True
    root = write(tmp_path / "bundle", seal(case))
    assert payload(root, "certificate")["feedback_test"]["neutral_contract_audit_pass"] is True
    assert verify(root).ok


def test_row_b7_feedback_bytes_changed(tmp_path: Path) -> None:
    root = write(tmp_path / "bundle", full_hit())
    path = root / "payload" / "gate3.json"
    path.write_bytes(path.read_bytes().replace(b"checkpoint", b"checkpoinT", 1))
    assert refused(root).rule == "payload_digest"


def test_row_b8_unknown_nested_field(tmp_path: Path) -> None:
    root = write(tmp_path / "bundle", full_hit())
    rewrite(root, lambda gate3: gate3["pairs"][1]["neutral"].update(comment="x"), "gate3")
    error = refused(root)
    assert (error.file, error.place) == ("payload/gate3.json", "pairs[1].neutral")
    assert error.rule == "unknown_field"


def test_row_b9_certificate_field_changed(bundle: Path) -> None:
    def change(certificate: dict[str, Any]) -> None:
        certificate["no_feedback_recovery"]["n_ind"] += 1

    report = verify(rewrite(bundle, change, "certificate"))
    assert [d.place for d in report.comparison.differences] == ["no_feedback_recovery.n_ind"]


def test_row_b10_extra_file(bundle: Path) -> None:
    (bundle / "payload" / "unregistered.json").write_text("{}")
    error = refused(bundle)
    assert (error.file, error.rule) == (".", "file_set")
    assert "unregistered.json" in error.detail


def test_row_b12_unknown_format(bundle: Path) -> None:
    manifest = json.loads((bundle / "manifest.json").read_text())
    put_manifest(bundle, {**manifest, "format": "another-bundle"})
    error = refused(bundle)
    assert (error.file, error.place, error.rule) == ("manifest.json", "format", "format")


# --- certificates ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("protocol", "formal_certificate_issued"), True),
        (("protocol", "formal_certificate_issued"), 0),
        (("integrity", "complete"), 1),
        (("no_feedback_recovery", "hits"), 1.0),
        (("no_feedback_recovery", "hits"), True),
        (("validity", "x"), True),
        (("validity", "x"), None),
        (("validity", "effect_ci"), [0.0]),
        (("no_feedback_recovery", "attempts"), []),
        (("no_feedback_recovery", "attempt_breakdown"), {"confirmed_hit": 1, "confirmed_miss": 1}),
        (("integrity", "errors"), ["one"]),
        (("verdict", "reason"), None),
        (("registration", "frozen", "notes"), {"added": 1}),
        (("integrity", "evidence", "p_hash"), "another"),
        (("a_new_block",), {}),
    ],
)
def test_a_certificate_that_says_otherwise_is_found(bundle: Path, place: tuple[str, ...], value: Any) -> None:
    """By type too: true is not 1, a count is no float, and no block may be added."""

    def change(certificate: dict[str, Any]) -> None:
        target = certificate
        for key in place[:-1]:
            target = target[key]
        target[place[-1]] = value

    report = verify(rewrite(bundle, change, "certificate"))
    assert report.intact
    assert not report.replays
    assert any(difference.place.startswith(".".join(place)) for difference in report.comparison.differences)


def test_numbers_may_differ_in_the_last_places_only(bundle: Path) -> None:
    """Another Python version rounds sums otherwise: no reason to refuse its certificate."""

    def shift(by: float) -> Callable[[dict[str, Any]], None]:
        def change(certificate: dict[str, Any]) -> None:
            certificate["validity"]["x"] += by

        return change

    assert verify(rewrite(bundle, shift(4e-16), "certificate")).ok
    assert not verify(rewrite(bundle, shift(1e-10), "certificate")).ok


def test_wording_may_differ(bundle: Path) -> None:
    rewrite(bundle, lambda certificate: certificate["verdict"].update(reason="in other words"), "certificate")
    report = verify(bundle)
    assert report.ok
    assert report.comparison.texts > 5


@pytest.mark.parametrize("certificate", [[], None, "certified", {}, {"verdict": []}])
def test_a_certificate_of_another_shape_is_no_certificate(bundle: Path, certificate: Any) -> None:
    put(bundle, "certificate", strict_json.stored_form(certificate))
    report = verify(bundle)
    assert report.intact
    assert not report.ok
    assert report.saved_core is None


def test_a_deliberate_departure_is_named_but_excuses_nothing(tmp_path: Path) -> None:
    case = neutral_hits(lineage_empty(small_evidence_case()), [3])
    case["integrity"]["provenance_pass"] = False
    report = verify(write(tmp_path / "bundle", case))
    assert report.intact
    assert not report.ok
    assert len(report.departures) == 1
    assert (report.saved_core, report.decision.core.status) == ("inconclusive", Status.REFUTED)


def test_a_difference_that_hangs_on_rounding_is_named(tmp_path: Path) -> None:
    case = core_hit()
    assert verify(write(tmp_path / "clear", case)).departures == ()
    line = [score - 0.05 for score in case["gate1"]["astar"]["per_unit"]]
    case["gate2"]["controls"][0]["per_unit"] = line
    report = verify(write(tmp_path / "tie", seal(case)))
    assert len(report.departures) == 1
    assert "rounding" in report.departures[0]


def test_random_bundles_replay(tmp_path: Path) -> None:
    """Certified, refuted and inconclusive; with gaps, losses and tampering before the reference decided."""
    verdicts = set()
    for seed in range(60):
        case, _ = random_case(seed)
        report = verify(write(tmp_path / str(seed), case))
        assert report.ok or report.departures, (seed, report.error, report.comparison)
        verdicts.add(report.saved_core)
    assert verdicts == {"certified", "refuted", "inconclusive"}


# --- hostile input -----------------------------------------------------------------------------------------


def nested(depth: int) -> bytes:
    return b'{"claim_id":' + b"[" * depth + b"]" * depth + b"}"


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (nested(100), "depth"),
        (nested(1_000_000), "depth"),
        (b'{"claim_id":' + b'{"a":' * 100_000, "depth"),
        (b'{"claim_id": NaN}', "finite"),
        (b'{"claim_id": -Infinity}', "finite"),
        (b'{"delta_min": 1e999, "claim_id": "c"}', "finite"),
        (b'{"claim_id": "a", "claim_id": "b"}', "duplicate_key"),
        (b'{"claim_id": "c", "notes": {"a": {"b": 1, "b": 1}}}', "duplicate_key"),
        (b'\xef\xbb\xbf{"claim_id": "c"}', "json"),
        ('{"claim_id": "c"}'.encode("utf-16"), "utf8"),
        (b'{"claim_id": "\\ud800"}', "utf8"),
        (b'{"claim_id": "c"} {}', "json"),
        (b'{"claim_id": "c",}', "json"),
        (b"", "json"),
        (b'{"claim_id": "' + b"\\" * 99_999, "json"),
        (b'{"m_max": ' + b"9" * 10_000 + b"}", "json"),
        (b"[]", "type"),
        (b"null", "type"),
        (b"{}", "missing_field"),
        (b'{"claim_id": "c", "m_max": 80.0}', "type"),
        (b'{"claim_id": "c", "m_max": true}', "type"),
        (b'{"claim_id": "c", "m_max": "80"}', "type"),
        (b'{"claim_id": "c", "m_max": 99999999999999999999}', "range"),
        (b'{"claim_id": "c", "delta_min": ' + b"9" * 400 + b"}", "finite"),
        (b'{"claim_id": null}', "type"),
        (b'{"claim_id": "c", "notes": []}', "type"),
        (b'{"claim_id": "c", "no_such_field": 1}', "unknown_field"),
    ],
)
def test_a_hostile_payload_is_refused_with_its_rule(bundle: Path, data: bytes, rule: str) -> None:
    """Pitfall B6 among others."""
    put(bundle, "registration", data)
    error = refused(bundle)
    assert (error.file, error.rule) == ("payload/registration.json", rule)
    assert rule in str(error)


@pytest.mark.parametrize("name", ["integrity", "gate1", "gate2", "gate3", "certificate"])
def test_every_payload_is_read_strictly(tmp_path: Path, name: str) -> None:
    root = write(tmp_path / "bundle", full_hit())
    put(root, name, nested(5000))
    assert (refused(root).file, refused(root).rule) == (f"payload/{name}.json", "depth")


@pytest.mark.parametrize(
    ("name", "change", "place", "rule"),
    [
        ("gate1", lambda p: p["astar"].pop("per_unit"), "astar", "missing_field"),
        ("gate1", lambda p: p.pop("baseline"), "", "missing_field"),
        ("gate1", lambda p: p["astar"]["per_unit"].__setitem__(1, "0.9"), "astar.per_unit[1]", "type"),
        ("gate1", lambda p: p["astar"]["per_unit"].__setitem__(1, True), "astar.per_unit[1]", "type"),
        ("gate1", lambda p: p["astar"].update(unit_ids=[1]), "astar.unit_ids[0]", "type"),
        ("gate2", lambda p: p["controls"][0].update(validity="VALID"), "controls[0].validity", "word"),
        ("gate2", lambda p: p["controls"][0].update(outcome=None), "controls[0].outcome", "type"),
        ("gate2", lambda p: p["controls"][0].update(extra=1), "controls[0]", "unknown_field"),
        ("gate2", lambda p: p["controls"].append([]), "controls[1]", "type"),
        ("gate2", lambda p: p["adequacy"].update(positive_control_trials=1.5), None, "type"),
        ("integrity", lambda p: p.update(claim_frozen="true"), "claim_frozen", "type"),
        ("integrity", lambda p: p.update(p_hash=7), "p_hash", "type"),
        ("gate3", lambda p: p.pop("sham"), "", "missing_field"),
        ("gate3", lambda p: p["pairs"][0].pop("neutral"), "pairs[0]", "missing_field"),
        ("gate3", lambda p: p["sham"]["pairs"][1]["proposed_sham"].update(utility="1"), None, "type"),
        ("gate3", lambda p: p.update(neutral_adequacy=[]), "neutral_adequacy", "type"),
        ("gate3", lambda p: p.update(started_pair_count=True), "started_pair_count", "type"),
    ],
)
def test_a_wrong_field_is_named_with_its_place(
    tmp_path: Path, name: str, change: Any, place: str | None, rule: str
) -> None:
    root = write(tmp_path / "bundle", full_hit())
    error = refused(rewrite(root, change, name))
    assert (error.file, error.rule) == (f"payload/{name}.json", rule)
    if place is not None:
        assert error.place == place


def test_omitted_fields_take_the_defaults_of_the_format(tmp_path: Path) -> None:
    """Also the reference's: what is omitted then helps no claim, and the certificate says the same."""
    case = core_hit()
    root = write(tmp_path / "bundle", case)
    for name, thin in (
        ("gate1", {"astar": {"name": "a", "per_unit": [0.5]}, "baseline": {"name": "b", "per_unit": [0.1]}}),
        ("gate2", {"controls": [{"attempt_id": "only"}], "adequacy": {}}),
        ("integrity", {}),
        ("registration", {"claim_id": "claim"}),
    ):
        put(root, name, strict_json.stored_form(thin))
    parts = decode(read_bundle(root).payloads)
    assert parts.gate2.adequacy.positive_control_trials == -1
    assert parts.gate2.attempts[0].scores is None
    theirs = reference_bundle.verify_bundle(root)
    report = verify(root)
    assert report.intact
    assert report.decision.core.status is Status.INCONCLUSIVE
    assert theirs["payload_hashes_valid"] is True


@pytest.mark.parametrize(
    "path", ["../outside.json", "/etc/passwd", "payload/../manifest.json", "payload/gate1.json", "payload"]
)
def test_a_payload_stands_at_its_own_place_only(bundle: Path, path: str) -> None:
    (bundle.parent / "outside.json").write_text("{}")
    manifest = json.loads((bundle / "manifest.json").read_text())
    manifest["payloads"]["gate2"]["path"] = path
    put_manifest(bundle, manifest)
    error = refused(bundle)
    assert (error.place, error.rule) == ("payloads.gate2.path", "manifest_value")


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda m: m.update(comment="x"), "manifest_keys"),
        (lambda m: m.pop("hash_algorithm"), "manifest_keys"),
        (lambda m: m.update(formal_certificate_issued=True), "manifest_value"),
        (lambda m: m.update(formal_certificate_issued=0), "manifest_value"),
        (lambda m: m.update(format_version="2.0"), "manifest_value"),
        (lambda m: m.update(payloads=[]), "type"),
        (lambda m: m["payloads"].pop("gate1"), "manifest_keys"),
        (lambda m: m["payloads"].update(more=m["payloads"]["gate1"]), "manifest_keys"),
        (lambda m: m["payloads"].update(gate1="gate1.json"), "type"),
        (lambda m: m["payloads"]["gate1"].update(size_bytes=True), "type"),
        (lambda m: m["payloads"]["gate1"].update(size_bytes=-1), "type"),
        (lambda m: m["payloads"]["gate1"].update(size_bytes=10**12), "payload_digest"),
        (lambda m: m["payloads"]["gate1"].update(content_digest=None), "type"),
        (lambda m: m["payloads"]["gate1"].update(schema="dcp.core.gate2-evidence.v1"), "manifest_value"),
    ],
)
def test_a_manifest_of_another_shape_is_refused(bundle: Path, change: Any, rule: str) -> None:
    manifest = json.loads((bundle / "manifest.json").read_text())
    change(manifest)
    put_manifest(bundle, manifest)
    assert refused(bundle).rule == rule


def test_the_identity_of_a_bundle_is_checked(bundle: Path) -> None:
    manifest = json.loads((bundle / "manifest.json").read_text())
    manifest["bundle_id"] = "sha256:" + "0" * 64
    (bundle / "manifest.json").write_bytes(strict_json.stored_form(manifest))
    assert refused(bundle).rule == "bundle_id"


def test_bytes_that_are_not_in_stored_form_are_remarked(bundle: Path) -> None:
    data = json.dumps(payload(bundle, "gate1"), indent=2).encode()
    put(bundle, "gate1", data)
    report = verify(bundle)
    assert report.ok
    assert report.not_stored == ("payload/gate1.json",)


def _link_payload(root: Path) -> None:
    moved = root.parent / "moved.json"
    shutil.move(root / "payload" / "gate1.json", moved)
    (root / "payload" / "gate1.json").symlink_to(moved)


def _link_folder(root: Path) -> None:
    moved = root.parent / "moved"
    shutil.move(root / "payload", moved)
    (root / "payload").symlink_to(moved, target_is_directory=True)


def _pipe(root: Path) -> None:
    (root / "payload" / "gate1.json").unlink()
    os.mkfifo(root / "payload" / "gate1.json")


def _deep_folder(root: Path) -> None:
    (root / "payload" / "more").mkdir()


@pytest.mark.parametrize(
    ("spoil", "file", "rule"),
    [
        (_link_payload, "payload/gate1.json", "link"),
        (_link_folder, "payload", "link"),
        (_pipe, "payload/gate1.json", "link"),
        (_deep_folder, "payload/more", "file_set"),
        (lambda root: (root / "empty").mkdir(), "empty", "file_set"),
        (lambda root: (root / "README.md").write_text("hello"), ".", "file_set"),
        (lambda root: (root / "payload" / "gate1.json").unlink(), ".", "file_set"),
        (lambda root: (root / "manifest.json").unlink(), ".", "file_set"),
    ],
)
def test_nothing_but_the_registered_files(bundle: Path, spoil: Any, file: str, rule: str) -> None:
    spoil(bundle)
    error = refused(bundle)
    assert (error.file, error.rule) == (file, rule)


def test_the_root_is_a_folder_and_no_link(bundle: Path) -> None:
    link = bundle.parent / "link"
    link.symlink_to(bundle, target_is_directory=True)
    assert refused(link).rule == "root"
    assert refused(bundle / "manifest.json").rule == "root"
    assert refused(bundle.parent / "absent").rule == "root"


def test_a_file_beyond_the_limit_is_refused_unread(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strict_json, "MAX_BYTES", 100)
    assert refused(bundle).rule == "size"


def test_no_altered_byte_goes_unnoticed(bundle: Path) -> None:
    rng = random.Random(3)
    files = [path for path in bundle.rglob("*") if path.is_file()]
    for _ in range(60):
        path = rng.choice(files)
        data = path.read_bytes()
        position = rng.randrange(len(data))
        altered = data[:position] + bytes([data[position] ^ (1 << rng.randrange(8))]) + data[position + 1 :]
        path.write_bytes(altered)
        assert not verify(bundle).intact, (path.name, position)
        path.write_bytes(data)
    assert verify(bundle).ok


JUNK = (None, True, False, 0, -1, 2**53, 0.5, 1e308, -1e308, 5e-324, "", " ", "x", "unspecified", [], {}, [[]])


def test_no_payload_makes_the_verifier_fail_with_anything_but_a_report(tmp_path: Path) -> None:
    """Any value in any place, digests redone: refused with a rule, or decided."""
    rng = random.Random(11)
    root = write(tmp_path / "bundle", full_hit())
    originals = {name: payload(root, name) for name in ("registration", "integrity", "gate1", "gate2", "gate3")}
    decided = refusals = 0
    for _ in range(400):
        name = rng.choice(list(originals))
        changed = copy.deepcopy(originals[name])
        target: Any = changed
        while True:
            keys = list(target) if isinstance(target, dict) else range(len(target))
            key = rng.choice(list(keys))
            if isinstance(target[key], dict | list) and target[key] and rng.random() < 0.85:
                target = target[key]
                continue
            target[key] = rng.choice(JUNK)
            break
        put(root, name, strict_json.stored_form(changed))
        report = verify(root)
        decided += report.decision is not None
        refusals += report.error is not None
        put(root, name, strict_json.stored_form(originals[name]))
    assert decided + refusals == 400
    assert min(decided, refusals) > 50


# --- digests -----------------------------------------------------------------------------------------------


def _variants() -> list[Case]:
    plain = small_evidence_case()
    explicit = copy.deepcopy(plain)
    explicit["gate3"]["neutral_contract_audit_pass"] = False
    replaced = copy.deepcopy(plain)
    replaced["gate3"]["pairs"][5]["replacement_of"] = "pair-0004"
    replaced["gate3"]["sham"]["pairs"][5]["replacement_of"] = "null-0004"
    replaced["gate3"]["pairs"][4]["truthful"] = lost(replaced["gate3"]["pairs"][4]["truthful"])
    foreign = copy.deepcopy(plain)
    foreign["gate1"]["astar"] |= {"artifact_hash": "Prüfsumme-\U0001f9ea", "per_unit": [1, 0]}
    foreign["gate2"]["controls"][0] |= {"attempt_id": "Versuch-é", "per_unit": [0, 1]}
    foreign["gate3"]["pairs"][0]["truthful"]["utility"] = 1
    return [plain, explicit, replaced, foreign]


@pytest.mark.parametrize("case", _variants(), ids=["plain", "explicit", "replaced", "foreign"])
def test_digests_are_the_references(case: Case) -> None:
    theirs, ours = reference(case), decoded(case)
    one, two, three = theirs["gate1_ev"], theirs["gate2_ev"], theirs["gate3_ev"]
    d = reference_digests
    assert digests.units(ours.gate1.claimed.unit_ids) == d.unit_manifest_hash(one.astar.unit_ids)
    assert digests.artifact(ours.gate1.claimed) == d.artifact_results_hash(one.astar)
    assert digests.private_results(ours.gate1, "v") == d.private_results_manifest_hash(one.astar, one.baseline, "v")
    assert digests.attempt(ours.gate2.attempts[0]) == d.control_result_hash(two.controls[0])
    assert digests.branch(ours.gate3.pairs[0].truthful) == d.branch_result_hash(three.pairs[0].truthful)
    assert digests.adequacy(ours.gate2.adequacy) == d.adequacy_evidence_hash(two.adequacy)
    assert digests.feedback_pairs(ours.gate3.pairs) == d.feedback_pairs_manifest_hash(three.pairs)
    assert digests.null_pairs(ours.gate3.null.pairs) == d.sham_pairs_manifest_hash(three.sham.pairs)
    assert digests.neutral_ledger(ours.gate3.pairs) == d.gate3_neutral_recovery_ledger_manifest_hash(three)
    assert digests.challenger_ledger(ours.gate2.attempts) == d.recovery_ledger_manifest_hash(two.controls)
    assert digests.recovery_ledger(ours.gate2.attempts, ours.gate3) == d.recovery_ledger_manifest_hash(
        two.controls, three
    )
    assert digests.neutral_scope(ours.gate3, "rule") == d.gate3_neutral_scope_manifest_hash(three, "rule")
