"""Whatever others wrote stands on the page as text: escaped, without steering characters, and not without end."""

from __future__ import annotations

import copy
import json
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest

from dcpflow.records import canonical
from dcpflow.records.packet import Packet, Page
from dcpflow.report import material, page
from dcpflow.report.material import Experiment, Material

if TYPE_CHECKING:
    from tests.conftest import Audit

MARK = "tell-tale"
HOSTILE = {
    "script": f"<script>{MARK}()</script>",
    "attribute": f'" onload="{MARK}()" x=\'',
    "end of style": f"</style></title></svg><img src=x onerror={MARK}()>",
    "comment": f"--><!-- {MARK} ]]>",
    "template": f"{{{{ {MARK} }}}}{{% raw %}}",
    "bidi": f"{MARK} \N{RIGHT-TO-LEFT OVERRIDE}DEIFITREC\N{FIRST STRONG ISOLATE}\N{LEFT-TO-RIGHT MARK}",
    "control": f"{MARK}\x00\x07\x1b[2J\x7f\x9b\N{LINE SEPARATOR}\N{ZERO WIDTH SPACE}\ufeff",
    "long": MARK * 120_000,
    "lone surrogate": f"{MARK} \ud800",
}
ENTIRELY_OURS = {"schema", "status", "class", "rule", "recovery", "result", "agent"}
"""Words of a decision that the engine writes from a fixed list, or that decide which sentence is written."""


class Seen(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data!r:.80}")


def poisoned(value: Any, text: str, key: str = "") -> Any:
    """The same with every word replaced that is not one of a fixed list."""
    if isinstance(value, dict):
        return {name: poisoned(item, text, name) for name, item in value.items()}
    if isinstance(value, list):
        return [poisoned(item, text, key) for item in value]
    return text if isinstance(value, str) and key not in ENTIRELY_OURS else value


def hostile(found: Material, text: str) -> Material:
    """An audit in which all that others can write is hostile: decision, tables, replies, pages of the Web."""
    decision = poisoned(copy.deepcopy(dict(found.decision)), text)
    decision["gate2"]["witnesses"] = [text] * 3
    decision["faults"] = decision["notes"] = [text] * 3
    change = {"key": text, "old": text, "new": {text: [text]}}
    decision["registration"]["amendments"] = [{"changes": [change], "opened": {"scores": {text: text}}}]
    decision["confirmatory"] = {"core": decision["core"], "evidence": decision["evidence"]}
    told = text.encode("utf-8", "replace").decode()
    seen = Page(text, 200, text, canonical.digest(b""), canonical.digest(b""))
    rows = [{**row, "outcome": text, "reason": text} for row in found.tables["episodes"]]
    return replace(
        found,
        decision=decision,
        tables={**found.tables, "episodes": rows},
        experiments=[Experiment("sha256:" + "0" * 64, {told: "0.5", "total": told[:50]})] * 3,
        packet=Packet((seen,), {canonical.digest(b""): text}),
    )


@pytest.fixture(scope="module")
def found(finished_audit: Audit) -> Material:
    return material.read(finished_audit.job.layout)


@pytest.fixture(params=HOSTILE)
def written(request: pytest.FixtureRequest, found: Material) -> bytes:
    return page.render(hostile(found, HOSTILE[request.param]))


def test_hostile_text_is_shown_and_does_nothing(written: bytes, found: Material) -> None:
    ordinary, seen = Seen(), Seen()
    ordinary.feed(page.render(found).decode())
    seen.feed(written.decode())
    assert sum(MARK in text for text in seen.texts) > 20
    assert seen.tags - ordinary.tags <= {"a", "h3"}
    assert {name for name, _ in seen.attributes} <= {name for name, _ in ordinary.attributes} | {"href"}
    assert not [name for name, _ in seen.attributes if name.startswith("on")]
    for name, value in seen.attributes:
        assert name not in {"href", "src", "class", "style"} or MARK not in value


def test_nothing_steers_the_display(written: bytes) -> None:
    """No control or format character but the ends of our own lines, and no half of a character."""
    assert not list(_steering(written.decode("utf-8")))


def _steering(text: str) -> Iterator[str]:
    return (
        letter for letter in text if letter != "\n" and unicodedata.category(letter) in {"Cc", "Cf", "Cs", "Zl", "Zp"}
    )


def test_nothing_is_without_end(written: bytes) -> None:
    assert len(written) < 1_500_000
    assert not re.search(rb"[^\n<>]{20000}", written)


def test_an_experiment_that_is_no_text_in_utf_8_is_an_experiment() -> None:
    asked = {"id": 1, "action": "experiment", "candidate": f"{MARK} \ud800"}
    lines = [
        {"from": "harness", "line": "{}"},
        {"from": "agent", "line": json.dumps(asked)},
        {"from": "harness", "line": '{"id":1,"ok":true,"result":{"total":"0.5"}}'},
    ]
    (one,) = material.experiments(lines)
    assert one.result == {"total": "0.5"} and canonical.is_digest(one.artifact)


def test_what_an_agent_may_do_often_is_shown_bounded(found: Material) -> None:
    """Thousands of challengers, experiments, addresses and amendments."""
    decision = copy.deepcopy(dict(found.decision))
    address = {"url": "http://a.test/" + "x" * 9_000, "status": 200, "content_type": "text/html", "body": "sha256:0"}
    decision["web"]["fetched"] = [address] * 5_000
    change = {"key": "k" * 500, "old": "o" * 500, "new": "n" * 500}
    decision["registration"]["amendments"] = [{"changes": [change] * 40, "opened": {}}] * 1_000
    first = found.of("challengers")[0]
    many = replace(
        found,
        decision=decision,
        tables={**found.tables, "episodes": [{**first, "slot": slot} for slot in range(1, 20_000)]},
        experiments=[Experiment("sha256:0", {"score": "0.5", "more": "x" * 5_000})] * 5_000,
    )
    assert len(page.render(many)) < 1_500_000
