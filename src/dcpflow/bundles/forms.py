"""Holds the files of an audit against their shapes, in a results folder or a bundle, before they are used."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from dcpflow.bundles import shapes
from dcpflow.bundles.dcp_audit import strict_json
from dcpflow.bundles.dcp_audit.errors import BundleError
from dcpflow.bundles.shapes import COUNT, DIGEST, OBJECT, TEXT, Mismatch, Shape, hold, listed, mapped, record, word
from dcpflow.errors import EvidenceError
from dcpflow.evidence import folder
from dcpflow.evidence.view import AuditView
from dcpflow.records import canonical, finite, history, plan, registration, snapshot
from dcpflow.records.episodes import EpisodeKey, EpisodeRecord, EpisodeStore
from dcpflow.records.layout import Layout
from dcpflow.records.objects import ObjectStore
from dcpflow.records.scores import ScoreRow

_EVIDENCE: Final = record(contract=DIGEST, tables=record(**dict.fromkeys(folder.TABLES, DIGEST)), scores=mapped(DIGEST))
_BUDGETS: Final = mapped(COUNT)
_SCORE_ROW: Final = tuple(field.name for field in fields(ScoreRow))
_RECORD: Final[Mapping[str, Shape]] = {
    **dict.fromkeys(("contract", "registration", "prior_seal", "unit", "transcript", "isolation"), DIGEST),
    "stage": shapes.STAGE,
    "slot": shapes.POSITION,
    "draw": shapes.DRAW,
    "outcome": shapes.OUTCOME,
    "candidates": listed(DIGEST),
    "usage": shapes.USAGE,
    "workspace": shapes.SEAL,
    "calls": shapes.SEAL,
    "packet": shapes.SEAL,
}
"""What the record's own reader, which checks the types of all fields, leaves open."""

_MAX_BRACKETS: Final = 512
"""A message with fewer brackets than this cannot be nested too deeply to be read, so it need not be measured."""


def check(layout: Layout, *, thorough: bool) -> None:
    """Check every file that is read on the way to the decision. Files that are missing are left to their readers.

    Args:
        layout: a results folder, or a bundle opened as one.
        thorough: whether to look into scores, records and transcripts too, of which there are thousands of lines, and
            to hold registered configurations against their model. What is odd in transcripts and configurations keeps
            the decision from being reached, so that this can be left until that has happened; scores and records are
            held against their shapes by :func:`check_read` once they were read.

    Raises:
        BundleError: one does not have its form; it names the file, the place and the rule.
    """
    for path, shape in _stage_files(layout):
        _body(layout, path, shape)
    if thorough:
        for path in (layout.root / "scores").rglob("*.json"):
            _body(layout, path, shapes.SCORES)
    for name, shape in shapes.PARTS.items():
        path = registration.part_path(layout.registration, name)
        if (value := _value(layout, path)) is not None:
            hold(shape, value, _name(layout, path))
    _check_history(layout, thorough=thorough)
    checked: set[str] = set()
    for path in [path for stage in plan.STAGES for path in (layout.root / stage).rglob("b*.json")]:
        receipt = _body(layout, path, shapes.RECEIPT)
        if thorough:
            _check_episodes(layout, receipt or {}, checked)


def check_read(layout: Layout, seen: AuditView, stratum: str = "") -> None:
    """Hold what was read of a contract against its shapes: records with the probes and lists of files that they name,
    and scores, which are large and were parsed once.

    Args:
        layout: a results folder.
        seen: the evidence of the contract.
        stratum: the name of the stratum whose contract it is; empty for the audit's own.

    Raises:
        BundleError: one does not have its form.
    """
    store, checked = EpisodeStore(layout.store, seen.registered.contract), set[str]()
    for episode in seen.episodes:
        path = store.record_path(episode.key, episode.record.attempt)
        _check_record(layout, path, episode.record, checked)
    for phase, rows in seen.scores.items():
        name = _name(layout, layout.scores(plan.place(phase, stratum)))
        hold(mapped(DIGEST), seen.score_inputs[phase], name, "body.inputs")
        for number, row in enumerate(rows):
            hold(shapes.SCORE_ROW, {key: getattr(row, key) for key in _SCORE_ROW}, name, f"body.rows[{number}]")


def _stage_files(layout: Layout) -> Iterator[tuple[Path, Shape]]:
    yield layout.registration / "contract.json", shapes.CONTRACT
    yield layout.registration / "registration.json", shapes.REGISTRATION
    yield snapshot.path(layout.registration), shapes.SNAPSHOT
    yield layout.checkpoint, shapes.CHECKPOINT
    yield layout.packet, shapes.PACKET
    yield layout.evidence / "facts.json", shapes.FACTS
    yield layout.evidence / "manifest.json", _EVIDENCE
    yield from ((path, shapes.HISTORY) for path in layout.history.glob("*/entry.json"))


def _check_history(layout: Layout, *, thorough: bool) -> None:
    """Each entry is the registration that its parts give, changed as it says, and can be read as a configuration."""
    parts: dict[str, Any] = {}
    for entry in history.entries(layout):
        folder_name = f"history/{entry.sequence:04d}-{entry.registration[7:23]}"
        name = f"{folder_name}/entry.json"
        if not (layout.root / name).exists():
            raise BundleError(name, "", "history", "is not where the entry of that number and registration belongs")
        if entry.contract != (expected := registration.contract_digest(entry.parts)):
            raise BundleError(name, "body.parts", "contract", f"give {expected}, not {entry.contract}")
        if entry.changes != (list(history.changes(parts, entry.parts)) if parts else []):
            raise BundleError(name, "body.changes", "changes", "are not those since the registration before")
        registered = registration.Registered(entry.registration, entry.contract, entry.parts)
        strata = [registration.of_stratum(registered, stratum).parts for stratum in registered.strata]
        if thorough:
            for given in (entry.parts, *strata):
                _check_config(name, given)
        kept = history.kept_decision(layout, entry)
        if kept is not None:
            _check_kept(f"{folder_name}/decision.json", kept)
        parts = entry.parts


def _check_config(name: str, parts: dict[str, dict[str, Any]]) -> None:
    from dcpflow.protocol.config import Config  # noqa: PLC0415 - heavy, and not needed for a folder that is well

    try:
        Config.model_validate_json(canonical.encode({part: value["config"] for part, value in parts.items()}))
    except ValueError as error:
        first = " ".join(str(error).split("\n")[1:3])
        raise BundleError(name, "body.parts", "config", f"no configuration of an audit: {first:.160}") from None


def _check_kept(name: str, data: bytes) -> None:
    """A decision that was kept: shown as it is, so that only what is shown of it has to be there."""
    value = strict_json.loads(data, name)
    hold(OBJECT, value, name)
    for key in ("core", "evidence"):
        hold(OBJECT, value.get(key), name, key)
        hold(shapes.VERDICT, value[key].get("status"), name, f"{key}.status")
    hold(listed(TEXT), value.get("headline", []), name, "headline")


def _check_episodes(layout: Layout, receipt: dict[str, Any], checked: set[str]) -> None:
    """Records, probes and transcripts, as a receipt names them."""
    objects = ObjectStore(layout.objects)
    for line in receipt.get("episodes", ()):
        if line["record"] in checked:
            continue
        checked.add(line["record"])
        store = EpisodeStore(layout.store, receipt["contract"])
        path = store.record_path(EpisodeKey(line["stage"], line["slot"], line["arm"]), line["attempt"])
        if (data := _read(path)) is None:
            continue
        name = _name(layout, path)
        found = EpisodeRecord.from_bytes(data, name)
        _check_record(layout, path, found, checked)
        if (data := _read(objects.path(found.transcript))) is not None:
            _check_transcript(_name(layout, objects.path(found.transcript)), data)


def _check_record(layout: Layout, path: Path, found: EpisodeRecord, checked: set[str]) -> None:
    try:
        for key, shape in _RECORD.items():
            shape(getattr(found, key))
        _ARMS[found.stage](found.arm)
    except Mismatch:
        # only now, since names are slow to make
        name = _name(layout, path)
        for key, shape in _RECORD.items():
            hold(shape, getattr(found, key), name, key)
        hold(_ARMS[found.stage], found.arm, name, "arm")
    for digest, shape in ((found.isolation, shapes.PROBE), (found.workspace, shapes.WORKSPACE)):
        if digest and digest not in checked:
            checked.add(digest)
            named = ObjectStore(layout.objects).path(digest)
            if (value := _value(layout, named)) is not None:
                hold(shape, value, _name(layout, named))


_ARMS: Final = {name: word(*stage.arms) for name, stage in plan.STAGES.items()}


def _check_transcript(name: str, data: bytes) -> None:
    for number, raw in enumerate(data.splitlines(), 1):
        line = _message(raw, name, number)
        if line.keys() not in _LINES or not all(isinstance(text, str) for text in line.values()):
            raise BundleError(name, f"line {number}", "transcript", "is no line of a transcript")
        if line["from"] == "harness":
            said = _message(line.get("line", "").encode("utf-8", "surrogatepass"), name, number)
            if number == 1:
                _check_hello(said, name)
        elif number == 1 or line["from"] != "agent":
            raise BundleError(name, f"line {number}", "transcript", "is neither the harness's nor the agent's")


_LINES: Final = ({"from", "line"}, {"from", "base64"})


def _check_hello(said: dict[str, Any], name: str) -> None:
    for key, kind in (("history", list), ("files", dict)):
        if not isinstance(said.get(key), kind):
            raise BundleError(name, f"line 1: {key}", "type", "is missing, or of a wrong type")
    hold(_BUDGETS, said.get("budgets"), name, "line 1: budgets")
    for key in ("experiments", "candidates"):
        hold(COUNT, said["budgets"].get(key), name, f"line 1: budgets.{key}")


def _message(raw: bytes, name: str, number: int) -> dict[str, Any]:
    """One JSON object of a transcript; quicker than the strict reader, since there are thousands."""
    try:
        if raw.count(b"[") + raw.count(b"{") > _MAX_BRACKETS:
            value = canonical.decode(raw, name)
        else:
            value = _DECODER.decode(raw.decode("utf-8"))
    except (EvidenceError, ValueError) as error:
        raise BundleError(name, f"line {number}", "json", f"not JSON that can be read: {error}") from None
    if not isinstance(value, dict):
        raise BundleError(name, f"line {number}", "type", "is no JSON object")
    return value


_finite, _refuse = finite.hooks(ValueError)
_DECODER: Final = json.JSONDecoder(parse_float=_finite, parse_constant=_refuse)


def _body(layout: Layout, path: Path, shape: Shape) -> dict[str, Any] | None:
    """The body of a stage file of this shape; None where there is no such file."""
    value = _value(layout, path)
    if value is None:
        return None
    hold(shapes.STAGE_FILE, value, _name(layout, path))
    hold(shape, value["body"], _name(layout, path), "body")
    body: dict[str, Any] = value["body"]
    return body


def _value(layout: Layout, path: Path) -> Any:
    """A strictly read JSON file; None where there is no such file."""
    data = _read(path)
    return None if data is None else strict_json.loads(data, _name(layout, path))


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise EvidenceError(f"{path} cannot be read: {error.strerror}") from None


def _name(layout: Layout, path: Path) -> str:
    """How a file is called in messages: by its place in the audit."""
    return str(path.relative_to(layout.root))
