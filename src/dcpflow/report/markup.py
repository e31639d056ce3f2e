"""Fills our templates: every value is escaped, and no text is without end or steers the display."""

from __future__ import annotations

from typing import Any, Final

from dcpflow.report import templates, wording
from dcpflow.report.screen import number

MAX_TEXT: Final = 6_000
"""Longest text of a page; whatever others wrote was cut before that."""


def page(template: str, **values: Any) -> bytes:
    """A page: one file without a script, without anything from elsewhere.

    Args:
        template: its name, one of ``templates.NAMES``.
        values: what it shows.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415 - needed for pages alone

    environment = Environment(
        loader=FileSystemLoader(templates.FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(number=number, bounded=wording.bounded, counting=wording.counting)
    return environment.get_template(template).render(**values).encode() + b"\n"


def _shown(value: Any) -> Any:
    """What a template writes."""
    return wording.bounded(value, MAX_TEXT) if type(value) is str else value
