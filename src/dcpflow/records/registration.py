"""The registration on disk: one file for each part, the contract digest C and the registration digest R."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dcpflow.errors import EvidenceError
from dcpflow.protocol.registration import PROSPECTIVE
from dcpflow.records import canonical, files, stagefile

CONTRACT_SCHEMA = "dcpflow.contract/1"
REGISTRATION_SCHEMA = "dcpflow.registration/1"
CONTRACT_PARTS = ("claim", "task", "agent", "information", "limits", "isolation")
PLAN_PARTS = ("design", "thresholds")


@dataclass(frozen=True, slots=True)
class Registered:
    """Registered parts whose digests were recomputed.

    Attributes:
        digest: C for a contract, R for a whole registration.
        contract: C.
        parts: content of each part. ``config`` is what the configuration said; beside it stand the digests
            that bind what the configuration only names (sources, public material, commitments). Beside the design
            stand the strata, if there are any: of each its ``config``, its agent's ``sources`` and its ``contract``;
            beside the claim of a retrospective audit the digest of its ``artifact``.
    """

    digest: str
    contract: str
    parts: dict[str, dict[str, Any]]

    def config(self, part: str) -> dict[str, Any]:
        """What the configuration said in this part."""
        config: dict[str, Any] = self.parts[part]["config"]
        return config

    @property
    def strata(self) -> dict[str, dict[str, Any]]:
        """What was registered of each stratum beside the challengers that decide, by name."""
        strata: dict[str, dict[str, Any]] = self.parts.get("design", {}).get("strata", {})
        return strata

    @property
    def units(self) -> tuple[str, ...]:
        """The sealed units, in the order in which every artifact's scores are listed."""
        return tuple(self.parts["task"]["seal"]["units"])

    @property
    def artifact(self) -> str:
        """Digest of the existing artifact that a retrospective audit is about; empty where a target run makes it.

        The mode decides: a digest beside the claim of a prospective audit stands for nothing.
        """
        if self.config("claim").get("mode", PROSPECTIVE) == PROSPECTIVE:
            return ""
        digest: str = self.parts["claim"]["artifact"]
        return digest

    @property
    def presentation(self) -> str:
        """Hex seed of the presentation that this artifact is written in."""
        seed: str = self.config("claim")["retrospective"]["presentation"]
        return seed

    @property
    def web(self) -> dict[str, Any] | None:
        """What was registered of the Web; None where it is not offered."""
        return self.config("information").get("web")


def part_path(folder: Path, name: str) -> Path:
    """File of one part."""
    return folder / "parts" / f"{name}.json"


def contract_digest(parts: dict[str, dict[str, Any]]) -> str:
    """C: digest over the digests of the contract's parts."""
    return canonical.digest_of({name: canonical.digest_of(parts[name]) for name in CONTRACT_PARTS})


def registration_digest(parts: dict[str, dict[str, Any]]) -> str:
    """R: digest over the digests of all parts."""
    return canonical.digest_of({name: canonical.digest_of(parts[name]) for name in (*CONTRACT_PARTS, *PLAN_PARTS)})


def write_contract(folder: Path, parts: dict[str, dict[str, Any]]) -> str:
    """Write the contract's parts and ``contract.json``; returns C."""
    digest = contract_digest(parts)
    _write_parts(folder, parts, CONTRACT_PARTS)
    body = {"contract": digest, "parts": {name: canonical.digest_of(parts[name]) for name in CONTRACT_PARTS}}
    stagefile.write(folder / "contract.json", CONTRACT_SCHEMA, body)
    return digest


def write_registration(folder: Path, plan: dict[str, dict[str, Any]]) -> Registered:
    """Complete a frozen contract with design and thresholds and write ``registration.json``."""
    contract = read_contract(folder)
    parts = {**contract.parts, **plan}
    digest = registration_digest(parts)
    _write_parts(folder, parts, PLAN_PARTS)
    body = {
        "registration": digest,
        "contract": contract.digest,
        "parts": {name: canonical.digest_of(part) for name, part in parts.items()},
    }
    stagefile.write(folder / "registration.json", REGISTRATION_SCHEMA, body)
    return Registered(digest, contract.digest, parts)


def read_contract(folder: Path) -> Registered:
    """The contract, with every digest recomputed.

    Raises:
        EvidenceError: a part is missing or does not have the digest that the contract names.
    """
    body, _ = stagefile.read(folder / "contract.json", CONTRACT_SCHEMA, "the contract")
    parts = _read_parts(folder, body["parts"], CONTRACT_PARTS)
    digest = contract_digest(parts)
    if digest != body["contract"]:
        raise EvidenceError(f"the contract was altered: {folder / 'contract.json'}", _remedy(folder / "contract.json"))
    return Registered(digest, digest, parts)


def read_registration(folder: Path) -> Registered:
    """The whole registration, with every digest recomputed.

    Raises:
        EvidenceError: as for read_contract, and where the registration belongs to another contract.
    """
    path = folder / "registration.json"
    body, _ = stagefile.read(path, REGISTRATION_SCHEMA, "the registration")
    parts = _read_parts(folder, body["parts"], (*CONTRACT_PARTS, *PLAN_PARTS))
    if registration_digest(parts) != body["registration"] or contract_digest(parts) != body["contract"]:
        raise EvidenceError(f"the registration was altered: {path}", _remedy(path))
    contract = read_contract(folder)
    if contract.digest != body["contract"]:
        raise EvidenceError(f"the registration in {path} is for another contract", _remedy(path))
    return Registered(body["registration"], contract.digest, parts)


def design_part(
    contract: dict[str, dict[str, Any]], design: dict[str, Any], strata: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """The design as it is registered; of strata, which have each a contract of their own, nothing where there are none.

    Args:
        contract: the contract's parts.
        design: what the configuration says of it.
        strata: ``config`` and ``sources`` of each stratum, by name.
    """
    part: dict[str, Any] = {"config": design}
    if strata:
        part["strata"] = {
            name: {**stratum, "contract": contract_digest(_in_place(contract, stratum))}
            for name, stratum in strata.items()
        }
    return part


def of_stratum(registered: Registered, name: str) -> Registered:
    """The registration as a stratum's episodes see it: its agent, limits and number in the place of the matched ones.

    Args:
        registered: a whole registration.
        name: of one of its strata.

    Returns:
        Its digest is that of the whole registration, its contract the stratum's own.

    Raises:
        EvidenceError: the registered contract is not the one that agent and limits give.
    """
    stratum = registered.strata[name]
    own = {"stratum": name, "challengers": stratum["config"]["challengers"]}
    # the looks are at the challengers that decide, and a stratum is looked at once; it has no pairs
    left_out = ("gate2_looks", "neutral_policies", "neutral_policy_pairs")
    design = {key: value for key, value in registered.config("design").items() if key not in left_out} | own
    parts = {**_in_place(registered.parts, stratum), "design": {"config": design}}
    digest = contract_digest(parts)
    if digest != stratum["contract"]:
        raise EvidenceError(f"the stratum {name} is registered with another contract than its agent and limits give")
    return Registered(registered.digest, digest, parts)


def _in_place(parts: dict[str, dict[str, Any]], stratum: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    own = stratum["config"]
    agent, limits = {"config": own["agent"], "sources": stratum["sources"]}, {"config": own["limits"]}
    return {**parts, "agent": agent, "limits": limits}


def _write_parts(folder: Path, parts: dict[str, dict[str, Any]], names: tuple[str, ...]) -> None:
    for name in names:
        files.write_atomic(part_path(folder, name), canonical.encode(parts[name]) + b"\n")


def _read_parts(folder: Path, digests: dict[str, str], names: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    parts = {}
    for name in names:
        path = part_path(folder, name)
        part = canonical.decode(files.read(path, f"the registered part {name!r}", _remedy(path)), str(path))
        if canonical.digest_of(part) != digests.get(name):
            raise EvidenceError(f"the registered part {name!r} was altered: {path}", _remedy(path))
        parts[name] = part
    return parts


def _remedy(path: Path) -> str:
    return f"To make it again from the configuration: rm -f '{path}' and run snakemake again"
