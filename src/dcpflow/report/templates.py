"""The templates of all pages: where they lie, and their digest."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from dcpflow.records import canonical

FOLDER: Final = Path(__file__).parent
NAMES: Final = ("figures.html", "layout.html", "page.css", "page.html", "parts.html", "sheet.html")


def digest() -> str:
    """One digest over all templates."""
    return canonical.digest_of({name: canonical.digest((FOLDER / name).read_bytes()) for name in NAMES})
