"""Our audit as a dcp-audit bundle, and such a bundle as a folder of ours."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dcp.api import verify_bundle
from protocol.builders import core_case, decoded, seal, small_evidence_case
from protocol.random_evidence import random_case

from bundles.conftest import PUBLISHED, Finished, refusal
from dcpflow.bundles import imported, interchange, unpack
from dcpflow.bundles.dcp_audit import Decoded, certify, decode, envelope_faults, read_bundle
from dcpflow.bundles.dcp_audit.bind import bind
from dcpflow.bundles.dcp_audit.encode import encode
from dcpflow.bundles.dcp_audit.envelope import Envelope
from dcpflow.bundles.dcp_audit.write import bundle_files
from dcpflow.bundles.kinds import IMPORTED, Kind
from dcpflow.bundles.verify import verify
from dcpflow.errors import EvidenceError, UsageError
from dcpflow.evidence import decision, folder, tables
from dcpflow.records import history
from dcpflow.records.layout import Layout
from dcpflow.records.snapshot import Snapshot
from dcpflow.report import screen

published = pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the published bundle is not here")


# --- from the protocol's terms to payloads ----------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_encoding_is_the_inverse_of_decoding(seed: int) -> None:
    case, _ = random_case(seed)
    evidence = decoded(case)
    payloads = json.loads(json.dumps(encode(evidence)))
    assert decode(payloads) == evidence
    assert filled(case, payloads) == payloads


def filled(case: Any, payload: Any) -> Any:
    """A case with what it leaves to the format's defaults."""
    if isinstance(case, dict):
        return {**payload, **{key: filled(value, payload.get(key)) for key, value in case.items() if value is not None}}
    if isinstance(case, list | tuple):
        return [filled(item, other) for item, other in zip(case, payload, strict=True)]
    return case


def unbound(evidence: Decoded) -> Decoded:
    """The same without any digest that the format recomputes."""
    free = ("verifier_hash", "p_hash", "lineage_manifest_hash", "claim_family_manifest_hash",
            "audit_slot_registry_entry_hash")  # fmt: skip
    envelope = evidence.envelope
    blank = {f.name: "" for f in dataclasses.fields(Envelope) if f.name.endswith("_hash") and f.name not in free}
    gate2 = dataclasses.replace(evidence.gate2, adequacy=dataclasses.replace(evidence.gate2.adequacy, checks_digest=""))
    return dataclasses.replace(evidence, envelope=dataclasses.replace(envelope, **blank), gate2=gate2)


@pytest.mark.parametrize("case", [core_case(), small_evidence_case()], ids=["core", "full"])
def test_every_digest_is_filled_in_as_the_reference_fills_it_in(case: dict[str, Any]) -> None:
    evidence = decoded(seal(case))
    bound = bind(unbound(evidence))
    if evidence.gate3 is None:
        # without a feedback experiment these two are bound to nothing
        free = {"recovery_ledger_manifest_hash": "", "selection_rule_hash": ""}
        bound, evidence = (
            dataclasses.replace(e, envelope=dataclasses.replace(e.envelope, **free)) for e in (bound, evidence)
        )
    assert bound == evidence
    assert not envelope_faults(bind(unbound(decoded(seal(case)))))


def test_what_is_written_verifies_and_certifies(tmp_path: Path) -> None:
    payloads = encode(bind(unbound(decoded(seal(small_evidence_case())))))
    payloads["certificate"] = certify.certificate(payloads)
    for name, data in bundle_files(payloads).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    report = verify_bundle(tmp_path)
    assert report["ok"], report
    found = verify(tmp_path)
    assert found.ok, found.error
    assert (found.core["status"], found.evidence["status"]) == ("certified", "certified")
    assert found.identity == report["bundle_id"]


@published
def test_the_published_bundle_is_written_again_byte_for_byte() -> None:
    bundle = read_bundle(PUBLISHED)
    payloads = encode(bind(decode(bundle.payloads)))
    # left to its default there, and bound to nothing in a core bundle
    for key in ("gate3_pair_replacement_policy", "max_feedback_pair_replacements", "max_sham_pair_replacements"):
        del payloads["registration"][key]
    payloads["integrity"]["selection_rule_hash"] = bundle.payloads["integrity"]["selection_rule_hash"]
    payloads["certificate"] = certify.certificate(payloads)
    written = bundle_files(payloads)
    assert written == {name: (PUBLISHED / name).read_bytes() for name in written}


# --- our audit --------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def exchanged(finished: Finished, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("exchanged") / "bundle"
    interchange.export(finished.results, out)
    return out


def test_our_audit_is_accepted_and_decided_the_same(finished: Finished, exchanged: Path) -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("dcp"), "verify", exchanged], check=False, capture_output=True, text=True
    )
    told = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    document = json.loads((finished.results / "decision.json").read_bytes())
    assert done.returncode == 0, done.stdout
    assert told["Replay"] == "VERIFIED"
    assert (told["Core"], told["Evidence"]) == (document["core"]["status"], document["evidence"]["status"])
    assert told["Profile"] == "full_audit_v1"
    ours = verify(exchanged)
    assert ours.ok and ours.identity == told["Bundle"]


def test_two_exports_are_the_same(finished: Finished, exchanged: Path, tmp_path: Path) -> None:
    moved = Path(shutil.copytree(finished.results, tmp_path / "else where"))
    interchange.export(moved, tmp_path / "out")
    for path in sorted(exchanged.rglob("*.json")):
        assert (tmp_path / "out" / path.relative_to(exchanged)).read_bytes() == path.read_bytes()


def test_it_names_what_it_was_made_of(finished: Finished, exchanged: Path) -> None:
    notes = read_bundle(exchanged).payloads["registration"]["notes"]["dcpflow"]
    found = verify(finished.results)
    assert notes["decision"] == found.identity
    assert {"contract", "registration"} < notes.keys()


def evidence_of(results: Path) -> tuple[folder.Evidence, list[str]]:
    layout = Layout(results)
    registrations = [entry.registration for entry in history.entries(layout)]
    return folder.read(layout, folder.receipts(layout), folder.scores(layout)), registrations


def test_each_attestation_blocks_what_its_checks_block(finished: Finished) -> None:
    evidence, registrations = evidence_of(finished.results)
    config = folder.config_of(evidence.view.registered)
    outcome = decision.reach(evidence.view, evidence.facts, evidence.episode_facts, registrations, config)
    blocks = {check.name: check.blocks for check in outcome.checks}
    case = decoded(seal(small_evidence_case()))
    attestations = {f.name for f in dataclasses.fields(Envelope) if f.type == "bool"} - {"web_access_used"}
    assert attestations == interchange.ATTESTED_BY.keys()
    for name, found in interchange.ATTESTED_BY.items():
        broken = dataclasses.replace(case, envelope=dataclasses.replace(case.envelope, **{name: False}))
        (fault,) = envelope_faults(broken)
        assert {blocks[check] for check in found} == {fault.blocks}, name
    # what else keeps a status from being certified is said by the evidence itself
    elsewhere = {"channels_alike", "neutral_channels_replay", "truthful_channels_replay", "seals_before_branches"}
    said = {check for found in interchange.ATTESTED_BY.values() for check in found} | elsewhere
    assert {name for name, stakes in blocks.items() if stakes} == said


@pytest.mark.parametrize(
    "facts",
    [
        {"commitments": {"sealed_commitment": False}},
        {"scoring_order": {"target": False}},
        {"unlisted": ["challengers slot 7 (withheld), attempt 1"]},
    ],
    ids=str,
)
def test_failing_audits_are_decided_the_same(finished: Finished, facts: dict[str, Any]) -> None:
    evidence, registrations = evidence_of(finished.results)
    changed = dataclasses.replace(evidence, facts=dataclasses.replace(evidence.facts, **facts))
    compare(changed, registrations)


def test_an_audit_that_hides_earlier_ones_is_decided_the_same(finished: Finished) -> None:
    evidence, registrations = evidence_of(finished.results)
    noted = Snapshot("local", "", 4, ("hidden",), 1, 0)
    compare(dataclasses.replace(evidence, view=dataclasses.replace(evidence.view, noted=noted)), registrations)


@pytest.mark.parametrize("fact", ["draw_matches", "hello_matches", "transcript_replays", "canary_quoted"])
def test_episodes_that_are_not_as_registered_are_decided_the_same(finished: Finished, fact: str) -> None:
    evidence, registrations = evidence_of(finished.results)
    for stage in ("challengers", "controls", "pairs", "null_pairs"):
        first = evidence.view.of(stage)[0].digest
        facts = {**evidence.episode_facts, first: {**evidence.episode_facts[first], fact: False}}
        compare(dataclasses.replace(evidence, episode_facts=facts), registrations)


def compare(evidence: folder.Evidence, registrations: list[str]) -> None:
    """Our decision and the reference's on the same evidence."""
    config = folder.config_of(evidence.view.registered)
    outcome = decision.reach(evidence.view, evidence.facts, evidence.episode_facts, registrations, config)
    document = decision.document(outcome)
    payloads = encode(bind(interchange.interchanged(evidence, document, registrations)))
    verdict = certify.certificate(payloads)["verdict"]
    for name in ("core", "evidence"):
        theirs = (verdict[name], verdict[f"{name}_inconclusive_class"])
        assert (document[name]["status"], document[name]["class"] or "null") == theirs


def test_where_nothing_is_written(finished: Finished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "of").touch()
    with pytest.raises(UsageError, match="exists already"):
        interchange.export(finished.results, tmp_path / "full")
    with pytest.raises(UsageError, match="in the folder that it is made of"):
        interchange.export(finished.results, finished.results / "out")
    with pytest.raises(UsageError, match="is no results folder"):
        interchange.export(finished.bundle, tmp_path / "out")
    real = certify.certificate

    def other(payloads: dict[str, Any]) -> dict[str, Any]:
        record = real(payloads)
        return {**record, "verdict": {**record["verdict"], "core": "certified", "core_inconclusive_class": "null"}}

    monkeypatch.setattr(interchange, "certificate", other)
    with pytest.raises(EvidenceError, match=r"dcp-audit decides core as certified \(null\), dcpflow as inconclusive"):
        interchange.export(finished.results, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["full"]


def test_without_dcp_audit_it_says_what_to_install(
    finished: Finished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "dcp.evaluate", None)
    with pytest.raises(UsageError, match=r"pip install 'dcpflow\[interop\]'"):
        interchange.export(finished.results, tmp_path / "out")
    assert not list(tmp_path.iterdir())


# --- a bundle as a folder ---------------------------------------------------------------------------------


@published
def test_the_published_bundle(tmp_path: Path) -> None:
    found = verify(PUBLISHED)
    assert found.ok, found.error
    assert found.identity == "sha256:3690bebc8b3ac882ab17ad0f8a61b05ea630443dbc85e36965eabf27e1f1bbca"
    assert (found.core["status"], found.evidence["status"]) == ("certified", "not_tested")
    assert found.provenance.startswith("self-attested")
    out = tmp_path / "out"
    assert unpack.import_bundle(PUBLISHED, out) is Kind.DCP_AUDIT
    document = json.loads((out / "decision.json").read_bytes())
    assert document["gate1"]["x"] == pytest.approx(0.9432885520, abs=1e-10)
    challengers = document["gate2"]["challengers"]
    assert (challengers["hits"], challengers["independent"]) == (0, 80)
    assert document["gate2"]["best_score"] - document["gate1"]["x"] == pytest.approx(-0.14856, abs=1e-5)
    assert document["gate2"]["recovery_upper_bound"] == pytest.approx(0.0477239, abs=1e-7)
    (one, *_), seen = document["gate2"]["campaign"]["at_bound"], document["gate2"]["campaign"]["seen"]
    assert one["at_most"] == pytest.approx(0.0477239, abs=1e-7)
    assert [row["chance"] for row in seen] == pytest.approx([1 - (1 - p) ** 80 for p in (0.001, 0.01, 0.05)])
    assert document["controls"]["recall_lower_bound"] == pytest.approx(0.8889268, abs=1e-7)
    assert document["provenance"] == "self-attested"
    assert verify(out).ok and verify(out).kind is Kind.IMPORTED
    assert len(tables.read(out / "evidence" / "episodes.parquet", "episodes")) == 81


@pytest.fixture
def received(exchanged: Path, tmp_path: Path) -> Path:
    unpack.import_bundle(exchanged, tmp_path / "received")
    return tmp_path / "received"


def test_an_imported_audit_shows_the_same_numbers(finished: Finished, received: Path) -> None:
    before = json.loads((finished.results / "decision.json").read_bytes())
    after = json.loads((received / "decision.json").read_bytes())
    for gate in ("gate1", "gate2", "controls", "gate3"):
        for key, value in before[gate].items():
            assert after[gate][key] == (pytest.approx(value) if isinstance(value, float) else value), (gate, key)
    for name in ("core", "evidence"):
        assert (after[name]["status"], after[name]["class"]) == (before[name]["status"], before[name]["class"])
    shown = screen.render(after)
    assert f"Core      {before['core']['status'].upper()}" in shown


def test_imported_tables_have_our_columns_and_the_bundle_s_rows(finished: Finished, received: Path) -> None:
    for name in folder.TABLES:
        mine = tables.read(finished.results / "evidence" / f"{name}.parquet", name)
        rows = tables.read(received / "evidence" / f"{name}.parquet", name)
        if name in ("pairs", "null_pairs"):
            assert [row["unit"] for row in rows] == [row["unit"] for row in mine]
            assert [row[next(key for key in row if key.endswith("_validity"))] for row in rows]
        if name == "scores":
            ours = [row["score"] for row in mine if row["stage"] == "challengers" and row["role"] == "candidate"]
            assert [row["score"] for row in rows if row["stage"] == "challengers"] == ours
    assert [row["name"] for row in tables.read(received / "evidence" / "checks.parquet", "checks")]


def test_an_imported_folder_verifies_and_any_alteration_is_seen(received: Path) -> None:
    assert verify(received).ok

    def edit(path: Path, change: Callable[[bytes], bytes]) -> str:
        kept = path.read_bytes()
        path.write_bytes(change(kept))
        text = refusal(received)
        path.write_bytes(kept)
        return text

    text = edit(received / "decision.json", lambda data: data.replace(b"inconclusive", b"certified"))
    assert "is not the decision that importing the bundle gives" in text
    other = (received / "evidence" / "pairs.parquet").read_bytes()
    assert "null_pairs" in edit(received / "evidence" / "null_pairs.parquet", lambda _: other)
    assert "payload_digest" in edit(received / IMPORTED / "payload" / "gate2.json", lambda data: data + b" ")
    assert verify(received).ok


def test_what_sensitivity_needs_comes_out_of_it(received: Path) -> None:
    found = imported.read(received / IMPORTED)
    assert found.decoded.registration.grade == "evidence"
    assert found.decision.core.status == found.document()["core"]["status"]
    assert len(found.decoded.gate2.attempts) == 6
