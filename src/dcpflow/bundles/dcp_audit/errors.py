"""What is wrong with a bundle, where, and by which rule."""

from __future__ import annotations

from dcpflow.errors import EvidenceError


class BundleError(EvidenceError):
    """A bundle cannot be read as what it claims to be.

    Attributes:
        file: Name of the file inside the bundle; "." for the bundle as a whole.
        place: Place inside the file (``controls[3].per_unit``); empty for the file as a whole.
        rule: Stable name of the rule that is broken (``duplicate_key``, ``file_set`` ...).
        detail: What was found, and what was expected.
    """

    def __init__(self, file: str, place: str, rule: str, detail: str) -> None:
        where = f"{file}: {place}" if place else file
        super().__init__(f"{where}: {detail} [{rule}]")
        self.file = file
        self.place = place
        self.rule = rule
        self.detail = detail
