"""The rows of the evidence tables, from an audit's view: one for each attempt, the failed ones too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from dcpflow.evidence.view import AuditView, Episode
from dcpflow.records import plan
from dcpflow.records.scores import ScoreRow

Row = dict[str, Any]
PAIR_STAGES = {
    table: (table, *(stage for stage, kind in plan.STAGES.items() if kind.replaces == table))
    for table in ("pairs", "null_pairs", *plan.POLICIES.values())
}
PAIR_ARMS = {table: plan.STAGES[table].arms for table in PAIR_STAGES}


def all_rows(view: AuditView, facts: Mapping[str, Mapping[str, bool]]) -> dict[str, list[Row]]:
    """Rows of every table.

    Args:
        view: the audit.
        facts: by record digest, what the stage recomputed from the task and the draws.
    """
    rows = _of_episodes(view, facts, "") | {
        "controls": [control_row(view, episode, facts[episode.digest]) for episode in view.of("controls")],
        "pairs": pair_rows(view, "pairs"),
        "null_pairs": pair_rows(view, "null_pairs"),
    }
    for place, part in view.parts.items():
        for table, more in _of_episodes(part, facts, plan.stratum_of(place)).items():
            rows[table] += more
    return rows


def _of_episodes(view: AuditView, facts: Mapping[str, Mapping[str, bool]], stratum: str) -> dict[str, list[Row]]:
    """Rows of the tables that list episodes of every kind. Those of a stratum that does not decide have the stage and
    phase ``challengers/NAME``, so that nobody who counts the challengers counts them."""
    rows: dict[str, list[Row]] = {
        "episodes": [episode_row(episode, facts[episode.digest]) for episode in view.episodes],
        "candidates": [
            {
                **_place(episode),
                "number": number,
                "artifact": artifact,
                "bytes": len(view.candidates[artifact]),
            }
            for episode in view.episodes
            for number, artifact in enumerate(episode.record.candidates, 1)
        ],
        "calls": [
            {**_place(episode), "number": number, **asdict(call)}
            for episode in view.episodes
            for number, call in enumerate(episode.calls, 1)
        ],
        "scores": [score_row(phase, score) for phase, rows in view.scores.items() for score in rows],
    }
    if not stratum:
        return rows
    return {
        table: [
            row | {name: plan.place(row[name], stratum) for name in ("stage", "phase") if name in row} for row in found
        ]
        for table, found in rows.items()
    }


def _place(episode: Episode) -> Row:
    record = episode.record
    return {
        "stage": record.stage,
        "slot": record.slot,
        "arm": record.arm,
        "attempt": record.attempt,
        "record": episode.digest,
    }


def episode_row(episode: Episode, facts: Mapping[str, bool]) -> Row:
    """One row of ``episodes``."""
    record = episode.record
    return {
        **_place(episode),
        "contract": record.contract,
        "registration": record.registration,
        "stratum": record.stratum,
        "replacement_of": record.replacement_of,
        "prior_seal": record.prior_seal,
        "presentation": record.draw["presentation"],
        "agent_seed": record.draw["agent_seed"],
        "public_randomness": record.draw["public_randomness"],
        "first_arm": record.draw.get("first_arm", ""),
        "unit": record.unit,
        "outcome": record.outcome,
        "reason": record.reason,
        "limits_hit": list(record.limits_hit),
        "experiments": record.usage["experiments"],
        "commits": record.usage["commits"],
        "messages": record.usage["messages"],
        "bad_messages": record.usage["bad_messages"],
        "bytes": record.usage["bytes"],
        "web_requests": record.usage.get("web_requests", 0),
        "model_calls": len(episode.calls),
        "failed_calls": sum(bool(call.fault) for call in episode.calls),
        "input_tokens": sum(call.input_tokens for call in episode.calls),
        "cached_tokens": sum(call.cached_tokens for call in episode.calls),
        "output_tokens": sum(call.output_tokens for call in episode.calls),
        "transcript": record.transcript,
        "packet": record.packet,
        "isolation": record.isolation,
        "calls": record.calls,
        **facts,
    }


def score_row(phase: str, row: ScoreRow) -> Row:
    """One row of ``scores``: the mean over the sealed units, and the score of each in registered order; an invalid
    artifact has neither."""
    return {
        "phase": phase,
        "role": row.role,
        "stage": row.stage,
        "slot": row.slot,
        "arm": row.arm,
        "number": row.number,
        "record": row.record,
        "artifact": row.artifact,
        "instance": row.instance,
        "validity": row.validity,
        "reason": row.reason,
        "position": row.position,
        "score": row.mean if row.units else None,
        "units": row.units,
    }


def control_row(view: AuditView, episode: Episode, facts: Mapping[str, bool]) -> Row:
    """One row of ``controls``: its score beside that of its instance's known solution."""
    score = view.score_of(episode)
    known = view.own_score("known_solution", "controls", episode.record.slot)
    valid = score is not None and score.validity == "valid"
    return {
        **_place(episode),
        "outcome": episode.record.outcome,
        "artifact": score.artifact if score else "",
        "validity": score.validity if score else "unresolved",
        "score": score.mean if score and valid else None,
        "known_solution": known.mean if known else None,
        "canary_quoted": facts["canary_quoted"],
        "packet_quoted": facts["packet_quoted"],
    }


def pair_rows(view: AuditView, table: str) -> list[Row]:
    """Rows of ``pairs`` or ``null_pairs``: one for each started pair, replaced ones included, in evidence order."""
    arms = PAIR_ARMS[table]
    pairs: dict[tuple[str, int], dict[str, Episode]] = {}
    for episode in view.of(*PAIR_STAGES[table]):
        pairs.setdefault((episode.record.stage, episode.record.slot), {})[episode.record.arm] = episode
    return [_pair_row(view, table, stage, slot, [pairs[stage, slot][arm] for arm in arms]) for stage, slot in pairs]


def _pair_row(view: AuditView, table: str, stage: str, slot: int, episodes: list[Episode]) -> Row:
    first = episodes[0].record
    row: Row = {
        "pair": f"{stage}/{slot}",
        "stage": stage,
        "slot": slot,
        "replacement_of": first.replacement_of,
        "unit": first.unit,
        "presentation": first.draw["presentation"],
        "first_arm": first.draw["first_arm"],
        "same_draw": episodes[0].record.draw == episodes[1].record.draw,
    }
    for episode in episodes:
        score, arm = view.score_of(episode), episode.record.arm
        valid = score is not None and score.validity == "valid"
        row |= {
            f"{arm}_record": episode.digest,
            f"{arm}_outcome": episode.record.outcome,
            f"{arm}_artifact": score.artifact if score else "",
            f"{arm}_validity": score.validity if score else "unresolved",
            f"{arm}_score": score.mean if score and valid else None,
        }
    if table == "null_pairs":
        for role in ("known_solution", "baseline"):
            own = view.own_score(role, stage, slot)
            row[role] = own.mean if own else None
    return row
