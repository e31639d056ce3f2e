"""Verifies an audit offline: recomputes what it rests on, reaches the decision again, and says what it did."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dcpflow.bundles.dcp_audit.errors import BundleError
from dcpflow.bundles.kinds import IMPORTED, Kind, check_folder, recognise
from dcpflow.errors import DcpflowError, EvidenceError
from dcpflow.records.layout import SCORES_FOR

if TYPE_CHECKING:
    from dcpflow.bundles import dcp_audit
    from dcpflow.bundles.audit import Replayed
    from dcpflow.records.draws import Nonce

SCHEMA: Final = "dcpflow.verification/1"
RECORDED_BY_US: Final = "recorded by dcpflow: every check is computed from the records"
SELF_ATTESTED: Final = "self-attested: the author's word, and digests of the bundle's own content"
TASK: Final = "task"
REGISTRY: Final = "registry"
MAX_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class Verification:
    """What came of verifying one audit.

    Attributes:
        path: as it was given.
        kind: what was found there.
        ok: whether all digests hold and the replay gives the decision that stands there, whatever it is.
        error: why not, in one line; empty where it is ok.
        identity: digest that names what was verified: of a bundle its own, of a results folder its decision's.
        core: Core verdict as replayed: ``status``, ``class``, ``rule``, ``reason``; empty where none was reached.
        evidence: Evidence verdict likewise.
        recomputed: what was recomputed, as name and detail.
        recorded: what is on record only, as name and reason.
        provenance: what the evidence rests on.
        remarks: further things that a reader should know.
        public_randomness: what was mixed into the draws; empty where nothing was.
        replayed: the audit itself, of ours, for what is held against it next; no part of what is told.
        roles: who took part, as registered: ``claimant``, ``auditor``, ``registry``, ``self_audited``; empty where that
            is not recorded.
    """

    path: str
    kind: Kind
    ok: bool
    error: str = ""
    identity: str = ""
    core: dict[str, Any] = field(default_factory=dict)
    evidence: dict[str, Any] = field(default_factory=dict)
    recomputed: tuple[tuple[str, str], ...] = ()
    recorded: tuple[tuple[str, str], ...] = ()
    provenance: str = ""
    remarks: tuple[str, ...] = ()
    public_randomness: str = ""
    replayed: Replayed | None = field(default=None, repr=False)
    roles: dict[str, Any] = field(default_factory=dict)

    def with_task(self) -> Verification:
        """The same after the task's code has confirmed what it alone can tell."""
        recorded = tuple(row for row in self.recorded if row[0] != TASK)
        detail = "with its code: first messages, every conversation line for line, every score"
        return replace(self, recorded=recorded, recomputed=(*self.recomputed, (TASK, detail)))

    def with_registry(self, recomputed: Iterable[tuple[str, str]], remarks: Iterable[str]) -> Verification:
        """The same after it was held against the registry that it was noted in."""
        recorded = tuple(row for row in self.recorded if row[0] != REGISTRY)
        return replace(
            self,
            recomputed=(*self.recomputed, *recomputed),
            recorded=recorded,
            remarks=(*self.remarks, *remarks),
        )

    def with_scores_signed(self, key: str) -> Verification:
        """The same after a signature of the scores was found to be the auditor's, whose key has this id."""
        detail = f"by the given key of the auditor, {key}: these scores, these records, this decision"
        return replace(self, recomputed=(*self.recomputed, ("signature", detail)))

    def failed(self, error: DcpflowError) -> Verification:
        """The same with an error that was found afterwards."""
        return Verification(self.path, self.kind, False, one_line(Path(self.path), self.kind, error))

    def to_json(self) -> dict[str, Any]:
        """The form that programs read."""
        return {
            "schema": SCHEMA,
            "path": self.path,
            "kind": self.kind.value,
            "ok": self.ok,
            "error": self.error,
            "identity": self.identity,
            "core": self.core,
            "evidence": self.evidence,
            "recomputed": [{"what": what, "detail": detail} for what, detail in self.recomputed],
            "recorded": [{"what": what, "reason": reason} for what, reason in self.recorded],
            "provenance": self.provenance,
            "remarks": list(self.remarks),
            "public_randomness": self.public_randomness,
            "roles": self.roles,
        }


def verify(path: Path, nonce: Nonce | None = None) -> Verification:
    """Verify a bundle of ours, a results folder, a dcp-audit bundle or an imported one.

    Nothing in it is executed and nothing is written. What is wrong with the content is told, never raised.

    Args:
        path: which of them it is, is recognised.
        nonce: of the audit, to recompute draws, orders and commitments; None where it is not known, or revealed.

    Raises:
        UsageError: the path holds nothing that can be verified.
    """
    kind = recognise(path)
    try:
        return _VERIFIERS[kind](path, kind, nonce)
    except DcpflowError as error:
        return Verification(str(path), kind, False, one_line(path, kind, error))


def one_line(path: Path, kind: Kind, error: DcpflowError) -> str:
    """What is wrong, with the file that it is wrong with; a remedy only where the reader can do something about it."""
    text = error.problem if kind is not Kind.RESULTS else str(error)
    if isinstance(error, BundleError) and error.file == ".":
        place = f"{error.place}: " if error.place else ""
        text = f"{place}{error.detail} [{error.rule}]"
    text = " ".join(text.split())
    return text if str(path) in text else f"{path}: {text}"


@contextmanager
def named(path: Path, kind: Kind) -> Iterator[None]:
    """Errors inside become one line that names the path."""
    try:
        yield
    except EvidenceError as error:
        raise EvidenceError(one_line(path, kind, error)) from None


def _verify_own(path: Path, kind: Kind, nonce: Nonce | None) -> Verification:
    from dcpflow.bundles import account, audit  # noqa: PLC0415 - of which a dcp-audit bundle needs nothing

    if kind is Kind.RESULTS:
        check_folder(path)
        opened = audit.open_folder(path)
        if opened.layout.is_offered:
            raise EvidenceError("nothing is decided here", SCORES_FOR)
    else:
        opened = audit.open_bundle(path)
    replayed = audit.replay(opened, nonce)
    document = replayed.decided.document
    return Verification(
        path=str(path),
        kind=kind,
        ok=True,
        identity=replayed.identity,
        core=_verdict(document["core"]),
        evidence=_verdict(document["evidence"]),
        recomputed=account.recomputed(replayed),
        recorded=account.recorded(replayed),
        provenance=RECORDED_BY_US,
        remarks=account.remarks(replayed),
        public_randomness=replayed.evidence.view.public_randomness,
        roles=document["roles"],
        replayed=replayed,
    )


def _verdict(verdict: dict[str, Any]) -> dict[str, Any]:
    return {key: verdict[key] for key in ("status", "class", "exploratory", "rule", "reason")}


def _verify_foreign(path: Path, kind: Kind, nonce: Nonce | None) -> Verification:
    from dcpflow.bundles import dcp_audit  # noqa: PLC0415

    return _foreign(path, kind, dcp_audit.verify(path))


def _foreign(path: Path, kind: Kind, report: dcp_audit.Report) -> Verification:
    if report.error is not None:
        raise report.error
    decision, comparison = report.decision, report.comparison
    if decision is None or comparison is None:
        raise EvidenceError("no decision could be reached")
    error = ""
    if comparison.differences:
        shown = "; ".join(map(str, comparison.differences[:MAX_SHOWN]))
        more = len(comparison.differences) - MAX_SHOWN
        error = f"{path}: payload/certificate.json: {shown}" + (f"; and {more} more" if more > 0 else "") + " [replay]"
    verdicts = [
        {
            "status": verdict.status.value,
            "class": verdict.inconclusive_class.value if verdict.inconclusive_class else None,
            "exploratory": False,
            "rule": verdict.rule,
            "reason": verdict.reason,
        }
        for verdict in (decision.core, decision.evidence)
    ]
    remarks = [f"our rules deliberately differ from the reference's here: {text}" for text in report.departures]
    if report.not_stored:
        remarks.append(f"not in the writer's byte form, though their digests hold: {', '.join(report.not_stored)}")
    return Verification(
        path=str(path),
        kind=kind,
        ok=report.ok,
        error=error,
        identity=report.bundle_id,
        core=verdicts[0],
        evidence=verdicts[1],
        recomputed=(
            ("digests", f"manifest, files and evidence digests of the profile {report.profile}"),
            ("decision", "by our rules, from registration and evidence"),
            ("certificate", f"{comparison.compared} values equal, {comparison.texts} texts present")
            if report.ok
            else ("certificate", f"{len(comparison.differences)} of {comparison.compared} values differ"),
        ),
        recorded=(
            ("integrity", "registration, lineage, isolation, scoring and ledger are attested, not shown"),
            ("receipts", "name records that are not in such a bundle"),
        ),
        provenance=SELF_ATTESTED,
        remarks=tuple(remarks),
    )


def _verify_imported(path: Path, kind: Kind, nonce: Nonce | None) -> Verification:
    from dcpflow.bundles.dcp_audit import verify as verify_bundle  # noqa: PLC0415
    from dcpflow.bundles.imported import check  # noqa: PLC0415

    check_folder(path)
    found = _foreign(path, kind, verify_bundle(path / IMPORTED))
    if found.ok:
        check(path)
    return found


_VERIFIERS: Final[dict[Kind, Callable[[Path, Kind, Nonce | None], Verification]]] = {
    Kind.BUNDLE: _verify_own,
    Kind.RESULTS: _verify_own,
    Kind.DCP_AUDIT: _verify_foreign,
    Kind.IMPORTED: _verify_imported,
}
