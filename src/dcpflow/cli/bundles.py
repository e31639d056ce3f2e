"""The commands that write an audit in one piece, or unpack it."""

from __future__ import annotations

import argparse
from pathlib import Path

from dcpflow.cli.shared import Commands, audit_of, bad_usage, nonce_in
from dcpflow.errors import UsageError


def add(commands: Commands, audit: argparse.ArgumentParser) -> None:
    """Add the commands."""
    bundle = commands.add_parser("bundle", help="write or unpack an audit in one piece")
    actions = bundle.add_subparsers(title="actions", required=True, metavar="ACTION")

    command = actions.add_parser("export", parents=[audit], help="write the bundle of a results folder")
    command.add_argument("results", type=Path)
    command.add_argument("out", type=Path, help="the file to write; for dcp-audit the folder to make")
    command.add_argument("--format", choices=["dcpflow", "dcp-audit"], default="dcpflow")
    command.add_argument("--reveal", action="store_true", help="include the nonce and what was sealed")
    command.add_argument("--nonce-file", type=Path, help="the nonce to reveal; by default the configured one")
    command.set_defaults(run=_bundle_export)

    command = actions.add_parser("import", help="make a results folder of a bundle, of dcpflow or of dcp-audit")
    command.add_argument("bundle", type=Path)
    command.add_argument("out", type=Path, help="the folder to make")
    command.set_defaults(run=_bundle_import)


def _bundle_export(options: argparse.Namespace) -> int | None:
    from dcpflow.bundles import export, interchange  # noqa: PLC0415

    try:
        if options.format == "dcp-audit":
            if options.reveal:
                raise UsageError("a dcp-audit bundle has no place for what was sealed", "Leave --reveal out")
            made = interchange.export(options.results, options.out)
            print(f"wrote {options.out}: {made.profile}, {made.bundle_id}, Core {made.core}, Evidence {made.evidence}")
            if made.left_out:
                print(f"left out, since such a bundle holds only what decides: {', '.join(made.left_out)}")
            return None
        nonce_file = options.nonce_file if options.reveal else None
        if options.reveal and nonce_file is None:
            nonce_file = Path(audit_of(options).config.execution.nonce_file)
        written = export.export(options.results, options.out, nonce_in(nonce_file))
    except UsageError as error:
        return bad_usage(error)
    sealed = "what was sealed is revealed" if written.revealed else "what was sealed stays sealed"
    print(f"wrote {options.out}: {written.digest}, {written.members} members, {written.size} bytes; {sealed}")
    return None


def _bundle_import(options: argparse.Namespace) -> int | None:
    from dcpflow.bundles import unpack  # noqa: PLC0415

    try:
        kind = unpack.import_bundle(options.bundle, options.out)
    except UsageError as error:
        return bad_usage(error)
    print(f"made {options.out} of a {kind.value}; show it with: dcpflow show {options.out}/decision.json")
    return None
