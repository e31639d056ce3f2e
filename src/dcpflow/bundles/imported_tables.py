"""The evidence of an imported dcp-audit bundle as rows of our tables; null stands where the format has nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dcpflow.bundles.dcp_audit import Decoded, digests
from dcpflow.evidence import tables
from dcpflow.protocol.intervals import mean
from dcpflow.protocol.model import Attempt, Branch, FeedbackPair, NullPair, Outcome, ScoredArtifact

Row = dict[str, Any]
_ARMS = {"pairs": ("truthful", "neutral"), "null_pairs": ("reference_null", "proposed_sham")}


def all_rows(decoded: Decoded) -> dict[str, list[Row]]:
    """Rows of every table of evidence; ``controls`` has none, since a bundle holds their counts alone."""
    episodes = list(_episodes(decoded))
    return {
        "episodes": [episode for episode, _ in episodes],
        "calls": [],
        "candidates": [
            {**{name: row[name] for name in tables.PLACE}, "number": 1, "artifact": result.artifact, "bytes": None}
            for row, result in episodes
            if result.artifact
        ],
        "scores": list(_scores(decoded, episodes)),
        "controls": [],
        "pairs": _pairs("pairs", decoded.gate3.pairs) if decoded.gate3 else [],
        "null_pairs": _pairs("null_pairs", decoded.gate3.null.pairs) if decoded.gate3 else [],
    }


class _Result:
    """Artifact and scores of one episode."""

    def __init__(self, row: ScoredArtifact | Attempt | Branch) -> None:
        self.artifact = row.digest if isinstance(row, ScoredArtifact) else row.artifact_digest
        self.validity = row.validity.value
        self.units = row.scores or ()

    @property
    def mean(self) -> float | None:
        return mean(self.units) if self.units and self.validity == "valid" else None


def _episodes(decoded: Decoded) -> Iterator[tuple[Row, _Result]]:
    claimed = decoded.gate1.claimed
    target = {"outcome": Outcome.ARTIFACT.value, "record": digests.artifact(claimed)}
    yield _episode("target", 1, "target", **target), _Result(claimed)
    for slot, attempt in enumerate(decoded.gate2.attempts, 1):
        place = {
            "record": digests.attempt(attempt),
            "contract": attempt.contract_digest,
            "stratum": attempt.stratum,
            "prior_seal": attempt.prestart_receipt,
            "unit": attempt.independent_unit,
            "outcome": attempt.outcome.value,
            "reason": attempt.attempt_id,
        }
        yield _episode("challengers", slot, "withheld", **place), _Result(attempt)
    if decoded.gate3 is not None:
        yield from _branches("pairs", decoded.gate3.pairs)
        yield from _branches("null_pairs", decoded.gate3.null.pairs)


def _branches(stage: str, pairs: Sequence[FeedbackPair | NullPair]) -> Iterator[tuple[Row, _Result]]:
    for slot, pair in enumerate(pairs, 1):
        for arm, branch in zip(_ARMS[stage], pair.branches, strict=True):
            place = {
                "record": digests.branch(branch),
                "contract": branch.contract_digest,
                "replacement_of": pair.replacement_of,
                "prior_seal": branch.prestart_receipt,
                "unit": pair.block_id,
                "outcome": branch.outcome.value,
                "reason": branch.branch_id,
            }
            yield _episode(stage, slot, arm, **place), _Result(branch)


def _episode(stage: str, slot: int, arm: str, **known: str) -> Row:
    row: Row = dict.fromkeys(tables.SCHEMAS["episodes"])
    return row | {"stage": stage, "slot": slot, "arm": arm, "attempt": 1, **known}


def _scores(decoded: Decoded, episodes: Sequence[tuple[Row, _Result]]) -> Iterator[Row]:
    baseline = _Result(decoded.gate1.baseline)
    yield _score_row({"stage": "target", "slot": 1, "arm": "", "record": ""}, baseline, "baseline")
    for row, result in episodes:
        if result.artifact:
            yield _score_row(row, result, "candidate")


def _score_row(place: Row, result: _Result, role: str) -> Row:
    row: Row = dict.fromkeys(tables.SCHEMAS["scores"])
    return row | {
        "phase": "pairs" if place["stage"] == "null_pairs" else place["stage"],
        "role": role,
        **{name: place[name] for name in ("stage", "slot", "arm", "record")},
        "number": 1,
        "artifact": result.artifact,
        "validity": result.validity,
        "score": result.mean,
        "units": result.units,
    }


def _pairs(table: str, pairs: Sequence[FeedbackPair | NullPair]) -> list[Row]:
    rows = []
    for slot, pair in enumerate(pairs, 1):
        row: Row = dict.fromkeys(tables.SCHEMAS[table])
        row |= {
            "pair": pair.pair_id,
            "stage": table,
            "slot": slot,
            "replacement_of": pair.replacement_of,
            "unit": pair.block_id,
        }
        for arm, branch in zip(_ARMS[table], pair.branches, strict=True):
            result = _Result(branch)
            row |= {
                f"{arm}_record": digests.branch(branch),
                f"{arm}_outcome": branch.outcome.value,
                f"{arm}_artifact": result.artifact,
                f"{arm}_validity": result.validity,
                f"{arm}_score": result.mean if branch.utility is None else branch.utility,
            }
        rows.append(row)
    return rows
