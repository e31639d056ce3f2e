"""Every attack of the red team fails as its table says, for root and for everybody else."""

from __future__ import annotations

import hashlib
import os
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.adversarial import red_team
from tests.adversarial.red_team import (
    ATTACKS,
    CLASSES,
    INVALID,
    KEPT,
    LEFT,
    LIMITS,
    NONE,
    NOTHING,
    REFUSED,
    WAYS_OUT,
    Attack,
)

from dcpflow.episodes.episode import outcome_of
from dcpflow.records import canonical
from dcpflow.scoring.scorer import Artifact, score
from dcpflow.tasks.sqlite_index import SqliteIndexTask

if TYPE_CHECKING:
    from subprocess import CompletedProcess

    from tests.adversarial.conftest import Talk

ROOT = Path(__file__).parents[2]
NESTED = "DCPFLOW_TESTS_NESTED" in os.environ
PRESENTED = hashlib.sha256(b"presentation").digest()
SECRET = hashlib.sha256(b"secret").digest()
# what has nothing to do with the user need not be tried as another one
TRIED = [attack for attack in ATTACKS if not NESTED or attack in (*WAYS_OUT, *LEFT, *LIMITS)]


@pytest.fixture(scope="module")
def task() -> SqliteIndexTask:
    return SqliteIndexTask({"rows": 4_536}, "red team")


@pytest.fixture(scope="module")
def scored(task: SqliteIndexTask) -> Callable[[bytes], str]:
    """What the sealed scorer says to a committed artifact."""
    engine, sealed = task.open(task.public_material()), task.sealed(SECRET)
    engine.warm(sealed)

    def scored(data: bytes) -> str:
        artifact = Artifact(canonical.digest(data), data, PRESENTED.hex(), "main")
        (found,) = score(task, engine, sealed, {"main": task.hidden(SECRET)}, [artifact], 5, 512)
        if found.validity == "invalid":
            return INVALID
        return NOTHING if set(found.units.values()) == {0.0} else f"scores {found.units}"

    return scored


@pytest.fixture
def hints(tmp_path: Path, task: SqliteIndexTask) -> Iterator[dict[str, Any]]:
    """Where an attacker finds what it is after: all that a well-informed one could know."""
    folder = tmp_path / "private"
    folder.mkdir(mode=0o700)
    canary = folder / "answers.json"
    canary.touch(mode=0o600)
    shared = Path(f"/dev/shm/dcpflow-red-{os.getpid()}")
    shared.touch()
    abstract, named = f"\0dcpflow-red-{os.getpid()}", f"/tmp/dcpflow-red-{os.getpid()}.socket"
    Path(named).unlink(missing_ok=True)
    shown = task.presentation(PRESENTED)
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.socket(socket.AF_UNIX) as one,
        socket.socket(socket.AF_UNIX) as other,
    ):
        for local, address in ((one, abstract), (other, named)):
            local.bind(address)
            local.listen()
        yield {
            "canary": str(canary),
            "folder": str(folder),
            "shared": shared.name,
            "abstract": abstract,
            "socket": named,
            "port": listener.getsockname()[1],
            "pid": os.getpid(),
            "marker": str(tmp_path / "marker"),
            "table": shown["table"],
            "columns": shown["columns"],
        }
    shared.unlink()
    Path(named).unlink()


def verdict(talk: Talk, scored: Callable[[bytes], str], artifact: bool) -> str:
    """What became of an attack, in the words of the table."""
    outcome, reason = outcome_of(talk.channel, talk.ending)
    assert outcome != "infrastructure_invalid", (reason, talk.ending.stderr)
    if talk.ending.workspace.violation:
        assert talk.ending.workspace.violation in reason
        assert outcome == ("artifact" if talk.channel.candidates else "execution_contract_violation")
        return f"violation: {talk.ending.workspace.violation}"
    if talk.channel.limits_hit:
        assert outcome == "model_failure"
        assert talk.channel.limits_hit[0] in reason
        return f"ended at {talk.channel.limits_hit[0]}"
    if not talk.channel.candidates:
        assert outcome == "model_failure"
        return NONE
    if artifact:
        return scored(talk.channel.candidates[0])
    if talk.reported:
        return f"reached {talk.reported}"
    return KEPT if talk.ending.workspace.files else REFUSED


@pytest.mark.parametrize("attack", TRIED, ids=lambda attack: attack.name.replace(" ", "-"))
def test_each_attack_comes_to_what_the_table_says(
    attack: Attack, talk: Callable[..., Talk], hints: dict[str, Any], scored: Callable[[bytes], str]
) -> None:
    one = talk(attack.body, hello={"hints": hints}, **{"wall_seconds": 10, **attack.limits})
    if attack.outcome not in (NONE, *filter(None, [attack.outcome if "ended" in attack.outcome else None])):
        assert b"Traceback" not in one.ending.stderr, one.ending.stderr.decode()
    assert verdict(one, scored, attack.outcome in (INVALID, NOTHING)) == attack.outcome, one.ending
    assert not Path(hints["marker"]).exists(), "something that the agent wrote was run outside"
    assert len(one.channel.candidates) <= one.channel.limits["candidates"]
    recorded = canonical.encode(one.channel.transcript)
    assert not re.search(rb"[\x00-\x1f\x7f]", recorded), "what an agent says cannot steer a terminal"
    assert one.seconds < 10


def test_the_attacks_cover_all_seven_classes() -> None:
    assert {attack.kind for attack in ATTACKS} == set(CLASSES)
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS)


def test_the_table_in_the_documentation_is_this_one() -> None:
    assert red_team.table() in (ROOT / "docs/security.md").read_text(encoding="utf-8"), (
        "docs/security.md differs from `python -m tests.adversarial.red_team`"
    )


@pytest.mark.skipif(NESTED or os.geteuid() != 0, reason="these tests run as an ordinary user already")
def test_all_of_this_holds_for_an_ordinary_user(run_unprivileged: Callable[..., CompletedProcess[str]]) -> None:
    also = Path(__file__).with_name("test_what_agents_may_do.py")
    chosen = "each_attack or all_day or exactly or notices or left"
    done = run_unprivileged(
        ["-m", "pytest", "-p", "no:cacheprovider", "-rs", "-k", chosen, __file__, str(also)], timeout=180
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-1000:]
    assert done.stdout.count("no bubblewrap works") == 0, done.stdout[-2000:]
    assert " passed" in done.stdout
