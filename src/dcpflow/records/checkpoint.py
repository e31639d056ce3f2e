"""The checkpoint on disk: what Gate 3 branches from, sealed before any branch begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dcpflow.records import canonical, packet, stagefile
from dcpflow.records.layout import Layout
from dcpflow.records.packet import Packet
from dcpflow.records.transcript import exchanges

SCHEMA = "dcpflow.checkpoint/1"


def read(layout: Layout, contract: str) -> tuple[dict[str, Any], str]:
    """The checkpoint and its digest, which the branches' records hold as their prior seal.

    Raises:
        EvidenceError: it is missing, altered, or of another contract.
    """
    return stagefile.read(layout.checkpoint, SCHEMA, "the checkpoint", contract=contract)


def cut(
    contract: str, rule: str, target_record: str, transcript: Sequence[Mapping[str, str]], web: Packet
) -> dict[str, Any]:
    """The checkpoint that a rule cuts from the target run: the body of its file.

    Args:
        contract: C.
        rule: the registered rule, ``before_first_experiment``.
        target_record: digest of the target's record.
        transcript: the target's, as :func:`before_first_experiment` takes it.
        web: what the target has seen of the Web.
    """
    history = before_first_experiment(transcript)
    return {
        "contract": contract,
        "target_record": target_record,
        "rule": rule,
        "history": history,
        "scope": scope(history, web),
    }


def before_first_experiment(transcript: Sequence[Mapping[str, str]]) -> list[dict[str, Any]]:
    """The exchanges of a transcript before its first experiment (and before any commit).

    Args:
        transcript: lines as the channel recorded them, the first being the hello.

    Returns:
        One ``{"request", "reply"}`` for each earlier exchange that the harness understood. A fetch stands there with
        its canonical address and without its id, so that it holds nothing but what was seen of the Web.
    """
    history = []
    for request, reply in exchanges(transcript):
        if request.get("action") in {"experiment", "commit", "finish"}:
            break
        if request.get("action") == packet.ACTION:
            if shown := packet.seen(request, reply):
                history.append(shown)
        elif reply.get("ok"):
            history.append({"request": request, "reply": reply})
    return history


def scope(history: Sequence[Mapping[str, Any]], web: Packet) -> str:
    """``lineage_empty`` where the checkpoint holds nothing beyond K, E0 and W_obs, else ``lineage_prefix``.

    Computed, never registered by hand: a page of the Web that every challenger has too is no lineage; whatever else an
    exchange has taught is.
    """
    observed = (packet.exchange(url, web.answer(url) or {}) for url in web.by_url)
    known = [canonical.encode(one) for one in observed]
    return "lineage_empty" if all(canonical.encode(one) in known for one in history) else "lineage_prefix"
