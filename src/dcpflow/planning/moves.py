"""The moves of cheating claimants: what is done to records, or to what episodes come to."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from dcpflow.errors import EvidenceError
from dcpflow.evidence.view import Episode
from dcpflow.planning import stand_in
from dcpflow.planning.endings import Rates
from dcpflow.planning.stand_in import StandIn
from dcpflow.planning.synthetic import Counts
from dcpflow.protocol.campaign import chance_in
from dcpflow.records import receipts
from dcpflow.records.episodes import EpisodeStore
from dcpflow.records.registration import registration_digest

FALSE_CLAIM: Final = Rates(recovery=0.05)
"""A claim that fresh challengers recover too often."""


@dataclass(frozen=True, slots=True)
class Move:
    """One way to cheat.

    Attributes:
        cheat: its name.
        how: what is done, and how thoroughly.
        claim: whether it is for ``core`` or for ``evidence``.
        truth: what is true of the claim.
        helps: what would notice it or keep it from paying, where the evidence alone does not.
        records: what it does to a whole audit; None where it leaves no mark in records.
        counts: what it does to what episodes come to.
    """

    cheat: str
    how: str
    claim: str
    truth: Rates
    helps: str = ""
    records: Callable[[StandIn], StandIn | Exception] | None = None
    counts: Callable[[Counts], Counts] = lambda counts: counts


def _challenger_hits(audit: StandIn) -> Callable[[Episode], bool]:
    hits = {e.digest for e in audit.view.of("challengers") if audit.is_hit(e)}
    return lambda episode: episode.digest in hits


def _stage(*stages: str, arm: str = "") -> Callable[[Episode], bool]:
    return lambda episode: episode.key.stage in stages and arm in {"", episode.key.arm}


def _relabel(audit: StandIn) -> StandIn:
    return audit.with_records(_challenger_hits(audit), lambda e: stand_in.with_record(e, outcome="model_failure"))


def _relabel_and_remove(audit: StandIn) -> StandIn:
    hits = {e.digest for e in audit.view.episodes if _challenger_hits(audit)(e)}
    return audit.with_scores(lambda row: None if row.record in hits else row).with_records(
        lambda e: e.digest in hits, lambda e: stand_in.with_record(e, outcome="model_failure", candidates=[])
    )


def _restart(audit: StandIn) -> StandIn:
    """Each challenger that recovered is run again until it misses; the first attempt's folder stays."""
    hits = _challenger_hits(audit)
    earlier = frozenset((e.key, 1) for e in audit.view.episodes if hits(e))
    digests = {e.digest for e in audit.view.episodes if hits(e)}
    missed = audit.with_scores(
        lambda row: replace(row, units=(stand_in.WORTH[False],)) if row.record in digests else row
    ).with_records(hits, lambda e: stand_in.with_record(e, attempt=2))
    return replace(missed, started=missed.started | earlier | {(e.key, e.record.attempt) for e in missed.view.episodes})


def _hits_as_failures(counts: Counts) -> Counts:
    return replace(counts, failures=counts.failures + counts.hits, hits=0)


def _hits_as_misses(counts: Counts) -> Counts:
    return replace(counts, misses=counts.misses + counts.hits, hits=0)


def _starve(audit: StandIn) -> StandIn:
    return audit.with_records(_stage("challengers"), lambda e: stand_in.told(e, files={}))


def _smaller_budget(audit: StandIn) -> StandIn:
    less = {"experiments": 0, "candidates": 1}
    return audit.with_records(_stage("challengers"), lambda e: stand_in.told(e, budgets=less))


def _neutral_scores(worth: float) -> Callable[[StandIn], StandIn]:
    def change(audit: StandIn) -> StandIn:
        return audit.with_scores(
            lambda row: replace(row, units=(worth,)) if row.stage == "pairs" and row.arm == "neutral" else row
        )

    return change


def _poison(value: str) -> Callable[[StandIn], StandIn]:
    return lambda audit: audit.with_records(_stage("pairs", arm="neutral"), lambda e: stand_in.answered(e, value))


def _late_threshold(history: bool) -> Callable[[StandIn], StandIn]:
    return lambda audit: audit.registered_as({"gate2": {"kappa": 0.0}}, history=history)


def _registered_anew(audit: StandIn) -> StandIn:
    """Every record is made again under the later registration, as if it had stood first."""
    later = audit.registered_as({"gate2": {"kappa": 0.0}}, history=False)
    (new,) = later.registrations
    assert new == registration_digest(later.view.registered.parts)
    old = audit.view.registered.digest
    for stages in (("target",), tuple({e.key.stage for e in later.view.episodes} - {"target"})):
        target = later.view.claim_seal
        swap = {old: new, audit.view.claim_seal: target}
        point = {**later.view.checkpoint, "target_record": target} if later.view.checkpoint else {}
        later = replace(later, view=replace(later.view, checkpoint=point)).with_records(
            _stage(*stages),
            lambda e, swap=swap: stand_in.with_record(  # type: ignore[misc]
                e, registration=new, prior_seal=swap.get(e.record.prior_seal, e.record.prior_seal)
            ),
        )
    return later


def _edited(audit: StandIn) -> Exception:
    """A record in the store says something else than when its receipt was written."""
    episode = audit.view.of("challengers")[0]
    with tempfile.TemporaryDirectory() as name:
        store, path = EpisodeStore(Path(name) / "store", audit.view.registered.contract), Path(name) / "receipt.json"
        receipts.write(path, audit.view.registered.contract, [episode.record.to_bytes()])
        place = store.record_path(episode.key)
        place.parent.mkdir(parents=True)
        place.write_bytes(stand_in.with_record(episode, outcome="model_failure").record.to_bytes())
        (line,) = receipts.read(path, audit.view.registered.contract)
        try:
            receipts.resolve(line, store, path)
        except EvidenceError as error:
            return EvidenceError(error.problem.replace(str(episode.key), "an episode"))
    raise AssertionError("an edited record was not noticed")


def _edited_with_receipt(audit: StandIn) -> StandIn:
    """Record and receipt are written anew; the scores still name the record that they were made from."""
    hits = _challenger_hits(audit)
    scores = audit.view.scores
    edited = audit.with_records(hits, lambda e: stand_in.with_record(e, reason="something else"))
    return replace(edited, view=replace(edited.view, scores=scores))


OUTSIDE: Final = "an auditor who runs the challengers, or receipts that a third party holds as they are written"

MOVES: Final = (
    Move("hits relabelled as failures", "the label alone", "core", FALSE_CLAIM, records=_relabel),
    Move(
        "hits relabelled as failures",
        "label, artifact and score; the conversation stays",
        "core",
        FALSE_CLAIM,
        records=_relabel_and_remove,
    ),
    Move(
        "hits relabelled as failures",
        "the conversation is rewritten too",
        "core",
        FALSE_CLAIM,
        f"{OUTSIDE}; the bound without failures is shown",
        counts=_hits_as_failures,
    ),
    Move(
        "dropped attempts",
        "every trace of an episode that recovered is removed",
        "core",
        FALSE_CLAIM,
        records=lambda audit: audit.without(_challenger_hits(audit)),
    ),
    Move(
        "unlisted restarts",
        "in this results folder, until each misses",
        "core",
        FALSE_CLAIM,
        records=_restart,
    ),
    Move(
        "unlisted restarts",
        "elsewhere, or the folder is cleaned",
        "core",
        FALSE_CLAIM,
        f"{OUTSIDE}; draws follow the nonce, so that a deterministic agent repeats its hit",
        counts=_hits_as_misses,
    ),
    Move(
        "starved information packet",
        "challengers get fewer files than registered",
        "core",
        FALSE_CLAIM,
        records=_starve,
    ),
    Move(
        "starved information packet",
        "the target knew more than was registered; challengers then miss",
        "core",
        Rates(),
        "an auditor who runs the target, from the registered agent and packet alone",
    ),
    Move("weaker challenger", "a smaller budget", "core", FALSE_CLAIM, records=_smaller_budget),
    Move(
        "weaker challenger",
        "a weaker model under the same name, which controls show (recall .8)",
        "core",
        Rates(recovery=0.005, recall=0.8),
    ),
    Move(
        "weaker challenger",
        "a weaker model under the same name, which can do the controls",
        "core",
        Rates(recovery=0.005),
        "a stratum with another agent; the provider's word on which model answered",
    ),
    Move(
        "holds back when the channel looks neutral",
        "in the null study too (half of the time)",
        "evidence",
        Rates(truthful=1.0, neutral=0.0, null_proposed=0.5),
    ),
    Move(
        "holds back when the channel looks neutral",
        "in the feedback pairs alone, to a score of 0",
        "evidence",
        Rates(),
        records=_neutral_scores(0.0),
    ),
    Move(
        "holds back when the channel looks neutral",
        "in the feedback pairs alone, to what challengers score",
        "evidence",
        Rates(),
        "an agent that cannot know its arm; several neutral policies",
        records=_neutral_scores(stand_in.WORTH[False]),
    ),
    Move(
        "holds back when the channel looks neutral",
        "in the challengers' seat too",
        "core",
        Rates(),
        "a stratum with another agent (as not_claimed says)",
    ),
    Move(
        "best of k target runs",
        "10 in this results folder",
        "core",
        FALSE_CLAIM,
        "a registry of target runs",
        records=lambda audit: replace(audit, target_runs=10),
    ),
    Move(
        "best of k target runs",
        f"10 elsewhere: one recovers with a chance of {chance_in(10, FALSE_CLAIM.recovery):.2f}",
        "core",
        FALSE_CLAIM,
        "a registry outside of results; Gate 2 still bounds what is certified",
    ),
    Move(
        "thresholds set after the scores",
        "in the configuration: an amendment",
        "core",
        Rates(),
        records=_late_threshold(True),
    ),
    Move(
        "thresholds set after the scores",
        "and the history of registrations is removed",
        "core",
        Rates(),
        records=_late_threshold(False),
    ),
    Move(
        "thresholds set after the scores",
        "and every record is made again under them",
        "core",
        Rates(),
        "a registration digest that was published before the first episode",
        records=_registered_anew,
    ),
    Move(
        "poisoned neutral arm",
        "misleading replies in the feedback pairs, not the registered policy",
        "evidence",
        Rates(),
        records=_poison("0.9999"),
    ),
    Move("poisoned neutral arm", "replies of another length", "evidence", Rates(), records=_poison("none")),
    Move(
        "poisoned neutral arm",
        "a misleading policy is registered as neutral, and harms null tasks (half of them)",
        "evidence",
        Rates(null_proposed=0.5),
    ),
    Move("edited records", "a record in the store", "core", FALSE_CLAIM, records=_edited),
    Move(
        "edited records",
        "record and receipt, of each that recovered",
        "core",
        FALSE_CLAIM,
        records=_edited_with_receipt,
    ),
    Move(
        "edited records",
        "everything that follows from them, conversation and scores included",
        "core",
        FALSE_CLAIM,
        OUTSIDE,
        counts=_hits_as_misses,
    ),
)
