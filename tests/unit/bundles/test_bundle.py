"""Our bundle: round trips, determinism, what it holds, what altering any part of it does."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bundles.conftest import Change, Finished, edited, refusal
from dcpflow.bundles import archive, screen, unpack
from dcpflow.bundles.contents import TABLES, table_member
from dcpflow.bundles.dcp_audit.errors import BundleError
from dcpflow.bundles.export import export
from dcpflow.bundles.format import MANIFEST, check_manifest
from dcpflow.bundles.kinds import Kind
from dcpflow.bundles.verify import verify
from dcpflow.errors import EvidenceError, UsageError
from dcpflow.evidence import folder
from dcpflow.records import canonical
from dcpflow.records.draws import Nonce
from dcpflow.records.layout import Layout

Alter = Callable[[Path, Change], Path]


# --- what is written --------------------------------------------------------------------------------------


def test_an_exported_audit_verifies_as_its_folder_does(finished: Finished) -> None:
    bundle, results = verify(finished.bundle), verify(finished.results)
    assert (bundle.ok, results.ok) == (True, True), (bundle.error, results.error)
    assert (bundle.kind, results.kind) == (Kind.BUNDLE, Kind.RESULTS)
    assert (bundle.core, bundle.evidence) == (results.core, results.evidence)
    decision = json.loads((finished.results / "decision.json").read_bytes())
    assert bundle.core["status"] == decision["core"]["status"]


def test_two_exports_have_the_same_bytes(finished: Finished, tmp_path: Path) -> None:
    export(finished.results, tmp_path / "again.dcp")
    assert (tmp_path / "again.dcp").read_bytes() == finished.bundle.read_bytes()


def test_the_bytes_do_not_tell_where_when_or_in_which_batches_it_ran(finished: Finished, tmp_path: Path) -> None:
    moved = Path(shutil.copytree(finished.results, tmp_path / "else where" / "results"))
    for path in [*moved.glob("store/*/*/*/*/*/aside-*.json"), *moved.glob("history/*/when.json")]:
        path.unlink()
    (moved / "objects" / "ff").mkdir(exist_ok=True)
    (moved / "objects" / "ff" / ("0" * 62)).write_bytes(b"of another audit")
    # the same receipts in one batch, beside the old ones, as another batch size leaves them
    receipts = sorted((moved / "challengers" / "matched").iterdir())
    lines = [line for path in receipts for line in json.loads(path.read_bytes())["body"]["episodes"]]
    whole = edited(receipts[0].read_bytes(), lambda body: body.update(episodes=lines))
    (moved / "challengers" / "matched" / "b00001-00099.json").write_bytes(whole)
    export(moved, tmp_path / "again.dcp")
    assert (tmp_path / "again.dcp").read_bytes() == finished.bundle.read_bytes()


def test_what_was_exported_can_be_made_a_folder_and_exported_again(finished: Finished, tmp_path: Path) -> None:
    for bundle in (finished.bundle, finished.revealed):
        out = tmp_path / bundle.stem
        assert unpack.import_bundle(bundle, out) is Kind.BUNDLE
        assert verify(out).ok
        assert (out / "decision.json").read_bytes() == (finished.results / "decision.json").read_bytes()
        export(out, tmp_path / bundle.name)
        assert (tmp_path / bundle.name).read_bytes() == bundle.read_bytes()


def test_tables_go_in_as_their_canonical_rows(finished: Finished) -> None:
    members = archive.read(finished.bundle)
    digests = json.loads(members["evidence/manifest.json"])["body"]["tables"]
    for name in folder.TABLES:
        assert canonical.digest(members[table_member(name)]) == digests[name]
    assert not [name for name in members if name.endswith(".parquet")]
    assert table_member("checks") in members and len(TABLES) == 8


def test_nothing_sealed_goes_in_unless_it_is_revealed(finished: Finished) -> None:
    members = archive.read(finished.bundle)
    everything = b"\n".join(members.values())
    sealed = [json.loads(path.read_bytes())["body"] for path in (finished.results / "private").glob("*/main.json")]
    assert len(sealed) == 2
    assert finished.nonce.secret not in everything
    assert finished.nonce.secret.hex().encode() not in everything
    for material in sealed:
        for value in material.values():
            if len(text := canonical.encode(value)) > 8:
                assert text not in everything
    assert not [name for name in members if "private" in name or name.startswith("revealed")]
    shown = archive.read(finished.revealed)
    assert {"revealed/nonce.json", "revealed/hidden.json", "revealed/sealed.json"} < shown.keys()
    assert shown.keys() - members.keys() == {"revealed/nonce.json", "revealed/hidden.json", "revealed/sealed.json"}


def test_a_verifier_says_what_it_recomputed_and_what_is_only_on_record(finished: Finished) -> None:
    closed, opened = verify(finished.bundle), verify(finished.revealed)
    assert "draws" in dict(closed.recorded) and "commitments" in dict(closed.recorded)
    assert "draws" in dict(opened.recomputed)
    assert dict(opened.recomputed)["commitments"].endswith("nonce_commitment, hidden_commitment, sealed_commitment")
    assert set(dict(opened.recorded)) == {"task"}
    # with the nonce at hand, the sealed folder of the results is opened too
    assert dict(verify(finished.results, finished.nonce).recomputed) | {"bundle": ""} == {
        **dict(opened.recomputed),
        "bundle": "",
    } | {"draws": dict(opened.recomputed)["draws"].replace("revealed", "given")}


def test_it_fits_on_one_screen(finished: Finished) -> None:
    for path in (finished.bundle, finished.revealed, finished.results):
        lines = screen.render(verify(path)).splitlines()
        assert len(lines) <= 30
        assert max(map(len, lines)) <= screen.WIDTH
        assert lines[0].startswith("VERIFIED ")


def test_programs_get_the_same(finished: Finished) -> None:
    found = verify(finished.bundle).to_json()
    assert json.loads(json.dumps(found)) == found
    assert found["schema"] == "dcpflow.verification/1"
    assert found["ok"] is True
    assert found["identity"] == json.loads(archive.read(finished.bundle)[MANIFEST])["digest"]


# --- what is not written ----------------------------------------------------------------------------------


def test_a_folder_that_does_not_verify_is_not_exported(finished: Finished, tmp_path: Path) -> None:
    results = Path(shutil.copytree(finished.results, tmp_path / "results"))
    (results / "decision.json").write_bytes(
        (results / "decision.json").read_bytes().replace(b"inconclusive", b"certified")
    )
    with pytest.raises(EvidenceError, match=r"decision\.json is not the decision that its evidence gives"):
        export(results, tmp_path / "claim.dcp")
    assert not (tmp_path / "claim.dcp").exists()


def test_another_nonce_reveals_nothing(finished: Finished, tmp_path: Path) -> None:
    with pytest.raises(EvidenceError, match="not the one that this audit's contract commits to"):
        export(finished.results, tmp_path / "claim.dcp", Nonce(bytes(32), ""))
    assert not list(tmp_path.iterdir())


def test_what_is_to_be_revealed_has_to_be_there(finished: Finished, tmp_path: Path) -> None:
    results = Path(shutil.copytree(finished.results, tmp_path / "results"))
    shutil.rmtree(results / "private" / "hidden")
    with pytest.raises(EvidenceError, match="hidden material is missing"):
        export(results, tmp_path / "claim.dcp", finished.nonce)


def test_places_where_no_bundle_is_written(finished: Finished, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="in the results folder"):
        export(finished.results, finished.results / "claim.dcp")
    with pytest.raises(UsageError, match="is a folder"):
        export(finished.results, tmp_path)
    with pytest.raises(UsageError, match="is no results folder"):
        export(finished.bundle, tmp_path / "claim.dcp")
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "already").touch()
    with pytest.raises(UsageError, match="exists already"):
        unpack.import_bundle(finished.bundle, tmp_path / "there")
    with pytest.raises(UsageError, match="is no bundle"):
        unpack.import_bundle(finished.results, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["there"]


# --- altered ----------------------------------------------------------------------------------------------


def test_no_member_can_be_altered_removed_or_added(finished: Finished, tmp_path: Path) -> None:
    members = archive.read(finished.revealed)
    for name in sorted(members):
        for change in (lambda data: data[:-1], None):
            other = {key: data for key, data in members.items() if key != name}
            if change is not None:
                other[name] = change(members[name])
            with pytest.raises(BundleError) as caught:
                check_manifest(other)
            assert caught.value.file == name or name == MANIFEST
    path = tmp_path / "claim.dcp"
    path.write_bytes(archive.encode(members | {"payload/run.py": b"import os"}))
    assert "payload/run.py: is not listed in the manifest [member]" in refusal(path)


@pytest.mark.parametrize("kind", ["store", "objects", "scores", "evidence", "registration", "history", "decision.json",
                                  "task/public", "target", "challengers", "revealed"])  # fmt: skip
def test_nor_with_a_manifest_that_is_true_of_it(finished: Finished, altered: Alter, kind: str) -> None:
    def reverse(members: dict[str, bytes]) -> None:
        name = max(name for name in members if name.startswith(kind) and len(members[name]) > 2)
        members[name] = members[name][:-2] + bytes([members[name][-2] ^ 1]) + members[name][-1:]

    def remove(members: dict[str, bytes]) -> None:
        del members[max(name for name in members if name.startswith(kind))]

    for change in (reverse, remove):
        assert refusal(altered(finished.revealed, change))


def test_nothing_superfluous_goes_along(finished: Finished, altered: Alter) -> None:
    digest = canonical.digest(b"payload")[7:]
    for name in (f"objects/{digest[:2]}/{digest[2:]}", "run.sh", "replay/challengers.json", "evidence/extra.jsonl"):
        text = refusal(altered(finished.bundle, lambda members, name=name: members.update({name: b"payload"})))
        assert f"{name}: belongs to nothing that the decision rests on [superfluous]" in text


def test_one_form_for_everything(finished: Finished, altered: Alter) -> None:
    def loose(members: dict[str, bytes]) -> None:
        members["scores/target.json"] = json.dumps(json.loads(members["scores/target.json"]), indent=1).encode()

    def split(members: dict[str, bytes]) -> None:
        members["controls/b00001-00009.json"] = members["controls/b00001-00004.json"]

    def rows(members: dict[str, bytes]) -> None:
        members["evidence/pairs.jsonl"] = members["evidence/pairs.jsonl"].replace(b",", b", ")

    for change in (loose, split, rows):
        assert refusal(altered(finished.bundle, change))


def test_a_better_score_is_seen_wherever_it_is_written(finished: Finished, altered: Alter) -> None:
    def better(members: dict[str, bytes]) -> None:
        def change(body: dict[str, object]) -> None:
            row = body["rows"][0]  # type: ignore[index]
            row["units"] = [1.0] * len(row["units"])

        members["scores/target.json"] = edited(members["scores/target.json"], change)

    text = refusal(altered(finished.bundle, better))
    assert "is not what records and scores give" in text


def test_facts_are_held_against_a_revealed_nonce(finished: Finished, altered: Alter) -> None:
    def lie(members: dict[str, bytes]) -> None:
        def change(body: dict[str, dict[str, dict[str, bool]]]) -> None:
            body["facts"]["scoring_order"]["pairs"] = False

        members["evidence/facts.json"] = edited(members["evidence/facts.json"], change)

    assert "decision.json is not the decision that its evidence gives" in refusal(altered(finished.revealed, lie))
    other = Nonce(bytes(range(32)), "")

    def swap(members: dict[str, bytes]) -> None:
        members["revealed/nonce.json"] = edited(
            members["revealed/nonce.json"], lambda body: body.update(nonce=other.secret.hex())
        )

    assert "whether nonce_commitment opens to the revealed nonce: recorded True, recomputed False" in refusal(
        altered(finished.revealed, swap)
    )


def test_a_history_says_what_was_amended(finished: Finished, altered: Alter) -> None:
    def hide(members: dict[str, bytes]) -> None:
        (name,) = [name for name in members if name.startswith("history/")]
        members[name] = edited(members[name], lambda body: body["parts"]["design"]["config"].update(challengers=7))

    assert "does not hold the registration that it names" in refusal(altered(finished.bundle, hide))


def test_verifying_a_bundle_writes_nothing_and_starts_nothing(
    finished: Finished, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    events: list[str] = []
    armed = True

    def listen(event: str, arguments: tuple[object, ...]) -> None:
        writes = event == "open" and isinstance(arguments[1], str) and any(mode in arguments[1] for mode in "wax+")
        if armed and (writes or event.startswith(("subprocess", "os.exec", "os.fork", "socket", "os.mkdir", "exec"))):
            events.append(f"{event} {arguments}")

    verify(finished.revealed)  # what is imported once is not of interest
    sys.addaudithook(listen)
    try:
        assert verify(finished.revealed).ok
        assert Layout(finished.results).decision.exists()
    finally:
        armed = False
    assert not events
