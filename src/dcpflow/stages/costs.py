"""What the model has cost: every call of the evidence by its price, which is not registered and no part of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from dcpflow.evidence import tables
from dcpflow.records import plan
from dcpflow.records.calls import Call, Prices
from dcpflow.report import costs
from dcpflow.report.costs import Costs

GATES = {"target": "target", "challengers": "gate 2", "controls": "controls"}
"""What a stage is spent on; all others on Gate 3."""
STRATA = "strata"
"""What the stages of strata are spent on."""
POLICIES = "neutral policies"
"""What the stages of further neutral policies are spent on."""
COUNTED = ("episodes", "calls", "failed", "input_tokens", "cached_tokens", "output_tokens", "usd")


def priced(
    calls: Sequence[Mapping[str, Any]], prices: Prices, strata: Mapping[str, Prices] = {}
) -> list[dict[str, Any]]:
    """Rows of the table ``costs``: rows of ``calls``, each with what it was spent on and its cost in USD.

    Args:
        calls: the rows.
        prices: of a million tokens.
        strata: the same of the models of strata, by name.
    """
    rows = []
    for row in calls:
        stage, _, stratum = row["stage"].partition("/")
        asked = strata[stratum] if stratum else prices
        rows.append(
            {
                **{name: row[name] for name in tables.SCHEMAS["costs"] if name in row},
                "gate": _gate(stage, stratum),
                "usd": asked.of_call(Call(**{field.name: row[field.name] for field in fields(Call)})),
            }
        )
    return rows


def _gate(stage: str, stratum: str) -> str:
    if stratum:
        return STRATA
    return POLICIES if stage in plan.POLICIES.values() else GATES.get(stage, "gate 3")


def write_costs(calls: Path, prices: Prices, output: Path, strata: Mapping[str, Prices] = {}) -> None:
    """Write the table ``costs`` beside the evidence.

    Args:
        calls: the evidence table ``calls``.
        prices: of a million tokens.
        output: the file to write.
        strata: prices of the models of strata, by name.

    Raises:
        EvidenceError: the table is missing or altered.
    """
    tables.write(output, "costs", priced(tables.read(calls, "calls"), prices, strata), "")


def read(results: Path) -> list[dict[str, Any]]:
    """The rows of an audit's table ``costs``.

    Raises:
        EvidenceError: there is none.
    """
    return tables.read(results / "costs.parquet", "costs")


def summed(rows: Sequence[Mapping[str, Any]]) -> list[Costs]:
    """By gate, and of all together: episodes, calls, failed calls, tokens and USD; of strata and of further neutral
    policies where there are any."""
    gates = [*dict.fromkeys((*GATES.values(), "gate 3", *(row["gate"] for row in rows)))]
    parts = [(gate, [row for row in rows if row["gate"] == gate]) for gate in gates]
    return [costs.summed(gate, part) for gate, part in (*parts, ("all", rows))]


def render(rows: Sequence[Mapping[str, Any]]) -> str:
    """The sums as a table for a terminal."""
    lines = [["spent on", *(name.replace("_", " ") for name in COUNTED)]]
    lines += [[one.name, *(_shown(getattr(one, name)) for name in COUNTED)] for one in summed(rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]).rstrip() for line in lines
    )


def _shown(value: float) -> str:
    return f"{value:.4f}" if isinstance(value, float) else f"{value:,}"
