"""An audit's evidence in memory: large enough to certify, and easy to alter."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pytest

from dcpflow.evidence import checks, decision, folder, gates
from dcpflow.evidence.checks import Check
from dcpflow.evidence.decision import Outcome
from dcpflow.evidence.facts import AuditFacts
from dcpflow.evidence.view import AuditView, Episode
from dcpflow.records import canonical, plan
from dcpflow.records.registration import Registered, registration_digest
from dcpflow.records.scores import ScoreRow

if TYPE_CHECKING:
    from tests.conftest import Audit

Chosen = Callable[[Episode], bool]


@dataclass(frozen=True)
class Case:
    """All that a decision is reached from, and nothing on disk."""

    view: AuditView
    facts: AuditFacts
    episode_facts: Mapping[str, Mapping[str, bool]]
    registrations: tuple[str, ...]

    @cached_property
    def outcome(self) -> Outcome:
        config = folder.config_of(self.view.registered)
        return decision.reach(self.view, self.facts, self.episode_facts, self.registrations, config)

    @cached_property
    def checks(self) -> dict[str, Check]:
        """The checks alone, without the decision that follows."""
        view = self.view
        config = folder.config_of(view.registered)
        reg = gates.registration(config, view.registered.contract, view.checkpoint)
        context = checks.Context(view, self.facts, self.episode_facts, self.registrations, config, reg)
        return {check.name: check for check in checks.run(context)}

    def with_facts(self, **facts: Any) -> Case:
        return replace(self, facts=replace(self.facts, **facts))

    def with_view(self, **fields: Any) -> Case:
        return replace(self, view=replace(self.view, **fields))

    def with_episode_fact(self, name: str, value: bool, chosen: Chosen) -> Case:
        digests = {episode.digest for episode in self.view.episodes if chosen(episode)}
        assert digests
        changed = {d: {**f, name: value} if d in digests else f for d, f in self.episode_facts.items()}
        return replace(self, episode_facts=changed)

    def with_scores(self, change: Callable[[ScoreRow], ScoreRow | None]) -> Case:
        """Change score rows; a row for which None is returned is left out."""
        phases = {
            phase: tuple(new for row in rows if (new := change(row)) is not None)
            for phase, rows in self.view.scores.items()
        }
        return self.with_view(scores=phases)

    def with_config(self, part: str, **keys: Any) -> Case:
        """Register other values; records keep naming what was registered when they began."""
        parts = dict(self.view.registered.parts)
        parts[part] = {**parts[part], "config": _merged(parts[part]["config"], keys)}
        return self.with_view(registered=replace(self.view.registered, parts=parts))

    def with_records(self, chosen: Chosen, change: Callable[[Episode], Episode]) -> Case:
        """Change episodes, and with them the digests under which scores, facts and seals know them."""
        case, target = self, self.view.target
        changed = {e.digest: change(e) for e in self.view.episodes if chosen(e)}
        assert changed
        case = case._renamed(changed)
        if case.view.target.digest != target.digest:
            new = case.view.target.digest
            if case.view.checkpoint:
                case = case.with_view(checkpoint={**case.view.checkpoint, "target_record": new})
            sealed = {
                e.digest: _with_record(e, prior_seal=new)
                for e in case.view.episodes
                if e.record.prior_seal == target.digest
            }
            case = case._renamed(sealed)
        return case

    def with_record_fields(self, chosen: Chosen, **fields: Any) -> Case:
        return self.with_records(chosen, lambda episode: _with_record(episode, **fields))

    def with_hello(self, chosen: Chosen, **fields: Any) -> Case:
        """What the episode was told at its beginning, as its transcript shows it."""

        def change(episode: Episode) -> Episode:
            line = canonical.encode(_merged(episode.hello, fields)).decode()
            return replace(episode, transcript=({"from": "harness", "line": line}, *episode.transcript[1:]))

        return self.with_view(episodes=tuple(change(e) if chosen(e) else e for e in self.view.episodes))

    def with_hit(self, chosen: Chosen) -> Case:
        """Give an episode the claimed artifact's score."""
        (target,) = [row for row in self.view.scores["target"] if row.role == "candidate"]
        digests = {episode.digest for episode in self.view.episodes if chosen(episode)}
        assert digests
        return self.with_scores(lambda row: replace(row, units=target.units) if row.record in digests else row)

    def _renamed(self, changed: Mapping[str, Episode]) -> Case:
        names = {old: new.digest for old, new in changed.items()}
        return replace(
            self.with_scores(lambda row: replace(row, record=names.get(row.record, row.record))).with_view(
                episodes=tuple(changed.get(e.digest, e) for e in self.view.episodes),
                score_inputs={
                    phase: {name: names.get(digest, digest) for name, digest in inputs.items()}
                    for phase, inputs in self.view.score_inputs.items()
                },
            ),
            episode_facts={names.get(digest, digest): facts for digest, facts in self.episode_facts.items()},
        )


def slot(stage: str, number: int, arm: str = "") -> Chosen:
    """Chooses the episodes of one slot."""
    return lambda e: (e.key.stage, e.key.slot) == (stage, number) and arm in {"", e.key.arm}


@pytest.fixture(scope="session")
def at() -> Callable[..., Chosen]:
    """``at(stage, slot)`` or ``at(stage, slot, arm)`` chooses episodes."""
    return slot


@pytest.fixture(scope="session")
def small(finished_audit: Audit) -> Case:
    """The evidence of the finished small audit as it stands."""
    evidence = folder.read(finished_audit.job.layout, finished_audit.receipts, finished_audit.scores)
    return Case(evidence.view, evidence.facts, evidence.episode_facts, (evidence.view.registered.digest,))


@pytest.fixture(scope="session")
def convincing(small: Case, default_settings: dict[str, Any]) -> Case:
    """The small audit's episodes repeated, each with draws of its own, until the default design is filled.

    Core and Evidence are certified. What a test alters is then the only thing that is wrong.
    """
    design = default_settings["design"]
    parts = {**small.view.registered.parts, "design": {"config": design}}
    registered = Registered(registration_digest(parts), small.view.registered.contract, parts)
    # the target first: challengers are sealed by its record
    stages = {
        stage: number
        for stage, kind in plan.STAGES.items()
        if not kind.replaces and (number := plan.slots(stage, design))
    }
    repeated: list[tuple[Episode, Episode]] = []
    for stage, count in stages.items():
        sources = small.view.of(stage)
        arms, have = plan.STAGES[stage].arms, max(e.key.slot for e in sources)
        for number in range(1, count + 1):
            for arm in arms:
                (old,) = [e for e in sources if (e.key.slot, e.key.arm) == ((number - 1) % have + 1, arm)]
                fields: dict[str, Any] = {"slot": number, "registration": registered.digest}
                if stage == "challengers":
                    fields["prior_seal"] = repeated[0][1].digest
                elif stage not in {"pairs", "target"}:
                    fields["prior_seal"] = registered.digest
                if number > have:
                    fields["draw"] = {
                        **old.record.draw,
                        "presentation": hashlib.sha256(f"{stage} {number} presentation".encode()).hexdigest(),
                        "agent_seed": hashlib.sha256(f"{stage} {number} seed".encode()).hexdigest(),
                    }
                    fields["unit"] = plan.unit(fields["draw"])
                    fields["transcript"] = canonical.digest(f"{stage} {number} {arm}".encode())
                new = _with_record(old, **fields)
                if number > have:
                    new = replace(new, transcript=new.transcript[:3])  # hello, one request, its reply
                repeated.append((old, new))
    phase_of = {stage: phase for phase, group in plan.PHASES.items() for stage in group}
    rows: dict[str, list[ScoreRow]] = {phase: [] for phase in plan.PHASES}
    own = {(r.role, r.stage, r.slot): r for group in small.view.scores.values() for r in group if not r.record}
    for old, new in repeated:
        phase, key = phase_of[new.key.stage], new.key
        rows[phase] += [
            replace(row, slot=key.slot, record=new.digest)
            for row in small.view.scores[phase]
            if row.record == old.digest
        ]
        if key.arm == plan.STAGES[key.stage].arms[0]:
            rows[phase] += [
                replace(own[role, key.stage, old.key.slot], slot=key.slot)
                for role in ("baseline", "known_solution")
                if (role, key.stage, old.key.slot) in own
            ]
    episodes = tuple(new for _, new in repeated)
    inputs: dict[str, dict[str, str]] = {phase: {} for phase in plan.PHASES}
    for e in episodes:
        inputs[phase_of[e.key.stage]][f"{e.key.stage}/{e.key.slot}/{e.key.arm}"] = e.digest
    view = replace(
        small.view,
        registered=registered,
        episodes=episodes,
        scores={phase: tuple(group) for phase, group in rows.items()},
        score_inputs=inputs,
        checkpoint={**small.view.checkpoint, "target_record": episodes[0].digest},
    )
    facts = {new.digest: small.episode_facts[old.digest] for old, new in repeated}
    return Case(view, small.facts, facts, (registered.digest,))


@pytest.fixture(scope="session")
def convincing_core(convincing: Case) -> Case:
    """The same without the feedback experiment: Core is certified under grade ``core``."""
    kept = ("target", "challengers", "controls")
    return convincing.with_config("claim", grade="core").with_view(
        checkpoint={},
        episodes=tuple(e for e in convincing.view.episodes if e.key.stage in kept),
        scores={phase: rows for phase, rows in convincing.view.scores.items() if phase in kept},
        score_inputs={phase: names for phase, names in convincing.view.score_inputs.items() if phase in kept},
    )


def _with_record(episode: Episode, **fields: Any) -> Episode:
    record = replace(episode.record, **fields)
    return replace(episode, record=record, digest=canonical.digest(record.to_bytes()))


def _merged(old: dict[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    result = json.loads(json.dumps(old))
    for key, value in new.items():
        both = isinstance(value, Mapping) and isinstance(result.get(key), dict)
        result[key] = _merged(result[key], value) if both else value
    return dict(result)
