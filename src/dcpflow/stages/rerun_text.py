"""What the next run would redo, in words for a terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dcpflow.report.screen import plain
from dcpflow.stages.planned import PlannedJob
from dcpflow.stages.rerun import Rerun

LONGEST_VALUE = 60


def render(found: Rerun) -> str:
    """The lines: what is registered anew, what runs and why, what it costs, what the statuses are called."""
    if not found.jobs:
        return "nothing     all that is asked for is there, and rests on what is registered and installed now"
    lines = [
        *_changes(found),
        *_jobs("runs", found.jobs),
        *_left(found),
        *_episodes(found),
        *_cost(found),
        *_statuses(found),
    ]
    return "\n".join(plain(line) for line in lines)


def _changes(found: Rerun) -> Iterator[str]:
    if found.first:
        yield "registers   the audit for the first time"
    for number, change in enumerate(found.changes):
        head = "amends" if number == 0 else ""
        yield f"{head:10}  {change['key']}: {_value(change['old'])} -> {_value(change['new'])}"
    if found.another_contract:
        yield f"{'contract':10}  another one: what an episode is has changed, so that all episodes are others"
    if found.changes:
        yield f"{'kept':10}  results and decision so far, in history/ below the results folder"


def _value(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}\N{HORIZONTAL ELLIPSIS}"


def _left(found: Rerun) -> Iterator[str]:
    if found.left:
        yield from _jobs("left", found.left)
        yield f"{'':10}  for a second run, with what rests on it: run snakemake again, even where the first one stops"


def _jobs(head: str, jobs: Sequence[PlannedJob]) -> Iterator[str]:
    reasons: dict[str, dict[str, int]] = {}
    for job in jobs:
        whys = reasons.setdefault(job.rule, {})
        whys[job.why] = whys.get(job.why, 0) + 1
    width = max(len(rule) for rule in reasons)
    for rule, whys in reasons.items():
        count = sum(whys.values())
        first, more = next(iter(whys)), len(whys) - 1
        why = f"{first}, and {more} more reason{'s' if more > 1 else ''} like it" if more else first
        yield f"{head:10}  {rule:{width}}  {f'{count} jobs' if count > 1 else '1 job':>8}  {why}"
        head = ""


def _episodes(found: Rerun) -> Iterator[str]:
    number = sum(found.episodes.values())
    most = _counted(found.replacements)
    more = f"; at most {most} more, should pairs be lost" if most else ""
    if number or more:
        yield f"{'episodes':10}  {number}: {_counted(found.episodes) or 'none is certain'}{more}"
    else:
        yield f"{'episodes':10}  none: no agent is started"


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {stage.replace('_', ' ')}" for stage, count in counts.items())


def _cost(found: Rerun) -> Iterator[str]:
    if not found.model or not (found.episodes or found.replacements):
        yield f"{'costs':10}  nothing: no model is asked"
    elif found.tokens is None or found.usd is None:
        yield f"{'costs':10}  not known: no episode is on record yet"
    else:
        money = f", {found.usd:.4f} USD" if found.priced else "; no prices are given (budget)"
        each = " of those that are certain" if found.replacements else ""
        yield f"{'costs':10}  about {found.tokens:,.0f} tokens{money}{each}, as {found.known} episodes on record did"


def _statuses(found: Rerun) -> Iterator[str]:
    for name, called in found.exploratory.items():
        before = found.became[name]
        word = "exploratory" if called else "confirmatory"
        if found.first or called == before:
            told = f"{word}, as before" if not found.first else word
        else:
            told = f"{word}, no longer {'exploratory' if before else 'confirmatory'}"
        yield f"{'status' if name == 'core' else '':10}  {name.capitalize()}: {told}"
    if any(found.exploratory.values()):
        yield f"{'':10}  the decision under the first registration stands beside it"
