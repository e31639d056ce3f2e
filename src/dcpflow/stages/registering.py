"""Freezes the contract, completes the registration and keeps the history of amendments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dcpflow.agents.launch import agent_sources
from dcpflow.episodes import site
from dcpflow.records import history, registration, stagefile
from dcpflow.records.layout import Layout
from dcpflow.stages.seal import SEAL_SCHEMA
from dcpflow.tasks import task_sources


def freeze_contract(results: Path, config: dict[str, dict[str, Any]]) -> None:
    """Write the six contract parts: what the configuration says, bound to sources, public material and commitments.

    Args:
        results: the results folder; the sealed task lies there already.
        config: the six configured sections.
    """
    layout = Layout(results)
    seal, _ = stagefile.read(layout.seal, SEAL_SCHEMA, "the task's seal")
    parts = {name: {"config": config[name]} for name in registration.CONTRACT_PARTS}
    parts["task"] |= {"seal": seal, "sources": task_sources(config["task"])}
    parts["agent"] |= {"sources": agent_sources(config["agent"])}
    if pages := site.sources(config["information"].get("web")):
        parts["information"] |= {"site": pages}
    registration.write_contract(layout.registration, parts)


def register(
    results: Path, design: dict[str, Any], thresholds: dict[str, Any], strata: dict[str, dict[str, Any]]
) -> None:
    """Complete the registration; where it differs from the last one, the history gets an amendment.

    Args:
        results: the results folder; the contract is frozen already.
        design: the configured section.
        thresholds: likewise.
        strata: of each stratum what is registered of it, and its agent's sources.
    """
    layout = Layout(results)
    contract = registration.read_contract(layout.registration)
    registered = registration.write_registration(
        layout.registration,
        {
            "design": registration.design_part(contract.parts, design, strata),
            "thresholds": {"config": thresholds},
        },
    )
    history.append(layout, registered)
