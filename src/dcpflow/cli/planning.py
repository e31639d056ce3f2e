"""The commands that plan an audit, or think one through: nothing is run."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from dcpflow.cli.shared import Commands, audit_of, bad_usage, count, results_of
from dcpflow.errors import UsageError

if TYPE_CHECKING:
    from dcpflow.planning.endings import Rates
    from dcpflow.report.sheet import Sheet


PLANNED = {
    "rho": "thresholds.gate2.rho",
    "recall_min": "thresholds.controls.recall_min",
    "delta_evidence": "thresholds.gate3.delta_evidence",
    "delta_sham": "thresholds.gate3.delta_sham",
    "rho_placebo": "thresholds.gate3.rho_placebo",
    "alpha_recovery": "thresholds.alpha.recovery",
    "alpha_adequacy": "thresholds.alpha.adequacy",
    "alpha_evidence": "thresholds.alpha.evidence",
    "alpha_sham": "thresholds.alpha.sham",
    "alpha_neutral": "thresholds.alpha.neutral",
}
"""Options of ``plan`` that change the configuration, and the keys that they change."""


def add_rerun(commands: Commands, audit: argparse.ArgumentParser) -> None:
    """Add the command that plans the next run of an audit."""
    command = commands.add_parser(
        "plan-rerun", parents=[audit], help="what the next run would redo, why, and what that costs; writes nothing"
    )
    command.add_argument("targets", nargs="*", help="rules or files, as for snakemake; by default all but the report")
    command.add_argument("--json", action="store_true", help="for programs")
    command.set_defaults(run=_plan_rerun)


def add(commands: Commands, audit: argparse.ArgumentParser) -> None:
    """Add the commands that plan an audit before there is one."""
    command = commands.add_parser("plan", parents=[audit], help="sample sizes, costs and chances of an audit")
    _add_rates(command, recall=0.98, truthful=0.95, null=0.99)
    for name, key in PLANNED.items():
        command.add_argument(f"--{name.replace('_', '-')}", type=float, help=f"instead of {key}")
    command.add_argument("--grade", choices=["core", "evidence"], help="instead of claim.grade")
    command.add_argument("--necessity", action="store_true", default=None, help="plan for claim.necessity")
    command.add_argument("--power", type=_chance, default=0.9, help="chance that each sample passes its test (0.9)")
    command.add_argument("--spread", type=_amount, default=0.25, help="of a pair's difference, if continuous (0.25)")
    for name in ("challengers", "controls", "pairs", "null-pairs"):
        command.add_argument(f"--{name}", type=count, help="a given number instead of the planned one")
    command.add_argument("--looks", type=count, help="looks at the challengers in equal steps; a recovery ends them")
    command.add_argument("--pilot", type=Path, help="a results folder whose episodes tell the seconds of one")
    command.add_argument("--seconds", type=_amount, help="of one episode")
    command.add_argument("--tokens", type=_amount, help="of one episode")
    command.add_argument("--money", type=_amount, help="of one episode")
    command.add_argument("--jobs", type=count, default=1, help="episodes that run at a time (1)")
    form = _add_forms(command)
    form.add_argument("--fragment", action="store_true", help="print the configuration to paste alone")
    command.set_defaults(run=_plan)

    command = commands.add_parser("sensitivity", parents=[audit], help="how a decision leans on its thresholds")
    command.add_argument("results", type=Path, nargs="?", help="a results folder; by default the configured one")
    _add_forms(command)
    command.set_defaults(run=_sensitivity)

    command = commands.add_parser("simulate", parents=[audit], help="how often an audit decides what, from a truth")
    _add_rates(command)
    command.add_argument("--dependence", type=float, default=0.0, help="correlation of episodes of one kind (0)")
    command.add_argument("--noise", type=float, default=0.0, help="standard deviation of a sealed unit's score (0)")
    command.add_argument("--units", type=count, default=1, help="sealed units (1)")
    for name, worth in (("claimed", 0.9), ("baseline", 0.0), ("miss", 0.3)):
        command.add_argument(
            f"--{name}", type=_chance, default=worth, help=f"what such an artifact is worth ({worth:g})"
        )
    command.add_argument(
        "--checkpoint",
        choices=["lineage_prefix", "lineage_empty"],
        default="lineage_prefix",
        help="lineage_empty makes neutral branches challengers (lineage_prefix)",
    )
    command.add_argument("--audits", type=count, default=10_000, help="synthetic audits (10000)")
    command.add_argument("--seed", type=_whole, default=20_260_909, help="of all draws (20260909)")
    command.add_argument("--processes", type=count, help="by default one for each processor; no draw depends on it")
    command.add_argument("--cheats", action="store_true", help="play cheating claimants instead")
    _add_forms(command)
    command.set_defaults(run=_simulate)


def _add_forms(command: argparse.ArgumentParser) -> argparse._MutuallyExclusiveGroup:
    """In which form an answer is given, where not as text."""
    group = command.add_mutually_exclusive_group()
    group.add_argument("--json", action="store_true", help="for programs")
    group.add_argument("--html", type=Path, metavar="FILE", help="write a page with tables and figures instead")
    return group


def _add_rates(command: argparse.ArgumentParser, recall: float = 1.0, truthful: float = 1.0, null: float = 1.0) -> None:
    """What episodes come to; the defaults differ between what is expected and what is declared."""
    group = command.add_argument_group("what episodes come to, as chances")
    for name, default, words in (
        ("p", 0.0, "a challenger recovers the outcome"),
        ("recall", recall, "a positive control succeeds"),
        ("truthful", truthful, "a branch with truthful feedback recovers"),
        ("neutral", 0.0, "a branch with neutral feedback recovers"),
        ("failure", 0.0, "an episode that misses commits nothing"),
        ("loss", 0.0, "an episode, or a pair, is lost to infrastructure"),
    ):
        group.add_argument(f"--{name}", type=_chance, default=default, help=f"{words} ({default:g})")
    group.add_argument(
        "--null",
        type=_chance,
        nargs=2,
        default=(null, null),
        metavar=("REFERENCE", "PROPOSED"),
        help=f"a null branch with the reference and with the neutral channel succeeds ({null:g} {null:g})",
    )


def _chance(text: str) -> float:
    value = float(text)
    if not 0.0 <= value <= 1.0:
        raise argparse.ArgumentTypeError(f"{text} is no chance from 0 to 1")
    return value


def _amount(text: str) -> float:
    value = float(text)
    if not 0.0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is no number from 0 on")
    return value


def _whole(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is less than 0")
    return value


def _plan_rerun(options: argparse.Namespace) -> None:
    from dcpflow.stages import planned, rerun, rerun_text  # noqa: PLC0415

    audit = audit_of(options)
    plan = planned.planned(options.configfile, options.config, options.targets)
    found = rerun.describe(audit, plan.jobs, plan.left)
    print(json.dumps(found.to_json(), indent=2) if options.json else rerun_text.render(found))


def _plan(options: argparse.Namespace) -> int | None:
    from dcpflow.planning import costs, plan, plan_text  # noqa: PLC0415
    from dcpflow.planning.fragment import fragment, settings  # noqa: PLC0415
    from dcpflow.stages import plan_page  # noqa: PLC0415

    given = {key: getattr(options, name) for name, key in PLANNED.items()}
    given |= {"claim.grade": options.grade, "claim.necessity": options.necessity}
    counts = {name: getattr(options, name) for name in ("challengers", "controls", "pairs", "null_pairs")}
    given_counts = {name: count for name, count in counts.items() if count}
    guess = plan.Guess(_rates(options), options.power, options.spread, given_counts, options.looks)
    try:
        config = plan.altered(
            audit_of(options).config, {key: value for key, value in given.items() if value is not None}
        )
        made = plan.plan(config, guess)
    except UsageError as error:
        return bad_usage(error)
    seconds = costs.of_pilot(options.pilot) if options.pilot else {}
    seconds |= {"": options.seconds} if options.seconds is not None else {}
    cost = costs.cost(made.episodes, costs.Price(seconds, options.tokens, options.money), options.jobs)
    if options.fragment:
        print(fragment(made), end="")
    elif options.html:
        return _write_page(options.html, plan_page.page(made, guess, cost))
    elif options.json:
        print(json.dumps({**made.to_json(), "cost": cost.to_json(), "config": settings(made)}, indent=2))
    else:
        print(plan_text.render(made, guess, cost))
    return None


def _rates(options: argparse.Namespace) -> Rates:
    from dcpflow.planning.endings import Rates  # noqa: PLC0415

    reference, proposed = options.null
    return Rates(
        recovery=options.p,
        recall=options.recall,
        truthful=options.truthful,
        neutral=options.neutral,
        null_reference=reference,
        null_proposed=proposed,
        failure=options.failure,
        loss=options.loss,
    )


def _sensitivity(options: argparse.Namespace) -> int | None:
    from dcpflow.planning import sensitivity, sensitivity_text  # noqa: PLC0415
    from dcpflow.stages import sensitivity_page  # noqa: PLC0415

    results = results_of(options)
    stored = sensitivity.read(results)
    found = sensitivity.describe(stored)
    if options.html:
        return _write_page(options.html, sensitivity_page.page(found, stored.view.registered))
    print(json.dumps(found.to_json(), indent=2) if options.json else sensitivity_text.render(found, str(results)))
    return None


def _simulate(options: argparse.Namespace) -> int | None:
    from dcpflow.planning import cheats, cheats_text, simulation, simulation_text, stand_in  # noqa: PLC0415
    from dcpflow.stages import cheats_page, simulation_page  # noqa: PLC0415

    config = audit_of(options).config
    if options.cheats:
        config = stand_in.looked_at_once(config)
    truth = simulation.Truth(
        _rates(options),
        options.dependence,
        options.noise,
        options.units,
        options.claimed,
        options.baseline,
        options.miss,
    )
    setup = simulation.setup(config, truth, options.checkpoint)
    try:
        if options.cheats:
            played = list(cheats.play(config, setup, options.seed))
            if options.html:
                return _write_page(options.html, cheats_page.page(played, options.seed))
            print(
                json.dumps([one.to_json() for one in played], indent=2) if options.json else cheats_text.render(played)
            )
            return None
        found = simulation.simulate(setup, options.audits, options.seed, options.processes or os.cpu_count() or 1)
    except UsageError as error:
        return bad_usage(error)
    if options.html:
        return _write_page(options.html, simulation_page.page(found))
    shown = json.dumps(simulation_text.to_json(found), indent=2) if options.json else simulation_text.render(found)
    print(shown)
    return None


def _write_page(path: Path, made: Sheet) -> int | None:
    """Write a page, and say so."""
    from dcpflow.report import sheet  # noqa: PLC0415

    try:
        sheet.write(path, made)
    except UsageError as error:
        return bad_usage(error)
    print(f"wrote {path}")
    return None
