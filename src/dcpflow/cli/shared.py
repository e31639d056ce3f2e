"""What the commands share: the audit that they are about, and how they tell an error of the call."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from dcpflow.errors import UsageError, shown

if TYPE_CHECKING:
    import datetime

    from dcpflow.stages.workflow import Workflow

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def audit_of(options: argparse.Namespace) -> Workflow:
    """The configured audit."""
    from dcpflow.stages import configuration  # noqa: PLC0415

    return configuration.read(options.configfile, options.config)


def results_of(options: argparse.Namespace) -> Path:
    """The results folder that was given, or that of the configured audit."""
    given: Path | None = options.results
    return given or Path(audit_of(options).results)


def registry_of(options: argparse.Namespace) -> str:
    """The configured registry; a UsageError where there is none."""
    from dcpflow.stages.registry import OFF  # noqa: PLC0415

    place = audit_of(options).registry
    if place == OFF:
        raise UsageError("execution.registry is none", "Give --registry PLACE")
    return place


def nonce_in(path: Path | None) -> Any:
    """The nonce in a file; None without a file."""
    if path is None:
        return None
    from dcpflow.stages.seal import read_nonce  # noqa: PLC0415

    return read_nonce(path)


def bad_usage(error: UsageError) -> int:
    """Tell an error of the call itself, as the argument parser does: exit code 2."""
    print(f"dcpflow: {shown(error)}", file=sys.stderr)
    return 2


def count(text: str) -> int:
    """An argument that counts something: a whole number from 1 on."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return value


def day(text: str) -> datetime.date:
    """An argument that is a day, as 2031-12-31."""
    from dcpflow.authority.statement import day  # noqa: PLC0415

    try:
        return day(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
