"""Where everything lies below a results folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

SCORES_FOR: Final = "The auditor scores what is committed here, and decides: dcpflow score-for"


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths of one audit.

    Attributes:
        root: the results folder.
    """

    root: Path

    @property
    def objects(self) -> Path:
        """The object store."""
        return self.root / "objects"

    @property
    def store(self) -> Path:
        """The episode store."""
        return self.root / "store"

    @property
    def registration(self) -> Path:
        """The folder of the registration and its parts."""
        return self.root / "registration"

    @property
    def history(self) -> Path:
        """The append-only history of registrations."""
        return self.root / "history"

    @property
    def registry(self) -> Path:
        """What this folder is called in a registry, and what was not noted there yet: beside all that is hashed."""
        return self.root / "registry"

    @property
    def public(self) -> Path:
        """The task's public material."""
        return self.root / "task" / "public"

    @property
    def seal(self) -> Path:
        """Digests of the public and commitments to the sealed material."""
        return self.root / "task" / "seal.json"

    @property
    def hidden(self) -> Path:
        """What truthful feedback is computed from (mode 0700)."""
        return self.root / "private" / "hidden"

    @property
    def sealed(self) -> Path:
        """What artifacts are scored on (mode 0700)."""
        return self.root / "private" / "sealed"

    @property
    def checkpoint(self) -> Path:
        """The selected checkpoint of the target run."""
        return self.root / "target" / "checkpoint.json"

    @property
    def packet(self) -> Path:
        """The file that names the Web packet of the target run."""
        return self.root / "target" / "packet.json"

    def scores(self, stage: str) -> Path:
        """The scores of one phase, by its name in :func:`dcpflow.records.plan.phases`, or of a stratum by its place."""
        return self.root / "scores" / f"{stage}.json"

    def look(self, phase: str) -> Path:
        """What the look came to that is scored in a phase, where several are registered."""
        return self.root / "looks" / f"{phase}.json"

    @property
    def evidence(self) -> Path:
        """The Parquet tables."""
        return self.root / "evidence"

    def replay(self, phase: str) -> Path:
        """Which conversations of one phase replay under their registered channel."""
        return self.root / "replay" / f"{phase}.json"

    @property
    def decision(self) -> Path:
        """The decision."""
        return self.root / "decision.json"

    @property
    def is_offered(self) -> bool:
        """Whether an auditor holds what is sealed, and has not decided: what is registered has nothing sealed."""
        begun = (self.registration / "registration.json").exists()
        return begun and not (self.decision.exists() or self.hidden.parent.exists())

    @property
    def to_decide(self) -> str:
        """Who makes a decision that is not there, and how."""
        return SCORES_FOR if self.is_offered else "To make it: make audit, or snakemake --cores all"

    @property
    def report(self) -> Path:
        """The page that a reviewer reads."""
        return self.root / "report.html"
