"""Tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines with aligned columns; no line ends in blanks."""
    cells = [list(headings), *map(list, rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(headings))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def number(value: float | None) -> str:
    """Four significant digits; a dash for none."""
    return "-" if value is None else f"{value:.4g}"


def percent(value: float) -> str:
    """A probability as people read it: never 100 % or 0 % where it is only close to it."""
    if 0 < value < 0.0001 or 0.9999 < value < 1:
        return f"{value:.2g}" if value < 0.5 else "over 0.9999"
    return f"{value:.4f}"
