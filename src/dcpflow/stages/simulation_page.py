"""What simulated audits came to, as a page: how often each status, with exact intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dcpflow.planning.simulation import CONFIDENCE, Rate, Simulated, no_challenger_recovers
from dcpflow.planning.simulation_text import HEADINGS, errors, formula, registered, rows, started, truth
from dcpflow.planning.text import number
from dcpflow.report import figures
from dcpflow.report.sheet import Figure, Section, Sheet, Table

FALSE_CERTIFICATION: Final = "core_false_certification"


def page(found: Simulated) -> Sheet:
    """The page: the same bytes for the same truth, registration and seed."""
    return Sheet(
        kind="Simulated audits",
        title=f"How {found.audits:,} audits of one truth are decided",
        notice=("No audit was run", "the episodes are drawn from a declared truth, and the real rules decide on them"),
        sections=[_setup(found), _endings(found), _errors(found)],
        source=f"Made by dcpflow simulate with the seed {found.seed}.",
    )


def _setup(found: Simulated) -> Section:
    return Section(
        "What is simulated",
        tables=[
            Table("What is true, as chances and sizes", ("of", "is"), _pairs(truth(found.setup))),
            Table("What is registered", ("key", "is"), _pairs(registered(found.setup))),
        ],
    )


def _pairs(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [
        (name.replace("_", " "), f"{value:g}" if isinstance(value, float) else f"{value}".replace("_", " "))
        for name, value in values.items()
    ]


def _endings(found: Simulated) -> Section:
    shown = [
        _span(f"{claim.capitalize()} {status.replace('_', ' ')}: ", status, found.rate(claim, status), 4)
        for claim in ("core", "evidence")
        for status in dict.fromkeys(status for status, _, _, _ in found.by_status(claim))
    ]
    figure = Figure(
        "Share of audits by status",
        figures.spans(shown, [], (0.0, 1.0)),
        f"Share of all {found.audits:,} audits, with its exact {CONFIDENCE:.0%} interval: narrow with many audits.",
    )
    caption = "How often each claim ended how"
    cells = [tuple(cell.replace("_", " ") for cell in row) for row in rows(found)]
    words = [f"{line[0].upper()}{line[1:]}." for line in started(found)]
    return Section("How the audits end", words, [figure], tables=[Table(caption, HEADINGS, cells)])


def _errors(found: Simulated) -> Section:
    setup = found.setup
    words = [
        "A certificate of Core is false where challengers recover at least as often as rho; below, a refutation is: "
        "one of many was lucky. Evidence likewise, by the margin that is registered.",
        f"No challenger recovers, by formula: {formula(setup)}. Every certificate needs that, so that there are no "
        f"more of them, but for chance and noise. Registered is alpha.recovery {setup.reg.alpha_recovery:g}.",
    ]
    limits = [
        ("line", f"alpha.recovery {setup.reg.alpha_recovery:g}", setup.reg.alpha_recovery),
        ("baseline", f"by formula {number(no_challenger_recovers(setup))}", no_challenger_recovers(setup)),
    ]
    shown = []
    for name, rate in errors(found).items():
        said = name.replace("_", " ").capitalize()
        marks = limits if name == FALSE_CERTIFICATION else []
        caption = f"{said}, of {found.audits:,} audits, with its exact {CONFIDENCE:.0%} interval."
        shown.append(Figure(said, figures.spans([_span("", "effect", rate, 6)], marks, ()), caption))
    return Section("Wrong decisions", words, shown)


def _span(name: str, kind: str, rate: Rate, digits: int) -> tuple[str, str, float, float, float]:
    low, high = rate.interval
    label = f"{name}{rate.value:.{digits}f} in [{low:.{digits}f}, {high:.{digits}f}]"
    return label, kind, low, rate.value, high
