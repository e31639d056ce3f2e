"""What an episode came to: an agent's failure is a result, a loss of ours is not, and no episode stops the audit."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from dcpflow.agents.launch import LaunchSpec
from dcpflow.episodes.episode import Laboratory, settle
from dcpflow.episodes.running import Running
from dcpflow.episodes.sandbox import NoIsolation
from dcpflow.errors import EvidenceError
from dcpflow.evidence import rows
from dcpflow.evidence.view import Episode
from dcpflow.records import canonical, plan
from dcpflow.records.episodes import EpisodeKey, EpisodeRecord
from dcpflow.stages.replay import replays

if TYPE_CHECKING:
    from tests.conftest import Audit

SEAL = "sha256:" + "5" * 64
WriteAgent = Callable[[str], LaunchSpec]
Settle = Callable[..., EpisodeRecord]


class Unstartable(NoIsolation):
    """A machine on which no process can be started any more."""

    def start(self, spec: LaunchSpec, limits: Mapping[str, int], handed: int | None = None) -> Running:
        raise BlockingIOError(11, "Resource temporarily unavailable")


class Collapsing(NoIsolation):
    """A sandbox that fails in its own set-up, before the agent's program begins."""

    def start(self, spec: LaunchSpec, limits: Mapping[str, int], handed: int | None = None) -> Running:
        running = super().start(replace(spec, arguments=("/bin/sh", "-c", "exit 1"), files={}), limits)
        running.never_ran = lambda: True  # type: ignore[method-assign]
        return running


@pytest.fixture
def laboratory(audit_copy: Audit) -> Laboratory:
    return Laboratory(
        bench=audit_copy.job.bench,
        registration=audit_copy.job.registration.digest,
        spec=None,  # type: ignore[arg-type]  # each test has its own
        isolation=NoIsolation(),
        probe=canonical.digest(b"probe"),
        history=[],
    )


@pytest.fixture
def run(laboratory: Laboratory, audit_copy: Audit, write_agent: WriteAgent) -> Settle:
    """Runs an agent in a challenger's seat beyond the registered ones and returns its record."""
    slots = iter(range(101, 200))

    def run(body: str, **changes: Any) -> EpisodeRecord:
        lab = replace(laboratory, spec=write_agent(body), **changes)
        key = EpisodeKey("challengers", next(slots), "withheld")
        return EpisodeRecord.from_bytes(settle(lambda: lab, audit_copy.job.store, key, SEAL), "here")

    return run


def transcript(lab: Laboratory, record: EpisodeRecord) -> list[dict[str, str]]:
    return [json.loads(line) for line in lab.objects.get(record.transcript).splitlines()]


@pytest.mark.parametrize(
    ("body", "outcome", "reason"),
    [
        ("commit(); ask('finish')", "artifact", "committed"),
        ("commit(); os._exit(9)", "artifact", "committed"),
        ("commit(); os.write(1, b'\\xff\\n' * 8); time.sleep(9)", "artifact", "committed"),
        ("commit(); os.write(1, b'x' * 70_000); time.sleep(9)", "artifact", "committed"),
        ("send('finish')", "model_failure", "finished without committing"),
        ("sys.exit(0)", "model_failure", "exit code 0 without committing"),
        ("sys.exit(3)", "model_failure", "exit code 3 without committing"),
        ("os.kill(os.getpid(), 9)", "model_failure", "exit code -9 without committing"),
        ("os.write(1, b'x' * 70_000); time.sleep(9)", "model_failure", "the limit message_bytes"),
        ("os.write(1, b'\\xff\\n' * 8); time.sleep(9)", "model_failure", "the limit bad_messages"),
        ("commit(); send('commit', candidate='b'); ask('finish')", "artifact", "committed"),
    ],
)
def test_the_outcome_is_said_in_plain_words(
    run: Settle, laboratory: Laboratory, body: str, outcome: str, reason: str
) -> None:
    record = run(body)
    assert record.outcome == outcome
    assert reason in record.reason
    assert (len(record.candidates) > 0) == (outcome == "artifact")
    for candidate in record.candidates:
        assert laboratory.objects.get(candidate) == b"plan"
    assert transcript(laboratory, record)[0]["from"] == "harness"
    assert record.usage["messages"] == sum(line["from"] == "agent" for line in transcript(laboratory, record)) - (
        "message_bytes" in record.limits_hit
    )


def test_a_record_holds_no_time_and_no_machine(run: Settle) -> None:
    first, second = run("commit(); ask('finish')"), run("time.sleep(0.1); commit(); ask('finish')")
    differing = {name for name in first.__dataclass_fields__ if getattr(first, name) != getattr(second, name)}
    assert differing == {"slot", "draw", "unit", "transcript"}, "other draws give another hello, and nothing else"


@pytest.mark.parametrize("isolation", [Unstartable(), Collapsing()], ids=["no process", "no sandbox"])
def test_a_program_that_never_ran_is_a_loss_of_the_infrastructure(
    run: Settle, laboratory: Laboratory, isolation: NoIsolation
) -> None:
    record = run("commit()", isolation=isolation)
    assert (record.outcome, record.candidates, record.usage["messages"]) == ("infrastructure_invalid", [], 0)


@pytest.mark.parametrize("isolation", [Unstartable(), Collapsing()], ids=["no process", "no sandbox"])
def test_a_lost_episode_can_be_put_into_evidence(run: Settle, laboratory: Laboratory, isolation: NoIsolation) -> None:
    """Its hello was said: every check reads what an episode was told."""
    record = run("commit()", isolation=isolation)
    episode = Episode(record, canonical.digest(record.to_bytes()), tuple(transcript(laboratory, record)))
    assert episode.hello["type"] == "hello"
    facts = dict.fromkeys(("draw_matches", "hello_matches", "transcript_replays", "canary_quoted"), True)
    assert rows.episode_row(episode, facts)["outcome"] == "infrastructure_invalid"


class Murdered(NoIsolation):
    """A sandbox that somebody kills from outside, as a machine out of memory does."""

    def start(self, spec: LaunchSpec, limits: Mapping[str, int], handed: int | None = None) -> Running:
        running = super().start(spec, limits)
        running.killed_outside = lambda: True  # type: ignore[method-assign]
        return running


@pytest.mark.parametrize("body", ["os._exit(1)", "commit(); os._exit(1)"], ids=["before a commit", "after a commit"])
def test_a_sandbox_that_was_killed_from_outside_is_no_outcome_and_its_episode_starts_anew(
    run: Settle, laboratory: Laboratory, audit_copy: Audit, write_agent: WriteAgent, body: str
) -> None:
    key = EpisodeKey("challengers", 99, "withheld")
    job, killed = audit_copy.job, replace(laboratory, spec=write_agent(body), isolation=Murdered())
    with pytest.raises(EvidenceError, match=r"challengers slot 99 .* was killed from outside"):
        settle(lambda: killed, job.store, key, SEAL)
    assert job.store.committed(key) is None
    (path,) = job.store.folder(key).glob("holder-1.json")
    path.write_bytes(path.read_bytes().replace(b'"started":', b'"started":1'))  # that job's process is gone
    data = settle(lambda: replace(laboratory, spec=write_agent("commit('b')")), job.store, key, SEAL)
    assert EpisodeRecord.from_bytes(data, "here").outcome == "artifact"


@pytest.mark.parametrize(
    "body",
    [
        "commit(); ask('finish')",
        "ask('experiment', candidate='x'); os.write(1, b'\\xff\\n'); read(); commit('\\0'); os._exit(1)",
        "[ask('experiment', candidate='x') for _ in range(7)]; commit(); commit()",
        "os.write(1, b'x' * 70_000); time.sleep(9)",
        "send('finish')",
    ],
)
def test_every_conversation_replays(run: Settle, laboratory: Laboratory, body: str) -> None:
    record = run(body)
    lines = transcript(laboratory, record)
    assert replays(laboratory.bench, record, lines)
    answered = next((n for n, line in enumerate(lines) if n and line["from"] == "harness"), None)
    if answered is not None:
        lines[answered] = {"from": "harness", "line": lines[answered]["line"].replace("true", "null")}
        lines[answered]["line"] += " "
        assert not replays(laboratory.bench, record, lines)


def test_quotes_are_recorded_by_the_digest_of_their_exact_text(run: Settle) -> None:
    record = run("ask('commit', candidate='a', quotes={'canary.txt': 'one\\n', '../../etc/passwd': '\u2713'})")
    assert record.quotes == {
        "canary.txt": canonical.digest(b"one\n"),
        "../../etc/passwd": canonical.digest("\u2713".encode()),
    }


def test_a_slot_that_stands_needs_no_laboratory(laboratory: Laboratory, audit_copy: Audit) -> None:
    job = audit_copy.job
    for stage in ("target", "challengers", "pairs"):
        for key in plan.keys(stage, 1):
            standing = job.store.committed(key)
            assert standing is not None
            assert settle(lambda: pytest.fail("started again"), job.store, key, SEAL) == standing
