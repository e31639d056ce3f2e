"""The commands about what comes with dcpflow: published cases, data sets, the files of its configuration."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from dcpflow.cli.shared import Commands, bad_usage
from dcpflow.errors import UsageError


def add(commands: Commands) -> None:
    """Add the commands for cases and data."""
    command = commands.add_parser("cases", help="run the published cases and print the table of their decisions")
    command.add_argument("names", nargs="*", metavar="NAME", help="cases to run; by default all")
    command.add_argument("--cores", default="all", help="a number, or all")
    command.add_argument("--data-folder", type=Path, help="where files of the data sets lie; by default: downloaded")
    command.set_defaults(run=_cases)

    command = commands.add_parser("data", help="download what tasks on real data read")
    command.add_argument("fetch", choices=["fetch"])
    command.add_argument("name", help="the data set: yacht, ionosphere or dry-bean")
    command.add_argument("--from", dest="source", metavar="FILE", help="a file of it, or another address")
    command.set_defaults(run=_data_fetch)


def add_config_docs(commands: Commands) -> None:
    """Add the command that renders the configuration's files."""
    command = commands.add_parser("config-docs", help="render config.yaml, its schema and its README from the model")
    command.add_argument("--folder", type=Path, default=Path("config"))
    how = command.add_mutually_exclusive_group(required=True)
    how.add_argument("--write", action="store_true")
    how.add_argument("--check", action="store_true", help="exit 1 where a file differs from what would be written")
    command.set_defaults(run=_config_docs)


def _cases(options: argparse.Namespace) -> int:
    from dcpflow.report.cases import table  # noqa: PLC0415
    from dcpflow.stages import cases  # noqa: PLC0415

    try:
        chosen = cases.chosen(options.names)
    except UsageError as error:
        return bad_usage(error)
    rows = []
    for row in cases.run(chosen, options.cores, options.data_folder):
        rows.append(row)
        print(f"{len(rows)} of {len(chosen)}: {row.name}, {row.seconds:.0f} s", file=sys.stderr, flush=True)
    print(table(rows))
    return 0 if all(row.decision for row in rows) else 1


def _data_fetch(options: argparse.Namespace) -> None:
    from dcpflow.stages.fetching import fetch  # noqa: PLC0415

    print(f"wrote {fetch(options.name, options.source)}")


def _config_docs(options: argparse.Namespace) -> int:
    from dcpflow.stages import config_docs  # noqa: PLC0415

    if not Path("src", "dcpflow").is_dir():
        problem = "the files of a configuration are rendered in a checkout of dcpflow's repository alone"
        return bad_usage(UsageError(problem, "In a project of your own config.yaml is yours"))
    if options.write:
        config_docs.write(options.folder)
        return 0
    drifted = config_docs.check(options.folder)
    for name in drifted:
        print(f"{name} is not what the model in src/dcpflow/protocol gives: run dcpflow config-docs --write")
    return 1 if drifted else 0
