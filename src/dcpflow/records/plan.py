"""What an episode of each stage is: its arms, the instance that it works on, and what its E0 reveals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from dcpflow.records.canonical import digest_of
from dcpflow.records.draws import Draws
from dcpflow.records.episodes import EpisodeKey
from dcpflow.records.packet import Packet

MAIN = "main"
CANARY = "canary.txt"


@dataclass(frozen=True, slots=True)
class Stage:
    """One kind of episodes.

    Attributes:
        arms: the arms of one slot; two arms are a pair and run in a drawn order.
        own_instance: whether each slot works on a hidden state of its own, which its E0 reveals.
        branch: whether its episodes continue from the checkpoint.
        canary: whether the agent is given a random file to quote, and has to quote a page of the Web packet too.
        replaces: the stage whose infrastructure-invalid pairs this stage replaces, else empty.
        count: key of the registered design that says how many slots there are; one slot where empty.
        policy: the further neutral policy that its second arm has; empty for all but such pairs. How many slots it has
            the registered design says by policy.
        live_web: whether its fetches reach the Web; all others are answered from what these have seen.
    """

    arms: tuple[str, ...]
    own_instance: bool = False
    branch: bool = False
    canary: bool = False
    replaces: str = ""
    count: str = ""
    policy: str = ""
    live_web: bool = False

    @property
    def single(self) -> bool:
        """Whether it has one slot, whatever is registered."""
        return not (self.count or self.policy)


def _of_policy(policy: str) -> Stage:
    return Stage(("truthful", policy), branch=True, policy=policy)


STAGES: Mapping[str, Stage] = {
    "target": Stage(("target",), live_web=True),
    "challengers": Stage(("withheld",), count="challengers"),
    "controls": Stage(("control",), own_instance=True, canary=True, count="controls"),
    "pairs": Stage(("truthful", "neutral"), branch=True, count="pairs"),
    "pair_replacements": Stage(("truthful", "neutral"), branch=True, replaces="pairs", count="pair_replacements"),
    "null_pairs": Stage(("reference_null", "proposed_sham"), own_instance=True, count="null_pairs"),
    "null_pair_replacements": Stage(
        ("reference_null", "proposed_sham"),
        own_instance=True,
        replaces="null_pairs",
        count="null_pair_replacements",
    ),
    "misled_nulls": Stage(("misleading",), own_instance=True, count="misled_null_episodes"),
    "pairs_reference_null": _of_policy("reference_null"),
    "pairs_lagged_sham": _of_policy("lagged_sham"),
}

POLICIES: Mapping[str, str] = {kind.policy: stage for stage, kind in STAGES.items() if kind.policy}
"""The stage of the pairs of each neutral policy beside the one that decides. A name of its own gives them draws of
their own, under the audit's contract."""
PAIRED = ("pairs", "pair_replacements", *POLICIES.values())
"""Stages of feedback pairs. Whatever reads the audit's own evidence finds none of a further policy there."""

PHASES: Mapping[str, tuple[str, ...]] = {
    "target": ("target",),
    "challengers": ("challengers",),
    "controls": ("controls",),
    "pairs": ("pairs", "pair_replacements", "null_pairs", "null_pair_replacements", "misled_nulls"),
}
"""The stages that are scored together, once all of their episodes are committed."""

TARGET, CHALLENGERS, PAIRS = "target", "challengers", "pairs"
LOOKS = {CHALLENGERS: "gate2_looks", PAIRS: "pair_looks"}
"""Stages that may be looked at more than once, with the key of the registered design that says when."""


@dataclass(frozen=True, slots=True)
class Phase:
    """What is scored together.

    Attributes:
        stages: its stages.
        slots: the slots of a look; None for all slots of the stages.
    """

    stages: tuple[str, ...]
    slots: range | None = None

    @property
    def of_gate3(self) -> bool:
        """Whether its stages belong to the feedback experiment."""
        return bool(self.stages) and set(self.stages) <= {*PHASES[PAIRS], *POLICIES.values()}

    def holds(self, key: EpisodeKey) -> bool:
        """Whether an episode is scored in it."""
        return key.stage in self.stages and (self.slots is None or key.slot in self.slots)


def looks(design: Mapping[str, Any], stage: str) -> list[range]:
    """The slots of a stage, look by look; one look where no more are registered."""
    ends = design.get(LOOKS[stage]) or [slots(stage, design)]
    return [range(first + 1, last + 1) for first, last in pairwise([0, *ends])]


def looks_bind(design: Mapping[str, Any], stage: str) -> bool:
    """Whether registered looks are two or more, rise, and end at all slots of the stage, so that none is left out.

    A configuration with others is refused where it is loaded; a registration may have been written by hand.
    """
    ends = design[LOOKS[stage]]
    rising = all(one < other for one, other in pairwise([0, *ends]))
    return len(ends) > 1 and rising and ends[-1] == slots(stage, design)


def look_phase(stage: str, look: int) -> str:
    """The phase in which a look is scored, where several are registered; ``look`` counts from 1."""
    return f"{stage}-{look}"


def of_look(phase: str) -> tuple[str, int] | None:
    """Stage and number of the look that is scored in a phase; None for a phase without looks."""
    stage, _, look = phase.partition("-")
    return (stage, int(look)) if look else None


def phases(design: Mapping[str, Any], *, retrospective: bool = False) -> dict[str, Phase]:
    """The phases of an audit in order: those of :data:`PHASES`, and for each of several looks one of its own.

    What is scored together with pairs, which are looked at more than once, is a phase of its own then: ``null_pairs``.
    So are the pairs of each further neutral policy, by the name of their stage.

    Args:
        design: the registered design.
        retrospective: whether the claimed artifact is there already: no episode is scored in the phase ``target`` then.
    """
    found: dict[str, Phase] = {}
    for name, stages in PHASES.items():
        if name in LOOKS and design.get(LOOKS[name]):
            for number, within in enumerate(looks(design, name), 1):
                found[look_phase(name, number)] = Phase((name,), within)
            if others := tuple(stage for stage in stages if stage != name):
                found["null_pairs"] = Phase(others)
        else:
            found[name] = Phase(() if retrospective and name == TARGET else stages)
    return found | {stage: Phase((stage,)) for stage in policies(design).values()}


def policies(design: Mapping[str, Any]) -> dict[str, str]:
    """The registered neutral policies beside the one that decides, with the stage of their pairs."""
    registered = design.get("neutral_policy_pairs", {})
    return {policy: stage for policy, stage in POLICIES.items() if policy in registered}


def place(stage: str, stratum: str) -> str:
    """Where a stage's receipts lie, and what the tables call the stage of a stratum that does not decide."""
    return f"{stage}/{stratum}" if stratum else stage


def stratum_of(place: str) -> str:
    """The stratum that a place names; empty for a stage or a phase of the audit itself."""
    return place.partition("/")[2]


def stage_of(place: str) -> str:
    """The stage, of a stratum or of the audit itself."""
    return place.partition("/")[0]


def look_place(stage: str, design: Mapping[str, Any], look: int) -> str:
    """Where the receipts of a look lie, by its number; those of later looks have folders of their own."""
    own = place(stage, design["stratum"] if stage == CHALLENGERS else "")
    return f"{own}/look-{look}" if look > 1 else own


def slots(stage: str, design: Mapping[str, Any]) -> int:
    """How many slots of this stage are registered."""
    kind = STAGES[stage]
    if kind.policy:
        return int(design.get("neutral_policy_pairs", {}).get(kind.policy, 0))
    return int(design[kind.count]) if kind.count else 1


def keys(stage: str, slot: int) -> list[EpisodeKey]:
    """The slot's episodes, one for each arm, in the order in which tables list them."""
    return [EpisodeKey(stage, slot, arm) for arm in STAGES[stage].arms]


def instance(stage: str, slot: int) -> str:
    """Name of the hidden state that the slot works on."""
    return f"{stage}-{slot:05d}" if STAGES[stage].own_instance else MAIN


def draw(draws: Draws, stage: str, slot: int) -> dict[str, str]:
    """The slot's draws, as records hold them. Both arms of a pair share presentation and agent seed."""
    drawn = {
        "presentation": draws.hex(stage, slot, "presentation"),
        "agent_seed": draws.hex(stage, slot, "agent seed"),
        "public_randomness": draws.public_randomness,
    }
    arms = STAGES[stage].arms
    if len(arms) > 1:
        drawn["first_arm"] = arms[draws.bytes(stage, slot, "order")[0] & 1]
    return drawn


def running_order(stage: str, slot: int, drawn: Mapping[str, str]) -> list[EpisodeKey]:
    """The slot's episodes in the order in which they run."""
    return sorted(keys(stage, slot), key=lambda key: key.arm != drawn.get("first_arm"))


def unit(drawn: Mapping[str, str]) -> str:
    """The independent unit: episodes with the same presentation and seed are copies of one draw."""
    return digest_of({"presentation": drawn["presentation"], "agent_seed": drawn["agent_seed"]})


def canary_text(draws: Draws, stage: str, slot: int) -> str:
    """A random file for one episode to quote; proves that its materials could be read."""
    return "".join(f"{draws.hex(stage, slot, f'canary {line}')}\n" for line in range(4))


def to_quote(draws: Draws, stage: str, slot: int, packet: Packet) -> dict[str, str]:
    """The files that an episode has to quote, by name: its canary file, and one drawn page of the Web packet."""
    if not STAGES[stage].canary:
        return {}
    pages = list(packet.named)
    drawn = int.from_bytes(draws.bytes(stage, slot, "page to quote"))
    page = {pages[drawn % len(pages)]} if pages else set()
    return {CANARY: canary_text(draws, stage, slot), **{name: packet.files[name] for name in page}}
