"""Descriptions of models bring nothing of their own, and what they choose fits and predicts alike everywhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from dcpflow.errors import UsageError
from dcpflow.tasks import models
from dcpflow.tasks.base import CandidateInvalid

SMALLEST = [
    {"kind": kind, **{name: low for name, (low, _) in numbers.items()}} for kind, numbers in models.KINDS.items()
]
GOOD = [
    {"kind": "constant"},
    {"kind": "nearest", "neighbours": 3},
    {"kind": "extra_trees", "trees": 20, "seed": 7},
    {"kind": "random_forest", "trees": 20, "seed": 7},
]
LEARNERS = GOOD[1:]


def by_kind(description: dict[str, Any]) -> str:
    return str(description["kind"])


def points(count: int) -> list[list[float]]:
    """Rows that lie on a grid in the unit square, in an order without meaning."""
    return [[(place * 7 % 11) / 10, (place * 5 % 13) / 12] for place in range(count)]


# --- what a description may be -----------------------------------------------------------------------------


def test_the_tests_below_know_every_kind() -> None:
    assert [one["kind"] for one in GOOD] == list(models.KINDS)


@pytest.mark.parametrize("kind", models.KINDS)
def test_smallest_and_largest_numbers_are_taken_and_those_beyond_refused(kind: str) -> None:
    numbers = models.KINDS[kind]
    for side in (0, 1):
        edge = {"kind": kind, **{name: limits[side] for name, limits in numbers.items()}}
        assert models.checked(edge) == edge
        for name, limits in numbers.items():
            with pytest.raises(
                CandidateInvalid, match=f"^{name} must be a whole number from {limits[0]} to {limits[1]}"
            ):
                models.checked(edge | {name: limits[side] + (1 if side else -1)})


HOSTILE_VALUES = [True, False, 1.0, 1.5, "1", None, [1], {"a": 1}, 10**9, -(10**9), 10**400, float("nan"), float("inf")]


@pytest.mark.parametrize("value", HOSTILE_VALUES, ids=lambda value: ascii(value)[:12])
@pytest.mark.parametrize("description", LEARNERS, ids=by_kind)
def test_a_number_must_be_a_whole_one_within_its_range(description: dict[str, Any], value: Any) -> None:
    for name in models.KINDS[description["kind"]]:
        with pytest.raises(CandidateInvalid) as refused:
            models.checked(description | {name: value})
        assert len(str(refused.value)) < 150


@pytest.mark.parametrize(
    "kind",
    [
        *("", "Constant", "constant ", "svm", "SVC", "sklearn.svm.SVC", "ExtraTreesClassifier", "os.system"),
        *("__class__", "__init__", "x" * 7_000, "\ud800", "\n"),
        *(0, 1.5, True, None, [], ["constant"], {"kind": "constant"}),
    ],
    ids=lambda kind: ascii(kind)[:24],
)
def test_any_other_kind_is_refused(kind: Any) -> None:
    with pytest.raises(CandidateInvalid) as refused:
        models.checked({"kind": kind})
    assert str(refused.value).startswith("there is no kind of model ")
    assert len(str(refused.value)) < 150
    str(refused.value).encode("ascii")


@pytest.mark.parametrize("description", GOOD, ids=by_kind)
def test_keys_are_exactly_those_of_the_kind(description: dict[str, Any]) -> None:
    others = ["__class__", "n_jobs", "random_state", "n_estimators", "C", "max_iter", "Kind", "", "trees", "neighbours"]
    for key in others:
        if key not in description:
            with pytest.raises(CandidateInvalid, match="must have the keys"):
                models.checked(description | {key: 1})
    for key in description:
        fewer = {name: value for name, value in description.items() if name != key}
        with pytest.raises(CandidateInvalid, match=r"must have the keys|there is no kind"):
            models.checked(fewer)


@pytest.mark.parametrize("text", ["null", "[]", '["kind"]', '"constant"', "1", "true", "{}", '[{"kind": "constant"}]'])
def test_what_is_no_description_is_refused(text: str) -> None:
    with pytest.raises(CandidateInvalid):
        models.checked(json.loads(text))


def test_all_kinds_and_their_numbers_are_described() -> None:
    told = models.described()
    assert len(told.splitlines()) == len(models.KINDS)
    for kind, numbers in models.KINDS.items():
        (line,) = [line for line in told.splitlines() if f'"{kind}"' in line]
        assert all(f'"{name}" from {low} to {high}' in line for name, (low, high) in numbers.items())


def test_descriptions_are_checked_without_loading_the_libraries() -> None:
    code = (
        "import json, sys\nfrom dcpflow.tasks import models\nfrom dcpflow.tasks.base import CandidateInvalid\n"
        "for text in json.load(sys.stdin):\n    models.checked(text)\n"
        "try:\n    models.checked({'kind': 'sklearn.svm.SVC'})\nexcept CandidateInvalid:\n    pass\n"
        "models.described(), models.library_versions()\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps(GOOD), capture_output=True, text=True, check=True
    )
    assert not set(run.stdout.split()) & {"sklearn", "scipy", "numpy", "joblib", "threadpoolctl", "pandas"}
    assert "dcpflow" in run.stdout.split()


def test_a_missing_library_is_told_with_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        raise models.PackageNotFoundError("scikit-learn")

    monkeypatch.setattr(models, "version", version)
    with pytest.raises(UsageError, match=r"scikit-learn.*pip install 'dcpflow\[data\]'"):
        models.library_versions()


# --- what it predicts --------------------------------------------------------------------------------------


@pytest.mark.parametrize("description", LEARNERS, ids=by_kind)
def test_numbers_are_learned_in_any_unit(description: dict[str, Any]) -> None:
    rows = points(60)
    truth = np.array([300 * x + 500 * y for x, y in rows])
    errors = []
    for unit in (2.0**-10, 1.0, 2.0**10):
        found = models.predict(description, rows[:45], list(unit * truth[:45]), rows[45:], False)
        errors.append(float(np.abs(found / unit - truth[45:]).mean()))
    constant = float(np.abs(np.median(truth[:45]) - truth[45:]).mean())
    assert max(errors) < constant / 2
    assert max(errors) - min(errors) < 1e-6, "a penalty means something else in another unit"


@pytest.mark.parametrize("description", LEARNERS, ids=by_kind)
def test_classes_are_learned_and_none_is_made_up(description: dict[str, Any]) -> None:
    rows = points(90)
    truth = [2.0 * (x > 0.5) + 4.0 * (y > 0.5) for x, y in rows]
    found = models.predict(description, rows[:60], truth[:60], rows[60:], True)
    assert set(found) <= {0.0, 2.0, 4.0, 6.0}
    assert (found == np.array(truth[60:])).mean() > 0.75


def test_the_constant_is_the_median_or_the_most_frequent_class() -> None:
    rows = points(5)
    assert models.predict({"kind": "constant"}, rows, [1, 2, 3, 50, 100], rows[:2], False) == pytest.approx([3, 3])
    assert list(models.predict({"kind": "constant"}, rows, [5, 1, 5, 2, 1], rows[:2], True)) == [1, 1]
    assert list(models.predict({"kind": "constant"}, rows, [5, 1, 5, 2, 5], rows[:2], True)) == [5, 5]


@pytest.mark.parametrize("classes", [True, False])
@pytest.mark.parametrize("description", SMALLEST, ids=by_kind)
def test_few_or_equal_labels_are_no_error(description: dict[str, Any], classes: bool) -> None:
    wanted = points(7)
    for count in (1, 2, 5):
        found = models.predict(description, points(count), [3.0] * count, wanted, classes)
        assert list(found) == [3.0] * 7
    different = models.predict(description, points(2), [3.0, 5.0], wanted, classes)
    assert len(different) == 7
    assert np.isfinite(different).all()
    assert not classes or set(different) <= {3.0, 5.0}
    same_place = models.predict(description, [[0.5, 0.5]] * 4, [3.0, 5.0, 3.0, 5.0], wanted, classes)
    assert np.isfinite(same_place).all()


def test_more_neighbours_than_rows_are_all_rows() -> None:
    rows, labels = points(5), [1.0, 2.0, 3.0, 4.0, 10.0]
    for neighbours in (5, 6, 50):
        found = models.predict({"kind": "nearest", "neighbours": neighbours}, rows, labels, points(9), False)
        assert list(found) == pytest.approx([4.0] * 9)


@pytest.mark.parametrize("description", LEARNERS, ids=by_kind)
def test_wild_labels_give_finite_numbers(description: dict[str, Any]) -> None:
    labels = [0.0, 0.000001, 999_999.999999, 1.0] * 5
    assert np.isfinite(models.predict(description, points(20), labels, points(30), False)).all()
    close = [999_999.999998, 999_999.999999] * 10
    assert models.predict(description, points(20), close, points(30), False) == pytest.approx([1e6] * 30, abs=1)


def test_other_seeds_are_other_forests() -> None:
    rows = points(40)
    labels = [x + y for x, y in rows]
    for kind in ("extra_trees", "random_forest"):
        one, same, other = (
            models.predict({"kind": kind, "trees": 3, "seed": seed}, rows[:30], labels[:30], rows[30:], False)
            for seed in (1, 1, 2)
        )
        assert list(one) == list(same)
        assert list(one) != list(other)


PREDICTIONS = """
import json, sys
from dcpflow.tasks import models
given = json.load(sys.stdin)
models.warm(False)
print(json.dumps([
    [value.hex() for value in models.predict(model, rows, labels, wanted, classes)]
    for model in given["models"] for rows, labels, wanted, classes in given["data"]
]))
"""


def test_predictions_do_not_depend_on_the_number_of_threads_or_the_hash_seed() -> None:
    rows = [[(place * step % 97) / 96 for step in range(3, 19)] for place in range(160)]
    numbers = [sum(row) ** 2 for row in rows]
    classes = [float(number > 60) + float(number > 80) for number in numbers]
    data = [(rows[:120], numbers[:120], rows[120:], False), (rows[:120], classes[:120], rows[120:], True)]
    asked = json.dumps({"models": GOOD, "data": data})
    runs = []
    for threads in ("1", "7"):
        environment = os.environ | {
            **{f"{library}_NUM_THREADS": threads for library in ("OMP", "OPENBLAS", "MKL")},
            "PYTHONHASHSEED": threads,
        }
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "env": environment}
        runs.append(subprocess.Popen([sys.executable, "-c", PREDICTIONS], text=True, **pipes))  # type: ignore[call-overload]
    results = [run.communicate(asked)[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0]
    here = [[value.hex() for value in models.predict(model, *given)] for model in GOOD for given in data]
    assert json.loads(results[0]) == json.loads(results[1]) == here


@pytest.mark.parametrize("classes", [True, False])
def test_a_model_is_fitted_and_asked_on_one_thread(monkeypatch: pytest.MonkeyPatch, classes: bool) -> None:
    threads: list[int] = []

    class Model:
        def fit(self, *_: Any) -> None:
            threads.extend(library["num_threads"] for library in threadpool_info())

        def predict(self, wanted: Any) -> Any:
            self.fit()
            return np.zeros(len(wanted))

    monkeypatch.setattr(models, "_build", lambda *_: Model())
    with threadpool_limits(2):
        models.predict({"kind": "constant"}, points(3), [1.0, 2.0, 3.0], points(3), classes)
        assert 2 in {library["num_threads"] for library in threadpool_info()}
    assert set(threads) == {1}


@pytest.mark.parametrize("classes", [True, False])
def test_once_warm_nothing_more_is_imported(classes: bool) -> None:
    """A child that has given up its privileges may not be able to read the libraries' files."""
    code = (
        "import json, sys\nfrom dcpflow.tasks import models\ngiven = json.load(sys.stdin)\n"
        "models.warm(given['classes'])\nbefore = set(sys.modules)\n"
        "for model in given['models']:\n"
        "    models.predict(model, given['rows'], given['labels'], given['rows'], given['classes'])\n"
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    labels = [float(place % 7) for place in range(60)]
    asked = json.dumps({"models": GOOD, "rows": points(60), "labels": labels, "classes": classes})
    run = subprocess.run([sys.executable, "-c", code], input=asked, capture_output=True, text=True, check=True)
    assert json.loads(run.stdout) == []
