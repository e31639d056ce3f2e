"""What became of every episode that was started, and what it used, counted stage by stage and arm by arm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from dcpflow.records import plan
from dcpflow.report.material import Material, Row

USED: Final = {
    "experiments": "experiments",
    "commits": "commits",
    "messages": "messages",
    "bad_messages": "of them malformed",
    "web_requests": "Web requests",
    "bytes": "bytes said",
}
"""Columns of the table of episodes that say what an episode used."""


@dataclass(frozen=True, slots=True)
class Line:
    """One arm of one stage.

    Attributes:
        stage: of the episodes; ``challengers/NAME`` for a stratum that does not decide.
        arm: of the episodes.
        registered: slots; None where they are not registered here, or replace what was lost.
        started: episodes.
        artifact: of them committed an artifact.
        failed: committed none although they had their chance.
        violations: broke the contract.
        lost: were lost to infrastructure.
        replaced: whose pair was replaced.
        unresolved: of which it is not known what they came to.
        used: what they used together, in the order of ``USED``; empty where nothing is recorded.
    """

    stage: str
    arm: str
    registered: int | None
    started: int
    artifact: int
    failed: int
    violations: int
    lost: int
    replaced: int
    unresolved: int
    used: Sequence[int]


def lines(material: Material) -> list[Line]:
    """The ledger, in the order of the protocol's stages."""
    replaced = {row["replacement_of"] for row in material.tables["episodes"] if row["replacement_of"]}
    best = material.best()
    arms: dict[tuple[str, str], list[Row]] = {}
    for row in material.tables["episodes"]:
        arms.setdefault((row["stage"], row["arm"]), []).append(row)
    known = {(stage, arm): None for stage, kind in plan.STAGES.items() for arm in kind.arms}
    # behind them the strata, as the table lists them
    return [
        _line(material, stage, arm, arms[stage, arm], replaced, best)
        for stage, arm in (*known, *(place for place in arms if place not in known))
        if (stage, arm) in arms
    ]


def _line(
    material: Material, stage: str, arm: str, rows: Sequence[Row], replaced: set[str], best: dict[str, Row]
) -> Line:
    outcomes = Counter(row["outcome"] for row in rows)
    open_scores = sum(best[row["record"]]["validity"] == "unresolved" for row in rows if row["record"] in best)
    kind, _, stratum = stage.partition("/")
    block = material.decision["strata"][stratum] if stratum else material.decision["gate2"]
    decided = block["challengers"]["unresolved"] if kind == "challengers" else None
    own = {"challengers": block["challengers"]["registered"]} if stratum else {}
    design = {**material.config("design"), **own}
    return Line(
        stage=stage,
        arm=arm,
        registered=plan.slots(kind, design) if design and not plan.STAGES[kind].replaces else None,
        started=len(rows),
        artifact=outcomes["artifact"],
        failed=outcomes["model_failure"],
        violations=outcomes["execution_contract_violation"],
        lost=outcomes["infrastructure_invalid"],
        replaced=sum(f"{stage}/{row['slot']}" in replaced for row in rows),
        unresolved=open_scores if decided is None else decided,
        used=[_sum(rows, name) for name in USED] if rows[0]["experiments"] is not None else [],
    )


def _sum(rows: Sequence[dict[str, Any]], name: str) -> int:
    return sum(row[name] or 0 for row in rows)
