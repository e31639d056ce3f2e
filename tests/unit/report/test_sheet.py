"""Pages of tables and figures: as careful as the report with what they are given."""

from __future__ import annotations

from pathlib import Path

import pytest

from dcpflow.errors import UsageError
from dcpflow.report import sheet
from report.conftest import example, parsed

HOSTILE = "</text><script>alert(1)</script>\x1b[31m\u202egnp.exe" + "x" * 1_000_000


def test_hostile_text_is_shown_and_does_nothing() -> None:
    data = sheet.render(example(HOSTILE))
    found = parsed(data)
    assert not {tag for tag, _ in found.tags} & {"script", "img", "iframe"}
    assert "<script>alert(1)</script>" in found.text
    assert not {"\x1b", "\u202e"} & set(data.decode())
    assert len(data) < 1_500_000


def test_it_can_be_read_without_seeing_it_and_needs_nothing_but_itself() -> None:
    found = parsed(sheet.render(example()))
    assert len(found.of("caption")) == len(found.of("table")) == 1
    identities = [attributes["id"] for _, attributes in found.tags if "id" in attributes]
    assert len(identities) == len(set(identities))
    assert len(found.of("svg")) == 3
    for figure in found.of("svg"):
        assert set((figure["aria-labelledby"] or "").split()) <= set(identities)
    assert "registered 0.1; flips at 0.2; Core certified; Core refuted;" in found.text
    (policy,) = (meta["content"] for meta in found.of("meta") if "http-equiv" in meta)
    assert policy and policy.startswith("default-src 'none'")
    for _, attributes in found.tags:
        assert (attributes.get("href") or "#").startswith(("#", "data:,")) and "src" not in attributes


def test_a_page_that_cannot_be_written_is_said_in_a_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        sheet.write(tmp_path, example())
