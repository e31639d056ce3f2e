"""What only the nonce, the task and the folders can tell about an audit, recorded beside the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

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
    """

    commitments: Mapping[str, bool]
    scoring_order: Mapping[str, bool]
    unlisted: Sequence[str]
    target_runs: int


def write(path: Path, contract: str, facts: AuditFacts) -> None:
    """Write the facts."""
    stagefile.write(path, SCHEMA, {"contract": contract, "facts": asdict(facts)})


def read(path: Path, contract: str) -> AuditFacts:
    """The facts.

    Raises:
        EvidenceError: they are missing, altered, or of another contract.
    """
    body, _ = stagefile.read(path, SCHEMA, "the audit's facts", contract=contract)
    return AuditFacts(**body["facts"])
