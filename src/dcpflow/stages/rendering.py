"""Makes the page of an audit that may have been received from others: of a results folder or of a bundle."""

from __future__ import annotations

from pathlib import Path

from dcpflow.bundles import audit, imported
from dcpflow.bundles.kinds import Kind, recognise
from dcpflow.bundles.verify import named
from dcpflow.errors import UsageError
from dcpflow.records import files
from dcpflow.records.layout import Layout
from dcpflow.report import costs, material, page, times


def render(path: Path, output: Path | None, *, with_times: bool, with_costs: bool = False) -> Path:
    """Write the page of an audit.

    What came as a bundle is verified first, since its author wrote the decision too.

    Args:
        path: a results folder, the folder of an imported dcp-audit bundle, or a bundle of ours.
        output: the file to write; by default ``report.html`` in the folder, or a page beside the bundle.
        with_times: whether to add wall times, which are no part of the evidence.
        with_costs: whether to add what the model has cost, which is none either.

    Returns:
        The file that was written.

    Raises:
        EvidenceError: something is missing or altered, or the bundle does not verify. Nothing is written.
        UsageError: the path holds no audit that has a page, or no times, or no costs.
    """
    kind = recognise(path)
    with named(path, kind):
        layout = _open(path, kind)
        found = material.read(layout)
        strata = {name: block["contract"] for name, block in found.decision.get("strata", {}).items()}
        taken = times.read(layout, found.decision["registration"]["contract"], strata) if with_times else None
        if with_times and taken is None:
            raise UsageError(f"no times lie beside the records of {path}", "Leave --times out: a bundle has none")
        spent = _costs(path, kind, found) if with_costs else None
        made = page.render(found, taken, spent)
    output = output or (path.with_name(f"{path.name}.html") if kind is Kind.BUNDLE else layout.report)
    files.write_atomic(output, made)
    return output


def _open(path: Path, kind: Kind) -> Layout:
    if kind is Kind.DCP_AUDIT:
        raise UsageError(f"{path} is a bundle of dcp-audit", "Import it first: dcpflow bundle import BUNDLE FOLDER")
    if kind is Kind.BUNDLE:
        opened = audit.open_bundle(path)
        audit.replay(opened)
        return opened.layout
    if kind is Kind.IMPORTED:
        imported.check(path)
    return Layout(path)


def _costs(path: Path, kind: Kind, found: material.Material) -> list[material.Row]:
    calls = found.tables["calls"]
    if kind is Kind.IMPORTED or (kind is Kind.BUNDLE and calls):
        raise UsageError(f"{path} holds no costs", "Leave --costs out: a bundle has none")
    return costs.read(path / "costs.parquet", calls)
