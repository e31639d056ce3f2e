"""The list of many audits as a table: for a terminal, a spreadsheet, a browser, and programs."""

from __future__ import annotations

import csv
import datetime
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from dcpflow.authority.log import Log
from dcpflow.authority.trust import Party
from dcpflow.bundles.index import UNSIGNED, Entry, Signed
from dcpflow.bundles.verify import Verification
from dcpflow.errors import UsageError
from dcpflow.evidence import tables
from dcpflow.planning.text import table
from dcpflow.records import files
from dcpflow.report.screen import number
from dcpflow.report.sheet import Section, Sheet, Table
from dcpflow.report.wording import bounded
from dcpflow.stages import certificate_text, certifying, registry_proof

TABLE: Final = "index"
COLUMNS: Final = tuple(tables.SCHEMAS[TABLE])
FORMULAS: Final = (
    "=+-@\N{FULLWIDTH EQUALS SIGN}\N{FULLWIDTH PLUS SIGN}\N{FULLWIDTH HYPHEN-MINUS}\N{FULLWIDTH COMMERCIAL AT}"
)
"""With what a cell begins that a spreadsheet would compute."""
HEADINGS: Final = ("claim", "Core", "Evidence", "bound", "scope", "signed by", "expires", "rests on", "from")
MAX_TEXT: Final = 600
WIDTH: Final = 48
"""Longest cell on a terminal, where all but the last one are cut."""

Row = dict[str, Any]


def signed(
    parties: Sequence[Party] | None = None, log: Log | None = None, at: datetime.date | None = None
) -> Callable[[Verification], Signed]:
    """Says of a verified audit what the certificate beside it comes to.

    Args:
        parties: whose keys are believed; None where nobody said.
        log: a registry, which knows of revocations, and with which the audit has to agree; None for none. Where it
            does not, an :class:`EvidenceError` says so.
        at: the day on which it has to stand; by default today.
    """

    def read(audit: Verification) -> Signed:
        if audit.replayed is None:
            return UNSIGNED
        if log:
            registry_proof.hold(Path(audit.path), log)
        account = certifying.account_of(audit, None, parties, log, at)
        stated = account.certificate.stated if account.certificate else None
        return Signed(
            signers=tuple(
                one.party.name if one.party else one.fingerprint for one in account.signatures if not one.fault
            ),
            expiry=certificate_text.expiry(stated.expiry) if stated else "",
            revoked=bool(account.registry and account.registry.revocations),
            fault="; ".join(account.faults),
        )

    return read


def row(entry: Entry) -> Row:
    """One audit as a row of the table ``index``: None where it says nothing, and of what does not verify.

    All text is in one line, bounded, and steers no display: claimants and agents wrote it.
    """
    document, certified = entry.document, entry.signed
    found: Row = dict.fromkeys(COLUMNS)
    found |= {name: getattr(entry, name) or None for name in ("problem", "kind", "path", "decision", "identity")}
    found |= {"verified": not entry.problem, "provenance": entry.provenance or None}
    if document:
        claim, scope = document["claim"], document["scope"]
        found |= {"family": claim["family"], "claim": claim["id"], "slot": claim["slot"], "mode": entry.mode}
        for name in ("core", "evidence"):
            verdict = document[name]
            found |= {name: verdict["status"], f"{name}_class": verdict["class"]}
            found[f"{name}_exploratory"] = verdict["exploratory"]
        found |= {
            "core_rule": document["core"]["rule"],
            "bound": document["gate2"]["recovery_upper_bound"],
            "agent": scope["agent"],
            "model": scope["model"],
            "task": scope["information"],
            **scope["budget"],
            "signers": [bounded(name) for name in certified.signers],
            "expiry": certified.expiry or None,
            "revoked": certified.revoked,
            "certificate_fault": certified.fault or None,
        }
    return {name: bounded(value, MAX_TEXT) if isinstance(value, str) else value for name, value in found.items()}


def write_parquet(path: Path, rows: Sequence[Row]) -> None:
    """Write the table as Parquet, with the digest of its rows.

    Raises:
        UsageError: there can be no such file.
    """
    try:
        tables.write(path, TABLE, list(rows), "")
    except OSError as error:
        raise _unwritable(path, error) from None


def write_csv(path: Path, rows: Sequence[Row]) -> None:
    """Write the table for a spreadsheet, in UTF-8.

    Raises:
        UsageError: there can be no such file.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([_cell(found[name]) for name in COLUMNS] for found in rows)
    try:
        files.write_atomic(path, text.getvalue().encode())
    except OSError as error:
        raise _unwritable(path, error) from None


def _unwritable(path: Path, error: OSError) -> UsageError:
    return UsageError(f"{path} cannot be written: {error.strerror}", "Name another file")


def _cell(value: Any) -> str | float | int | None:
    """A cell of a spreadsheet: text that would be computed as a formula gets an apostrophe before it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = "; ".join(value) if isinstance(value, list) else value
    return f"'{text}" if isinstance(text, str) and text.lstrip()[:1] in (*FORMULAS,) else text


def render(rows: Sequence[Row]) -> str:
    """The table for a terminal, and below it what did not verify."""
    lines = table(HEADINGS, [_cut(_shown(found)) for found in rows])
    failed = [f"NOT VERIFIED  {found['problem']}" for found in rows if not found["verified"]]
    return "\n".join([*lines, *([""] if failed else []), *failed, "", summary(rows)])


def _cut(cells: Sequence[str]) -> list[str]:
    *others, path = cells
    return [*(cell if len(cell) <= WIDTH else f"{cell[: WIDTH - 1]}\N{HORIZONTAL ELLIPSIS}" for cell in others), path]


def summary(rows: Sequence[Row]) -> str:
    """How many audits verify, how many do not, and how many certificates do not hold."""
    failed, faulty = (sum(map(is_so, rows)) for is_so in (_failed, _faulty))
    return "".join(
        (
            f"{len(rows) - failed} of {len(rows)} verified",
            f", {failed} not" if failed else "",
            f"; of {faulty} the certificate does not hold" if faulty else "",
        )
    )


def all_hold(rows: Sequence[Row]) -> bool:
    """Whether every audit verifies, and every certificate that there is holds."""
    return not any(_failed(found) or _faulty(found) for found in rows)


def _failed(found: Row) -> bool:
    return not found["verified"]


def _faulty(found: Row) -> bool:
    return found["certificate_fault"] is not None


def page(rows: Sequence[Row]) -> Sheet:
    """The table as a page."""
    failed = [found for found in rows if not found["verified"]]
    sections = [
        Section("Claims", tables=[Table("Claims that verify", HEADINGS, _cells(rows, verified=True))]),
        Section(
            "What did not verify",
            words=[
                f"{len(failed)} of {len(rows)}: what they say is not shown, since nothing in them can be relied on."
            ],
            tables=[
                Table("Not verified", ("from", "why"), [(str(one["path"]), str(one["problem"])) for one in failed])
            ],
        ),
        Section(
            "Digests",
            tables=[
                Table(
                    "Digest of each decision, and of each bundle",
                    ("from", "decision", "bundle or decision"),
                    [(str(one["path"]), str(one["decision"]), str(one["identity"])) for one in rows if one["verified"]],
                )
            ],
        ),
    ]
    return Sheet(
        kind="Index of audits",
        title=f"{len(rows)} audits",
        notice=(
            "Verified, not judged",
            "each was verified offline as it lay, and its statuses are those of its own decision. Claims with other "
            "scopes are not to be compared by their bounds",
        ),
        sections=[section for section in sections if section.tables[0].rows],
        source="Made by dcpflow index from the audits alone; evidence from dcp-audit bundles is self-attested.",
    )


def _cells(rows: Sequence[Row], *, verified: bool) -> list[tuple[str, ...]]:
    return [_shown(found) for found in rows if found["verified"] is verified]


def _shown(found: Row) -> tuple[str, ...]:
    """What people read of a row."""
    if not found["verified"]:
        return ("-", "not verified", *[""] * (len(HEADINGS) - 3), str(found["path"]))
    budget = "" if found["experiments"] is None else f", {found['experiments']} experiments"
    looked_back = "" if found["mode"] == "prospective" else f" ({found['mode']})"
    return (
        f"{found['claim']} of {found['family']}{looked_back}",
        *(_status(found, name) for name in ("core", "evidence")),
        number(found["bound"]),
        f"{found['agent']}, {found['model']}, {found['task']}{budget}",
        _signers(found),
        found["expiry"] or "-",
        str(found["provenance"]),
        str(found["path"]),
    )


def _signers(found: Row) -> str:
    if found["certificate_fault"]:
        return f"DOES NOT HOLD: {found['certificate_fault']}"
    return ", ".join(found["signers"]) or "nobody"


def _status(found: Row, name: str) -> str:
    kind = f" ({found[f'{name}_class']})" if found[f"{name}_class"] else ""
    return f"{found[name].replace('_', ' ')}{kind}" + (", exploratory" if found[f"{name}_exploratory"] else "")
