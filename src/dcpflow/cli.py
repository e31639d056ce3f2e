"""Discovery certification audits of AI research agents."""

from __future__ import annotations

import argparse
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dcpflow.errors import DcpflowError, UsageError

if TYPE_CHECKING:
    from dcpflow.stages.laboratory import Job
    from dcpflow.stages.workflow import Workflow


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand; 0 when it did its work, 1 for an error that is told in a line, 2 for bad usage."""
    options = _parser().parse_args(arguments)
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

    audit = argparse.ArgumentParser(add_help=False)
    audit.add_argument("--configfile", type=Path, nargs="+", default=[], help="as for snakemake")
    audit.add_argument("--config", nargs="+", default=[], metavar="SECTION={KEY: VALUE}", help="as for snakemake")

    command = commands.add_parser("preflight", parents=[audit], help="say what an audit is about to do")
    command.add_argument("--cores", default="all", help="a number, or all")
    command.set_defaults(run=_preflight)

    command = commands.add_parser("show", parents=[audit], help="show a decision on one screen")
    command.add_argument("decision", type=Path, nargs="?", help="a decision.json; by default the configured audit's")
    command.set_defaults(run=_show)

    command = commands.add_parser("verify", parents=[audit], help="follow every digest and reach the decision again")
    command.add_argument("results", type=Path, nargs="?", help="a results folder; by default the configured one")
    command.add_argument("--nonce-file", type=Path, help="the nonce; by default the configured one")
    command.set_defaults(run=_verify)

    command = commands.add_parser("nonce", help="make a nonce of your own")
    command.add_argument("new", choices=["new"])
    command.add_argument("file", type=Path)
    command.set_defaults(run=_nonce)

    command = commands.add_parser("config-docs", help="render config.yaml, its schema and its README from the model")
    command.add_argument("--folder", type=Path, default=Path("config"))
    how = command.add_mutually_exclusive_group(required=True)
    how.add_argument("--write", action="store_true")
    how.add_argument("--check", action="store_true", help="exit 1 where a file differs from what would be written")
    command.set_defaults(run=_config_docs)

    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--results", type=Path, required=True)
    shared.add_argument("--nonce-file", type=Path, required=True)
    shared.add_argument("--public-randomness", default="")
    shared.add_argument("--stage", required=True)
    shared.add_argument("--output", type=Path, required=True)

    command = commands.add_parser("run-slots", parents=[shared], help="run a batch of episodes (for the workflow)")
    command.add_argument("--stratum", default="")
    command.add_argument("--first", type=int, required=True)
    command.add_argument("--last", type=int, required=True)
    command.set_defaults(run=_run_slots)

    command = commands.add_parser("run-replacement", parents=[shared], help="replace a lost pair (for the workflow)")
    command.add_argument("--slot", type=int, required=True)
    command.add_argument("--earlier", type=Path, nargs="+", required=True)
    command.set_defaults(run=_run_replacement)
    return parser


# Each command imports what it needs: an episode job must not load what a report does.


def _preflight(options: argparse.Namespace) -> None:
    from dcpflow.stages.preflight import describe  # noqa: PLC0415

    print(describe(_audit(options), options.cores), flush=True)


def _show(options: argparse.Namespace) -> None:
    from dcpflow.records import canonical, files  # noqa: PLC0415
    from dcpflow.report import screen  # noqa: PLC0415

    path = options.decision or Path(_audit(options).results) / "decision.json"
    data = files.read(path, "the decision", "To make it: make audit")
    print(screen.render(canonical.decode(data, str(path))))


def _verify(options: argparse.Namespace) -> None:
    from dcpflow.report import screen  # noqa: PLC0415
    from dcpflow.stages.decide import verify  # noqa: PLC0415
    from dcpflow.stages.laboratory import Job  # noqa: PLC0415

    execution = _audit(options).config.execution
    results = options.results or Path(execution.results)
    nonce_file = options.nonce_file or Path(execution.nonce_file)
    decided = verify(Job(results, nonce_file, execution.public_randomness or ""))
    print(screen.render(decided.document))
    print(f"\nverified  every digest in {results} was followed, and the decision was reached again from the evidence")


def _nonce(options: argparse.Namespace) -> None:
    from dcpflow.records import files  # noqa: PLC0415

    if not files.write_once(options.file, f"{secrets.token_hex(32)}\n".encode(), mode=0o600):
        raise UsageError(f"{options.file} exists", "A nonce in use must not be replaced: give another name")
    print(f"wrote {options.file} (mode 0600): keep it secret until the last score, and keep it")


def _config_docs(options: argparse.Namespace) -> int:
    from dcpflow.stages import config_docs  # noqa: PLC0415

    if options.write:
        config_docs.write(options.folder)
        return 0
    drifted = config_docs.check(options.folder)
    for name in drifted:
        print(f"{name} is not what the model in src/dcpflow/protocol gives: run dcpflow config-docs --write")
    return 1 if drifted else 0


def _run_slots(options: argparse.Namespace) -> None:
    from dcpflow.stages import episodes  # noqa: PLC0415

    episodes.run_slots(_job(options), options.stage, options.first, options.last, options.output, options.stratum)


def _run_replacement(options: argparse.Namespace) -> None:
    from dcpflow.stages import episodes  # noqa: PLC0415

    episodes.run_replacement(_job(options), options.stage, options.slot, options.earlier, options.output)


def _job(options: argparse.Namespace) -> Job:
    from dcpflow.stages.laboratory import Job  # noqa: PLC0415

    return Job(options.results, options.nonce_file, options.public_randomness)


def _audit(options: argparse.Namespace) -> Workflow:
    from dcpflow.protocol.config import ConfigError  # noqa: PLC0415
    from dcpflow.stages import configuration  # noqa: PLC0415

    try:
        return configuration.read(options.configfile, options.config)
    except ConfigError as error:
        raise UsageError(str(error)) from None
