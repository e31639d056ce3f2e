"""The files below ``config/`` that are rendered from the configuration's model, so that they cannot drift."""

from __future__ import annotations

import inspect
import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic.fields import FieldInfo

from dcpflow.protocol.config import (
    CONTRACT_SECTIONS,
    REGISTERED_SECTIONS,
    Config,
    Section,
    all_keys,
    allowed,
    is_named,
    section_of,
)

YAML_NAME: Final = "config.yaml"
SCHEMA_NAME: Final = "config.schema.json"
README_NAME: Final = "README.md"
WIDTH: Final = 100


def write(config_dir: Path) -> None:
    """Write the default configuration, its JSON Schema and its documentation into ``config_dir``."""
    for name, text in _rendered().items():
        (config_dir / name).write_text(text, encoding="utf-8")


def check(config_dir: Path) -> list[str]:
    """Names of those files in ``config_dir`` that are missing or differ from what the model says."""
    return [name for name, text in _rendered().items() if _text(config_dir / name) != text]


def _rendered() -> dict[str, str]:
    return {YAML_NAME: render_yaml(), SCHEMA_NAME: render_schema(), README_NAME: render_readme()}


def _text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


def _unit(info: FieldInfo) -> str:
    extra = info.json_schema_extra
    return str(extra["unit"]) if isinstance(extra, dict) and "unit" in extra else ""


def _default(info: FieldInfo) -> Any:
    value = info.get_default(call_default_factory=True)
    return list(value) if isinstance(value, tuple) else value


def _scalar(value: Any) -> str:
    """A value as one line of YAML 1.1 that reads back as the same value and type."""
    if isinstance(value, float):
        mantissa, _, exponent = repr(value).partition("e")
        # Without a point YAML would take the number for text.
        return f"{mantissa if '.' in mantissa else f'{mantissa}.0'}{f'e{exponent}' if exponent else ''}"
    dumped = yaml.safe_dump(value, default_flow_style=True, width=10**6, allow_unicode=True)
    return dumped.removesuffix("...\n").strip()


def _must_be(key: str, info: FieldInfo) -> str:
    words, rule = allowed(key, info)
    return f"{words} ({rule})" if rule else words


# --- the default configuration -----------------------------------------------------------------------------

_YAML_HEAD: Final = """\
The audit that runs by default. An audit of your own: give what differs in a file below cases/ and run
`make audit CONFIG=config/cases/NAME.yaml`. This file is rendered from the model in
src/dcpflow/protocol/config_model.py by `python -m dcpflow config-docs --write`.

All sections but `budget` and `execution` are registered before the first episode starts: a later edit is an
amendment, which is recorded, and marks what depends on it as exploratory. R1 to R19 are the registration rules.
"""


def render_yaml() -> str:
    """``config/config.yaml``: every key with its meaning, unit, allowed values and default."""
    head = "".join(f"# {line}".rstrip() + "\n" for line in _YAML_HEAD.splitlines())
    body = "\n".join(_yaml_section(Config, "", 0))
    return f"# yaml-language-server: $schema={SCHEMA_NAME}\n#\n{head}\n{body}\n"


def _yaml_section(section: type[Section], prefix: str, depth: int) -> Iterator[str]:
    indent = "  " * depth
    for position, (name, info) in enumerate(section.model_fields.items()):
        key, inner = prefix + name, section_of(info)
        if position and (inner or depth == 0):
            yield ""
        if inner is None:
            unit = f" Unit: {_unit(info)}." if _unit(info) else ""
            comment = f"{info.description}{unit} Must be {_must_be(key, info)}."
        else:
            comment = inspect.cleandoc(inner.__doc__ or "")
        for line in textwrap.wrap(comment, WIDTH - len(indent) - 2, break_on_hyphens=False):
            yield f"{indent}# {line}"
        if inner is None:
            yield f"{indent}{name}: {_scalar(_default(info))}"
        elif _default(info) is None:
            # its keys are shown, as a remark to be uncommented
            yield f"{indent}{name}: null"
            yield f"{indent}# {name}:"
            yield from (f"{indent}# {line}".rstrip() for line in _yaml_section(inner, f"{key}.", 1))
        elif is_named(info):
            # likewise, below a name that is to be chosen
            yield f"{indent}{name}: {{}}"
            yield f"{indent}# {name}:"
            yield f"{indent}#   NAME:"
            yield from (f"{indent}# {line}".rstrip() for line in _yaml_section(inner, f"{key}.NAME.", 2))
        else:
            yield f"{indent}{name}:"
            yield from _yaml_section(inner, f"{key}.", depth + 1)


# --- the schema for editors --------------------------------------------------------------------------------


def render_schema() -> str:
    """``config/config.schema.json``: JSON Schema (draft 2020-12), for completion and checks in an editor.

    It knows names, types and choices. The rules R1 to R19 stand in its descriptions, in words; loading the
    configuration enforces them.
    """
    schema = Config.model_json_schema()
    _describe(schema, Config, "", schema["$defs"])
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "dcpflow configuration",
        "description": schema.pop("description"),
    }
    return json.dumps(head | schema | {"title": head["title"]}, indent=2, ensure_ascii=False) + "\n"


def _describe(schema: dict[str, Any], section: type[Section], prefix: str, defs: dict[str, Any]) -> None:
    """Add to each key's description what it must be, and drop the titles that only repeat its name."""
    for name, info in section.model_fields.items():
        key, inner, entry = prefix + name, section_of(info), schema["properties"][name]
        entry.pop("title", None)
        if inner is None:
            entry["description"] = f"{info.description} Must be {_must_be(key, info)}."
        else:
            _describe(defs[inner.__name__], inner, f"{key}.{'NAME.' if is_named(info) else ''}", defs)


# --- the documentation -------------------------------------------------------------------------------------

_README_HEAD: Final = """\
# Configuration

`config.yaml` holds the audit that runs by default. It, `config.schema.json` (for completion and checks in an
editor) and this page are rendered from one model, `src/dcpflow/protocol/config_model.py`:
`python -m dcpflow config-docs --write` renders them anew, `--check` names those that have drifted.

## An audit of your own

Write what differs from `config.yaml` into a file of its own, as `cases/demo.yaml` does, and run
`make audit CONFIG=config/cases/NAME.yaml`, or `snakemake --configfile config/cases/NAME.yaml` by hand.
Sections are merged key by key. Give each audit its own `execution.results`, its own `claim.slot`, and, unless
it is a demonstration, a nonce of its own (see `nonces/README.md`).

Values are checked before anything runs, and everything that is wrong is listed at once. Three traps of YAML
and of the command line: `1e-3` is text (write `1.0e-3`); `4.0` is no whole number; and nested values given by
`snakemake --config` arrive as text, which is right for `--config 'isolation={backend: none}'` and wrong for
numbers.
"""

_REGISTERED: Final = """\
## What is registered

| Part | Sections | After an edit |
|---|---|---|
| Contract: what an episode is | CONTRACT | all episodes run anew, under an amendment |
| Design: how many episodes | DESIGN | only episodes that are missing run, under an amendment |
| Thresholds: how they are judged | THRESHOLDS | only the decision is made anew, under an amendment |
| Not registered | EXECUTION | no amendment; another nonce or public randomness draws all episodes anew |

An amendment is recorded with the old and the new values, and what depends on it is marked exploratory; the
confirmatory decision under the first registration stands beside it.

## All keys

*Must be* names the registration rule (R1 to R19) where one applies. Rules about several keys at once (sums,
shares, orders) are named under *Meaning*.
"""


def render_readme() -> str:
    """``config/README.md``: how to use the files, and a table of every key."""
    return f"{_README_HEAD}\n{_registered_and_keys()}"


def render_keys() -> str:
    """The same for a project of its own: what is registered, and a table of every key."""
    return f"# Configuration\n\n{_registered_and_keys()}"


def _registered_and_keys() -> str:
    head = _REGISTERED
    for part, sections in {
        "CONTRACT": CONTRACT_SECTIONS,
        "DESIGN": ("design", "strata"),
        "THRESHOLDS": ("thresholds",),
        "EXECUTION": tuple(name for name in Config.model_fields if name not in (*REGISTERED_SECTIONS, "strata")),
    }.items():
        head = head.replace(f"| {part} |", f"| {', '.join(f'`{name}`' for name in sections)} |")
    lines = [head]
    for name, info in Config.model_fields.items():
        section = section_of(info)
        assert section is not None
        lines += [f"### `{name}`", "", inspect.cleandoc(section.__doc__ or ""), ""]
        lines += ["| Key | Meaning | Unit | Must be | Default |", "|---|---|---|---|---|"]
        lines += [
            _row(key, definition)
            for key, definition in all_keys(section, f"{name}.{'NAME.' if is_named(info) else ''}")
        ]
        lines.append("")
    return "\n".join(lines)


def _row(key: str, info: FieldInfo) -> str:
    cells = (
        f"`{key}`",
        str(info.description),
        _unit(info),
        _must_be(key, info),
        f"`{_scalar(_default(info))}`",
    )
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
