"""Runs one claimed episode and commits its record."""

from __future__ import annotations

import base64
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dcpflow.agents import LaunchSpec
from dcpflow.episodes.arms import Arm, Bench, instance_hidden
from dcpflow.episodes.channel import VERSION, Channel
from dcpflow.episodes.runner import Ending, converse
from dcpflow.episodes.sandbox import Isolation
from dcpflow.episodes.session import Api, Session
from dcpflow.episodes.web import Recorded
from dcpflow.episodes.workspace import NOTHING_LEFT, OF_LIMITS, Workspace
from dcpflow.errors import EvidenceError
from dcpflow.records import calls, canonical, packet, plan
from dcpflow.records.calls import Call
from dcpflow.records.draws import Draws
from dcpflow.records.episodes import Claim, EpisodeKey, EpisodeRecord, EpisodeStore
from dcpflow.records.holders import Holder
from dcpflow.records.journal import Journal
from dcpflow.records.objects import ObjectStore
from dcpflow.records.packet import Packet
from dcpflow.tasks.base import Task

if TYPE_CHECKING:
    from dcpflow.episodes.live_web import Recorder

NO_PACKET = Packet()
NO_ANSWER = {
    "timeout": "a call to the model was not answered in time",
    "refused": "the API did not carry out a call to the model",
    "malformed": "an answer of the model's API could not be understood",
}
BUDGETS = ("experiments", "candidates", "wall_seconds", "message_bytes", "candidate_bytes")


@dataclass(frozen=True)
class Laboratory:
    """All that the episodes of one job share.

    Attributes:
        bench: contract, task and draws.
        registration: R at the start of the job.
        spec: how the agent is started; None where it is no program here, but a model elsewhere.
        isolation: where.
        probe: digest of the isolation probe's record.
        history: the prefix of the target run from which branches continue.
        packet: what the target run has seen of the Web; empty before it has run.
        api: what is not registered of a model behind an API.
    """

    bench: Bench
    registration: str
    spec: LaunchSpec | None
    isolation: Isolation
    probe: str
    history: list[dict[str, Any]]
    packet: Packet = NO_PACKET
    api: Api = field(default_factory=Api)

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
    # a built-in agent does the same again if it is started again, so that nothing has to be kept for that
    again = bench.contract.config("agent")["kind"] == "builtin"
    journal = None if again else claim.journal()
    with Arm(bench, key, claim.still_here) as arm, _reading(lab, key, claim.still_here, journal) as web:
        channel = Channel(arm.policy, bench.limits, web)
        first = hello(bench.task, bench.draws, key, bench.limits, lab.history, bench.web, lab.packet)
        ending = _conversation(lab, claim.still_here, channel, first, journal)
    if ending.killed:
        raise EvidenceError(
            f"the sandbox of {key} was killed from outside (out of memory, or by somebody)",
            "Run snakemake again: nothing was recorded, and the episode starts anew",
        )
    agent = bench.contract.config("agent")
    strangers = calls.foreign(ending.calls, agent["model"], agent["model_id"]) if agent.get("model") else []
    outcome, reason = outcome_of(channel, ending, strangers)
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
        calls=lab.objects.put(calls.encode(ending.calls)) if ending.calls else "",
    )
    aside = {
        "host": socket.gethostname(),
        "started": f"{started:.3f}",
        "seconds": f"{time.monotonic() - clock:.4f}",
        "measuring_seconds": f"{arm.seconds:.4f}",
        "late_replies": ending.late_replies,
        "stderr": lab.api.redacted(ending.stderr.decode("utf-8", "backslashreplace")),
    }
    return claim.commit(record, aside, archive)


def _conversation(
    lab: Laboratory,
    heartbeat: Callable[[], None],
    channel: Channel,
    first: dict[str, Any],
    journal: Journal | None,
) -> Ending:
    """Speak with the agent, until one side ends it.

    Of an agent with a journal what was said stands: where a killed job has left it in the middle, a chat goes on, and
    all others end with what they had said.
    """
    agent, spec = lab.bench.contract.config("agent"), lab.spec
    if journal is None:
        assert spec is not None
        return converse(lab.isolation, spec, lab.bench.limits, channel, first, heartbeat)
    session = Session(
        heartbeat=heartbeat,
        journal=journal,
        objects=lab.objects,
        seed=first["seed"],
        model_id=agent["model_id"],
        model=agent.get("model"),
        api=lab.api,
    )
    if spec is not None:
        if heard := [base64.b64decode(entry["heard"]) for entry in journal.earlier if "heard" in entry]:
            return _closed(session, channel, first, heard)
        channel.remember = lambda line: journal.add({"heard": base64.b64encode(line).decode()})
    return speak(session, lab.isolation, spec, lab.bench.limits, channel, first)


def speak(
    session: Session,
    isolation: Isolation,
    spec: LaunchSpec | None,
    limits: Mapping[str, int],
    channel: Channel,
    first: dict[str, Any],
) -> Ending:
    """Speak with an agent of any kind from the first message on, until one side ends it.

    Args:
        session: the attempt.
        isolation: where to start it.
        spec: what to start; None for a model elsewhere.
        limits: the registered limits.
        channel: the conversation's state; holds all that was said when this returns.
        first: the first message.
    """
    if spec is None:
        from dcpflow.episodes.chat import chat  # noqa: PLC0415 - clients of APIs take long to load

        return chat(session, limits, channel, first)
    if spec.doors:
        from dcpflow.episodes.doors import converse_with_doors  # noqa: PLC0415 - likewise

        return converse_with_doors(session, isolation, spec, limits, channel, first)
    return converse(isolation, spec, limits, channel, first, session.heartbeat)


def _closed(session: Session, channel: Channel, first: dict[str, Any], heard: list[bytes]) -> Ending:
    """The end of an attempt that a killed job has left in the middle, with all that it had said."""
    channel.say(first)
    for line in heard:
        if not channel.finished:
            channel.hear(line)
    return Ending(True, False, None, b"", 0, calls=earlier_calls(session), interrupted=True)


def earlier_calls(session: Session) -> tuple[Call, ...]:
    """The calls to the model that the journal of an attempt holds from before it was taken over."""
    entries = (entry["call"] for entry in session.journal.earlier if "call" in entry)
    return tuple(calls.call_of(entry, "the attempt's journal") for entry in entries)


@contextmanager
def _reading(
    lab: Laboratory, key: EpisodeKey, waiting: Callable[[], None], journal: Journal | None
) -> Iterator[Recorder | Recorded | None]:
    """The live Web for the target run, the recorded one for all others, none where none is registered."""
    rules = lab.bench.web
    if rules is None:
        yield None
    elif plan.STAGES[key.stage].live_web:
        from dcpflow.episodes.live_web import live  # noqa: PLC0415 - TLS and all else of the gateway: one job's alone

        with live(rules, lab.objects, waiting, journal) as recorder:
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


def outcome_of(  # noqa: PLR0911 - one return for each kind
    channel: Channel, ending: Ending, strangers: Sequence[str] = ()
) -> tuple[str, str]:
    """What the episode came to. A committed candidate counts whatever happened afterwards, in every arm, unless it is
    another model's.

    Args:
        channel: the conversation.
        ending: how it ended.
        strangers: models that have answered without being registered.
    """
    violation = ending.workspace.violation
    if strangers:
        return "execution_contract_violation", f"a model answered that is not registered: {strangers[0]!r:.100}"
    if channel.candidates:
        return "artifact", "a candidate was committed" + (f"; the workspace held {violation}" if violation else "")
    if not ending.started:
        return "infrastructure_invalid", "the agent's program could not be started"
    if ending.interrupted:
        return "unresolved", "its job was killed after the agent had acted, and it cannot go on where it stopped"
    if calls.lost(ending.calls) and not channel.usage["messages"]:
        return "infrastructure_invalid", "a call to the model was lost on the way before the agent had acted"
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
    if calls.lost(ending.calls):
        return "a call to the model was lost on the way, after the agent had acted"
    if channel.finished:
        return "the agent finished without committing a candidate"
    if ending.exit_code is None:
        last = ending.calls[-1].fault if ending.calls else ""
        if last in NO_ANSWER:
            return NO_ANSWER[last]
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
