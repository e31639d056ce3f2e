"""Says of an audit that was verified what was recomputed, and what is on record only."""

from __future__ import annotations

from dcpflow.bundles import contents
from dcpflow.bundles.audit import Replayed
from dcpflow.bundles.verify import REGISTRY, TASK
from dcpflow.evidence import policies

Line = tuple[str, str]


def recomputed(replayed: Replayed) -> tuple[Line, ...]:
    """What was recomputed, as name and detail."""
    view, checks = replayed.evidence.view, replayed.decided.checks
    parts = (view, *view.parts.values())
    artifacts = sum(len(rows) for part in parts for rows in part.scores.values())
    phases = sum(len(part.scores) for part in parts)
    passed = sum(check["result"] == "pass" for check in checks)
    history = "one in the history" if replayed.registrations == 1 else f"{replayed.registrations} in the history"
    lines = [
        ("registration", f"contract and registration digest, every part, {history}"),
        ("records", f"{len(view.everything)} episodes: receipt, record, transcript, candidates, isolation probe"),
        *([("web", f"{len(view.packet.pages)} pages: address, body, text, every reply")] if view.packet.pages else []),
        ("scores", f"{artifacts} scored artifacts in {phases} phases, with means and intervals"),
        ("tables", f"the rows of {len(contents.TABLES)} tables, from records and scores"),
        ("checks", f"{len(checks)} from the records: {passed} passed"),
        *([("strata", f"{', '.join(view.strata)}: informative, each under its own contract")] if view.strata else []),
        *([("neutral policies", f"{', '.join(view.policies)}: informative")] if view.policies else []),
        ("decision", "from the evidence: byte for byte the one that stands there"),
    ]
    if replayed.source.manifest is not None:
        lines.insert(
            0, ("bundle", f"{replayed.source.manifest.members} members, each in the one form that it can have")
        )
    secrets, opened = replayed.secrets, replayed.opened
    if secrets is not None and opened is not None:
        lines.append(
            (
                "draws",
                f"of {opened.draws} episodes, {opened.orders} scoring orders and {opened.canaries} canary files, "
                f"from {secrets.source}",
            )
        )
        lines.append(("commitments", f"opened: {', '.join(opened.commitments)}"))
    return tuple(lines)


def recorded(replayed: Replayed) -> tuple[Line, ...]:
    """What only the records say, as name and reason."""
    what = "what agents were told, and scores: its code alone can tell (RESULTS --nonce-file FILE)"
    lines = [(TASK, what)]
    noted = replayed.evidence.view.noted
    if noted and noted.speaks:
        lines.append((REGISTRY, f"what {noted.origin!r} knew at the start: it alone can tell (--registry PLACE)"))
    if replayed.secrets is None:
        lines.insert(0, ("draws", "with scoring orders and canary files: the nonce is not revealed"))
        lines.insert(1, ("commitments", "that they open: the sealed material is not revealed"))
    elif not replayed.secrets.material:
        lines.insert(0, ("material", "that hidden and sealed values are those committed to: they are not revealed"))
    return tuple(lines)


def remarks(replayed: Replayed) -> tuple[str, ...]:
    """What stands beside the statuses, strata and neutral policies that are not complete, and checks that did not
    pass."""
    document = replayed.decided.document
    found = [*document.get("headline", ())]
    apart = {"stratum": document.get("strata", {}), "neutral policy": policies.blocks(document)}
    found += [
        f"the {kind} {name} (informative) is not complete: {block['reason']}"
        for kind, blocks in apart.items()
        for name, block in blocks.items()
        if not block["complete"]
    ]
    found += [
        f"{check['result'].replace('_', ' ')}: {check['name']} ({check['needed_for']}): {check['reason']}"
        for check in replayed.decided.checks
        if check["result"] != "pass"
    ]
    return tuple(found)
