"""The page that a reviewer reads: one file, without a script, without anything from elsewhere, without a clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from dcpflow.evidence import policies
from dcpflow.records import canonical, plan
from dcpflow.records.packet import Packet
from dcpflow.report import costs, figures, ledger, markup, wording
from dcpflow.report.material import Experiment, Material, Row
from dcpflow.report.screen import interval, number
from dcpflow.report.times import Times

MAX_ROWS: Final = 400
MAX_CHANGES: Final = 100
MAX_PATHS: Final = 3
STAGES: Final = {
    "target": "target run",
    "challengers": "challengers",
    "controls": "positive controls",
    "pairs": "feedback pairs",
    "pair_replacements": "replacements of feedback pairs",
    "null_pairs": "null pairs",
    "null_pair_replacements": "replacements of null pairs",
    "misled_nulls": "misled null episodes",
    **{stage: f"pairs of {policy}, informative" for policy, stage in plan.POLICIES.items()},
}


def render(material: Material, times: Times | None = None, spent: Sequence[Row] | None = None) -> bytes:
    """The page of one audit, the same bytes for the same evidence.

    Args:
        material: what it shows.
        times: wall times, which are no part of the evidence; left out where None.
        spent: rows of the table ``costs``, which is none either; left out where None.
    """
    return markup.page(
        "page.html", **_content(material), times=times, costs=costs.by_stage(spent) if spent is not None else None
    )


def _content(material: Material) -> dict[str, Any]:
    decision = material.decision
    best = material.best()
    challengers = [_episode(row, best) for row in material.of("challengers")]
    return {
        "decision": decision,
        "digest": material.digest,
        "statuses": [(name, decision[key]) for name, key in (("Core", "core"), ("Evidence", "evidence"))],
        "headline": wording.SCOPE,
        "beside": wording.beside(decision),
        "retrospective": wording.retrospective(decision),
        "exercise": wording.exercise(decision),
        "exercise_headline": wording.EXERCISE,
        "claim": wording.claim(material),
        "scope": wording.scope(material),
        "outcome": wording.outcome(decision),
        "answers": wording.answers(material),
        "not_shown": wording.not_shown(decision),
        "scores": _scores(material, challengers, best),
        "challengers": challengers[:MAX_ROWS],
        "challengers_left_out": len(challengers[MAX_ROWS:]),
        "strata": wording.strata(material),
        "controls": wording.controls(material),
        "controls_figure": _controls(material),
        "control_rows": list(material.tables["controls"])[:MAX_ROWS],
        "policies": wording.policies(material),
        "feedback": _feedback(decision["gate3"]) if decision["gate3"] else None,
        "target": _target(material, best),
        "elsewhere": wording.elsewhere(decision),
        "web": _web(material, decision.get("web")),
        **_amendments(decision["registration"]["amendments"]),
        "ledger": ledger.lines(material),
        "stages": STAGES,
        "used": ledger.USED,
        "audited_by": wording.audited_by(decision),
        "place": wording.place(material),
        "methods": wording.methods(material),
        "digests": _digests(material),
        "max_rows": MAX_CHANGES,
    }


def _amendments(amendments: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Each changed key, with the number of its amendment and what was scored before."""
    changes = [
        (number, change, wording.bounded(", ".join(amendment["opened"].get("scores", {}))))
        for number, amendment in enumerate(amendments, 1)
        for change in amendment["changes"]
    ]
    return {"changes": changes[:MAX_CHANGES], "changes_left_out": len(changes[MAX_CHANGES:])}


def _episode(row: Row, best: Mapping[str, Row]) -> Row:
    score = best.get(row["record"])
    return {**row, "score": score["score"] if score else None, "validity": score["validity"] if score else "none"}


def _scores(material: Material, challengers: Sequence[Row], best: Mapping[str, Row]) -> figures.Strips | None:
    """Challengers, each stratum apart, and the branches of both arms, whose artifacts are scored on the same units."""
    gate1, gate2 = material.decision["gate1"], material.decision["gate2"]
    line = gate2["recovery_line"]
    if line is None:
        return None
    arms = [_arm("challengers, told nothing", "withheld", [row["score"] for row in challengers], line)]
    for name in material.decision.get("strata", {}):
        rows = [_episode(row, best) for row in material.of(plan.place("challengers", name))]
        arms.append(_arm(f"stratum {name}, informative", "withheld", [row["score"] for row in rows], line))
    replaced = {row["replacement_of"] for row in material.tables["pairs"]}
    pairs = [row for row in material.tables["pairs"] if row["pair"] not in replaced]
    for arm in ("neutral", "truthful") if pairs else ():
        arms.append(_arm(f"{arm} branches", arm, [row[f"{arm}_score"] for row in pairs], line))
    marks = [
        ("claimed", f"A* {number(gate1['x'])}", gate1["x"]),
        ("line", f"recovery line {number(line)}", line),
        ("baseline", f"baseline {number(gate1['baseline'])}", gate1["baseline"]),
    ]
    return figures.strips(arms, marks, line)


def _arm(label: str, kind: str, scores: Sequence[float | None], line: float) -> tuple[str, str, list[float]]:
    known = [score for score in scores if score is not None]
    reach, without = sum(score >= line for score in known), len(scores) - len(known)
    text = f"{label}: {reach} of {len(scores)} reach the line" + (f", {without} have no score" if without else "")
    return text, kind, known


def _controls(material: Material) -> figures.Spans:
    found = material.decision["controls"]
    label = f"recall of {found['trials']} controls: at least {number(found['recall_lower_bound'])}"
    return figures.spans(
        [(label, "effect", found["recall_lower_bound"], None, 1.0)],
        [("line", f"registered: at least {found['recall_min']:g}", found["recall_min"])],
        (0.0, 1.0),
    )


def _feedback(gate: Mapping[str, Any]) -> figures.Spans:
    effect, null, band = gate["effect"], gate["null"], gate["delta_sham"]
    high = effect["upper"] + band if effect["upper"] is not None else None
    return figures.spans(
        [
            (
                f"effect, {gate['pairs']['analysed']} pairs: {number(effect['mean'])} in {interval(effect)}",
                "effect",
                effect["lower"],
                effect["mean"],
                effect["upper"],
            ),
            (f"with the null band: at least {number(gate['margin'])}", "widened", gate["margin"], None, high),
            (
                f"null study, {null['pairs']} pairs: {number(null['mean'])} in {interval(null)}",
                "null",
                null["lower"],
                null["mean"],
                null["upper"],
            ),
        ],
        [
            ("line", f"registered effect {gate['delta_evidence']:g}", gate["delta_evidence"]),
            ("band", f"null band {band:g}", band),
            ("band", f"null band {-band:g}", -band),
        ],
        (0.0,),
    )


def _target(material: Material, best: Mapping[str, Row]) -> dict[str, Any]:
    """The target run: each experiment, whether it tried A*, and the numbers that it was told."""
    rows = [_episode(row, best) for row in material.of("target")]
    record = rows[0]["record"] if rows else ""
    artifact = best[record]["artifact"] if record in best else ""
    shown = material.experiments[:MAX_ROWS]
    claimed = [experiment.artifact == artifact for experiment in shown]
    names = _numbers(shown)[:MAX_PATHS]
    return {
        "episodes": rows,
        "artifact": artifact,
        "tried": claimed,
        "paths": [
            (
                name,
                figures.path(
                    [
                        (float(experiment.result[name]), is_claimed)
                        for experiment, is_claimed in zip(shown, claimed, strict=True)
                    ],
                    wording.bounded(name, 40),
                ),
            )
            for name in names
        ],
        "experiments": [
            (experiment.artifact, is_claimed, wording.bounded(canonical.encode(experiment.result).decode()))
            for experiment, is_claimed in zip(shown, claimed, strict=True)
        ],
        "experiments_left_out": len(material.experiments[MAX_ROWS:]),
    }


def _numbers(experiments: Sequence[Experiment]) -> list[str]:
    """Names of the numbers that every reply holds; which of them is a score, the task knows alone."""
    if len(experiments) < 2:
        return []
    return [name for name in experiments[0].result if all(_is_number(e.result.get(name)) for e in experiments)]


def _is_number(value: Any) -> bool:
    try:
        return isinstance(value, str) and abs(float(value)) < 1e300
    except ValueError:
        return False


def _web(material: Material, web: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if web is None:
        return None
    shown = [{**page, "beginning": _beginning(material.packet, page["url"])} for page in web["fetched"][:MAX_ROWS]]
    return {**web, "shown": shown, "left_out": len(web["fetched"][MAX_ROWS:])}


def _beginning(packet: Packet, url: str) -> str:
    """The first words of a page as the agent was shown it: its title, as a rule."""
    page = packet.by_url.get(url)
    lines = packet.texts[page.text].split("\n") if page else []
    return wording.bounded(next((line for line in lines if line.strip()), ""), 80)


def _digests(material: Material) -> list[tuple[str, str]]:
    """Everything that the page rests on, by name."""
    decision, seal = material.decision, material.seal
    rests_on, web = decision["rests_on"], decision.get("web")
    found = [
        ("decision.json", material.digest),
        ("contract C", decision["registration"]["contract"]),
        ("registration R", decision["registration"]["digest"]),
        ("background K", seal.get("background")),
        ("first observations E0 of the target run", _of(material.hello.get("E0"))),
        ("observed Web W_obs", web["packet"] if web else None),
        *((f"{name.replace('_', ' ')} commitment", seal.get(f"{name}_commitment")) for name in _SEALED),
        *((name, rests_on.get(name)) for name in ("bundle", "episodes", "checkpoint", "checks")),
        *((f"scores of {name}", digest) for name, digest in rests_on.get("scores", {}).items()),
        *(
            (f"{what} of the stratum {name}", digest)
            for name, block in decision.get("strata", {}).items()
            for what, digest in (("contract", block["contract"]), *block["rests_on"].items())
        ),
        *(
            (f"{what} of the neutral policy {name}", digest)
            for name, block in policies.blocks(decision).items()
            for what, digest in block["rests_on"].items()
        ),
        *((f"table {name}", digest) for name, digest in rests_on.get("tables", {}).items()),
    ]
    return [(name, digest) for name, digest in found if digest]


_SEALED: Final = ("nonce", "hidden", "sealed")


def _of(value: Any) -> str | None:
    return canonical.digest_of(value) if value is not None else None
