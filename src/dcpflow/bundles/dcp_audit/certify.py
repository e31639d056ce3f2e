"""The certificate of a bundle, computed by the installed dcp-audit package: its wording is that package's own."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from dcpflow.errors import UsageError


def certificate(payloads: Mapping[str, Any]) -> dict[str, Any]:
    """The kernel's decision record for these payloads.

    Args:
        payloads: all payloads but the certificate, by name.

    Raises:
        UsageError: dcp-audit is not installed.
    """
    try:
        kernel = _Kernel()
    except ImportError:
        raise UsageError(
            "the certificate of a dcp-audit bundle is computed by the package dcp-audit, which is not installed",
            "Install it with: pip install 'dcpflow[interop]'",
        ) from None
    return kernel.evaluate(payloads)


class _Kernel:
    """The package's own types and its one decision function."""

    def __init__(self) -> None:
        # by name, since the package's attribute of this name is the function in the module of this name
        self._evaluate = import_module("dcp.evaluate").evaluate
        self._types = import_module("dcp.types")
        self._registration = import_module("dcp.registration").Registration

    def evaluate(self, payloads: Mapping[str, Any]) -> dict[str, Any]:
        types, gate1, gate2 = self._types, payloads["gate1"], payloads["gate2"]
        found = self._evaluate(
            self._registration(**payloads["registration"]),
            types.Gate1Evidence(**{name: self._artifact(row) for name, row in gate1.items()}),
            types.Gate2Evidence(
                controls=[self._result(types.ControlAttempt, row) for row in gate2["controls"]],
                adequacy=types.AdequacyEvidence(**gate2["adequacy"]),
            ),
            self._gate3(payloads["gate3"]) if "gate3" in payloads else None,
            integrity=types.IntegrityEvidence(**payloads["integrity"]),
        )
        record: dict[str, Any] = found.to_dict()
        return record

    def _artifact(self, row: Mapping[str, Any]) -> Any:
        return self._types.ArtifactScores(**{**row, "validity": self._types.Validity(row["validity"])})

    def _result(self, kind: Any, row: Mapping[str, Any]) -> Any:
        types = self._types
        outcome, validity = types.RawAttemptOutcome(row["outcome"]), types.Validity(row["validity"])
        return kind(**{**row, "outcome": outcome, "validity": validity})

    def _gate3(self, payload: Mapping[str, Any]) -> Any:
        types, adequacy = self._types, payload["neutral_adequacy"]
        sham = {**payload["sham"], "pairs": [self._pair(types.ShamPair, row) for row in payload["sham"]["pairs"]]}
        return types.Gate3Evidence(
            **{
                **payload,
                "pairs": [self._pair(types.FeedbackPair, row) for row in payload["pairs"]],
                "sham": types.ShamCalibration(**sham),
                "neutral_adequacy": None if adequacy is None else types.AdequacyEvidence(**adequacy),
            }
        )

    def _pair(self, kind: Any, row: Mapping[str, Any]) -> Any:
        outcome = self._types.BranchOutcome
        return kind(
            **{name: self._result(outcome, value) if isinstance(value, dict) else value for name, value in row.items()}
        )
