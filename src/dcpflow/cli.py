"""Discovery certification audits of AI research agents."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dcpflow import cli_authority
from dcpflow.errors import DcpflowError, UsageError, shown, storage_error

if TYPE_CHECKING:
    from dcpflow.planning.endings import Rates
    from dcpflow.report.sheet import Sheet
    from dcpflow.stages.new_task import NewTask
    from dcpflow.stages.workflow import Workflow


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand; 0 when it did its work, 1 for an error that is told in a line, 2 for bad usage."""
    options = _parser().parse_args(arguments)
    try:
        result: int | None = options.run(options)
    except DcpflowError as error:
        print(f"dcpflow: {shown(error)}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        return 1
    except OSError as error:
        fault = storage_error(error)
        if fault is None:
            raise
        print(f"dcpflow: {shown(fault)}", file=sys.stderr)
        return 1
    return result or 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="dcpflow", description=__doc__)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    audit = argparse.ArgumentParser(add_help=False)
    audit.add_argument("--configfile", type=Path, nargs="+", default=[], help="as for snakemake")
    audit.add_argument("--config", nargs="+", default=[], metavar="SECTION={KEY: VALUE}", help="as for snakemake")

    command = commands.add_parser("preflight", parents=[audit], help="say what an audit is about to do")
    command.add_argument("--cores", default="all", help="a number, or all")
    command.set_defaults(run=_preflight)

    command = commands.add_parser(
        "doctor", parents=[audit], help="try all that an audit needs, before it costs anything; exit 1 where it fails"
    )
    command.set_defaults(run=_doctor)

    _add_looking(commands, audit)

    command = commands.add_parser(
        "plan-rerun", parents=[audit], help="what the next run would redo, why, and what that costs; writes nothing"
    )
    command.add_argument("targets", nargs="*", help="rules or files, as for snakemake; by default all but the report")
    command.add_argument("--json", action="store_true", help="for programs")
    command.set_defaults(run=_plan_rerun)

    _add_index(commands)

    _add_bundle(commands.add_parser("bundle", help="write or unpack an audit in one piece"), audit)

    _add_registry(commands.add_parser("registry", help="keep or read a log of audits outside of their results"), audit)

    _add_task(commands.add_parser("task", help="begin a task of your own, or try one"), audit)

    command = commands.add_parser("init", help="write a project of your own, which runs as it stands")
    command.add_argument("folder", type=Path, help="where to; other files may be there")
    command.set_defaults(run=_init)

    cli_authority.add(commands)

    _add_cases(commands)

    _add_planning(commands, audit)

    _add_parties(commands, audit)

    command = commands.add_parser("nonce", help="make a nonce of your own")
    command.add_argument("new", choices=["new"])
    command.add_argument("file", type=Path)
    command.set_defaults(run=_nonce)

    command = commands.add_parser("config-docs", help="render config.yaml, its schema and its README from the model")
    command.add_argument("--folder", type=Path, default=Path("config"))
    how = command.add_mutually_exclusive_group(required=True)
    how.add_argument("--write", action="store_true")
    how.add_argument("--check", action="store_true", help="exit 1 where a file differs from what would be written")
    command.set_defaults(run=_config_docs)
    return parser


def _add_looking(commands: argparse._SubParsersAction[argparse.ArgumentParser], audit: argparse.ArgumentParser) -> None:
    command = commands.add_parser("show", parents=[audit], help="show a decision on one screen")
    command.add_argument("decision", type=Path, nargs="?", help="a decision.json; by default the configured audit's")
    command.set_defaults(run=_show)

    command = commands.add_parser("report", parents=[audit], help="write the page that a reviewer reads")
    command.add_argument(
        "path",
        type=Path,
        nargs="?",
        help="a results folder, or a bundle of dcpflow; by default the configured results",
    )
    command.add_argument("--output", type=Path, help="by default report.html in the results folder")
    command.add_argument("--times", action="store_true", help="add wall times, which are no part of the evidence")
    command.add_argument("--costs", action="store_true", help="add what the model has cost, which is none either")
    command.set_defaults(run=_report)

    command = commands.add_parser("costs", help="what the model has cost, by gate", parents=[audit])
    command.add_argument("results", type=Path, nargs="?", help="the results folder; by default the configured one")
    command.set_defaults(run=_costs)

    command = commands.add_parser("transcript", parents=[audit], help="show what was said in an episode")
    command.add_argument(
        "episode",
        help="for example target, challengers/17, pairs/3/neutral, challengers/NAME/2 of a stratum, or "
        "pairs_lagged_sham/3/truthful of a further neutral policy",
    )
    command.add_argument("--results", type=Path, help="a results folder or a bundle; by default the configured results")
    command.add_argument("--json", action="store_true", help="the lines as they were recorded, for programs")
    command.set_defaults(run=_transcript)

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
    cli_authority.add_trusting(command)
    command.set_defaults(run=_verify)


def _add_index(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
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
    cli_authority.add_trust(command)
    command.set_defaults(run=_index)


def _add_cases(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser("cases", help="run the published cases and print the table of their decisions")
    command.add_argument("names", nargs="*", metavar="NAME", help="cases to run; by default all")
    command.add_argument("--cores", default="all", help="a number, or all")
    command.add_argument("--data-folder", type=Path, help="where files of the data sets lie; by default: downloaded")
    command.set_defaults(run=_cases)

    command = commands.add_parser("data", help="download what tasks on real data read")
    command.add_argument("fetch", choices=["fetch"])
    command.add_argument("name", help="the data set: yacht, ionosphere or dry-bean")
    command.add_argument("--from", dest="source", metavar="FILE", help="a file of it, or another address")
    command.set_defaults(run=_data_fetch)


def _add_parties(commands: argparse._SubParsersAction[argparse.ArgumentParser], audit: argparse.ArgumentParser) -> None:
    """What an auditor does who is not the claimant (docs/roles.md)."""
    command = commands.add_parser("seal", parents=[audit], help="auditor: seal an audit for a claimant to run")
    command.add_argument("--to", type=Path, required=True, metavar="SEALED", help="the folder that stays secret")
    command.add_argument(
        "--for-claimant", type=Path, required=True, metavar="OFFER", help="the folder that the claimant is given"
    )
    command.add_argument("--nonce-file", type=Path, help="a nonce; by default a new one, which stays in SEALED")
    command.set_defaults(run=_seal)

    command = commands.add_parser(
        "serve-experiments", help="auditor: answer the experiments of target and truthful branches, until it is stopped"
    )
    command.add_argument("sealed", type=Path, metavar="SEALED")
    command.add_argument("offer", type=Path, metavar="OFFER", help="where the socket is made")
    command.add_argument("--data-file", type=Path, help="the task's data set; by default the downloaded one")
    command.set_defaults(run=_serve_experiments)

    command = commands.add_parser("score-for", help="auditor: score what a claimant has committed, and decide")
    command.add_argument("theirs", type=Path, metavar="RESULTS", help="the claimant's results folder, or a copy")
    command.add_argument("--sealed", type=Path, required=True, metavar="SEALED")
    command.add_argument("--to", type=Path, required=True, metavar="FOLDER", help="the results folder to make")
    command.add_argument("--key", type=Path, help="your private key, to sign the scores with")
    command.add_argument(
        "--registry", default="none", metavar="DIR_OR_URL", help="where the decision is noted; by default nowhere"
    )
    command.add_argument("--data-file", type=Path, help="the task's data set; by default the downloaded one")
    command.set_defaults(run=_score_for)


PLANNED = {
    "rho": "thresholds.gate2.rho",
    "recall_min": "thresholds.controls.recall_min",
    "delta_evidence": "thresholds.gate3.delta_evidence",
    "delta_sham": "thresholds.gate3.delta_sham",
    "rho_placebo": "thresholds.gate3.rho_placebo",
    "alpha_recovery": "thresholds.alpha.recovery",
    "alpha_adequacy": "thresholds.alpha.adequacy",
    "alpha_evidence": "thresholds.alpha.evidence",
    "alpha_sham": "thresholds.alpha.sham",
    "alpha_neutral": "thresholds.alpha.neutral",
}
"""Options of ``plan`` that change the configuration, and the keys that they change."""


def _add_planning(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], audit: argparse.ArgumentParser
) -> None:
    command = commands.add_parser("plan", parents=[audit], help="sample sizes, costs and chances of an audit")
    _add_rates(command, recall=0.98, truthful=0.95, null=0.99)
    for name, key in PLANNED.items():
        command.add_argument(f"--{name.replace('_', '-')}", type=float, help=f"instead of {key}")
    command.add_argument("--grade", choices=["core", "evidence"], help="instead of claim.grade")
    command.add_argument("--necessity", action="store_true", default=None, help="plan for claim.necessity")
    command.add_argument("--power", type=_chance, default=0.9, help="chance that each sample passes its test (0.9)")
    command.add_argument("--spread", type=_amount, default=0.25, help="of a pair's difference, if continuous (0.25)")
    for name in ("challengers", "controls", "pairs", "null-pairs"):
        command.add_argument(f"--{name}", type=_count, help="a given number instead of the planned one")
    command.add_argument("--looks", type=_count, help="looks at the challengers in equal steps; a recovery ends them")
    command.add_argument("--pilot", type=Path, help="a results folder whose episodes tell the seconds of one")
    command.add_argument("--seconds", type=_amount, help="of one episode")
    command.add_argument("--tokens", type=_amount, help="of one episode")
    command.add_argument("--money", type=_amount, help="of one episode")
    command.add_argument("--jobs", type=_count, default=1, help="episodes that run at a time (1)")
    form = _add_forms(command)
    form.add_argument("--fragment", action="store_true", help="print the configuration to paste alone")
    command.set_defaults(run=_plan)

    command = commands.add_parser("sensitivity", parents=[audit], help="how a decision leans on its thresholds")
    command.add_argument("results", type=Path, nargs="?", help="a results folder; by default the configured one")
    _add_forms(command)
    command.set_defaults(run=_sensitivity)

    command = commands.add_parser("simulate", parents=[audit], help="how often an audit decides what, from a truth")
    _add_rates(command)
    command.add_argument("--dependence", type=float, default=0.0, help="correlation of episodes of one kind (0)")
    command.add_argument("--noise", type=float, default=0.0, help="standard deviation of a sealed unit's score (0)")
    command.add_argument("--units", type=_count, default=1, help="sealed units (1)")
    for name, worth in (("claimed", 0.9), ("baseline", 0.0), ("miss", 0.3)):
        command.add_argument(
            f"--{name}", type=_chance, default=worth, help=f"what such an artifact is worth ({worth:g})"
        )
    command.add_argument(
        "--checkpoint",
        choices=["lineage_prefix", "lineage_empty"],
        default="lineage_prefix",
        help="lineage_empty makes neutral branches challengers (lineage_prefix)",
    )
    command.add_argument("--audits", type=_count, default=10_000, help="synthetic audits (10000)")
    command.add_argument("--seed", type=_whole, default=20_260_909, help="of all draws (20260909)")
    command.add_argument("--processes", type=_count, help="by default one for each processor; no draw depends on it")
    command.add_argument("--cheats", action="store_true", help="play cheating claimants instead")
    _add_forms(command)
    command.set_defaults(run=_simulate)


def _add_forms(command: argparse.ArgumentParser) -> argparse._MutuallyExclusiveGroup:
    """In which form an answer is given, where not as text."""
    group = command.add_mutually_exclusive_group()
    group.add_argument("--json", action="store_true", help="for programs")
    group.add_argument("--html", type=Path, metavar="FILE", help="write a page with tables and figures instead")
    return group


def _add_rates(command: argparse.ArgumentParser, recall: float = 1.0, truthful: float = 1.0, null: float = 1.0) -> None:
    """What episodes come to; the defaults differ between what is expected and what is declared."""
    group = command.add_argument_group("what episodes come to, as chances")
    for name, default, words in (
        ("p", 0.0, "a challenger recovers the outcome"),
        ("recall", recall, "a positive control succeeds"),
        ("truthful", truthful, "a branch with truthful feedback recovers"),
        ("neutral", 0.0, "a branch with neutral feedback recovers"),
        ("failure", 0.0, "an episode that misses commits nothing"),
        ("loss", 0.0, "an episode, or a pair, is lost to infrastructure"),
    ):
        group.add_argument(f"--{name}", type=_chance, default=default, help=f"{words} ({default:g})")
    group.add_argument(
        "--null",
        type=_chance,
        nargs=2,
        default=(null, null),
        metavar=("REFERENCE", "PROPOSED"),
        help=f"a null branch with the reference and with the neutral channel succeeds ({null:g} {null:g})",
    )


def _chance(text: str) -> float:
    value = float(text)
    if not 0.0 <= value <= 1.0:
        raise argparse.ArgumentTypeError(f"{text} is no chance from 0 to 1")
    return value


def _amount(text: str) -> float:
    value = float(text)
    if not 0.0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is no number from 0 on")
    return value


def _whole(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is less than 0")
    return value


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return value


def _add_bundle(bundle: argparse.ArgumentParser, audit: argparse.ArgumentParser) -> None:
    actions = bundle.add_subparsers(title="actions", required=True, metavar="ACTION")

    command = actions.add_parser("export", parents=[audit], help="write the bundle of a results folder")
    command.add_argument("results", type=Path)
    command.add_argument("out", type=Path, help="the file to write; for dcp-audit the folder to make")
    command.add_argument("--format", choices=["dcpflow", "dcp-audit"], default="dcpflow")
    command.add_argument("--reveal", action="store_true", help="include the nonce and what was sealed")
    command.add_argument("--nonce-file", type=Path, help="the nonce to reveal; by default the configured one")
    command.set_defaults(run=_bundle_export)

    command = actions.add_parser("import", help="make a results folder of a bundle, of dcpflow or of dcp-audit")
    command.add_argument("bundle", type=Path)
    command.add_argument("out", type=Path, help="the folder to make")
    command.set_defaults(run=_bundle_import)


def _add_registry(registry: argparse.ArgumentParser, audit: argparse.ArgumentParser) -> None:
    actions = registry.add_subparsers(title="actions", required=True, metavar="ACTION")
    there = argparse.ArgumentParser(add_help=False, parents=[audit])
    there.add_argument("--registry", metavar="PLACE", help="a folder or an address; by default the configured one")

    command = actions.add_parser("init", help="make an empty registry")
    command.add_argument("folder", type=Path, help="the folder to make")
    command.add_argument("--origin", required=True, help="what it is called, e.g. audits.example.org")
    command.add_argument("--key", type=Path, metavar="FILE.pub", help="the public key that will sign its checkpoints")
    command.add_argument("--by-request", action="store_true", help="its operator adds what audits request")
    command.set_defaults(run=_registry_init)

    command = actions.add_parser("show", parents=[there], help="print its entries")
    command.set_defaults(run=lambda options: _registry(options, "show"))

    command = actions.add_parser("request", parents=[audit], help="print what a registry's operator is to add")
    command.add_argument("results", type=Path, nargs="?", help="the results folder; by default the configured one")
    command.set_defaults(run=_registry_request)

    command = actions.add_parser("add", parents=[there], help="add what an audit has requested")
    command.add_argument("request", type=Path)
    command.set_defaults(run=lambda options: _registry(options, "add", options.request))

    command = actions.add_parser("sign", parents=[there], help="sign a checkpoint of all entries")
    command.add_argument("--key", type=Path, required=True, help="the private key")
    command.set_defaults(run=lambda options: _registry(options, "sign", options.key))

    command = actions.add_parser(
        "check", parents=[there], help="see that nothing was cut or altered; exit 1 where it was"
    )
    command.add_argument("--since", type=Path, metavar="CHECKPOINT", help="an older checkpoint that you have kept")
    command.add_argument(
        "--trust", type=Path, nargs="+", default=[], metavar="FILE.pub", help="keys of which one signed"
    )
    command.set_defaults(run=lambda options: _registry(options, "check", options.since, options.trust))

    command = actions.add_parser("prove", parents=[there], help="print a proof that an entry is in the last checkpoint")
    command.add_argument("entry", type=_count, help="its number")
    command.set_defaults(run=lambda options: _registry(options, "prove", options.entry))

    command = actions.add_parser("proven", help="say what such a proof shows; exit 1 where it shows nothing")
    command.add_argument("proof", type=Path)
    command.add_argument(
        "--trust", type=Path, nargs="+", required=True, metavar="FILE.pub", help="keys of which one signed"
    )
    command.set_defaults(run=_registry_proven)


def _add_task(task: argparse.ArgumentParser, audit: argparse.ArgumentParser) -> None:
    actions = task.add_subparsers(title="actions", required=True, metavar="ACTION")

    command = actions.add_parser("new", help="write an example to start from, with configuration, nonce and test")
    command.add_argument("name", help="of the task: lower-case letters, digits and _")
    command.set_defaults(run=_task_new)

    command = actions.add_parser(
        "check", parents=[audit], help="try a task against all that an audit relies on; exit 1 where it fails"
    )
    command.add_argument(
        "task",
        nargs="?",
        help="with its default settings: a shipped task, path/to/file.py:Class, module:Class or an entry point;"
        " by default the configured task with its settings",
    )
    command.set_defaults(run=_task_check)


# Each command imports what it needs: an episode job must not load what a report does.


def _preflight(options: argparse.Namespace) -> None:
    from dcpflow.stages.preflight import describe  # noqa: PLC0415

    print(describe(_audit(options), options.cores), flush=True)


def _plan_rerun(options: argparse.Namespace) -> None:
    from dcpflow.stages import planned, rerun, rerun_text  # noqa: PLC0415

    audit = _audit(options)
    plan = planned.planned(options.configfile, options.config, options.targets)
    found = rerun.describe(audit, plan.jobs, plan.left)
    print(json.dumps(found.to_json(), indent=2) if options.json else rerun_text.render(found))


def _doctor(options: argparse.Namespace) -> int:
    from dcpflow.report.screen import plain  # noqa: PLC0415
    from dcpflow.stages.doctor import examine  # noqa: PLC0415

    well = True
    for found in examine(options.configfile, options.config):
        well &= found.ok
        text = f"{found.detail}. {found.remedy}" if found.remedy else found.detail
        mark = "ok  " if found.ok else "FAIL"
        print(f"{mark}  {found.name:13}  {plain(text.replace(chr(10), '; '))}", flush=True)
    return 0 if well else 1


def _show(options: argparse.Namespace) -> None:
    from dcpflow.report import screen  # noqa: PLC0415

    path = options.decision or Path(_audit(options).results) / "decision.json"
    print(screen.render(screen.read(path)))
    if known := screen.registry_of(path):
        print(f"\nregistry    {known}")
    if page := screen.report_of(path):
        print(f"\nreport      {page}")


def _report(options: argparse.Namespace) -> int | None:
    from dcpflow.stages.rendering import render  # noqa: PLC0415

    path = options.path or Path(_audit(options).results)
    try:
        output = render(path, options.output, with_times=options.times, with_costs=options.costs)
    except UsageError as error:
        return _bad_usage(error)
    print(f"wrote {output}")
    return None


def _costs(options: argparse.Namespace) -> None:
    from dcpflow.stages import costs  # noqa: PLC0415

    print(costs.render(costs.read(options.results or Path(_audit(options).results))))


def _transcript(options: argparse.Namespace) -> int | None:
    from dcpflow.report import conversation  # noqa: PLC0415
    from dcpflow.stages import transcript  # noqa: PLC0415

    try:
        found = transcript.find(options.results or Path(_audit(options).results), options.episode)
    except UsageError as error:
        return _bad_usage(error)
    print(conversation.raw(found) if options.json else conversation.render(found))
    return None


def _verify(options: argparse.Namespace) -> int:
    from dcpflow.bundles import screen  # noqa: PLC0415
    from dcpflow.bundles.verify import verify  # noqa: PLC0415

    path, nonce_file, data_file = options.path, options.nonce_file, options.data_file
    if path is None:
        audit = _audit(options)
        execution, data_file = audit.config.execution, data_file or audit.data_file
        path = Path(execution.results)
        nonce_file = nonce_file or (Path(execution.nonce_file) if execution.offer is None else None)
    try:
        found = verify(path, _nonce_in(nonce_file))
        if nonce_file:
            from dcpflow.stages.verify import with_task  # noqa: PLC0415

            found = with_task(found, nonce_file, data_file)
        place = options.registry or (_registry_of(options) if options.checkpoint else None)
        if place:
            from dcpflow.stages.registry_proof import with_registry  # noqa: PLC0415

            found = with_registry(found, place, options.checkpoint)
        account = cli_authority.account(options, found, place)
    except UsageError as error:
        return _bad_usage(error)
    if found.ok and options.auditor_key is not None:
        from dcpflow.stages.signed_scores import require_signed  # noqa: PLC0415

        try:
            found = found.with_scores_signed(require_signed(path, options.auditor_key))
        except UsageError as error:
            return _bad_usage(error)
        except DcpflowError as error:
            found = found.failed(error)
    if options.json:
        told = {"certificate": None, "formal_certificate_issued": False}
        told = cli_authority.to_json(account) if account else told
        print(json.dumps({**found.to_json(), **told}, indent=2))
    else:
        print(screen.render(found), file=sys.stdout if found.ok else sys.stderr)
        if account:
            cli_authority.show(account, path)
    return 0 if found.ok and not (account and account.faults) else 1


def _index(options: argparse.Namespace) -> int:
    from dcpflow.bundles.index import index  # noqa: PLC0415
    from dcpflow.report import sheet  # noqa: PLC0415
    from dcpflow.stages import indexing  # noqa: PLC0415

    try:
        signed = indexing.signed(*cli_authority.trusted(options, options.registry))
        rows = [indexing.row(entry) for entry in index(options.paths, signed)]
        if options.parquet:
            indexing.write_parquet(options.parquet, rows)
        if options.csv:
            indexing.write_csv(options.csv, rows)
        if options.html:
            sheet.write(options.html, indexing.page(rows))
    except UsageError as error:
        return _bad_usage(error)
    written = [path for path in (options.parquet, options.csv, options.html) if path]
    for path in written:
        print(f"wrote {path}")
    print(indexing.summary(rows) if written else indexing.render(rows))
    return 0 if indexing.all_hold(rows) else 1


def _registry(options: argparse.Namespace, action: str, *given: Any) -> None:
    """One of the actions on the registry that was given, or configured."""
    from dcpflow.stages import registry_desk  # noqa: PLC0415

    act: Callable[..., str] = getattr(registry_desk, action)
    print(act(options.registry or _registry_of(options), *given))


def _registry_of(options: argparse.Namespace) -> str:
    from dcpflow.stages.registry import OFF  # noqa: PLC0415

    place = _audit(options).registry
    if place == OFF:
        raise UsageError("execution.registry is none", "Give --registry PLACE")
    return place


def _registry_init(options: argparse.Namespace) -> None:
    from dcpflow.stages import registry_desk  # noqa: PLC0415

    print(registry_desk.make(options.folder, options.origin, options.key, by_request=options.by_request))


def _registry_request(options: argparse.Namespace) -> None:
    from dcpflow.stages import registry_desk  # noqa: PLC0415

    print(registry_desk.request(options.results or Path(_audit(options).results)))


def _registry_proven(options: argparse.Namespace) -> None:
    from dcpflow.stages import registry_desk  # noqa: PLC0415

    print(registry_desk.proven(options.proof, options.trust))


def _bundle_export(options: argparse.Namespace) -> int | None:
    from dcpflow.bundles import export, interchange  # noqa: PLC0415

    try:
        if options.format == "dcp-audit":
            if options.reveal:
                raise UsageError("a dcp-audit bundle has no place for what was sealed", "Leave --reveal out")
            made = interchange.export(options.results, options.out)
            print(f"wrote {options.out}: {made.profile}, {made.bundle_id}, Core {made.core}, Evidence {made.evidence}")
            if made.left_out:
                print(f"left out, since such a bundle holds only what decides: {', '.join(made.left_out)}")
            return None
        nonce_file = options.nonce_file if options.reveal else None
        if options.reveal and nonce_file is None:
            nonce_file = Path(_audit(options).config.execution.nonce_file)
        written = export.export(options.results, options.out, _nonce_in(nonce_file))
    except UsageError as error:
        return _bad_usage(error)
    sealed = "what was sealed is revealed" if written.revealed else "what was sealed stays sealed"
    print(f"wrote {options.out}: {written.digest}, {written.members} members, {written.size} bytes; {sealed}")
    return None


def _bundle_import(options: argparse.Namespace) -> int | None:
    from dcpflow.bundles import unpack  # noqa: PLC0415

    try:
        kind = unpack.import_bundle(options.bundle, options.out)
    except UsageError as error:
        return _bad_usage(error)
    print(f"made {options.out} of a {kind.value}; show it with: dcpflow show {options.out}/decision.json")
    return None


def _nonce_in(path: Path | None) -> Any:
    if path is None:
        return None
    from dcpflow.stages.seal import read_nonce  # noqa: PLC0415

    return read_nonce(path)


def _bad_usage(error: UsageError) -> int:
    """Tell an error of the call itself, as the argument parser does: exit code 2."""
    print(f"dcpflow: {shown(error)}", file=sys.stderr)
    return 2


def _init(options: argparse.Namespace) -> int | None:
    from dcpflow.stages.new_project import new_project  # noqa: PLC0415

    try:
        new_project(options.folder)
    except UsageError as error:
        return _bad_usage(error)
    print(
        f"wrote  {options.folder}: an audit that runs as it stands; see its README.md",
        f"next   cd {shlex.quote(str(options.folder))}",
        "       dcpflow doctor",
        "       snakemake --cores 2 results/decision.json",
        "       dcpflow show",
        sep="\n",
    )
    return None


def _task_new(options: argparse.Namespace) -> int | None:
    from dcpflow.stages.new_task import new_task  # noqa: PLC0415

    try:
        made = new_task(options.name)
    except UsageError as error:
        return _bad_usage(error)
    print(
        f"wrote  {made.task}: the task, a working example to change",
        f"       {made.config}: its audit",
        f"       {made.nonce}: the secret of this audit; git ignores it, and nobody else should have it",
        f"       {made.test}: its test",
        *(f"{'' if number else 'next':7}{command}" for number, command in enumerate(_after(made))),
        sep="\n",
    )
    return None


def _after(made: NewTask) -> list[str]:
    """The commands for a new task, as they are given in a checkout, which has a Makefile, or in a project."""
    programs, audit = "", f"snakemake --cores all --configfile {made.config}"
    if Path("Makefile").is_file():
        programs, audit = ".venv/bin/", f"make audit CONFIG={made.config}"
    check, test = f"{programs}dcpflow task check --configfile {made.config}", f"{programs}python -m pytest {made.test}"
    return [check, test, audit]


def _task_check(options: argparse.Namespace) -> int:
    from dcpflow.stages.trying import try_task  # noqa: PLC0415

    if options.task and (options.configfile or options.config):
        return _bad_usage(UsageError("a task and a configuration were given", "Give one of them"))
    if options.task:
        findings = try_task({"name": options.task})
    else:
        audit = _audit(options)
        findings = try_task(audit.parts["task"], audit.data_file)
    for finding in findings:
        print(f"{'ok  ' if finding.ok else 'FAIL'}  {finding.name}: {finding.detail}")
    return 0 if all(finding.ok for finding in findings) else 1


def _cases(options: argparse.Namespace) -> int:
    from dcpflow.report.cases import table  # noqa: PLC0415
    from dcpflow.stages import cases  # noqa: PLC0415

    try:
        chosen = cases.chosen(options.names)
    except UsageError as error:
        return _bad_usage(error)
    rows = []
    for row in cases.run(chosen, options.cores, options.data_folder):
        rows.append(row)
        print(f"{len(rows)} of {len(chosen)}: {row.name}, {row.seconds:.0f} s", file=sys.stderr, flush=True)
    print(table(rows))
    return 0 if all(row.decision for row in rows) else 1


def _data_fetch(options: argparse.Namespace) -> None:
    from dcpflow.stages.fetching import fetch  # noqa: PLC0415

    print(f"wrote {fetch(options.name, options.source)}")


def _plan(options: argparse.Namespace) -> int | None:
    from dcpflow.planning import costs, plan, plan_text  # noqa: PLC0415
    from dcpflow.planning.fragment import fragment, settings  # noqa: PLC0415
    from dcpflow.stages import plan_page  # noqa: PLC0415

    given = {key: getattr(options, name) for name, key in PLANNED.items()}
    given |= {"claim.grade": options.grade, "claim.necessity": options.necessity}
    counts = {name: getattr(options, name) for name in ("challengers", "controls", "pairs", "null_pairs")}
    given_counts = {name: count for name, count in counts.items() if count}
    guess = plan.Guess(_rates(options), options.power, options.spread, given_counts, options.looks)
    try:
        config = plan.altered(_audit(options).config, {key: value for key, value in given.items() if value is not None})
        made = plan.plan(config, guess)
    except UsageError as error:
        return _bad_usage(error)
    seconds = costs.of_pilot(options.pilot) if options.pilot else {}
    seconds |= {"": options.seconds} if options.seconds is not None else {}
    cost = costs.cost(made.episodes, costs.Price(seconds, options.tokens, options.money), options.jobs)
    if options.fragment:
        print(fragment(made), end="")
    elif options.html:
        return _write_page(options.html, plan_page.page(made, guess, cost))
    elif options.json:
        print(json.dumps({**made.to_json(), "cost": cost.to_json(), "config": settings(made)}, indent=2))
    else:
        print(plan_text.render(made, guess, cost))
    return None


def _rates(options: argparse.Namespace) -> Rates:
    from dcpflow.planning.endings import Rates  # noqa: PLC0415

    reference, proposed = options.null
    return Rates(
        recovery=options.p,
        recall=options.recall,
        truthful=options.truthful,
        neutral=options.neutral,
        null_reference=reference,
        null_proposed=proposed,
        failure=options.failure,
        loss=options.loss,
    )


def _sensitivity(options: argparse.Namespace) -> int | None:
    from dcpflow.planning import sensitivity, sensitivity_text  # noqa: PLC0415
    from dcpflow.stages import sensitivity_page  # noqa: PLC0415

    results = options.results or Path(_audit(options).results)
    stored = sensitivity.read(results)
    found = sensitivity.describe(stored)
    if options.html:
        return _write_page(options.html, sensitivity_page.page(found, stored.view.registered))
    print(json.dumps(found.to_json(), indent=2) if options.json else sensitivity_text.render(found, str(results)))
    return None


def _simulate(options: argparse.Namespace) -> int | None:
    from dcpflow.planning import cheats, cheats_text, simulation, simulation_text, stand_in  # noqa: PLC0415
    from dcpflow.stages import cheats_page, simulation_page  # noqa: PLC0415

    config = _audit(options).config
    if options.cheats:
        config = stand_in.looked_at_once(config)
    truth = simulation.Truth(
        _rates(options),
        options.dependence,
        options.noise,
        options.units,
        options.claimed,
        options.baseline,
        options.miss,
    )
    setup = simulation.setup(config, truth, options.checkpoint)
    try:
        if options.cheats:
            played = list(cheats.play(config, setup, options.seed))
            if options.html:
                return _write_page(options.html, cheats_page.page(played, options.seed))
            print(
                json.dumps([one.to_json() for one in played], indent=2) if options.json else cheats_text.render(played)
            )
            return None
        found = simulation.simulate(setup, options.audits, options.seed, options.processes or os.cpu_count() or 1)
    except UsageError as error:
        return _bad_usage(error)
    if options.html:
        return _write_page(options.html, simulation_page.page(found))
    shown = json.dumps(simulation_text.to_json(found), indent=2) if options.json else simulation_text.render(found)
    print(shown)
    return None


def _write_page(path: Path, made: Sheet) -> int | None:
    """Write a page, and say so."""
    from dcpflow.report import sheet  # noqa: PLC0415

    try:
        sheet.write(path, made)
    except UsageError as error:
        return _bad_usage(error)
    print(f"wrote {path}")
    return None


def _seal(options: argparse.Namespace) -> int | None:
    from dcpflow.stages.offering import seal_and_offer  # noqa: PLC0415

    audit = _audit(options)
    try:
        made = seal_and_offer(audit, options.to, options.for_claimant, options.nonce_file)
    except UsageError as error:
        return _bad_usage(error)
    print(
        f"sealed   {options.to}: keep it secret until the last score, and keep it",
        f"offered  {options.for_claimant}: {made.values} values, for the claimant",
        f"contract {made.contract}",
        f"registered {made.registration}",
        sep="\n",
    )
    if audit.config.claim.roles.self_audited:
        print("note     claim.roles.self_audited is true, and the decision will say so")
    return None


def _serve_experiments(options: argparse.Namespace) -> int | None:
    from dcpflow.stages.serving import serve  # noqa: PLC0415

    def ready() -> None:
        print(f"answering experiments in {options.offer}; stop it (Ctrl-C) after the claimant's run", flush=True)

    try:
        serve(options.sealed, options.offer, ready, options.data_file)
    except UsageError as error:
        return _bad_usage(error)
    return None


def _score_for(options: argparse.Namespace) -> int | None:
    from dcpflow.stages import private_keys  # noqa: PLC0415
    from dcpflow.stages.scoring_for import score_for  # noqa: PLC0415

    try:
        signer = private_keys.read_key(options.key, options.theirs) if options.key else None
        workers = os.cpu_count() or 1
        made = score_for(
            options.theirs, options.sealed, options.to, signer, options.data_file, workers, options.registry
        )
    except UsageError as error:
        return _bad_usage(error)
    print(
        f"scored   {made.artifacts} artifacts of {made.episodes} episodes",
        f"answered {made.experiments} experiments, and each stands in a record",
        f"decided  {options.to}/decision.json, {made.decision}",
        f"revealed {options.to}/revealed: nonce, hidden state and sealed units are no secret any more",
        sep="\n",
    )
    if (request := options.to / "registry" / "request.json").exists():
        print(f"to list  {request}: send it to the registry's operator (dcpflow registry add)")
    return None


def _nonce(options: argparse.Namespace) -> None:
    from dcpflow.stages.seal import new_nonce  # noqa: PLC0415

    new_nonce(options.file)
    print(f"wrote {options.file} (mode 0600): keep it secret until the last score, and keep it")


def _config_docs(options: argparse.Namespace) -> int:
    from dcpflow.stages import config_docs  # noqa: PLC0415

    if not Path("src", "dcpflow").is_dir():
        problem = "the files of a configuration are rendered in a checkout of dcpflow's repository alone"
        return _bad_usage(UsageError(problem, "In a project of your own config.yaml is yours"))
    if options.write:
        config_docs.write(options.folder)
        return 0
    drifted = config_docs.check(options.folder)
    for name in drifted:
        print(f"{name} is not what the model in src/dcpflow/protocol gives: run dcpflow config-docs --write")
    return 1 if drifted else 0


def _audit(options: argparse.Namespace) -> Workflow:
    from dcpflow.stages import configuration  # noqa: PLC0415

    return configuration.read(options.configfile, options.config)
