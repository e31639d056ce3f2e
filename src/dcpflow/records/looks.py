"""What a look at the challengers came to: the one bit that the next look starts on, bound to what stood before it.

Where several looks are registered, each is a phase of its own. The file of a look names its scores, and through
``before`` the look before it and the target's record; the records of the next look hold its digest as their prior seal.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dcpflow.records import stagefile

SCHEMA = "dcpflow.look/1"


def body(contract: str, number: int, scores: str, before: str, hit: bool) -> dict[str, Any]:
    """The body of a look's file.

    Args:
        contract: C.
        number: of the look, from 1.
        scores: digest of its score file.
        before: digest of the look before; of the target's record for the first.
        hit: whether a challenger of this or an earlier look recovered the outcome, so that no later one is started.
    """
    return {"contract": contract, "look": number, "scores": scores, "before": before, "hit": hit}


def seal(content: dict[str, Any]) -> str:
    """The digest of a look's file, from its body: what the records of the next look hold as their prior seal."""
    return stagefile.digest(SCHEMA, content)


def write(path: Path, content: dict[str, Any]) -> None:
    """Write a look's file."""
    stagefile.write(path, SCHEMA, content)


def read(path: Path, contract: str) -> tuple[dict[str, Any], str]:
    """The body of a look's file, and its digest.

    Raises:
        EvidenceError: it is missing, altered, or of another contract.
    """
    return stagefile.read(path, SCHEMA, "the look at the challengers", contract=contract)
