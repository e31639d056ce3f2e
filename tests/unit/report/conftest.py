"""The page of a small audit, read as a browser reads it, and audits that came out otherwise."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest

from dcpflow.report import curves, figures, material, page
from dcpflow.report.axes import Axis
from dcpflow.report.material import Material
from dcpflow.report.sheet import Figure, Section, Sheet, Table

if TYPE_CHECKING:
    from tests.conftest import Audit

WITHOUT_END = {"meta", "link", "br", "hr", "img", "input", "line", "circle", "rect"}


@dataclass
class Page(HTMLParser):
    """A page as a parser of HTML sees it.

    Attributes:
        tags: each element with its attributes.
        texts: what is shown, without styles.
        problems: elements that do not close as they should.
    """

    tags: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    styles: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    _open: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in WITHOUT_END:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.problems.append(f"</{tag}> at {self.getpos()}")

    def handle_data(self, data: str) -> None:
        (self.styles if self._open[-1:] == ["style"] else self.texts).append(data)

    @property
    def text(self) -> str:
        """All that is shown, blanks and line ends as one blank."""
        return " ".join(" ".join(self.texts).split())

    def of(self, tag: str) -> list[dict[str, str | None]]:
        """The attributes of each element of a kind."""
        return [attributes for name, attributes in self.tags if name == tag]


def parsed(data: bytes) -> Page:
    found = Page()
    found.feed(data.decode())
    found.close()
    assert not found.problems and not found._open
    return found


@pytest.fixture(scope="session")
def small(finished_audit: Audit) -> Material:
    """What the page of the finished audit shows: too few episodes, so inconclusive."""
    return material.read(finished_audit.job.layout)


@pytest.fixture
def shown(small: Material) -> Callable[..., Page]:
    """Makes the page of an audit that came out otherwise: sections of the decision with what differs."""

    def make(**sections: dict[str, Any] | None) -> Page:
        return parsed(page.render(otherwise(small, **sections)))

    return make


def otherwise(found: Material, **sections: dict[str, Any] | None) -> Material:
    decision = copy.deepcopy(dict(found.decision))
    for name, values in sections.items():
        decision[name] = {**decision[name], **values} if isinstance(values, dict) and decision[name] else values
    return replace(found, decision=decision)


def priced(stage: str, slot: int, usd: float, fault: str = "") -> dict[str, Any]:
    """A row of the table ``costs``."""
    place = {"gate": "target", "stage": stage, "slot": slot, "arm": "", "attempt": 1, "record": f"{stage}/{slot}"}
    tokens = {"input_tokens": 1000, "cached_tokens": 400, "output_tokens": 20}
    return {**place, "number": 1, "fault": fault, "model": "m-1", **tokens, "usd": usd}


def example(hostile: str = "") -> Sheet:
    """A page with a figure of each kind, and some text wherever text can stand."""
    steps = curves.steps(
        [(f"Core{hostile}", [(0.0, 0.2, "certified", f"certified{hostile}"), (0.2, 0.5, "refuted", "refuted")])],
        ("certified", "inconclusive", "refuted", "not_tested"),
        [("claimed", f"registered 0.1{hostile}", 0.1), ("baseline", "flips at 0.2", 0.2)],
        Axis(0.0, 0.5, curves.STEPS_LEFT),
    )
    curve = curves.curve([(0.001, 0.9, f"0.9{hostile}"), (0.1, 0.2, "0.2")], [], Axis(0.001, 0.1, 9.0, True))
    spans = figures.spans([(f"rate{hostile}", "refuted", 0.1, 0.2, 0.3)], [], (0.0, 1.0))
    shown = [
        Figure(f"title {n}{hostile}", shapes, f"caption{hostile}") for n, shapes in enumerate((steps, curve, spans))
    ]
    table = Table(f"rows{hostile}", ("of", f"is{hostile}"), [("recall", f"0.9{hostile}")])
    section = Section(f"A section{hostile}", [f"words{hostile}"], shown, [table], ["claim:", f"  grade: core{hostile}"])
    return Sheet(
        f"kind{hostile}", f"An example{hostile}", (f"An example{hostile}", hostile), [section], f"end{hostile}"
    )
