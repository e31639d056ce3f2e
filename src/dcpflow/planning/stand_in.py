"""An audit of a stand-in task, whole in memory: records, conversations, scores. For trying what checks notice.

Its facts are recomputed from its records by the same questions as the workflow asks (are the draws those of the nonce,
was it told what its stage says, does its channel say what the transcript holds, is every started attempt listed), for a
task so small that the answers fit into this module. So a record can be altered, and the checks see what they would see.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from dcpflow.evidence import decision, folder
from dcpflow.evidence.decision import Outcome
from dcpflow.evidence.facts import AuditFacts
from dcpflow.evidence.view import AuditView, Episode
from dcpflow.planning.synthetic import HIT, PAIR_ENDS, Counts
from dcpflow.records import canonical, packet, plan
from dcpflow.records.checkpoint import SCHEMA as CHECKPOINT
from dcpflow.records.checkpoint import cut
from dcpflow.records.episodes import EpisodeKey, EpisodeRecord
from dcpflow.records.packet import Packet, Page
from dcpflow.records.registration import Registered, contract_digest, registration_digest
from dcpflow.records.scores import ScoreRow

if TYPE_CHECKING:
    from dcpflow.protocol.config import Config

URL: Final = "http://pages.test/"
WORTH: Final = {True: 0.9, False: 0.3}
"""What an artifact scores that recovers, and one that does not; the baseline scores nothing."""

UNITS: Final = ("unit-1",)
TRUTHFUL: Final = frozenset({"target", "truthful"})
ISOLATION: Final = {
    "schema": "dcpflow.isolation-probe/1",
    "backend": "bubblewrap",
    "tests": {"network": "refused", "sealed files": "refused"},
}

Chosen = Callable[[Episode], bool]


@dataclass(frozen=True)
class StandIn:
    """An audit's evidence, and what stands outside of it.

    Attributes:
        view: records and scores.
        registrations: every R in the history, oldest first.
        secret: what draws come from.
        started: attempts that left a trace in the store, by episode; those of ``view`` among them.
        target_runs: started target runs.
    """

    view: AuditView
    registrations: tuple[str, ...]
    secret: str
    started: frozenset[tuple[EpisodeKey, int]]
    target_runs: int = 1

    def decided(self) -> Outcome:
        """The decision with all checks, as the workflow reaches it."""
        config = folder.config_of(self.view.registered)
        return decision.reach(self.view, self.facts, self.episode_facts, self.registrations, config)

    @property
    def episode_facts(self) -> dict[str, dict[str, bool]]:
        """Recomputed facts of each episode, by record digest."""
        return {episode.digest: self._facts(episode) for episode in self.view.episodes}

    def _facts(self, episode: Episode) -> dict[str, bool]:
        record, key = episode.record, episode.key
        drawn = _draw(self.secret, key.stage, key.slot, record.draw["public_randomness"])
        return {
            "draw_matches": record.draw == drawn and record.unit == plan.unit(drawn),
            "hello_matches": episode.hello == _hello(self.view.registered, key, self.view.packet),
            "transcript_replays": _replays(episode),
            "canary_quoted": True,
            "packet_quoted": True,
        }

    @property
    def facts(self) -> AuditFacts:
        """Recomputed facts of the audit."""
        listed = {(e.key, e.record.attempt) for e in self.view.episodes}
        design = self.view.registered.config("design")
        registered = {
            key for stage in self._stages for n in range(plan.slots(stage, design)) for key in plan.keys(stage, n + 1)
        }
        unlisted = [f"{key}, attempt {attempt}" for key, attempt in sorted(self.started - listed)]
        unlisted += [f"{key}, which has no episode" for key in sorted(registered - {key for key, _ in listed})]
        return AuditFacts(
            commitments={"nonce_commitment": True, "hidden_commitment": True, "sealed_commitment": True},
            scoring_order=dict.fromkeys(self.view.scores, True),
            unlisted=unlisted,
            target_runs=self.target_runs,
        )

    @property
    def _stages(self) -> list[str]:
        return [s for phase in self.view.scores for s in plan.PHASES[phase] if not plan.STAGES[s].replaces]

    # --- what may be altered ---

    def with_records(self, chosen: Chosen, change: Callable[[Episode], Episode]) -> StandIn:
        """Change episodes, and with them the digests under which scores know them."""
        changed = {e.digest: change(e) for e in self.view.episodes if chosen(e)}
        names = {old: new.digest for old, new in changed.items()}
        view = replace(
            self.view,
            episodes=tuple(changed.get(e.digest, e) for e in self.view.episodes),
            scores={
                phase: tuple(replace(row, record=names.get(row.record, row.record)) for row in rows)
                for phase, rows in self.view.scores.items()
            },
        )
        return replace(self, view=view)

    def with_scores(self, change: Callable[[ScoreRow], ScoreRow | None]) -> StandIn:
        """Change score rows, or leave them out."""
        rows = {
            phase: tuple(new for row in rows if (new := change(row)) is not None)
            for phase, rows in self.view.scores.items()
        }
        return replace(self, view=replace(self.view, scores=rows))

    def without(self, chosen: Chosen) -> StandIn:
        """Leave episodes out, with their scores and every trace of their start."""
        gone = {e.digest: e.key for e in self.view.episodes if chosen(e)}
        kept = replace(self.view, episodes=tuple(e for e in self.view.episodes if e.digest not in gone))
        started = frozenset((key, n) for key, n in self.started if key not in gone.values())
        return replace(self, view=kept, started=started).with_scores(lambda row: None if row.record in gone else row)

    def registered_as(self, thresholds: Mapping[str, Mapping[str, float]], *, history: bool) -> StandIn:
        """Register other thresholds now; without a ``history`` nothing tells of the earlier registration."""
        parts = dict(self.view.registered.parts)
        config = parts["thresholds"]["config"]
        parts["thresholds"] = {
            "config": {**config, **{name: {**config[name], **new} for name, new in thresholds.items()}}
        }
        registered = Registered(registration_digest(parts), self.view.registered.contract, parts)
        past = self.registrations if history else ()
        return replace(self, view=replace(self.view, registered=registered), registrations=(*past, registered.digest))

    def is_hit(self, episode: Episode) -> bool:
        """Whether an episode's artifact recovers."""
        row = self.view.score_of(episode)
        return row is not None and row.units == (WORTH[True],)


def with_record(episode: Episode, **fields: Any) -> Episode:
    """An episode whose record says something else."""
    record = replace(episode.record, **fields)
    return replace(episode, record=record, digest=canonical.digest(record.to_bytes()))


def with_transcript(episode: Episode, lines: tuple[dict[str, str], ...]) -> Episode:
    """An episode with another conversation, which its record names."""
    return with_record(replace(episode, transcript=lines), transcript=canonical.digest(transcript_bytes(lines)))


def transcript_bytes(lines: tuple[dict[str, str], ...]) -> bytes:
    """A conversation as it would be stored."""
    return b"".join(canonical.encode(line) + b"\n" for line in lines)


# --- the whole audit ---------------------------------------------------------------------------------------


def looked_at_once(config: Config) -> Config:
    """The same configuration with a fixed number of challengers and pairs, all of which are played."""
    gate3 = config.thresholds.gate3.model_copy(update={"bet": None})
    return config.model_copy(
        update={
            "design": config.design.model_copy(update={"gate2_looks": None, "pair_looks": None}),
            "thresholds": config.thresholds.model_copy(update={"gate3": gate3}),
        }
    )


def build(
    config: Config, counts: Counts, secret: str = "", public_randomness: str = "", units: Sequence[str] = UNITS
) -> StandIn:
    """An honest audit whose episodes come to what the counts say.

    Args:
        config: design, without several looks, and thresholds; its task is replaced by the stand-in, which offers one
            page of the Web.
        counts: what episodes come to. Failures, losses and replacements are not played.
        secret: what draws come from.
        public_randomness: as given after registration; empty if none.
        units: names of the sealed units; artifacts are scored on the first one, so that whoever names more has to
            spread their scores (:meth:`StandIn.with_scores`).
    """
    registered = _registered(config, units)
    web = packet.of(
        [Page(URL, 200, "text/plain", packet.NOTHING, canonical.digest(b"page"))], {canonical.digest(b"page"): "page"}
    )
    isolation = canonical.digest_of(ISOLATION)
    episodes: list[Episode] = []
    rows: dict[str, list[ScoreRow]] = {}
    inputs: dict[str, dict[str, str]] = {}
    sealed = {"target": registered.digest}
    phases = {stage: phase for phase, stages in plan.PHASES.items() for stage in stages}
    checkpoint: dict[str, Any] = {}
    for key, hit in _ends(registered.config("design"), counts, registered.config("claim")["grade"]):
        drawn = _draw(secret, key.stage, key.slot, public_randomness)
        lines = _conversation(registered, key, web, hit)
        artifact = _artifact(key, hit)
        record = EpisodeRecord(
            contract=registered.contract,
            registration=registered.digest,
            stage=key.stage,
            stratum=registered.config("design")["stratum"] if key.stage == "challengers" else "",
            slot=key.slot,
            arm=key.arm,
            attempt=1,
            replacement_of="",
            prior_seal=sealed.get(key.stage, registered.digest),
            draw=drawn,
            unit=plan.unit(drawn),
            outcome="artifact",
            reason="committed",
            candidates=[canonical.digest(artifact)],
            quotes={},
            transcript=canonical.digest(transcript_bytes(lines)),
            limits_hit=[],
            usage={"experiments": 1, "commits": 1, "messages": 2, "bad_messages": 0, "bytes": 0, "web_requests": 0},
            packet=web.digest,
            isolation=isolation,
            workspace="",
            calls="",
        )
        digest = canonical.digest(record.to_bytes())
        episodes.append(Episode(record, digest, lines))
        if key.stage == "target":
            sealed["challengers"] = digest
            body = cut(registered.contract, "before_first_experiment", digest, lines, web)
            checkpoint = {**body, "digest": canonical.digest_of({"schema": CHECKPOINT, "body": body})}
            sealed["pairs"] = sealed["pair_replacements"] = checkpoint["digest"]
        phase = phases[key.stage]
        inputs.setdefault(phase, {})[f"{key.stage}/{key.slot}/{key.arm}"] = digest
        found = rows.setdefault(phase, [])
        found.append(_score("candidate", key, WORTH[hit], digest, canonical.digest(artifact)))
        if key.arm == plan.STAGES[key.stage].arms[0] and (key.stage == "target" or plan.STAGES[key.stage].own_instance):
            found += [_score("baseline", key, 0.0), _score("known_solution", key, WORTH[True])]
    view = AuditView(
        registered=registered,
        episodes=tuple(episodes),
        scores={phase: tuple(found) for phase, found in rows.items()},
        score_inputs=inputs,
        inputs={phase: canonical.digest_of(names) for phase, names in inputs.items()},
        checkpoint=checkpoint if "pairs" in rows else {},
        probes={isolation: ISOLATION},
        candidates={
            canonical.digest(a): a
            for key in (e.key for e in episodes)
            for a in (_artifact(key, hit=True), _artifact(key, hit=False))
        },
        packets={web.digest: web},
    )
    started = frozenset((e.key, 1) for e in episodes)
    return StandIn(view, (registered.digest,), secret, started)


def _registered(config: Config, units: Sequence[str]) -> Registered:
    from dcpflow.protocol.config_model import Information  # noqa: PLC0415 - heavy

    parts = {
        name: {"config": part}
        for name, part in config.model_copy(update={"information": Information()}).parts().items()
    }
    parts["task"]["seal"] = {
        "units": list(units),
        "public": {},
        "public_demonstration": "",
        "background": canonical.digest(b"K"),
        "engine": "",
        **{f"{name}_commitment": canonical.digest(name.encode()) for name in ("nonce", "hidden", "sealed")},
    }
    for name in ("task", "agent"):
        parts[name]["sources"] = {}
    return Registered(registration_digest(parts), contract_digest(parts), parts)


def _ends(design: Mapping[str, Any], counts: Counts, grade: str) -> list[tuple[EpisodeKey, bool]]:
    """Every episode in the order of the stages, and whether it recovers."""
    ends = [(EpisodeKey("target", 1, "target"), True)]
    ends += [(EpisodeKey("challengers", n + 1, "withheld"), n < counts.hits) for n in range(design["challengers"])]
    ends += [(EpisodeKey("controls", n + 1, "control"), n < counts.controls) for n in range(design["controls"])]
    if grade == "evidence":
        for stage, of in (("pairs", counts.pairs), ("null_pairs", counts.null_pairs)):
            pairs = [both for both, n in zip(PAIR_ENDS, of, strict=True) for _ in range(n)]
            for slot, both in enumerate(pairs, 1):
                ends += [(key, end == HIT) for key, end in zip(plan.keys(stage, slot), both, strict=True)]
        ends += [
            (EpisodeKey("misled_nulls", n + 1, "misleading"), False) for n in range(design["misled_null_episodes"])
        ]
    return ends


def _draw(secret: str, stage: str, slot: int, public_randomness: str) -> dict[str, str]:
    def drawn(label: str) -> str:
        return hashlib.sha256(f"{secret}/{public_randomness}/{stage}/{slot}/{label}".encode()).hexdigest()

    found = {name: drawn(name) for name in ("presentation", "agent_seed")}
    arms = plan.STAGES[stage].arms
    first = {"first_arm": arms[int(drawn("order"), 16) & 1]} if len(arms) > 1 else {}
    return {**found, "public_randomness": public_randomness, **first}


def _hello(registered: Registered, key: EpisodeKey, web: Packet) -> dict[str, Any]:
    """What an episode has to be told."""
    limits = registered.config("limits")
    return {
        "type": "hello",
        "E0": {"solution": "known"} if plan.STAGES[key.stage].own_instance else {},
        "files": {} if key.stage == "target" else web.files,
        "history": [],
        "budgets": {"experiments": limits["experiments"], "candidates": limits["candidates"]},
    }


def _conversation(registered: Registered, key: EpisodeKey, web: Packet, hit: bool) -> tuple[dict[str, str], ...]:
    """Hello, one experiment and its reply, one commit and its reply."""
    return (
        _line("harness", _hello(registered, key, web)),
        _line("agent", {"action": "experiment"}),
        _line("harness", reply(key)),
        _line("agent", {"action": "commit", "candidate": _artifact(key, hit).decode()}),
        _line("harness", {"ok": True}),
    )


def _line(who: str, message: Mapping[str, Any]) -> dict[str, str]:
    return {"from": who, "line": canonical.encode(message).decode()}


def reply(key: EpisodeKey, value: str = "0.0000") -> dict[str, Any]:
    """What the registered channel answers: the truth where it is truthful, a constant of the same length elsewhere."""
    return {"ok": True, "result": {"value": "0.7312" if key.arm in TRUTHFUL else value}}


def answered(episode: Episode, value: str) -> Episode:
    """An episode whose experiment was answered with another value."""
    told = (
        *episode.transcript[:2],
        _line("harness", {"ok": True, "result": {"value": value}}),
        *episode.transcript[3:],
    )
    return with_transcript(episode, told)


def told(episode: Episode, **fields: Any) -> Episode:
    """An episode whose hello said something else."""
    return with_transcript(episode, (_line("harness", {**episode.hello, **fields}), *episode.transcript[1:]))


def _replays(episode: Episode) -> bool:
    """Whether the registered channel says what the transcript holds, and the record tells of this conversation."""
    committed = []
    for line, after in zip(episode.transcript[1:], episode.transcript[2:], strict=False):
        if line["from"] != "agent":
            continue
        request = json.loads(line["line"])
        if request["action"] == "experiment" and json.loads(after["line"]) != reply(episode.key):
            return False
        if request["action"] == "commit":
            committed.append(canonical.digest(request["candidate"].encode()))
    return episode.record.candidates == committed and (episode.record.outcome == "artifact") == bool(committed)


def _artifact(key: EpisodeKey, hit: bool) -> bytes:
    return f"{key}: {'all of it' if hit else 'a part'}".encode()


def _score(role: str, key: EpisodeKey, worth: float, record: str = "", artifact: str = "") -> ScoreRow:
    return ScoreRow(
        role=role,
        stage=key.stage,
        slot=key.slot,
        arm=key.arm if record else "",
        number=1,
        record=record,
        artifact=artifact or canonical.digest(role.encode()),
        instance=plan.instance(key.stage, key.slot),
        validity="valid",
        reason="",
        units=(worth,),
        position=1,
    )
