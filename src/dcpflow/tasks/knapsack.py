"""The knapsack task: a multidimensional knapsack whose instance is public, so that nothing has to be discovered.

60 items, each with a profit and with weights in 10 resources; a selection must stay within every capacity, a quarter of
all weights. Random instances of this kind (profits near the mean weight) are hard to solve exactly and easy to solve
well, so any agent that searches gets about as far as another.

Score: the profit, divided by an upper bound on it: the value of the linear relaxation. HiGHS (in scipy) solves that,
and its dual multipliers are turned into a bound in exact arithmetic, rounded down because profits are whole numbers.

Nothing is hidden and nothing is sealed: the one unit is the whole score, a function of the public instance, and an
experiment tells nothing that could not be computed. What stands in for a hidden state is a good selection, found by a
fixed search in the public instance; positive controls are told it. An attempt is expected to recover the outcome: it is
a task on which a claim of discovery ought to be refuted. Names and order of items and resources are drawn anew for
each episode.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from math import floor
from typing import Any, NamedTuple

from dcpflow.tasks.base import CandidateInvalid, Engine
from dcpflow.tasks.chance import Stream, secret_stream
from dcpflow.tasks.json_task import JsonTask, numbers_of, read_json, words

UNIT = "profit"
MATERIAL = "knapsack.json"
_MOST_WEIGHT = 1_000
_MOST_EXTRA = 500
_MILLION = 1_000_000

_BACKGROUND = """\
Task: choose items with a high total profit.

Each of {items} items has a profit and needs something of each of {resources} resources. The items chosen must not need
more of any resource than its capacity. The first observations give all of these numbers: nothing is hidden.

Artifact: a JSON list of different items. One that needs too much of a resource, or that is no such list, is invalid and
scores nothing.

Score: the total profit divided by an upper bound on it, that of the linear relaxation; from 0 to 1, higher is better.

Experiment: propose an artifact. The reply holds its score ("profit") as a decimal string.

Commit: hand in the artifact that is to be scored, in the names that are given.
"""


class Sizes(NamedTuple):
    """The task's settings.

    Attributes:
        items: Items, from 8 to 100.
        resources: Resources, from 1 to 30.
        tightness: Capacity of a resource as a part of all weights in it, in per cent, from 5 to 90.
    """

    items: int = 60
    resources: int = 10
    tightness: int = 25


class Instance(NamedTuple):
    """A knapsack, by item and resource number.

    Attributes:
        profits: Profit of each item, a whole number.
        weights: For each item what it needs of each resource, whole numbers.
        capacities: What there is of each resource.
    """

    profits: list[int]
    weights: list[list[int]]
    capacities: list[int]

    def profit(self, selection: Iterable[int]) -> int:
        """Return the total profit of some items."""
        return sum(self.profits[item] for item in selection)

    def left(self, selection: Sequence[int]) -> list[int]:
        """Return what some items leave of each resource; negative where they need too much."""
        return [
            capacity - sum(self.weights[item][resource] for item in selection)
            for resource, capacity in enumerate(self.capacities)
        ]

    def filled(self, selection: Sequence[int], order: Iterable[int]) -> list[int]:
        """Return the selection, and of the other items, in the given order, each that still fits."""
        chosen, left = list(selection), self.left(selection)
        for item in order:
            if item not in selection and all(map(int.__le__, self.weights[item], left)):
                chosen.append(item)
                left = list(map(int.__sub__, left, self.weights[item]))
        return chosen

    def by_efficiency(self) -> list[int]:
        """Return all items, most profit for their relative weights first."""
        need = [
            sum(Fraction(weight, capacity) for weight, capacity in zip(weights, self.capacities, strict=True))
            for weights in self.weights
        ]
        return sorted(range(len(self.profits)), key=lambda item: (-self.profits[item] / need[item], item))


def draw_instance(sizes: Sizes, public_seed: str) -> Instance:
    """Draw the instance: weights from 1 to 1,000, a profit of the mean weight and up to 500 more."""
    stream = Stream(public_seed.encode("utf-8"), "knapsack instance")
    weights = [[1 + stream.below(_MOST_WEIGHT) for _ in range(sizes.resources)] for _ in range(sizes.items)]
    profits = [sum(own) // sizes.resources + stream.below(_MOST_EXTRA + 1) for own in weights]
    capacities = [sum(column) * sizes.tightness // 100 for column in zip(*weights, strict=True)]
    return Instance([max(1, profit) for profit in profits], weights, capacities)


def greedy(instance: Instance) -> list[int]:
    """Return the selection that takes items by efficiency, as long as they fit."""
    return instance.filled([], instance.by_efficiency())


def exchanged(instance: Instance) -> list[int]:
    """Return the greedy selection, improved as long as taking out one or two items and refilling helps."""
    order, best = instance.by_efficiency(), greedy(instance)
    improved = True
    while improved:
        improved = False
        for out in [{one, two} for one in best for two in best]:
            kept = [item for item in best if item not in out]
            tried = instance.filled(kept, [item for item in order if item not in out])
            if instance.profit(tried) > instance.profit(best):
                best, improved = tried, True
                break
    return best


def profit_bound(instance: Instance) -> int:
    """Return a whole number that no selection's profit exceeds: the value of the linear relaxation, rounded down.

    Any multipliers of the resources that are not negative give a bound. Those that HiGHS returns give the best one but
    for rounding, and exact arithmetic makes it a bound whatever HiGHS does.
    """
    # A heavy import, needed where the task is sealed and nowhere else.
    from scipy.optimize import linprog  # type: ignore[import-untyped]  # noqa: PLC0415

    found = linprog(
        [-profit for profit in instance.profits],
        A_ub=list(zip(*instance.weights, strict=True)),
        b_ub=instance.capacities,
        bounds=(0, 1),
        method="highs",
    )
    prices = [Fraction(max(0, round(-float(price) * _MILLION)), _MILLION) for price in found.ineqlin.marginals]
    paid = _dot(prices, instance.capacities)
    for profit, weights in zip(instance.profits, instance.weights, strict=True):
        paid += max(Fraction(0), profit - _dot(prices, weights))
    return floor(paid)


def _dot(prices: Sequence[Fraction], amounts: Sequence[int]) -> Fraction:
    return sum((price * amount for price, amount in zip(prices, amounts, strict=True)), Fraction(0))


class KnapsackTask(JsonTask):
    """Pack a public knapsack well; ``Sizes`` are its settings."""

    name = "knapsack"
    experiment_form = "a JSON list of items"
    artifact_form = "a JSON list of items"

    def __init__(self, settings: Mapping[str, object], public_seed: str) -> None:
        """Check and keep the settings; see ``Task.__init__``."""
        super().__init__(settings, public_seed)
        self._sizes = Sizes(
            items=self.number("items", 8, 100),
            resources=self.number("resources", 1, 30),
            tightness=self.number("tightness", 5, 90),
        )

    @staticmethod
    def default_settings() -> dict[str, object]:
        """Return every setting with its default; see ``Sizes`` for their meaning."""
        return dict(Sizes()._asdict())

    @cached_property
    def _instance(self) -> Instance:
        return draw_instance(self._sizes, self.public_seed)

    @cached_property
    def _found(self) -> list[int]:
        return sorted(exchanged(self._instance))

    def engine_identity(self) -> dict[str, str]:
        """Return the version of scipy, whose HiGHS gives the bound."""
        from importlib.metadata import version  # noqa: PLC0415  (slow to import, and seldom asked)

        return {"scipy": version("scipy")}

    def public_material(self) -> dict[str, bytes]:
        """Return the instance and the bound on its profit."""
        content = {**self._instance._asdict(), "bound": profit_bound(self._instance)}
        return {MATERIAL: json.dumps(content, sort_keys=True).encode()}

    def hidden(self, secret: bytes) -> dict[str, Any]:
        """Return what a control is told; the same whatever was drawn, since nothing is hidden.

        Returns:
            ``selection``, the sorted numbers of the items of a good selection.
        """
        secret_stream(secret, "hidden")
        return {"selection": list(self._found)}

    def decoy(self, hidden: dict[str, Any], secret: bytes) -> dict[str, Any]:
        """Return an empty selection: no reply depends on it, so no channel of this task can mislead."""
        secret_stream(secret, "decoy")
        return {"selection": []}

    def sealed(self, secret: bytes) -> dict[str, Any]:
        """Return nothing: the score rests on the public instance alone."""
        secret_stream(secret, "sealed")
        return {}

    def presentation(self, seed: bytes) -> dict[str, Any]:
        """Draw names and orders.

        Returns:
            ``items``, names by item number; ``item_order`` and ``resource_order``, numbers as they are listed.
        """
        stream = secret_stream(seed, "presentation")
        return {
            "items": words(stream, self._sizes.items),
            "item_order": stream.shuffled(range(self._sizes.items)),
            "resource_order": stream.shuffled(range(self._sizes.resources)),
        }

    def background(self) -> str:
        """Return K."""
        return _BACKGROUND.format(**self._sizes._asdict())

    def first_observations(
        self, presentation: dict[str, Any], reveal: dict[str, Any] | None = None, quote: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Return E0: the whole instance; with ``reveal`` a good selection as well.

        Returns:
            ``items`` (a list of ``item``, ``profit``, ``weights``), ``capacities`` (in the order of the weights); with
            ``reveal`` also ``selection`` (an artifact); with ``quote`` also ``quote``.
        """
        instance, resources = self._instance, presentation["resource_order"]
        result: dict[str, Any] = {
            "items": [
                {
                    "item": presentation["items"][number],
                    "profit": instance.profits[number],
                    "weights": [instance.weights[number][resource] for resource in resources],
                }
                for number in presentation["item_order"]
            ],
            "capacities": [instance.capacities[resource] for resource in resources],
        }
        if reveal is not None:
            result["selection"] = _named(presentation, reveal["selection"])
        if quote:
            result["quote"] = list(quote)
        return result

    def baseline(self, presentation: dict[str, Any]) -> str:
        """Return the greedy selection."""
        return json.dumps(_named(presentation, greedy(self._instance)))

    def known_solution(self, presentation: dict[str, Any], hidden: dict[str, Any]) -> str:
        """Return the selection that ``hidden`` holds."""
        return json.dumps(_named(presentation, hidden["selection"]))

    def unit_ids(self) -> tuple[str, ...]:
        """Return the one unit."""
        return (UNIT,)

    def constant_reply(self, presentation: dict[str, Any]) -> dict[str, Any]:
        """Return a profit of zero, whatever was proposed."""
        return _reply(0, 1)

    def open(self, public: Mapping[str, bytes]) -> KnapsackEngine:
        """Open an engine over the instance; see ``Task.open``."""
        try:
            content = json.loads(public[MATERIAL])
            bound = content.pop("bound")
        except (KeyError, ValueError, TypeError, AttributeError):
            raise ValueError(f"the public material's {MATERIAL} is missing or holds no instance") from None
        if content != self._instance._asdict() or not isinstance(bound, int) or bound < 1:
            raise ValueError(f"the public material's {MATERIAL} belongs to other settings")
        return KnapsackEngine(self._instance, bound)


class KnapsackEngine(Engine):
    """Profits of selections from one public instance."""

    def __init__(self, instance: Instance, bound: int) -> None:
        """Keep the instance.

        Args:
            instance: The instance.
            bound: What no selection's profit exceeds.
        """
        self._instance = instance
        self._bound = bound

    def experiment(self, presentation: dict[str, Any], candidate: str, hidden: dict[str, Any]) -> dict[str, Any]:
        """Reply with the profit relative to the bound, which is public: ``hidden`` is not read; see ``Engine``."""
        return self.neutral(presentation, candidate)

    def neutral(self, presentation: dict[str, Any], candidate: str) -> dict[str, Any]:
        """Reply with the profit relative to the bound, from the public instance; see ``Engine``."""
        return _reply(self._profit(presentation, candidate), self._bound)

    def score(
        self, presentation: dict[str, Any], candidate: str, hidden: dict[str, Any], sealed: dict[str, Any]
    ) -> dict[str, float]:
        """Return the profit relative to the bound; neither ``hidden`` nor ``sealed`` is read; see ``Engine``."""
        return {UNIT: self._profit(presentation, candidate) / self._bound}

    def _profit(self, presentation: dict[str, Any], candidate: str) -> int:
        """Return the profit of the selection that a candidate spells.

        Raises:
            CandidateInvalid: It spells none, or one that needs too much.
        """
        said = read_json(candidate)
        if not isinstance(said, list):
            raise CandidateInvalid("a selection must be a list of items")
        selection = numbers_of(said, presentation["items"], "item")
        left = self._instance.left(selection)
        for place, resource in enumerate(presentation["resource_order"], 1):
            if left[resource] < 0:
                raise CandidateInvalid(f"the selection needs {-left[resource]} too much of resource {place}")
        return self._instance.profit(selection)


def _named(presentation: dict[str, Any], selection: Sequence[int]) -> list[str]:
    """Return items in presented names, as they are listed."""
    return [presentation["items"][number] for number in presentation["item_order"] if number in selection]


def _reply(profit: int, bound: int) -> dict[str, Any]:
    """Return a reply: all replies of the channel are made here, so that they have one shape and length."""
    millionths = profit * _MILLION // bound
    return {"profit": f"{millionths // _MILLION}.{millionths % _MILLION:06d}"}
