"""Selects the checkpoint from which the branches of Gate 3 continue, before anything is scored."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dcpflow.records import receipts, stagefile
from dcpflow.records.checkpoint import SCHEMA
from dcpflow.records.layout import Layout
from dcpflow.records.objects import ObjectStore

if TYPE_CHECKING:
    from dcpflow.stages.laboratory import Job


def target_receipt(layout: Layout) -> Path:
    """The receipt of the target run."""
    return layout.root / "target" / receipts.file_name(1, 1)


def select(job: Job, output: Path) -> None:
    """Write the checkpoint by the registered rule, with its computed scope and the target record that it is cut from.

    The private score of the target is no input of this rule.
    """
    path = target_receipt(job.layout)
    (line,) = receipts.read(path, job.contract.digest)
    record = receipts.resolve(line, job.store, path)
    transcript = ObjectStore(job.layout.objects).get(
        record.transcript, "the target's transcript", job.store.run_again(record.key, record.attempt)
    )
    rule = job.contract.config("information")["checkpoint"]
    history = before_first_experiment([json.loads(entry) for entry in transcript.splitlines()])
    body = {
        "contract": job.contract.digest,
        "target_record": line.record,
        "rule": rule,
        "history": history,
        "scope": scope(history),
    }
    stagefile.write(output, SCHEMA, body)


def before_first_experiment(transcript: list[dict[str, str]]) -> list[dict[str, Any]]:
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
