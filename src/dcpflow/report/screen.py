"""A decision on one screen of a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any

from dcpflow.errors import plain as plain  # noqa: PLC0414 - part of this module, for those that print
from dcpflow.evidence.checks import BOUNDARIES
from dcpflow.records import canonical, files, snapshot
from dcpflow.records.layout import Layout

MARKS = {"pass": "+", "fail": "!", "not_assessed": "?"}


def read(path: Path) -> dict[str, Any]:
    """A decision from its file.

    Raises:
        EvidenceError: it is missing, or no JSON.
    """
    data = files.read(path, "the decision", Layout(path.parent).to_decide)
    decision: dict[str, Any] = canonical.decode(data, str(path))
    return decision


def report_of(path: Path) -> Path | None:
    """The report beside a decision; None where there is none, or where it is the report of another decision."""
    page = path.with_name("report.html")
    known = canonical.digest(path.read_bytes()).encode()
    return page if page.exists() and known in page.read_bytes() else None


def registry_of(path: Path) -> str:
    """What the registry knew when the audit of a decision was started; empty where none was asked.

    It is no part of the decision, which is the same wherever and however often the audit is run.
    """
    said = snapshot.read(path.parent / "registration")
    if said is None:
        return ""
    kept = "signed" if said.key else "signed by nobody"
    slots = f"; of other slots: {', '.join(said.earlier[:3])}" if said.earlier else ""
    late = f"; told after {said.episodes} episodes" if said.episodes else ""
    starts = "1 earlier start" if said.starts == 1 else f"{said.starts} earlier starts"
    return plain(f"{said.origin} ({kept}) knew {starts} of the claim or its family{slots}{late}")


def render(decision: Mapping[str, Any]) -> str:
    """The decision for a person: statuses first, then the numbers that they rest on, then the checks."""
    lines = [_headline(decision, "core", "Core    "), _headline(decision, "evidence", "Evidence")]
    lines += [f"beside    {text[:1].upper()}{text[1:]}" for text in decision.get("headline", ())]
    # among the first lines: what the statuses are worth depends on who has audited
    lines += [_roles(decision)]
    lines += [""]
    lines += [f"claim     {decision['claim']['id']}: {decision['claim']['statement']}"]
    lines += [_scope(decision), *_web(decision.get("web"))]
    lines += [*_retrospective(decision.get("retrospective")), ""]
    lines += [_gate1(decision["gate1"]), *_gate2(decision["gate2"], decision["controls"])]
    lines += _gate3(decision["gate3"]) if decision["gate3"] else ["Gate 3    not registered (grade core)"]
    lines += _policies(decision.get("neutral_policies"))
    lines += [line for name, block in decision.get("strata", {}).items() for line in _stratum(name, block)]
    lines += ["", *_checks(decision["checks"]), *_warnings(decision["warnings"]), *_amendments(decision)]
    lines += ["", "not claimed: " + "; ".join(decision["not_claimed"])]
    return "\n".join(plain(line) for line in lines)


def _headline(decision: Mapping[str, Any], key: str, name: str) -> str:
    verdict = decision[key]
    kind = f" ({verdict['class']})" if verdict["class"] else ""
    mark = ", EXPLORATORY: decided under an amended registration" if verdict["exploratory"] else ""
    return f"{name}  {verdict['status'].upper()}{kind}{mark}: {verdict['reason']} [{verdict['rule']}]"


def _scope(decision: Mapping[str, Any]) -> str:
    scope = decision["scope"]
    budget = scope["budget"]
    if budget["experiments"] is None:
        return f"scope     model {scope['model']}, task {scope['information']}; agent and budget are not recorded"
    text = f"scope     {scope['agent']}, {budget['experiments']} experiments, {budget['candidates']} candidate"
    if decision["registration"]["public_demonstration"]:
        text += "; PUBLIC DEMONSTRATION, its nonce is no secret: an exercise, not a discovery"
    return text


def _roles(decision: Mapping[str, Any]) -> str:
    if "imported" in decision:
        made = decision["imported"]
        return (
            f"audit     imported from a {made['format']} bundle ({made['profile']}, {made['bundle']}): "
            f"{decision['provenance']}, its checks are its author's word; no certificate was issued"
        )
    roles = decision["roles"]
    who = "self-audited by " + roles["claimant"] if roles["self_audited"] else f"audited by {roles['auditor']}"
    runs = f"target runs started: {decision['target_runs_started']}"
    if "retrospective" in decision:
        runs = "no target run, RETROSPECTIVE"
    return f"audit     {who}; {runs}; no certificate was issued"


def _web(web: Mapping[str, Any] | None) -> list[str]:
    if not web:
        return []
    hosts = sorted({page["url"].split("/")[2] for page in web["fetched"]})
    told = f"{len(web['fetched'])} addresses fetched from {', '.join(hosts)}" if hosts else "nothing was fetched"
    return [f"Web       {told}, by the target run alone; everybody else was given what it saw"] + (
        [f"          on loopback, not public: {web['on_loopback']}"] if web["on_loopback"] else []
    )


def _retrospective(found: Mapping[str, Any] | None) -> list[str]:
    if not found:
        return []
    return [
        f"published {found['published']}",
        f"boundary  {BOUNDARIES[found['mode']]}, by the auditor's word: {found['boundary']}",
        f"          known before, and given: background {found['known']['background']}, "
        f"public files: {', '.join(found['known']['public']) or 'none'}",
    ]


def _gate1(gate: Mapping[str, Any]) -> str:
    gain = gate["gain"]
    return (
        f"Gate 1    score {number(gate['x'])}, baseline {number(gate['baseline'])}, "
        f"gain at least {number(gain['lower'])} (registered {gate['delta_min']:g})"
    )


def _gate2(gate: Mapping[str, Any], controls: Mapping[str, Any]) -> list[str]:
    seats, without_failed = gate["challengers"], gate["recovery_upper_bound_without_failures"]
    found = (
        f"hits {number(seats['hits'])} of {number(seats['independent'])} independent challengers "
        f"({seats['started']} started, {seats['model_failures']} failed, {seats['infrastructure']} lost)"
    )
    return [
        f"Gate 2    {found}; best {number(gate['best_score'])}, line {number(gate['recovery_line'])}",
        f"          recovery probability at most {number(gate['recovery_upper_bound'])} (registered {gate['rho']:g})"
        + (f"; without the failed {number(without_failed)}" if seats["model_failures"] else "")
        + (f"; recovered by {', '.join(gate['witnesses'][:3])}" if gate["witnesses"] else ""),
        *(f"          {words}" for words in looked(gate, "challengers")),
        *_campaign(gate.get("campaign")),
        *(f"          not adequate: {reason}" for reason in gate["adequacy"]),
        f"Controls  {controls['successes']} of {controls['trials']}; recall at least "
        f"{number(controls['recall_lower_bound'])} (registered {controls['recall_min']:g})",
    ]


def looked(gate: Mapping[str, Any], stage: str) -> list[str]:
    """How often challengers or pairs were looked at, and what that has saved; nothing where that was done once."""
    found = gate.get("looks")
    if not found:
        return []
    ends = [str(end) for end in accumulate(look[stage] for look in found)]
    ended = next((end for end, look in zip(ends, found, strict=True) if look["ends"]), None)
    words = f"looked at after {', '.join(ends[:-1])} and {ends[-1]} {stage}: "
    what = "a recovery" if stage == "challengers" else "the effect was decided"
    if ended is None:
        return [f"{words}{'no look had a recovery' if stage == 'challengers' else 'no look decided the effect'}"]
    return [f"{words}{what} by {ended}, {gate['not_started']} not started, outside of all counts"]


def _campaign(campaign: Mapping[str, Any] | None) -> list[str]:
    """What the bound means for many fresh episodes; a decision of an earlier version does not say it."""
    lines = []
    if campaign and campaign["at_bound"]:
        rows = campaign["at_bound"]
        counts, risks = (", ".join(format(row[key], form) for row in rows) for key, form in _RISK)
        lines.append(f"          in {counts} fresh episodes a recovery has a chance of at most {risks}")
    if campaign and campaign["seen"]:
        rows = campaign["seen"]
        routes, chances = (", ".join(format(row[key], form) for row in rows) for key, form in _ROUTE)
        lines.append(f"          a route of probability {routes} would have been seen with a chance of {chances}")
    return lines


_RISK = (("episodes", "d"), ("at_most", ".4f"))
_ROUTE = (("probability", "g"), ("chance", ".4f"))


def _gate3(gate: Mapping[str, Any]) -> list[str]:
    pairs, effect, null = gate["pairs"], gate["effect"], gate["null"]
    return [
        f"Gate 3    truthful {gate['truthful_hits']}, neutral {gate['neutral_hits']} of {pairs['analysed']} analysed "
        f"pairs ({pairs['registered']} registered), checkpoint {gate['checkpoint_scope']}",
        f"          effect {number(effect['mean'])} in {interval(effect)}; less the null band: "
        f"{number(gate['margin'])} (registered {gate['delta_evidence']:g})",
        *(f"          {words}" for words in looked(gate, "pairs")),
        f"          null study {null['pairs']} pairs, {number(null['mean'])} in {interval(null)} "
        f"(band {gate['delta_sham']:g})",
    ]


def _policies(found: Mapping[str, Any] | None) -> list[str]:
    """Further neutral policies, which decide nothing, and how far all of them are apart."""
    if not found:
        return []
    lines = [line for name, block in found["further"].items() for line in _policy(name, block)]
    apart = found["spread"]
    return [
        *lines,
        f"Spread    of {', '.join(apart['policies']) or 'no policy'}: effect {number(apart['effect'])}, "
        f"neutral rate {number(apart['neutral_rate'])}"
        + (f"; left out, not complete: {', '.join(apart['left_out'])}" if apart["left_out"] else ""),
    ]


def _policy(name: str, block: Mapping[str, Any]) -> list[str]:
    pairs, effect = block["pairs"], block["effect"]
    mark = ", EXPLORATORY" if block["exploratory"] else ""
    lines = [
        f"Policy    {name} ({block['label']}{mark}, {block['calibration']}): truthful {block['truthful_hits']}, "
        f"neutral {block['neutral_hits']} of {pairs['analysed']} analysed pairs ({pairs['started']} of "
        f"{pairs['registered']} started, {pairs['lost']} lost, {pairs['unresolved']} unresolved)",
        f"          effect {number(effect['mean'])} in {interval(effect)}, no null band taken off; neutral recovery "
        f"probability at most {number(block['neutral_upper_bound'])}"
        + (f"; recovered by {', '.join(block['witnesses'][:3])}" if block["witnesses"] else ""),
    ]
    return lines if block["complete"] else [*lines, f"          not complete: {block['reason']}"]


def _stratum(name: str, block: Mapping[str, Any]) -> list[str]:
    """A stratum, which decides nothing, with its arm and denominator."""
    seats = block["challengers"]
    mark = ", EXPLORATORY" if block["exploratory"] else ""
    lines = [
        f"Stratum   {name} ({block['label']}{mark}): {block['agent']}, {block['budget']['experiments']} experiments; "
        f"hits {seats['hits']} of {seats['independent']} independent challengers ({seats['started']} of "
        f"{seats['registered']} started, {seats['model_failures']} failed, {seats['infrastructure']} lost); "
        f"best {number(block['best_score'])}",
        f"          recovery probability at most {number(block['recovery_upper_bound'])} (error {block['alpha']:g})"
        + (f"; recovered by {', '.join(block['witnesses'][:3])}" if block["witnesses"] else ""),
    ]
    return lines if block["complete"] else [*lines, f"          not complete: {block['reason']}"]


def _checks(checks: list[Mapping[str, Any]]) -> list[str]:
    passed = [check for check in checks if check["result"] == "pass"]
    lines = [f"checks    {len(passed)} of {len(checks)} passed"]
    lines += [
        f"        {MARKS[check['result']]} {check['name']} ({check['needed_for']}): {check['reason']}"
        for check in checks
        if check["result"] != "pass"
    ]
    return lines


def _warnings(warnings: list[str]) -> list[str]:
    """What was registered and is weak."""
    return [f"{'' if number else 'warnings':10}{text}" for number, text in enumerate(warnings)]


def _amendments(decision: Mapping[str, Any]) -> list[str]:
    amendments = decision["registration"]["amendments"]
    if not amendments:
        return []
    lines = ["", f"amended   {len(amendments)} times since the first registration:"]
    for amendment in amendments:
        lines += [f"          {c['key']}: {_short(c['old'])} -> {_short(c['new'])}" for c in amendment["changes"]]
    first = decision["confirmatory"]
    if first:
        lines.append(
            f"          under the first registration: Core {first['core']['status']}, "
            f"Evidence {first['evidence']['status']}"
        )
    else:
        lines.append("          the first registration was amended before it was decided")
    return lines


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 24 else text[:23] + "\N{HORIZONTAL ELLIPSIS}"


def number(value: float | int | None, digits: int = 4) -> str:
    """A number as people read it; a dash for none."""
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.{digits}f}"


def interval(found: Mapping[str, Any]) -> str:
    """An interval as people read it."""
    return f"[{number(found['lower'])}, {number(found['upper'])}]"
