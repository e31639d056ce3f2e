"""What a registry knew of a claim and its family when an audit was started: kept with the registration."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from dcpflow.records import stagefile

SCHEMA: Final = "dcpflow.registry-snapshot/1"
NAME: Final = "registry.json"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Facts of the entries before the one that notes this audit's start, which later entries cannot change.

    Attributes:
        origin: what the registry is called.
        key: the public key that signs its checkpoints; empty for one that nobody signs, which whoever runs the audit
            may keep alone.
        number: of the entry that notes the start.
        earlier: other slots of the family, or of the claim in any family, that had been reserved by then, oldest first.
        starts: starts of the family's or the claim's audits before, in other results folders.
        episodes: that had been started here by then; 0 where the slot was reserved before the first one.
    """

    origin: str
    key: str
    number: int
    earlier: tuple[str, ...]
    starts: int
    episodes: int

    @property
    def speaks(self) -> bool:
        """Whether a decision can depend on it.

        Whoever runs an audit can keep a registry that nobody signs alone, and begin it anew: it speaks against the
        audit where it knows earlier ones, and never for it.
        """
        return bool(self.key or self.earlier)


def path(registration: Path) -> Path:
    """Its file, in the folder of the registration."""
    return registration / NAME


def write(registration: Path, snapshot: Snapshot) -> None:
    """Write it beside the registration."""
    stagefile.write(path(registration), SCHEMA, {**asdict(snapshot), "earlier": list(snapshot.earlier)})


def read(registration: Path) -> Snapshot | None:
    """What stands beside a registration; None where no registry was asked.

    Raises:
        EvidenceError: it was altered.
    """
    if not path(registration).exists():
        return None
    body, _ = stagefile.read(path(registration), SCHEMA, "what the registry knew")
    return Snapshot(**{**body, "earlier": tuple(body["earlier"])})
