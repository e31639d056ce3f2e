"""Prediction models as short descriptions, and the only code that turns such a description into a fitted model.

A description is an object with the key ``kind`` and whole numbers beside it. It chooses among the models below and
cannot bring code, files or objects of its own. Only models are offered whose fit is the same on every processor: the
last digits of linear algebra are not, and neither is when an iteration ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from dcpflow.errors import UsageError
from dcpflow.tasks.base import CandidateInvalid
from dcpflow.tasks.json_task import shown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Range = tuple[int, int]

_FOREST: Mapping[str, Range] = {"trees": (1, 200), "seed": (0, 9999)}
KINDS: Mapping[str, Mapping[str, Range]] = {
    "constant": {},
    "nearest": {"neighbours": (1, 50)},
    "extra_trees": _FOREST,
    "random_forest": _FOREST,
}
"""The models that may be described, with the smallest and largest value of each whole number beside ``kind``."""


def described() -> str:
    """Return all models with their numbers, one a line, for an agent."""
    lines = []
    for kind, numbers in KINDS.items():
        with_numbers = ", ".join(f'"{name}" from {low} to {high}' for name, (low, high) in numbers.items())
        lines.append(f'  "{kind}"{f" with {with_numbers}" if numbers else ""}')
    return "\n".join(lines)


def checked(description: object) -> dict[str, Any]:
    """Return a description that is one.

    Raises:
        CandidateInvalid: The kind is unknown, or a number is missing, unknown or out of range.
    """
    if not isinstance(description, dict):
        raise CandidateInvalid("a model must be an object")
    kind = description.get("kind")
    numbers = KINDS.get(kind) if isinstance(kind, str) else None
    if numbers is None:
        raise CandidateInvalid(f"there is no kind of model {shown(kind)}; there are {', '.join(KINDS)}")
    if set(description) != {"kind", *numbers}:
        raise CandidateInvalid(f"a model of kind {kind} must have the keys {', '.join(['kind', *numbers])}")
    for name, (low, high) in numbers.items():
        value = description[name]
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise CandidateInvalid(f"{name} must be a whole number from {low} to {high}, not {shown(value)}")
    return description


def library_versions() -> dict[str, str]:
    """Return the versions of the libraries that fitted models depend on.

    Raises:
        UsageError: scikit-learn is not installed.
    """
    try:
        return {name: version(name) for name in ("numpy", "scikit-learn", "scipy")}
    except PackageNotFoundError as error:
        raise UsageError(
            f"tasks with prediction models need the package {error.name}",
            "Install it with: pip install 'dcpflow[data]'",
        ) from None


def warm(classes: bool) -> None:
    """Fit each kind of model once before a child is forked, which may not be able to import anything."""
    inputs = [[0.0], [1.0], [2.0], [3.0]]
    for kind, numbers in KINDS.items():
        smallest = {name: low for name, (low, _) in numbers.items()}
        predict({"kind": kind, **smallest}, inputs, [0.0, 0.0, 1.0, 1.0], inputs, classes)


def predict(
    description: Mapping[str, Any],
    inputs: Sequence[Sequence[float]],
    labels: Sequence[float],
    wanted: Sequence[Sequence[float]],
    classes: bool,
) -> NDArray[np.float64]:
    """Fit a model and predict.

    Labels that are all alike are predicted everywhere, by any model.

    Args:
        description: A checked one.
        inputs: One row of inputs, scaled to about 0 to 1, for each label.
        labels: Numbers, or the numbers of classes; at least one.
        wanted: Rows of inputs to predict for.
        classes: Whether labels are numbers of classes.

    Returns:
        A label for each wanted row.
    """
    import numpy as np  # noqa: PLC0415
    from sklearn import config_context  # noqa: PLC0415
    from threadpoolctl import threadpool_limits  # noqa: PLC0415

    known = np.asarray(labels, dtype=float)
    if np.ptp(known) == 0:
        return np.full(len(wanted), known[0])
    # checking what is checked already takes a fifth of the time, since it is done for every tree
    unchecked = config_context(assume_finite=True, skip_parameter_validation=True)
    # several threads would make sums depend on the machine, and a forked child wait for threads that it does not have
    with threadpool_limits(1), unchecked:
        fitting = {"neighbours": min(description["neighbours"], len(known))} if "neighbours" in description else {}
        model = _build({**description, **fitting}, classes)
        model.fit(np.asarray(inputs, dtype=float), known)
        found: NDArray[np.float64] = model.predict(np.asarray(wanted, dtype=float))
    return found


def _build(description: Mapping[str, Any], classes: bool) -> Any:
    """Return the scikit-learn model of a description, not yet fitted; scikit-learn is imported here."""
    from sklearn import dummy, ensemble, neighbors  # noqa: PLC0415

    given: dict[str, Any]
    match description["kind"]:
        case "constant":
            kinds = dummy.DummyRegressor, dummy.DummyClassifier
            given = {"strategy": "most_frequent" if classes else "median"}
        case "nearest":
            kinds = neighbors.KNeighborsRegressor, neighbors.KNeighborsClassifier
            given = {"n_neighbors": description["neighbours"], "algorithm": "kd_tree"}
        case trees:
            kinds = {
                "extra_trees": (ensemble.ExtraTreesRegressor, ensemble.ExtraTreesClassifier),
                "random_forest": (ensemble.RandomForestRegressor, ensemble.RandomForestClassifier),
            }[trees]
            given = {"n_estimators": description["trees"], "random_state": description["seed"], "n_jobs": 1}
    return kinds[classes](**given)
