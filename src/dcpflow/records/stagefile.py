"""Files that stages hand to each other: JSON that carries its own digest and the digests of what it rests on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dcpflow.errors import EvidenceError
from dcpflow.records import canonical, files


def write(path: Path, schema: str, body: dict[str, Any], mode: int = 0o644) -> str:
    """Write a stage file atomically and return its digest.

    Args:
        path: the file.
        schema: what it is, e.g. ``dcpflow.receipt/1``.
        body: the content; no time, host, core count or batch number may stand in it.
        mode: the file's permissions.
    """
    found = digest(schema, body)
    files.write_atomic(path, canonical.encode({"schema": schema, "digest": found, "body": body}) + b"\n", mode)
    return found


def digest(schema: str, body: dict[str, Any]) -> str:
    """The digest that a stage file with this body carries."""
    return canonical.digest_of({"schema": schema, "body": body})


def _digest(data: bytes, value: dict[str, Any]) -> str:
    """The digest of a file that was read; empty, which no file carries, where its body has no canonical form.

    In the file the digest stands between body and schema. Left out of the bytes, it leaves those that it is of: nothing
    has to be written again. Of a file in any other form than the one that is written here, the body is.
    """
    schema, end = value["schema"], canonical.encode(value["schema"]) + b"}"
    tail = b',"digest":' + canonical.encode(value["digest"]) + b',"schema":' + end
    if data.startswith(b'{"body":{') and data.endswith(tail + b"\n"):
        # of many megabytes no copy is made
        found = canonical.digest(memoryview(data)[: -len(tail) - 1], b',"schema":', end)
        if found == value["digest"]:
            return found
    try:
        return digest(schema, value["body"])
    except ValueError:
        return ""


def read(
    path: Path, schema: str, what: str, remedy: str = "", contract: str | None = None
) -> tuple[dict[str, Any], str]:
    """The body and digest of a stage file whose digest was recomputed.

    Args:
        path: the file.
        schema: what it has to be.
        what: its name for the error.
        remedy: the command that brings it back; by default, removing it and running the workflow again.
        contract: the contract to which its body has to say that it belongs, if to any.

    Raises:
        EvidenceError: it is missing, was altered, is something else, or belongs to another contract.
    """
    remedy = remedy or f"To make it again: rm -f '{path}' and run snakemake again"
    data = files.read(path, what, remedy)
    value = canonical.decode(data, str(path))
    if not isinstance(value, dict) or value.keys() != {"schema", "digest", "body"} or value["schema"] != schema:
        raise EvidenceError(f"{what} is not a {schema} file: {path}", remedy)
    if not isinstance(value["body"], dict) or _digest(data, value) != value["digest"]:
        raise EvidenceError(f"{what} was altered: {path} does not have the digest that it carries", remedy)
    body: dict[str, Any] = value["body"]
    if contract is not None and body["contract"] != contract:
        raise EvidenceError(f"{path} belongs to another contract than the registered one ({what})", remedy)
    return body, str(value["digest"])
