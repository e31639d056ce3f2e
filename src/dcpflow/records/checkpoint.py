"""The checkpoint on disk: what Gate 3 branches from, sealed before any branch begins."""

from __future__ import annotations

from typing import Any

from dcpflow.errors import EvidenceError
from dcpflow.records import stagefile
from dcpflow.records.layout import Layout

SCHEMA = "dcpflow.checkpoint/1"


def read(layout: Layout, contract: str) -> tuple[dict[str, Any], str]:
    """The checkpoint and its digest, which the branches' records hold as their prior seal.

    Raises:
        EvidenceError: it is missing, altered, or of another contract.
    """
    body, digest = stagefile.read(layout.checkpoint, SCHEMA, "the checkpoint")
    if body["contract"] != contract:
        raise EvidenceError(
            f"the checkpoint {layout.checkpoint} belongs to another contract",
            f"To make it again: rm -f '{layout.checkpoint}' and run snakemake again",
        )
    return body, digest
