"""The checks pass on every task that ships, and each of them finds the fault that it is there for.

The broken tasks stand at the top level, because the check makes some of them anew in a process of its own.
"""

import json
import random
import time

import pytest

from dcpflow.tasks import conformance
from dcpflow.tasks.affine import AffineEngine, AffineTask, Sizes
from dcpflow.tasks.base import CandidateInvalid
from dcpflow.tasks.catalyst import CatalystTask
from dcpflow.tasks.conformance import check
from dcpflow.tasks.device import DeviceTask
from dcpflow.tasks.knapsack import KnapsackTask
from dcpflow.tasks.sqlite_index import SqliteIndexTask
from dcpflow.tasks.sqlite_shop import SqliteShopTask

SMALL_SQLITE = {"rows": 1_000, "distinct_values": 50, "families": 6, "hot_families": 2, "max_indexes": 2}

NAMES = [
    "settings_are_checked",
    "draws_have_32_bytes",
    "states_are_json",
    "presentations_differ",
    "sealed_material_stays_sealed",
    "first_observations_keep_the_secret",
    "replies_are_alike",
    "neutral_replies_do_not_interfere",
    "truthful_replies_inform",
    "refusals_are_alike",
    "replies_are_in_time",
    "scores_are_in_range",
    "baseline_is_valid",
    "null_task_has_sensitivity",
    "decoys_mislead",
    "presentations_are_equivalent",
    "results_repeat",
    "results_repeat_elsewhere",
]


@pytest.mark.parametrize(
    "task",
    [
        AffineTask({}, "seed"),
        CatalystTask({}, "seed"),
        DeviceTask({}, "seed"),
        KnapsackTask({}, "seed"),
        SqliteIndexTask(SMALL_SQLITE, "seed"),
        SqliteShopTask(SMALL_SQLITE, "seed"),
    ],
    ids=lambda task: task.name,
)
def test_the_tasks_that_ship_conform(task, capfd):
    findings = check(task)
    assert [finding.name for finding in findings] == NAMES
    assert [finding for finding in findings if not finding.ok] == []
    assert all(0 < len(finding.detail) <= 300 and "\n" not in finding.detail for finding in findings)
    assert capfd.readouterr() == ("", "")


class Broken(AffineTask):
    """An affine task with an engine of its own, for the classes below to break."""

    kind = AffineEngine

    def open(self, public):
        self.require(public)
        return self.kind(Sizes(**self.settings))


class NoExamples(Broken):
    def experiment_examples(self, presentation):
        return []


class AcceptsEverySetting(Broken):
    def __init__(self, settings, public_seed):
        super().__init__({key: value for key, value in settings.items() if key in Sizes._fields}, public_seed)


class AcceptsAnySecret(Broken):
    def hidden(self, secret):
        return super().hidden((secret + bytes(32))[:32])


class HasTuples(Broken):
    def hidden(self, secret):
        drawn = super().hidden(secret)
        return drawn | {"inputs": tuple(drawn["inputs"])}


class ShowsAllEpisodesTheSame(Broken):
    def presentation(self, seed):
        super().presentation(seed)
        return super().presentation(bytes(32))


class TellsSealedPoints(Broken):
    def first_observations(self, presentation, reveal=None, quote=()):
        told = super().first_observations(presentation, reveal, quote)
        return told | {"hint": {"deeper": ["x", super().sealed(conformance._bytes("sealed"))]}}


class TellsWhatWasDrawnLast(Broken):
    last = 0

    def sealed(self, secret):
        drawn = super().sealed(secret)
        self.last = drawn["points"][0]
        return drawn

    def background(self):
        return super().background() + str(self.last % 2**12)


class TellsWhatIsNotRevealed(Broken):
    def first_observations(self, presentation, reveal=None, quote=()):
        told = super().first_observations(presentation, reveal, quote)
        return told | {"note": "" if reveal is None else str(reveal["constant"])}


class RevealsNothing(Broken):
    def first_observations(self, presentation, reveal=None, quote=()):
        return super().first_observations(presentation, None, quote)


class LongerConstant(Broken):
    def constant_reply(self, presentation):
        return {"value": "none"}


class OtherField(Broken):
    def constant_reply(self, presentation):
        return {"Value": "0"}


class NumbersInReplies(Broken):
    class kind(AffineEngine):
        def experiment(self, presentation, candidate, hidden):
            return {"value": int(super().experiment(presentation, candidate, hidden)["value"])}

        def neutral(self, presentation, candidate):
            return {"value": int(super().neutral(presentation, candidate)["value"])}

    def constant_reply(self, presentation):
        return {"value": 0}


class NeutralThatRemembers(Broken):
    class kind(AffineEngine):
        seen = None

        def experiment(self, presentation, candidate, hidden):
            self.seen = hidden
            return super().experiment(presentation, candidate, hidden)

        def neutral(self, presentation, candidate):
            if self.seen is not None:
                return super().experiment(presentation, candidate, self.seen)
            return super().neutral(presentation, candidate)


class ConstantThatRemembers(Broken):
    last = 0

    def hidden(self, secret):
        drawn = super().hidden(secret)
        self.last = drawn["constant"]
        return drawn

    def constant_reply(self, presentation):
        return {"value": str(self.last)}


class TruthfulThatTellsNothing(Broken):
    class kind(AffineEngine):
        def experiment(self, presentation, candidate, hidden):
            return self.neutral(presentation, candidate)


class RefusalThatTells(Broken):
    class kind(AffineEngine):
        def experiment(self, presentation, candidate, hidden):
            try:
                return super().experiment(presentation, candidate, hidden)
            except CandidateInvalid as refused:
                raise CandidateInvalid(f"{refused} {hidden['constant']}") from None


class RaisesOnHostileText(Broken):
    class kind(AffineEngine):
        def _point(self, presentation, candidate):
            return sum(1 << presentation["inputs"].index(name) for name in json.loads(candidate))


class SlowNeutral(Broken):
    class kind(AffineEngine):
        def neutral(self, presentation, candidate):
            time.sleep(0.015)
            return super().neutral(presentation, candidate)


class Scored(Broken):
    """Its engine's scores are changed by ``change``."""

    @staticmethod
    def change(scores):
        return scores

    def open(self, public):
        engine = super().open(public)
        ask = engine.score
        engine.score = lambda *arguments: self.change(ask(*arguments))
        return engine


class ScoresAboveOne(Scored):
    @staticmethod
    def change(scores):
        return {unit: 2 * value for unit, value in scores.items()}


class ScoresThatAreNoNumbers(Scored):
    @staticmethod
    def change(scores):
        return {unit: float("nan") for unit in scores}


class ScoresOtherUnits(Scored):
    @staticmethod
    def change(scores):
        return dict(reversed(scores.items()))


class ScoresAllTheSame(Scored):
    @staticmethod
    def change(scores):
        return dict.fromkeys(scores, 0.5)


class InvalidBaseline(Broken):
    def baseline(self, presentation):
        return "{}"


class DecoyThatHelps(Broken):
    def decoy(self, hidden, secret):
        super().decoy(hidden, secret)
        return hidden


class NamesThatMatter(Broken):
    class kind(AffineEngine):
        def score(self, presentation, candidate, hidden, sealed):
            fixed = presentation | {"inverted": 0}
            return super().score(fixed, candidate, hidden, sealed)


class DrawsByChance(Broken):
    def presentation(self, seed):
        return super().presentation(seed) | {"order": random.sample(range(12), 12)}


class DependsOnTheHashSeed(Broken):
    def background(self):
        return super().background() + " ".join({"one", "two", "three", "four", "five", "six"})


FAULTS = {
    NoExamples: "replies_are_alike",
    AcceptsEverySetting: "settings_are_checked",
    AcceptsAnySecret: "draws_have_32_bytes",
    HasTuples: "states_are_json",
    ShowsAllEpisodesTheSame: "presentations_differ",
    TellsSealedPoints: "sealed_material_stays_sealed",
    TellsWhatWasDrawnLast: "sealed_material_stays_sealed",
    TellsWhatIsNotRevealed: "first_observations_keep_the_secret",
    RevealsNothing: "first_observations_keep_the_secret",
    LongerConstant: "replies_are_alike",
    OtherField: "replies_are_alike",
    NumbersInReplies: "replies_are_alike",
    NeutralThatRemembers: "neutral_replies_do_not_interfere",
    ConstantThatRemembers: "neutral_replies_do_not_interfere",
    TruthfulThatTellsNothing: "truthful_replies_inform",
    RefusalThatTells: "refusals_are_alike",
    RaisesOnHostileText: "refusals_are_alike",
    SlowNeutral: "replies_are_in_time",
    ScoresAboveOne: "scores_are_in_range",
    ScoresThatAreNoNumbers: "scores_are_in_range",
    ScoresOtherUnits: "scores_are_in_range",
    ScoresAllTheSame: "null_task_has_sensitivity",
    InvalidBaseline: "baseline_is_valid",
    DecoyThatHelps: "decoys_mislead",
    NamesThatMatter: "presentations_are_equivalent",
    DrawsByChance: "results_repeat",
}


def finding(kind, name):
    return conformance._finding(getattr(conformance, name), conformance._Bench(kind({"points": 64}, "seed")))


@pytest.mark.parametrize("kind", FAULTS, ids=lambda kind: kind.__name__)
def test_each_fault_is_found(kind):
    found = finding(kind, FAULTS[kind])
    assert not found.ok
    assert 0 < len(found.detail) <= 300


def test_the_unbroken_task_has_none_of_these_faults():
    for name in set(FAULTS.values()):
        assert finding(Broken, name).ok


def test_a_dependence_on_the_hash_seed_is_found():
    assert not finding(DependsOnTheHashSeed, "results_repeat_elsewhere").ok
    assert finding(Broken, "results_repeat_elsewhere").ok


def test_a_class_that_cannot_be_imported_is_told_so():
    class Local(Broken):
        pass

    found = finding(Local, "results_repeat_elsewhere")
    assert not found.ok
    assert "could not use the task" in found.detail


def test_a_task_that_raises_is_a_finding_and_no_error():
    class Raises(Broken):
        def public_material(self):
            raise OSError("no\nmaterial")

    found = {name: ok for name, ok, _ in check(Raises({}, "seed"))}
    assert list(found) == NAMES
    assert not found["replies_are_alike"]
    assert found["draws_have_32_bytes"]
    assert finding(Raises, "baseline_is_valid").detail == "the task raised OSError: no material"


def test_pieces_are_found_wherever_they_stand():
    sealed = {"a": ["0123456789ab", 5, {"key": [100, 200, 300]}], "b": "short", "c": "point_000001"}
    pieces = set(conformance._pieces(sealed, {"point_000001"}))
    assert {b"0123456789ab", b"[100,200,300]", b'{"key":[100,200,300]}'} < pieces
    assert not any(piece in (b"short", b"point_000001") for piece in pieces)
