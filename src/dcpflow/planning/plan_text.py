"""A plan for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from dcpflow.planning import exact
from dcpflow.planning.costs import Cost
from dcpflow.planning.fragment import fragment
from dcpflow.planning.plan import Guess, Plan
from dcpflow.planning.text import number, percent, table
from dcpflow.protocol.intervals import success_lower_bound, zero_hit_upper_bound
from dcpflow.protocol.registration import BINARY

Row = tuple[str, str, str]

SAMPLES = ("sample", "number", "why")
ENDINGS = ("the audit ends", "chance", "because of")
CURVES = {
    "recovery": ("recovery probability", "Core certified"),
    "started": ("recovery probability", "challengers started"),
    "truthful": ("truthful rate", "effect supported"),
}
"""Of each curve, what is given and the chance of what, or for ``started`` the expected number."""


def render(plan: Plan, guess: Guess, cost: Cost) -> str:
    """Samples, error budget, cost, endings, curves, and the configuration to paste."""
    lines = [
        *table(SAMPLES, samples(plan, guess)),
        "",
        f"alphas      {', '.join(f'{key} {value:g}' for key, value in plan.alphas.items())}",
        f"episodes    {sum(plan.episodes.values())}: {', '.join(f'{n} {name}' for name, n in plan.episodes.items())}",
        f"cost        {costs(cost)}",
        "",
        *table(ENDINGS, endings(plan)),
        "",
        *_curves(plan),
        "",
        "# to paste into a file below config/cases:",
        fragment(plan).rstrip(),
    ]
    return "\n".join(lines)


def samples(plan: Plan, guess: Guess) -> list[Row]:
    """Each sample, its number and why it is so large."""
    return [*_core(plan, guess), *_evidence(plan, guess), _m_max(plan)]


def _core(plan: Plan, guess: Guess) -> Iterator[Row]:
    reg, rates, needed = plan.reg, guess.rates, plan.challengers_needed
    bound = zero_hit_upper_bound(needed, reg.alpha_recovery)
    yield (
        "independent challengers",
        f"{needed}",
        f"none recovers: 1 - {reg.alpha_recovery:g}^(1/{needed}) = {bound:.4f}, at most rho {reg.rho:g}",
    )
    left = exact.at_least(needed, plan.challengers, 1.0 - rates.loss)
    yield "challengers to start", f"{plan.challengers}", f"{needed} are left with a chance of {percent(left)}"
    if len(plan.looks) > 1:
        saved = f"a recovery ends them: {plan.expected:.1f} are started on average at p {rates.recovery:g}"
        yield "looks at challengers", " ".join(map(str, plan.looks)), saved
    recall = success_lower_bound(plan.controls_all, plan.controls_all, reg.alpha_adequacy)
    yield (
        "controls, all successful",
        f"{plan.controls_all}",
        f"{reg.alpha_adequacy:g}^(1/{plan.controls_all}) = {recall:.4f}, at least {reg.min_control_recall:g}",
    )
    if plan.controls_needed is None:
        yield "positive controls", f"{plan.controls}", "too few, even if all succeed"
    else:
        chance = exact.at_least(plan.controls_needed, plan.controls, rates.recall * (1.0 - rates.loss))
        yield "positive controls", f"{plan.controls}", f"{plan.controls_needed} must succeed: chance {percent(chance)}"


def _evidence(plan: Plan, guess: Guess) -> Iterator[Row]:
    if not plan.pairs:
        return
    reg, rates, needed = plan.reg, guess.rates, plan.neutral_needed
    yield (
        "neutral branches",
        f"{needed}",
        f"for necessity, none recovers: 1 - {reg.alpha_neutral:g}^(1/{needed}) = "
        f"{zero_hit_upper_bound(needed, reg.alpha_neutral):.4f}, at most rho_placebo {reg.rho_neutral:g}",
    )
    if plan.pairs_ended is not None:
        end = plan.pairs_ended
        why = (
            f"at most, looked at after {' '.join(map(str, reg.feedback_looks))}: {end.expected:.1f} are started on "
            f"average, the effect is supported with a chance of {percent(end.supported)}"
        )
    elif plan.truthful_needed is None:
        why = "the interval is narrow enough, if the spread is as guessed"
    else:
        test = exact.PairedTest(plan.pairs, reg.alpha_evidence)
        passed = exact.supports(reg.delta_evidence, reg.delta_null)
        chance = test.chance(*exact.discordant(rates.truthful, rates.neutral), passed)
        margins = f"{reg.delta_evidence:g} + {reg.delta_null:g}"
        why = (
            f"{plan.truthful_needed} of {plan.pairs} truthful branches must recover if no neutral one does "
            f"(margins {margins}): chance {percent(chance)}"
        )
    yield "feedback pairs", f"{plan.pairs}", why
    yield "null pairs, none different", f"{plan.null_all}", f"the interval lies in the band of {reg.delta_null:g}"
    yield "null pairs", f"{plan.null_pairs}", _null(plan, guess)
    replaced = f"{plan.pair_replacements} and {plan.null_pair_replacements}"
    yield "replacements", replaced, "most feedback and null pairs that may be lost in transport"


def _null(plan: Plan, guess: Guess) -> str:
    if plan.reg.feedback_estimand != BINARY:
        return "the interval is narrow enough, if the spread is as guessed"
    test = exact.PairedTest(plan.null_pairs, plan.reg.alpha_null)
    rates = exact.discordant(guess.rates.null_reference, guess.rates.null_proposed)
    chance = test.chance(*rates, exact.within(plan.reg.delta_null))
    return f"with differences at rates {rates[0]:.4g} and {rates[1]:.4g}: chance {percent(chance)}"


def _m_max(plan: Plan) -> Row:
    alpha = plan.reg.alpha_score / plan.m_max
    why = f"challengers, branches and their replacements; {alpha:.3g} of alpha.score for each comparison"
    return "m_max", f"{plan.m_max}", why


def costs(cost: Cost) -> str:
    """What all episodes take, as far as it is known."""
    known = [
        (cost.hours, f"{number(cost.hours)} hours"),
        (cost.seconds, f"{number(cost.seconds)} s one after the other"),
        (cost.tokens, f"{number(cost.tokens)} tokens"),
        (cost.money, f"money {number(cost.money)}"),
    ]
    words = [text for value, text in known if value is not None]
    return ", ".join(words) or "not known: give --pilot, or --seconds, --tokens, --money of one episode"


def endings(plan: Plan) -> list[Row]:
    """How the audit ends, with which chance, and because of what."""
    found = plan.endings
    rows = [
        ("Core certified", percent(found.core_certified), ""),
        ("Core refuted", percent(found.core_refuted), "a challenger recovers"),
        *(("Core inconclusive", percent(p), why) for why, p in found.core_inconclusive.items()),
    ]
    if found.evidence_certified is not None and found.evidence_refuted is not None:
        rows += [
            ("Evidence certified", percent(found.evidence_certified), ""),
            ("Evidence refuted", percent(found.evidence_refuted), "the effect is certainly too small"),
            *(("Evidence inconclusive", percent(p), why) for why, p in found.evidence_inconclusive.items()),
        ]
    else:
        rows.append(("Evidence", "-", "no formula; see dcpflow simulate"))
    return [row for row in rows if plan.pairs or "Evidence" not in row[0]]


def on_curve(key: str, value: float) -> str:
    """A value of a curve: a chance, or a number of challengers."""
    return f"{value:.1f}" if key == "started" else percent(value)


def _curves(plan: Plan) -> list[str]:
    lines = []
    for key, curve in plan.curves.items():
        given, chance = CURVES[key]
        shown = [on_curve(key, y) for _, y in curve]
        width = [max(len(f"{x:g}"), len(y)) for (x, _), y in zip(curve, shown, strict=True)]
        for name, values in ((given, [f"{x:g}" for x, _ in curve]), (chance, shown)):
            lines.append(f"{name:22}" + "  ".join(v.rjust(w) for v, w in zip(values, width, strict=True)))
    return lines
