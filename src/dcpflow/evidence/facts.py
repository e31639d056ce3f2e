"""What only the nonce, the task and the folders can tell about an audit, recorded beside the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dcpflow.records import stagefile

SCHEMA = "dcpflow.facts/1"


@dataclass(frozen=True, slots=True)
class AuditFacts:
    """Facts of an audit as a whole; those of single episodes stand in the table of episodes.

    Attributes:
        commitments: whether each commitment of the contract opens to the material that was used.
        scoring_order: by phase, whether artifacts were scored in the drawn random order.
        unlisted: started attempts of registered slots that no receipt lists, and slots without an episode.
        target_runs: started attempts at a target run in this results folder, under any contract.
        strata: the same of each stratum beside the challengers that decide, by name.
    """

    commitments: Mapping[str, bool]
    scoring_order: Mapping[str, bool]
    unlisted: Sequence[str]
    target_runs: int
    strata: Mapping[str, AuditFacts] = field(default_factory=dict)


def write(path: Path, contract: str, facts: AuditFacts) -> None:
    """Write the facts; of strata nothing where there are none."""
    stagefile.write(path, SCHEMA, {"contract": contract, "facts": _plain(facts)})


def _plain(facts: AuditFacts) -> dict[str, Any]:
    plain = asdict(facts)
    if not plain["strata"]:
        del plain["strata"]
    else:
        plain["strata"] = {name: _plain(own) for name, own in facts.strata.items()}
    return plain


def read(path: Path, contract: str) -> AuditFacts:
    """The facts.

    Raises:
        EvidenceError: they are missing, altered, or of another contract.
    """
    body, _ = stagefile.read(path, SCHEMA, "the audit's facts", contract=contract)
    found = dict(body["facts"])
    strata = {name: AuditFacts(**own) for name, own in found.pop("strata", {}).items()}
    return AuditFacts(**found, strata=strata)
