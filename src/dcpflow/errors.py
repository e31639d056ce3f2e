"""The errors that a user meets: what is wrong, where, and what to do about it."""

from __future__ import annotations


class DcpflowError(Exception):
    """A fault that the user can act on; printed in one line, without a traceback, exit code 1.

    Args:
        problem: what is wrong and where, with the expected value.
        remedy: what to do, as a command where there is one.
    """

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(f"{problem}. {remedy}" if remedy else problem)
        self.problem = problem
        self.remedy = remedy


class EvidenceError(DcpflowError):
    """A record, object, score, table or registration part is missing, altered or foreign."""


class UsageError(DcpflowError):
    """The command or its configuration cannot be carried out as given."""
