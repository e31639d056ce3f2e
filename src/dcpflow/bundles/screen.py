"""What came of a verification, on one screen of a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dcpflow.bundles.verify import Verification
from dcpflow.errors import plain as plain  # noqa: PLC0414 - part of this module, for those that print

WIDTH = 118
MAX_REMARKS = 6


def render(found: Verification) -> str:
    """The verification for a person: the answer, the verdicts, what was recomputed, what is on record only.

    What does not verify gets one line that says why.
    """
    if not found.ok:
        return plain(f"NOT VERIFIED  {found.error}")
    lines = [f"VERIFIED  {found.path} ({found.kind.value})", f"{'digest':<12}{found.identity}"]
    for name, verdict in (("Core", found.core), ("Evidence", found.evidence)):
        kind = f" ({verdict['class']})" if verdict["class"] else ""
        mark = ", EXPLORATORY" if verdict["exploratory"] else ""
        lines += wrapped(name, f"{verdict['status'].upper()}{kind}{mark}: {verdict['reason']} [{verdict['rule']}]")
    if found.roles:
        lines += wrapped("roles", _roles(found.roles))
    lines += _section("recomputed", found.recomputed)
    lines += _section("recorded", found.recorded)
    lines += wrapped("provenance", found.provenance)
    for remark in found.remarks[:MAX_REMARKS]:
        lines += wrapped("remark", remark)
    if len(found.remarks) > MAX_REMARKS:
        lines += wrapped("remark", f"and {len(found.remarks) - MAX_REMARKS} more (--json)")
    return "\n".join(plain(line) for line in lines)


def _roles(roles: Mapping[str, Any]) -> str:
    if roles["self_audited"]:
        return f"SELF-AUDITED: claimant and auditor are one, {roles['claimant']}; registry: {roles['registry']}"
    return f"claimant: {roles['claimant']}; auditor: {roles['auditor']}; registry: {roles['registry']}"


def _section(title: str, rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    for number, (what, detail) in enumerate(rows):
        yield from wrapped("" if number else title, f"{what}: {detail}")


def wrapped(title: str, text: str) -> list[str]:
    """Lines of a text beside its title."""
    return textwrap.wrap(
        text, WIDTH, initial_indent=f"{title:<12}", subsequent_indent=" " * 12, break_on_hyphens=False
    ) or [title]
