"""Many audits as one list: each is verified as it lies, and what does not verify stands there with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from dcpflow.bundles import imported
from dcpflow.bundles.audit import UNFORESEEN
from dcpflow.bundles.kinds import IMPORTED, Kind, recognise
from dcpflow.bundles.verify import Verification, verify
from dcpflow.errors import DcpflowError, UsageError
from dcpflow.protocol.registration import PROSPECTIVE
from dcpflow.records import canonical

BUNDLES: Final = "*.dcp"
"""Files that are taken for bundles where a folder of them is given."""


class Signed(NamedTuple):
    """What certificates say of a claim.

    Attributes:
        signers: whose signatures hold.
        expiry: until when, as the certificate says it; empty for no end.
        revoked: whether it, or what it is of, was revoked.
        fault: why it does not hold, or no longer; empty where it does, or there is none.
    """

    signers: tuple[str, ...] = ()
    expiry: str = ""
    revoked: bool = False
    fault: str = ""


UNSIGNED: Final = Signed()


@dataclass(frozen=True, slots=True)
class Entry:
    """One audit of the list.

    Attributes:
        path: where it lies.
        kind: what was found there; empty where that cannot be told.
        problem: why it does not verify, in one line; empty where it does.
        document: its decision; empty where it does not verify, since nothing that it says can be relied on then.
        decision: digest of the decision; empty likewise.
        identity: digest that names it: of a bundle its own, of a folder its decision's; empty likewise.
        provenance: what its evidence rests on, in a word or two; empty likewise.
        signed: what certificates say of it.
    """

    path: str
    kind: str
    problem: str
    document: Mapping[str, Any]
    decision: str = ""
    identity: str = ""
    provenance: str = ""
    signed: Signed = UNSIGNED

    @property
    def mode(self) -> str:
        """Whether the target was run, or an existing artifact looked back at."""
        mode: str = self.document.get("retrospective", {}).get("mode", PROSPECTIVE)
        return mode


def index(paths: Iterable[Path], signed: Callable[[Verification], Signed]) -> list[Entry]:
    """Verify audits and list them, by family, claim and decision; behind them those that do not verify, by place.

    Args:
        paths: results folders, bundles of ours or of dcp-audit, imported ones, or folders of these.
        signed: says of an audit that was verified what certificates say of it; a :class:`DcpflowError` where something
            else contradicts the audit, which then stands there as not verified.
    """
    entries = [_entry(path, signed) for path in dict.fromkeys(one for path in paths for one in _within(path))]
    return sorted(entries, key=_place)


def _place(entry: Entry) -> tuple[bool, str, str, str, str]:
    claim = entry.document.get("claim", {})
    return bool(entry.problem), claim.get("family", ""), claim.get("id", ""), entry.decision, entry.path


def _within(path: Path) -> list[Path]:
    """A path that is an audit; of a folder that is none, the audits that lie directly in it, if there are any."""
    try:
        if _is_audit(path) or not path.is_dir():
            return [path]
        below = sorted(path.iterdir())
        return [one for one in below if (_is_audit(one) if one.is_dir() else one.match(BUNDLES))] or [path]
    except OSError:
        return [path]


def _is_audit(path: Path) -> bool:
    try:
        recognise(path)
    except UsageError:
        return False
    return True


def _entry(path: Path, signed: Callable[[Verification], Signed]) -> Entry:
    try:
        found = verify(path)
        if not found.ok:
            return Entry(str(path), found.kind.value, found.error, {})
        document = _document(path, found)
        decision = canonical.digest(canonical.encode(document) + b"\n")
        word = found.provenance.partition(":")[0]
        return Entry(
            *(str(path), found.kind.value, "", document),
            *(decision, found.identity, word, signed(found)),
        )
    except DcpflowError as error:
        return Entry(str(path), "", error.problem, {})
    except UNFORESEEN as error:
        # what one audit of many can make fail ends none of the others
        return Entry(str(path), "", f"{type(error).__name__}: {error}", {})


def _document(path: Path, found: Verification) -> Mapping[str, Any]:
    """The decision that was verified; of a dcp-audit bundle as importing it gives it."""
    match found.kind:
        case Kind.DCP_AUDIT:
            return imported.read(path).document()
        case Kind.IMPORTED:
            return imported.read(path / IMPORTED).document()
        case _:
            return found.replayed.decided.document if found.replayed else {}
