"""The commands that verify audits, and say what their certificates are worth."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dcpflow.cli.shared import Commands, audit_of, bad_usage, day, nonce_in, registry_of
from dcpflow.errors import DcpflowError, UsageError

if TYPE_CHECKING:
    import datetime
    from collections.abc import Sequence

    from dcpflow.authority.certificate import Account
    from dcpflow.authority.log import Log
    from dcpflow.authority.trust import Party
    from dcpflow.bundles.verify import Verification


def add_verify(commands: Commands, audit: argparse.ArgumentParser) -> None:
    """Add the command for one audit."""
    command = commands.add_parser("verify", parents=[audit], help="follow every digest and reach the decision again")
    command.add_argument(
        "path",
        type=Path,
        nargs="?",
        help="a results folder, a bundle, or the folder of a dcp-audit bundle; by default the configured results",
    )
    command.add_argument("--nonce-file", type=Path, help="the nonce; by default, without a path, the configured one")
    command.add_argument("--data-file", type=Path, help="the task's data set; by default as configured, or downloaded")
    command.add_argument("--registry", metavar="PLACE", help="also hold it against this registry, a folder or address")
    command.add_argument("--checkpoint", type=Path, help="and that against a checkpoint that you have kept")
    command.add_argument("--auditor-key", type=Path, help="public key; its signature of the scores has to be there")
    command.add_argument("--json", action="store_true", help="for programs")
    _add_trusting(command)
    command.set_defaults(run=_verify)


def add_index(commands: Commands) -> None:
    """Add the command for many."""
    command = commands.add_parser("index", help="verify many audits and list their claims; exit 1 where one fails")
    command.add_argument(
        "paths",
        type=Path,
        nargs="+",
        metavar="DIR",
        help="results folders, bundles, folders of dcp-audit bundles, or folders in which these lie (bundles as *.dcp)",
    )
    command.add_argument("--parquet", type=Path, metavar="FILE", help="write the table for programs")
    command.add_argument("--csv", type=Path, metavar="FILE", help="write the table for a spreadsheet")
    command.add_argument("--html", type=Path, metavar="FILE", help="write the table as a page")
    command.add_argument("--registry", metavar="DIR_OR_URL", help="a registry, which knows what was revoked")
    _add_trust(command)
    command.set_defaults(run=_index)


def _add_trusting(command: argparse.ArgumentParser) -> None:
    """Add the options by which ``verify`` is told of certificates, and of whom to believe."""
    group = command.add_argument_group("certificate")
    group.add_argument("--certificate", type=Path, metavar="FILE", help="by default the one beside what is verified")
    _add_trust(group)


def _add_trust(group: argparse._ActionsContainer) -> None:
    """Add the options that say whom to believe, and when."""
    group.add_argument("--trust", type=Path, metavar="FILE", help="whose keys to believe (docs/certificates.md)")
    group.add_argument("--at", type=day, metavar="DATE", help="the day on which it has to stand; by default today")


def _verify(options: argparse.Namespace) -> int:
    from dcpflow.bundles import screen  # noqa: PLC0415
    from dcpflow.bundles.verify import verify  # noqa: PLC0415

    path, nonce_file, data_file = options.path, options.nonce_file, options.data_file
    if path is None:
        audit = audit_of(options)
        execution, data_file = audit.config.execution, data_file or audit.data_file
        path = Path(execution.results)
        nonce_file = nonce_file or (Path(execution.nonce_file) if execution.offer is None else None)
    try:
        found = verify(path, nonce_in(nonce_file))
        if nonce_file:
            from dcpflow.stages.verify import with_task  # noqa: PLC0415

            found = with_task(found, nonce_file, data_file)
        place = options.registry or (registry_of(options) if options.checkpoint else None)
        if place:
            from dcpflow.stages.registry_proof import with_registry  # noqa: PLC0415

            found = with_registry(found, place, options.checkpoint)
        account = _account(options, found, place)
    except UsageError as error:
        return bad_usage(error)
    if found.ok and options.auditor_key is not None:
        from dcpflow.stages.signed_scores import require_signed  # noqa: PLC0415

        try:
            found = found.with_scores_signed(require_signed(path, options.auditor_key))
        except UsageError as error:
            return bad_usage(error)
        except DcpflowError as error:
            found = found.failed(error)
    if options.json:
        told = {"certificate": None, "formal_certificate_issued": False}
        told = _to_json(account) if account else told
        print(json.dumps({**found.to_json(), **told}, indent=2))
    else:
        print(screen.render(found), file=sys.stdout if found.ok else sys.stderr)
        if account:
            _show(account, path)
    return 0 if found.ok and not (account and account.faults) else 1


def _index(options: argparse.Namespace) -> int:
    from dcpflow.bundles.index import index  # noqa: PLC0415
    from dcpflow.report import sheet  # noqa: PLC0415
    from dcpflow.stages import indexing  # noqa: PLC0415

    try:
        signed = indexing.signed(*_trusted(options, options.registry))
        rows = [indexing.row(entry) for entry in index(options.paths, signed)]
        if options.parquet:
            indexing.write_parquet(options.parquet, rows)
        if options.csv:
            indexing.write_csv(options.csv, rows)
        if options.html:
            sheet.write(options.html, indexing.page(rows))
    except UsageError as error:
        return bad_usage(error)
    written = [path for path in (options.parquet, options.csv, options.html) if path]
    for path in written:
        print(f"wrote {path}")
    print(indexing.summary(rows) if written else indexing.render(rows))
    return 0 if indexing.all_hold(rows) else 1


def _account(options: argparse.Namespace, found: Verification, registry: str | None) -> Account | None:
    """What the certificate of a verified audit is worth; None where there is none, and nothing was asked about one."""
    from dcpflow.bundles.kinds import certificate_of  # noqa: PLC0415

    asked = options.certificate or options.trust or registry or options.at
    lies_beside = found.replayed is not None and certificate_of(Path(found.path), found.kind).exists()
    if not found.ok or not (asked or lies_beside):
        return None
    from dcpflow.stages import certifying  # noqa: PLC0415

    return certifying.account_of(found, options.certificate, *_trusted(options, registry))


def _trusted(
    options: argparse.Namespace, registry: str | None
) -> tuple[Sequence[Party] | None, Log | None, datetime.date | None]:
    """Whose keys are believed, the registry that is asked, and for which day."""
    from dcpflow.authority import trust  # noqa: PLC0415
    from dcpflow.stages.registry import open_place  # noqa: PLC0415

    parties = trust.read(options.trust) if options.trust else None
    return parties, open_place(registry) if registry else None, options.at


def _to_json(account: Account) -> dict[str, Any]:
    """The account for programs."""
    from dcpflow.stages import certificate_text  # noqa: PLC0415

    return {"certificate": certificate_text.to_json(account), "formal_certificate_issued": account.formal}


def _show(account: Account, path: Path) -> None:
    """Print the account, and every fault once more in a line of its own."""
    from dcpflow.bundles.screen import plain  # noqa: PLC0415
    from dcpflow.stages import certificate_text  # noqa: PLC0415

    print(certificate_text.render(account), flush=True)
    for fault in account.faults:
        print(plain(f"dcpflow: {path}: the certificate does not hold: {fault}"), file=sys.stderr)
