"""The commands that look at an audit: what it is about to do, what it has come to, what was said in it."""

from __future__ import annotations

import argparse
from pathlib import Path

from dcpflow.cli.shared import Commands, audit_of, bad_usage, results_of
from dcpflow.errors import UsageError


def add(commands: Commands, audit: argparse.ArgumentParser) -> None:
    """Add the commands."""
    command = commands.add_parser("preflight", parents=[audit], help="say what an audit is about to do")
    command.add_argument("--cores", default="all", help="a number, or all")
    command.set_defaults(run=_preflight)

    command = commands.add_parser(
        "doctor", parents=[audit], help="try all that an audit needs, before it costs anything; exit 1 where it fails"
    )
    command.set_defaults(run=_doctor)

    command = commands.add_parser("show", parents=[audit], help="show a decision on one screen")
    command.add_argument("decision", type=Path, nargs="?", help="a decision.json; by default the configured audit's")
    command.set_defaults(run=_show)

    command = commands.add_parser("report", parents=[audit], help="write the page that a reviewer reads")
    command.add_argument(
        "path",
        type=Path,
        nargs="?",
        help="a results folder, or a bundle of dcpflow; by default the configured results",
    )
    command.add_argument("--output", type=Path, help="by default report.html in the results folder")
    command.add_argument("--times", action="store_true", help="add wall times, which are no part of the evidence")
    command.add_argument("--costs", action="store_true", help="add what the model has cost, which is none either")
    command.set_defaults(run=_report)

    command = commands.add_parser("costs", help="what the model has cost, by gate", parents=[audit])
    command.add_argument("results", type=Path, nargs="?", help="the results folder; by default the configured one")
    command.set_defaults(run=_costs)

    command = commands.add_parser("transcript", parents=[audit], help="show what was said in an episode")
    command.add_argument(
        "episode",
        help="for example target, challengers/17, pairs/3/neutral, challengers/NAME/2 of a stratum, or "
        "pairs_lagged_sham/3/truthful of a further neutral policy",
    )
    command.add_argument("--results", type=Path, help="a results folder or a bundle; by default the configured results")
    command.add_argument("--json", action="store_true", help="the lines as they were recorded, for programs")
    command.set_defaults(run=_transcript)


def _preflight(options: argparse.Namespace) -> None:
    from dcpflow.stages.preflight import describe  # noqa: PLC0415

    print(describe(audit_of(options), options.cores), flush=True)


def _doctor(options: argparse.Namespace) -> int:
    from dcpflow.report.screen import plain  # noqa: PLC0415
    from dcpflow.stages.doctor import examine  # noqa: PLC0415

    well = True
    for found in examine(options.configfile, options.config):
        well &= found.ok
        text = f"{found.detail}. {found.remedy}" if found.remedy else found.detail
        mark = "ok  " if found.ok else "FAIL"
        print(f"{mark}  {found.name:13}  {plain(text.replace(chr(10), '; '))}", flush=True)
    return 0 if well else 1


def _show(options: argparse.Namespace) -> None:
    from dcpflow.report import screen  # noqa: PLC0415

    path = options.decision or Path(audit_of(options).results) / "decision.json"
    print(screen.render(screen.read(path)))
    if known := screen.registry_of(path):
        print(f"\nregistry    {known}")
    if page := screen.report_of(path):
        print(f"\nreport      {page}")


def _report(options: argparse.Namespace) -> int | None:
    from dcpflow.stages.rendering import render  # noqa: PLC0415

    path = options.path or Path(audit_of(options).results)
    try:
        output = render(path, options.output, with_times=options.times, with_costs=options.costs)
    except UsageError as error:
        return bad_usage(error)
    print(f"wrote {output}")
    return None


def _costs(options: argparse.Namespace) -> None:
    from dcpflow.stages import costs  # noqa: PLC0415

    print(costs.render(costs.read(results_of(options))))


def _transcript(options: argparse.Namespace) -> int | None:
    from dcpflow.report import conversation  # noqa: PLC0415
    from dcpflow.stages import transcript  # noqa: PLC0415

    try:
        found = transcript.find(results_of(options), options.episode)
    except UsageError as error:
        return bad_usage(error)
    print(conversation.raw(found) if options.json else conversation.render(found))
    return None
