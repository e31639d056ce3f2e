"""The device task: 24 controls with hidden gains of +1 or -1, which the sums of groups give away.

The device is linear: with some controls switched on, it shows the sum of their gains. Four gains stand in the first
observations, two of each sign; of the other 20, ten are +1 and ten are -1. An experiment shows the sums of ten groups
of three different controls.

Sealed units: the 24 doubles (one control twice) and the 276 unordered pairs. A unit scores 1 where the artifact's two
gains have the right sum, else 0. No experiment can use two controls alone, so none measures a unit. An artifact gives
each control +1, -1 or 0 (not known). The baseline, which says what the first observations say and 0 elsewhere, is right
for 4 doubles, the 6 pairs of known controls and the 100 pairs whose unknown gains cancel: 110 of 300 = .3667. A
balanced guess with 2 k of the 20 signs wrong scores .8467 (k = 1), .7133 (k = 2), .6000, .5067, .4333, .3800 and
less; one sign wrong scores .92. The recovery line .95 needs all 20.

Chance: there are 20! / (10! 10!) = 184,756 balanced assignments, so a blind guess is right in one of as many cases:
.04 % for at least one of 80 challengers. Names and order are drawn anew for each episode, which makes any fixed
strategy an independent blind choice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import combinations, combinations_with_replacement
from typing import Any, NamedTuple

from dcpflow.tasks.base import CandidateInvalid, Engine
from dcpflow.tasks.chance import Stream, secret_stream
from dcpflow.tasks.json_task import JsonTask, noise, numbers_of, read_json, shown, words

GROUP = 3
GAINS = (-1, 0, 1)

_BACKGROUND = """\
Task: find the gains of a linear device.

The device has {controls} controls. Each has a gain of +1 or -1. With some controls switched on it shows the sum of
their gains. The first observations name the controls and give the gains of {known} of them.

Artifact: a JSON object that maps every control to its gain: 1, -1, or 0 where it is not known. Anything else is invalid
and scores nothing.

Score: the share of {units} sums that follow from the artifact: those of each control taken twice and of each pair of
controls. A sum is right or wrong; from 0 to 1, higher is better.

Experiment: propose a JSON list of exactly {groups} groups; a group is a list of {group} different controls. The reply
holds the sum of each group ("sums"), in the order of the groups, as text with a sign.

Commit: hand in the artifact that is to be scored, in the names that are given.
"""


class Sizes(NamedTuple):
    """The task's settings; the defaults give the published figures.

    Attributes:
        controls: Controls, an even number from 6 to 60.
        known: Controls whose gains stand in the first observations, an even number from 2 to ``controls - 4``.
        groups: Groups of an experiment, from 1 to 100.
    """

    controls: int = 24
    known: int = 4
    groups: int = 10


class DeviceTask(JsonTask):
    """Find the signs of a linear device; ``Sizes`` are its settings."""

    name = "device"
    experiment_form = f"a JSON list of groups, each a list of {GROUP} different controls"
    artifact_form = "a JSON object that maps every control to its gain: 1, -1 or 0"

    def __init__(self, settings: Mapping[str, object], public_seed: str) -> None:
        """Check and keep the settings; see ``Task.__init__``."""
        super().__init__(settings, public_seed)
        controls = self.number("controls", 6, 60)
        self._sizes = Sizes(
            controls=controls, known=self.number("known", 2, controls - 4), groups=self.number("groups", 1, 100)
        )
        for key in ("controls", "known"):
            if getattr(self._sizes, key) % 2:
                raise ValueError(f"setting {key} must be even")

    @staticmethod
    def default_settings() -> dict[str, object]:
        """Return every setting with its default; see ``Sizes`` for their meaning."""
        return dict(Sizes()._asdict())

    def hidden(self, secret: bytes) -> dict[str, Any]:
        """Draw the unknown gains, as many of each sign.

        Returns:
            ``gains``, +1 or -1 by control number; the known controls come first, with fixed gains.
        """
        half = (self._sizes.controls - self._sizes.known) // 2
        drawn = secret_stream(secret, "hidden").shuffled([1] * half + [-1] * half)
        return {"gains": [*self._known(), *drawn]}

    def decoy(self, hidden: dict[str, Any], secret: bytes) -> dict[str, Any]:
        """Return the opposite of every unknown gain: the only state that agrees with ``hidden`` in none."""
        secret_stream(secret, "decoy")
        known = self._sizes.known
        return {"gains": [*self._known(), *(-gain for gain in hidden["gains"][known:])]}

    def _known(self) -> list[int]:
        """Return the gains of the known controls, which are those with the smallest numbers."""
        return [1, -1] * (self._sizes.known // 2)

    def sealed(self, secret: bytes) -> dict[str, Any]:
        """Return the doubles and pairs: there are no others, so none is drawn.

        Returns:
            ``pairs``: two control numbers for each unit, in registered order.
        """
        secret_stream(secret, "sealed")
        return {"pairs": [list(pair) for pair in _pairs(self._sizes.controls)]}

    def presentation(self, seed: bytes) -> dict[str, Any]:
        """Draw names and order.

        Returns:
            ``controls``, names by control number; ``order``, control numbers as they are listed; ``noise``, hex
            digits from which the gains of the neutral reply are drawn.
        """
        stream = secret_stream(seed, "presentation")
        return {
            "controls": words(stream, self._sizes.controls),
            "order": stream.shuffled(range(self._sizes.controls)),
            "noise": noise(stream),
        }

    def background(self) -> str:
        """Return K."""
        return _BACKGROUND.format(**self._sizes._asdict(), group=GROUP, units=len(self.unit_ids()))

    def first_observations(
        self, presentation: dict[str, Any], reveal: dict[str, Any] | None = None, quote: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Return E0: the controls and the known gains; with ``reveal`` all gains.

        Returns:
            ``controls`` (names), ``known`` (name to gain), ``groups`` (how many an experiment has), ``group`` (how
            many controls a group has), ``note``; with ``reveal`` also ``gains`` (name to gain); with ``quote`` also
            ``quote``.
        """
        names, known = presentation["controls"], self._known()
        half = (self._sizes.controls - self._sizes.known) // 2
        result: dict[str, Any] = {
            "controls": [names[number] for number in presentation["order"]],
            "known": {names[number]: known[number] for number in presentation["order"] if number < len(known)},
            "groups": self._sizes.groups,
            "group": GROUP,
            "note": f"Of the other controls, {half} have the gain 1 and {half} the gain -1.",
        }
        if reveal is not None:
            result["gains"] = {names[number]: reveal["gains"][number] for number in presentation["order"]}
        if quote:
            result["quote"] = list(quote)
        return result

    def baseline(self, presentation: dict[str, Any]) -> str:
        """Return what is public: the known gains, and 0 for all others."""
        known = self._known()
        return self._artifact(presentation, [*known, *[0] * (self._sizes.controls - len(known))])

    def known_solution(self, presentation: dict[str, Any], hidden: dict[str, Any]) -> str:
        """Return all gains."""
        return self._artifact(presentation, hidden["gains"])

    def _artifact(self, presentation: dict[str, Any], gains: Sequence[int]) -> str:
        names = presentation["controls"]
        return json.dumps({names[number]: gains[number] for number in presentation["order"]})

    def experiment_examples(self, presentation: dict[str, Any]) -> list[str]:
        """Return candidates of experiments: groups of neighbours in the list of controls, and of distant ones."""
        names = [presentation["controls"][number] for number in presentation["order"]]
        trios = list(combinations(names, GROUP))
        count = self._sizes.groups
        first = [trios[place % len(trios)] for place in range(count)]
        spread = [trios[place * len(trios) // count] for place in range(count)]
        return [json.dumps(first), json.dumps(spread)]

    def unit_ids(self) -> tuple[str, ...]:
        """Return one id for each double and pair of control numbers."""
        return tuple(_unit(pair) for pair in _pairs(self._sizes.controls))

    def constant_reply(self, presentation: dict[str, Any]) -> dict[str, Any]:
        """Return sums of zero, which no group of an odd number of controls has."""
        return _reply([0] * self._sizes.groups)

    def open(self, public: Mapping[str, bytes]) -> DeviceEngine:
        """Open an engine; see ``Task.open``."""
        self.require(public)
        return DeviceEngine(self._sizes)


class DeviceEngine(Engine):
    """Sums of groups, and sealed sums of pairs."""

    def __init__(self, sizes: Sizes) -> None:
        """Keep the settings."""
        self._sizes = sizes

    def experiment(self, presentation: dict[str, Any], candidate: str, hidden: dict[str, Any]) -> dict[str, Any]:
        """Reply with the sum of each group; see ``Engine``."""
        gains = hidden["gains"]
        return _reply([sum(gains[number] for number in group) for group in self._groups(presentation, candidate)])

    def neutral(self, presentation: dict[str, Any], candidate: str) -> dict[str, Any]:
        """Reply with sums of gains that are drawn anew for every group; the same group has the same sum again."""
        secret = bytes.fromhex(presentation["noise"])
        sums = []
        for group in self._groups(presentation, candidate):
            stream = Stream(secret, f"group {sorted(group)}")
            sums.append(sum(1 - 2 * stream.below(2) for _ in group))
        return _reply(sums)

    def _groups(self, presentation: dict[str, Any], candidate: str) -> list[list[int]]:
        """Return the groups that an experiment's candidate spells, as control numbers.

        Raises:
            CandidateInvalid: It spells none.
        """
        said, count = read_json(candidate), self._sizes.groups
        if not isinstance(said, list) or len(said) != count:
            raise CandidateInvalid(f"an experiment must be a list of exactly {count} groups")
        if not all(isinstance(group, list) and len(group) == GROUP for group in said):
            raise CandidateInvalid(f"a group must be a list of {GROUP} controls")
        return [numbers_of(group, presentation["controls"], "control") for group in said]

    def score(
        self, presentation: dict[str, Any], candidate: str, hidden: dict[str, Any], sealed: dict[str, Any]
    ) -> dict[str, float]:
        """Return for each double and pair whether its sum is right; see ``Engine``."""
        claimed, gains = self._gains(presentation, candidate), hidden["gains"]
        return {
            _unit((one, two)): float(claimed[one] + claimed[two] == gains[one] + gains[two])
            for one, two in sealed["pairs"]
        }

    def _gains(self, presentation: dict[str, Any], candidate: str) -> dict[int, int]:
        """Return the gains that an artifact claims, by control number.

        Raises:
            CandidateInvalid: It claims none.
        """
        said = read_json(candidate)
        if not isinstance(said, dict):
            raise CandidateInvalid("an artifact must be an object that maps controls to gains")
        numbers = numbers_of(list(said), presentation["controls"], "control")
        if len(numbers) < self._sizes.controls:
            raise CandidateInvalid(f"an artifact must give all {self._sizes.controls} gains")
        for gain in said.values():
            if isinstance(gain, bool) or not isinstance(gain, int) or gain not in GAINS:
                raise CandidateInvalid(f"a gain must be 1, -1 or 0, not {shown(gain)}")
        return dict(zip(numbers, said.values(), strict=True))


def _pairs(controls: int) -> list[tuple[int, int]]:
    """Return the doubles and the unordered pairs of control numbers, in registered order."""
    return list(combinations_with_replacement(range(controls), 2))


def _unit(pair: tuple[int, int]) -> str:
    return f"sum_{pair[0]:02d}_{pair[1]:02d}"


def _reply(sums: Sequence[int]) -> dict[str, Any]:
    """Return a reply: all replies of the channel are made here, so that they have one shape and length."""
    return {"sums": [f"{value:+d}" for value in sums]}
