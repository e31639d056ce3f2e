"""Core and Evidence as functions of the registered thresholds: a description of a decision, never one itself.

The stored evidence is decided again by the real engine, checks included, under altered thresholds. A status can only
change where a threshold meets a number of the evidence (a score's distance to the claimed one, an interval's end, a
bound). Those numbers are read off the evidence; between two neighbours of them one decision tells of all values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dcpflow.evidence import checks, decision, folder, gates
from dcpflow.evidence.decision import Outcome
from dcpflow.evidence.facts import AuditFacts
from dcpflow.evidence.view import AuditView
from dcpflow.planning import exact
from dcpflow.protocol import intervals
from dcpflow.protocol.feedback_effect import effect_interval
from dcpflow.protocol.intervals import Interval
from dcpflow.protocol.registration import ALPHA_TOTAL_CAP, FINITE_SET_EXACT, RHO_CAP, Registration
from dcpflow.records import history
from dcpflow.records.layout import Layout

if TYPE_CHECKING:
    from dcpflow.protocol.config import Config

DESCRIPTION: Final = "a description of how the decision leans on its thresholds, never a decision"


@dataclass(frozen=True, slots=True)
class Stored:
    """What a decision is reached from.

    Attributes:
        view: records and scores.
        facts: of the audit.
        episode_facts: of each episode, by record digest.
        registrations: every R in the history, oldest first.
    """

    view: AuditView
    facts: AuditFacts
    episode_facts: gates.Facts
    registrations: Sequence[str]

    def decided(self, changes: Mapping[str, float] = {}) -> Outcome:
        """The engine's decision with some thresholds changed, by dotted key below ``thresholds``."""
        return decision.reach(
            self.view, self.facts, self.episode_facts, self.registrations, _config(self.view, changes)
        )


@dataclass(frozen=True, slots=True)
class Segment:
    """A range of values over which nothing changes.

    Attributes:
        low: where it begins.
        high: where it ends.
        low_included: whether ``low`` belongs to it (or else to the segment before).
        high_included: whether ``high`` does.
        core: Core's status.
        evidence: the Evidence status.
        reason: Core's reason, and that of Evidence where it was tested.
    """

    low: float
    high: float
    low_included: bool
    high_included: bool
    core: str
    evidence: str
    reason: str


@dataclass(frozen=True, slots=True)
class Curve:
    """The statuses as a function of one threshold, all others as registered.

    Attributes:
        name: of the threshold.
        key: where it stands in the configuration.
        registered: its value.
        low: least value that may be registered.
        high: largest one.
        segments: from ``low`` to ``high`` without a gap.
        remark: what to know about it; empty if nothing.
    """

    name: str
    key: str
    registered: float
    low: float
    high: float
    segments: tuple[Segment, ...]
    remark: str

    @property
    def flips(self) -> tuple[float, ...]:
        """Where a status changes."""
        return tuple(segment.low for segment in self.segments[1:])


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """A decision and all curves around it.

    Attributes:
        core: Core's status under what is registered.
        evidence: the Evidence status.
        epsilon_flip: epsilon*, the claimed score less the best challenger's (by the interval's end where units are
            sampled); None without a challenger to compare. An epsilon from there on makes that challenger a hit.
        curves: one for each threshold that the grade reads.
    """

    core: str
    evidence: str
    epsilon_flip: float | None
    curves: tuple[Curve, ...]

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "schema": "dcpflow.sensitivity/1",
            "description": DESCRIPTION,
            "registered": {"core": self.core, "evidence": self.evidence},
            "epsilon_flip": self.epsilon_flip,
            "curves": [
                {
                    "name": curve.name,
                    "key": curve.key,
                    "registered": curve.registered,
                    "low": curve.low,
                    "high": curve.high,
                    "flips": list(curve.flips),
                    "remark": curve.remark,
                    "segments": [
                        {
                            "low": s.low,
                            "high": s.high,
                            "low_included": s.low_included,
                            "high_included": s.high_included,
                            "core": s.core,
                            "evidence": s.evidence,
                            "reason": s.reason,
                        }
                        for s in curve.segments
                    ],
                }
                for curve in self.curves
            ],
        }


@dataclass(frozen=True, slots=True)
class _Edge:
    """A value at which a status may change; ``upper`` if the value itself goes with what lies above it."""

    value: float
    upper: bool = True


def read(results: Path) -> Stored:
    """The evidence of a results folder, every digest followed.

    Raises:
        EvidenceError: something is missing, altered or foreign.
    """
    layout = Layout(results)
    found = folder.read(layout, folder.receipts(layout), folder.scores(layout))
    registrations = [entry.registration for entry in history.entries(layout)]
    return Stored(found.view, found.facts, found.episode_facts, registrations)


def describe(stored: Stored) -> Sensitivity:
    """Every curve of a decided audit: a pure function of its evidence."""
    outcome = stored.decided()
    epsilon = _epsilon(stored, outcome)
    curves = [epsilon, _kappa(epsilon, outcome), _rho(stored, outcome), _delta_min(stored, outcome)]
    curves += [_alpha_recovery(stored, outcome), _alpha_adequacy(stored, outcome)]
    if outcome.reg.grade == "evidence":
        curves += [_delta_evidence(stored, outcome), _delta_sham(stored, outcome)]
        curves += [_alpha_evidence(stored, outcome), _alpha_sham(stored, outcome)]
    verdicts = outcome.decision
    return Sensitivity(verdicts.core.status.value, verdicts.evidence.status.value, _best(outcome), tuple(curves))


def _config(view: AuditView, changes: Mapping[str, float]) -> Config:
    """The registered configuration with other thresholds."""
    parts = dict(view.registered.parts)
    for key, value in changes.items():
        section, name = key.split(".")
        thresholds = parts["thresholds"]["config"]
        parts["thresholds"] = {"config": {**thresholds, section: {**thresholds[section], name: value}}}
    return folder.config_of(replace(view.registered, parts=parts))


# --- one curve ---------------------------------------------------------------------------------------------


def _curve(
    stored: Stored,
    name: str,
    key: str,
    registered: float,
    span: tuple[float, float, str],
    edges: Iterable[_Edge],
    *,
    changes: Callable[[float], Mapping[str, float]] | None = None,
    remark: str = "",
) -> Curve:
    """Decide once between each two neighbouring edges, and join what comes out the same.

    Args:
        stored: the evidence.
        name: of the threshold.
        key: its dotted key in the configuration.
        registered: its value there.
        span: least and largest value that may be registered, and by brackets whether these may be themselves.
        edges: every value at which a status may change; those outside of the span do not matter.
        changes: the keys below ``thresholds`` that stand for a value; by default ``key`` alone.
        remark: what to know about it.
    """
    low, high, brackets = span
    inner = {edge.value: edge for edge in edges if low < edge.value < high}
    points = [low, *sorted(inner), high]
    segments: list[Segment] = []
    for left, right in pairwise(points):
        value = left + (right - left) / 2
        given = changes(value) if changes else {key.removeprefix("thresholds."): value}
        verdicts = stored.decided(given).decision
        reason = verdicts.core.reason
        if verdicts.evidence.status != "not_tested":
            reason += f"; Evidence: {verdicts.evidence.reason}"
        new = Segment(
            left,
            right,
            inner[left].upper if left in inner else brackets[0] == "[",
            not inner[right].upper if right in inner else brackets[1] == "]",
            verdicts.core.status.value,
            verdicts.evidence.status.value,
            reason,
        )
        last = segments[-1] if segments else None
        if last and (last.core, last.evidence) == (new.core, new.evidence):
            segments[-1] = replace(last, high=new.high, high_included=new.high_included)
        else:
            segments.append(new)
    return Curve(name, key, registered, low, high, tuple(segments), remark)


# --- the numbers of the evidence that epsilon is held against -----------------------------------------------


def _epsilon(stored: Stored, outcome: Outcome) -> Curve:
    reg = outcome.reg
    return _curve(
        stored,
        "epsilon",
        "thresholds.gate2.kappa",
        reg.epsilon,
        (0.0, reg.delta_min, "[)"),
        _epsilon_edges(outcome),
        changes=lambda value: {"gate2.kappa": value / reg.delta_min},
        remark=_remark_on_epsilon(outcome),
    )


def _kappa(epsilon: Curve, outcome: Outcome) -> Curve:
    """The curve of epsilon on another scale: epsilon = kappa times delta_min."""
    by = outcome.reg.delta_min
    segments = tuple(replace(s, low=s.low / by, high=s.high / by) for s in epsilon.segments)
    remark = "epsilon = kappa times delta_min"
    return Curve("kappa", epsilon.key, outcome.reg.kappa, 0.0, 1.0, segments, remark)


def _delta_min(stored: Stored, outcome: Outcome) -> Curve:
    reg, found = outcome.reg, outcome.decision.gate1
    edges = [_Edge(edge.value / reg.kappa) for edge in _epsilon_edges(outcome) if reg.kappa]
    if found:
        edges += [_Edge(found.gain.lower, upper=False), _Edge(found.gain.upper, upper=False)]
    remark = f"kappa stays {reg.kappa:g}, so that epsilon grows with it"
    return _curve(
        stored,
        "delta_min",
        "thresholds.gate1.delta_min",
        reg.delta_min,
        (0.0, max(1.0, reg.delta_min), "(]"),
        edges,
        remark=remark,
    )


def _best(outcome: Outcome) -> float | None:
    """The epsilon from which on a challenger is a hit."""
    found = outcome.decision.gate2
    reached = [-row.difference.lower for row in found.attempts if row.difference is not None] if found else []
    return min((value for value in reached if math.isfinite(value)), default=None)


def _remark_on_epsilon(outcome: Outcome) -> str:
    flip = _best(outcome)
    if flip is None:
        return "no challenger can be compared with the claimed artifact"
    exact_set = outcome.reg.interval_method == FINITE_SET_EXACT
    what = "x - best challenger" if exact_set else "x - best challenger, by the lower end of its interval,"
    if flip <= 0:
        return f"epsilon* = {what} = {flip:.6f}: a challenger does as well as the claim, and no epsilon changes that"
    beyond = "" if flip < outcome.reg.delta_min else ", which is beyond what may be registered"
    return f"epsilon* = {what} = {flip:.6f}: from there on a challenger has recovered the outcome{beyond}"


def _epsilon_edges(outcome: Outcome) -> list[_Edge]:
    """Every epsilon at which a comparison with a line turns out otherwise; an episode at the line has reached it."""
    values = {value for found in _differences(outcome) for value in (-found.lower, -found.upper)}
    return [_Edge(value) for value in {*values, *_own_lines(outcome)} if math.isfinite(value)]


def _differences(outcome: Outcome) -> Iterator[Interval]:
    """Of everything that is held against the claimed artifact: baseline, challengers, branches."""
    found = outcome.decision
    if found.gate1:
        yield found.gate1.recovery_of_baseline
    if found.gate2:
        yield from (row.difference for row in found.gate2.attempts if row.difference is not None)
    if found.gate3:
        yield from (row.difference for row in found.gate3.neutral.rows if row.difference is not None)
        if found.gate3.effect:
            pairs = (row for pair in found.gate3.effect.pairs for row in pair.comparisons)
            yield from (row.difference for row in pairs if row is not None and row.difference is not None)


def _own_lines(outcome: Outcome) -> Iterator[float]:
    """Of controls and null episodes, which are held against their own instance's solution."""
    view = outcome.view
    for episode in view.of("controls", "null_pairs", "null_pair_replacements", "misled_nulls"):
        stage, slot = episode.record.stage, episode.record.slot
        known, base = (view.own_score(role, stage, slot) for role in ("known_solution", "baseline"))
        row = view.score_of(episode)
        for other in (row if row is not None and row.validity == "valid" else None, base):
            if known is not None and other is not None:
                yield known.mean - other.mean


# --- the other thresholds ----------------------------------------------------------------------------------


def _rho(stored: Stored, outcome: Outcome) -> Curve:
    found, reg = outcome.decision.gate2, outcome.reg
    edges = [_Edge(found.bound)] if found and found.bound is not None else []
    return _curve(
        stored, "rho", "thresholds.gate2.rho", reg.rho, (0.0, RHO_CAP, "(]"), edges, remark=f"cap {RHO_CAP} (R6)"
    )


def _alpha_recovery(stored: Stored, outcome: Outcome) -> Curve:
    """The zero-hit bound is at most rho from ``alpha = (1 - rho) ** n`` on."""
    found, reg = outcome.decision.gate2, outcome.reg
    edges = [_Edge((1.0 - reg.rho) ** found.independent)] if found and found.bound is not None else []
    return _alpha(stored, outcome, "recovery", reg.alpha_recovery, edges)


def _alpha_adequacy(stored: Stored, outcome: Outcome) -> Curve:
    """The lower bound for k of n reaches a rate r from ``alpha = P(at least k of n | r)`` on."""
    reg, controls = outcome.reg, outcome.view.of("controls")
    facts = outcome.episode_facts
    counts = (
        sum(gates.control_succeeded(outcome.view, e, facts[e.digest], reg.epsilon) for e in controls),
        sum(facts[e.digest]["canary_quoted"] and facts[e.digest]["packet_quoted"] for e in controls),
    )
    edges = [_Edge(exact.at_least(count, len(controls), reg.min_control_recall)) for count in counts if count]
    return _alpha(stored, outcome, "adequacy", reg.alpha_adequacy, edges)


def _alpha_evidence(stored: Stored, outcome: Outcome) -> Curve:
    reg = outcome.reg
    edges = [edge for values, lost in _looked_at(outcome) for edge in _deciding(reg, values, lost)]
    return _alpha(stored, outcome, "evidence", reg.alpha_evidence, edges)


def _deciding(reg: Registration, values: Sequence[float], lost: int) -> Iterator[_Edge]:
    """Where some differences begin to decide the effect as alpha grows."""

    def ends(alpha: float) -> Interval:
        return effect_interval(replace(reg, alpha_evidence=alpha), values, lost)

    yield from _turning(lambda alpha: ends(alpha).lower - reg.delta_null >= reg.delta_evidence)
    yield from _turning(lambda alpha: ends(alpha).upper + reg.delta_null < reg.delta_evidence)


def _effects(outcome: Outcome) -> list[Interval]:
    """The effect's interval at each look."""
    return [effect_interval(outcome.reg, values, lost) for values, lost in _looked_at(outcome)]


def _looked_at(outcome: Outcome) -> Iterator[tuple[list[float], int]]:
    """The differences by each registered look that was reached, and by the last pair, with the number of lost pairs.

    At a threshold by which an earlier look would have decided, the later pairs are too many.
    """
    found = outcome.decision.gate3
    if found and found.effect:
        rows = found.effect.pairs
        for end in sorted({len(rows), *(look for look in outcome.reg.feedback_looks if look < len(rows))}):
            values = [row.difference for row in rows[:end] if row.difference is not None]
            yield values, end - len(values)


def _alpha_sham(stored: Stored, outcome: Outcome) -> Curve:
    found, reg = outcome.decision.gate3, outcome.reg
    values = [r.difference for r in found.null.pairs if r.difference is not None] if found and found.null else []

    def ends(alpha: float) -> Interval:
        return intervals.interval(reg.null_interval_method, values, 1.0 - alpha)

    tests = (
        lambda alpha: -reg.delta_null <= ends(alpha).lower and ends(alpha).upper <= reg.delta_null,
        lambda alpha: ends(alpha).lower > reg.delta_null or ends(alpha).upper < -reg.delta_null,
    )
    return _alpha(stored, outcome, "sham", reg.alpha_null, [e for test in tests for e in _turning(test)])


def _turning(test: Callable[[float], bool]) -> Iterator[_Edge]:
    """Where a test turns true as alpha grows and the interval shrinks: no formula, so halved down to the last digit."""
    low, high = 1e-12, ALPHA_TOTAL_CAP
    if test(low) or not test(high):
        return
    while low < (middle := low + (high - low) / 2) < high:
        low, high = (low, middle) if test(middle) else (middle, high)
    yield _Edge(high)


def _alpha(stored: Stored, outcome: Outcome, name: str, registered: float, edges: Sequence[_Edge]) -> Curve:
    reg = outcome.reg
    others = math.fsum(getattr(reg, key) for key in reg.active_alphas) - registered
    # what is registered fits by the rules' own reckoning, whatever a subtraction of decimals says
    room = max(reg.alpha_total - others, registered)
    remark = f"the other alphas leave {room:.4g} of {reg.alpha_total:g} (R8)"
    return _curve(
        stored, f"alpha.{name}", f"thresholds.alpha.{name}", registered, (0.0, room, "(]"), edges, remark=remark
    )


def _delta_evidence(stored: Stored, outcome: Outcome) -> Curve:
    reg = outcome.reg
    edges = []
    for ends in _effects(outcome):
        edges += [_Edge(ends.lower - reg.delta_null, upper=False), _Edge(ends.upper + reg.delta_null, upper=False)]
    remark = "at least twice delta_sham (R12)"
    span = (2 * reg.delta_null, max(1.0, 2 * reg.delta_null), "[]")
    return _curve(
        stored, "delta_evidence", "thresholds.gate3.delta_evidence", reg.delta_evidence, span, edges, remark=remark
    )


def _delta_sham(stored: Stored, outcome: Outcome) -> Curve:
    reg, found = outcome.reg, outcome.decision.gate3
    edges: list[_Edge] = []
    for ends in _effects(outcome):
        edges += [_Edge(ends.lower - reg.delta_evidence, upper=False), _Edge(reg.delta_evidence - ends.upper)]
    if found and found.null and found.null.difference:
        ends = found.null.difference
        edges += [_Edge(max(-ends.lower, ends.upper)), _Edge(ends.lower), _Edge(-ends.upper)]
    edges += [_Edge(value) for value in _harm(outcome.view)]
    remark = "at most half of delta_evidence (R12); also the band of the check neutral_harm"
    span = (0.0, reg.delta_evidence / 2, "(]")
    return _curve(stored, "delta_sham", "thresholds.gate3.delta_sham", reg.delta_null, span, edges, remark=remark)


def _harm(view: AuditView) -> Iterator[float]:
    """How far the neutral arm lies below the challengers, which the check neutral_harm compares with the band."""
    neutral = [e for e in view.of("pairs", "pair_replacements") if e.record.arm == "neutral"]
    ours, theirs = checks.mean_of(view, neutral), checks.mean_of(view, view.of("challengers"))
    if ours is not None and theirs is not None:
        yield theirs - ours
