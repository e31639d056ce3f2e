"""The commands of an audit whose auditor is not the claimant (docs/roles.md), and of the nonce that seals one."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from dcpflow.cli.shared import Commands, audit_of, bad_usage
from dcpflow.errors import UsageError


def add(commands: Commands, audit: argparse.ArgumentParser) -> None:
    """Add the commands."""
    command = commands.add_parser("seal", parents=[audit], help="auditor: seal an audit for a claimant to run")
    command.add_argument("--to", type=Path, required=True, metavar="SEALED", help="the folder that stays secret")
    command.add_argument(
        "--for-claimant", type=Path, required=True, metavar="OFFER", help="the folder that the claimant is given"
    )
    command.add_argument("--nonce-file", type=Path, help="a nonce; by default a new one, which stays in SEALED")
    command.set_defaults(run=_seal)

    command = commands.add_parser(
        "serve-experiments", help="auditor: answer the experiments of target and truthful branches, until it is stopped"
    )
    command.add_argument("sealed", type=Path, metavar="SEALED")
    command.add_argument("offer", type=Path, metavar="OFFER", help="where the socket is made")
    command.add_argument("--data-file", type=Path, help="the task's data set; by default the downloaded one")
    command.set_defaults(run=_serve_experiments)

    command = commands.add_parser("score-for", help="auditor: score what a claimant has committed, and decide")
    command.add_argument("theirs", type=Path, metavar="RESULTS", help="the claimant's results folder, or a copy")
    command.add_argument("--sealed", type=Path, required=True, metavar="SEALED")
    command.add_argument("--to", type=Path, required=True, metavar="FOLDER", help="the results folder to make")
    command.add_argument("--key", type=Path, help="your private key, to sign the scores with")
    command.add_argument(
        "--registry", default="none", metavar="DIR_OR_URL", help="where the decision is noted; by default nowhere"
    )
    command.add_argument("--data-file", type=Path, help="the task's data set; by default the downloaded one")
    command.set_defaults(run=_score_for)

    command = commands.add_parser("nonce", help="make a nonce of your own")
    command.add_argument("new", choices=["new"])
    command.add_argument("file", type=Path)
    command.set_defaults(run=_nonce)


def _seal(options: argparse.Namespace) -> int | None:
    from dcpflow.stages.offering import seal_and_offer  # noqa: PLC0415

    audit = audit_of(options)
    try:
        made = seal_and_offer(audit, options.to, options.for_claimant, options.nonce_file)
    except UsageError as error:
        return bad_usage(error)
    print(
        f"sealed   {options.to}: keep it secret until the last score, and keep it",
        f"offered  {options.for_claimant}: {made.values} values, for the claimant",
        f"contract {made.contract}",
        f"registered {made.registration}",
        sep="\n",
    )
    if audit.config.claim.roles.self_audited:
        print("note     claim.roles.self_audited is true, and the decision will say so")
    return None


def _serve_experiments(options: argparse.Namespace) -> int | None:
    from dcpflow.stages.serving import serve  # noqa: PLC0415

    def ready() -> None:
        print(f"answering experiments in {options.offer}; stop it (Ctrl-C) after the claimant's run", flush=True)

    try:
        serve(options.sealed, options.offer, ready, options.data_file)
    except UsageError as error:
        return bad_usage(error)
    return None


def _score_for(options: argparse.Namespace) -> int | None:
    from dcpflow.stages import private_keys  # noqa: PLC0415
    from dcpflow.stages.scoring_for import score_for  # noqa: PLC0415

    try:
        signer = private_keys.read_key(options.key, options.theirs) if options.key else None
        workers = os.cpu_count() or 1
        made = score_for(
            options.theirs, options.sealed, options.to, signer, options.data_file, workers, options.registry
        )
    except UsageError as error:
        return bad_usage(error)
    print(
        f"scored   {made.artifacts} artifacts of {made.episodes} episodes",
        f"answered {made.experiments} experiments, and each stands in a record",
        f"decided  {options.to}/decision.json, {made.decision}",
        f"revealed {options.to}/revealed: nonce, hidden state and sealed units are no secret any more",
        sep="\n",
    )
    if (request := options.to / "registry" / "request.json").exists():
        print(f"to list  {request}: send it to the registry's operator (dcpflow registry add)")
    return None


def _nonce(options: argparse.Namespace) -> None:
    from dcpflow.stages.seal import new_nonce  # noqa: PLC0415

    new_nonce(options.file)
    print(f"wrote {options.file} (mode 0600): keep it secret until the last score, and keep it")
