"""Where producers of such evidence are known to go wrong, by their number in the list of pitfalls.

H4, H5, H7 to H15 and H18; what has to do with the Web, and with one bad message, stands elsewhere.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dcpflow.agents.launch import LaunchSpec
from dcpflow.episodes.episode import Laboratory, settle
from dcpflow.episodes.running import Running
from dcpflow.episodes.sandbox import Isolation
from dcpflow.errors import EvidenceError, UsageError
from dcpflow.protocol.config import ConfigError
from dcpflow.records import canonical, files, plan, receipts
from dcpflow.records.checkpoint import scope
from dcpflow.records.episodes import EpisodeKey, EpisodeRecord, EpisodeStore
from dcpflow.records.packet import Packet
from dcpflow.stages import checkpoint, episodes, laboratory, packet

if TYPE_CHECKING:
    from tests.conftest import Audit

SEAL = "sha256:" + "5" * 64
Settle = Callable[..., EpisodeRecord]


@pytest.fixture
def lab(audit_copy: Audit) -> Laboratory:
    return audit_copy.job.laboratory


@pytest.fixture
def run(
    lab: Laboratory,
    audit_copy: Audit,
    write_agent: Callable[[str], LaunchSpec],
    isolate: Callable[[str, LaunchSpec], Isolation],
) -> Settle:
    """Runs an agent in a seat beyond the registered ones, in the sandbox, and returns its record."""
    slots = iter(range(101, 200))

    def run(body: str, stage: str = "challengers", arm: str = "withheld") -> EpisodeRecord:
        spec = write_agent(body)
        mine = replace(lab, spec=spec, isolation=isolate("bubblewrap", spec))
        key = EpisodeKey(stage, next(slots), arm)
        return EpisodeRecord.from_bytes(settle(lambda: mine, audit_copy.job.store, key, SEAL), "here")

    return run


def died(store: EpisodeStore, key: EpisodeKey) -> None:
    """The process that held this episode is gone."""
    for path in store.folder(key).glob("holder-*.json"):
        path.write_bytes(path.read_bytes().replace(b'"started":', b'"started":1'))


def test_h4_no_name_that_an_agent_gives_meets_one_of_ours(run: Settle, audit_copy: Audit) -> None:
    before = {path for path in audit_copy.results.rglob("*") if path.is_file()}
    record = run(
        """
        me = read()["seed"]
        for name in ("record.json", "aside-1.json", "holder-1.json", "contract.json", "b00001-00006.json", me):
            os.makedirs(f"/ws/challengers/00101/withheld/1")
            for place in ("/ws", "/ws/challengers/00101/withheld/1"):
                with open(f"{place}/{name}", "w") as file:
                    file.write(json.dumps({"schema": "dcpflow.episode/1", "outcome": "artifact"}))
            import shutil; shutil.copytree("/ws/challengers", f"/ws/copy-{name}"); shutil.rmtree("/ws/challengers")
        commit("x"); ask("finish")
        """
    )
    assert (record.outcome, record.reason) == ("artifact", "a candidate was committed")
    new = {path for path in audit_copy.results.rglob("*") if path.is_file()} - before
    attempt = audit_copy.job.store.folder(record.key)
    kept = {path.name for path in new if path.parent == attempt}
    assert kept == {"record.json", "aside-1.json", "holder-1.json"}
    assert all(audit_copy.job.layout.objects in path.parents for path in new if path.parent != attempt)
    audit_copy.conclude()  # every later phase reads the folder


class Cut(Exception):
    """The machine loses power."""


@pytest.mark.parametrize("writes", range(1, 9))
def test_h5_a_run_cut_off_at_any_write_goes_on_and_ends_the_same(
    audit_copy: Audit, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    job, key = audit_copy.job, EpisodeKey("challengers", 3, "withheld")
    (receipt,) = [path for path in audit_copy.receipts if path.parent.parent.name == "challengers"]
    standing = (receipt.read_bytes(), job.store.committed(key))
    receipt.unlink()
    shutil.rmtree(job.store.folder(key).parent)
    left = writes
    real = files._temporary

    def cut(*given: Any) -> Path:
        nonlocal left
        left -= 1
        if left == 0:
            raise Cut
        return real(*given)

    with monkeypatch.context() as patch:
        patch.setattr(files, "_temporary", cut)
        try:
            audit_copy.run("challengers")
        except Cut:
            died(job.store, key)
    audit_copy.run("challengers")
    assert (receipt.read_bytes(), job.store.committed(key)) == standing
    assert left <= 0 or writes > 5, "all writes were tried"


def test_h7_replacements_are_counted_for_the_whole_stage(new_audit: Callable[..., Audit]) -> None:
    audit = new_audit(design={"pairs": 30, "pair_replacements": 1, "null_pairs": 30})
    assert plan.slots("pair_replacements", audit.workflow.parts["design"]) == 1
    lost = [
        EpisodeRecord(
            **dict.fromkeys(("contract", "registration", "stratum", "prior_seal", "unit", "reason", "transcript"), ""),
            **dict.fromkeys(("isolation", "workspace", "calls", "packet", "replacement_of"), ""),
            stage="pairs", slot=slot, arm="neutral", attempt=1, draw={}, outcome="infrastructure_invalid",
            candidates=[], quotes={}, limits_hit=[], usage={},
        )
        for slot in (4, 9)
    ]  # fmt: skip
    assert episodes.first_unreplaced(lost) == "pairs/4"
    taken = replace(lost[0], stage="pair_replacements", slot=1, replacement_of="pairs/4", outcome="artifact")
    assert episodes.first_unreplaced([*lost, taken]) == "pairs/9", "it stays lost: there is no second replacement"


def test_h8_the_scope_of_the_checkpoint_is_what_its_content_says(audit_copy: Audit) -> None:
    asked = {"request": {"id": 1, "action": "experiment", "candidate": ""}, "reply": {"id": 1, "ok": True}}
    seen = packet.given(audit_copy.job)
    assert (scope([], seen), scope([asked], seen)) == ("lineage_empty", "lineage_prefix")
    body = json.loads(audit_copy.job.layout.checkpoint.read_bytes())["body"]
    assert body["scope"] == scope(body["history"], seen) == "lineage_empty"
    assert body["history"], "the target has read of the Web"
    assert scope(body["history"], Packet()) == "lineage_prefix", "nobody else has what it read"


class Interrupted(Isolation):
    """A machine that fails while the agent is at work."""

    def __init__(self, inner: Isolation) -> None:
        self.inner, self.backend = inner, inner.backend

    def start(self, spec: LaunchSpec, limits: Mapping[str, float], handed: int | None = None) -> Running:
        running = self.inner.start(spec, limits)
        assert running.process.stdout
        running.process.stdout.read(1)  # it has left its answer
        running.stop()
        running.close_workspace()
        raise Cut


def test_h9_an_interrupted_control_begins_with_nothing_of_its_first_attempt(
    lab: Laboratory,
    audit_copy: Audit,
    write_agent: Callable[[str], LaunchSpec],
    isolate: Callable[[str, LaunchSpec], Isolation],
) -> None:
    spec = write_agent(
        """
        found = [os.listdir(place) for place in ("/ws", "/tmp", "/dev/shm")]
        for place in ("/ws", "/tmp", "/dev/shm"):
            open(place + "/answer", "w").write("x")
        if not any(found): os.write(2, b"x")
        print(json.dumps({"id": 1, "action": "commit", "candidate": json.dumps(found)}), flush=True)
        read(); read(); ask("finish")
        """
    )
    key, store = EpisodeKey("controls", 150, "withheld"), audit_copy.job.store
    key = EpisodeKey("controls", 150, plan.STAGES["controls"].arms[0])
    inside = isolate("bubblewrap", spec)
    with pytest.raises(Cut):
        settle(lambda: replace(lab, spec=spec, isolation=Interrupted(inside)), store, key, SEAL)
    assert store.committed(key) is None
    died(store, key)
    record = EpisodeRecord.from_bytes(settle(lambda: replace(lab, spec=spec, isolation=inside), store, key, SEAL), "it")
    (candidate,) = record.candidates
    assert json.loads(lab.objects.get(candidate)) == [[], [], []]
    starts = sorted(path.name for path in store.folder(key).glob("holder-*.json"))
    assert starts == ["holder-1.json", "holder-2.json"], "both starts are on record"


def test_h10_no_folder_is_invisible_and_none_is_a_memory(run: Settle, lab: Laboratory) -> None:
    hidden = (".git", "__pycache__", ".pytest_cache", ".cache")
    write = f"""
        found = os.listdir("/ws")
        for name in {hidden}:
            os.mkdir("/ws/" + name)
            open(f"/ws/{{name}}/memory", "w").write("x")
        commit(found); ask("finish")
        """
    first, second = run(write), run(write)
    for record in (first, second):
        assert json.loads(lab.objects.get(record.candidates[0])) == []
        listed = json.loads(lab.objects.get(record.workspace))["files"]
        assert [file["name"] for file in listed] == sorted(f"{name}/memory" for name in hidden)
    for name in hidden:
        record = run(f"os.symlink('/usr', '/ws/{name}')")
        assert record.reason == "the workspace held a symbolic link"


def test_h11_what_only_a_registry_can_show_is_not_claimed(audit_copy: Audit) -> None:
    decision = canonical.decode(audit_copy.job.layout.decision.read_bytes(), "the decision")
    (check,) = [check for check in decision["checks"] if check["name"] == "all_target_runs_shown"]
    assert check["result"] == "not_assessed"
    assert "registry" in check["reason"]
    (path,) = [path for path in audit_copy.receipts if path.parent.parent.name == "challengers"]
    body = receipts.read_body(path, audit_copy.job.contract.digest)
    assert len(body["episodes"]) == 6
    receipts.write(path, audit_copy.job.contract.digest, [])  # the tail is cut off, digest and all
    with pytest.raises(EvidenceError):
        audit_copy.decide()


@pytest.mark.parametrize("arm", plan.STAGES["pairs"].arms)
def test_h12_a_branch_that_commits_and_does_not_finish_is_scored_in_either_arm(run: Settle, arm: str) -> None:
    for end in ("os._exit(1)", "os.kill(os.getpid(), 9)", "os.write(1, b'x' * 99_999)", "os.symlink('/', '/ws/a')"):
        record = run(f"commit('x'); {end}", "pairs", arm)
        assert (record.outcome, len(record.candidates)) == ("artifact", 1), record.reason


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"design": {"pairs": 1}}, "pairs"),
        ({"design": {"challengers": 0}}, "design.challengers"),
        ({"thresholds": {"gate3": {"delta_sham": 0.9}}}, "delta_sham"),
        ({"limits": {"workspace_files": 0}}, "limits.workspace_files"),
    ],
)
def test_h13_what_cannot_be_decided_is_refused_before_anything_runs(
    new_audit: Callable[..., Audit], change: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        _ = new_audit(**change).workflow
    core = new_audit(claim={"grade": "core"}).workflow
    assert not {"pairs", "null_pairs", "misled_nulls"} & set(core.stages), "counts of no stage that is left out matter"


def test_h14_the_checkpoint_is_selected_without_any_score(audit_copy: Audit) -> None:
    layout = audit_copy.job.layout
    standing = layout.checkpoint.read_bytes()
    for folder in (layout.sealed, layout.hidden, layout.scores("target").parent, layout.evidence):
        shutil.rmtree(folder)
    for path in (layout.checkpoint, layout.decision, audit_copy.nonce_file):
        path.rename(path.with_suffix(".away"))
    try:
        checkpoint.select(audit_copy.job, layout.checkpoint)
        assert layout.checkpoint.read_bytes() == standing
    finally:
        audit_copy.nonce_file.with_suffix(".away").rename(audit_copy.nonce_file)


def test_h15_an_agent_other_than_the_registered_one_is_not_started(
    audit_copy: Audit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(laboratory, "agent_sources", lambda _: {"index_designer.py": b"another program"})
    with pytest.raises(UsageError, match="is not the one that was registered"):
        _ = audit_copy.job.laboratory


def test_h18_an_episode_costs_the_same_however_many_there_are(
    tmp_path: Path, audit_copy: Audit, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = audit_copy.job.store.committed(EpisodeKey("challengers", 1, "withheld"))
    assert data is not None
    record = EpisodeRecord.from_bytes(data, "here")
    store = EpisodeStore(tmp_path, record.contract)
    opened = [0]
    with OpeningBelow(tmp_path) as counted:
        for slot in range(1, 42):
            claim = store.claim(EpisodeKey("challengers", slot, "withheld"))
            assert not isinstance(claim, bytes)
            claim.commit(replace(record, slot=slot), {})
            opened.append(counted.events - sum(opened))
    assert len(set(opened[2:])) == 1 and opened[2] > 1, opened


class OpeningBelow:
    """Counts what this thread opens or lists below a folder; what is collected meanwhile may open files elsewhere.

    Such a hook cannot be taken away again, only told to look away.
    """

    def __init__(self, folder: Path) -> None:
        self._below = os.fspath(folder)
        self._thread = threading.get_ident()

    def __enter__(self) -> OpeningBelow:
        self.events, self._looking = 0, True
        sys.addaudithook(self._count)
        return self

    def __exit__(self, *_: object) -> None:
        self._looking = False

    def _count(self, event: str, arguments: tuple[object, ...]) -> None:
        if self._looking and event in {"open", "os.listdir", "os.scandir"} and threading.get_ident() == self._thread:
            self.events += str(arguments[0]).startswith(self._below)


def test_each_pitfall_of_the_producer_has_a_test() -> None:
    texts = [path.read_text(encoding="utf-8") for path in Path(__file__).parents[1].rglob("test_*.py")]
    found = {
        int(number)
        for text in texts
        for numbers in re.findall(r"def test_h(\d+)_|[Pp]itfalls? H(\d+)", text)
        for number in numbers
        if number
    }
    assert {4, 5, *range(7, 16), 18} <= found
