"""After the target run there is no Web: all that episodes, replays and verifiers see of it then was recorded before."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from dcpflow.bundles.export import export
from dcpflow.bundles.verify import verify
from dcpflow.episodes import gateway, live_web, site, web
from dcpflow.episodes.warc import decode
from dcpflow.errors import EvidenceError
from dcpflow.evidence import folder
from dcpflow.evidence.view import AuditView
from dcpflow.records import canonical, packet, plan
from dcpflow.records.checkpoint import read as read_checkpoint
from dcpflow.records.objects import ObjectStore
from dcpflow.stages import verify as stages_verify

if TYPE_CHECKING:
    from tests.conftest import Audit

FEWEST = {"challengers": 2, "controls": 1, "pairs": 2, "null_pairs": 2, "misled_null_episodes": 0}
LOST = "https://nowhere.invalid/"


@pytest.fixture(scope="module")
def without_network() -> Iterator[None]:
    """Whatever would look for a site or the Web fails."""
    with pytest.MonkeyPatch.context() as patched:

        def refuse(*_: Any, **__: Any) -> NoReturn:
            raise AssertionError("somebody looks for the Web")

        patched.setattr(live_web, "live", refuse)
        patched.setattr(live_web, "serving", refuse)
        patched.setattr(site, "_serve", refuse)
        patched.setattr(gateway.Gateway, "fetch", refuse)
        patched.setattr(socket, "getaddrinfo", refuse)
        yield


@pytest.fixture(scope="module")
def target_ran(new_audit: Callable[..., Audit], backend: str) -> Audit:
    """An audit whose target has read the own site, and has failed to read a host that does not exist."""
    audit = new_audit(
        isolation={"backend": backend},
        design=FEWEST,
        thresholds={"gate3": {"misled_min_misses": 0}},
        information={"web": {"https_hosts": ["nowhere.invalid"], "fetch_seconds": 5.0}},
    )
    audit.seal()
    audit.freeze_contract()
    audit.register()
    audit.run("target")
    return audit


@pytest.fixture(scope="module")
def finished_without(target_ran: Audit, without_network: None) -> Audit:
    """The same audit, finished with the site stopped and no network."""
    target_ran.freeze_packet()
    target_ran.select_checkpoint()
    job = target_ran.job
    for stage in target_ran.workflow.stages:
        if stage != "target":
            target_ran.run(stage, job)
    target_ran.conclude()
    return target_ran


@pytest.fixture(scope="module")
def seen(finished_without: Audit) -> AuditView:
    audit = finished_without
    return folder.read(audit.job.layout, audit.receipts, audit.scores).view


def said(view: AuditView) -> dict[str, list[str]]:
    """Every page as it was said in replies, by address."""
    found: dict[str, list[str]] = {}
    for episode in view.episodes:
        for line in episode.transcript[1:]:
            reply = json.loads(line["line"])
            if line["from"] == "harness" and "page" in reply:
                start = line["line"].index('"page":')
                found.setdefault(reply["page"]["url"], []).append(line["line"][start:])
    return found


def test_with_the_site_stopped_everything_after_the_target_run_works(finished_without: Audit, seen: AuditView) -> None:
    decision = json.loads(finished_without.job.layout.decision.read_bytes())
    checks = {check["name"]: check["result"] for check in decision["checks"]}
    for name in ("same_web_packet", "same_information", "contract_matched", "challenger_channel_withheld"):
        assert checks[name] == "pass"
    assert all(checks[name] == "pass" for name in ("neutral_channels_replay", "truthful_channels_replay"))
    assert {e.record.outcome for e in seen.episodes} == {"artifact"}
    assert all(e.record.usage["web_requests"] >= 5 for e in seen.of("target", "challengers", "controls"))


def test_challengers_get_the_packet_and_replies_of_the_target_byte_for_byte(seen: AuditView) -> None:
    replies = said(seen)
    assert len(replies) == 4
    assert all(
        len(group) > len(seen.of("challengers", "controls")) and len(set(group)) == 1 for group in replies.values()
    )
    packets = {canonical.encode({n: t for n, t in e.hello["files"].items() if n != plan.CANARY}) for e in _later(seen)}
    assert packets == {canonical.encode(seen.packet.files)}
    assert len(seen.packet.files) == 6
    shown = {reply["page"]["text"] for e in seen.of("target") for reply in e.replies() if "page" in reply}
    assert shown < set(seen.packet.files.values())


def _later(view: AuditView) -> list[Any]:
    return [episode for episode in view.episodes if episode is not view.target]


def test_h2_a_fetch_that_failed_is_on_record_and_ends_nothing(seen: AuditView) -> None:
    page = seen.packet.by_url[LOST]
    assert (page.status, page.content_type, page.body) == (0, "", packet.NOTHING)
    said_of_it = {
        json.dumps(fetch["reply"], sort_keys=True)
        for episode in seen.episodes
        for fetch in episode.fetches()
        if fetch["request"]["url"] == LOST
    }
    (once,) = said_of_it
    assert json.loads(once)["error"] == {"code": "fetch_failed", "message": "the host's name cannot be resolved"}
    assert seen.target.record.outcome == "artifact"


def test_the_checkpoint_holds_the_reading_and_is_empty_of_lineage(finished_without: Audit, seen: AuditView) -> None:
    job = finished_without.job
    body, _ = read_checkpoint(job.layout, job.contract.digest)
    assert [one["request"].keys() for one in body["history"]] == [{"action", "url"}] * 5
    assert {one["request"]["url"] for one in body["history"]} == seen.packet.by_url.keys()
    assert body["scope"] == "lineage_empty"
    for branch in seen.of("pairs"):
        assert branch.hello["history"] == body["history"]
        assert branch.fetches() == [], "what it remembers it need not read again"


def test_controls_quote_a_page_beside_their_canary(seen: AuditView) -> None:
    for control in seen.of("controls"):
        names = control.hello["E0"]["quote"]
        assert names[0] == plan.CANARY and len(names) == 2 and names[1] in seen.packet.named
        assert control.record.quotes == {
            name: canonical.digest(control.hello["files"][name].encode()) for name in names
        }
    assert all("quote" not in e.hello["E0"] for e in seen.of("challengers", "pairs", "null_pairs"))


def test_the_decision_says_what_was_fetched_and_what_is_on_loopback(finished_without: Audit, seen: AuditView) -> None:
    found = json.loads(finished_without.job.layout.decision.read_bytes())["web"]
    assert {page["url"]: page["status"] for page in found["fetched"]} == {
        url: page.status for url, page in seen.packet.by_url.items()
    }
    assert found["packet"] == seen.target.record.packet == seen.packet.digest
    assert "sqlite-notes.test" in found["on_loopback"]
    assert found["permitted"] == ["http://sqlite-notes.test/", "https://nowhere.invalid/"]


def test_bodies_are_kept_as_objects_and_as_a_warc(finished_without: Audit, seen: AuditView) -> None:
    objects, store = ObjectStore(finished_without.job.layout.objects), finished_without.job.store
    (archive,) = store.folder(seen.target.key).glob("aside-*.warc")
    archived = dict(decode(archive.read_bytes()))
    assert archived == {p.url: objects.get(p.body) for p in seen.packet.pages if p.status}
    shipped = {f"http://sqlite-notes.test{path}": data for path, data in site.pages("sqlite-notes.test").items()}
    assert archived == shipped


def test_the_audit_verifies_with_nonce_and_task_and_as_a_bundle(finished_without: Audit, tmp_path: Path) -> None:
    audit = finished_without
    stages_verify.verify(audit.job)
    assert verify(audit.results).ok
    bundle = tmp_path / "audit.dcp"
    export(audit.results, bundle)
    found = verify(bundle)
    assert found.ok, found.error
    assert ("web", "5 pages: address, body, text, every reply") in found.recomputed


@pytest.fixture
def copy(finished_without: Audit, tmp_path: Path) -> Audit:
    return finished_without.at(Path(shutil.copytree(finished_without.results, tmp_path / "results")))


def test_a_packet_that_is_altered_anywhere_is_found(copy: Audit, seen: AuditView) -> None:
    objects = ObjectStore(copy.job.layout.objects)
    for digest in sorted(packet.members(seen.packet)):
        path = objects.path(digest)
        whole = path.read_bytes()
        path.chmod(0o644)
        path.write_bytes(whole[:-1] + b"?" if whole else b"?")
        found = verify(copy.results)
        assert not found.ok and "altered" in found.error, found.error
        path.write_bytes(whole)
    assert verify(copy.results).ok


def test_a_packet_file_of_another_packet_is_found(copy: Audit) -> None:
    layout, job = copy.job.layout, copy.job
    empty = packet.store(ObjectStore(layout.objects), packet.Packet())
    target = packet.read(layout, job.contract.digest)["target_record"]
    from dcpflow.records import stagefile

    stagefile.write(layout.packet, packet.SCHEMA, packet.body(job.contract.digest, target, empty))
    found = verify(copy.results)
    assert not found.ok and "Web packet" in found.error
    with pytest.raises(EvidenceError, match="not the one that the target's record names"):
        copy.run("challengers")


def test_other_pages_are_another_contract(target_ran: Audit, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = target_ran.workflow.registered_sources
    shutil.copytree(site.SITES, tmp_path / "sites")
    page = tmp_path / "sites" / "sqlite-notes.test" / "index.html"
    page.write_text(page.read_text(encoding="utf-8") + " ", encoding="utf-8")
    monkeypatch.setattr(site, "SITES", tmp_path / "sites")
    assert target_ran.workflow.registered_sources != before


def test_a_contract_without_the_web_says_nothing_of_it(new_audit: Callable[..., Audit]) -> None:
    audit = new_audit(information={"web": None})
    assert audit.section("information") == {"checkpoint": "before_first_experiment"}
    assert audit.workflow.packet == []
    audit.seal()
    audit.freeze_contract()
    assert audit.job.contract.parts["information"] == {"config": {"checkpoint": "before_first_experiment"}}
    assert audit.job.bench.web is None


ASKING = """\
hello = read()
codes = []
for fields in (
    {"url": "http://plain.test/never-seen"},
    {"url": "http://unlisted.test/"},
    {"url": "http://user:s3cret@plain.test/"},
    {"url": "http://169.254.169.254/latest/"},
    {"url": "file:///etc/passwd"},
    {"url": "http://plain.test/", "headers": {"Authorization": "s3cret"}},
    {"url": ["http://plain.test/"]},
    {},
    {"url": "http://plain.test/"},
):
    codes.append(ask("web_fetch", **fields).get("error", {}).get("code", "ok"))
commit(codes)
ask("finish")
"""


def test_h1_an_agent_that_asks_for_what_is_not_there_commits_like_any_other(
    talk: Callable[..., Any], backend: str
) -> None:
    page = packet.Page("http://plain.test/", 200, "text/plain", packet.NOTHING, canonical.digest(b"text"))
    rules = {"site": None, "https_hosts": [], "http_hosts": ["plain.test"], "requests": 8}
    known = packet.of([page], {page.text: "text"})
    one = talk(ASKING, kind=backend, web=web.Recorded(rules, known))
    (committed,) = one.channel.candidates
    assert json.loads(committed) == ["not_recorded", *["refused"] * 4, *["bad_message"] * 3, "ok"]
    assert one.channel.finished and one.channel.limits_hit == []
    assert "s3cret" not in str(one.channel.transcript)
