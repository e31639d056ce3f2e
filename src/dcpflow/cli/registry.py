"""The commands that keep or read a registry, a log of audits outside of their results."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dcpflow.cli.shared import Commands, count, registry_of, results_of


def add(commands: Commands, audit: argparse.ArgumentParser) -> None:
    """Add the commands."""
    registry = commands.add_parser("registry", help="keep or read a log of audits outside of their results")
    actions = registry.add_subparsers(title="actions", required=True, metavar="ACTION")
    there = argparse.ArgumentParser(add_help=False, parents=[audit])
    there.add_argument("--registry", metavar="PLACE", help="a folder or an address; by default the configured one")

    command = actions.add_parser("init", help="make an empty registry")
    command.add_argument("folder", type=Path, help="the folder to make")
    command.add_argument("--origin", required=True, help="what it is called, e.g. audits.example.org")
    command.add_argument("--key", type=Path, metavar="FILE.pub", help="the public key that will sign its checkpoints")
    command.add_argument("--by-request", action="store_true", help="its operator adds what audits request")
    command.set_defaults(run=_registry_init)

    command = actions.add_parser("show", parents=[there], help="print its entries")
    command.set_defaults(run=lambda options: _registry(options, "show"))

    command = actions.add_parser("request", parents=[audit], help="print what a registry's operator is to add")
    command.add_argument("results", type=Path, nargs="?", help="the results folder; by default the configured one")
    command.set_defaults(run=_registry_request)

    command = actions.add_parser("add", parents=[there], help="add what an audit has requested")
    command.add_argument("request", type=Path)
    command.set_defaults(run=lambda options: _registry(options, "add", options.request))

    command = actions.add_parser("sign", parents=[there], help="sign a checkpoint of all entries")
    command.add_argument("--key", type=Path, required=True, help="the private key")
    command.set_defaults(run=lambda options: _registry(options, "sign", options.key))

    command = actions.add_parser(
        "check", parents=[there], help="see that nothing was cut or altered; exit 1 where it was"
    )
    command.add_argument("--since", type=Path, metavar="CHECKPOINT", help="an older checkpoint that you have kept")
    command.add_argument(
        "--trust", type=Path, nargs="+", default=[], metavar="FILE.pub", help="keys of which one signed"
    )
    command.set_defaults(run=lambda options: _registry(options, "check", options.since, options.trust))

    command = actions.add_parser("prove", parents=[there], help="print a proof that an entry is in the last checkpoint")
    command.add_argument("entry", type=count, help="its number")
    command.set_defaults(run=lambda options: _registry(options, "prove", options.entry))

    command = actions.add_parser("proven", help="say what such a proof shows; exit 1 where it shows nothing")
    command.add_argument("proof", type=Path)
    command.add_argument(
        "--trust", type=Path, nargs="+", required=True, metavar="FILE.pub", help="keys of which one signed"
    )
    command.set_defaults(run=_registry_proven)


def _registry(options: argparse.Namespace, action: str, *given: Any) -> None:
    """One of the actions on the registry that was given, or configured."""
    from dcpflow.stages import registry_desk  # noqa: PLC0415

    act: Callable[..., str] = getattr(registry_desk, action)
    print(act(options.registry or registry_of(options), *given))


def _registry_init(options: argparse.Namespace) -> None:
    from dcpflow.stages import registry_desk  # noqa: PLC0415

    print(registry_desk.make(options.folder, options.origin, options.key, by_request=options.by_request))


def _registry_request(options: argparse.Namespace) -> None:
    from dcpflow.stages import registry_desk  # noqa: PLC0415

    print(registry_desk.request(results_of(options)))


def _registry_proven(options: argparse.Namespace) -> None:
    from dcpflow.stages import registry_desk  # noqa: PLC0415

    print(registry_desk.proven(options.proof, options.trust))
