"""The real data sets that tasks buy labels from: where they come from, and how a file is known to be the right one.

A file is recognised by its content, never by its name or digest: the UCI repository offers the same rows in several
forms. Rows are sorted, so that their order in the file does not matter either.
"""

from __future__ import annotations

import gzip
import io
import math
import os
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from dcpflow.errors import UsageError
from dcpflow.records import canonical

MAX_BYTES = 64 << 20
"""Most bytes of a file, packed or unpacked; the largest of these data sets has 3 MB."""

_SUFFIXES = (".csv", ".data", ".arff")
_NOT_FINITE = frozenset({"nan", "inf", "-inf"})
_SHOWN = 3


class Row(NamedTuple):
    """One row of a data set.

    Attributes:
        inputs: the numbers in all columns but the last.
        label: the last column: a number's value as text, or a class in lower case.
    """

    inputs: tuple[float, ...]
    label: str


@dataclass(frozen=True, slots=True)
class DataSet:
    """What is known of a data set before it is read.

    Attributes:
        name: as ``dcpflow data fetch`` takes it.
        title: what it is called by those who publish it.
        url: the official address of a file that holds it.
        rows: how many rows it has.
        inputs: columns of numbers before the label.
        classes: rows of each class, in no order; empty where the label is a number.
        labels: smallest and largest label where it is a number.
        differences: what else its rows must fulfil: returns what is wrong with them, in words.
    """

    name: str
    title: str
    url: str
    rows: int
    inputs: int
    classes: Mapping[str, int]
    labels: tuple[float, float]
    differences: Callable[[Sequence[Row]], Iterator[str]]


def _yacht(rows: Sequence[Row]) -> Iterator[str]:
    for what, expected, found in (
        ("hulls", 22, len({row.inputs[:5] for row in rows})),
        ("Froude numbers", 14, len({row.inputs[5] for row in rows})),
    ):
        if found != expected:
            yield f"{found} different {what} (expected {expected})"


def _ionosphere(rows: Sequence[Row]) -> Iterator[str]:
    if any(row.inputs[1] for row in rows):
        yield "values other than 0 in the second column (expected none)"


def _dry_bean(rows: Sequence[Row]) -> Iterator[str]:
    areas = [row.inputs[0] for row in rows]
    if (min(areas), max(areas)) != (20420, 254616):
        yield f"areas from {min(areas):g} to {max(areas):g} (expected 20420 to 254616)"


_UCI = "https://archive.ics.uci.edu/static/public"

DATA_SETS: Mapping[str, DataSet] = {
    data_set.name: data_set
    for data_set in (
        DataSet(
            name="yacht",
            title="UCI Yacht Hydrodynamics",
            url=f"{_UCI}/243/yacht+hydrodynamics.zip",
            rows=308,
            inputs=6,
            classes={},
            labels=(0.01, 62.42),
            differences=_yacht,
        ),
        DataSet(
            name="ionosphere",
            title="UCI Ionosphere",
            url=f"{_UCI}/52/ionosphere.zip",
            rows=351,
            inputs=34,
            classes={"g": 225, "b": 126},
            labels=(0.0, 0.0),
            differences=_ionosphere,
        ),
        DataSet(
            name="dry-bean",
            title="UCI Dry Bean",
            url=f"{_UCI}/602/dry+bean+dataset.zip",
            rows=13_611,
            inputs=16,
            classes={
                "dermason": 3546,
                "sira": 2636,
                "seker": 2027,
                "horoz": 1928,
                "cali": 1630,
                "barbunya": 1322,
                "bombay": 522,
            },
            labels=(0.0, 0.0),
            differences=_dry_bean,
        ),
    )
}


def cache_file(name: str) -> Path:
    """Where ``dcpflow data fetch`` keeps a data set: in the user's cache folder, for all checkouts."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    folder = Path(cache) if cache.startswith("/") else Path.home() / ".cache"
    return folder / "dcpflow" / f"{name}.csv"


def read(name: str, data_file: Path | None = None) -> list[Row]:
    """Read a data set and check that it is the one that it should be.

    Args:
        name: of the data set.
        data_file: where it is; by default in the download cache.

    Returns:
        Its rows, sorted.

    Raises:
        UsageError: the file is missing, cannot be read, or holds something else; the text says what differs.
    """
    wanted = DATA_SETS[name]
    path = data_file or cache_file(name)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(
            f"the data set {wanted.title} is not in {path} ({error.strerror})",
            f"Download it with: dcpflow data fetch {name}; or name a file of it in the configuration's task.data_file",
        ) from None
    return parse(name, data, str(path))


def find(name: str, folder: Path) -> Path | None:
    """The first file in a folder that holds a data set, whatever it is called; None if there is none."""
    for path in sorted(path for path in folder.iterdir() if path.is_file()):
        try:
            read(name, path)
        except UsageError:
            continue
        return path
    return None


def parse(name: str, data: bytes, where: str) -> list[Row]:
    """The rows of a data set from the bytes of a file; see :func:`read`.

    Args:
        name: of the data set.
        data: text with one row a line, values parted by commas or blanks, with or without a line of headings; ARFF;
            or one of these packed by gzip or zip.
        where: what the bytes are called in an error.

    Raises:
        UsageError: as :func:`read`.
    """
    wanted = DATA_SETS[name]
    try:
        rows = sorted(_rows(wanted, _text(data)))
        differences = list(_differences(wanted, rows))
    except ValueError as error:
        differences = [str(error)]
    if differences:
        more = f" and {len(differences) - _SHOWN} more" if len(differences) > _SHOWN else ""
        raise UsageError(
            f"{where} is not the data set {wanted.title}: {'; '.join(differences[:_SHOWN])}{more}",
            f"Its official file is {wanted.url}",
        )
    return rows


def digest(rows: Sequence[Row]) -> str:
    """Digest of a data set's rows: the same for every file that holds them."""
    lines = (",".join((*map(repr, row.inputs), row.label)) for row in rows)
    return canonical.digest("\n".join(lines).encode())


def _text(data: bytes) -> str:
    """The text of a file, unpacked if it is packed.

    Raises:
        ValueError: it is too large, no text or cannot be unpacked, or the archive holds no table.
    """
    try:
        data = _unpacked(data)
    except ValueError:
        raise
    except Exception as error:  # the libraries have many words for broken, encrypted and unknown packings
        raise ValueError(f"it cannot be unpacked ({ascii(str(error))[:80]})") from None
    if len(data) > MAX_BYTES:
        raise ValueError(f"it has more than {MAX_BYTES} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"it is no text (byte {error.start + 1} is not UTF-8)") from None


def _unpacked(data: bytes) -> bytes:
    """The bytes of a packed file, but no more than one above the most; other bytes as they are.

    Raises:
        ValueError: the archive holds no table.
        Exception: it is broken, or packed in an unknown way.
    """
    if data.startswith(b"\x1f\x8b"):
        with gzip.open(io.BytesIO(data)) as file:
            return file.read(MAX_BYTES + 1)
    if data.startswith(b"PK"):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = [name for name in archive.namelist() if not name.rpartition("/")[2].startswith(".")]
            tables = [name for name in names if name.lower().endswith(_SUFFIXES)]
            if not tables:
                raise ValueError(f"the archive holds no file that ends with {', '.join(_SUFFIXES)}")
            with archive.open(sorted(tables)[0]) as file:
                return file.read(MAX_BYTES + 1)
    return data


def _rows(wanted: DataSet, text: str) -> Iterator[Row]:
    """The rows of a text.

    Raises:
        ValueError: a line has another number of values, or a value is no number, or there are far too many rows.
    """
    first, found = True, 0
    for number, line in enumerate(io.StringIO(text, newline=None), 1):
        # ARFF has its headings and remarks on lines of their own
        if not line.strip() or line.lstrip().startswith(("@", "%", "#")):
            continue
        values = line.split("," if "," in line else None)
        if len(values) != wanted.inputs + 1:
            raise ValueError(f"line {number} has {len(values)} values (expected {wanted.inputs + 1})")
        try:
            inputs = tuple(map(float, values[:-1]))
            label = values[-1].strip().lower() if wanted.classes else repr(float(values[-1]))
        except ValueError:
            if not first:
                raise ValueError(f"line {number} has a value that is no number") from None
        else:
            if not all(map(math.isfinite, inputs)) or label in _NOT_FINITE:
                raise ValueError(f"line {number} has a value that is not finite")
            found += 1
            if found > 2 * wanted.rows:
                raise ValueError(f"more than {2 * wanted.rows} rows (expected {wanted.rows})")
            yield Row(inputs, label)
        first = False


def _differences(wanted: DataSet, rows: Sequence[Row]) -> Iterator[str]:
    """What tells rows from those of a data set."""
    if len(rows) != wanted.rows:
        yield f"{len(rows)} rows (expected {wanted.rows})"
        return
    if wanted.classes:
        found = Counter(row.label for row in rows)
        for label in sorted(found.keys() | wanted.classes.keys()):
            if found[label] != wanted.classes.get(label, 0):
                yield f"{found[label]} rows of class {ascii(label)[:40]} (expected {wanted.classes.get(label, 0)})"
    else:
        labels = [float(row.label) for row in rows]
        if (min(labels), max(labels)) != wanted.labels:
            low, high = wanted.labels
            yield f"labels from {min(labels):g} to {max(labels):g} (expected {low:g} to {high:g})"
    yield from wanted.differences(rows)
