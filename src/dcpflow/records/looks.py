"""What a look at the challengers came to: the one bit that the next look starts on, and the scores it was read from.

Where several looks are registered, each is a phase of its own. The records of the next look hold the digest of these
scores as their prior seal. Scores name the records that they were made from, and so on back to the target's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dcpflow.records import stagefile

SCHEMA = "dcpflow.look/1"


def write(path: Path, contract: str, scores: str, hit: bool) -> None:
    """Write a look's file.

    Args:
        path: the file.
        contract: C.
        scores: digest of the look's score file.
        hit: whether a challenger of this or an earlier look recovered the outcome, so that no later one is started.
    """
    stagefile.write(path, SCHEMA, {"contract": contract, "scores": scores, "hit": hit})


def read(path: Path, contract: str) -> dict[str, Any]:
    """What a look came to: ``scores`` and ``hit``.

    Raises:
        EvidenceError: it is missing, altered, or of another contract.
    """
    return stagefile.read(path, SCHEMA, "the look at the challengers", contract=contract)[0]
