"""The page of a small audit, read as a browser reads it, and audits that came out otherwise."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest

from dcpflow.report import material, page
from dcpflow.report.material import Material

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
