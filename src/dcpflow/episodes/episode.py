"""Runs one claimed episode and commits its record."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dcpflow.agents import LaunchSpec
from dcpflow.episodes.arms import Arm, Bench, instance_hidden
from dcpflow.episodes.channel import VERSION, Channel
from dcpflow.episodes.runner import Ending, converse
from dcpflow.episodes.sandbox import Isolation
from dcpflow.episodes.web import Recorded
from dcpflow.episodes.workspace import NOTHING_LEFT, OF_LIMITS, Workspace
from dcpflow.errors import EvidenceError
from dcpflow.records import canonical, packet, plan
from dcpflow.records.draws import Draws
from dcpflow.records.episodes import Claim, EpisodeKey, EpisodeRecord, EpisodeStore
from dcpflow.records.holders import Holder
from dcpflow.records.objects import ObjectStore
from dcpflow.records.packet import Packet
from dcpflow.tasks.base import Task

if TYPE_CHECKING:
    from dcpflow.episodes.live_web import Recorder

NO_PACKET = Packet()
BUDGETS = ("experiments", "candidates", "wall_seconds", "message_bytes", "candidate_bytes")


@dataclass(frozen=True)
class Laboratory:
    """All that the episodes of one job share.

    Attributes:
        bench: contract, task and draws.
        registration: R at the start of the job.
        spec: how the agent is started.
        isolation: where.
        probe: digest of the isolation probe's record.
        history: the prefix of the target run from which branches continue.
        packet: what the target run has seen of the Web; empty before it has run.
    """

    bench: Bench
    registration: str
    spec: LaunchSpec
    isolation: Isolation
    probe: str
    history: list[dict[str, Any]]
    packet: Packet = NO_PACKET

    @cached_property
    def objects(self) -> ObjectStore:
        """The object store."""
        return ObjectStore(self.bench.layout.objects)


def settle(
    laboratory: Callable[[], Laboratory],
    store: EpisodeStore,
    key: EpisodeKey,
    prior_seal: str,
    replacement_of: str = "",
    stratum: str = "",
) -> bytes:
    """The committed record of one episode; runs it unless it stands already.

    Args:
        laboratory: called only where an episode has to run.
        store: the episode store.
        key: the episode.
        prior_seal: digest of what had to be fixed before it may start.
        replacement_of: the pair that its pair replaces, else empty.
        stratum: challenger stratum, else empty.
    """
    claim = store.claim(key, waiting=lambda holder: _say_waiting(key, holder))
    if isinstance(claim, bytes):
        return claim
    return _run(laboratory(), claim, prior_seal, replacement_of, stratum)


def _say_waiting(key: EpisodeKey, holder: Holder) -> None:
    print(f"{key} is being run by process {holder.pid} on {holder.host}: waiting for its record", flush=True)


def _run(lab: Laboratory, claim: Claim, prior_seal: str, replacement_of: str, stratum: str) -> bytes:
    key, bench = claim.key, lab.bench
    drawn = plan.draw(bench.draws, key.stage, key.slot)
    started, clock = time.time(), time.monotonic()
    with Arm(bench, key, claim.still_here) as arm, _reading(lab, key, claim.still_here) as web:
        channel = Channel(arm.policy, bench.limits, web)
        first = hello(bench.task, bench.draws, key, bench.limits, lab.history, bench.web, lab.packet)
        ending = converse(lab.isolation, lab.spec, bench.limits, channel, first, claim.still_here)
    if ending.killed:
        raise EvidenceError(
            f"the sandbox of {key} was killed from outside (out of memory, or by somebody)",
            "Run snakemake again: nothing was recorded, and the episode starts anew",
        )
    outcome, reason = outcome_of(channel, ending)
    archive = web.store() if web else b""
    transcript = b"".join(canonical.encode(line) + b"\n" for line in channel.transcript)
    record = EpisodeRecord(
        contract=bench.contract.digest,
        registration=lab.registration,
        stage=key.stage,
        stratum=stratum,
        slot=key.slot,
        arm=key.arm,
        attempt=claim.attempt,
        replacement_of=replacement_of,
        prior_seal=prior_seal,
        draw=drawn,
        unit=plan.unit(drawn),
        outcome=outcome,
        reason=reason,
        candidates=[lab.objects.put(candidate) for candidate in channel.candidates],
        quotes={name: canonical.digest(text) for name, text in sorted(channel.quotes.items())},
        transcript=lab.objects.put(transcript),
        limits_hit=channel.limits_hit,
        usage=channel.usage,
        packet=web.packet.digest if web else "",
        isolation=lab.probe,
        workspace=_kept(lab.objects, ending.workspace),
    )
    aside = {
        "host": socket.gethostname(),
        "started": f"{started:.3f}",
        "seconds": f"{time.monotonic() - clock:.4f}",
        "measuring_seconds": f"{arm.seconds:.4f}",
        "late_replies": ending.late_replies,
        "stderr": ending.stderr.decode("utf-8", "backslashreplace"),
    }
    return claim.commit(record, aside, archive)


@contextmanager
def _reading(lab: Laboratory, key: EpisodeKey, waiting: Callable[[], None]) -> Iterator[Recorder | Recorded | None]:
    """The live Web for the target run, the recorded one for all others, none where none is registered."""
    rules = lab.bench.web
    if rules is None:
        yield None
    elif plan.STAGES[key.stage].live_web:
        from dcpflow.episodes.live_web import live  # noqa: PLC0415 - TLS and all else of the gateway: one job's alone

        with live(rules, lab.objects, waiting) as recorder:
            yield recorder
    else:
        yield Recorded(rules, lab.packet)


def hello(
    task: Task,
    draws: Draws,
    key: EpisodeKey,
    limits: Mapping[str, int],
    history: list[dict[str, Any]],
    web: Mapping[str, Any] | None = None,
    observed: Packet = NO_PACKET,
) -> dict[str, Any]:
    """The first message: all that the agent is given besides the channel's answers.

    Args:
        task: the task.
        draws: the audit's draws.
        key: the episode.
        limits: the registered limits.
        history: what branches continue from; given to branches alone.
        web: what was registered of the Web; None where it is not offered.
        observed: what the target run has seen of it; given to all but the target run.
    """
    stage = plan.STAGES[key.stage]
    drawn = plan.draw(draws, key.stage, key.slot)
    presentation = task.presentation(bytes.fromhex(drawn["presentation"]))
    reveal = instance_hidden(task, draws, key) if stage.own_instance else None
    given = Packet() if stage.live_web else observed
    quoted = plan.to_quote(draws, key.stage, key.slot, given)
    budgets = {name: limits[name] for name in BUDGETS} | ({packet.BUDGET: web["requests"]} if web else {})
    actions = task.action_schemas() | ({packet.ACTION: packet.schema(web)} if web else {})
    return {
        "type": "hello",
        "version": VERSION,
        "K": task.background(),
        "E0": task.first_observations(presentation, reveal=reveal, quote=sorted(quoted)),
        "files": given.files | quoted,
        "history": history if stage.branch else [],
        "budgets": budgets,
        "actions": actions,
        "seed": drawn["agent_seed"],
    }


def outcome_of(channel: Channel, ending: Ending) -> tuple[str, str]:
    """What the episode came to. A committed candidate counts whatever happened afterwards, in every arm."""
    violation = ending.workspace.violation
    if channel.candidates:
        return "artifact", "a candidate was committed" + (f"; the workspace held {violation}" if violation else "")
    if not ending.started:
        return "infrastructure_invalid", "the agent's program could not be started"
    if violation and not (channel.limits_hit and violation in OF_LIMITS):
        return "execution_contract_violation", f"the workspace held {violation}"
    if channel.limits_hit:
        return (
            "model_failure",
            f"no candidate was committed before the limit {channel.limits_hit[0]} was reached",
        )
    return "model_failure", _how_it_ended(channel, ending)


def _how_it_ended(channel: Channel, ending: Ending) -> str:
    """How an agent that reached no limit came to commit nothing."""
    if channel.finished:
        return "the agent finished without committing a candidate"
    if ending.exit_code is None:
        return "the agent closed its output without committing a candidate"
    return f"the agent ended with exit code {ending.exit_code} without committing a candidate"


def _kept(objects: ObjectStore, workspace: Workspace) -> str:
    """Digest of the manifest of what was left in the workspace; empty where that is nothing, as it mostly is."""
    return objects.put(workspace.manifest()) if workspace != NOTHING_LEFT else ""


def check_draw(record: EpisodeRecord, draws: Draws) -> None:
    """Stop where a standing record was drawn otherwise than this run would draw it.

    Raises:
        EvidenceError: the nonce or the public randomness is not the one that the record was made with.
    """
    if record.draw != plan.draw(draws, record.stage, record.slot):
        raise EvidenceError(
            f"the record of {record.key} was drawn with another nonce or other public randomness than this run uses",
            "Give the earlier value again (execution.nonce_file, execution.public_randomness), "
            "or audit in a new results folder",
        )
