"""The affine task: a Boolean function of 12 inputs that is the parity of six of them, possibly inverted.

An experiment switches on at most four inputs and shows the output. Thirteen well-chosen experiments determine the
function; more of them show whether the answers belong to an affine function at all.

Sealed units: 256 points, drawn from those with at least five inputs on, which no experiment can ask. A unit scores 1
where the artifact's function has the right value, else 0. Two different functions of the task agree on about half of
all points (on none, if they are inverses), so every wrong artifact scores about .5 or 0, and so does the baseline.

Chance: there are 2 * 12! / (6! 6!) = 1,848 such functions, so a blind guess is right in one of as many cases. The names
and the order of the inputs and the polarity of the output are drawn anew for each episode, which makes any fixed
strategy an independent blind choice.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from dcpflow.tasks.base import CandidateInvalid, Engine
from dcpflow.tasks.chance import Stream, secret_stream
from dcpflow.tasks.json_task import JsonTask, noise, numbers_of, read_json, words

_BACKGROUND = """\
Task: find a Boolean function.

A device has {inputs} inputs, each on or off, and one output, 0 or 1. The output is the parity of the number of those
inputs that are on among {active} of the {inputs}; it may be inverted. The first observations name the inputs.

Artifact: a JSON object with the keys "inputs", a list of the inputs that matter, and "constant", the output when all
inputs are off (0 or 1). It stands for the function (constant + number of listed inputs that are on) modulo 2. Any
number of inputs may be listed. Anything else is invalid and scores nothing.

Score: the share of {points} points at which the artifact has the right output. Each has more than {most_on} inputs on.
From 0 to 1, higher is better.

Experiment: propose a JSON list of at most {most_on} different inputs to switch on. The reply holds the output ("value")
as text.

Commit: hand in the artifact that is to be scored, in the names that are given.
"""


class Sizes(NamedTuple):
    """The task's settings.

    Attributes:
        inputs: Inputs, from 4 to 16.
        active: Inputs whose parity the output is, from 1 to half of them.
        most_on: Inputs that an experiment may switch on, from 1 to ``inputs - 2``.
        points: Sealed points, from 1 to the number of points with more inputs on than that.
    """

    inputs: int = 12
    active: int = 6
    most_on: int = 4
    points: int = 256


class AffineTask(JsonTask):
    """Find an affine Boolean function; ``Sizes`` are its settings."""

    name = "affine"
    experiment_form = "a JSON list of the inputs to switch on"
    artifact_form = 'a JSON object with "inputs", a list of inputs, and "constant", 0 or 1'

    def __init__(self, settings: Mapping[str, object], public_seed: str) -> None:
        """Check and keep the settings; see ``Task.__init__``."""
        super().__init__(settings, public_seed)
        inputs = self.number("inputs", 4, 16)
        active, most_on = self.number("active", 1, inputs // 2), self.number("most_on", 1, inputs - 2)
        self._reserved = [point for point in range(1 << inputs) if point.bit_count() > most_on]
        points = self.number("points", 1, len(self._reserved))
        self._sizes = Sizes(inputs, active, most_on, points)

    @staticmethod
    def default_settings() -> dict[str, object]:
        """Return every setting with its default; see ``Sizes`` for their meaning."""
        return dict(Sizes()._asdict())

    def hidden(self, secret: bytes) -> dict[str, Any]:
        """Draw the function.

        Returns:
            ``inputs``, the sorted numbers of the inputs that matter, and ``constant``, the output when all are off.
        """
        return self._function(range(self._sizes.inputs), secret_stream(secret, "hidden"))

    def decoy(self, hidden: dict[str, Any], secret: bytes) -> dict[str, Any]:
        """Draw a function of inputs that do not matter in ``hidden``."""
        others = [number for number in range(self._sizes.inputs) if number not in hidden["inputs"]]
        return self._function(others, secret_stream(secret, "decoy"))

    def _function(self, pool: Sequence[int], stream: Stream) -> dict[str, Any]:
        """Draw a function of inputs from a pool of numbers."""
        return {"inputs": sorted(stream.sample(pool, self._sizes.active)), "constant": stream.below(2)}

    def sealed(self, secret: bytes) -> dict[str, Any]:
        """Draw the sealed points.

        Returns:
            ``points``: numbers whose binary digit ``1 << n`` says whether input n is on.
        """
        return {"points": secret_stream(secret, "sealed").sample(self._reserved, self._sizes.points)}

    def presentation(self, seed: bytes) -> dict[str, Any]:
        """Draw names, order and polarity.

        Returns:
            ``inputs``, names by number; ``order``, input numbers as they are listed; ``inverted``, 0 or 1, what is
            added to every output; ``noise``, hex digits from which neutral outputs are drawn.
        """
        stream = secret_stream(seed, "presentation")
        return {
            "inputs": words(stream, self._sizes.inputs),
            "order": stream.shuffled(range(self._sizes.inputs)),
            "inverted": stream.below(2),
            "noise": noise(stream),
        }

    def background(self) -> str:
        """Return K."""
        return _BACKGROUND.format(**self._sizes._asdict())

    def first_observations(
        self, presentation: dict[str, Any], reveal: dict[str, Any] | None = None, quote: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Return E0: the inputs; with ``reveal`` the function as well.

        Returns:
            ``inputs`` (names), ``most_on`` (inputs that an experiment may switch on), ``active`` (inputs that matter);
            with ``reveal`` also ``function`` (an artifact); with ``quote`` also ``quote``.
        """
        result: dict[str, Any] = {
            "inputs": [presentation["inputs"][number] for number in presentation["order"]],
            "most_on": self._sizes.most_on,
            "active": self._sizes.active,
        }
        if reveal is not None:
            result["function"] = _artifact(presentation, reveal)
        if quote:
            result["quote"] = list(quote)
        return result

    def baseline(self, presentation: dict[str, Any]) -> str:
        """Return the constant function 0, or 1 under the inverted polarity: one function in every presentation."""
        return json.dumps(_artifact(presentation, {"inputs": [], "constant": 0}))

    def known_solution(self, presentation: dict[str, Any], hidden: dict[str, Any]) -> str:
        """Return the function."""
        return json.dumps(_artifact(presentation, hidden))

    def experiment_examples(self, presentation: dict[str, Any]) -> list[str]:
        """Return candidates of experiments: nothing on, each input alone, and as many as may be."""
        names = [presentation["inputs"][number] for number in presentation["order"]]
        return [json.dumps(on) for on in ([], *([name] for name in names), names[: self._sizes.most_on])]

    def unit_ids(self) -> tuple[str, ...]:
        """Return one id for each sealed point."""
        return tuple(_unit(place) for place in range(self._sizes.points))

    def constant_reply(self, presentation: dict[str, Any]) -> dict[str, Any]:
        """Return the output 0, whatever was asked."""
        return _reply(0)

    def open(self, public: Mapping[str, bytes]) -> AffineEngine:
        """Open an engine; see ``Task.open``."""
        self.require(public)
        return AffineEngine(self._sizes)


class AffineEngine(Engine):
    """Outputs at points with few inputs on, and sealed ones at others."""

    def __init__(self, sizes: Sizes) -> None:
        """Keep the settings."""
        self._sizes = sizes

    def experiment(self, presentation: dict[str, Any], candidate: str, hidden: dict[str, Any]) -> dict[str, Any]:
        """Reply with the output at a point; see ``Engine``."""
        value = _output(self._point(presentation, candidate), hidden["inputs"], hidden["constant"])
        return _reply(value ^ presentation["inverted"])

    def neutral(self, presentation: dict[str, Any], candidate: str) -> dict[str, Any]:
        """Reply with a fair bit that is drawn for this point; the same point has the same bit again."""
        point = self._point(presentation, candidate)
        return _reply(Stream(bytes.fromhex(presentation["noise"]), f"point {point}").below(2))

    def _point(self, presentation: dict[str, Any], candidate: str) -> int:
        """Return the point that an experiment's candidate spells.

        Raises:
            CandidateInvalid: It spells none.
        """
        said, most = read_json(candidate), self._sizes.most_on
        if not isinstance(said, list) or len(said) > most:
            raise CandidateInvalid(f"an experiment must be a list of at most {most} inputs")
        return sum(1 << number for number in numbers_of(said, presentation["inputs"], "input"))

    def score(
        self, presentation: dict[str, Any], candidate: str, hidden: dict[str, Any], sealed: dict[str, Any]
    ) -> dict[str, float]:
        """Return for each sealed point whether the artifact's output is right; see ``Engine``."""
        inputs, constant = self._claim(presentation, candidate)
        truth = hidden["inputs"], hidden["constant"]
        return {
            _unit(place): float(_output(point, inputs, constant) == _output(point, *truth))
            for place, point in enumerate(sealed["points"])
        }

    def _claim(self, presentation: dict[str, Any], candidate: str) -> tuple[list[int], int]:
        """Return the function that an artifact claims, as ``hidden`` has it: input numbers and constant.

        Raises:
            CandidateInvalid: It claims none.
        """
        said = read_json(candidate)
        if not isinstance(said, dict) or set(said) != {"inputs", "constant"}:
            raise CandidateInvalid('an artifact must be an object with the keys "inputs" and "constant"')
        constant = said["constant"]
        if isinstance(constant, bool) or not isinstance(constant, int) or constant not in (0, 1):
            raise CandidateInvalid("the constant must be 0 or 1")
        if not isinstance(said["inputs"], list):
            raise CandidateInvalid("the inputs must be a list")
        return numbers_of(said["inputs"], presentation["inputs"], "input"), constant ^ presentation["inverted"]


def _output(point: int, inputs: Iterable[int], constant: int) -> int:
    """Return the value of a function at a point, before the presentation's polarity."""
    return (constant + sum(point >> number & 1 for number in inputs)) % 2


def _artifact(presentation: dict[str, Any], function: dict[str, Any]) -> dict[str, Any]:
    """Return a function in presented names and polarity, inputs as they are listed."""
    inputs = [presentation["inputs"][number] for number in presentation["order"] if number in function["inputs"]]
    return {"inputs": inputs, "constant": function["constant"] ^ presentation["inverted"]}


def _unit(place: int) -> str:
    return f"point_{place:04d}"


def _reply(value: int) -> dict[str, Any]:
    """Return a reply: all replies of the channel are made here, so that they have one shape and length."""
    return {"value": str(value)}
