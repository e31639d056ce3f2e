"""Finds what is on record of one episode, in a results folder or in a bundle."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from dcpflow.bundles import audit
from dcpflow.errors import EvidenceError, UsageError
from dcpflow.records import calls, canonical, plan, registration
from dcpflow.records.calls import Call
from dcpflow.records.episodes import EpisodeKey, EpisodeRecord, EpisodeStore
from dcpflow.records.layout import Layout
from dcpflow.records.objects import ObjectStore
from dcpflow.report import words
from dcpflow.report.conversation import Conversation
from dcpflow.report.words import Said


def find(results: Path, episode: str) -> Conversation:
    """What is on record of an episode.

    Args:
        results: a results folder, or a bundle of ours.
        episode: ``stage/slot/arm``; the arm may be left out where there is one, the slot where there is one. Those of a
            stratum are ``challengers/NAME/slot``.

    Raises:
        UsageError: no episode is named like that.
        EvidenceError: there is no record of it, or it was altered.
    """
    stratum, named = _of_stratum(episode)
    key = key_of(named)
    if not results.is_file() and not Layout(results).registration.is_dir():
        raise UsageError(f"nothing has run in {results} yet", "Run snakemake first, or name another folder: --results")
    layout = audit.open_bundle(results).layout if results.is_file() else Layout(results)
    store = EpisodeStore(layout.store, _contract(layout, stratum))
    data = store.committed(key)
    if data is None:
        raise EvidenceError(f"there is no record of {key} in {results}", "It has not been run, or not to its end")
    record = EpisodeRecord.from_bytes(data, f"the record of {key}")
    objects = ObjectStore(layout.objects)
    where = f"the transcript of {key}"
    lines = [canonical.decode(line, where) for line in objects.get(record.transcript, where).splitlines()]
    made: list[Call] = []
    if record.calls:
        made = calls.decode(objects.get(record.calls, f"the calls of {key}"), f"the calls of {key}")
    stderr = "" if results.is_file() else _stderr(store.folder(key))
    return Conversation(record, lines, [(call, _words(objects, call)) for call in made], stderr)


def _of_stratum(episode: str) -> tuple[str, str]:
    """The stratum that a text names, which begins with a letter, and the text without it."""
    stage, _, rest = episode.partition("/")
    name, slash, place = rest.partition("/")
    return (name, f"{stage}/{place}") if slash and stage == "challengers" and name[:1].isalpha() else ("", episode)


def _contract(layout: Layout, stratum: str) -> str:
    """The contract of the audit, or of one of its strata."""
    if not stratum:
        return registration.read_contract(layout.registration).digest
    registered = registration.read_registration(layout.registration)
    if stratum not in registered.strata:
        there = f"There are {', '.join(registered.strata)}" if registered.strata else "There are none"
        raise UsageError(f"there is no stratum {stratum!r}", there)
    return registration.of_stratum(registered, stratum).contract


def key_of(episode: str) -> EpisodeKey:
    """The episode that a text like ``pairs/3/neutral`` names.

    Raises:
        UsageError: it names none.
    """
    stage, slot, arm, *more = (*episode.split("/"), "", "")[: max(3, episode.count("/") + 1)]
    if stage not in plan.STAGES or more:
        raise UsageError(f"there are no episodes {episode!r}", f"Name one like challengers/17; there are {_stages()}")
    if not slot and plan.STAGES[stage].single:
        slot = "1"
    if not slot.isdecimal() or not slot.isascii():
        raise UsageError(f"{episode!r} has no number", f"Write it like {stage}/1")
    arms = plan.STAGES[stage].arms
    if not arm and len(arms) == 1:
        arm = arms[0]
    if arm not in arms:
        named = " or ".join(f"{stage}/{slot}/{name}" for name in arms)
        raise UsageError(f"{episode!r} has no such arm" if arm else f"{episode!r} names a pair", f"Write {named}")
    return EpisodeKey(stage, int(slot), arm)


def _stages() -> str:
    return ", ".join(plan.STAGES)


def _words(objects: ObjectStore, call: Call) -> Sequence[Said]:
    return words.of_answer(objects.get(call.response, "an answer of the model")) if call.response else ()


def _stderr(folder: Path) -> str:
    """What stands beside the record of the last attempt to write one."""
    found = sorted(folder.glob("aside-*.json"), key=lambda path: (len(path.name), path.name))
    try:
        text = json.loads(found[-1].read_bytes())["stderr"] if found else ""
    except (OSError, ValueError, TypeError, KeyError):
        return ""
    return text if isinstance(text, str) else ""
