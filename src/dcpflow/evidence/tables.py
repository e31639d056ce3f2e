"""The Parquet tables: declared schemas, and digests of their rows that no Parquet version can change."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dcpflow.errors import EvidenceError
from dcpflow.records import canonical, files

if TYPE_CHECKING:
    import pyarrow as pa

    from dcpflow.evidence.rows import Row

PLACE = {"stage": "string", "slot": "int32", "arm": "string", "attempt": "int32", "record": "string"}

SCHEMAS: dict[str, dict[str, str]] = {
    "episodes": {
        **PLACE,
        **dict.fromkeys(("contract", "registration", "stratum", "replacement_of", "prior_seal"), "string"),
        **dict.fromkeys(("presentation", "agent_seed", "public_randomness", "first_arm", "unit"), "string"),
        "outcome": "string",
        "reason": "string",
        "limits_hit": "list",
        **dict.fromkeys(("experiments", "commits", "messages", "bad_messages", "bytes"), "int64"),
        "transcript": "string",
        "isolation": "string",
        **dict.fromkeys(("draw_matches", "hello_matches", "transcript_replays", "canary_quoted"), "bool"),
    },
    "candidates": {**PLACE, "number": "int32", "artifact": "string", "bytes": "int64"},
    "scores": {
        **dict.fromkeys(("phase", "role", "stage"), "string"),
        "slot": "int32",
        "arm": "string",
        "number": "int32",
        **dict.fromkeys(("record", "artifact", "instance", "validity", "reason"), "string"),
        "position": "int32",
        "unit": "string",
        "score": "double",
    },
    "controls": {
        **PLACE,
        **dict.fromkeys(("outcome", "artifact", "validity"), "string"),
        "score": "double",
        "known_solution": "double",
        "canary_quoted": "bool",
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
    }
    return pa.schema([pa.field(name, kinds[kind]) for name, kind in SCHEMAS[table].items()])


def rows_digest(table: str, rows: list[Row]) -> str:
    """Digest over the table's name, its declared columns and its rows in canonical JSON, one line a row."""
    columns = list(SCHEMAS[table])
    lines = [
        canonical.encode([table, columns]),
        *(canonical.encode([row[name] for name in columns]) for row in rows),
    ]
    return canonical.digest(b"\n".join(lines))


def write(path: Path, table: str, rows: list[Row], registration: str) -> str:
    """Write a table atomically, R in its metadata, and return the digest of its rows."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    digest = rows_digest(table, rows)
    metadata = {"dcpflow.table": table, "dcpflow.registration": registration, "dcpflow.rows": digest}
    built = pa.Table.from_pylist(rows, schema=schema(table).with_metadata(metadata))
    buffer = io.BytesIO()
    pq.write_table(built, buffer, compression="zstd")
    files.write_atomic(path, buffer.getvalue())
    return digest


def read(path: Path, table: str) -> list[Row]:
    """The rows of a table.

    Raises:
        EvidenceError: the file is missing, is no Parquet file, or has another schema than declared.
    """
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    remedy = f"To make it again: rm -f '{path}' and run snakemake again"
    data = files.read(path, f"the table {table}", remedy)
    try:
        found = pq.read_table(pa.BufferReader(data))
    except (pa.ArrowException, OSError) as error:
        raise EvidenceError(f"{path} is not a Parquet file: {error}", remedy) from None
    if not found.schema.equals(schema(table), check_metadata=False):
        raise EvidenceError(f"{path} does not have the declared columns of the table {table}", remedy)
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows
