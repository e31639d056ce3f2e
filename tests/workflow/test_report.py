"""The report is a target of its own: made on request, remade when the decision is, the same bytes each time."""

from __future__ import annotations

import re

from workflow.conftest import Audit, Finished

REPORT = "results/cases/demo/report.html"


def test_the_report_is_made_on_request_alone_and_anew_with_the_same_bytes(finished: Finished, audit: Audit) -> None:
    assert "report" not in finished.run.rules
    assert audit.finish("--", "report").rules == ["report"]
    page = audit.folder / REPORT
    first = page.read_bytes()
    assert audit.run("--", "all", "report").idle
    page.unlink()
    assert audit.finish("--", REPORT).rules == ["report"]
    assert page.read_bytes() == first
    made = audit.dcpflow("report")
    assert made.code == 0, made.text
    assert page.read_bytes() == first
    assert f"report      {REPORT}" in audit.dcpflow("show").text


def test_snakemake_s_own_report_holds_the_page(audit: Audit) -> None:
    audit.finish("--", "report")
    run = audit.finish("--report", "snakemake.html", "--", "report")
    assert "Adding report.html" in run.text
    text = (audit.folder / "snakemake.html").read_text("utf-8")
    assert re.search(r"what is not claimed, on one page", text)
