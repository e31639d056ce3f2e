"""What a look at some scores came to: the one bit that the next look starts on, and the scores it was read from.

Where several looks are registered, each is a phase of its own. The records of the next look hold the digest of these
scores as their prior seal. Scores name the records that they were made from, and so on back to the target's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dcpflow.records import stagefile

SCHEMA = "dcpflow.look/1"


def write(path: Path, contract: str, scores: str, ended: bool) -> None:
    """Write a look's file.

    Args:
        path: the file.
        contract: C.
        scores: digest of the look's score file.
        ended: whether no later episode is started: a challenger of this or an earlier look recovered the outcome, or
            the pairs up to it or to an earlier one decide the effect.
    """
    stagefile.write(path, SCHEMA, {"contract": contract, "scores": scores, "ended": ended})


def read(path: Path, contract: str) -> dict[str, Any]:
    """What a look came to: ``scores`` and ``ended``.

    Raises:
        EvidenceError: it is missing, altered, or of another contract.
    """
    return stagefile.read(path, SCHEMA, "what a look came to", contract=contract)[0]
