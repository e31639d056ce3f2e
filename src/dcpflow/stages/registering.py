"""Freezes the contract, completes the registration and keeps the history of amendments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dcpflow.agents.launch import agent_sources
from dcpflow.episodes import site
from dcpflow.errors import UsageError
from dcpflow.records import history, offer, registration, stagefile
from dcpflow.records.layout import Layout
from dcpflow.stages.seal import SEAL_SCHEMA
from dcpflow.tasks import task_sources

SHOWN = 3


def freeze_contract(results: Path, config: dict[str, dict[str, Any]]) -> None:
    """Write the six contract parts: what the configuration says, bound to sources, public material and commitments.

    Args:
        results: the results folder; the sealed task lies there already.
        config: the six configured sections.
    """
    layout = Layout(results)
    seal, _ = stagefile.read(layout.seal, SEAL_SCHEMA, "the task's seal")
    registration.write_contract(layout.registration, contract_parts(config, seal))


def contract_parts(config: dict[str, dict[str, Any]], seal: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The six contract parts of configured sections and the task's seal, with the sources as they are now."""
    parts = {name: {"config": config[name]} for name in registration.CONTRACT_PARTS}
    parts["task"] |= {"seal": seal, "sources": task_sources(config["task"])}
    parts["agent"] |= {"sources": agent_sources(config["agent"])}
    if pages := site.sources(config["information"].get("web")):
        parts["information"] |= {"site": pages}
    return parts


def plan_parts(
    contract: dict[str, dict[str, Any]],
    design: dict[str, Any],
    thresholds: dict[str, Any],
    strata: dict[str, dict[str, Any]],
) -> dict[str, dict[str, Any]]:
    """The two parts beyond the contract, whose parts are given."""
    part = registration.design_part(contract, design, strata)
    return {"design": part, "thresholds": {"config": thresholds}}


def register(
    results: Path,
    design: dict[str, Any],
    thresholds: dict[str, Any],
    strata: dict[str, dict[str, Any]],
    offered: Path | None = None,
) -> None:
    """Complete the registration; where it differs from the last one, the history gets an amendment.

    Args:
        results: the results folder; the contract is frozen already.
        design: the configured section.
        thresholds: likewise.
        strata: of each stratum what is registered of it, and its agent's sources.
        offered: the folder of an auditor's offer, which is for one registration alone; None where there is none.

    Raises:
        UsageError: the auditor has sealed for another registration.
    """
    layout = Layout(results)
    contract = registration.read_contract(layout.registration).parts
    parts = plan_parts(contract, design, thresholds, strata)
    if offered is not None:
        changes = list(history.changes(offer.read(offered).parts, {**contract, **parts}))
        if changes:
            told = "; ".join(f"{one['key']}: {one['new']!r:.60}, sealed {one['old']!r:.60}" for one in changes[:SHOWN])
            raise UsageError(
                f"the auditor has sealed for another registration than the configured one: {told}",
                "Use the auditor's configuration and version of dcpflow, or give the auditor yours: dcpflow seal",
            )
    registered = registration.write_registration(layout.registration, parts)
    history.append(layout, registered)
