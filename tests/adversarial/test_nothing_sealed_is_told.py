"""Secrecy: nothing sealed is in any message that an episode receives, or in any file that its sandbox mounts."""

from __future__ import annotations

import base64
import json
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dcpflow.agents import launch_spec
from dcpflow.episodes.episode import hello
from dcpflow.evidence import folder
from dcpflow.evidence.view import Episode
from dcpflow.records import canonical, plan
from dcpflow.stages.seal import hidden_of, sealed_of

if TYPE_CHECKING:
    from tests.conftest import Audit

STAGES = [stage for stage, kind in plan.STAGES.items() if not kind.replaces and not kind.policy]
TOLD_LENGTH = 16
"""So many characters of a digest or seed would be enough to recognise it by."""


@pytest.fixture(scope="module")
def episodes(finished_audit: Audit) -> dict[str, list[Episode]]:
    view = folder.load_view(finished_audit.job.layout, finished_audit.receipts, finished_audit.scores)
    return {stage: view.of(stage) for stage in STAGES}


def told(episode: Episode) -> str:
    """All that the harness said."""
    return "\n".join(line["line"] for line in episode.transcript if line["from"] == "harness")


def forms(secret: bytes) -> Iterator[str]:
    """The ways in which bytes could be written into a message."""
    yield secret.hex()
    yield secret.hex().upper()
    yield base64.b64encode(secret).decode().rstrip("=")
    yield base64.urlsafe_b64encode(secret).decode().rstrip("=")
    yield str(int.from_bytes(secret, "big"))
    yield str(int.from_bytes(secret, "little"))
    yield json.dumps(list(secret))
    yield json.dumps(list(secret), separators=(",", ":"))


def listed(numbers: list[int]) -> set[str]:
    """The ways in which a list of numbers could be written. Its single numbers would be found everywhere by chance."""
    return {join.join(map(str, numbers)) for join in (",", ", ", " ", "\n", "|", ";")}


@pytest.fixture(scope="module")
def secrets(finished_audit: Audit, episodes: dict[str, list[Episode]]) -> dict[str, str]:
    """What no episode may be told, by what it is; for seeds and digests their first digits are enough."""
    job, nonce = finished_audit.job, finished_audit.job.nonce
    task = job.bench.task
    seal = job.contract.parts["task"]["seal"]
    found: dict[str, str] = {}
    for name, secret in {
        "nonce": nonce.secret,
        "seed of the hidden state": nonce.derive("hidden", plan.MAIN),
        "seed of the sealed units": nonce.derive("sealed"),
        **{f"salt of {label}": nonce.derive("commitment", label) for label in ("nonce", "hidden", "sealed")},
        **{f"order of pair {slot}": job.draws.bytes("pairs", slot, "order") for slot in (1, 2, 3)},
    }.items():
        found |= {f"{name}, form {number}": form for number, form in enumerate(forms(secret))}
    hidden = hidden_of(task, nonce, plan.MAIN)
    for name in ("hot", "weights"):
        found |= {f"{name} of the hidden state {text!r}": text for text in listed(hidden[name])}
    for family, numbers in enumerate(sealed_of(task, nonce)["parameters"]):
        found |= {f"sealed parameters of family {family} {text!r}": text for text in listed(numbers)}
    digests = {
        "C": job.contract.digest,
        "R": job.registration.digest,
        "commitment to the nonce": seal["nonce_commitment"],
        "commitment to the hidden state": seal["hidden_commitment"],
        "commitment to the sealed units": seal["sealed_commitment"],
        **{f"digest of part {name}": canonical.digest_of(part) for name, part in job.registration.parts.items()},
        **{f"record of {e.key}": e.digest for group in episodes.values() for e in group},
        **{f"transcript of {e.key}": e.record.transcript for group in episodes.values() for e in group},
        **{f"prior seal of {e.key}": e.record.prior_seal for group in episodes.values() for e in group},
        **{f"artifact of {e.key}": d for group in episodes.values() for e in group for d in e.record.candidates},
        **{f"unit of {e.key}": e.record.unit for group in episodes.values() for e in group},
    }
    found |= {name: digest.removeprefix("sha256:")[:TOLD_LENGTH] for name, digest in digests.items()}
    for group in episodes.values():
        found |= {f"presentation of {e.key}": e.record.draw["presentation"][:TOLD_LENGTH] for e in group}
    for path in finished_audit.scores.values():
        for row in json.loads(path.read_bytes())["body"]["rows"]:
            for value in row["units"]:
                if len(repr(value)) > 8:  # 0.0 and 1.0 are everywhere
                    found[f"score {value} of {row['role']} {row['stage']} {row['slot']}"] = repr(value)[:10]
    return found


def test_the_secrets_that_are_looked_for_are_the_real_ones(secrets: dict[str, str], finished_audit: Audit) -> None:
    """A search that finds nothing shows something only if it would have found them where they are."""
    layout = finished_audit.job.layout
    where = b"\n".join(
        path.read_bytes()
        for path in (layout.hidden / "main.json", layout.sealed / "main.json", finished_audit.nonce_file, layout.seal)
    ).decode()
    found = {name for name, text in secrets.items() if text in where}
    for name in ("nonce, form 0", "commitment to the nonce", "commitment to the hidden state"):
        assert name in found
    assert any(name.startswith("hot of") for name in found)
    assert any(name.startswith("sealed parameters of family 15") for name in found)
    scores = "".join(path.read_text() for path in finished_audit.scores.values())
    assert sum(text in scores for name, text in secrets.items() if name.startswith("score ")) > 20
    assert all(len(text) >= 4 for text in secrets.values())


@pytest.mark.parametrize("stage", STAGES)
def test_no_message_to_an_episode_holds_anything_sealed(
    stage: str, episodes: dict[str, list[Episode]], secrets: dict[str, str]
) -> None:
    assert episodes[stage]
    for episode in episodes[stage]:
        text = told(episode)
        assert [name for name, secret in secrets.items() if secret in text] == [], str(episode.key)


@pytest.mark.parametrize("stage", STAGES)
def test_no_episode_is_told_another_one_s_seed(stage: str, episodes: dict[str, list[Episode]]) -> None:
    seeds = {e.record.draw["agent_seed"]: e.record.unit for group in episodes.values() for e in group}
    assert len(seeds) > 20
    for episode in episodes[stage]:
        named = {unit for seed, unit in seeds.items() if seed[:TOLD_LENGTH] in told(episode)}
        assert named == {episode.record.unit}


@pytest.mark.parametrize("stage", STAGES)
def test_traffic_is_revealed_to_those_alone_whose_own_instance_it_is(
    stage: str, episodes: dict[str, list[Episode]], finished_audit: Audit
) -> None:
    job = finished_audit.job
    task = job.bench.task
    for episode in episodes[stage]:
        first = episode.hello["E0"]
        assert ("traffic" in first) == plan.STAGES[stage].own_instance
        if "traffic" in first:
            shown = task.presentation(bytes.fromhex(episode.record.draw["presentation"]))
            own = hidden_of(task, job.nonce, plan.instance(stage, episode.record.slot))
            assert first["traffic"] == dict(zip(shown["families"], own["weights"], strict=True))
            assert own != hidden_of(task, job.nonce, plan.MAIN)


@pytest.mark.parametrize("stage", ["target", "challengers", "pairs"])
def test_no_message_holds_the_solution_in_the_episode_s_own_names(
    stage: str, episodes: dict[str, list[Episode]], finished_audit: Audit
) -> None:
    task, nonce = finished_audit.job.bench.task, finished_audit.job.nonce
    for episode in episodes[stage]:
        shown = task.presentation(bytes.fromhex(episode.record.draw["presentation"]))
        solution = task.known_solution(shown, hidden_of(task, nonce, plan.MAIN))
        for line in solution.splitlines():
            assert line not in told(episode)
        examples = {item["example"] for item in episode.hello["E0"]["families"]}
        sealed = {number for row in sealed_of(task, nonce)["parameters"] for number in row}
        assert not examples & sealed, "examples and sealed parameters are disjoint"


def test_a_hello_holds_what_it_should_and_nothing_else(episodes: dict[str, list[Episode]]) -> None:
    expected = {"type", "version", "K", "E0", "files", "history", "budgets", "actions", "seed"}
    for group in episodes.values():
        for episode in group:
            assert set(episode.hello) == expected
            web = (
                set() if episode.key.stage == "target" else {"web/index.txt", *(f"web/000{n}.txt" for n in range(1, 5))}
            )
            assert set(episode.hello["files"]) == web | ({"canary.txt"} if episode.key.stage == "controls" else set())
    hellos = [told(episode).splitlines()[0] for group in episodes.values() for episode in group]
    stages = {*STAGES, "null", "misled", "misleading", "truthful", "neutral", "withheld", "control"}
    for first in hellos:
        text = json.loads(first)
        assert not stages & set(_words(text)), "an agent is not told in which seat it sits"


@pytest.mark.parametrize("stage", STAGES)
def test_only_branches_are_given_what_came_before(stage: str, finished_audit: Audit) -> None:
    job = finished_audit.job
    history = [{"request": {"action": "web_fetch"}, "reply": {"ok": True}}]
    for key in plan.keys(stage, 1):
        first = hello(job.bench.task, job.draws, key, job.bench.limits, history)
        assert first["history"] == (history if plan.STAGES[stage].branch else [])


def _words(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _words(item)
    elif isinstance(value, list):
        for item in value:
            yield from _words(item)
    elif isinstance(value, str) and len(value) < 40:
        yield value


def test_no_file_that_a_sandbox_mounts_holds_anything_sealed(finished_audit: Audit, secrets: dict[str, str]) -> None:
    spec = launch_spec(finished_audit.job.contract.config("agent"))
    for path in spec.files.values():
        text = path.read_text(encoding="utf-8")
        assert [name for name, secret in secrets.items() if secret in text] == []
    words = " ".join(spec.arguments)
    assert [name for name, secret in secrets.items() if secret in words] == []


def test_no_folder_that_a_sandbox_mounts_holds_the_results_or_the_nonce(finished_audit: Audit) -> None:
    spec = launch_spec(finished_audit.job.contract.config("agent"))
    mounted = [Path("/usr"), Path(sys.base_prefix), *spec.files.values()]
    for path in (finished_audit.results, finished_audit.nonce_file):
        assert not any(path.is_relative_to(place) for place in mounted)


def test_sealed_folders_and_files_are_closed(finished_audit: Audit) -> None:
    layout = finished_audit.job.layout
    for place in (layout.hidden.parent, layout.hidden, layout.sealed):
        assert stat.S_IMODE(place.stat().st_mode) == 0o700, place
        for path in place.iterdir():
            assert stat.S_IMODE(path.stat().st_mode) in {0o600, 0o700}, path
    assert [path.name for path in layout.hidden.parent.iterdir()] in (["hidden", "sealed"], ["sealed", "hidden"])
