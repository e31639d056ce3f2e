"""Discovery certification audits of AI research agents."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from dcpflow.cli import authority, beginning, bundles, looking, parties, planning, registry, shipped, verifying
from dcpflow.errors import DcpflowError, shown, told

# Each command imports where it runs what it needs, so that none waits for what another needs.


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand; 0 when it did its work, 1 for an error that is told in a line, 2 for bad usage."""
    options = _parser().parse_args(arguments)
    try:
        result: int | None = options.run(options)
    except BrokenPipeError:
        return 1
    except (DcpflowError, OSError) as error:
        fault = told(error)
        if fault is None:
            raise
        print(f"dcpflow: {shown(fault)}", file=sys.stderr)
        return 1
    return result or 0


def _parser() -> argparse.ArgumentParser:
    """A parser for all commands, in the order in which the help lists them."""
    parser = argparse.ArgumentParser(prog="dcpflow", description=__doc__)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    audit = argparse.ArgumentParser(add_help=False)
    audit.add_argument("--configfile", type=Path, nargs="+", default=[], help="as for snakemake")
    audit.add_argument("--config", nargs="+", default=[], metavar="SECTION={KEY: VALUE}", help="as for snakemake")

    looking.add(commands, audit)
    verifying.add_verify(commands, audit)
    planning.add_rerun(commands, audit)
    verifying.add_index(commands)
    bundles.add(commands, audit)
    registry.add(commands, audit)
    beginning.add(commands, audit)
    authority.add(commands)
    shipped.add(commands)
    planning.add(commands, audit)
    parties.add(commands, audit)
    shipped.add_config_docs(commands)
    return parser
