"""Thousands of synthetic audits from a declared truth, each decided by the rules of :mod:`dcpflow.protocol`.

Audits are drawn in blocks, each with a stream of its own, so that the same seed gives the same audits on any number of
processes. An audit's evidence follows from its counts, and audits with equal counts share one decision of the engine.
With noise those share one in which the same numbers of artifacts reach their lines.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from dcpflow.errors import UsageError
from dcpflow.evidence import gates
from dcpflow.planning import exact
from dcpflow.planning.endings import Rates
from dcpflow.planning.synthetic import FAILURE, HIT, MISS, PAIR_ENDS, SCORED, Counts, Scores, Synthesis
from dcpflow.protocol.decision import Decision, decide
from dcpflow.protocol.feedback_effect import effect_interval, effect_side
from dcpflow.protocol.gate1 import evaluate_gate1
from dcpflow.protocol.intervals import differences, mean, success_lower_bound, success_upper_bound
from dcpflow.protocol.model import Effect
from dcpflow.protocol.registration import BINARY, FINITE_SET_EXACT, Registration

if TYPE_CHECKING:
    from numpy.random import Generator
    from numpy.typing import NDArray

    from dcpflow.protocol.config import Config

    Column = NDArray[Any]

BLOCK: Final = 500
"""Audits that share one random stream."""

SEED: Final = 20_260_909
"""Of a simulation that names none."""

CONFIDENCE: Final = 0.95
"""Of the exact intervals of the rates."""


@dataclass(frozen=True, slots=True)
class Truth:
    """What is true of a claim, its agents and the machines they run on.

    Attributes:
        rates: of what episodes come to.
        dependence: correlation between episodes of one kind in one audit, from 0 to below 1: in each audit each kind
            has a rate of its own, drawn around the declared one (beta-binomial).
        noise: standard deviation of each sealed unit's score around what the artifact is worth.
        units: sealed units.
        claimed: what the claimed artifact is worth, and every one that recovers.
        baseline: what the baseline is worth.
        miss: what every other artifact is worth.
    """

    rates: Rates = field(default_factory=Rates)
    dependence: float = 0.0
    noise: float = 0.0
    units: int = 1
    claimed: float = 0.9
    baseline: float = 0.0
    miss: float = 0.3


@dataclass(frozen=True, slots=True)
class Setup:
    """What is simulated.

    Attributes:
        reg: what is registered.
        challengers: that each audit starts, unless one of an earlier look recovers.
        controls: that each audit runs.
        truth: what is true.
        looks: after how many challengers their scores are looked at; empty for once, after all of them.
    """

    reg: Registration
    challengers: int
    controls: int
    truth: Truth
    looks: tuple[int, ...] = ()

    @property
    def scores(self) -> Scores:
        """What artifacts score without noise."""
        truth = self.truth
        claimed, baseline, miss = ((value,) * truth.units for value in (truth.claimed, truth.baseline, truth.miss))
        return Scores(claimed, baseline, miss)


def setup(config: Config, truth: Truth, checkpoint_scope: str) -> Setup:
    """The audit that a configuration registers, under a truth.

    Args:
        config: the configuration.
        truth: what is true.
        checkpoint_scope: ``lineage_prefix``, or ``lineage_empty``, under which neutral branches are challengers.
    """
    reg = gates.registration(config, "a simulated contract", {"scope": checkpoint_scope})
    design = config.design
    return Setup(reg, design.challengers, design.controls, truth, design.gate2_looks or ())


Ending = tuple[str, str, str, str, str, str]
"""Core's status, class and rule, and those of Evidence; an empty class where there is none."""


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate among simulated audits.

    Attributes:
        count: audits of this kind.
        audits: all audits.
    """

    count: int
    audits: int

    @property
    def value(self) -> float:
        """The rate."""
        return self.count / self.audits

    @property
    def interval(self) -> tuple[float, float]:
        """Its exact interval (Clopper-Pearson, two-sided)."""
        tail = (1.0 - CONFIDENCE) / 2
        return (
            success_lower_bound(self.count, self.audits, tail),
            success_upper_bound(self.count, self.audits, tail),
        )

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        low, high = self.interval
        return {"count": self.count, "rate": self.value, "lower": low, "upper": high}


@dataclass(frozen=True, slots=True)
class Simulated:
    """What all audits came to.

    Attributes:
        setup: what was simulated.
        audits: their number.
        seed: of all draws.
        endings: audits by how they ended.
        started: challengers that all audits started.
        pairs_started: feedback pairs that all audits started.
        decisions: decisions of the engine behind them.
        seconds: wall time.
        processes: that shared the work.
    """

    setup: Setup
    audits: int
    seed: int
    endings: Counter[Ending]
    started: int
    pairs_started: int
    decisions: int = field(compare=False)
    seconds: float = field(compare=False)
    processes: int = field(compare=False)

    @property
    def audits_per_minute(self) -> float:
        """How fast it was."""
        return 60.0 * self.audits / self.seconds

    def rate(self, claim: str, status: str, kind: str | None = None) -> Rate:
        """The rate of a status (and class) of ``core`` or ``evidence``."""
        at = 0 if claim == "core" else 3
        count = sum(n for end, n in self.endings.items() if end[at] == status and (kind is None or end[at + 1] == kind))
        return Rate(count, self.audits)

    def by_status(self, claim: str) -> list[tuple[str, str, str, Rate]]:
        """Status, class, deciding rule and rate of every ending of a claim, the most frequent first."""
        at = 0 if claim == "core" else 3
        found: Counter[tuple[str, str, str]] = Counter()
        for end, n in self.endings.items():
            found[end[at], end[at + 1], end[at + 2]] += n
        ordered = sorted(found.items(), key=lambda item: (-item[1], item[0]))
        return [(*end, Rate(n, self.audits)) for end, n in ordered]


def simulate(setup: Setup, audits: int, seed: int = SEED, processes: int = 1) -> Simulated:
    """Draw and decide so many audits.

    Raises:
        UsageError: The truth contradicts what is registered.
    """
    check(setup)
    began = time.monotonic()
    blocks = [(number, min(BLOCK, audits - first)) for number, first in enumerate(range(0, audits, BLOCK))]
    shares = [blocks[part::processes] for part in range(processes) if blocks[part::processes]]
    if len(shares) == 1:
        parts = [_run(setup, seed, shares[0])]
    else:
        with ProcessPoolExecutor(len(shares)) as pool:
            parts = list(pool.map(_run, [setup] * len(shares), [seed] * len(shares), shares))
    endings: Counter[Ending] = Counter()
    for found, *_ in parts:
        endings.update(found)
    started, pairs, decisions = (sum(part[at] for part in parts) for at in (1, 2, 3))
    return Simulated(setup, audits, seed, endings, started, pairs, decisions, time.monotonic() - began, len(shares))


def check(setup: Setup) -> None:
    """Refuse a truth that contradicts what is registered.

    Raises:
        UsageError: It does.
    """
    truth, reg = setup.truth, setup.reg
    line = truth.claimed - reg.epsilon
    if not truth.miss < line:
        raise UsageError(
            f"an artifact worth {truth.miss:g} is no miss: the recovery line lies at {line:g}",
            "Lower what a miss is worth",
        )
    if not truth.noise >= 0.0:
        raise UsageError(f"a noise of {truth.noise:g} is below 0")
    if not 0.0 <= truth.dependence < 1.0:
        raise UsageError(f"a dependence of {truth.dependence:g} is not from 0 to below 1")
    if truth.noise and (setup.looks or reg.feedback_looks):
        raise UsageError("noise is not simulated beside several looks", "Leave one of them out")


def _run(setup: Setup, seed: int, blocks: list[tuple[int, int]]) -> tuple[Counter[Ending], int, int, int]:
    """Some blocks, how many challengers and pairs they started, and how often the engine was asked."""
    import numpy as np  # noqa: PLC0415

    synthesis = Synthesis(setup.reg, setup.controls, setup.scores)
    known: dict[Any, Ending] = {}
    endings: Counter[Ending] = Counter()
    started = pairs = decisions = 0
    for number, size in blocks:
        draws = np.random.default_rng([seed, number])
        for counts in drawn(setup, draws, size):
            started, pairs = started + counts.challengers, pairs + counts.pairs_started
            key, decided = _audit(setup, synthesis, counts, draws)
            if key is None or key not in known:
                end = _ending(decided())
                decisions += 1
                if key is not None:
                    known[key] = end
            endings[end if key is None else known[key]] += 1
    return endings, started, pairs, decisions


def _audit(setup: Setup, synthesis: Synthesis, counts: Counts, draws: Generator) -> tuple[Any, Callable[[], Decision]]:
    """What an audit shares its decision by (None if with no other), and the engine's decision on it."""
    if setup.truth.noise:
        audit = _measured(synthesis, setup.truth, counts, draws)
        return audit.key(setup.reg), audit.decided
    return counts, lambda: decide(setup.reg, synthesis.gate1(), synthesis.gate2(counts), synthesis.gate3(counts))


def _ending(decision: Decision) -> Ending:
    core, evidence = decision.core, decision.evidence
    return (
        core.status.value,
        core.inconclusive_class.value if core.inconclusive_class else "",
        core.rule,
        evidence.status.value,
        evidence.inconclusive_class.value if evidence.inconclusive_class else "",
        evidence.rule,
    )


# --- drawing -----------------------------------------------------------------------------------------------


def drawn(setup: Setup, draws: Generator, size: int) -> Iterator[Counts]:
    """What the episodes of ``size`` audits come to."""
    reg, rates = setup.reg, setup.truth.rates

    def around(rate: float) -> Column:
        return _rates(draws, rate, setup.truth.dependence, size)

    columns = _challengers(draws, setup, around, size)
    columns.append(draws.binomial(setup.controls, around(rates.recall) * (1.0 - rates.loss)))
    if reg.grade == "evidence":
        truthful, neutral = around(rates.truthful), around(rates.neutral)
        columns += _feedback(draws, setup, (truthful, neutral))
        reference, proposed = around(rates.null_reference), around(rates.null_proposed)
        columns += _pairs(draws, reg.null_pairs, reg.max_null_replacements, rates, (reference, proposed))
    # lists of pairs' ends become tuples, so that counts can be known again
    for row in zip(*(column.tolist() for column in columns), strict=True):
        values: list[Any] = [tuple(value) if isinstance(value, list) else value for value in row]
        yield Counts(*values)


def _challengers(draws: Generator, setup: Setup, around: Callable[[float], Column], size: int) -> list[Column]:
    """Hits, failures, losses and misses among the challengers that are started, look by look until one recovers."""
    import numpy as np  # noqa: PLC0415

    rates, rate = setup.truth.rates, None
    columns = [np.zeros(size, dtype=np.int64) for _ in range(4)]
    for first, last in pairwise((0, *(setup.looks or (setup.challengers,)))):
        started = np.where(columns[0] > 0, 0, last - first)
        lost = draws.binomial(started, rates.loss)
        rate = around(rates.recovery) if rate is None else rate
        hits = draws.binomial(started - lost, rate)
        failures = draws.binomial(started - lost - hits, rates.failure)
        found = (hits, failures, lost, started - lost - hits - failures)
        columns = [column + more for column, more in zip(columns, found, strict=True)]
    return columns


def _rates(draws: Generator, rate: float, dependence: float, size: int) -> Column:
    """One rate for each audit."""
    import numpy as np  # noqa: PLC0415

    if not dependence or rate in (0.0, 1.0):
        return np.full(size, rate)
    spread = (1.0 - dependence) / dependence
    return draws.beta(rate * spread, (1.0 - rate) * spread, size)


def _feedback(draws: Generator, setup: Setup, arms: tuple[Column, Column]) -> tuple[Column, Column, Column]:
    """As :func:`_pairs`; where the effect is looked at, the pairs that are started until it is decided."""
    import numpy as np  # noqa: PLC0415

    reg, rates = setup.reg, setup.truth.rates
    if not reg.feedback_looks:
        return _pairs(draws, reg.feedback_pairs, reg.max_feedback_replacements, rates, arms)
    decided = _Decided(setup)
    ends = np.zeros((len(arms[0]), len(PAIR_ENDS)), dtype=np.int64)
    lost, going = np.zeros(len(ends), dtype=np.int64), np.ones(len(ends), dtype=bool)
    for first, last in pairwise((0, *reg.feedback_looks)):
        more, _, gone = _pairs(draws, last - first, 0, rates, arms)
        ends, lost = ends + more * going[:, None], lost + gone * going
        going &= ~np.array([decided(tuple(row), gone) for row, gone in zip(ends.tolist(), lost.tolist(), strict=True)])
    return ends, np.zeros_like(lost), lost


class _Decided:
    """Whether pairs that ended so decide the effect; the same counts are asked for many times.

    Args:
        setup: what is simulated.
    """

    def __init__(self, setup: Setup) -> None:
        binary, scores = setup.reg.feedback_estimand == BINARY, setup.scores
        worth = {HIT: 1.0 if binary else mean(scores.claimed), MISS: 0.0 if binary else mean(scores.miss), FAILURE: 0.0}
        self._reg = setup.reg
        self._differences = [worth[first] - worth[second] for first, second in PAIR_ENDS]
        self._known: dict[tuple[tuple[int, ...], int], bool] = {}

    def __call__(self, ends: tuple[int, ...], lost: int) -> bool:
        if (ends, lost) not in self._known:
            values = [value for value, count in zip(self._differences, ends, strict=True) for _ in range(count)]
            side = effect_side(self._reg, effect_interval(self._reg, values, lost))
            self._known[ends, lost] = side is not Effect.INCONCLUSIVE
        return self._known[ends, lost]


def _pairs(
    draws: Generator, registered: int, most: int, rates: Rates, arms: tuple[Column, Column]
) -> tuple[Column, Column, Column]:
    """What the analysed pairs come to, how many were replaced, and how many were lost for good."""
    import numpy as np  # noqa: PLC0415

    lost = draws.binomial(registered, rates.loss, len(arms[0]))
    replaced, left = np.zeros_like(lost), np.full_like(lost, most)
    while (now := np.minimum(lost, left)).any():
        replaced, left = replaced + now, left - now
        lost = lost - now + draws.binomial(now, rates.loss)
    ends = [np.stack([p, (1.0 - p) * rates.failure, (1.0 - p) * (1.0 - rates.failure)], axis=1) for p in arms]
    both = (ends[0][:, :, None] * ends[1][:, None, :]).reshape(len(lost), -1)
    return draws.multinomial(registered - lost, both / both.sum(axis=1, keepdims=True)), replaced, lost


# --- noise -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Measured:
    """One audit whose artifacts were scored with noise, unit by unit.

    Attributes:
        synthesis: makes its evidence.
        counts: what its episodes came to in truth.
        scores: of the claimed artifact and the baseline.
        challengers: scores of the challengers' artifacts.
        branches: scores of the feedback branches' artifacts.
    """

    synthesis: Synthesis
    counts: Counts
    scores: Scores
    challengers: list[tuple[float, ...]]
    branches: list[tuple[float, ...]]

    def decided(self) -> Decision:
        """The engine's decision on exactly these scores."""
        made = self.synthesis
        return decide(
            made.reg,
            made.gate1(self.scores),
            made.gate2(self.counts, iter(self.challengers)),
            made.gate3(self.counts, iter(self.branches)),
        )

    def key(self, reg: Registration) -> Any:
        """All that the rules read of the scores, if that is which of them reach a line; None where they read more.

        Under exact inference and the binary estimand a decision follows from how many artifacts reach the recovery line
        in which arms, and from how the claimed artifact stands to the baseline.
        """
        if reg.interval_method != FINITE_SET_EXACT or (reg.grade == "evidence" and reg.feedback_estimand != BINARY):
            return None
        gate1 = evaluate_gate1(reg, self.synthesis.gate1(self.scores))

        def reached(scores: tuple[float, ...]) -> bool:
            return mean(differences(scores, self.scores.claimed)) >= -reg.epsilon

        branches = iter(self.branches)
        pairs = Counter(
            tuple(reached(next(branches)) if end in SCORED else end for end in ends)
            for ends in self.synthesis.started(self.counts)
        )
        others = replace(self.counts, hits=0, misses=0, pairs=())
        return (
            others,
            sum(map(reached, self.challengers)),
            frozenset(pairs.items()),
            gate1.gain_reached,
            gate1.baseline_fails,
        )


def _measured(synthesis: Synthesis, truth: Truth, counts: Counts, draws: Generator) -> _Measured:
    import numpy as np  # noqa: PLC0415

    challengers = [truth.claimed] * counts.hits + [truth.miss] * counts.misses
    branches = [
        truth.claimed if end == HIT else truth.miss
        for ends in synthesis.started(counts)
        for end in ends
        if end in SCORED
    ]
    worth = np.array([truth.claimed, truth.baseline, *challengers, *branches])
    noise = truth.noise * draws.standard_normal((len(worth), truth.units))
    claimed, baseline, *others = map(tuple, np.clip(worth[:, None] + noise, 0.0, 1.0).tolist())
    scores = Scores(claimed, baseline, synthesis.scores.miss)
    return _Measured(synthesis, counts, scores, others[: len(challengers)], others[len(challengers) :])


# --- what to hold the rates against -------------------------------------------------------------------------


def no_challenger_recovers(setup: Setup) -> float:
    """The exact chance that no challenger hits: ``(1 - p) ** n`` where none is lost and all are independent.

    Every certificate of Core needs it, so that no rate of certificates can be above it, but for chance and noise.
    """
    rates, n = setup.truth.rates, setup.challengers
    if not rates.loss:
        return _no_hit(setup.truth, n)
    return math.fsum(exact.binomial(lost, n, rates.loss) * _no_hit(setup.truth, n - lost) for lost in range(n + 1))


def _no_hit(truth: Truth, challengers: int) -> float:
    p = truth.rates.recovery
    if not truth.dependence or p in (0.0, 1.0):
        return float((1.0 - p) ** challengers)
    from scipy.special import betaln  # type: ignore[import-untyped]  # noqa: PLC0415

    spread = (1.0 - truth.dependence) / truth.dependence
    a, b = p * spread, (1.0 - p) * spread
    return math.exp(float(betaln(a, b + challengers) - betaln(a, b)))
