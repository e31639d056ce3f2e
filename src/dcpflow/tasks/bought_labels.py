"""Tasks on real data: buy labels of rows of one's own choice, and hand in a model that predicts rows never seen.

The public seed takes ``rows`` rows of the data set as the table that every agent sees, and gives the labels of
``known`` of them, of classes about as many of each. An experiment measures ``batch`` of the others: the reply holds
the label of each with an error of measurement, drawn once for each row with the secret. A number is off by at most
``error_percent`` percent; a class is another one in ``error_percent`` of 100 cases. The measured labels are what is
hidden; other secrets give other errors.

An artifact names a model (see ``models``) and the labels that it is to be fitted on, so that the agent decides which
of its measurements to use. The one sealed unit is a set of ``held_out`` rows that the table does not show, drawn with
the secret, with their labels as published. The score is

    1 - error of the artifact / error of the best constant prediction for these rows, but at least 0,

where the error is the mean absolute error for numbers and the share of wrong rows for classes. So 0 is what knowing
nothing of the inputs is worth, and 1 is right everywhere. It is one exact number for this set of rows: what it would be
on others is not claimed.

The names and the order of rows, inputs and classes are drawn anew for each episode, and so is the direction in which
each input counts. A model is always fitted on the stored table, its rows in stored order.

Whoever has memorised a public data set could know labels without buying them; the task cannot prevent that.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from dcpflow.errors import UsageError
from dcpflow.tasks import data_sets, models
from dcpflow.tasks.base import CandidateInvalid, Engine
from dcpflow.tasks.chance import Stream, secret_stream
from dcpflow.tasks.data_sets import DATA_SETS, Row
from dcpflow.tasks.json_task import JsonTask, noise, numbers_of, read_json, shown, words

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SCALE = 9999
UNIT = "held_out_rows"
_TABLE = "table.json"
_NUMBER = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6})?")

_BACKGROUND = """\
Task: predict labels.

A table has {rows} rows with {inputs} inputs each, whole numbers from 0 to {scale}. Every row has a label: {label}.
The first observations hold the table and the labels of {known} rows. There are more rows, which you do not see.

Experiment: propose a JSON list of exactly {batch} different rows without a known label. The reply holds what measuring
them gave ("labels"), in the order of the list, as text. {error}

Artifact: a JSON object with the keys "model" and "labels". "labels" maps rows of the table to the labels on which the
model is fitted: those that you choose to use, as text. "model" is an object with the key "kind", which is one of
{models}
and with exactly the whole numbers that stand beside it. Anything else is invalid and scores nothing.

Score: how much smaller the model's error is, on {held_out} rows that are not in the table, than that of the best
constant prediction: 1 - error / error of that constant, at least 0; {measure}. From 0 to 1, higher is better.

Commit: hand in the artifact that is to be scored, in the names that are given.
"""


class Sizes(NamedTuple):
    """The settings of such a task.

    Attributes:
        rows: Rows of the table, from 20 to 240.
        known: Those of them whose label is given, from 2 to 50, and not all.
        batch: Rows that an experiment measures, from 1 to 20.
        held_out: Rows that are scored, from 20 to those that the table leaves and that have no twin in it.
        error_percent: Error of measurement in percent, from 0 to 20.
    """

    rows: int
    known: int
    batch: int
    held_out: int
    error_percent: int


class BoughtLabelsTask(JsonTask):
    """Predict a real data set from labels that are bought; a subclass names the data set and its sizes.

    Attributes:
        data_set: Name of the data set.
        sizes: The default settings.
        digits: Digits before and after the point of a label that is a number.
    """

    experiment_form = "a JSON list of the rows to measure"
    reads_data = True
    artifact_form = 'a JSON object with "model", an object, and "labels", which maps rows to labels'
    data_set: ClassVar[str]
    sizes: ClassVar[Sizes]
    digits: ClassVar[tuple[int, int]] = (0, 0)

    def __init__(self, settings: Mapping[str, object], public_seed: str, data_file: Path | None = None) -> None:
        """Check and keep the settings; see ``Task.__init__``.

        Args:
            settings: As there.
            public_seed: As there.
            data_file: Where the data set is; by default in the download cache. It is read when first needed.
        """
        super().__init__(settings, public_seed)
        self.data_file = data_file
        rows = self.number("rows", 20, 240)
        known = self.number("known", 2, min(50, rows - 1))
        left = DATA_SETS[self.data_set].rows - rows
        unknown = rows - known
        self._sizes = Sizes(
            rows,
            known,
            self.number("batch", 1, min(20, unknown)),
            self.number("held_out", 20, left),
            self.number("error_percent", 0, 20),
        )
        self._classes = sorted(DATA_SETS[self.data_set].classes)

    @classmethod
    def default_settings(cls) -> dict[str, object]:
        """Return every setting with its default; see ``Sizes`` for their meaning."""
        return dict(cls.sizes._asdict())

    def engine_identity(self) -> dict[str, str]:
        """Return the libraries' versions and the digest of the data set's rows."""
        return {**models.library_versions(), "data": data_sets.digest(self._rows)}

    # --- the data ----------------------------------------------------------------------------------------------

    @cached_property
    def _rows(self) -> list[Row]:
        """All rows of the data set, in their sorted order."""
        return data_sets.read(self.data_set, self.data_file)

    @cached_property
    def _order(self) -> list[int]:
        """All rows in an order drawn with the public seed; the table takes the first, known ones before all others."""
        return Stream(self.public_seed.encode(), f"rows of {self.data_set}").shuffled(range(len(self._rows)))

    @cached_property
    def _offered(self) -> list[Row]:
        """The rows of the table, known ones first; of classes, one row of each, then a second one, and so on."""
        rows = [self._rows[place] for place in self._order[: self._sizes.rows]]
        if not self._classes:
            return rows
        seen: Counter[str] = Counter()
        turns = []
        for row in rows:
            turns.append(seen[row.label])
            seen[row.label] += 1
        return [row for _, row in sorted(zip(turns, rows, strict=True), key=lambda pair: pair[0])]

    @cached_property
    def _table(self) -> dict[str, Any]:
        """The public table.

        Its inputs are whole numbers: 0 is the smallest and ``SCALE`` the largest that stands in the column here. A
        column with one value throughout is left out.
        """
        columns = list(zip(*(row.inputs for row in self._offered), strict=True))
        ranges = [(place, min(column), max(column)) for place, column in enumerate(columns)]
        kept = [(place, low, high) for place, low, high in ranges if low < high]
        return {
            "classes": self._classes,
            "digits": list(self.digits),
            "settings": dict(self._sizes._asdict()),
            "columns": [[place, repr(low), repr(high)] for place, low, high in kept],
            "inputs": [_scaled(row, kept) for row in self._offered],
            "known": [self._label(row.label) for row in self._offered[: self._sizes.known]],
        }

    def _label(self, label: str) -> str:
        """Return a published label as it is stored: a number as text of fixed width, or the class."""
        return label if self._classes else self._text(float(label))

    def _text(self, value: float) -> str:
        whole, fraction = self.digits
        return f"{min(value, 10.0**whole - 10.0**-fraction):0{whole + fraction + 1}.{fraction}f}"

    # --- draws -------------------------------------------------------------------------------------------------

    def hidden(self, secret: bytes) -> dict[str, Any]:
        """Draw the errors of measurement.

        Returns:
            ``labels``: what measuring gives, for each row of the table after the known ones.
        """
        stream = secret_stream(secret, "hidden")
        return {"labels": [self._measured(row.label, stream) for row in self._offered[self._sizes.known :]]}

    def _measured(self, label: str, stream: Stream) -> str:
        percent = self._sizes.error_percent
        if self._classes:
            others = [other for other in self._classes if other != label]
            wrong, other = stream.below(100) < percent, others[stream.below(len(others))]
            return other if wrong else label
        off = percent / 100 * (stream.below(2_000_001) - 1_000_000) / 1_000_000
        return self._text(float(label) * (1 + off))

    def decoy(self, hidden: dict[str, Any], secret: bytes) -> dict[str, Any]:
        """Draw labels that belong to another relation: each class is called another, the largest numbers the smallest.

        Returns:
            As ``hidden``.
        """
        labels = hidden["labels"]
        stream = secret_stream(secret, "decoy")
        if self._classes:
            order = stream.shuffled(self._classes)
            called = dict(zip(order, [*order[1:], order[0]], strict=True))
            return {"labels": [called[label] for label in labels]}
        # equal numbers are ranked by chance
        ranked = sorted(stream.shuffled(range(len(labels))), key=lambda place: labels[place])
        turned = sorted(labels, reverse=True)
        found = dict(zip(ranked, turned, strict=True))
        return {"labels": [found[place] for place in range(len(labels))]}

    def sealed(self, secret: bytes) -> dict[str, Any]:
        """Draw the rows that are scored, from those that do not stand in the table, nor have a twin there.

        Returns:
            ``inputs``, scaled as the table's, and ``labels`` as stored, of each row.

        Raises:
            UsageError: There are fewer such rows than the settings ask for.
        """
        kept = [(place, float(low), float(high)) for place, low, high in self._table["columns"]]
        offered = {tuple(row) for row in self._table["inputs"]}
        rest = [self._rows[place] for place in self._order[self._sizes.rows :]]
        stream = secret_stream(secret, "sealed")
        chosen: list[tuple[list[int], str]] = []
        for row in stream.shuffled(rest):
            inputs = _scaled(row, kept)
            if len(chosen) < self._sizes.held_out and tuple(inputs) not in offered:
                chosen.append((inputs, self._label(row.label)))
        if len(chosen) < self._sizes.held_out:
            raise UsageError(
                f"task.settings: setting held_out must be at most {len(chosen)} here, not {self._sizes.held_out}: "
                f"of the {len(rest)} rows that the table leaves, the others have the inputs of a row in it",
                "Lower held_out",
            )
        return {"inputs": [inputs for inputs, _ in chosen], "labels": [label for _, label in chosen]}

    def presentation(self, seed: bytes) -> dict[str, Any]:
        """Draw names, orders and directions.

        Returns:
            ``rows`` and ``classes``, names by number; ``order`` of the rows; ``columns``, numbers of the table's inputs
            as they are listed; ``turned``, for each of these 1 where the input is counted down from ``SCALE``;
            ``noise``, hex digits from which neutral labels are drawn.
        """
        stream = secret_stream(seed, "presentation")
        rows, columns = self._sizes.rows, range(len(self._table["columns"]))
        names = words(stream, rows + len(self._classes))
        return {
            "rows": names[:rows],
            "classes": names[rows:],
            "order": stream.shuffled(range(rows)),
            "columns": stream.shuffled(columns),
            "turned": [stream.below(2) for _ in columns],
            "noise": noise(stream),
        }

    # --- what agents are told ----------------------------------------------------------------------------------

    def public_material(self) -> dict[str, bytes]:
        """Return the table: inputs of all its rows, and labels of the known ones."""
        return {_TABLE: json.dumps(self._table, sort_keys=True).encode()}

    def background(self) -> str:
        """Return K."""
        percent = self._sizes.error_percent
        label, error, measure = (
            (
                f"one of {len(self._classes)} classes",
                f"In {percent} of 100 cases it is a wrong class.",
                "the error is the share of rows with a wrong class",
            )
            if self._classes
            else (
                "a number",
                f"It is off by at most {percent} percent, besides rounding.",
                "the error is the mean of the absolute differences",
            )
        )
        return _BACKGROUND.format(
            **self._sizes._asdict(),
            inputs=len(self._table["columns"]),
            scale=SCALE,
            label=label,
            error=error,
            measure=measure,
            models=models.described(),
        )

    def first_observations(
        self, presentation: dict[str, Any], reveal: dict[str, Any] | None = None, quote: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Return E0: the table and the known labels; with ``reveal`` those of all other rows as well.

        Returns:
            ``table`` (row name to inputs), ``labels`` (row name to label), ``classes`` (names; none where labels are
            numbers), ``batch``; with ``reveal`` also ``measured`` (row name to label); with ``quote`` also ``quote``.
        """
        names, known = presentation["rows"], self._sizes.known
        columns = list(zip(presentation["columns"], presentation["turned"], strict=True))
        inputs = self._table["inputs"]
        result: dict[str, Any] = {
            "table": {
                names[row]: [SCALE - inputs[row][at] if turned else inputs[row][at] for at, turned in columns]
                for row in presentation["order"]
            },
            "labels": {
                names[row]: _presented(self._table["known"][row], self._classes, presentation)
                for row in presentation["order"]
                if row < known
            },
            "classes": sorted(presentation["classes"]),
            "batch": self._sizes.batch,
        }
        if reveal is not None:
            result["measured"] = {
                names[row]: _presented(reveal["labels"][row - known], self._classes, presentation)
                for row in presentation["order"]
                if row >= known
            }
        if quote:
            result["quote"] = list(quote)
        return result

    def baseline(self, presentation: dict[str, Any]) -> str:
        """Return the constant prediction that the known labels suggest: their median, or their most frequent class."""
        return self._artifact(presentation, {"kind": "constant"}, self._table["known"])

    def known_solution(self, presentation: dict[str, Any], hidden: dict[str, Any]) -> str:
        """Return extremely randomised trees on all labels, known and measured."""
        model = {"kind": "extra_trees", "trees": 200 if self._classes else 50, "seed": 0}
        return self._artifact(presentation, model, [*self._table["known"], *hidden["labels"]])

    def _artifact(self, presentation: dict[str, Any], model: Mapping[str, Any], labels: Sequence[str]) -> str:
        """Return an artifact with the labels of the first rows of the table."""
        named = {
            presentation["rows"][row]: _presented(labels[row], self._classes, presentation)
            for row in presentation["order"]
            if row < len(labels)
        }
        return json.dumps({"model": dict(model), "labels": named})

    def experiment_examples(self, presentation: dict[str, Any]) -> list[str]:
        """Return candidates of experiments: the first rows that can be measured, and the last ones."""
        known, batch = self._sizes.known, self._sizes.batch
        names = [presentation["rows"][row] for row in presentation["order"] if row >= known]
        return [json.dumps(names[:batch]), json.dumps(names[-batch:])]

    def unit_ids(self) -> tuple[str, ...]:
        """Return the one unit: all held-out rows together."""
        return (UNIT,)

    def constant_reply(self, presentation: dict[str, Any]) -> dict[str, Any]:
        """Return one label, that of the first known row, for every row."""
        label = _presented(self._table["known"][0], self._classes, presentation)
        return {"labels": [label] * self._sizes.batch}

    def open(self, public: Mapping[str, bytes]) -> BoughtLabelsEngine:
        """Open an engine; see ``Task.open``."""
        self.require(public)
        return BoughtLabelsEngine(json.loads(public[_TABLE]))


class BoughtLabelsEngine(Engine):
    """Labels of the table's rows, and the error of a model on held-out ones."""

    def __init__(self, table: dict[str, Any]) -> None:
        """Keep the public table."""
        self._inputs, self._known, self._classes = table["inputs"], table["known"], table["classes"]
        self._batch = table["settings"]["batch"]

    def warm(self, sealed: dict[str, Any] | None = None) -> None:
        """Import scikit-learn where models are to be fitted; see ``Engine``."""
        if sealed is not None:
            models.warm(bool(self._classes))

    def experiment(self, presentation: dict[str, Any], candidate: str, hidden: dict[str, Any]) -> dict[str, Any]:
        """Reply with the measured labels of the rows; see ``Engine``."""
        first = len(self._known)
        return self._reply(presentation, [hidden["labels"][r - first] for r in self._wanted(presentation, candidate)])

    def neutral(self, presentation: dict[str, Any], candidate: str) -> dict[str, Any]:
        """Reply with labels drawn from the known ones, for each row by itself; the same row has the same one again."""
        secret = bytes.fromhex(presentation["noise"])
        return self._reply(
            presentation,
            [
                self._known[Stream(secret, f"row {row}").below(len(self._known))]
                for row in self._wanted(presentation, candidate)
            ],
        )

    def _reply(self, presentation: dict[str, Any], labels: Sequence[str]) -> dict[str, Any]:
        return {"labels": [_presented(label, self._classes, presentation) for label in labels]}

    def _wanted(self, presentation: dict[str, Any], candidate: str) -> list[int]:
        """Return the rows that an experiment's candidate names.

        Raises:
            CandidateInvalid: It names none, or one whose label is known.
        """
        said = read_json(candidate)
        if not isinstance(said, list) or len(said) != self._batch:
            raise CandidateInvalid(f"an experiment must be a list of exactly {self._batch} rows")
        rows = numbers_of(said, presentation["rows"], "row")
        if any(row < len(self._known) for row in rows):
            raise CandidateInvalid("an experiment must be on rows whose label is not known")
        return rows

    def score(
        self, presentation: dict[str, Any], candidate: str, hidden: dict[str, Any], sealed: dict[str, Any]
    ) -> dict[str, float]:
        """Return the improvement over the best constant on the held-out rows; see ``Engine`` and the module."""
        model, labels = self._claim(presentation, candidate)
        rows = sorted(labels)
        found = models.predict(
            model,
            [_unit_scale(self._inputs[row]) for row in rows],
            [labels[row] for row in rows],
            [_unit_scale(inputs) for inputs in sealed["inputs"]],
            bool(self._classes),
        )
        return {UNIT: self._improvement(found, [self._value(label) for label in sealed["labels"]])}

    def _improvement(self, found: NDArray[np.float64], truth: Sequence[float]) -> float:
        import numpy as np  # noqa: PLC0415

        true = np.asarray(truth)
        if self._classes:
            error, constant = float((found != true).sum()), float(len(true) - max(map(truth.count, set(truth))))
        else:
            error, constant = float(np.abs(found - true).sum()), float(np.abs(np.median(true) - true).sum())
        return max(0.0, 1.0 - error / constant) if constant else float(error == 0)

    def _value(self, label: str) -> float:
        """Return a stored label as models take it: the number, or the class's place among all."""
        return float(self._classes.index(label)) if self._classes else float(label)

    def _claim(self, presentation: dict[str, Any], candidate: str) -> tuple[dict[str, Any], dict[int, float]]:
        """Return the model that an artifact describes, and the labels to fit it on by row number.

        Raises:
            CandidateInvalid: It holds none.
        """
        said = read_json(candidate)
        if not isinstance(said, dict) or set(said) != {"model", "labels"}:
            raise CandidateInvalid('an artifact must be an object with the keys "model" and "labels"')
        model = models.checked(said["model"])
        if not isinstance(said["labels"], dict) or not said["labels"]:
            raise CandidateInvalid("the labels must be an object that maps at least one row to its label")
        rows = numbers_of(list(said["labels"]), presentation["rows"], "row")
        values = [self._claimed(label, presentation) for label in said["labels"].values()]
        return model, dict(zip(rows, values, strict=True))

    def _claimed(self, label: object, presentation: dict[str, Any]) -> float:
        """Return a presented label as models take it.

        Raises:
            CandidateInvalid: It is none.
        """
        if self._classes:
            return float(numbers_of([label], presentation["classes"], "class")[0])
        if not isinstance(label, str) or not _NUMBER.fullmatch(label):
            raise CandidateInvalid(f"a label must be a number as text, not {shown(label)}")
        return float(label)


def _scaled(row: Row, columns: Sequence[tuple[int, float, float]]) -> list[int]:
    """Return a row's inputs on the table's scale; rows outside of the table may lie outside of the scale."""
    return [round(SCALE * (row.inputs[place] - low) / (high - low)) for place, low, high in columns]


def _unit_scale(inputs: Sequence[int]) -> list[float]:
    return [value / SCALE for value in inputs]


def _presented(label: str, classes: Sequence[str], presentation: dict[str, Any]) -> str:
    """Return a stored label in presented names: a number as it is, a class by its name of this episode."""
    name: str = presentation["classes"][classes.index(label)] if classes else label
    return name
