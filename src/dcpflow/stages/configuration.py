"""Reads the configuration as the workflow does: the default file, what a case and what the command line change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from dcpflow.errors import UsageError
from dcpflow.protocol.config import ConfigError
from dcpflow.stages.workflow import Workflow

DEFAULT = Path("config/config.yaml")


def read(configfiles: Sequence[Path] = (), settings: Sequence[str] = ()) -> Workflow:
    """The audit that ``snakemake --configfile ... --config ...`` would run in this folder.

    Args:
        configfiles: files over the default one, each with what differs.
        settings: ``section={key: value}`` over the files.

    Raises:
        UsageError: a file or setting cannot be read, or the configuration breaks a rule.
    """
    merged: dict[str, Any] = {}
    for path in (DEFAULT, *configfiles):
        _merge(merged, _mapping(path))
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise UsageError(f"--config {setting!r}: expected section={{key: value}}")
        _merge(merged, {name: _setting(text, f"--config {setting!r}")})
    try:
        return Workflow.from_mapping(merged)
    except ConfigError as error:
        raise UsageError(str(error)) from None


def _mapping(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"the configuration {path} cannot be read ({error})",
            "Run this in the folder that holds the Snakefile",
        ) from None
    value = _parse(text, str(path))
    if not isinstance(value, dict):
        raise UsageError(f"{path}: expected a mapping of sections")
    return value


def _setting(text: str, where: str) -> Any:
    """As snakemake reads it: a number or truth value as such, whatever is nested as text."""
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return {"True": True, "False": False}.get(text, _parse(text, where, yaml.BaseLoader))


def _parse(text: str, where: str, loader: type = yaml.SafeLoader) -> Any:
    try:
        return yaml.load(text, loader)
    except yaml.YAMLError as error:
        raise UsageError(f"{where} is not YAML: {' '.join(str(error).split())}") from None


def _merge(into: dict[str, Any], new: Mapping[str, Any]) -> None:
    for key, value in new.items():
        if isinstance(value, Mapping) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value
