"""A task to start from: find the switches that a lamp is wired to.

A panel has 14 switches. The lamp is wired to seven of them, which are hidden: pressing one of these turns the lamp from
on to off, or from off to on. An experiment presses at most four switches and shows the lamp.

Replace this by a task of your own, method by method. What each method owes to an audit stands in the classes ``Task``
and ``Engine`` of ``dcpflow.tasks.base``, and ``dcpflow task check`` tells which of it does not hold. Explain here, as
below for the lamp, why the score can be trusted; an auditor will ask.

Sealed units: 200 ways to press five or six switches, which is more than an experiment may, so none of them can be
measured. A unit scores 1 where the artifact says what the lamp does, else 0. Two different wirings agree on about half
of the units, so every wrong artifact scores about .5, and so does the baseline.

Chance: there are 14! / (7! 7!) = 3,432 wirings. A blind guess is right in one of as many cases, if it also has the lamp
right: at most 3.7 % for at least one of 96 challengers and 30 neutral branches. Names and order of the switches are
drawn anew for each episode, so that a fixed guess is an independent one in every episode.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from typing import Any

from dcpflow.tasks.base import CandidateInvalid, Engine
from dcpflow.tasks.chance import Stream, secret_stream
from dcpflow.tasks.json_task import JsonTask, noise, numbers_of, read_json, words

PRESSES = 4
HELD_BACK = (PRESSES + 1, PRESSES + 2)

# K: all that an agent is told in words, the same for every episode. It knows nothing else of your task.
BACKGROUND = f"""\
Task: find the switches that a lamp is wired to.

Half of the switches of a panel are wired to a lamp. Pressing a wired switch turns the lamp from on to off or from off
to on; the others do nothing. The first observations name the switches ("inputs").

Artifact: a JSON object with the keys "inputs", the list of the switches that are wired, and "constant", 1 if the lamp
is on while nothing is pressed, else 0. Anything else is invalid and scores nothing.

Score: the share of sealed ways to press {HELD_BACK[0]} or {HELD_BACK[1]} switches after which the artifact has the lamp
right. From 0 to 1, higher is better.

Experiment: propose a JSON list of at most {PRESSES} different switches to press. The reply says whether the lamp is
then on ("value"), as text: 1 or 0. Afterwards all is as before.
"""


class MyTask(JsonTask):
    """Find the wiring. Settings: ``switches``, an even number from 6 to 20, and ``units``, how many are sealed."""

    name = "mytask"
    experiment_form = "a JSON list of the switches to press"
    artifact_form = 'a JSON object with "inputs", a list of switches, and "constant", 0 or 1'

    def __init__(self, settings: Mapping[str, object], public_seed: str) -> None:
        """Check and keep the settings: whoever writes a configuration is told by ``ValueError`` what is wrong."""
        super().__init__(settings, public_seed)
        self._switches = self.number("switches", 6, 20)
        if self._switches % 2:
            raise ValueError("setting switches must be even, since half of them are wired")
        self._held_back = [way for count in HELD_BACK for way in combinations(range(self._switches), count)]
        self._units = self.number("units", 1, len(self._held_back))

    @staticmethod
    def default_settings() -> dict[str, object]:
        """Return every setting with its default. Settings are registered: the task is another one under others."""
        return {"switches": 14, "units": 200}

    # Secrets. Each is a function of 32 secret bytes alone; ``secret_stream`` draws from them alike on every machine.

    def hidden(self, secret: bytes) -> dict[str, Any]:
        """Draw what is to be discovered: the numbers of the wired switches, and whether the lamp is on at first."""
        stream = secret_stream(secret, "hidden")
        return {"wired": sorted(stream.sample(range(self._switches), self._switches // 2)), "on": stream.below(2)}

    def decoy(self, hidden: dict[str, Any], secret: bytes) -> dict[str, Any]:
        """Return a hidden state to mislead with, which has as little in common with ``hidden`` as can be."""
        others = [number for number in range(self._switches) if number not in hidden["wired"]]
        return {"wired": others, "on": secret_stream(secret, "decoy").below(2)}

    def sealed(self, secret: bytes) -> dict[str, Any]:
        """Draw the units that scoring alone opens: nothing that an experiment can ask."""
        return {"ways": [list(way) for way in secret_stream(secret, "sealed").sample(self._held_back, self._units)]}

    def unit_ids(self) -> tuple[str, ...]:
        """Return a name for each unit. There is a score for each of them."""
        return tuple(f"way_{number:04d}" for number in range(self._units))

    # What an agent sees. It never meets numbers of switches, but the names and the order of its own episode.

    def presentation(self, seed: bytes) -> dict[str, Any]:
        """Draw names by switch number, the order in which they are listed, and noise for neutral replies."""
        stream = secret_stream(seed, "presentation")
        order = stream.shuffled(range(self._switches))
        return {"names": words(stream, self._switches), "order": order, "noise": noise(stream)}

    def background(self) -> str:
        """Return K."""
        return BACKGROUND

    def first_observations(
        self, presentation: dict[str, Any], reveal: dict[str, Any] | None = None, quote: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Return E0, what an episode knows before it acts.

        The keys are those that the built-in agent ``parity_learner`` reads; give yours the names that suit your agent.
        Positive controls and null episodes are told the answer: ``reveal`` is a hidden state to put in, here under
        ``function``. ``quote`` lists files that the agent has to quote, and is handed on as it is.
        """
        names, order = presentation["names"], presentation["order"]
        told: dict[str, Any] = {"inputs": [names[number] for number in order], "most_on": PRESSES}
        told["active"] = self._switches // 2
        if reveal is not None:
            told["function"] = json.loads(self.known_solution(presentation, reveal))
        return {**told, "quote": list(quote)} if quote else told

    def baseline(self, presentation: dict[str, Any]) -> str:
        """Return the artifact that a discovery has to beat: no switch is wired, and the lamp is off."""
        return self.known_solution(presentation, {"wired": [], "on": 0})

    def known_solution(self, presentation: dict[str, Any], hidden: dict[str, Any]) -> str:
        """Return the best artifact for a hidden state."""
        wired = [presentation["names"][number] for number in presentation["order"] if number in hidden["wired"]]
        return json.dumps({"inputs": wired, "constant": hidden["on"]})

    def experiment_examples(self, presentation: dict[str, Any]) -> list[str]:
        """Return some valid experiments for ``dcpflow task check``, since an artifact is none here."""
        names = presentation["names"]
        return [json.dumps(names[:count]) for count in range(PRESSES + 1)] + [json.dumps([name]) for name in names]

    def constant_reply(self, presentation: dict[str, Any]) -> dict[str, Any]:
        """Return a reply that tells nothing, in the form of all replies."""
        return _reply(0)

    def open(self, public: Mapping[str, bytes]) -> MyTaskEngine:
        """Open the engine on the files of ``public_material``. What is slow to import is best imported here."""
        self.require(public)
        return MyTaskEngine()


class MyTaskEngine(Engine):
    """Meets what agents wrote. ``read_json`` and ``numbers_of`` refuse all that is hostile, with a reason to show."""

    def experiment(self, presentation: dict[str, Any], candidate: str, hidden: dict[str, Any]) -> dict[str, Any]:
        """Reply truthfully. The candidate is checked before ``hidden`` is read."""
        return _reply(_lamp(_pressed(presentation, candidate), hidden["wired"], hidden["on"]))

    def neutral(self, presentation: dict[str, Any], candidate: str) -> dict[str, Any]:
        """Reply in the same form without knowing anything: a fair coin, the same again for the same switches."""
        pressed = sorted(_pressed(presentation, candidate))
        return _reply(Stream(bytes.fromhex(presentation["noise"]), f"pressed {pressed}").below(2))

    def score(
        self, presentation: dict[str, Any], candidate: str, hidden: dict[str, Any], sealed: dict[str, Any]
    ) -> dict[str, float]:
        """Score an artifact: for each unit 1 if it has the lamp right, else 0. Any score from 0 to 1 will do."""
        said = read_json(candidate)
        if not isinstance(said, dict) or said.keys() != {"inputs", "constant"} or not isinstance(said["inputs"], list):
            raise CandidateInvalid('an artifact must be an object with a list "inputs" and a "constant"')
        if type(said["constant"]) is not int or said["constant"] not in (0, 1):
            raise CandidateInvalid('"constant" must be 0 or 1')
        claimed = numbers_of(said["inputs"], presentation["names"], "switch")
        scores = {}
        for number, way in enumerate(sealed["ways"]):
            right = _lamp(way, hidden["wired"], hidden["on"])
            scores[f"way_{number:04d}"] = float(_lamp(way, claimed, said["constant"]) == right)
        return scores


def _pressed(presentation: dict[str, Any], candidate: str) -> list[int]:
    """Return the numbers of the switches that an experiment presses."""
    said = read_json(candidate)
    if not isinstance(said, list) or len(said) > PRESSES:
        raise CandidateInvalid(f"an experiment must be a list of at most {PRESSES} switches")
    return numbers_of(said, presentation["names"], "switch")


def _lamp(pressed: Collection[int], wired: Collection[int], on: int) -> int:
    """Return 1 if the lamp is on after some switches were pressed, else 0."""
    return (on + sum(number in wired for number in pressed)) % 2


def _reply(value: int) -> dict[str, Any]:
    """Return a reply. All are made here, as texts of one length: a reply must not tell anything by its form."""
    return {"value": str(value)}
