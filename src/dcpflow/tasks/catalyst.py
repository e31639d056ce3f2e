"""The catalyst task: five controls with eight levels each, and one plate to find the best level of every one.

The yield of a recipe is a product over the controls: one at its hidden best level keeps all of the yield, one at any
other level keeps ``retained`` of it. So a recipe with k of five controls right yields ``retained ** (5 - k)``: .5990
(the anchor, which has none right), .6636, .7353, .8146, .9026 and 1.0, each about 1.108 times the one before. The
recovery line .95 needs all five.

An experiment is one plate of 36 wells: a recipe and the 35 recipes that differ from it in one control. Measured yields
have a small error of their own, which is the same in every arm of an episode.

Sealed units: 256 conditions. In each, what a wrong level keeps deviates a little, control by control; conditions come
in pairs with opposite deviations, so that their mean is that of the undisturbed response. No experiment runs under a
sealed condition, and the best recipe yields 1.0 under all of them.

Chance: each best level is one of the seven that are not the anchor's, so a blind recipe is the best one with
probability 1 in 7 ** 5 = 16,807: .6 % for at least one of 96 challengers. Names of controls and labels of levels are
drawn anew for each episode, which makes any fixed strategy an independent blind choice.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from dcpflow.tasks.base import CandidateInvalid, Engine
from dcpflow.tasks.chance import Stream, secret_stream
from dcpflow.tasks.json_task import JsonTask, noise, numbers_of, read_json, shown, words

Recipe = tuple[int, ...]

ANCHOR = 0
_LABELS = "abcdefghijklmnopqrstuvwxyz"
_UNIT = 100_000

_BACKGROUND = """\
Task: find a recipe with a high yield.

A recipe sets each of {controls} controls to one of {levels} levels. Levels are labels without an order. The first
observations name the controls and the levels, and an anchor recipe.

Artifact: a JSON object that maps every control to a level. Anything else is invalid and scores nothing.

Score: the mean yield of the recipe over {conditions} conditions that differ a little from that of the experiments,
relative to the highest yield there is; from 0 to 1, higher is better.

Experiment: propose a recipe. The reply is a plate of {wells} measured yields, as decimal strings: that of the recipe
itself ("center"), and for each control ("changes") those of the {others} recipes that differ from it in the level of
this control alone, in the order in which the levels are listed, the recipe's own level left out. Measurements have an
error of less than one per cent.

Commit: hand in the artifact that is to be scored, in the names that are given.
"""


class Sizes(NamedTuple):
    """The task's settings; the defaults give the published figures.

    Attributes:
        controls: Controls of a recipe, from 2 to 12.
        levels: Levels of each control, from 3 to 26.
        conditions: Sealed conditions, an even number from 2 to 1,024.
        retained: What a control at a wrong level keeps of the yield, in millionths, from 100,000 to 990,000.
        spread: Largest relative deviation of a condition or a measurement, in 1/100,000, from 0 to 900.
    """

    controls: int = 5
    levels: int = 8
    conditions: int = 256
    retained: int = 902_571
    spread: int = 400


class CatalystTask(JsonTask):
    """Find the recipe of hidden best levels; ``Sizes`` are its settings."""

    name = "catalyst"
    experiment_form = "a JSON object that maps every control to a level: the recipe at the centre of the plate"
    artifact_form = "a JSON object that maps every control to a level"

    def __init__(self, settings: Mapping[str, object], public_seed: str) -> None:
        """Check and keep the settings; see ``Task.__init__``."""
        super().__init__(settings, public_seed)
        self._sizes = Sizes(
            controls=self.number("controls", 2, 12),
            levels=self.number("levels", 3, len(_LABELS)),
            conditions=self.number("conditions", 2, 1_024),
            retained=self.number("retained", 100_000, 990_000),
            spread=self.number("spread", 0, 900),
        )
        if self._sizes.conditions % 2:
            raise ValueError("setting conditions must be even")

    @staticmethod
    def default_settings() -> dict[str, object]:
        """Return every setting with its default; see ``Sizes`` for their meaning."""
        return dict(Sizes()._asdict())

    def hidden(self, secret: bytes) -> dict[str, Any]:
        """Draw the best level of each control.

        Returns:
            ``best``, level numbers by control number; never the anchor's, which is number 0.
        """
        stream = secret_stream(secret, "hidden")
        return {"best": [1 + stream.below(self._sizes.levels - 1) for _ in range(self._sizes.controls)]}

    def decoy(self, hidden: dict[str, Any], secret: bytes) -> dict[str, Any]:
        """Draw best levels that differ from those of ``hidden`` in every control."""
        stream = secret_stream(secret, "decoy")
        pools = [[level for level in range(1, self._sizes.levels) if level != best] for best in hidden["best"]]
        return {"best": [pool[stream.below(len(pool))] for pool in pools]}

    def sealed(self, secret: bytes) -> dict[str, Any]:
        """Draw the sealed conditions.

        Returns:
            ``deviations``: for each condition and control number a whole number of 1/100,000.
        """
        stream, spread = secret_stream(secret, "sealed"), self._sizes.spread
        half = [
            [stream.below(2 * spread + 1) - spread for _ in range(self._sizes.controls)]
            for _ in range(self._sizes.conditions // 2)
        ]
        return {"deviations": [row for one in half for row in (one, [-value for value in one])]}

    def presentation(self, seed: bytes) -> dict[str, Any]:
        """Draw names, labels and the order of the controls.

        Returns:
            By control number ``controls`` (names) and ``levels`` (labels by level number); ``order``, control
            numbers as they are listed; ``noise``, hex digits from which measurement errors are drawn.
        """
        stream = secret_stream(seed, "presentation")
        labels = _LABELS[: self._sizes.levels]
        return {
            "controls": words(stream, self._sizes.controls),
            "levels": ["".join(stream.shuffled(labels)) for _ in range(self._sizes.controls)],
            "order": stream.shuffled(range(self._sizes.controls)),
            "noise": noise(stream),
        }

    def background(self) -> str:
        """Return K."""
        sizes = self._sizes
        wells = 1 + sizes.controls * (sizes.levels - 1)
        return _BACKGROUND.format(**sizes._asdict(), wells=wells, others=sizes.levels - 1)

    def first_observations(
        self, presentation: dict[str, Any], reveal: dict[str, Any] | None = None, quote: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Return E0: controls, levels and the anchor; with ``reveal`` the best recipe as well.

        Returns:
            ``controls`` (names), ``levels`` (labels, the same for all controls), ``anchor`` (a recipe), ``note``; with
            ``reveal`` also ``optimum`` (a recipe); with ``quote`` also ``quote``.
        """
        result: dict[str, Any] = {
            "controls": [presentation["controls"][number] for number in presentation["order"]],
            "levels": list(_LABELS[: self._sizes.levels]),
            "anchor": _spelled(presentation, self._anchor),
            "note": "Each control has one best level, which is not the anchor's.",
        }
        if reveal is not None:
            result["optimum"] = _spelled(presentation, tuple(reveal["best"]))
        if quote:
            result["quote"] = list(quote)
        return result

    @property
    def _anchor(self) -> Recipe:
        return (ANCHOR,) * self._sizes.controls

    def baseline(self, presentation: dict[str, Any]) -> str:
        """Return the anchor recipe."""
        return json.dumps(_spelled(presentation, self._anchor))

    def known_solution(self, presentation: dict[str, Any], hidden: dict[str, Any]) -> str:
        """Return the recipe of best levels."""
        return json.dumps(_spelled(presentation, tuple(hidden["best"])))

    def unit_ids(self) -> tuple[str, ...]:
        """Return one id for each sealed condition."""
        return tuple(f"condition_{number:04d}" for number in range(self._sizes.conditions))

    def constant_reply(self, presentation: dict[str, Any]) -> dict[str, Any]:
        """Return a plate on which every well has the anchor's undisturbed yield."""
        level = nominal_yield(self._sizes, self._sizes.controls)
        return plate(presentation, self._anchor, lambda _: level)

    def open(self, public: Mapping[str, bytes]) -> CatalystEngine:
        """Open an engine; see ``Task.open``."""
        self.require(public)
        return CatalystEngine(self._sizes)


class CatalystEngine(Engine):
    """Plates and sealed yields of one response."""

    def __init__(self, sizes: Sizes) -> None:
        """Keep the settings."""
        self._sizes = sizes

    def experiment(self, presentation: dict[str, Any], candidate: str, hidden: dict[str, Any]) -> dict[str, Any]:
        """Reply with the plate around a recipe; see ``Engine``."""
        center = _read(presentation, candidate)
        best = hidden["best"]

        def wrong(recipe: Recipe) -> int:
            return sum(level != right for level, right in zip(recipe, best, strict=True))

        return self._measured(presentation, center, wrong)

    def neutral(self, presentation: dict[str, Any], candidate: str) -> dict[str, Any]:
        """Reply with the plate of a response without directions: every recipe yields what the anchor does."""
        center = _read(presentation, candidate)
        return self._measured(presentation, center, lambda _: self._sizes.controls)

    def _measured(self, presentation: dict[str, Any], center: Recipe, wrong: Callable[[Recipe], int]) -> dict[str, Any]:
        """Return the plate with its measurement errors, which depend on presentation and centre alone."""
        stream = Stream(bytes.fromhex(presentation["noise"]), f"plate {center}")
        spread = self._sizes.spread

        def measure(recipe: Recipe) -> float:
            error = stream.below(2 * spread + 1) - spread
            return nominal_yield(self._sizes, wrong(recipe)) * (_UNIT + error) / _UNIT

        return plate(presentation, center, measure)

    def score(
        self, presentation: dict[str, Any], candidate: str, hidden: dict[str, Any], sealed: dict[str, Any]
    ) -> dict[str, float]:
        """Return the yield under each sealed condition; see ``Engine``."""
        recipe = _read(presentation, candidate)
        missed = [number for number, level in enumerate(recipe) if level != hidden["best"][number]]
        retained = self._sizes.retained / 1_000_000
        return {
            f"condition_{place:04d}": math.prod(retained * (_UNIT + row[number]) / _UNIT for number in missed)
            for place, row in enumerate(sealed["deviations"])
        }


def nominal_yield(sizes: Sizes, wrong: int) -> float:
    """Return the undisturbed yield of a recipe with so many controls at a wrong level."""
    return math.prod([sizes.retained / 1_000_000] * wrong)


def plate(presentation: dict[str, Any], center: Recipe, measure: Callable[[Recipe], float]) -> dict[str, Any]:
    """Return a reply: all plates of the channel are made here, so that they have one shape and length.

    Args:
        presentation: The episode's relabelling.
        center: The recipe in the middle, level numbers by control number.
        measure: From a recipe to its yield, from 0 to 2; asked well by well in a fixed order.

    Returns:
        ``center``, a yield, and ``changes``, control name to yields in the order of labels without the centre's own;
        all as strings of eight characters with six decimals.
    """
    middle = f"{measure(center):.6f}"
    changes = {}
    for number in presentation["order"]:
        labels = presentation["levels"][number]
        levels = [labels.index(label) for label in sorted(labels)]
        changes[presentation["controls"][number]] = [
            f"{measure((*center[:number], level, *center[number + 1 :])):.6f}"
            for level in levels
            if level != center[number]
        ]
    return {"center": middle, "changes": changes}


def _spelled(presentation: dict[str, Any], recipe: Recipe) -> dict[str, str]:
    """Return a recipe in presented names, controls as they are listed."""
    return {
        presentation["controls"][number]: presentation["levels"][number][recipe[number]]
        for number in presentation["order"]
    }


def _read(presentation: dict[str, Any], candidate: str) -> Recipe:
    """Return the recipe that a candidate spells, level numbers by control number.

    Raises:
        CandidateInvalid: It spells none.
    """
    said = read_json(candidate)
    if not isinstance(said, dict):
        raise CandidateInvalid("a recipe must be an object that maps controls to levels")
    numbers = numbers_of(list(said), presentation["controls"], "control")
    if len(numbers) < len(presentation["controls"]):
        raise CandidateInvalid(f"a recipe must set all {len(presentation['controls'])} controls")
    recipe = dict.fromkeys(range(len(numbers)), ANCHOR)
    for number, label in zip(numbers, said.values(), strict=True):
        if not isinstance(label, str) or len(label) != 1 or label not in presentation["levels"][number]:
            raise CandidateInvalid(f"there is no level {shown(label)}")
        recipe[number] = presentation["levels"][number].index(label)
    return tuple(recipe.values())
