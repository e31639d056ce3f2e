"""What simulated audits came to, for a terminal and for programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from dcpflow.planning.simulation import CONFIDENCE, Rate, Setup, Simulated, no_challenger_recovers
from dcpflow.planning.text import table

HEADINGS = ("claim", "status", "class", "rule", "audits", "rate", f"exact {CONFIDENCE:.0%} interval")


def errors(found: Simulated) -> dict[str, Rate]:
    """The wrong decisions that the truth makes possible.

    Core says that fresh challengers recover with a probability of at most rho: a certificate is false where they
    recover more often. A refutation there is right; where the probability is lower, it is false in the sense that one
    of many challengers got lucky, though the outcome was recovered. Evidence likewise, by the margin.
    """
    setup, rates = found.setup, found.setup.truth.rates
    wrong = {}
    if rates.recovery >= setup.reg.rho:
        wrong["core_false_certification"] = found.rate("core", "certified")
    else:
        wrong["core_false_refutation"] = found.rate("core", "refuted")
    if setup.reg.grade == "evidence":
        if rates.truthful - rates.neutral < setup.reg.delta_evidence:
            wrong["evidence_false_certification"] = found.rate("evidence", "certified")
        else:
            wrong["evidence_false_refutation"] = found.rate("evidence", "refuted")
    return wrong


def to_json(found: Simulated) -> dict[str, Any]:
    """For programs; what depends on the machine stands under ``run`` alone."""
    setup = found.setup
    return {
        "schema": "dcpflow.simulation/1",
        "truth": asdict(setup.truth),
        "registered": registered(setup),
        "audits": found.audits,
        "seed": found.seed,
        "confidence": CONFIDENCE,
        **{
            claim: [
                {"status": status, "class": kind or None, "rule": rule, **rate.to_json()}
                for status, kind, rule, rate in found.by_status(claim)
            ]
            for claim in ("core", "evidence")
        },
        "errors": {name: rate.to_json() for name, rate in errors(found).items()},
        "challengers_started": found.started / found.audits,
        "pairs_started": found.pairs_started / found.audits,
        "formula": {"no_challenger_recovers": no_challenger_recovers(setup)},
        "run": {
            "seconds": found.seconds,
            "processes": found.processes,
            "audits_per_minute": found.audits_per_minute,
            "decisions": found.decisions,
        },
    }


def registered(setup: Setup) -> dict[str, Any]:
    """What is registered, as far as the rates depend on it."""
    reg = setup.reg
    return {
        "grade": reg.grade,
        "challengers": setup.challengers,
        "controls": setup.controls,
        "pairs": reg.feedback_pairs if reg.grade == "evidence" else 0,
        "null_pairs": reg.null_pairs if reg.grade == "evidence" else 0,
        "rho": reg.rho,
        "alpha_recovery": reg.alpha_recovery,
        "checkpoint_scope": reg.checkpoint_scope,
    }


def rows(found: Simulated) -> list[tuple[str, ...]]:
    """How often each claim ended how, the most frequent first."""
    return [
        (claim.capitalize(), status, kind, rule, f"{rate.count}", f"{rate.value:.6f}", interval(rate))
        for claim in ("core", "evidence")
        for status, kind, rule, rate in found.by_status(claim)
    ]


def render(found: Simulated) -> str:
    """Truth, rates of each status with exact intervals, errors beside the formula, speed."""
    setup = found.setup
    reg = setup.reg
    lines = [
        f"truth       {', '.join(f'{name} {value:g}' for name, value in truth(setup).items())}",
        f"registered  {', '.join(f'{key} {value}' for key, value in registered(setup).items())}",
        f"audits      {found.audits}, seed {found.seed}; the engine decided {found.decisions} times: audits with equal "
        "counts share a decision",
        "",
        *table(HEADINGS, rows(found)),
        "",
        *(
            f"{name.replace('_', ' ')}: {rate.value:.6f}, at most {rate.interval[1]:.6f}"
            for name, rate in errors(found).items()
        ),
        *started(found),
        f"no challenger recovers, by formula: {formula(setup)}; registered alpha.recovery {reg.alpha_recovery:g}",
        f"{found.audits_per_minute:,.0f} audits per minute on {found.processes} "
        f"{'process' if found.processes == 1 else 'processes'}",
    ]
    return "\n".join(lines)


def started(found: Simulated) -> list[str]:
    """How many challengers and pairs were started on average, where they are looked at several times."""
    setup = found.setup
    return [
        f"{name} started: {number / found.audits:.2f} of {ends[-1]}, with looks after {', '.join(map(str, ends))}"
        for name, number, ends in (
            ("challengers", found.started, setup.looks),
            ("pairs", found.pairs_started, setup.reg.feedback_looks),
        )
        if ends
    ]


def truth(setup: Setup) -> dict[str, float]:
    """What is true, as far as the rates depend on it."""
    given = setup.truth
    return {**asdict(given.rates), "dependence": given.dependence, "noise": given.noise}


def formula(setup: Setup) -> str:
    """The exact chance that no challenger recovers."""
    rates, chance = setup.truth.rates, no_challenger_recovers(setup)
    if setup.truth.dependence or rates.loss:
        return f"{chance:.6f}"
    return f"{1.0 - rates.recovery:g}^{setup.challengers} = {chance:.6f}"


def interval(rate: Rate) -> str:
    """The exact interval of a rate."""
    low, high = rate.interval
    return f"[{low:.6f}, {high:.6f}]"
