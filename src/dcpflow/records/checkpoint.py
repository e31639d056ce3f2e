"""The checkpoint on disk: what Gate 3 branches from, sealed before any branch begins."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
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


def cut(contract: str, rule: str, target_record: str, transcript: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """The checkpoint that a rule cuts from the target run: the body of its file.

    Args:
        contract: C.
        rule: the registered rule, ``before_first_experiment``.
        target_record: digest of the target's record.
        transcript: the target's, as :func:`before_first_experiment` takes it.
    """
    history = before_first_experiment(transcript)
    return {
        "contract": contract,
        "target_record": target_record,
        "rule": rule,
        "history": history,
        "scope": scope(history),
    }


def before_first_experiment(transcript: Sequence[Mapping[str, str]]) -> list[dict[str, Any]]:
    """The exchanges of a transcript before its first experiment (and before any commit).

    Args:
        transcript: lines as the channel recorded them, the first being the hello.

    Returns:
        One ``{"request", "reply"}`` for each earlier exchange that the harness understood.
    """
    history = []
    for asked, answered in pairwise(transcript[1:]):
        if asked["from"] != "agent" or answered["from"] != "harness" or "line" not in asked:
            continue
        reply = json.loads(answered["line"])
        try:
            request = json.loads(asked["line"])
        except (ValueError, RecursionError):
            continue
        if not isinstance(request, dict):
            continue
        if request.get("action") in {"experiment", "commit", "finish"}:
            break
        if reply.get("ok"):
            history.append({"request": request, "reply": reply})
    return history


def scope(history: list[dict[str, Any]]) -> str:
    """``lineage_empty`` where the checkpoint holds nothing beyond K, E0 and W_obs, else ``lineage_prefix``.

    Computed, never registered by hand: what an exchange with the evaluator has taught is lineage; a page of the Web
    is not, since every challenger has it too.
    """
    taught = any(exchange["request"].get("action") == "experiment" for exchange in history)
    return "lineage_prefix" if taught else "lineage_empty"
