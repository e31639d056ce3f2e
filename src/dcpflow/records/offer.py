"""What an auditor hands to a claimant instead of the nonce: one file, from which a run gets as far as its last commit.

It holds the registration, with the commitments to what is sealed, and for every registered slot its draws. Beside it
lies the socket at which the auditor's evaluator answers experiments, for as long as it is served.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from dcpflow.errors import EvidenceError, UsageError
from dcpflow.records import registration, stagefile
from dcpflow.records.draws import Draws, Offered

SCHEMA: Final = "dcpflow.offer/1"
FILE: Final = "offer.json"
SOCKET: Final = "experiments.sock"
AGAIN: Final = "Ask the auditor for it, who makes it with: dcpflow seal"
_VALUE: Final = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Offer:
    """An offer.

    Attributes:
        parts: all registered parts; the part ``task`` holds the seal.
        public_randomness: what is mixed into the draws, or empty.
        values: of the nonce, as :attr:`dcpflow.records.draws.Offered.values`: what the registered slots need, of every
            contract. Hidden state and sealed units of the audited instance do not follow from them.
    """

    parts: dict[str, dict[str, Any]]
    public_randomness: str
    values: Mapping[str, str]

    @property
    def contract(self) -> str:
        """C."""
        return registration.contract_digest(self.parts)

    @property
    def registration(self) -> str:
        """R."""
        return registration.registration_digest(self.parts)

    @property
    def seal(self) -> dict[str, Any]:
        """Digests of what is public and commitments to what is not."""
        seal: dict[str, Any] = self.parts["task"]["seal"]
        return seal

    def draws(self, contract: str) -> Draws:
        """The draws of the audit's contract, or of a stratum's."""
        return Draws(Offered(self.values), contract, self.public_randomness)


def write(folder: Path, offer: Offer) -> None:
    """Write the offer into a folder."""
    stagefile.write(folder / FILE, SCHEMA, asdict(offer))


def read(folder: Path) -> Offer:
    """The offer that lies in a folder.

    Raises:
        UsageError: it is missing, was altered, or is none.
    """
    path = folder / FILE
    try:
        offer = Offer(**stagefile.read(path, SCHEMA, "the auditor's offer", AGAIN)[0])
        whole = isinstance(offer.public_randomness, str) and isinstance(offer.seal, dict) and bool(offer.registration)
        whole = whole and all(_VALUE.fullmatch(value) for value in offer.values.values())
    except EvidenceError as error:
        raise UsageError(error.problem, error.remedy) from None
    except (TypeError, KeyError, AttributeError):
        whole = False
    if not whole:
        raise UsageError(f"the auditor's offer is not whole: {path}", AGAIN)
    return offer
