"""What an audit is about to do, said before it does it: episodes, agent, isolation, time, cost."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dcpflow.agents import launch_spec
from dcpflow.episodes.probe import SPEC, passed, probe
from dcpflow.episodes.sandbox import Isolation, open_isolation
from dcpflow.protocol.advice import registration_warnings
from dcpflow.protocol.config import Config
from dcpflow.protocol.registered import to_registration
from dcpflow.records import plan
from dcpflow.records.layout import Layout
from dcpflow.records.packet import places
from dcpflow.stages.workflow import Workflow
from dcpflow.tasks import task_sources

# Seconds of one core that an episode of a built-in agent takes with all that follows from it, and what a run takes
# whatever its size: such that the times of the default audit and of the demo come out.
EPISODE_SECONDS = 0.13
RUN_SECONDS = 8.0


def describe(audit: Workflow, cores: str) -> str:
    """The lines that ``make audit`` shows first.

    Raises:
        UsageError: the registered isolation cannot be had here, or the task, its data, the agent or the nonce is not
            there.
    """
    audit.require_task()
    design, config = audit.parts["design"], audit.config
    counts = {stage: plan.slots(stage, design) for stage in audit.stages if not plan.STAGES[stage].replaces}
    episodes = sum(count * len(plan.STAGES[stage].arms) for stage, count in counts.items())
    layout = Layout(Path(audit.results))
    isolation = in_words(*open_sandbox(audit, layout.hidden.parent))
    strata = [_stratum(name, stratum, layout.hidden.parent) for name, stratum in audit.strata.items()]
    more = sum(stratum.count("challengers") for stratum in audit.strata.values())
    there = os.cpu_count() or 1
    # more jobs than processors wait for each other
    workers = there if cores == "all" else min(int(cores), there)
    seconds = RUN_SECONDS + (episodes + more) * EPISODE_SECONDS / workers
    names = ", ".join(f"{count} {stage.replace('_', ' ')}" for stage, count in counts.items() if stage != "target")
    standing = sum(1 for _ in layout.store.glob("*/*/*/*/*/record.json"))
    lines = [
        f"claim      {config.claim.id}: {config.claim.statement}",
        *_retrospective(config),
        f"episodes   {episodes}: {'no' if config.claim.is_retrospective else 1} target, {names}",
        f"task       {config.task.name}, {len(task_sources(audit.parts['task']))} source files",
        f"agent      {config.agent.kind} {config.agent.name} ({config.agent.model_id})",
        *_web(audit.parts["information"].get("web")),
        f"isolation  {isolation}",
        f"time       about {seconds:.0f} s on {workers} cores, if episodes are as short as the default audit's",
        f"cost       {cost_in_words(config, episodes)}",
        *strata,
        f"results    {audit.results}/decision.json",
    ]
    lines += [f"warning    {warning}" for warning in registration_warnings(to_registration(config))]
    if standing:
        lines.append(f"standing   {standing} episodes are on record in {layout.store} and are kept")
    return "\n".join(lines)


def _retrospective(config: Config) -> list[str]:
    found = config.claim.retrospective
    told = "a challenger may refute the claim, and nothing certifies it"
    return [f"mode       {config.claim.mode}, of {found.artifact_file}: {told}"] if found else []


def _stratum(name: str, stratum: Workflow, private: Path) -> str:
    """A stratum: its challengers, agent and cost; its agent is started in its sandbox as the audited one is."""
    open_sandbox(stratum, private)
    count, agent = stratum.count("challengers"), stratum.config.agent
    return (
        f"stratum    {name}, informative: {count} challengers, {agent.kind} {agent.name} ({agent.model_id}), "
        f"{stratum.config.limits.experiments} experiments; cost: {cost_in_words(stratum.config, count)}"
    )


def cost_in_words(config: Config, episodes: int) -> str:
    """What an audit may cost.

    Args:
        config: its configuration.
        episodes: how many it has, without replacements.
    """
    budget = config.budget
    if config.agent.model is None:
        return "none: the agent calls no paid service"
    if not (budget.input_usd or budget.output_usd):
        return "none that is known: no prices are given"
    prices = f"{budget.input_usd:g} USD to read and {budget.output_usd:g} to write a million tokens"
    if budget.max_usd is not None:
        return f"{prices}; at most {budget.max_usd:g} USD"
    if budget.max_usd_per_episode is not None:
        return f"{prices}; at most {budget.max_usd_per_episode * episodes:g} USD for all episodes"
    return f"{prices}; no limit (budget.max_usd)"


def _web(web: Mapping[str, Any] | None) -> list[str]:
    if not web:
        return []
    named = [f"{scheme}://{host}/" for scheme, host in places(web)]
    own = f" ({web['site']}: pages that ship with dcpflow, served on loopback)" if web["site"] else ""
    return [f"Web        the target run alone may read {', '.join(named)}{own}"]


def open_sandbox(audit: Workflow, private: Path) -> tuple[Isolation, int]:
    """The registered isolation, opened and tried out, with how many ways out of it were tried and refused.

    Args:
        audit: the audit.
        private: where sealed material lies; a canary is laid there meanwhile.

    Raises:
        UsageError: it cannot be had here.
    """
    limits = audit.parts["limits"]
    tests = [0]

    def works(isolation: Isolation) -> bool:
        report = probe(isolation, private, limits)
        tests.append(len(report["tests"]))
        return passed(report)

    spec = launch_spec(audit.parts["agent"])
    isolation = open_isolation(audit.config.isolation.backend, (spec, SPEC) if spec else (SPEC,), works)
    return isolation, tests[-1]


def in_words(isolation: Isolation, tests: int) -> str:
    """An isolation, for people."""
    if isolation.backend == "none":
        return "none: agents run unconfined, so the audit will end inconclusive"
    return f"{isolation.backend}, {tests} ways out tried and refused"
