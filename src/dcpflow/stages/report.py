"""Writes the page that a reviewer reads, from a decided audit."""

from __future__ import annotations

from pathlib import Path

from dcpflow.records import files
from dcpflow.records.layout import Layout
from dcpflow.report import material, page


def write_report(results: Path) -> None:
    """Write ``report.html`` beside ``decision.json``."""
    layout = Layout(results)
    files.write_atomic(layout.report, page.render(material.read(layout)))
