"""A plan: how many episodes an audit takes, what it costs, and how it may end. Made before anything is registered."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from dcpflow.errors import UsageError
from dcpflow.planning import exact, looks
from dcpflow.planning.endings import Endings, Rates, endings
from dcpflow.planning.looks import scaled
from dcpflow.planning.pair_looks import Ended, ended
from dcpflow.protocol.intervals import half_width, smallest_zero_hit_sample, zero_hit_upper_bound
from dcpflow.protocol.registered import KEY_OF_FIELD, to_registration
from dcpflow.protocol.registration import BINARY, Registration, replacement_cap
from dcpflow.records.plan import POLICIES

if TYPE_CHECKING:
    from dcpflow.protocol.config import Config

RECOVERY_CURVE: Final = (0.0, 0.0001, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05)
"""Recovery probabilities at which the chance of a certificate is shown."""

TRUTHFUL_CURVE: Final = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 1.0)
"""Rates of the truthful arm at which the chance of a supported effect is shown."""


@dataclass(frozen=True, slots=True)
class Guess:
    """What somebody who plans an audit expects of it.

    Attributes:
        rates: of hits, failures and losses.
        power: the chance that each sample shall have to pass its own test.
        spread: standard deviation of a pair's difference, for the continuous estimand.
        counts: samples that are given and not planned: ``challengers``, ``controls``, ``pairs``, ``null_pairs``.
        looks: how often the challengers are looked at, in equal steps; None as the configuration has it.
    """

    rates: Rates = field(default_factory=Rates)
    power: float = 0.9
    spread: float = 0.25
    counts: Mapping[str, int] = field(default_factory=dict)
    looks: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """Sample sizes, and what follows from them.

    Attributes:
        reg: the registration with these sample sizes.
        challengers_needed: fewest independent challengers without a hit whose bound is at most rho.
        challengers: to start, so that enough are left after losses.
        looks: after how many of them the scores are looked at; one number where that is done once.
        expected: number of challengers that are started with the guessed recovery probability.
        controls_all: fewest controls that suffice if all succeed.
        controls: for the guessed recall.
        controls_needed: successes that these need; None where not even all suffice.
        neutral_needed: fewest neutral branches without a hit for rho_placebo.
        pairs: feedback pairs, the most of them where they are looked at; 0 for grade core.
        pairs_ended: what becomes of them where they are looked at; None elsewhere, and for the continuous estimand.
        truthful_needed: truthful branches of these that must recover if no neutral one does; None where the estimand
            is continuous, or not even all suffice.
        null_all: fewest null pairs that suffice without a difference; 0 for grade core.
        null_pairs: for the guessed rates.
        pair_replacements: most replaced feedback pairs.
        null_pair_replacements: most replaced null pairs.
        m_max: attempts and branches that may be compared with the claimed artifact.
        misled: misled null episodes.
        further: pairs of further neutral policies, by the stage of each.
        endings: how the audit may end, and with which chance.
        curves: along one guess: ``recovery`` (chance of a Core certificate), ``started`` (expected challengers, where
            there are several looks), ``truthful`` (chance of a supported effect).
    """

    reg: Registration
    challengers_needed: int
    challengers: int
    looks: tuple[int, ...]
    expected: float
    controls_all: int
    controls: int
    controls_needed: int | None
    neutral_needed: int
    pairs: int
    pairs_ended: Ended | None
    truthful_needed: int | None
    null_all: int
    null_pairs: int
    pair_replacements: int
    null_pair_replacements: int
    m_max: int
    misled: int
    further: Mapping[str, int]
    endings: Endings
    curves: Mapping[str, tuple[tuple[float, float], ...]]

    @property
    def alphas(self) -> dict[str, float]:
        """The error budget: what each test may spend, and the total that was registered."""
        spent = {KEY_OF_FIELD[key].rpartition(".")[2]: float(getattr(self.reg, key)) for key in self.reg.active_alphas}
        return {**spent, "spent": math.fsum(spent.values()), "total": self.reg.alpha_total}

    @property
    def episodes(self) -> dict[str, int]:
        """Episodes by stage, without replacements."""
        found = {"target": 1, "challengers": self.challengers, "controls": self.controls}
        if self.pairs:
            found |= {"pairs": 2 * self.pairs, "null_pairs": 2 * self.null_pairs, "misled_nulls": self.misled}
        return found | {stage: 2 * pairs for stage, pairs in self.further.items()}

    @property
    def bound(self) -> float:
        """What the challengers will bound the recovery probability by, if none is lost and none recovers."""
        return zero_hit_upper_bound(self.challengers, self.reg.alpha_recovery)

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        keys = (
            *("challengers_needed", "challengers", "controls_all", "controls", "controls_needed", "neutral_needed"),
            *("pairs", "truthful_needed", "null_all", "null_pairs", "pair_replacements", "null_pair_replacements"),
            "m_max",
        )
        return {
            "schema": "dcpflow.plan/1",
            **{key: getattr(self, key) for key in keys},
            "looks": list(self.looks),
            "challengers_expected": self.expected,
            "pair_looks": list(self.reg.feedback_looks),
            "pairs_ended": asdict(self.pairs_ended) if self.pairs_ended else None,
            "recovery_upper_bound": self.bound,
            "alpha": self.alphas,
            "episodes": self.episodes,
            "endings": asdict(self.endings),
            "curves": {name: [list(point) for point in curve] for name, curve in self.curves.items()},
        }


def altered(config: Config, values: Mapping[str, Any]) -> Config:
    """The configuration with other values at some dotted keys, held against all rules.

    Raises:
        UsageError: The rules do not allow them, or the audit is retrospective.
    """
    from dcpflow.protocol.config import ConfigError, load  # noqa: PLC0415 - heavy

    if config.claim.is_retrospective:
        raise UsageError(
            "samples are planned such that a claim can be certified, and a retrospective audit certifies nothing",
            "Take as many challengers as you can afford; dcpflow simulate says how often one recovers",
        )
    settings: dict[str, Any] = config.model_dump(mode="json")
    for key, value in values.items():
        *sections, name = key.split(".")
        section = settings
        for one in sections:
            section = section[one]
        section[name] = value
    try:
        return load(settings)
    except ConfigError as error:
        raise UsageError(str(error)) from None


def plan(config: Config, guess: Guess) -> Plan:
    """The smallest samples that reach the registered levels with the guessed effects.

    Args:
        config: a configuration; its thresholds are planned for, its counts are what is planned.
        guess: what is expected.

    Raises:
        UsageError: No sample that can be run does.
    """
    reg, rates, given = to_registration(config), guess.rates, guess.counts
    if not 0.0 < guess.power < 1.0:
        raise UsageError(f"a power of {guess.power:g} is not above 0 and below 1")
    needed = smallest_zero_hit_sample(reg.alpha_recovery, reg.rho)
    challengers = given.get("challengers") or exact.smallest(
        lambda n: exact.at_least(needed, n, 1.0 - rates.loss) >= guess.power, "challengers", start=needed
    )
    ends = _looks(config, guess, challengers)
    controls = given.get("controls") or _controls(reg, guess)
    neutral_needed = smallest_zero_hit_sample(reg.alpha_neutral, reg.rho_neutral)
    pairs = null_all = null_pairs = replacements = null_replacements = 0
    if reg.grade == "evidence":
        pairs = given.get("pairs") or max(_pairs(reg, guess), neutral_needed if reg.necessity_claimed else 0)
        null_all = _null_pairs_alike(reg)
        null_pairs = given.get("null_pairs") or _null_pairs(reg, guess)
        # what may be replaced is a share of the pairs; the null pairs take the same one, which is below their own cap
        replacements = 0 if reg.feedback_looks else replacement_cap(pairs, reg.max_pair_infrastructure_rate)
        null_replacements = replacement_cap(null_pairs, reg.max_pair_infrastructure_rate)
    planned = _with_counts(
        config,
        looks=ends,
        min_independent=needed,
        pairs=pairs,
        null_pairs=null_pairs,
        replacements=(replacements, null_replacements),
    )
    return Plan(
        reg=planned,
        challengers_needed=needed,
        challengers=challengers,
        looks=ends,
        expected=looks.expected(ends, rates.recovery * (1.0 - rates.loss)),
        controls_all=exact.all_successes_needed(reg.alpha_adequacy, reg.min_control_recall),
        controls=controls,
        controls_needed=exact.fewest_successes(controls, reg.alpha_adequacy, reg.min_control_recall),
        neutral_needed=neutral_needed,
        pairs=pairs,
        pairs_ended=_ended(planned, rates),
        truthful_needed=_truthful_needed(reg, pairs),
        null_all=null_all,
        null_pairs=null_pairs,
        pair_replacements=replacements,
        null_pair_replacements=null_replacements,
        m_max=planned.max_attempts,
        misled=config.design.misled_null_episodes if pairs else 0,
        further={
            POLICIES[name]: config.design.neutral_policy_pairs.get(name, pairs)
            for name in config.design.neutral_policies[1:]
        },
        endings=endings(planned, rates, challengers, controls),
        curves=_curves(planned, rates, ends, controls),
    )


def _looks(config: Config, guess: Guess, challengers: int) -> tuple[int, ...]:
    """The looks at the planned challengers, at the shares at which the configuration has them."""
    registered = config.design.gate2_looks or (config.design.challengers,)
    return scaled(range(1, guess.looks + 1) if guess.looks else registered, challengers)


def _controls(reg: Registration, guess: Guess) -> int:
    recall = guess.rates.recall * (1.0 - guess.rates.loss)
    if recall <= reg.min_control_recall:
        raise UsageError(
            f"controls that succeed at a rate of {recall:.4g} cannot show a recall of {reg.min_control_recall:g}",
            "Expect more of them, or make them easier",
        )
    return exact.controls_for(guess.power, reg.alpha_adequacy, reg.min_control_recall, recall)


def _ended(reg: Registration, rates: Rates) -> Ended | None:
    if not reg.feedback_looks or reg.grade != "evidence" or reg.feedback_estimand != BINARY:
        return None
    return ended(reg, *exact.discordant(rates.truthful, rates.neutral), rates.loss)


def _pairs(reg: Registration, guess: Guess) -> int:
    """The fewest that suffice; where they are looked at, the most that are registered."""
    rates = guess.rates
    if reg.feedback_looks:
        return reg.feedback_pairs
    if reg.feedback_estimand != BINARY:
        room = rates.truthful - rates.neutral - reg.delta_evidence - reg.delta_null
        return _continuous(room, reg.alpha_evidence, guess.spread)
    passed = exact.supports(reg.delta_evidence, reg.delta_null)
    differences = exact.discordant(rates.truthful, rates.neutral)
    return exact.pairs_for(guess.power, reg.alpha_evidence, differences, passed)


def _null_pairs_alike(reg: Registration) -> int:
    """The fewest of which none shows a difference."""
    if reg.feedback_estimand != BINARY:
        return _continuous(reg.delta_null, reg.alpha_null, 0.0)
    return exact.pairs_for(1.0, reg.alpha_null, (0.0, 0.0), exact.within(reg.delta_null))


def _null_pairs(reg: Registration, guess: Guess) -> int:
    rates = guess.rates
    if reg.feedback_estimand != BINARY:
        room = reg.delta_null - abs(rates.null_reference - rates.null_proposed)
        return _continuous(room, reg.alpha_null, guess.spread)
    differences = exact.discordant(rates.null_reference, rates.null_proposed)
    return exact.pairs_for(guess.power, reg.alpha_null, differences, exact.within(reg.delta_null))


def _continuous(room: float, alpha: float, spread: float) -> int:
    """The fewest pairs whose interval is narrow enough, if the sample's spread is the guessed one."""
    if room > 0:
        for n in range(2, exact.MOST + 1):
            if half_width(n, spread**2, alpha) <= room:
                return n
    raise UsageError(
        f"no number of pairs up to {exact.MOST} makes the continuous interval narrower than {room:.4g}",
        "Register other margins, or expect other rates",
    )


def _truthful_needed(reg: Registration, pairs: int) -> int | None:
    if not pairs or reg.feedback_looks or reg.feedback_estimand != BINARY:
        return None
    return exact.fewest_truthful(pairs, reg.alpha_evidence, reg.delta_evidence, reg.delta_null)


def _with_counts(
    config: Config,
    *,
    looks: tuple[int, ...],
    min_independent: int,
    pairs: int,
    null_pairs: int,
    replacements: tuple[int, int],
) -> Registration:
    """The registration of the configuration with planned counts."""
    design = config.design.model_copy(
        update={
            "challengers": looks[-1],
            "gate2_looks": looks if len(looks) > 1 else None,
            "pairs": pairs,
            "pair_looks": scaled(config.design.pair_looks, pairs) if config.design.pair_looks and pairs else None,
            "null_pairs": null_pairs,
            "pair_replacements": replacements[0],
            "null_pair_replacements": replacements[1],
        }
    )
    gate2 = config.thresholds.gate2.model_copy(
        update={"min_independent": min_independent, "m_max": looks[-1] + 2 * (pairs + replacements[0])}
    )
    thresholds = config.thresholds.model_copy(update={"gate2": gate2})
    return to_registration(config.model_copy(update={"design": design, "thresholds": thresholds}))


def _supported(reg: Registration, rates: Rates) -> float:
    if end := _ended(reg, rates):
        return end.supported
    test = exact.PairedTest(reg.feedback_pairs, reg.alpha_evidence)
    passed = exact.supports(reg.delta_evidence, reg.delta_null)
    return test.chance(*exact.discordant(rates.truthful, rates.neutral), passed)


def _curves(
    reg: Registration, rates: Rates, ends: tuple[int, ...], controls: int
) -> dict[str, tuple[tuple[float, float], ...]]:
    """Chance of a certificate and challengers started along the recovery probability, chance of a supported effect
    along the truthful rate."""

    def certified(p: float) -> float:
        return endings(reg, rates.but(recovery=p), ends[-1], controls, core_only=True).core_certified

    curves = {"recovery": tuple((p, certified(p)) for p in RECOVERY_CURVE)}
    if len(ends) > 1:
        curves["started"] = tuple((p, looks.expected(ends, p * (1.0 - rates.loss))) for p in RECOVERY_CURVE)
    if reg.grade == "evidence" and reg.feedback_estimand == BINARY:
        curves["truthful"] = tuple((rate, _supported(reg, rates.but(truthful=rate))) for rate in TRUTHFUL_CURVE)
    return curves
