"""Everything that an audit's decision rests on, read once, with every digest followed and recomputed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dcpflow.errors import EvidenceError
from dcpflow.records import beside, calls, canonical, packet, plan, receipts, registration, scores, snapshot
from dcpflow.records.calls import Call
from dcpflow.records.checkpoint import cut
from dcpflow.records.episodes import EpisodeKey, EpisodeRecord, EpisodeStore
from dcpflow.records.layout import Layout
from dcpflow.records.objects import ObjectStore
from dcpflow.records.packet import Packet
from dcpflow.records.registration import Registered
from dcpflow.records.scores import ScoreRow
from dcpflow.records.snapshot import Snapshot
from dcpflow.records.transcript import exchanges


@dataclass(frozen=True)
class Episode:
    """A committed episode. What it was told is parsed once: a decision may be reached from it many times.

    Attributes:
        record: its record.
        digest: of the record.
        transcript: every line that passed, the first being the hello.
        calls: what the agent asked its model, and what came of it; none where it asked none through us.
    """

    record: EpisodeRecord
    digest: str
    transcript: tuple[dict[str, str], ...]
    calls: tuple[Call, ...] = ()

    @property
    def key(self) -> EpisodeKey:
        """Where it stands."""
        return self.record.key

    @cached_property
    def hello(self) -> dict[str, Any]:
        """The first message."""
        message: dict[str, Any] = json.loads(self.transcript[0]["line"])
        return message

    def fetches(self) -> list[dict[str, Any]]:
        """What it was shown of the Web, in order: ``{"request", "reply"}`` with the canonical address."""
        return list(self._fetches)

    def replies(self) -> list[dict[str, Any]]:
        """What the harness answered, in order."""
        return list(self._replies)

    @cached_property
    def _fetches(self) -> tuple[dict[str, Any], ...]:
        asked = [line.get("line", "") for line in self.transcript[1:] if line["from"] == "agent"]
        # a request that spells its action otherwise needs an escape for it
        if not any(packet.ACTION in text or "\\" in text for text in asked):
            return ()
        found = (packet.seen(request, reply) for request, reply in exchanges(self.transcript))
        return tuple(one for one in found if one)

    @cached_property
    def _replies(self) -> tuple[dict[str, Any], ...]:
        return tuple(json.loads(line["line"]) for line in self.transcript[1:] if line["from"] == "harness")


@dataclass(frozen=True)
class AuditView:
    """One audit's evidence under its registration.

    Attributes:
        registered: the registration in force.
        episodes: all episodes, stage by stage, slot by slot, a replacement directly behind what it replaces.
        scores: score rows by phase.
        score_inputs: by phase, the record digests that stood before it was scored.
        inputs: digest of each score file, by phase.
        checkpoint: body of the checkpoint, with its own digest under ``digest``; empty without Gate 3.
        probes: isolation probe records by digest.
        candidates: bytes of each committed candidate by digest.
        packets: every Web packet that a record names, by digest.
        strata: the challengers of each stratum beside those that decide, as an audit with the same target run and
            nothing else. They have a contract of their own, and none of them is among ``episodes``.
        policies: the pairs of each neutral policy beside the one that decides, likewise, with the audit's checkpoint.
            Their contract is the audit's, and none of them is among ``episodes`` either.
        claimed: of a stratum or a policy, the target run, which is not among its episodes; None for the audit itself.
        noted: what the registry knew when the audit was started; None where none was asked, and of a stratum.
    """

    registered: Registered
    episodes: tuple[Episode, ...]
    scores: Mapping[str, tuple[ScoreRow, ...]]
    score_inputs: Mapping[str, Mapping[str, str]]
    inputs: Mapping[str, str]
    checkpoint: Mapping[str, Any]
    probes: Mapping[str, Mapping[str, Any]]
    candidates: Mapping[str, bytes]
    packets: Mapping[str, Packet]
    strata: Mapping[str, AuditView] = field(default_factory=dict)
    policies: Mapping[str, AuditView] = field(default_factory=dict)
    claimed: Episode | None = None
    noted: Snapshot | None = None

    @cached_property
    def _scored(self) -> dict[str, ScoreRow]:
        """Best score row of each record."""
        found: dict[str, list[ScoreRow]] = {}
        for row in (row for phase in self.scores.values() for row in phase if row.role == "candidate"):
            found.setdefault(row.record, []).append(row)
        return {record: _best(rows) for record, rows in found.items()}

    @cached_property
    def _own(self) -> dict[tuple[str, str, int], ScoreRow]:
        """Valid scores of the task's own artifacts by role, stage and slot."""
        return {
            (row.role, row.stage, row.slot): row
            for phase in self.scores.values()
            for row in phase
            if row.role != "candidate" and row.validity == "valid"
        }

    @cached_property
    def units(self) -> tuple[str, ...]:
        """The sealed units, in registered order."""
        return self.registered.units

    @cached_property
    def _by_stage(self) -> dict[str, list[Episode]]:
        found: dict[str, list[Episode]] = {}
        for episode in self.episodes:
            found.setdefault(episode.record.stage, []).append(episode)
        return found

    def of(self, *stages: str) -> list[Episode]:
        """The episodes of some stages, in the order in which the audit has them."""
        if len(stages) == 1:
            return [*self._by_stage.get(stages[0], ())]
        return [episode for episode in self.episodes if episode.record.stage in stages]

    @cached_property
    def target(self) -> Episode | None:
        """The target run; None in a retrospective audit, which has none."""
        if self.registered.artifact:
            return None
        if self.claimed is not None:
            return self.claimed
        (target,) = self.of("target")
        return target

    @property
    def claim_seal(self) -> str:
        """What had to be fixed before any challenger: the digest of the target's record, or of the claimed artifact."""
        return self.target.digest if self.target else self.registered.artifact

    @property
    def claimed_score(self) -> ScoreRow | None:
        """The score of A*."""
        if self.target:
            return self.score_of(self.target)
        return next((row for row in self.scores[plan.TARGET] if row.role == "claimed"), None)

    @property
    def claimed_presentation(self) -> str:
        """Hex seed of the presentation that A* is written in."""
        return self.target.record.draw["presentation"] if self.target else self.registered.presentation

    @property
    def public_randomness(self) -> str:
        """What was mixed into the draws; empty where nothing was."""
        return next((episode.record.draw["public_randomness"] for episode in self.episodes), "")

    @property
    def parts(self) -> dict[str, AuditView]:
        """What decides nothing, strata and further neutral policies, by the stage that the tables give its rows."""
        strata = {plan.place(plan.CHALLENGERS, name): part for name, part in self.strata.items()}
        return strata | {plan.POLICIES[name]: part for name, part in self.policies.items()}

    @property
    def everything(self) -> tuple[Episode, ...]:
        """All episodes, behind the audit's own those that decide nothing."""
        return (*self.episodes, *(episode for part in self.parts.values() for episode in part.episodes))

    @property
    def packet(self) -> Packet:
        """What the target run has seen of the Web; empty where it is not offered."""
        return self.packets.get(self.target.record.packet, Packet()) if self.target else Packet()

    def score_of(self, episode: Episode) -> ScoreRow | None:
        """The score of the episode's best candidate: the first valid one with the highest mean, else the last.

        None where the episode came to something else: what a model committed that is not registered is scored too, and
        is nobody's result.
        """
        return self._scored.get(episode.digest) if episode.record.outcome == "artifact" else None

    def own_score(self, role: str, stage: str, slot: int) -> ScoreRow | None:
        """The valid score of the task's ``baseline`` or ``known_solution`` on a slot's instance."""
        return self._own.get((role, stage, slot))

    def seals(self, stage: str) -> set[str]:
        """What the records of a stage that may be looked at more than once can have as prior seal: what had to be fixed
        before it, or, in a later look, the scores of the look before."""
        first = self.claim_seal if stage == plan.CHALLENGERS else self.checkpoint["digest"]
        looked = (plan.of_look(phase) for phase in self.inputs)
        return {first, *(self.inputs[plan.look_phase(*look)] for look in looked if look and look[0] == stage)}

    def restricted(self, registered: Registered) -> AuditView:
        """The same evidence under another registration of the same contract, with its slots, phases, strata and neutral
        policies alone.

        A stratum that is not on record under the contract that it has there is left out, and so is a policy that is
        not on record.
        """
        strata = {name: registration.of_stratum(registered, name) for name in registered.strata}
        design = registered.config("design")
        slots = {stage: plan.slots(stage, design) for stage in plan.STAGES}
        phases = [phase for phase in plan.phases(design) if phase in self.scores]
        kept = tuple(episode for episode in self.episodes if episode.record.slot <= slots[episode.record.stage])
        return replace(
            self,
            registered=registered,
            episodes=kept,
            scores={
                phase: tuple(row for row in self.scores[phase] if row.slot <= slots[row.stage]) for phase in phases
            },
            strata={
                name: self.strata[name].restricted(own)
                for name, own in strata.items()
                if name in self.strata and self.strata[name].registered.contract == own.contract
            },
            policies={
                name: self.policies[name].restricted(registered)
                for name in plan.policies(design)
                if name in self.policies
            },
            score_inputs={phase: self.score_inputs[phase] for phase in phases},
            inputs={phase: self.inputs[phase] for phase in phases},
        )


def _best(rows: list[ScoreRow]) -> ScoreRow:
    valid = [row for row in rows if row.validity == "valid"]
    return max(valid, key=_mean) if valid else rows[-1]


_mean = attrgetter("mean")


@dataclass(frozen=True, slots=True)
class Files:
    """Where the files of a stratum lie.

    Attributes:
        receipts: every receipt of its contract.
        scores: its score file.
        names: all names under which its contract was ever registered.
    """

    receipts: Sequence[Path]
    scores: Path
    names: Set[str] = frozenset()


def load(
    layout: Layout,
    receipt_paths: Iterable[Path],
    score_paths: Mapping[str, Path],
    checkpoint: tuple[Mapping[str, Any], str] | None,
    web: Mapping[str, Any] | None = None,
    strata: Mapping[str, Files] = MappingProxyType({}),
) -> AuditView:
    """Read an audit's evidence.

    Args:
        layout: where things lie.
        receipt_paths: every receipt.
        score_paths: the score file of each phase; none before anything is scored.
        checkpoint: body and digest of the checkpoint, or None without Gate 3.
        web: the file that names the Web packet, or None where the Web is not offered.
        strata: the files of each stratum, by name.

    Raises:
        EvidenceError: something is missing, altered, foreign, or stands twice; the message names it and the
            command that restores it.
    """
    registered = registration.read_registration(layout.registration)
    seen = _load(layout, registered, receipt_paths, score_paths)
    _check_packet(layout, registered, seen.episodes, web)
    if checkpoint:
        _check_checkpoint(layout, registered, seen.episodes, checkpoint[0], seen.packets)
        seen = replace(seen, checkpoint={**checkpoint[0], "digest": checkpoint[1]})
    seen = _apart(seen)
    found = {name: _stratum(layout, seen, name, of) for name, of in strata.items()}
    return replace(seen, strata=found, noted=snapshot.read(layout.registration))


def _apart(seen: AuditView) -> AuditView:
    """The pairs of further neutral policies taken out of the audit's own evidence, each to a view of its own: there no
    gate, check or bound can meet them."""
    stages = plan.policies(seen.registered.config("design"))
    if not stages:
        return seen
    own = [phase for phase in seen.scores if phase not in stages.values()]
    policies = {
        name: replace(_of_phases(seen, [stage]), claimed=seen.target)
        for name, stage in stages.items()
        if stage in seen.scores
    }
    return replace(_of_phases(seen, own), policies=policies)


def _of_phases(seen: AuditView, phases: Sequence[str]) -> AuditView:
    """What is scored in some phases, with what is common to all."""
    names = {name for phase in phases for name in seen.score_inputs[phase]}
    return replace(
        seen,
        episodes=tuple(e for e in seen.episodes if _name(e) in names),
        scores={phase: seen.scores[phase] for phase in phases},
        score_inputs={phase: seen.score_inputs[phase] for phase in phases},
        inputs={phase: seen.inputs[phase] for phase in phases},
    )


def _stratum(layout: Layout, audit: AuditView, name: str, of: Files) -> AuditView:
    """The challengers of a stratum. One that has a name which their contract had before is shown, and comes to nothing
    (G2.1): a contract holds no name, so that what is renamed, or was the audit's own before, has its episodes already.
    """
    registered = registration.of_stratum(audit.registered, name)
    seen = _load(layout, registered, of.receipts, {plan.CHALLENGERS: of.scores})
    for episode in seen.episodes:
        if episode.record.stage != plan.CHALLENGERS or episode.record.stratum not in {name, *of.names}:
            store = EpisodeStore(layout.store, registered.contract)
            raise EvidenceError(
                f"the record of {episode.key} under the contract of the stratum {name} says that it is of another "
                f"one ({episode.record.stratum!r:.40})",
                store.run_again(episode.key, episode.record.attempt),
            )
    return replace(
        seen,
        packets={**audit.packets, **seen.packets},
        candidates={**audit.candidates, **seen.candidates},
        claimed=audit.target,
    )


def _load(
    layout: Layout, registered: Registered, receipt_paths: Iterable[Path], score_paths: Mapping[str, Path]
) -> AuditView:
    """The episodes of one contract, with their scores and all that their records name."""
    paths = {phase: score_paths[phase] for phase in plan.phases(registered.config("design")) if phase in score_paths}

    def read() -> dict[str, scores.Phase]:
        return {phase: scores.read(path, registered.contract, registered.units) for phase, path in paths.items()}

    with beside.begun(read, paths.values(), scores.to_bytes, scores.from_bytes) as scored:
        return _load_with(scored, layout, registered, receipt_paths, score_paths)


def _load_with(
    scored: Callable[[], Mapping[str, scores.Phase]],
    layout: Layout,
    registered: Registered,
    receipt_paths: Iterable[Path],
    score_paths: Mapping[str, Path],
) -> AuditView:
    """The same with what reads the scores, which takes the longest."""
    store = EpisodeStore(layout.store, registered.contract)
    objects = ObjectStore(layout.objects)
    design = registered.config("design")
    listed: dict[EpisodeKey, str] = {}
    found: dict[EpisodeKey, EpisodeRecord] = {}
    for path in receipt_paths:
        for line in receipts.read(path, registered.contract):
            if line.key.slot > plan.slots(line.key.stage, design):
                continue
            if listed.setdefault(line.key, line.record) != line.record:
                raise EvidenceError(f"the receipt {path} lists another record of {line.key} than others", _again(path))
            if line.key in found:
                continue
            record = receipts.resolve(line, store, path)
            if record.contract != registered.contract:
                remedy = store.run_again(line.key, line.attempt)
                raise EvidenceError(f"the record of {line.key} belongs to another contract", remedy)
            found[line.key] = record
    ordered = _in_order([found[key] for key in sorted(found, key=_place)])
    episodes = tuple(_open(record, listed[record.key], objects, store) for record in ordered)
    for record in ordered:
        if record.workspace:
            # no check rests on it, but what a record names has to be there
            _object(record.workspace, f"the list of what {record.key} left in its workspace", record, objects, store)
    phases = scored()
    if score_paths:
        _check_scores(registered, episodes, phases, score_paths)
    packets = _packets(episodes, objects, store)
    return AuditView(
        registered=registered,
        episodes=episodes,
        scores={phase: tuple(rows) for phase, (_, rows, _) in phases.items()},
        score_inputs={phase: inputs for phase, (inputs, _, _) in phases.items()},
        inputs={phase: digest for phase, (_, _, digest) in phases.items()},
        checkpoint={},
        probes={
            digest: json.loads(objects.get(digest, "the isolation probe's record"))
            for digest in {episode.record.isolation for episode in episodes}
        },
        candidates={
            digest: _object(digest, f"the candidate of {episode.key}", episode.record, objects, store)
            for episode in episodes
            for digest in episode.record.candidates
        }
        | _claimed(layout, registered, objects),
        packets=packets,
    )


def _claimed(layout: Layout, registered: Registered, objects: ObjectStore) -> dict[str, bytes]:
    """The claimed artifact of a retrospective audit, by its digest."""
    digest = registered.artifact
    remedy = _again(layout.registration / "contract.json")
    return {digest: objects.get(digest, "the claimed artifact", remedy)} if digest else {}


def _place(key: EpisodeKey) -> tuple[int, int, int]:
    """Order of the stages as declared, of the slots by number, of the arms as declared."""
    return list(plan.STAGES).index(key.stage), key.slot, plan.STAGES[key.stage].arms.index(key.arm)


def _open(record: EpisodeRecord, digest: str, objects: ObjectStore, store: EpisodeStore) -> Episode:
    what = f"the transcript of {record.key}"
    lines = _object(record.transcript, what, record, objects, store).splitlines()
    # read at once, which is many times as fast as line by line, and the same where each line is an object
    transcript = canonical.decode(b"[" + b",".join(lines) + b"]", what)
    whole = all(line[:1] == b"{" and line[-1:] == b"}" for line in lines)
    if not whole or len(transcript) != len(lines) or not all(isinstance(line, dict) for line in transcript):
        remedy = store.run_again(record.key, record.attempt)
        raise EvidenceError(f"{what} has a line that is no JSON object", remedy)
    return Episode(record, digest, tuple(transcript), _calls(record, objects, store))


def _object(digest: str, what: str, record: EpisodeRecord, objects: ObjectStore, store: EpisodeStore) -> bytes:
    """An object that a record names; where it is missing or altered, the error says how to run the episode again."""
    try:
        return objects.get(digest, what)
    except EvidenceError as error:
        raise EvidenceError(error.problem, store.run_again(record.key, record.attempt)) from None


def _calls(record: EpisodeRecord, objects: ObjectStore, store: EpisodeStore) -> tuple[Call, ...]:
    """The calls of an episode to its model; that every answer is there, too, which no check reads."""
    if not record.calls:
        return ()
    what = f"the list of calls that {record.key} made"
    found = calls.decode(_object(record.calls, what, record, objects, store), what)
    for call in found:
        if call.response:
            _object(call.response, f"what a model answered in {record.key}", record, objects, store)
    return tuple(found)


def _again(path: Path) -> str:
    return f"To make it again: rm -f '{path}' and run snakemake again"


def _in_order(records: Sequence[EpisodeRecord]) -> list[EpisodeRecord]:
    """The records with each replacement pair directly behind the pair that it replaces (G3.1)."""
    replacing: dict[str, list[EpisodeRecord]] = {}
    for record in records:
        if record.replacement_of:
            replacing.setdefault(record.replacement_of, []).append(record)
    ordered: list[EpisodeRecord] = []

    def place(pair: list[EpisodeRecord]) -> None:
        ordered.extend(pair)
        if next_pair := replacing.get(f"{pair[0].stage}/{pair[0].slot}"):
            place(next_pair)

    slots: dict[tuple[str, int], list[EpisodeRecord]] = {}
    for record in records:
        if not record.replacement_of:
            slots.setdefault((record.stage, record.slot), []).append(record)
    for pair in slots.values():
        place(pair)
    return ordered


def _packets(episodes: Sequence[Episode], objects: ObjectStore, store: EpisodeStore) -> dict[str, Packet]:
    named = {e.record.packet: e for e in episodes if e.record.packet}
    return {
        digest: packet.load(objects, digest, store.run_again(e.key, e.record.attempt)) for digest, e in named.items()
    }


def _check_packet(
    layout: Layout, registered: Registered, episodes: Sequence[Episode], body: Mapping[str, Any] | None
) -> None:
    """The packet that was handed on is the one that the target's record names."""
    target = next((episode for episode in episodes if episode.key.stage == "target"), None)
    if body is None or target is None:
        return
    if body != packet.body(registered.contract, target.digest, target.record.packet):
        raise EvidenceError(
            f"the Web packet {layout.packet} is not the one that the target's record names", _again(layout.packet)
        )


def _check_checkpoint(
    layout: Layout,
    registered: Registered,
    episodes: Sequence[Episode],
    body: Mapping[str, Any],
    packets: Mapping[str, Packet],
) -> None:
    """The checkpoint is the one that the registered rule cuts from the target's transcript."""
    target = next(episode for episode in episodes if episode.key.stage == "target")
    rule = registered.config("information")["checkpoint"]
    web = packets.get(target.record.packet, Packet())
    if body != cut(registered.contract, rule, target.digest, target.transcript, web):
        raise EvidenceError(
            f"the checkpoint {layout.checkpoint} is not what its rule cuts from the target's transcript",
            _again(layout.checkpoint),
        )


def _name(episode: Episode) -> str:
    """How score files call an episode."""
    record = episode.record
    return f"{record.stage}/{record.slot}/{record.arm}"


def _check_scores(
    registered: Registered,
    episodes: Sequence[Episode],
    phases: Mapping[str, tuple[Mapping[str, str], list[ScoreRow], str]],
    paths: Mapping[str, Path],
) -> None:
    """Each phase was scored on exactly those of the standing records that are its own, each candidate once, and an
    artifact that no episode has committed only where it was registered."""
    standing = {_name(e): e for e in episodes}
    own = plan.phases(registered.config("design"), retrospective=bool(registered.artifact))
    for phase, (inputs, _, _) in phases.items():
        foreign = (name for name in inputs if name not in standing or not own[phase].holds(standing[name].key))
        if strange := next(foreign, None):
            raise EvidenceError(
                f"{paths[phase]} was made from {strange}, which is no episode of that phase", _again(paths[phase])
            )
    scored = {name: (digest, phase) for phase, (inputs, _, _) in phases.items() for name, digest in inputs.items()}
    for name, episode in standing.items():
        if name not in scored:
            raise EvidenceError(f"the episode {name} was committed but not scored", "Run snakemake again")
        if scored[name][0] != episode.digest:
            path = paths[scored[name][1]]
            raise EvidenceError(f"{path} was made from another record of {name} than the one that stands", _again(path))
    wanted = {(e.digest, number, c) for e in episodes for number, c in enumerate(e.record.candidates, 1)}
    for phase, (inputs, rows, _) in phases.items():
        records = set(inputs.values())
        for row in rows:
            if row.role == "candidate":
                if (row.record, row.number, row.artifact) not in wanted or row.record not in records:
                    raise EvidenceError(
                        f"{paths[phase]} scores a candidate of {row.stage} slot {row.slot} that no record holds",
                        _again(paths[phase]),
                    )
                wanted.discard((row.record, row.number, row.artifact))
    if wanted:
        digest, number, _ = sorted(wanted)[0]
        key = next(e.key for e in episodes if e.digest == digest)
        raise EvidenceError(
            f"candidate {number} of {key} has no score", "Remove the scores folder, run snakemake again"
        )
    for phase, (_, rows, _) in phases.items():
        expected = [registered.artifact] if registered.artifact and phase == plan.TARGET else []
        if [row.artifact for row in rows if row.role == "claimed"] != expected:
            raise EvidenceError(
                f"{paths[phase]} does not score the registered artifact, and no other that no episode has committed",
                _again(paths[phase]),
            )
