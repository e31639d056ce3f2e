"""Freezes the contract, completes the registration and keeps the history of amendments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dcpflow.agents.launch import agent_sources
from dcpflow.episodes import site
from dcpflow.errors import UsageError
from dcpflow.records import canonical, history, offer, registration, stagefile
from dcpflow.records.layout import Layout
from dcpflow.records.objects import ObjectStore
from dcpflow.records.registration import Registered
from dcpflow.stages import registry
from dcpflow.stages.claimed import read_artifact
from dcpflow.stages.seal import SEAL_SCHEMA
from dcpflow.tasks import task_sources

SHOWN = 3


def freeze_contract(results: Path, config: dict[str, dict[str, Any]], artifact_file: Path | None = None) -> None:
    """Write the six contract parts: what the configuration says, bound to sources, public material and commitments.

    Args:
        results: the results folder; the sealed task lies there already.
        config: the six configured sections.
        artifact_file: file with the claimed artifact of a retrospective audit, which is kept among the objects.

    Raises:
        UsageError: it is no text that fits into the registered limits, or cannot be read.
    """
    layout = Layout(results)
    seal, _ = stagefile.read(layout.seal, SEAL_SCHEMA, "the task's seal")
    artifact = read_artifact(artifact_file, config["limits"]["candidate_bytes"]) if artifact_file else None
    if artifact is not None:
        ObjectStore(layout.objects).put(artifact)
    registration.write_contract(layout.registration, contract_parts(config, seal, artifact))


def contract_parts(
    config: dict[str, dict[str, Any]], seal: dict[str, Any], artifact: bytes | None = None
) -> dict[str, dict[str, Any]]:
    """The six contract parts of configured sections and the task's seal, with the sources as they are now.

    Args:
        config: the six configured sections.
        seal: the task's seal.
        artifact: the claimed artifact of a retrospective audit.
    """
    parts: dict[str, dict[str, Any]] = {name: {"config": config[name]} for name in registration.CONTRACT_PARTS}
    if artifact is not None:
        parts["claim"] |= {"artifact": canonical.digest(artifact)}
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
    noted_in: str = registry.OFF,
    offered: Path | None = None,
) -> None:
    """Complete the registration, whose slot is reserved first; where it differs from the last one, history and registry
    get an amendment.

    Args:
        results: the results folder; the contract is frozen already.
        design: the configured section.
        thresholds: likewise.
        strata: of each stratum what is registered of it, and its agent's sources.
        noted_in: the registry's folder or address.
        offered: the folder of an auditor's offer, which is for one registration alone; None where there is none.

    Raises:
        UsageError: the auditor has sealed for another registration.
    """
    layout = Layout(results)
    contract = registration.read_contract(layout.registration)
    parts = plan_parts(contract.parts, design, thresholds, strata)
    whole = {**contract.parts, **parts}
    if offered is not None:
        _require_sealed_for(whole, offered)
    about_to_be = Registered(registration.registration_digest(whole), contract.digest, whole)
    registry.reserve(layout, about_to_be, noted_in)
    registered = registration.write_registration(layout.registration, parts)
    history.append(layout, registered)


def _require_sealed_for(parts: dict[str, dict[str, Any]], offered: Path) -> None:
    changes = list(history.changes(offer.read(offered).parts, parts))
    if changes:
        told = "; ".join(f"{one['key']}: {one['new']!r:.60}, sealed {one['old']!r:.60}" for one in changes[:SHOWN])
        raise UsageError(
            f"the auditor has sealed for another registration than the configured one: {told}",
            "Use the auditor's configuration and version of dcpflow, or give the auditor yours: dcpflow seal",
        )
