"""The commands that begin a task or a project of your own."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from dcpflow.cli.shared import Commands, audit_of, bad_usage
from dcpflow.errors import UsageError

if TYPE_CHECKING:
    from dcpflow.stages.new_task import NewTask


def add(commands: Commands, audit: argparse.ArgumentParser) -> None:
    """Add the commands."""
    task = commands.add_parser("task", help="begin a task of your own, or try one")
    actions = task.add_subparsers(title="actions", required=True, metavar="ACTION")

    command = actions.add_parser("new", help="write an example to start from, with configuration, nonce and test")
    command.add_argument("name", help="of the task: lower-case letters, digits and _")
    command.set_defaults(run=_task_new)

    command = actions.add_parser(
        "check", parents=[audit], help="try a task against all that an audit relies on; exit 1 where it fails"
    )
    command.add_argument(
        "task",
        nargs="?",
        help="with its default settings: a shipped task, path/to/file.py:Class, module:Class or an entry point;"
        " by default the configured task with its settings",
    )
    command.set_defaults(run=_task_check)

    command = commands.add_parser("init", help="write a project of your own, which runs as it stands")
    command.add_argument("folder", type=Path, help="where to; other files may be there")
    command.set_defaults(run=_init)


def _task_new(options: argparse.Namespace) -> int | None:
    from dcpflow.stages.new_task import new_task  # noqa: PLC0415

    try:
        made = new_task(options.name)
    except UsageError as error:
        return bad_usage(error)
    print(
        f"wrote  {made.task}: the task, a working example to change",
        f"       {made.config}: its audit",
        f"       {made.nonce}: the secret of this audit; git ignores it, and nobody else should have it",
        f"       {made.test}: its test",
        *(f"{'' if number else 'next':7}{command}" for number, command in enumerate(_after(made))),
        sep="\n",
    )
    return None


def _after(made: NewTask) -> list[str]:
    """The commands for a new task, as they are given in a checkout, which has a Makefile, or in a project."""
    programs, audit = "", f"snakemake --cores all --configfile {made.config}"
    if Path("Makefile").is_file():
        programs, audit = ".venv/bin/", f"make audit CONFIG={made.config}"
    check, test = f"{programs}dcpflow task check --configfile {made.config}", f"{programs}python -m pytest {made.test}"
    return [check, test, audit]


def _task_check(options: argparse.Namespace) -> int:
    from dcpflow.stages.trying import try_task  # noqa: PLC0415

    if options.task and (options.configfile or options.config):
        return bad_usage(UsageError("a task and a configuration were given", "Give one of them"))
    if options.task:
        findings = try_task({"name": options.task})
    else:
        audit = audit_of(options)
        findings = try_task(audit.parts["task"], audit.data_file)
    for finding in findings:
        print(f"{'ok  ' if finding.ok else 'FAIL'}  {finding.name}: {finding.detail}")
    return 0 if all(finding.ok for finding in findings) else 1


def _init(options: argparse.Namespace) -> int | None:
    from dcpflow.stages.new_project import new_project  # noqa: PLC0415

    try:
        new_project(options.folder)
    except UsageError as error:
        return bad_usage(error)
    print(
        f"wrote  {options.folder}: an audit that runs as it stands; see its README.md",
        f"next   cd {shlex.quote(str(options.folder))}",
        "       dcpflow doctor",
        "       snakemake --cores 2 results/decision.json",
        "       dcpflow show",
        sep="\n",
    )
    return None
