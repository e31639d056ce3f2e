"""Decisions of several cases as one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dcpflow.report.screen import interval, number, plain

HEADINGS = (
    *("case", "Core", "Evidence", "class", "x", "best challenger", "line", "bound"),
    *("controls", "effect", "null", "wall s"),
)


class Row(NamedTuple):
    """What became of one case.

    Attributes:
        name: of the case.
        decision: its decision; None if there is none.
        problem: why there is none.
        seconds: wall time of this run.
    """

    name: str
    decision: Mapping[str, Any] | None
    problem: str
    seconds: float


def table(rows: Sequence[Row]) -> str:
    """Rows as a table of Markdown, with the reason of each status below it."""
    cells = [HEADINGS, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEADINGS))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in cells
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join([*lines, "", *(reason for row in rows for reason in reasons(row))])


def reasons(row: Row) -> list[str]:
    """Why a case has its statuses, in words, one line for each; who recovered the outcome, if anybody did."""
    decision = row.decision
    if decision is None:
        return [plain(f"{row.name}: {row.problem}")]
    gate = decision["gate2"]
    lines = [f"{row.name}: {name} {decision[key]['status']}: {decision[key]['reason']}" for name, key in _STATUSES]
    if gate["witnesses"]:
        score, line = number(gate["best_score"]), number(gate["recovery_line"])
        lines[0] += f"; recovered by {', '.join(gate['witnesses'][:3])} (best {score}, line {line})"
    return [plain(line) for line in lines]


_STATUSES = (("Core", "core"), ("Evidence", "evidence"))


def _cells(row: Row) -> tuple[str, ...]:
    decision = row.decision
    if decision is None:
        return (row.name, "no decision", *[""] * (len(HEADINGS) - 3), f"{row.seconds:.0f}")
    core, evidence = decision["core"], decision["evidence"]
    gate1, gate2, gate3, controls = (decision[key] for key in ("gate1", "gate2", "gate3", "controls"))
    return (
        row.name,
        *(verdict["status"] + (", exploratory" if verdict["exploratory"] else "") for verdict in (core, evidence)),
        core["class"] or evidence["class"] or "",
        number(gate1["x"]),
        number(gate2["best_score"]),
        number(gate2["recovery_line"]),
        number(gate2["recovery_upper_bound"], 7),
        f"{controls['successes']}/{controls['trials']}, {number(controls['recall_lower_bound'])}",
        interval(gate3["effect"]) if gate3 else "",
        interval(gate3["null"]) if gate3 else "",
        f"{row.seconds:.0f}",
    )
