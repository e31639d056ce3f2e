"""Command-line arguments that all jobs share."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from dcpflow.errors import DcpflowError, shown, told

if TYPE_CHECKING:
    from dcpflow.stages.laboratory import Job


def job_parser() -> argparse.ArgumentParser:
    """A parser for what every job is told: the results folder, the nonce or what an auditor has offered instead of it,
    public randomness, data."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--results", type=Path, required=True, help="the results folder")
    sealed = parser.add_mutually_exclusive_group(required=True)
    sealed.add_argument("--nonce-file", type=Path, help="the file of the sealed nonce")
    sealed.add_argument("--offer", type=Path, help="the folder of what an auditor has offered instead")
    parser.add_argument("--public-randomness", default="", help="given by an auditor or a beacon after registration")
    parser.add_argument("--data-file", type=Path, help="file of the task's data set; by default the downloaded one")
    return parser


def job(options: argparse.Namespace) -> Job:
    """The job that the arguments describe."""
    from dcpflow.stages.laboratory import Job  # noqa: PLC0415 - a parser alone must not load a laboratory

    return Job(options.results, options.nonce_file, options.public_randomness, options.data_file, offer=options.offer)


def run(parser: argparse.ArgumentParser, work: Callable[[argparse.Namespace], None]) -> None:
    """Parse the command line and do the work; a fault that the user can act on is one line and exit code 1."""
    options = parser.parse_args()
    try:
        work(options)
    except (DcpflowError, OSError) as error:
        fault = told(error)
        if fault is None:
            raise
        print(shown(fault), file=sys.stderr)
        raise SystemExit(1) from None
