"""A page of tables and figures that says what it describes and that it decides nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dcpflow.errors import UsageError
from dcpflow.records import files
from dcpflow.report import markup
from dcpflow.report.curves import Curve, Steps
from dcpflow.report.figures import Spans


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure with what it needs to be read.

    Attributes:
        title: what it shows; not drawn, but read aloud.
        shapes: what is drawn.
        caption: how to read it.
    """

    title: str
    shapes: Steps | Curve | Spans
    caption: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table whose rows begin with a heading of their own.

    Attributes:
        caption: what it holds; no two tables of a page have the same.
        headings: of the columns.
        rows: their cells.
    """

    caption: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page: words, then figures, then tables, then lines.

    Attributes:
        title: its heading.
        words: its paragraphs.
        figures: its figures.
        tables: its tables.
        lines: text to copy, line by line.
    """

    title: str
    words: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    lines: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Sheet:
    """A page.

    Attributes:
        kind: what kind of page it is.
        title: what it is about.
        notice: what it must not be taken for, in a word or two and in a sentence without its full stop.
        sections: from top to bottom.
        source: what it was made of.
    """

    kind: str
    title: str
    notice: tuple[str, str]
    sections: Sequence[Section]
    source: str


def write(path: Path, sheet: Sheet) -> None:
    """Write the page.

    Raises:
        UsageError: there can be no such file.
    """
    try:
        files.write_atomic(path, render(sheet))
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}", "Name another file") from None


def render(sheet: Sheet) -> bytes:
    """The page, with the look, the escaping and the policy of the report."""
    return markup.page("sheet.html", sheet=sheet)
