"""The ``dcpflow`` command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from dcpflow.errors import DcpflowError
from dcpflow.stages.arguments import job, job_parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand; 0 when it did its work, 1 for an error that is printed in one line, 2 for bad usage."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        result: int | None = options.run(options)
    except DcpflowError as error:
        print(f"dcpflow: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        return 1
    return result or 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="dcpflow", description=__doc__)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    shared = job_parser(add_help=False)

    slots = commands.add_parser("run-slots", parents=[shared], help="run a batch of episodes (called by the workflow)")
    slots.add_argument("--stage", required=True)
    slots.add_argument("--stratum", default="")
    slots.add_argument("--first", type=int, required=True)
    slots.add_argument("--last", type=int, required=True)
    slots.add_argument("--output", type=Path, required=True)
    slots.set_defaults(run=_run_slots)

    spare = commands.add_parser(
        "run-replacement", parents=[shared], help="run a replacement pair if one is needed (called by the workflow)"
    )
    spare.add_argument("--stage", required=True)
    spare.add_argument("--slot", type=int, required=True)
    spare.add_argument("--earlier", type=Path, nargs="+", required=True)
    spare.add_argument("--output", type=Path, required=True)
    spare.set_defaults(run=_run_replacement)
    return parser


def _run_slots(options: argparse.Namespace) -> None:
    from dcpflow.stages import episodes  # noqa: PLC0415 - each command loads what it needs

    episodes.run_slots(job(options), options.stage, options.first, options.last, options.output, options.stratum)


def _run_replacement(options: argparse.Namespace) -> None:
    from dcpflow.stages import episodes  # noqa: PLC0415

    episodes.run_replacement(job(options), options.stage, options.slot, options.earlier, options.output)
