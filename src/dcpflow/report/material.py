"""What the page is made of: the decision, the tables that it rests on, the registration, the target run's words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dcpflow.errors import EvidenceError
from dcpflow.evidence import folder, tables
from dcpflow.evidence.decision import SCHEMA
from dcpflow.records import canonical, files, packet, registration
from dcpflow.records.layout import Layout
from dcpflow.records.objects import ObjectStore
from dcpflow.records.packet import Packet
from dcpflow.records.registration import Registered
from dcpflow.records.transcript import exchanges

Row = dict[str, Any]
TABLES: Final = ("episodes", "calls", "scores", "controls", "pairs")


@dataclass(frozen=True, slots=True)
class Experiment:
    """One experiment of the target run.

    Attributes:
        artifact: digest of what was tried.
        result: what the channel told, as it was sent.
    """

    artifact: str
    result: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Material:
    """One audit as its page shows it.

    Attributes:
        decision: the content of ``decision.json``.
        digest: of its bytes.
        tables: rows of the tables that the page counts in, by name.
        registered: what was registered; None for an imported bundle, which registers elsewhere.
        hello: the first message of the target run: K, E0 and budgets; empty where no conversation was recorded.
        experiments: of the target run, in order.
        packet: what it has seen of the Web; empty where the Web was not offered, or is not recorded.
    """

    decision: Mapping[str, Any]
    digest: str
    tables: Mapping[str, Sequence[Row]]
    registered: Registered | None
    hello: Mapping[str, Any]
    experiments: Sequence[Experiment]
    packet: Packet

    @property
    def seal(self) -> Mapping[str, Any]:
        """What was sealed and committed to before the first episode; empty for an imported bundle."""
        return self.registered.parts["task"]["seal"] if self.registered else {}

    def config(self, part: str) -> Mapping[str, Any]:
        """What was registered in a part; empty for an imported bundle."""
        return self.registered.config(part) if self.registered else {}

    def of(self, stage: str) -> list[Row]:
        """The episodes of a stage, slot by slot."""
        return [row for row in self.tables["episodes"] if row["stage"] == stage]

    def best(self) -> dict[str, Row]:
        """By record, the score of its best candidate: the first valid one with the highest mean, else the last. An
        episode that came to something else than an artifact has none.

        Each with ``score``, the mean over its sealed units (None unless it is valid), ``validity`` and ``artifact``.
        """
        counted = {row["record"] for row in self.tables["episodes"] if row["outcome"] == "artifact"}
        found: dict[str, Row] = {}
        for new in self.tables["scores"]:
            if new["role"] != "candidate" or new["record"] not in counted:
                continue
            old = found.get(new["record"])
            if old is None or old["score"] is None or (new["score"] is not None and new["score"] > old["score"]):
                found[new["record"]] = new
        return found


def read(layout: Layout) -> Material:
    """Read an audit that has been decided.

    Each table is held against the digest that the decision names, and each object against its own.

    Raises:
        EvidenceError: something is missing, or is not what the decision rests on.
    """
    remedy = layout.to_decide
    data = files.read(layout.decision, "the decision", remedy)
    decision = canonical.decode(data, str(layout.decision))
    if not isinstance(decision, dict) or decision.get("schema") != SCHEMA:
        raise EvidenceError(f"{layout.decision} is no decision that this version of dcpflow can show", remedy)
    known = decision["rests_on"].get("tables", {})
    found = {name: _table(layout, name, known.get(name)) for name in TABLES}
    registered = registration.read_registration(layout.registration) if known else None
    target = next((row for row in found["episodes"] if row["stage"] == "target"), None)
    hello, experiments = _conversation(layout, target["transcript"]) if target and target["transcript"] else ({}, [])
    seen = decision.get("web") and packet.load(ObjectStore(layout.objects), decision["web"]["packet"], remedy)
    return Material(decision, canonical.digest(data), found, registered, hello, experiments, seen or Packet())


def _table(layout: Layout, name: str, digest: str | None) -> list[Row]:
    path = folder.table_path(layout, name)
    rows = tables.read(path, name)
    if digest is not None and tables.rows_digest(name, rows) != digest:
        raise EvidenceError(
            f"the table {path} is not the one that {layout.decision} rests on",
            f"To make both again: rm -f '{path}' '{layout.decision}' and run snakemake again",
        )
    return rows


def _conversation(layout: Layout, transcript: str) -> tuple[dict[str, Any], list[Experiment]]:
    what = "the transcript of the target run"
    lines = [canonical.decode(line, what) for line in ObjectStore(layout.objects).get(transcript, what).splitlines()]
    return canonical.decode(lines[0]["line"].encode(), what), list(experiments(lines))


def experiments(lines: Sequence[Mapping[str, str]]) -> Iterator[Experiment]:
    """The experiments of a conversation that were carried out."""
    for request, reply in exchanges(lines):
        candidate = request.get("candidate")
        if request.get("action") == "experiment" and reply.get("ok") and isinstance(candidate, str):
            result = reply.get("result")
            yield Experiment(
                canonical.digest(candidate.encode("utf-8", "surrogatepass")), result if isinstance(result, dict) else {}
            )
