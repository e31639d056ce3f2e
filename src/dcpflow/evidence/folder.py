"""The evidence of a results folder: tables held against records and scores, and the decision that follows.

Neither task, agent nor nonce is needed here: what they have to tell was recorded in the tables and facts.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Never, cast

from dcpflow.errors import EvidenceError
from dcpflow.evidence import decision, facts, gates, looks, rows, tables, view
from dcpflow.evidence import policies as of_policies
from dcpflow.evidence import strata as of_strata
from dcpflow.evidence.checks import Check, Context
from dcpflow.records import beside, canonical, checkpoint, files, history, packet, plan, public, registration, stagefile
from dcpflow.records import receipts as recorded_receipts
from dcpflow.records.layout import Layout
from dcpflow.records.registration import Registered

if TYPE_CHECKING:
    from dcpflow.protocol.config import Config

SCHEMA = "dcpflow.evidence/2"
TABLES = ("episodes", "calls", "candidates", "scores", "controls", "pairs", "null_pairs")
EPISODE_FACTS = tuple(name for name, kind in tables.SCHEMAS["episodes"].items() if kind == "bool")
AGAIN = "Run snakemake again, which makes what a stopped run has left. If that stops here too:"


@dataclass(frozen=True, slots=True)
class Evidence:
    """An audit's evidence, read whole, every digest followed.

    Attributes:
        view: records, scores, checkpoint.
        facts: of the audit as a whole.
        episode_facts: of each episode, by record digest.
        digests: digest of each table's rows.
    """

    view: view.AuditView
    facts: facts.AuditFacts
    episode_facts: dict[str, dict[str, bool]]
    digests: dict[str, str]


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision that was reached from evidence.

    Attributes:
        document: as ``decision.json`` holds it.
        checks: rows of the table of checks.
        evidence: what it was reached from.
    """

    document: dict[str, Any]
    checks: list[rows.Row]
    evidence: Evidence

    def to_bytes(self) -> bytes:
        """The bytes of ``decision.json``."""
        return canonical.encode(self.document) + b"\n"


def receipts(layout: Layout) -> list[Path]:
    """Every receipt of the registered stages, of whatever batches; those of another contract are left out: of an
    earlier one, or of a stratum. So are those of looks that an amendment has replaced."""
    registered = registration.read_registration(layout.registration)
    stages = {stage for phase in _phases(layout).values() for stage in phase.stages}
    paths = _of_contract(layout, sorted(stages), registered.contract)
    return [path for path in paths if _of_a_look(path.relative_to(layout.root), registered.config("design"))]


def _of_a_look(path: Path, design: Mapping[str, Any]) -> bool:
    """Whether a receipt of a stage with looks lies where a registered look has its own, with slots of that look."""
    stage, slots = path.parts[0], recorded_receipts.slots_of(path.name)
    if stage not in plan.LOOKS or slots is None:
        return True
    return any(
        path.parent == Path(plan.look_place(stage, design, number)) and slots[0] in look and slots[1] in look
        for number, look in enumerate(plan.looks(design, stage), 1)
    )


def strata(layout: Layout, registered: Registered) -> dict[str, view.Files]:
    """The files of every registered stratum, by name."""
    contracts = {name: registration.of_stratum(registered, name).contract for name in registered.strata}
    names = history.challengers(history.entries(layout)) if contracts else {}
    return {
        name: view.Files(
            _of_contract(layout, (plan.CHALLENGERS,), contract),
            layout.scores(plan.place(plan.CHALLENGERS, name)),
            names.get(contract, frozenset()),
        )
        for name, contract in contracts.items()
    }


def _of_contract(layout: Layout, stages: Sequence[str], contract: str) -> list[Path]:
    paths = sorted(path for stage in stages for path in (layout.root / stage).rglob("b*.json"))
    return [path for path in paths if recorded_receipts.contract_of(path) == contract]


def scores(layout: Layout) -> dict[str, Path]:
    """The score file of each phase that the registered grade asks for."""
    return {phase: layout.scores(phase) for phase in _phases(layout)}


def _phases(layout: Layout) -> dict[str, plan.Phase]:
    registered = registration.read_registration(layout.registration)
    grade = registered.config("claim")["grade"]
    phases = plan.phases(registered.config("design"), retrospective=bool(registered.artifact))
    return {name: phase for name, phase in phases.items() if grade == "evidence" or not phase.of_gate3}


def load_view(
    layout: Layout, receipt_paths: Sequence[Path], score_paths: Mapping[str, Path], *, whole: bool = True
) -> view.AuditView:
    """Records, scores, checkpoint and Web packet, every digest followed.

    Args:
        layout: where things lie.
        receipt_paths: receipts of the audit's own stages.
        score_paths: the score files of its own phases.
        whole: whether the strata are there too, as they are once all episodes have been scored.

    Raises:
        EvidenceError: something is missing, altered or foreign.
    """
    registered = registration.read_registration(layout.registration)
    branched = any(phase.startswith(plan.PAIRS) for phase in score_paths)
    point = checkpoint.read(layout, registered.contract) if branched else None
    web = packet.read(layout, registered.contract) if registered.web else None
    return view.load(layout, receipt_paths, score_paths, point, web, strata(layout, registered) if whole else {})


def write(
    layout: Layout, seen: view.AuditView, episode_facts: dict[str, dict[str, bool]], audit_facts: facts.AuditFacts
) -> None:
    """Write tables, facts and the manifest with their digests."""
    contents = rows.all_rows(seen, episode_facts)
    digests = {
        name: tables.write(table_path(layout, name), name, contents[name], seen.registered.digest) for name in TABLES
    }
    facts.write(layout.evidence / "facts.json", seen.registered.contract, audit_facts)
    stagefile.write(layout.evidence / "manifest.json", SCHEMA, manifest_body(seen, digests))


def read(layout: Layout, receipt_paths: Sequence[Path], score_paths: Mapping[str, Path]) -> Evidence:
    """Read the evidence and hold the tables against records and scores, and the public material against the contract.

    Raises:
        EvidenceError: something is missing, altered or foreign, or a table is not what records and scores give.
    """
    with _reading(layout, receipt_paths, score_paths) as evidence:
        return evidence


@contextmanager
def _reading(layout: Layout, receipt_paths: Sequence[Path], score_paths: Mapping[str, Path]) -> Iterator[Evidence]:
    """The same; many rows are held against records and scores beside what the block makes of the evidence, and whatever
    comes of the block, a table that is not what they give is told."""
    paths = [table_path(layout, name) for name in TABLES]
    with beside.begun(lambda: _read_tables(layout), paths) as tables_read:
        seen = load_view(layout, receipt_paths, score_paths)
        public.read(layout, seen.registered.parts["task"]["seal"]["public"])
        manifest, _ = stagefile.read(layout.evidence / "manifest.json", SCHEMA, "the evidence manifest")
        found, known = tables_read()
    if missing := [episode for episode in seen.everything if episode.digest not in known]:
        raise EvidenceError(
            f"the table {table_path(layout, 'episodes')} has no row of {missing[0].key}", _again(layout, "episodes")
        )
    audit_facts = facts.read(layout.evidence / "facts.json", seen.registered.contract)
    with beside.begun(lambda: _expected(seen, known), paths) as expected:
        try:
            yield Evidence(seen, audit_facts, known, found)
        finally:
            _hold(layout, seen, found, expected(), manifest, audit_facts)


def _expected(seen: view.AuditView, known: Mapping[str, Mapping[str, bool]]) -> dict[str, str]:
    """The digest of each table's rows as records and scores give them."""
    expected = rows.all_rows(seen, known)
    return {name: tables.rows_digest(name, expected[name]) for name in TABLES}


def _hold(
    layout: Layout,
    seen: view.AuditView,
    found: Mapping[str, str],
    digests: Mapping[str, str],
    manifest: Mapping[str, Any],
    audit_facts: facts.AuditFacts,
) -> None:
    """Hold tables, manifest and facts against records and scores."""
    for name in TABLES:
        _expect(layout, name, found[name], digests[name])
        _expect(layout, name, digests[name], manifest["tables"][name])
    if manifest != manifest_body(seen, digests):
        path = layout.evidence / "manifest.json"
        raise EvidenceError(
            f"the evidence manifest {path} names other scores, tables or contract than those that are here",
            f"{AGAIN} rm -f '{path}' and run snakemake again",
        )
    if (audit_facts.strata.keys(), audit_facts.policies.keys()) != (seen.strata.keys(), seen.policies.keys()):
        path = layout.evidence / "facts.json"
        raise EvidenceError(
            f"the facts {path} are of other strata or neutral policies than those that are registered",
            f"To make them again: rm -f '{path}' and run snakemake again",
        )


def _read_tables(layout: Layout) -> tuple[dict[str, str], dict[str, dict[str, bool]]]:
    """The digest of each table's rows, and what they tell of each episode, by record digest."""
    digests, known = {}, {}
    for name in TABLES:
        found = tables.read(table_path(layout, name), name)
        digests[name] = tables.rows_digest(name, found)
        if name == "episodes":
            known = {row["record"]: {fact: row[fact] for fact in EPISODE_FACTS} for row in found}
    return digests, known


@contextmanager
def _no_search_for_cycles() -> Iterator[None]:
    """What is kept meanwhile grows to a million objects, which would be searched for cycles again and again; there are
    none to be found."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if not gc.get_freeze_count():
                # both together count what was kept as old, and search nothing; what a caller has frozen stays so
                gc.freeze()
                gc.unfreeze()
            gc.enable()


@_no_search_for_cycles()
def decide(layout: Layout, receipt_paths: Sequence[Path], score_paths: Mapping[str, Path]) -> Decided:
    """Reach the decision from the evidence; writes nothing.

    Raises:
        EvidenceError: something is missing, altered or foreign.
    """
    past = history.entries(layout)
    with _reading(layout, receipt_paths, score_paths) as evidence:
        return _decide(layout, past, evidence)


def _decide(layout: Layout, past: Sequence[history.Entry], evidence: Evidence) -> Decided:
    registered = evidence.view.registered
    if not past or past[-1].registration != registered.digest:
        path = layout.registration / "registration.json"
        raise EvidenceError(
            f"the registration in force ({registered.digest}) is not the last of the history in {layout.history}",
            f"To register it: rm -f '{path}' and run snakemake again",
        )
    outcome = _reach(evidence, evidence.view, past)
    document = decision.document(outcome)
    document["rests_on"]["tables"] = evidence.digests
    # back under the first registration nothing is amended: what was tried in between stays in the history, and of
    # strata and neutral policies, which say more than was registered first, in the headline
    since = history.since_the_first_episode(past)
    first, *later = since
    amended = first.registration != registered.digest
    document["registration"]["amendments"] = _amendments(later) if amended else []
    document["confirmatory"] = None
    if amended:
        changes = list(history.changes(first.parts, registered.parts))
        decision.mark_exploratory(document, changes, evidence.view.checkpoint.get("scope", ""))
        document["confirmatory"] = _confirmatory(layout, evidence, past, first)
    gone = (of_strata.no_longer_shown(since), of_policies.no_longer_shown(since))
    decision.complete_headline(document, [text for found in gone for text in found.values()])
    return Decided(document, [_check_row(check) for check in outcome.checks], evidence)


def write_decision(layout: Layout, decided: Decided, registration_digest: str) -> None:
    """Write ``decision.json`` and the table of checks."""
    tables.write(table_path(layout, "checks"), "checks", decided.checks, registration_digest)
    files.write_atomic(layout.decision, decided.to_bytes())


@_no_search_for_cycles()
def verify(layout: Layout, hold: Callable[[Evidence], None] = lambda _: None) -> Decided:
    """Reach the decision of a results folder again and hold it against the one that stands there.

    Follows every digest on the way: registration, history, receipts, records, transcripts, candidates, scores,
    tables, facts.

    Args:
        layout: where things lie.
        hold: holds what was read against something else; of much, beside the decision. What it raises is told last.

    Raises:
        EvidenceError: something is missing, altered or foreign, or the decision does not follow from the evidence.
    """
    remedy = f"To decide again: rm -f '{layout.decision}' and run snakemake again"
    written = files.read(layout.decision, "the decision", remedy)
    past = history.entries(layout)
    paths = [table_path(layout, name) for name in TABLES]
    with (
        _reading(layout, receipts(layout), scores(layout)) as evidence,
        beside.begun(lambda: hold(evidence), paths) as held,
    ):
        decided = _decide(layout, past, evidence)
        if decided.to_bytes() != written:
            raise EvidenceError(f"{layout.decision} is not the decision that its evidence gives", remedy)
        path = table_path(layout, "checks")
        if tables.rows_digest("checks", tables.read(path, "checks")) != tables.rows_digest("checks", decided.checks):
            raise EvidenceError(
                f"the table {path} is not what the evidence gives",
                f"To make it again: rm -f '{path}' '{layout.decision}' and run snakemake again",
            )
        held()
    return decided


def table_path(layout: Layout, name: str) -> Path:
    """The Parquet file of a table."""
    return layout.evidence / f"{name}.parquet"


def config_of(registered: Registered) -> Config:
    """The registered configuration, section by section as attributes; it was validated when it was registered."""
    parts = canonical.encode({name: part["config"] for name, part in registered.parts.items()})
    return cast("Config", json.loads(parts, object_hook=lambda section: _Section(**section)))


class _Section(SimpleNamespace):
    def __getattr__(self, name: str) -> Never:
        raise EvidenceError(
            f"the registration has no key {name!r}: another version of dcpflow wrote it",
            "Decide it with that version, or audit in a new results folder",
        )


def manifest_body(seen: view.AuditView, digests: Mapping[str, str]) -> dict[str, Any]:
    """The body of the evidence manifest."""
    apart = {place: digest for place, part in seen.parts.items() for digest in part.inputs.values()}
    return {"contract": seen.registered.contract, "tables": dict(digests), "scores": {**seen.inputs, **apart}}


def _expect(layout: Layout, name: str, found: str, expected: str) -> None:
    if found != expected:
        raise EvidenceError(
            f"the table {table_path(layout, name)} is not what records and scores give (rows {found}, "
            f"expected {expected})",
            _again(layout, name),
        )


def _again(layout: Layout, name: str) -> str:
    manifest = layout.evidence / "manifest.json"
    return f"{AGAIN} rm -f '{table_path(layout, name)}' '{manifest}' and run snakemake again"


def _reach(evidence: Evidence, seen: view.AuditView, past: Sequence[history.Entry]) -> decision.Outcome:
    registrations = [entry.registration for entry in past]
    config = config_of(seen.registered)
    outcome = decision.reach(seen, evidence.facts, evidence.episode_facts, registrations, config)
    claimed = gates.gate1(seen).claimed
    found = {}
    for name, part in seen.strata.items():
        own, alpha = evidence.facts.strata[name], seen.registered.strata[name]["config"]["alpha"]
        context = Context(part, own, evidence.episode_facts, registrations, config_of(part.registered), outcome.reg)
        found[name] = of_strata.reach(context, claimed, alpha)
    line = decision.recovery_line(seen, outcome.reg)
    policies = {}
    for name, part in seen.policies.items():
        own = evidence.facts.policies[name]
        context = Context(part, own, evidence.episode_facts, registrations, config, outcome.reg)
        policies[name] = of_policies.reach(name, context, claimed, line)
    return replace(outcome, strata=found, policies=policies)


def _amendments(later: Sequence[history.Entry]) -> list[dict[str, Any]]:
    return [
        {
            "sequence": entry.sequence,
            "registration": entry.registration,
            "changes": entry.changes,
            "opened": entry.opened,
        }
        for entry in later
    ]


def _confirmatory(
    layout: Layout, evidence: Evidence, past: Sequence[history.Entry], first: history.Entry
) -> dict[str, Any] | None:
    """The decision under the first registration, which an amendment never replaces.

    Where all of its episodes are here it is reached again from the same evidence; where another contract or fewer
    slots are audited now, it is the decision that was written then, if there was one.
    """
    registered = Registered(first.registration, first.contract, first.parts)
    if first.contract == evidence.view.registered.contract:
        own = evidence.view.restricted(registered)
        same = own.strata.keys() == registered.strata.keys()
        same &= own.policies.keys() == plan.policies(registered.config("design")).keys()
        same &= looks.alike(registered.config("design"), evidence.view.registered.config("design"))
        if same and _whole(evidence, own):
            return decision.document(_reach(evidence, own, past))
    kept = history.kept_decision(layout, first)
    return canonical.decode(kept, "the kept decision") if kept else None


def _whole(evidence: Evidence, own: view.AuditView) -> bool:
    """Whether each registered slot has an episode, in strata and of further neutral policies too; after a look that was
    the end none may have one."""
    design, artifact = own.registered.config("design"), own.registered.artifact
    reg = gates.registration(config_of(own.registered), own.registered.contract, own.checkpoint)
    phases = (phase for name, phase in plan.phases(design, retrospective=bool(artifact)).items() if name in own.scores)
    for stage in {stage for phase in phases for stage in phase.stages if not plan.STAGES[stage].replaces}:
        taken = looks.taken(stage, own, evidence.episode_facts, reg)
        if looks.missing(stage, own, taken) or looks.superfluous(stage, own, taken):
            return False
        if not taken and len({e.record.slot for e in own.of(stage)}) != plan.slots(stage, design):
            return False
    return all(_all_slots(part, plan.stage_of(place)) for place, part in own.parts.items())


def _all_slots(part: view.AuditView, stage: str) -> bool:
    """Whether each registered slot of a stratum or a policy has an episode."""
    registered = plan.slots(stage, part.registered.config("design"))
    return len({episode.record.slot for episode in part.episodes}) == registered


def _check_row(check: Check) -> rows.Row:
    return {
        "name": check.name,
        "result": check.result,
        "needed_for": check.needed_for,
        "reason": check.reason,
        "records": len(check.records),
        "records_digest": canonical.digest_of(list(check.records)),
    }
