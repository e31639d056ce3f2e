"""Tells what an audit lacks before any of it has run and any money is spent, one line for each thing.

Nothing is written to the results folder. The agent is tried in a throw-away episode, under a nonce of its own, that
ends with the first request that is understood.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from dcpflow.agents import launch_spec
from dcpflow.agents.launch import agent_sources
from dcpflow.episodes import policies
from dcpflow.episodes.channel import Channel
from dcpflow.episodes.episode import hello, speak
from dcpflow.episodes.experiments import connected
from dcpflow.episodes.runner import Ending
from dcpflow.episodes.sandbox import Isolation, refuse_mounted
from dcpflow.episodes.session import Api, Session
from dcpflow.episodes.web import Recorded
from dcpflow.errors import DcpflowError, UsageError
from dcpflow.records import calls, offer, plan
from dcpflow.records.draws import Draws, Nonce
from dcpflow.records.episodes import EpisodeKey
from dcpflow.records.journal import Journal
from dcpflow.records.objects import ObjectStore
from dcpflow.records.packet import Packet
from dcpflow.stages import configuration, spending
from dcpflow.stages.preflight import cost_in_words, in_words, open_sandbox
from dcpflow.stages.seal import new_nonce
from dcpflow.stages.workflow import Workflow
from dcpflow.tasks import conformance, load_task

PATIENCE_SECONDS: Final = 120.0
"""How long the agent may think before its first request, where its episodes are not shorter."""
CALLS: Final = {"chat": 2, "command": 10, "mcp": 10}
"""Most calls to a model before the first request, by the agent's kind: host programs ask for titles and the like."""
EPISODE_BYTES: Final = 256 * 1024
"""Four times what an episode of the built-in agents takes on the disk, with all that follows from it."""
CALL_BYTES: Final = 64 * 1024
"""What the answer to a call of a model is not expected to exceed."""
TOLD: Final = 300


class Finding(NamedTuple):
    """What was looked at.

    Attributes:
        name: what it is.
        ok: whether an audit can run with it.
        detail: what was found, in one line.
        remedy: what to do; empty where all is well.
    """

    name: str
    ok: bool
    detail: str
    remedy: str = ""


def examine(configfiles: Sequence[Path] = (), settings: Sequence[str] = ()) -> Iterator[Finding]:
    """Look at everything that an audit needs; what costs money comes last, and only where the rest is well.

    Args:
        configfiles: files over the default one, as for snakemake.
        settings: settings over the files, as for snakemake.
    """
    try:
        audit = configuration.read(configfiles, settings)
    except DcpflowError as error:
        yield Finding("configuration", False, error.problem, error.remedy)
        return
    claim = audit.config.claim
    yield Finding("configuration", True, f"claim {claim.id}, grade {claim.grade}, {_episodes(audit)} episodes")
    wrong = False
    for name, look in LOOKS.items():
        found = _looked(name, audit, look)
        wrong |= not found.ok
        yield found
    with _aside(audit) as folder:
        try:
            isolation, tests = _sandbox(audit, folder)
        except DcpflowError as error:
            yield Finding("sandbox", False, error.problem, error.remedy)
            return
        yield Finding("sandbox", True, in_words(isolation, tests))
        if wrong:
            yield Finding("answer", False, "the agent was not asked", "Mend what stands above first")
            return
        yield from _asked(audit, isolation, folder)
    for name, stratum in audit.strata.items():
        with _aside(stratum) as folder:
            for found in _of_stratum(stratum, folder):
                yield found._replace(name=f"{name}: {found.name}")


def _of_stratum(stratum: Workflow, folder: Path) -> Iterator[Finding]:
    """What a stratum needs besides: its agent, key and prices, and that the agent answers."""
    found = [_looked(name, stratum, look) for name, look in OF_STRATA.items()]
    yield from found
    if not all(one.ok for one in found):
        yield Finding("answer", False, "the agent was not asked", "Mend what stands above first")
        return
    try:
        isolation, _ = _sandbox(stratum, folder)
    except DcpflowError as error:
        yield Finding("sandbox", False, error.problem, error.remedy)
        return
    yield from _asked(stratum, isolation, folder)


def _looked(name: str, audit: Workflow, look: Callable[[Workflow], str]) -> Finding:
    try:
        return Finding(name, True, look(audit))
    except DcpflowError as error:
        return Finding(name, False, error.problem, error.remedy)


# --- what costs nothing ------------------------------------------------------------------------------------


def _task(audit: Workflow) -> str:
    audit.require_task()
    task = load_task(audit.parts["task"], audit.data_file)
    found = conformance.check(task, conformance.IN_SHORT)
    if broken := [f"{one.name}: {one.detail}" for one in found if not one.ok]:
        raise UsageError(f"the task {task.name} breaks its promises: {'; '.join(broken)}", "See docs/tasks.md")
    return f"{task.name} keeps {len(found)} promises; dcpflow task check tries all"


def _nonce(audit: Workflow) -> str:
    if audit.config.execution.offer is not None:
        folder = Path(audit.config.execution.offer)
        found = offer.read(folder)
        connected(folder).close()
        return f"an auditor's, who has offered {len(found.values)} values of it and answers experiments"
    path = Path(audit.config.execution.nonce_file)
    public = Nonce.read(path).public
    return f"{path} is public: a demonstration, not a discovery" if public else f"{path} is there, for you alone"


def _program(audit: Workflow) -> str:
    agent = audit.config.agent
    sources = agent_sources(audit.parts["agent"])
    return f"{agent.kind} {agent.name} ({agent.model_id}), made of {', '.join(sources)}"


def _libraries(audit: Workflow) -> str:
    agent = audit.config.agent
    needed = {"chat": str(agent.model.api) if agent.model else "", "mcp": "mcp"}.get(agent.kind)
    if not needed:
        return "no further ones are needed"
    if find_spec(needed) is None:
        raise UsageError(f"the library {needed} is not installed", f"python3 -m pip install 'dcpflow[{agent.kind}]'")
    return f"{needed} is there"


def _key(audit: Workflow) -> str:
    model = audit.config.agent.model
    if model is None:
        return "no model is asked through dcpflow"
    if model.key_variable is None:
        return "agent.model.key_variable names none"
    spending.require_key(audit.config)
    return f"{model.key_variable} is set"


def _prices(audit: Workflow) -> str:
    return _priced(audit, _episodes(audit))


def _prices_of_stratum(stratum: Workflow) -> str:
    return _priced(stratum, stratum.count("challengers"))


def _priced(audit: Workflow, episodes: int) -> str:
    model, budget = audit.config.agent.model, audit.config.budget
    here = model is not None and urlsplit(model.base_url).hostname in ("localhost", "127.0.0.1", "::1")
    if model is not None and not here and not (budget.input_usd or budget.output_usd):
        raise UsageError("the prices of the model are missing", "Give budget.input_usd and budget.output_usd")
    return cost_in_words(audit.config, episodes)


def _disk(audit: Workflow) -> str:
    model = audit.config.agent.model
    need = _episodes(audit) * (EPISODE_BYTES + (model.calls * CALL_BYTES if model else 0))
    free = shutil.disk_usage(_standing(Path(audit.results))).free
    told = f"{free / 1e9:.1f} GB free for {audit.results}, about {need / 1e6:.0f} MB needed at most"
    if free < need:
        raise UsageError(told, "Make room, or set execution.results to a folder on a larger disk")
    return told


LOOKS: Final = {
    "libraries": _libraries,
    "task": _task,
    "nonce": _nonce,
    "agent": _program,
    "API key": _key,
    "prices": _prices,
    "disk": _disk,
}


OF_STRATA: Final = {
    "libraries": _libraries,
    "agent": _program,
    "API key": _key,
    "prices": _prices_of_stratum,
}


def _episodes(audit: Workflow) -> int:
    stages = (stage for stage in audit.stages if not plan.STAGES[stage].replaces)
    return sum(audit.count(stage) * len(plan.STAGES[stage].arms) for stage in stages)


def _standing(path: Path) -> Path:
    """The folder, or the first one above it that is there."""
    return next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.is_dir())


@contextmanager
def _aside(audit: Workflow) -> Iterator[Path]:
    """A folder for the throw-away episode: on the disk of the results, whose privacy is tried out, not among them."""
    above = _standing(Path(audit.results).absolute().parent)
    with tempfile.TemporaryDirectory(dir=above, prefix=".dcpflow-doctor-") as folder:
        yield Path(folder)


def _sandbox(audit: Workflow, folder: Path) -> tuple[Isolation, int]:
    refuse_mounted((Path(audit.results), Path(audit.secret)))
    return open_sandbox(audit, folder / "private")


# --- the agent's first turn --------------------------------------------------------------------------------


@dataclass
class FirstTurn(Channel):
    """A conversation that ends with the first request that is understood."""

    @property
    def understood(self) -> bool:
        """Whether there was one."""
        return self.usage["messages"] > self.usage["bad_messages"]

    def hear(self, line: bytes) -> tuple[bytes, bool]:
        """See :class:`Channel`."""
        reply = super().hear(line)
        self.finished |= self.understood
        return reply


def _asked(audit: Workflow, isolation: Isolation, folder: Path) -> Iterator[Finding]:
    """Whether the agent answers, and who did."""
    config = audit.config
    model = config.agent.model
    api = spending.Spending.of(config, at_once=1).api() if model is not None else Api()
    try:
        channel, ending = _answers(audit, isolation, folder, api)
    except DcpflowError as error:
        yield Finding("answer", False, api.redacted(error.problem), error.remedy)
        return
    answered = [call for call in ending.calls if not call.fault]
    cost = sum(map(api.prices.of_call, ending.calls))
    spent = f", {sum(call.tokens for call in ending.calls)} tokens, {cost:.4f} USD" if ending.calls else ""
    if channel.understood:
        yield Finding("answer", True, f"the agent's first request was understood{spent}")
    elif config.agent.kind == "chat" and answered:
        yield Finding("answer", True, f"the model answered, though not by a request that is understood{spent}")
    else:
        yield Finding("answer", False, _why(channel, ending, api), _mend(config.agent.kind))
    if model is None:
        return
    yield _identity(model.model_dump(), config.agent.model_id, ending)


def _answers(audit: Workflow, isolation: Isolation, folder: Path, api: Api) -> tuple[FirstTurn, Ending]:
    """The agent's first turn, as a challenger under a nonce that is thrown away, as its kind of episode runs it."""
    agent, web = audit.parts["agent"], audit.parts["information"].get("web")
    registered = audit.parts["limits"]
    limits = registered | {"wall_seconds": min(registered["wall_seconds"], PATIENCE_SECONDS)}
    new_nonce(folder / "nonce")
    task = load_task(audit.parts["task"], audit.data_file)
    draws, key = Draws(Nonce.read(folder / "nonce"), "none"), EpisodeKey("challengers", 1, "withheld")
    presentation = task.presentation(draws.bytes(key.stage, key.slot, "presentation"))
    policy = policies.constant(task, presentation)
    channel = FirstTurn(policy, limits, Recorded(web, Packet()) if web else None)
    first = hello(task, draws, key, limits, [], web)
    model = agent.get("model")
    session = Session(
        heartbeat=lambda: None,
        journal=Journal(folder, 1),
        objects=ObjectStore(folder / "objects"),
        seed=first["seed"],
        model_id=agent["model_id"],
        model=model | {"calls": min(model["calls"], CALLS[agent["kind"]])} if model else None,
        api=api,
    )
    return channel, speak(session, isolation, launch_spec(agent), limits, channel, first)


def _why(channel: FirstTurn, ending: Ending, api: Api) -> str:
    """Why there was no request, with the end of what the agent wrote to its standard error."""
    said = " ".join(api.redacted(ending.stderr.decode("utf-8", "backslashreplace")).split())[-TOLD:]
    also = f"; it wrote: {said}" if said else ""
    if not ending.started:
        return f"the agent's program could not be started{also}"
    if failed := [call for call in ending.calls if call.fault]:
        fault, status = failed[-1].fault, failed[-1].status
        # a chat has no standard error of its own, and says there what it heard
        told = said if said.startswith(fault) else f"{fault}{f', HTTP status {status}' if status else ''}{also}"
        return f"a call to the model failed: {told}"
    if channel.usage["bad_messages"]:
        return f"the agent's first line was not understood: {channel.transcript[-1]['line'][:TOLD]}{also}"
    if channel.limits_hit:
        return f"the agent sent no request before the limit {channel.limits_hit[0]}{also}"
    end = "closed its output" if ending.exit_code is None else f"ended with exit code {ending.exit_code}"
    return f"the agent {end} without a request{also}"


def _mend(kind: str) -> str:
    if kind == "chat":
        return "Check agent.model: base_url, requested, and the key"
    return "docs/agent-protocol.md says what it is given and must write"


def _identity(model: dict[str, Any], model_id: str, ending: Ending) -> Finding:
    if not any(not call.fault for call in ending.calls):
        return Finding("identity", False, "no model has answered", "Mend what stands above first")
    if strangers := calls.foreign(ending.calls, model, model_id):
        told = f"{strangers[0]!r} has answered, which is not registered"
        return Finding("identity", False, told, "Add it to agent.model.accepted if that is who you audit")
    names = ", ".join(dict.fromkeys(repr(call.model) for call in ending.calls if not call.fault))
    return Finding("identity", True, f"{names} has answered, as registered")
