"""The rules of the Discovery Certification Protocol, as pure functions.

:func:`decide` is the entrance. Rule numbers (R1, I2, G2.8, V11 ...) in the modules refer to one numbering of
the protocol's rules: registration R, intervals I, gates G, orchestration O, verdicts V (Core), E (Evidence).

Nothing here reads a file, a clock or a random number, and nothing outside of this package is imported.
"""

from dcpflow.protocol.advice import Caution, registration_warnings
from dcpflow.protocol.decision import Decision, decide
from dcpflow.protocol.faults import (
    CHALLENGERS,
    CORE_ONLY,
    EVERY_HIT,
    EVIDENCE_ONLY,
    NEUTRAL_ARM,
    NEUTRAL_DISCLOSURE,
    NEUTRAL_SCOPE,
    Fault,
    Stake,
)
from dcpflow.protocol.intervals import Interval
from dcpflow.protocol.model import (
    Adequacy,
    Attempt,
    AttemptStatus,
    Branch,
    Check,
    Conditions,
    Effect,
    FeedbackPair,
    Gate1Evidence,
    Gate2Evidence,
    Gate3Evidence,
    InconclusiveClass,
    NullCalibration,
    NullPair,
    Outcome,
    Recovery,
    ScoredArtifact,
    Status,
    Validity,
)
from dcpflow.protocol.plain import plain
from dcpflow.protocol.registration import Registration, Violation, registration_violations
from dcpflow.protocol.verdicts import Verdict

__all__ = [
    "CHALLENGERS",
    "CORE_ONLY",
    "EVERY_HIT",
    "EVIDENCE_ONLY",
    "NEUTRAL_ARM",
    "NEUTRAL_DISCLOSURE",
    "NEUTRAL_SCOPE",
    "Adequacy",
    "Attempt",
    "AttemptStatus",
    "Branch",
    "Caution",
    "Check",
    "Conditions",
    "Decision",
    "Effect",
    "Fault",
    "FeedbackPair",
    "Gate1Evidence",
    "Gate2Evidence",
    "Gate3Evidence",
    "InconclusiveClass",
    "Interval",
    "NullCalibration",
    "NullPair",
    "Outcome",
    "Recovery",
    "Registration",
    "ScoredArtifact",
    "Stake",
    "Status",
    "Validity",
    "Verdict",
    "Violation",
    "decide",
    "plain",
    "registration_violations",
    "registration_warnings",
]
