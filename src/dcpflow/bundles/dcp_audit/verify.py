"""Verifying a dcp-audit bundle: read it, decide on its evidence with our rules, compare with what it says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dcpflow.bundles.dcp_audit.certificate import expected_certificate
from dcpflow.bundles.dcp_audit.comparison import TOLERANCE, Comparison, compare
from dcpflow.bundles.dcp_audit.decode import Decoded, decode
from dcpflow.bundles.dcp_audit.errors import BundleError
from dcpflow.bundles.dcp_audit.integrity import envelope_faults
from dcpflow.bundles.dcp_audit.manifest import Bundle, read_bundle
from dcpflow.protocol.decision import Decision, decide
from dcpflow.protocol.faults import Stake, blocking
from dcpflow.protocol.registration import Registration

PROVENANCE: Final = "self-attested"
"""What a bundle of this format rests on: its author's word, and digests of its own content."""

COMPARED: Final = (
    "both verdicts and their classes; every status, count, identifier and digest, exactly and by type; every "
    f"number within {TOLERANCE:g}; every value repeated from registration, envelope and evidence; whether each "
    "list of errors or reasons is empty. Not compared: the wording of reasons and statements, and the name of "
    "the implementation"
)


@dataclass(frozen=True, slots=True)
class Report:
    """The result of verifying one bundle.

    Attributes:
        bundle_id: As checked; empty if the bundle could not be read that far.
        profile: ``core`` or ``full_audit_v1``; empty likewise.
        error: Why the bundle could not be read; None if it could.
        decision: Ours on its evidence; None if it could not be read.
        comparison: Of the saved certificate with it; None likewise.
        saved_core: Core status in the saved certificate; None if it names none.
        saved_evidence: Evidence status in it; None likewise.
        departures: Where our rules deliberately decide otherwise than the reference on this evidence. They
            explain differences; they do not excuse them.
        not_stored: Files that are not in the writer's byte form (their digests hold).
        provenance: Always ``self-attested``.
        compared: In words, what was compared.
    """

    bundle_id: str = ""
    profile: str = ""
    error: BundleError | None = None
    decision: Decision | None = None
    comparison: Comparison | None = None
    saved_core: str | None = None
    saved_evidence: str | None = None
    departures: tuple[str, ...] = ()
    not_stored: tuple[str, ...] = ()
    provenance: str = PROVENANCE
    compared: str = COMPARED

    @property
    def intact(self) -> bool:
        """Whether the files are what the manifest registers, and can be read."""
        return self.error is None

    @property
    def replays(self) -> bool:
        """Whether the saved certificate is the one that its evidence gives."""
        return self.comparison is not None and not self.comparison.differences

    @property
    def ok(self) -> bool:
        """Whether the bundle is intact and replays; whatever its verdict is."""
        return self.intact and self.replays


def verify(path: Path) -> Report:
    """Verify a bundle. Never raises for anything about its content."""
    bundle: Bundle | None = None
    try:
        bundle = read_bundle(path)
        decoded = decode(bundle.payloads)
    except BundleError as error:
        if bundle is None:
            return Report(error=error)
        return Report(bundle_id=bundle.bundle_id, profile=bundle.profile, error=error, not_stored=bundle.not_stored)
    certificate = bundle.payloads["certificate"]
    decision = decide_bundle(decoded)
    return Report(
        bundle_id=bundle.bundle_id,
        profile=bundle.profile,
        decision=decision,
        comparison=compare(certificate, expected_certificate(decoded, decision)),
        saved_core=_saved(certificate, "core"),
        saved_evidence=_saved(certificate, "evidence"),
        departures=departures(decoded, decision),
        not_stored=bundle.not_stored,
    )


def decide_bundle(decoded: Decoded) -> Decision:
    """Our decision on a bundle's evidence, resting on its self-attested envelope.

    The format has no place for a verifier flaw, so there is none.
    """
    faults = envelope_faults(decoded)
    return decide(decoded.registration, decoded.gate1, decoded.gate2, decoded.gate3, faults)


def departures(decoded: Decoded, decision: Decision) -> tuple[str, ...]:
    """Where our rules deliberately decide otherwise than the reference on this evidence.

    One sentence for each departure that this evidence gives occasion for; empty for almost every bundle.
    """
    found = []
    neutral = decision.gate3.neutral if decision.gate3 else None
    core, evidence = (blocking(decision.faults, stake) for stake in (Stake.CORE, Stake.EVIDENCE))
    if core and neutral and neutral.refutes_core:
        found.append("a neutral hit in the challengers' scope survives faults of Core that do not touch it")
    if not core and evidence and neutral and neutral.in_challenger_scope and neutral.unresolved:
        found.append("unresolved neutral branches count, though the feedback effect may not be evaluated")
    if _repeats_claimed(decoded):
        found.append("an artifact with A*'s own digest is A*: a hit, or unresolved if its scores differ")
    nameless = [a.draw_receipt for a in decoded.gate2.attempts if not a.independent_unit.strip()]
    if len(nameless) > 1:
        found.append("attempts that name no independent unit are not taken for one unit")
    if decoded.gate3 is not None and any(
        branch.scores is not None for pair in decoded.gate3.null.pairs for branch in pair.branches
    ):
        found.append("the utility of a null branch has to agree with its scores, where it has scores")
    if _on_a_line(decoded.registration, decision):
        found.append("a difference lies on its line within rounding, and is rounded exactly here")
    return tuple(found)


def _on_a_line(reg: Registration, decision: Decision) -> bool:
    """Whether a comparison of Gate 1 or of an attempt hangs on how a sum was rounded."""
    rows = decision.gate2.attempts if decision.gate2 else ()
    if decision.gate3 is not None:
        rows += decision.gate3.neutral.rows
    compared = [(row.difference, -reg.epsilon) for row in rows if row.difference is not None]
    if decision.gate1 is not None:
        compared.append((decision.gate1.recovery_of_baseline, -reg.epsilon))
        compared.append((decision.gate1.gain, reg.delta_min))
    return any(abs(end - line) <= TOLERANCE for i, line in compared for end in (i.lower, i.upper))


def _repeats_claimed(decoded: Decoded) -> bool:
    claimed = decoded.gate1.claimed.digest
    rows = [decoded.gate1.baseline.digest, *(a.artifact_digest for a in decoded.gate2.attempts)]
    if decoded.gate3 is not None:
        rows += [branch.artifact_digest for pair in decoded.gate3.pairs for branch in pair.branches]
    return claimed in rows


def _saved(certificate: Any, key: str) -> str | None:
    verdict = certificate.get("verdict") if isinstance(certificate, Mapping) else None
    value = verdict.get(key) if isinstance(verdict, Mapping) else None
    return value if isinstance(value, str) else None
