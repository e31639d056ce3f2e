"""The Parquet tables: declared schemas, and digests of their rows that no Parquet version can change.

A column of numbers for each row (``doubles``) holds the scores of an artifact on hundreds of sealed units. In canonical
rows, and in rows that were read, the digest of these numbers stands in their place; what they are, the score files say.
No step of Python is taken for a number.
"""

from __future__ import annotations

import hashlib
import io
import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from dcpflow.errors import EvidenceError
from dcpflow.records import canonical, files

if TYPE_CHECKING:
    import pyarrow as pa

    from dcpflow.evidence.rows import Row

ROWS_AT_A_TIME = 4096
PLACE = {"stage": "string", "slot": "int32", "arm": "string", "attempt": "int32", "record": "string"}

SCHEMAS: dict[str, dict[str, str]] = {
    "episodes": {
        **PLACE,
        **dict.fromkeys(("contract", "registration", "stratum", "replacement_of", "prior_seal"), "string"),
        **dict.fromkeys(("presentation", "agent_seed", "public_randomness", "first_arm", "unit"), "string"),
        "outcome": "string",
        "reason": "string",
        "limits_hit": "list",
        **dict.fromkeys(("experiments", "commits", "messages", "bad_messages", "bytes", "web_requests"), "int64"),
        **dict.fromkeys(("model_calls", "failed_calls", "input_tokens", "cached_tokens", "output_tokens"), "int64"),
        "transcript": "string",
        "packet": "string",
        "isolation": "string",
        "calls": "string",
        **dict.fromkeys(("draw_matches", "hello_matches", "transcript_replays"), "bool"),
        **dict.fromkeys(("canary_quoted", "packet_quoted"), "bool"),
    },
    "calls": {
        **PLACE,
        "number": "int32",
        "request": "string",
        "status": "int32",
        **dict.fromkeys(("fault", "model"), "string"),
        **dict.fromkeys(("input_tokens", "cached_tokens", "output_tokens"), "int64"),
        "response": "string",
    },
    "costs": {
        "gate": "string",
        **PLACE,
        "number": "int32",
        **dict.fromkeys(("fault", "model"), "string"),
        **dict.fromkeys(("input_tokens", "cached_tokens", "output_tokens"), "int64"),
        "usd": "double",
    },
    "index": {
        **dict.fromkeys(("family", "claim", "slot", "mode"), "string"),
        **dict.fromkeys(("core", "core_class", "core_rule", "evidence", "evidence_class"), "string"),
        **dict.fromkeys(("core_exploratory", "evidence_exploratory"), "bool"),
        "bound": "double",
        **dict.fromkeys(("agent", "model", "task"), "string"),
        **dict.fromkeys(("experiments", "candidates"), "int64"),
        "signers": "list",
        "expiry": "string",
        "revoked": "bool",
        "certificate_fault": "string",
        "provenance": "string",
        "verified": "bool",
        **dict.fromkeys(("problem", "kind", "path", "decision", "identity"), "string"),
    },
    "candidates": {**PLACE, "number": "int32", "artifact": "string", "bytes": "int64"},
    "scores": {
        **dict.fromkeys(("phase", "role", "stage"), "string"),
        "slot": "int32",
        "arm": "string",
        "number": "int32",
        **dict.fromkeys(("record", "artifact", "instance", "validity", "reason"), "string"),
        "position": "int32",
        "score": "double",
        "units": "doubles",
    },
    "controls": {
        **PLACE,
        **dict.fromkeys(("outcome", "artifact", "validity"), "string"),
        "score": "double",
        "known_solution": "double",
        **dict.fromkeys(("canary_quoted", "packet_quoted"), "bool"),
    },
    "checks": {
        **dict.fromkeys(("name", "result", "needed_for", "reason"), "string"),
        "records": "int64",
        "records_digest": "string",
    },
}
for _table, _arms in (
    ("pairs", ("truthful", "neutral")),
    ("null_pairs", ("reference_null", "proposed_sham")),
):
    SCHEMAS[_table] = {
        "pair": "string",
        "stage": "string",
        "slot": "int32",
        **dict.fromkeys(("replacement_of", "unit", "presentation", "first_arm"), "string"),
        "same_draw": "bool",
    }
    for _arm in _arms:
        SCHEMAS[_table] |= dict.fromkeys((f"{_arm}_{name}" for name in ("record", "outcome", "artifact")), "string")
        SCHEMAS[_table] |= {f"{_arm}_validity": "string", f"{_arm}_score": "double"}
SCHEMAS["null_pairs"] |= {"known_solution": "double", "baseline": "double"}


def schema(table: str) -> pa.Schema:
    """The declared Arrow schema of a table."""
    import pyarrow as pa  # noqa: PLC0415 - heavy, and not needed by what only reads the declarations

    kinds = {
        "string": pa.string(),
        "int32": pa.int32(),
        "int64": pa.int64(),
        "double": pa.float64(),
        "bool": pa.bool_(),
        "list": pa.list_(pa.string()),
        "doubles": pa.list_(pa.float64()),
    }
    return pa.schema([pa.field(name, kinds[kind]) for name, kind in SCHEMAS[table].items()])


def encode_rows(table: str, rows: Sequence[Row]) -> bytes:
    """A table as its canonical rows: its name and columns in the first line, then a line for each row."""
    return b"".join(_pieces(table, rows))


def _pieces(table: str, rows: Sequence[Row]) -> Iterator[bytes]:
    """The canonical rows some at a time, column by column: a table may have many."""
    kinds = SCHEMAS[table]
    yield canonical.encode([table, list(kinds)])
    # most texts stand many times in a table; typed, since 1, 1.0 and True are equal and not the same
    once = lru_cache(maxsize=None, typed=True)(canonical.encode)
    for first in range(0, len(rows), ROWS_AT_A_TIME):
        some = rows[first : first + ROWS_AT_A_TIME]
        columns = [_cells(kind, [row[name] for row in some], once) for name, kind in kinds.items()]
        yield b"\n[" + b"]\n[".join(map(b",".join, zip(*columns, strict=True))) + b"]"


def _cells(kind: str, values: list[Any], once: Callable[[Any], bytes]) -> Iterable[bytes]:
    match kind:
        case "double":
            # of which nearly all differ
            return map(_number, values)
        case "list":
            return map(canonical.encode, values)
        case "doubles":
            return map(_doubles, values)
        case _:
            return map(once, values)


def _number(value: Any) -> bytes:
    """A cell of a column of numbers; Python's own text is the canonical one but for whole numbers and exponents."""
    text = repr(value)
    if type(value) is float and text.endswith(".0"):
        return b"%d" % value
    plain = type(value) is float and "e" not in text and "n" not in text
    return text.encode() if plain else canonical.encode(value)


def _doubles(value: Sequence[float] | str) -> bytes:
    """A cell of a column of lists of numbers: the digest of their IEEE 754 forms, the lowest byte first.

    Args:
        value: the numbers, or their digest, where they were read from a table.
    """
    if isinstance(value, str):
        return canonical.encode(value)
    return b'"%s"' % canonical.digest_of_numbers(value).encode()


def decode_rows(table: str, data: bytes, where: str) -> list[Row]:
    """The rows of a table from its canonical rows, each value of its column's type.

    Raises:
        EvidenceError: they are not such rows.
    """
    kinds = SCHEMAS[table]
    first, *lines = data.split(b"\n")
    if first != canonical.encode([table, list(kinds)]):
        raise EvidenceError(f"{where}: does not begin with the declared columns of the table {table}")
    return [_row(kinds, line, f"{where}, row {number}") for number, line in enumerate(lines, 1)]


def _row(kinds: dict[str, str], line: bytes, where: str) -> Row:
    values = canonical.decode(line, where)
    if not isinstance(values, list) or len(values) != len(kinds):
        raise EvidenceError(f"{where}: is no row of {len(kinds)} values")
    cells = zip(kinds.items(), values, strict=True)
    return {name: _cell(kind, value, f"{where}: {name}") for (name, kind), value in cells}


def _cell(kind: str, value: Any, where: str) -> Any:
    if value is None:
        return None
    if kind == "double" and type(value) is int:
        return float(value)
    fits = canonical.is_digest(value) if kind == "doubles" else type(value) is _TYPES.get(kind)
    if kind == "list":
        fits = isinstance(value, list) and all(isinstance(item, str) for item in value)
    if not fits:
        raise EvidenceError(f"{where}: {value!r:.40} is no {kind}")
    return value


_TYPES = {"string": str, "int32": int, "int64": int, "double": float, "bool": bool, "list": list}


def rows_digest(table: str, rows: Sequence[Row]) -> str:
    """Digest over the canonical rows, which no Parquet version can change."""
    digest = hashlib.sha256()
    for piece in _pieces(table, rows):
        digest.update(piece)
    return f"sha256:{digest.hexdigest()}"


def write(path: Path, table: str, rows: list[Row], registration: str) -> str:
    """Write a table atomically, R in its metadata, and return the digest of its rows."""
    import pyarrow.parquet as pq  # noqa: PLC0415

    digest = rows_digest(table, rows)
    metadata = {"dcpflow.table": table, "dcpflow.registration": registration, "dcpflow.rows": digest}
    buffer = io.BytesIO()
    pq.write_table(_arrow(table, rows).replace_schema_metadata(metadata), buffer, compression="zstd")
    files.write_atomic(path, buffer.getvalue())
    return digest


def _arrow(table: str, rows: list[Row]) -> pa.Table:
    """Rows as an Arrow table; by way of JSON, since Arrow's own conversions of Python objects import pandas first."""
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import json as arrow_json  # noqa: PLC0415

    declared = schema(table)
    if not rows:
        # not empty_table(), which loads pandas
        return pa.Table.from_batches([], declared)
    numbers = [name for name, kind in SCHEMAS[table].items() if kind == "doubles"]
    plain = pa.schema([field for field in declared if field.name not in numbers])
    others = ({name: cell for name, cell in row.items() if name not in numbers} for row in rows)
    lines = "\n".join(json.dumps(row, ensure_ascii=False, allow_nan=False) for row in others).encode()
    # one block, since no row may be longer than a block
    reading = arrow_json.ReadOptions(use_threads=False, block_size=len(lines) + 1)
    options = arrow_json.ParseOptions(explicit_schema=plain, unexpected_field_behavior="error")
    made = arrow_json.read_json(io.BytesIO(lines), reading, options)
    for name in numbers:
        made = made.append_column(declared.field(name), _arrow_doubles([row[name] for row in rows]))
    return made.select(declared.names)


def _arrow_doubles(lists: Sequence[Sequence[float]]) -> pa.Array[Any]:
    """Lists of numbers as an Arrow array, by way of their bytes."""
    import pyarrow as pa  # noqa: PLC0415

    ends, values = array("i", accumulate(map(len, lists), initial=0)), array("d", chain.from_iterable(lists))
    numbers = pa.Array.from_buffers(pa.float64(), len(values), [None, pa.py_buffer(values)])
    kind = pa.list_(pa.float64())
    return pa.Array.from_buffers(kind, len(lists), [None, pa.py_buffer(ends)], children=[numbers])


def _from_arrow(column: pa.ChunkedArray[Any]) -> Iterator[str]:
    """The digest of each list of numbers of an Arrow column, of its bytes likewise.

    Raises:
        ValueError: a list or a number is missing.
    """
    for chunk in cast("list[pa.ListArray[Any]]", column.chunks):
        numbers = chunk.values
        if chunk.null_count or numbers.null_count:
            raise ValueError("a list or a number is missing")
        values = memoryview(numbers.buffers()[1] or b"").cast("d")[numbers.offset :]
        ends = chunk.offsets.to_pylist()
        yield from (canonical.digest(values[one:other]) for one, other in pairwise(ends))


def read(path: Path, table: str) -> list[Row]:
    """The rows of a table: of a Parquet file, or in their canonical form, as bundles hold them.

    In the place of a list of numbers stands its digest.

    Raises:
        EvidenceError: the file is missing, is neither, or has another schema than declared.
    """
    remedy = f"To make it again: rm -f '{path}' and run snakemake again"
    data = files.read(path, f"the table {table}", remedy)
    if data.startswith(b"["):
        return decode_rows(table, data, str(path))
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        # read_table would import pandas, and threads that are still starting when a short command ends abort it
        found = pq.ParquetFile(pa.BufferReader(data), pre_buffer=False).read(use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise EvidenceError(f"{path} is not a Parquet file: {error}", remedy) from None
    if not found.schema.equals(schema(table), check_metadata=False):
        raise EvidenceError(f"{path} does not have the declared columns of the table {table}", remedy)
    numbers = [name for name, kind in SCHEMAS[table].items() if kind == "doubles"]
    rows: list[dict[str, Any]] = found.drop_columns(numbers).to_pylist() if numbers else found.to_pylist()
    for name in numbers:
        try:
            for row, cell in zip(rows, _from_arrow(found[name]), strict=True):
                row[name] = cell
        except ValueError as error:
            raise EvidenceError(f"{path}: {name}: {error}", remedy) from None
    return rows
