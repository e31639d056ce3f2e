"""An auditor who holds what is sealed, and a claimant who runs without it: the same audit, to the byte."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.conftest import Audit

from dcpflow.authority.entry import Head
from dcpflow.authority.keys import PublicKey, Signer
from dcpflow.authority.log import Log
from dcpflow.authority.source import Folder
from dcpflow.bundles import kinds
from dcpflow.bundles.verify import verify
from dcpflow.cli import main
from dcpflow.errors import EvidenceError, UsageError
from dcpflow.evidence import folder as evidence
from dcpflow.records import asked, canonical, offer, plan, receipts, snapshot, stagefile
from dcpflow.records.draws import Draws, Nonce, Offered
from dcpflow.records.episodes import EpisodeKey
from dcpflow.records.layout import Layout
from dcpflow.records.objects import ObjectStore
from dcpflow.stages import episodes, offering, private_keys, registering, scoring_for, serving
from dcpflow.stages.laboratory import Job
from dcpflow.stages.scoring_for import score_for
from dcpflow.stages.serving import Desk, Refused, serve
from dcpflow.stages.signed_scores import require_signed

TARGET, BRANCH = EpisodeKey("target", 1, "target"), EpisodeKey("pairs", 1, "truthful")


@dataclass(frozen=True)
class Claimant(Audit):
    """The claimant's side of an audit: it never has the nonce, whose file is given for the auditor's side alone."""

    offer: Path = Path()

    @property
    def job(self) -> Job:
        return Job(self.results, None, "", offer=self.offer)

    def accept(self) -> None:
        offering.accept(self.results, self.offer, self.section("task"), None)
        self.freeze_contract()
        strata = json.loads(self.workflow.registered_strata)
        design, thresholds = self.section("design"), self.section("thresholds")
        registering.register(self.results, design, thresholds, strata, self.workflow.registry, offered=self.offer)

    def commit(self) -> None:
        """All that the claimant's side does."""
        self.accept()
        self.run("target")
        self.freeze_packet()
        self.select_checkpoint()
        job = self.job
        for stage in self.workflow.stages[1:]:
            self.run(stage, job)


FEW = {"challengers": 2, "controls": 1, "pairs": 2, "null_pairs": 2, "misled_null_episodes": 0}


@dataclass(frozen=True)
class Parties:
    """Both sides, each with its folders."""

    claimant: Claimant
    sealed: Path

    def score(self, results: Path, theirs: Path | None = None, **more: Any) -> bytes:
        score_for(theirs or self.claimant.results, self.sealed, results, **more)
        return (results / "decision.json").read_bytes()

    def unrevealed(self, folder: Path) -> Parties:
        """With a copy of the sealed folder, before any scores."""
        ignored = shutil.ignore_patterns(offering.REVEALED)
        return replace(self, sealed=Path(shutil.copytree(self.sealed, folder, ignore=ignored)))


def parties(audit: Audit, folder: Path) -> Parties:
    """The auditor's side has sealed; nothing has run."""
    sealed, given = folder / "sealed", folder / "offer"
    offering.seal_and_offer(audit.workflow, sealed, given, audit.nonce_file)
    listed = audit.with_settings(execution={"registry": str(folder / "registry")})
    claimant = Claimant(folder / "results", audit.nonce_file, listed.settings, given)
    return Parties(claimant, sealed)


@contextmanager
def served(sealed: Path, given: Path) -> Iterator[None]:
    """While the auditor's evaluator answers, in a process of its own."""
    command = [sys.executable, "-m", "dcpflow", "serve-experiments", str(sealed), str(given)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert "answering experiments" in process.stdout.readline()
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
    assert process.returncode == 0


@pytest.fixture(scope="module")
def one_side(new_audit: Callable[..., Audit]) -> Audit:
    """An audit of few episodes by one side, from the seal to the decision. Do not alter it."""
    misses = {"gate3": {"misled_min_misses": 0}}
    audit = new_audit(design=FEW, thresholds=misses, isolation={"backend": "none"})
    audit.run_all()
    return audit


@pytest.fixture(scope="module")
def committed(one_side: Audit, tmp_path_factory: pytest.TempPathFactory) -> Parties:
    """The same audit once more by two sides, up to the last commit, noted in a registry. Do not alter it."""
    folder = tmp_path_factory.mktemp("parties")
    Log.create(folder / "registry", Head("registry.example"))
    both = parties(one_side, folder)
    with served(both.sealed, both.claimant.offer):
        both.claimant.commit()
    return both


@pytest.fixture(scope="module")
def scored(committed: Parties, tmp_path_factory: pytest.TempPathFactory) -> Parties:
    """The same after its scores: results and key of the auditor lie beside the sealed folder. Do not alter it."""
    folder = tmp_path_factory.mktemp("scored")
    both = committed.unrevealed(folder / "sealed")
    registry = both.claimant.workflow.registry
    both.score(folder / "audited", signer=Signer.new(folder / "auditor"), noted_in=registry)
    return both


@pytest.fixture
def theirs(committed: Parties, tmp_path: Path) -> Path:
    """A copy of what the claimant has committed, to alter."""
    copy = Path(shutil.copytree(committed.claimant.results, tmp_path / "theirs"))
    for path in copy.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return copy


def test_two_sides_come_to_the_decision_that_one_side_comes_to(scored: Parties, one_side: Audit) -> None:
    audited = scored.sealed.with_name("audited")
    data = (audited / "decision.json").read_bytes()
    assert data == (one_side.results / "decision.json").read_bytes()
    assert verify(audited).ok
    assert {path.name for path in (audited / "revealed").iterdir()} == {"nonce.json", "hidden.json", "sealed.json"}
    assert {path.name for path in audited.parent.iterdir()} == {"audited", "auditor", "auditor.pub", "sealed"}
    last = Log.read(Folder(Path(scored.claimant.workflow.registry))).entries[-1]
    assert (last.kind, last.body["decision"]) == ("decided", canonical.digest(data))


def test_nothing_on_the_claimant_s_side_holds_what_is_sealed(committed: Parties) -> None:
    nonce = Nonce.read(committed.sealed / offering.NONCE)
    secrets = [nonce.secret, *(nonce.derive(*path) for path in (("hidden", plan.MAIN), ("sealed",)))]
    secrets += [nonce.derive("commitment", label) for label in ("nonce", "hidden", "sealed")]
    told = b"".join(
        path.read_bytes()
        for folder in (committed.claimant.results, committed.claimant.offer)
        for path in folder.rglob("*")
        if path.is_file()
    )
    assert not [secret for secret in secrets if secret in told or secret.hex().encode() in told]
    hidden = json.loads((Layout(committed.sealed).hidden / "main.json").read_bytes())["body"]
    assert json.dumps(hidden["hot"], separators=(",", ":")).encode() not in told
    assert not list((committed.claimant.results / "private").rglob("*"))
    assert committed.sealed.stat().st_mode & 0o777 == 0o700


def test_an_offer_gives_the_draws_of_registered_slots_and_nothing_else(committed: Parties) -> None:
    found = offer.read(committed.claimant.offer)
    whole = Draws(Nonce.read(committed.sealed / offering.NONCE), found.contract)
    ours = found.draws(found.contract)
    assert plan.draw(ours, "challengers", 2) == plan.draw(whole, "challengers", 2)
    assert plan.canary_text(ours, "controls", 1) == plan.canary_text(whole, "controls", 1)
    for draw in (
        lambda: plan.draw(ours, "challengers", 3),
        lambda: ours.order(3, "scores pairs", "scoring order"),
        lambda: ours.nonce.derive("hidden", plan.MAIN),
        lambda: ours.nonce.derive("sealed"),
        lambda: ours.nonce.commit("nonce", b""),
        lambda: plan.draw(found.draws("sha256:" + "0" * 64), "challengers", 1),
    ):
        with pytest.raises(UsageError, match="has not offered"):
            draw()


def test_every_experiment_that_was_answered_stands_in_the_auditor_s_list(committed: Parties) -> None:
    answered = asked.everything(committed.sealed / offering.ASKED)
    assert {key.arm for key in answered} == {"target", "truthful"}
    records = {episode.key: episode.record for episode in _committed(committed).episodes}
    assert {key: len(told) for key, told in answered.items()} == {
        key: record.usage["experiments"] for key, record in records.items() if key.arm in {"target", "truthful"}
    }


def _committed(both: Parties) -> Any:
    layout = Layout(both.claimant.results)
    return evidence.load_view(layout, evidence.receipts(layout), {}, whole=False)


def test_an_experiment_that_no_record_tells_of_is_found_before_anything_is_scored(
    committed: Parties, tmp_path: Path
) -> None:
    """A target run that was thrown away, or asking in the name of a branch."""
    both = committed.unrevealed(tmp_path / "sealed")
    with asked.of_episode(both.sealed / offering.ASKED, BRANCH) as before:
        before.add("another candidate", {"result": {}})
    with pytest.raises(
        EvidenceError, match=r"no committed record tells of: 1 of pairs slot 1 \(truthful\).*Nothing was revealed"
    ):
        both.score(tmp_path / "audited")
    assert not (tmp_path / "audited").exists()


@pytest.mark.parametrize(
    ("alter", "words"),
    [
        (
            lambda theirs: shutil.rmtree(theirs / "challengers"),
            r"challengers slot 1 \(withheld\) has no committed record, nor have 1",
        ),
        (lambda theirs: shutil.rmtree(theirs / "history"), "is not what the auditor has sealed: registered nothing"),
        (lambda theirs: _link(next(theirs.glob("store/*/target/00001/target/1/record.json"))), "is a link"),
        (lambda theirs: next(theirs.glob("objects/*/*")).write_bytes(b"x"), "was altered"),
        (lambda theirs: _rewrite(theirs, draw={"presentation": "0"}), "was drawn with another nonce"),
        (lambda theirs: _rewrite(theirs, candidates=[ObjectStore(theirs / "objects").put(b"\xff")]), "no run writes"),
        (lambda theirs: _receipt(theirs, [{"stage": "x", "slot": 1, "arm": "x", "attempt": 1}]), "no run writes"),
    ],
)
def test_what_a_claimant_hands_over_altered_is_refused_and_reveals_nothing(
    alter: Callable[[Path], object], words: str, committed: Parties, theirs: Path, tmp_path: Path
) -> None:
    alter(theirs)
    with pytest.raises(EvidenceError, match=words):
        committed.score(tmp_path / "audited", theirs)
    assert {path.name for path in tmp_path.iterdir()} <= {"theirs", "secret"}


def _rewrite(theirs: Path, **fields: Any) -> None:
    """Another record of the first challenger, with a receipt that names it."""
    path = next(theirs.glob("store/*/challengers/00001/withheld/1/record.json"))
    data = canonical.encode(json.loads(path.read_bytes()) | fields)
    path.write_bytes(data)
    (receipt,) = theirs.glob("challengers/*/b*.json")
    first, *others = json.loads(receipt.read_bytes())["body"]["episodes"]
    _receipt(theirs, [first | {"record": canonical.digest(data)}, *others])


def _receipt(theirs: Path, lines: list[dict[str, Any]]) -> None:
    (path,) = theirs.glob("challengers/*/b*.json")
    body, _ = stagefile.read(path, receipts.SCHEMA, "the receipt")
    stagefile.write(path, receipts.SCHEMA, body | {"episodes": lines})


def _link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/passwd")


def test_scores_are_signed_and_the_signature_is_of_these_scores(scored: Parties, tmp_path: Path) -> None:
    key = scored.sealed.with_name("auditor.pub")
    audited = Path(shutil.copytree(scored.sealed.with_name("audited"), tmp_path / "audited"))
    Signer.new(tmp_path / "another")
    assert require_signed(audited, key) == PublicKey.read(key).id
    with pytest.raises(EvidenceError, match="is not signed by the key"):
        require_signed(audited, tmp_path / "another.pub")
    path = audited / "decision.json"
    path.write_bytes(path.read_bytes().replace(b'"target_runs_started":1', b'"target_runs_started":2'))
    with pytest.raises(EvidenceError, match="signs other scores"):
        require_signed(audited, key)
    with pytest.raises(UsageError, match="is a bundle, which holds no signature of the scores"):
        require_signed(path, key)


def test_a_stratum_that_is_added_later_is_offered_run_and_scored_too(
    committed: Parties, one_side: Audit, tmp_path: Path
) -> None:
    stratum = {"limits": {"experiments": 6}, "challengers": 1, "alpha": 0.1}
    audit = one_side.with_settings(strata={"strong": stratum})
    sealed, given = committed.unrevealed(tmp_path / "sealed").sealed, tmp_path / "offer"
    shutil.copytree(committed.claimant.results, tmp_path / "results")
    offering.seal_and_offer(audit.workflow, sealed, given)
    claimant = Claimant(tmp_path / "results", audit.nonce_file, audit.settings, given)
    claimant.accept()
    for name, stratum in claimant.workflow.strata.items():
        for path in map(Path, stratum.receipts("challengers")):
            first, last = (find(path.stem.removeprefix("b")) for find in (stratum.first, stratum.last))
            episodes.run_slots(claimant.job, "challengers", first, last, path, name)
    decision = json.loads(Parties(claimant, sealed).score(tmp_path / "audited"))
    alone = audit.at(Path(shutil.copytree(one_side.results, tmp_path / "alone")))
    alone.register()
    alone.run_strata()
    alone.tabulate()
    alone.decide()
    expected = json.loads((alone.results / "decision.json").read_bytes())
    assert decision["strata"] == expected["strata"]
    assert decision["gate2"] == expected["gate2"]
    assert [one["changes"] for one in decision["registration"]["amendments"]] == [
        one["changes"] for one in expected["registration"]["amendments"]
    ]
    assert evidence.verify(Layout(tmp_path / "audited"))


def test_a_receipt_that_names_no_path_is_what_no_run_writes(committed: Parties, theirs: Path, tmp_path: Path) -> None:
    _receipt(theirs, [{"stage": "challengers", "slot": 1, "arm": "withheld", "attempt": "x" * 300, "record": ""}])
    with pytest.raises(EvidenceError, match="no run writes"):
        committed.score(tmp_path / "audited", theirs)


def test_an_offered_folder_says_who_decides(
    committed: Parties, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    results = committed.claimant.results
    for command in (["show", results / "decision.json"], ["report", results], ["verify", results]):
        assert main(list(map(str, command))) == 1
        told = capsys.readouterr().err
        assert "The auditor scores what is committed here, and decides: dcpflow score-for" in told
        assert "snakemake" not in told
        assert "make audit" not in told


def test_what_a_claimant_has_named_cannot_steer_the_auditor_s_terminal(
    committed: Parties, theirs: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    os.mkfifo(theirs / "store/\x1b[31mevil")
    sealed = ["--sealed", str(committed.sealed), "--to", str(tmp_path / "audited")]
    assert main(["score-for", str(theirs), *sealed]) == 1
    told = capsys.readouterr().err
    assert "\N{REPLACEMENT CHARACTER}[31mevil" in told
    assert "\x1b" not in told


# --- the desk at which experiments are answered ------------------------------------------------------------


@pytest.fixture
def desk(committed: Parties, tmp_path: Path) -> Callable[[EpisodeKey], Desk]:
    """Opens the desk of an episode, over a list of its own in which nothing was asked."""
    ignored = shutil.ignore_patterns(offering.ASKED)
    sealed = Path(shutil.copytree(committed.sealed, tmp_path / "sealed", ignore=ignored))
    return lambda key: Desk(offering.job_of(sealed, None), key)


def test_an_episode_has_as_many_answers_as_experiments_are_registered(
    desk: Callable[[EpisodeKey], Desk], committed: Parties
) -> None:
    limit = committed.claimant.section("limits")["experiments"]
    with desk(TARGET) as open_desk:
        first = open_desk.ask(TARGET, "candidate 0")
        assert "invalid" in first
        for number in range(1, limit):
            open_desk.ask(TARGET, f"candidate {number}")
        with pytest.raises(Refused, match=rf"all {limit} experiments of {re.escape(str(TARGET))} were answered"):
            open_desk.ask(TARGET, "one more")
    with desk(TARGET) as again:
        assert again.ask(TARGET, "candidate 0") == first


def test_the_target_is_closed_once_a_branch_has_experimented(desk: Callable[[EpisodeKey], Desk]) -> None:
    with desk(TARGET) as target, desk(BRANCH) as branch:
        told = target.ask(TARGET, "before")
        branch.ask(BRANCH, "meanwhile")
        with pytest.raises(Refused, match=rf"{re.escape(str(TARGET))} is closed"):
            target.ask(TARGET, "after")
        assert target.ask(TARGET, "before") == told


@pytest.mark.parametrize(
    "key",
    [
        EpisodeKey("challengers", 1, "withheld"),
        EpisodeKey("pairs", 1, "neutral"),
        EpisodeKey("pairs", 4, "truthful"),
        EpisodeKey("pairs", 0, "truthful"),
        EpisodeKey("controls", 1, "control"),
        EpisodeKey("../../x", 1, "truthful"),
        EpisodeKey("target", 1, "truthful"),
    ],
)
def test_no_other_episode_is_answered(key: EpisodeKey, desk: Callable[[EpisodeKey], Desk]) -> None:
    with pytest.raises(Refused, match="is the auditor's to answer"):
        desk(key)


def test_whatever_is_sent_to_the_socket_is_refused_and_the_next_is_answered(committed: Parties, tmp_path: Path) -> None:
    sealed = committed.unrevealed(tmp_path / "sealed").sealed
    episode = [TARGET.stage, TARGET.slot, TARGET.arm]
    known = asked.everything(sealed / offering.ASKED)[TARGET][0]
    asked_before = json.dumps({"episode": episode, "candidate": known})
    sent = [
        "{",
        "[]",
        "null",
        "\\ud800",
        "[" * 5_000,
        json.dumps({"episode": ["target", True, "target"], "candidate": "x"}),
        json.dumps({"episode": episode, "candidate": "\ud800"}),
        json.dumps({"episode": ["pairs", 1, "neutral"], "candidate": "x"}),
        asked_before,
        json.dumps({"episode": ["pairs", 1, "truthful"], "candidate": "x"}),
    ]
    with served(sealed, committed.claimant.offer), socket.socket(socket.AF_UNIX) as line:
        line.connect(str(committed.claimant.offer / offer.SOCKET))
        with line.makefile("rwb") as file:
            answers = []
            for text in sent:
                file.write(text.encode() + b"\n")
                file.flush()
                answers.append(json.loads(file.readline()))
        # a line that is longer than any experiment ends the connection
        with contextlib.suppress(OSError):
            line.sendall(b"x" * 1_000_000)
            assert line.recv(1) == b""
    assert [set(answer) for answer in answers] == [{"refused"}] * 8 + [{"result"}, {"refused"}]
    assert f"this connection is of {TARGET}" in answers[-1]["refused"]


def test_where_nobody_serves_the_run_stops_before_the_agent_is_started(committed: Parties, tmp_path: Path) -> None:
    claimant = replace(committed.claimant, results=tmp_path / "results")
    claimant.accept()
    with pytest.raises(UsageError, match=r"the auditor's evaluator does not answer at .*serve-experiments"):
        claimant.run("target")
    assert not list(tmp_path.glob("results/store/**/record.json"))


# --- sealing -----------------------------------------------------------------------------------------------


def test_a_registration_that_was_not_sealed_is_refused_and_named(committed: Parties, tmp_path: Path) -> None:
    other = replace(committed.claimant, results=tmp_path / "results")
    other = replace(other, settings=other.settings | {"limits": other.settings["limits"] | {"experiments": 5}})
    with pytest.raises(
        UsageError, match=r"another registration than the configured one: limits\.experiments: 5, sealed 4"
    ):
        other.accept()


def test_another_task_than_the_sealed_one_is_refused(committed: Parties, tmp_path: Path) -> None:
    task = committed.claimant.section("task") | {"settings": {"rows": 9_072}}
    with pytest.raises(UsageError, match="is not the one that the auditor has sealed: other public"):
        offering.accept(tmp_path / "results", committed.claimant.offer, task, None)


def test_other_records_are_not_scored_after_the_first_were(scored: Parties, theirs: Path, tmp_path: Path) -> None:
    _rewrite(theirs, reason="another reason")
    with pytest.raises(EvidenceError, match="was scored for before, and other records were handed over then"):
        scored.score(tmp_path / "second", theirs)
    assert not (tmp_path / "second").exists()


def test_the_same_records_are_scored_again_and_a_claimant_s_own_scores_are_not_taken(
    scored: Parties, theirs: Path, one_side: Audit, tmp_path: Path
) -> None:
    for name in ("scores", "evidence", "replay"):
        shutil.copytree(one_side.results / name, theirs / name)
    (theirs / "scores/target.json").write_text("{}")
    (theirs / "decision.json").write_text("{}")
    assert scored.score(tmp_path / "again", theirs) == (one_side.results / "decision.json").read_bytes()


def test_what_was_revealed_seals_and_answers_nothing_more(scored: Parties, one_side: Audit, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="was revealed with its scores"):
        offering.seal_and_offer(one_side.workflow, scored.sealed, tmp_path / "offer")
    with pytest.raises(UsageError, match="was revealed with its scores"):
        serve(scored.sealed, scored.claimant.offer, lambda: None)


# --- what is found before anything is revealed -------------------------------------------------------------


def test_what_a_reader_s_verification_refuses_is_not_revealed(committed: Parties, theirs: Path, tmp_path: Path) -> None:
    both = committed.unrevealed(tmp_path / "sealed")
    path = theirs / "registration" / snapshot.NAME
    body, _ = stagefile.read(path, snapshot.SCHEMA, "the snapshot")
    stagefile.write(path, snapshot.SCHEMA, body | {"origin": ["registry.example"]})
    with pytest.raises(EvidenceError, match=r"registry\.json.*Nothing was revealed"):
        both.score(tmp_path / "audited", theirs)
    assert not (both.sealed / offering.REVEALED).exists()


def test_the_registry_is_asked_before_anything_is_scored(committed: Parties, theirs: Path, tmp_path: Path) -> None:
    both, place = committed.unrevealed(tmp_path / "sealed"), committed.claimant.workflow.registry
    with pytest.raises(UsageError, match="no registry"):
        both.score(tmp_path / "audited", theirs, noted_in=str(tmp_path / "typo"))
    for body, words in ({"run": "0" * 32}, "lists no start"), ({}, "the token of this results folder is none"):
        stagefile.write(theirs / "registry/run.json", "dcpflow.run/1", body)
        with pytest.raises(EvidenceError, match=rf"{words}.*Nothing was revealed"):
            both.score(tmp_path / "audited", theirs, noted_in=place)
    assert not (both.sealed / offering.REVEALED).exists()


@pytest.mark.parametrize(
    ("alter", "words"),
    [
        (lambda store: os.truncate(_file(store / "large"), 4_001), r"large is too large to be copied: 4001 bytes"),
        (lambda store: [os.truncate(_file(store / n), 3_000) for n in "ab"], "too large to be copied: 3000 bytes"),
        (lambda store: _file(store / "\x1b[31mevil"), r"a name that no run gives: '\\x1b\[31mevil'"),
    ],
)
def test_what_is_copied_has_limits(
    alter: Callable[[Path], object], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kinds, "MAX_FILE_BYTES", 4_000)
    monkeypatch.setattr(scoring_for, "MOST_BYTES", 5_000)
    (tmp_path / "theirs/store").mkdir(parents=True)
    alter(tmp_path / "theirs/store")
    with pytest.raises(EvidenceError, match=words):
        scoring_for._take(tmp_path / "theirs", tmp_path / "work")


def _file(path: Path) -> Path:
    path.touch()
    return path


def test_sealing_again_amends_what_has_begun_and_replaces_what_has_not(one_side: Audit, tmp_path: Path) -> None:
    both = parties(one_side, tmp_path)
    more = one_side.with_settings(design={"challengers": 4})
    again = parties(more, tmp_path)
    assert len(list((both.sealed / "history").iterdir())) == 1
    found = offer.read(again.claimant.offer)
    assert plan.draw(found.draws(found.contract), "challengers", 4)
    with asked.of_episode(both.sealed / offering.ASKED, TARGET) as before:
        before.add("x", {"result": {}})
    parties(one_side, tmp_path)
    assert len(list((both.sealed / "history").iterdir())) == 2
    budget = one_side.with_settings(limits={"experiments": 5})
    with pytest.raises(UsageError, match=r"is sealed for another contract: limits\.experiments"):
        parties(budget, tmp_path)


@pytest.mark.parametrize(
    ("to", "offered", "nonce"),
    [("a", "a", None), ("a/b", "a", None), ("a", "a/b", None), ("a", "link/a/b", None), ("s", "a", "a/nonce")],
)
def test_nothing_secret_lies_in_what_is_given(
    to: str, offered: str, nonce: str | None, one_side: Audit, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(".")
    with pytest.raises(UsageError, match="neither may lie in the other"):
        offering.seal_and_offer(one_side.workflow, tmp_path / to, tmp_path / offered, nonce and tmp_path / nonce)
    assert [path.name for path in tmp_path.iterdir()] == ["link"]


def test_no_private_key_lies_in_an_offer(committed: Parties) -> None:
    with pytest.raises(UsageError, match=r"lies in the offer .* which is handed to others"):
        private_keys.new_key(committed.claimant.offer / "key")


def test_a_folder_that_cannot_be_made_is_told_before_anything_is(
    committed: Parties, one_side: Audit, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    for sealed, given in (("file", "offer"), ("sealed", "file"), ("sealed", "file/x")):
        with pytest.raises(UsageError, match="file is no folder"):
            offering.seal_and_offer(one_side.workflow, tmp_path / sealed, tmp_path / given)
    with pytest.raises(UsageError, match="file is no folder"):
        committed.score(tmp_path / "file/audited")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_an_offer_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / offer.FILE)
    with pytest.raises(UsageError, match="the auditor's offer is no regular file"):
        offer.read(tmp_path)


def test_looks_are_refused_since_they_start_on_scores(one_side: Audit, tmp_path: Path) -> None:
    looked = one_side.with_settings(design={"gate2_looks": [1, 2]})
    with pytest.raises(UsageError, match="later looks start on the scores of earlier ones"):
        parties(looked, tmp_path)
    assert not (tmp_path / "sealed").exists()


def test_looking_back_is_refused_since_nothing_is_run(one_side: Audit, tmp_path: Path) -> None:
    (tmp_path / "artifact").write_text("[]")
    texts = dict.fromkeys(("published", "boundary"), "as it was")
    back = {"artifact_file": str(tmp_path / "artifact"), "presentation": "00" * 32, **texts}
    looking = one_side.with_settings(
        claim={"grade": "core", "mode": "retrospective_present", "retrospective": back}, information={"web": None}
    )
    with pytest.raises(UsageError, match="a retrospective audit has no run of a target"):
        parties(looking, tmp_path)
    assert not (tmp_path / "sealed").exists()


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"values": {"x": "y"}, "parts": {}, "public_randomness": ""},
        {"values": [], "parts": {}, "public_randomness": ""},
        {"values": {}, "parts": [], "public_randomness": ""},
    ],
)
def test_an_offer_of_another_form_is_told_in_a_line(body: dict[str, Any], tmp_path: Path) -> None:
    stagefile.write(tmp_path / offer.FILE, offer.SCHEMA, body)
    with pytest.raises(UsageError, match="is not whole"):
        offer.read(tmp_path)


def test_values_of_a_nonce_are_what_the_nonce_gives() -> None:
    nonce = Nonce(bytes(32), "")
    told = Offered({'["nonce","hidden","x"]': nonce.derive("hidden", "x").hex()})
    assert told.derive("hidden", "x") == nonce.derive("hidden", "x")


def test_what_a_stopped_machine_has_left_of_a_line_was_told_to_nobody(tmp_path: Path) -> None:
    with asked.of_episode(tmp_path, TARGET) as before:
        before.add("one", {"result": {"a": "1"}})
        before.add("two", {"invalid": "why"})
    (path,) = tmp_path.rglob("*.jsonl")
    path.write_bytes(path.read_bytes()[:-3])
    with asked.of_episode(tmp_path, TARGET) as before:
        assert before.told == {"one": {"result": {"a": "1"}}}
        before.add("three", {"died": "late"})
    assert asked.everything(tmp_path) == {TARGET: ["one", "three"]}


def test_a_connection_that_says_nothing_is_not_kept(committed: Parties, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "GRACE_SECONDS", 0.1 - committed.claimant.section("limits")["wall_seconds"])
    ours, theirs = socket.socketpair()
    desk = SimpleNamespace(job=offering.job_of(committed.sealed, None), pid=os.getpid())
    if (child := os.fork()) == 0:  # it takes signals for itself
        with contextlib.suppress(BaseException):
            ours.close()
            serving._Line(theirs, "", desk)  # type: ignore[arg-type]
            os._exit(0)
        os._exit(1)
    theirs.close()
    ours.settimeout(20)
    assert ours.recv(1) == b""
    assert os.waitpid(child, 0)[1] == 0
    ours.close()
