"""What only the nonce, the task and the folders can tell about an audit, recorded beside the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dcpflow.records import stagefile

SCHEMA = "dcpflow.facts/1"
APART = ("strata", "policies")
"""What decides nothing and has facts of its own."""


@dataclass(frozen=True, slots=True)
class AuditFacts:
    """Facts of an audit as a whole; those of single episodes stand in the table of episodes.

    Attributes:
        commitments: whether each commitment of the contract opens to the material that was used.
        scoring_order: by phase, whether artifacts were scored in the drawn random order.
        unlisted: started attempts of registered slots that no receipt lists, and slots without an episode.
        target_runs: started attempts at a target run in this results folder, under any contract.
        strata: the same of each stratum beside the challengers that decide, by name.
        policies: and of each neutral policy beside the one that decides.
    """

    commitments: Mapping[str, bool]
    scoring_order: Mapping[str, bool]
    unlisted: Sequence[str]
    target_runs: int
    strata: Mapping[str, AuditFacts] = field(default_factory=dict)
    policies: Mapping[str, AuditFacts] = field(default_factory=dict)


def write(path: Path, contract: str, facts: AuditFacts) -> None:
    """Write the facts; of strata and of further neutral policies nothing where there are none."""
    stagefile.write(path, SCHEMA, {"contract": contract, "facts": _plain(facts)})


def _plain(facts: AuditFacts) -> dict[str, Any]:
    plain = {**asdict(facts), **{kind: _of_each(getattr(facts, kind)) for kind in APART}}
    return {name: value for name, value in plain.items() if value or name not in APART}


def _of_each(facts: Mapping[str, AuditFacts]) -> dict[str, Any]:
    return {name: _plain(own) for name, own in facts.items()}


def read(path: Path, contract: str) -> AuditFacts:
    """The facts.

    Raises:
        EvidenceError: they are missing, altered, or of another contract.
    """
    body, _ = stagefile.read(path, SCHEMA, "the audit's facts", contract=contract)
    found = dict(body["facts"])
    apart = {kind: {name: AuditFacts(**own) for name, own in found.pop(kind, {}).items()} for kind in APART}
    return AuditFacts(**found, strata=apart["strata"], policies=apart["policies"])
