"""Bad input: one line that names the file, the place and the rule; nothing raised, nothing written."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from protocol.builders import seal, small_evidence_case

from bundles.conftest import Change, Finished, edited, refusal
from dcpflow.bundles import archive, unpack
from dcpflow.bundles.dcp_audit.certify import certificate
from dcpflow.bundles.dcp_audit.strict_json import digest, stored_form
from dcpflow.bundles.dcp_audit.write import bundle_files
from dcpflow.bundles.folders import write
from dcpflow.bundles.format import MANIFEST, SCHEMA, stage_bytes
from dcpflow.bundles.verify import verify
from dcpflow.errors import DcpflowError, UsageError
from dcpflow.evidence import folder
from dcpflow.records import canonical
from dcpflow.records.layout import Layout

Alter = Callable[[Path, Change], Path]
NESTED = b"[" * 10_000 + b"]" * 10_000
SPOILED = {
    "empty": (b"", "json"),
    "not JSON": (b"hello", "json"),
    "cut off": (b'{"body": {"contract"', "json"),
    "not UTF-8": (b'{"a": "\xff"}', "utf8"),
    "duplicate keys": (b'{"body": 1, "body": 2}', "duplicate_key"),
    "NaN": (b'{"body": NaN}', "finite"),
    "infinity": (b'{"body": 1e999}', "finite"),
    "nested": (NESTED, "depth"),
    "a surrogate": (b'{"body": "\\ud800"}', "utf8"),
    "a list": (b"[]", "type"),
    "a number": (b"17", "type"),
    "another object": (b'{"a": 1}', "missing_field"),
    "one field more": (b'{"schema": "", "digest": "", "body": {}, "x": 1}', "unknown_field"),
    "a digest that is none": (b'{"schema": "", "digest": "md5:1", "body": {}}', "type"),
}


# --- our bundle -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", SPOILED)
@pytest.mark.parametrize("member", ["scores/pairs.json", "registration/contract.json", "evidence/facts.json"])
def test_members_that_are_no_stage_file(finished: Finished, altered: Alter, member: str, what: str) -> None:
    data, rule = SPOILED[what]
    text = refusal(altered(finished.bundle, lambda members: members.update({member: data})))
    assert f": {member}: " in text
    assert text.endswith(f"[{rule}]")


def put(place: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """A change of one place in a body, e.g. ``rows.0.units``."""

    def change(body: Any) -> None:
        *path, last = [int(step) if step.isdigit() else step for step in place.split(".")]
        for step in path:
            body = body[step]
        if value is None:
            del body[last]
        else:
            body[last] = value

    return change


@pytest.mark.parametrize(
    ("member", "place", "value", "told"),
    [
        ("scores/pairs.json", "rows.2.units", ["x"], "body.rows[2].units: are not numbers alone [type]"),
        ("scores/pairs.json", "rows.2.slot", 1.5, "body.rows[2].slot: must be an integer from 1, is 1.5 [type]"),
        ("scores/pairs.json", "rows.2.slot", True, "body.rows[2].slot: must be an integer from 1, is True [type]"),
        ("scores/pairs.json", "rows.2.role", "judge", "body.rows[2].role: must be 'candidate' or"),
        ("scores/pairs.json", "rows.2.position", None, "body.rows[2]: has no 'position' [missing_field]"),
        ("scores/pairs.json", "rows.2.shell", "rm", "body.rows[2]: 'shell' is not a field of it [unknown_field]"),
        ("scores/pairs.json", "inputs", {"a": "b"}, "body.inputs.a: must be a digest"),
        ("target/checkpoint.json", "scope", "lineage_full", "body.scope: must be 'lineage_empty' or"),
        ("target/checkpoint.json", "history", [1], "body.history[0]: must be an object, is 1 [type]"),
        ("evidence/facts.json", "facts.target_runs", -1, "body.facts.target_runs: must be an integer from 0"),
        ("evidence/manifest.json", "tables.pairs", None, "body.tables: has no 'pairs' [missing_field]"),
        ("controls/b00001-00004.json", "episodes.0.arm", "sworn", "body.episodes[0].arm: must be 'target' or"),
        (
            "controls/b00001-00004.json",
            "episodes.0.slot",
            0,
            "body.episodes[0].slot: must be an integer from 1, is 0",
        ),
    ],
)
def test_wrong_types(finished: Finished, altered: Alter, member: str, place: str, value: Any, told: str) -> None:
    def change(members: dict[str, bytes]) -> None:
        members[member] = edited(members[member], put(place, value))

    assert f"{member}: {told}" in refusal(altered(finished.bundle, change))


def test_a_configuration_that_is_none(finished: Finished, altered: Alter) -> None:
    def change(members: dict[str, bytes]) -> None:
        # with every digest above it made true again, as whoever forges an audit would
        parts = {name: json.loads(members[f"registration/parts/{name}.json"]) for name in PARTS}
        parts["limits"]["config"]["experiments"] = "many"
        forge_registration(members, parts)

    text = refusal(altered(finished.bundle, change))
    assert "body.parts: no configuration of an audit: limits.experiments" in text


PARTS = ("claim", "task", "agent", "information", "limits", "isolation", "design", "thresholds")


def forge_registration(members: dict[str, bytes], parts: dict[str, dict[str, Any]]) -> None:
    from dcpflow.records import registration

    names = {name: canonical.digest_of(part) for name, part in parts.items()}
    contract, whole = registration.contract_digest(parts), registration.registration_digest(parts)
    members |= {f"registration/parts/{name}.json": canonical.encode(part) + b"\n" for name, part in parts.items()}
    of_contract = {name: names[name] for name in PARTS[:6]}
    members["registration/contract.json"] = edited(
        members["registration/contract.json"], lambda body: body.update(contract=contract, parts=of_contract)
    )
    members["registration/registration.json"] = edited(
        members["registration/registration.json"],
        lambda body: body.update(contract=contract, registration=whole, parts=names),
    )
    (old,) = [name for name in members if name.startswith("history/")]
    entry = edited(members.pop(old), lambda body: body.update(contract=contract, registration=whole, parts=parts))
    members[f"history/0001-{whole[7:23]}/entry.json"] = entry


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"{", "line 2: not JSON"),
        (b"[1]", "line 2: is no JSON object [type]"),
        (b'{"from":"judge","line":""}', "line 2: is neither the harness's nor the agent's [transcript]"),
        (b'{"from":"agent","line":1}', "line 2: is no line of a transcript [transcript]"),
        (b'{"from":"harness","line":"[]"}', "line 2: is no JSON object [type]"),
        (
            b'{"from":"harness","line":"{\\"result\\": NaN}"}',
            "line 2: not JSON that can be read: NaN is no JSON number",
        ),
        (b'{"from":"harness","line":"' + NESTED + b'"}', "line 2: not JSON"),
    ],
)
def test_transcripts(finished: Finished, altered: Alter, line: bytes, told: str) -> None:
    assert told in refusal(altered(finished.bundle, lambda members: spoil_transcript(members, line)))


def spoil_transcript(members: dict[str, bytes], line: bytes) -> tuple[str, str]:
    """Put a line into a transcript and make record, receipts and scores true of it; the record's digests."""
    name = next(name for name in sorted(members) if "/pairs/" in name and name.endswith("record.json"))
    record = json.loads(members[name])
    old = record["transcript"][7:]
    lines = members.pop(f"objects/{old[:2]}/{old[2:]}").split(b"\n")
    data = b"\n".join([lines[0], line, *lines[2:]])
    record["transcript"] = canonical.digest(data)
    new = record["transcript"][7:]
    members[f"objects/{new[:2]}/{new[2:]}"] = data
    before = canonical.digest(members[name])
    members[name] = canonical.encode(record)
    after = canonical.digest(members[name])
    for place in [place for place in members if place.startswith("pairs/") or place == "scores/pairs.json"]:
        text = members[place].replace(before.encode(), after.encode())
        members[place] = stage_bytes(json.loads(text)["schema"], json.loads(text)["body"])
    return before, after


@pytest.mark.parametrize("what", [name for name in SPOILED if name not in ("another object", "one field more",
                                                                           "a digest that is none")])  # fmt: skip
def test_manifests(finished: Finished, tmp_path: Path, what: str) -> None:
    data, rule = SPOILED[what]
    path = tmp_path / "claim.dcp"
    path.write_bytes(archive.encode(archive.read(finished.bundle) | {MANIFEST: data}))
    text = refusal(path)
    assert f": {MANIFEST}: " in text
    assert text.endswith(f"[{rule}]") or (rule == "type" and text.endswith("[schema]"))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda value: value.update(schema="dcpflow.bundle/3"), "a bundle of version 3; this dcpflow reads version 2"),
        (lambda value: value.update(schema="dcpflow.bundle/999999999"), "a bundle of version 999999999;"),
        (lambda value: value.update(schema="dcpflow.scores/1"), "not a bundle of dcpflow [schema]"),
        (lambda value: value.update(schema=1), "not a bundle of dcpflow [schema]"),
        (lambda value: value["body"].update(version=1), f"body.version: 1, but the schema is {SCHEMA} [version]"),
        (lambda value: value["body"].update(version=True), "body.version: must be an integer from 0"),
        (lambda value: value["body"]["members"]["decision.json"].update(bytes=2 << 30), "[manifest]"),
        (lambda value: value["body"]["members"].update({"../x": {"digest": "", "bytes": 1}}), "must be a digest"),
        (lambda value: value.update(extra=1), "holds something else than schema, digest and body [manifest]"),
        (lambda value: value["body"].pop("revealed"), "body: has no 'revealed' [missing_field]"),
    ],
)
def test_manifests_of_another_kind(
    finished: Finished, tmp_path: Path, change: Callable[[dict[str, Any]], None], told: str
) -> None:
    members = archive.read(finished.bundle)
    value = json.loads(members[MANIFEST])
    change(value)
    path = tmp_path / "claim.dcp"
    path.write_bytes(archive.encode(members | {MANIFEST: canonical.encode(value) + b"\n"}))
    assert told in refusal(path)


def test_a_zip_without_a_manifest(tmp_path: Path) -> None:
    path = tmp_path / "claim.dcp"
    path.write_bytes(archive.encode({"decision.json": b"{}"}))
    assert refusal(path) == f"{path}: there is no manifest.json: not a bundle of dcpflow [manifest]"


def test_terminals_are_not_steered(finished: Finished, tmp_path: Path) -> None:
    from dcpflow.bundles import screen

    members = archive.read(finished.bundle)
    path = tmp_path / "claim.dcp"
    path.write_bytes(archive.encode(members | {MANIFEST: b'{"schema": "\\u001b[2Jdcpflow"}'}))
    assert "\x1b" not in screen.render(verify(path))


def test_nothing_is_written_for_bad_input(finished: Finished, altered: Alter, tmp_path: Path) -> None:
    path = altered(finished.bundle, lambda members: members.update({"scores/pairs.json": b"{}"}))
    (tmp_path / "empty.dcp").touch()
    before = sorted(tmp_path.rglob("*"))
    for bundle in (path, tmp_path / "empty.dcp"):
        with pytest.raises(DcpflowError):
            unpack.import_bundle(bundle, tmp_path / "out")
    assert sorted(tmp_path.rglob("*")) == before


# --- results folders --------------------------------------------------------------------------------------


@pytest.fixture
def results(finished: Finished, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished.results, tmp_path / "results"))


def test_links_in_a_results_folder_are_not_followed(results: Path, tmp_path: Path) -> None:
    shutil.move(results / "scores", tmp_path / "scores")
    (results / "scores").symlink_to(tmp_path / "scores")
    assert refusal(results).endswith("scores: is a link, which is not followed: put a copy in its place [link]")


def test_pipes_in_a_results_folder_are_not_waited_for(results: Path) -> None:
    (results / "decision.json").unlink()
    os.mkfifo(results / "decision.json")
    assert refusal(results).endswith("decision.json: is neither a file nor a folder [file]")


def test_a_results_folder_may_be_reached_through_a_link(results: Path, tmp_path: Path) -> None:
    (tmp_path / "latest").symlink_to(results)
    assert verify(tmp_path / "latest").ok


def test_wrong_types_in_a_results_folder(results: Path) -> None:
    path = results / "scores" / "target.json"
    path.write_bytes(edited(path.read_bytes(), put("rows.0.units", 1)))
    assert "scores/target.json: the units of row 0 are no list. To score again: " in refusal(results)


def test_what_is_odd_in_a_transcript_is_found_when_it_matters(results: Path) -> None:
    layout = Layout(results)
    known = folder.read(layout, folder.receipts(layout), folder.scores(layout))
    members = {str(path.relative_to(results)): path.read_bytes() for path in results.rglob("*") if path.is_file()}
    kept = dict(members)
    before, after = spoil_transcript(members, b'{"from":"harness","line":"7"}')
    for name in [name for name in members if members[name] != kept.get(name)]:
        (results / name).unlink(missing_ok=True)
        write(results / name, members[name])
    facts = {after if digest == before else digest: of for digest, of in known.episode_facts.items()}
    seen = folder.load_view(layout, folder.receipts(layout), folder.scores(layout))
    folder.write(layout, seen, facts, known.facts)
    assert "line 2: is no JSON object [type]" in refusal(results)


def test_folders_where_files_belong(results: Path) -> None:
    (results / "scores" / "target.json").unlink()
    (results / "scores" / "target.json").mkdir()
    assert "target.json" in refusal(results)


def test_a_results_folder_says_how_to_mend_it(results: Path) -> None:
    next(results.glob("store/*/challengers/00001/withheld/1/record.json")).unlink()
    assert "run snakemake again" in refusal(results)


def test_paths_that_hold_nothing(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(UsageError, match=str(path)):
            verify(path)


# --- dcp-audit bundles ------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    case = seal(small_evidence_case())
    made = tmp_path_factory.mktemp("foreign")
    for name, data in bundle_files({**case, "certificate": certificate(case)}).items():
        write(made / name, data)
    assert verify(made).ok
    return made


@pytest.fixture
def foreign(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "foreign"))


def spoil(bundle: Path, data: bytes, name: str = "gate2", **entry: Any) -> None:
    """Replace a payload, and make manifest and bundle id true of it."""
    (bundle / "payload" / f"{name}.json").write_bytes(data)
    manifest = json.loads((bundle / "manifest.json").read_bytes())
    manifest["payloads"][name] |= {"content_digest": digest(data), "size_bytes": len(data), **entry}
    del manifest["bundle_id"]
    manifest["bundle_id"] = digest(stored_form(manifest))
    (bundle / "manifest.json").write_bytes(stored_form(manifest))


@pytest.mark.parametrize("what", [*SPOILED][:11])
def test_foreign_payloads(foreign: Path, what: str) -> None:
    data, rule = SPOILED[what]
    spoil(foreign, data)
    text = refusal(foreign)
    assert ": payload/gate2.json: " in text
    assert text.endswith(f"[{rule}]")


@pytest.mark.parametrize("what", [*SPOILED][:8])
def test_foreign_manifests(foreign: Path, what: str) -> None:
    data, rule = SPOILED[what]
    (foreign / "manifest.json").write_bytes(data)
    assert refusal(foreign).endswith(f"[{rule}]")


def test_foreign_sizes_paths_and_links(foreign: Path, tmp_path: Path) -> None:
    data = (foreign / "payload" / "gate2.json").read_bytes()
    spoil(foreign, data, size_bytes=2 << 30)
    assert f"{len(data)} bytes, registered {2 << 30} [payload_digest]" in refusal(foreign)
    spoil(foreign, data, path="../../payload/gate2.json")
    assert "payloads.gate2.path: '../../payload/gate2.json', must be" in refusal(foreign)
    spoil(foreign, data, path="payload/gate2.json")
    assert verify(foreign).ok
    shutil.move(foreign / "payload" / "gate2.json", tmp_path / "gate2.json")
    (foreign / "payload" / "gate2.json").symlink_to(tmp_path / "gate2.json")
    assert refusal(foreign).endswith("payload/gate2.json: a bundle holds no links [link]")


def test_a_foreign_bundle_of_a_newer_version(foreign: Path) -> None:
    manifest = json.loads((foreign / "manifest.json").read_bytes()) | {"format_version": "2.0"}
    (foreign / "manifest.json").write_bytes(stored_form(manifest))
    assert "manifest.json: format_version: '2.0', must be '1.0'" in refusal(foreign)


def test_a_foreign_certificate_that_does_not_follow(foreign: Path, tmp_path: Path) -> None:
    saved = json.loads((foreign / "payload" / "certificate.json").read_bytes())
    held = saved["verdict"]["core"]
    saved["verdict"]["core"] = "refuted"
    spoil(foreign, stored_form(saved), name="certificate")
    text = refusal(foreign)
    assert f"verdict.core: the certificate has 'refuted', the evidence gives {held!r}" in text
    with pytest.raises(DcpflowError):
        unpack.import_bundle(foreign, tmp_path / "out")
    assert not (tmp_path / "out").exists()
