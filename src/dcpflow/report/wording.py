"""What a decision says, in sentences: each number with the arm and the denominator that it belongs to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dcpflow.evidence.checks import BOUNDARIES
from dcpflow.records import canonical
from dcpflow.report.material import Material
from dcpflow.report.screen import interval, looked, number, plain

SCOPE: Final = "scope: this agent, this budget, this information"
EXERCISE: Final = "exercise, not a discovery"
YES, NO, OPEN, NOT_ASKED = "Yes", "No", "Open", "Not asked"
PROTOCOL: Final = "arXiv 2609.09219"
SHORT, LONG = 160, 600
MAX_NAMES: Final = 6
STATUS: Final = {"not_tested": "not tested"}
CLASSES: Final = {
    "audit_incomplete": "something is missing or failed a check",
    "statistical_uncertainty": "all is there, and chance remains",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of one gate.

    Attributes:
        gate: its name.
        question: what it asks.
        answer: in one word or two.
        stands: whether that is what the claim needs; None where it is open or was not asked.
        lines: the numbers behind it.
    """

    gate: str
    question: str
    answer: str
    stands: bool | None
    lines: Sequence[str]


def bounded(text: object, limit: int = SHORT) -> str:
    """Text that others wrote, without characters that steer a reader's display, and not longer than the limit."""
    words = str(text)
    cut = words if len(words) <= limit else f"{words[:limit]}\N{HORIZONTAL ELLIPSIS} ({len(words)} characters)"
    return plain(cut)


def counting(count: int | None, one: str, many: str = "") -> str:
    """A number of things."""
    return f"{number(count)} {one if count == 1 else many or one + 's'}"


def status(verdict: Mapping[str, Any]) -> str:
    """A status as people say it."""
    return STATUS.get(verdict["status"], str(verdict["status"]))


def exercise(decision: Mapping[str, Any]) -> list[str]:
    """Why this audit is an exercise; empty where it is none."""
    agent, public = decision["scope"]["agent"], decision["registration"]["public_demonstration"]
    reasons = []
    if agent.startswith("builtin "):
        reasons.append(f"the agent ships with dcpflow ({bounded(agent.removeprefix('builtin '))})")
    if public:
        reasons.append(f"the nonce is the SHA-256 of a published text ({bounded(public)}), so nothing hidden is secret")
    return reasons


def claim(material: Material) -> str:
    """What is claimed, by whom, in one sentence."""
    decision = material.decision
    if "imported" in decision:
        return "Who claims what is not recorded in the imported bundle, beyond the names given here."
    return f"The claim, by {bounded(decision['roles']['claimant'])}: {bounded(decision['claim']['statement'], LONG)}"


def scope(material: Material) -> str:
    """For what it is claimed, in one sentence."""
    found, web = material.decision["scope"], material.decision.get("web")
    budget = found["budget"]
    if budget["experiments"] is None:
        return (
            f"The claim holds for the model {bounded(found['model'])} and the task {bounded(found['information'])} "
            "alone; agent and budget are not recorded in the imported bundle."
        )
    information = f"the task {bounded(found['information'])}"
    if web:
        information += f" and {counting(len(web['fetched']), 'recorded address', 'recorded addresses')} of the Web"
    about = "It was tried with" if "retrospective" in material.decision else "It is a claim about"
    return (
        f"{about} {bounded(found['agent'])} (model {bounded(found['model'])}) with "
        f"{counting(budget['experiments'], 'experiment')} and {counting(budget['candidates'], 'candidate')} a run, "
        f"given {information}, and {about.rsplit(' ', 1)[1]} nothing else."
    )


def outcome(decision: Mapping[str, Any]) -> list[str]:
    """What came out, in a sentence for each status."""
    return [_core(decision), _evidence(decision)]


def beside(decision: Mapping[str, Any]) -> list[str]:
    """What has to be read beside the statuses: strata and neutral policies with which the outcome was recovered or may
    have been, or that are gone."""
    return [f"{bounded(text[:1].upper() + text[1:], LONG)}." for text in decision.get("headline", ())]


def retrospective(decision: Mapping[str, Any]) -> list[str]:
    """What a retrospective audit looks back at, which information boundary was rebuilt, and how; empty for others."""
    found = decision.get("retrospective")
    if not found:
        return []
    known, boundary = found["known"], BOUNDARIES[found["mode"]]
    public = bounded(", ".join(known["public"]), LONG) or "none"
    return [
        "The claimed artifact was there before this audit, which has no target run. Challengers try to recover its "
        "outcome: one that does refutes the claim, and nothing certifies it.",
        f"Published: {bounded(found['published'], LONG)}",
        f"What could be known was {boundary}, by the auditor's word: {bounded(found['boundary'], LONG)}",
        f"Known before, and given to all: background K {known['background']}, the first observations E0, and the "
        f"public files: {public}.",
    ]


@dataclass(frozen=True, slots=True)
class StratumLines:
    """A stratum of challengers that does not decide.

    Attributes:
        name: its name.
        lines: what it was, what came of it, and what is not known of it.
    """

    name: str
    lines: Sequence[str]


@dataclass(frozen=True, slots=True)
class PolicyLine:
    """A neutral policy as one row of a table.

    Attributes:
        name: its name.
        role: what it is good for, and whether anything calibrates it.
        pairs: analysed, of those registered.
        truthful: truthful branches that reach the recovery line.
        neutral: neutral branches that do.
        effect: mean difference.
        within: its interval.
        note: what is missing; empty where nothing is.
    """

    name: str
    role: str
    pairs: str
    truthful: int
    neutral: int
    effect: float | None
    within: str
    note: str


@dataclass(frozen=True, slots=True)
class Policies:
    """The neutral policies beside each other.

    Attributes:
        lines: the one that decides, and the others.
        spread: how far they are apart, in a sentence.
    """

    lines: Sequence[PolicyLine]
    spread: str


def policies(material: Material) -> Policies | None:
    """The neutral policies, if there is another one beside the one that decides."""
    found = material.decision.get("neutral_policies")
    if not found:
        return None
    gate, first = material.decision["gate3"], found["deciding"]
    lines = [
        PolicyLine(
            first["name"],
            "decides; the null study is about this channel",
            f"{gate['pairs']['analysed']} of {gate['pairs']['registered']}",
            gate["truthful_hits"],
            gate["neutral_hits"],
            first["effect"]["mean"],
            interval(first["effect"]),
            "" if first["complete"] else "not complete",
        ),
        *(_policy(name, block) for name, block in found["further"].items()),
    ]
    return Policies(lines, spread(found["spread"]))


def _policy(name: str, block: Mapping[str, Any]) -> PolicyLine:
    mark = ", exploratory" if block["exploratory"] else ""
    return PolicyLine(
        name,
        f"{block['label']}{mark}; {block['calibration']}",
        f"{block['pairs']['analysed']} of {block['pairs']['registered']}",
        block["truthful_hits"],
        block["neutral_hits"],
        block["effect"]["mean"],
        interval(block["effect"]),
        "" if block["complete"] else f"not complete: {bounded(block['reason'], LONG)}",
    )


def spread(found: Mapping[str, Any]) -> str:
    """How far the policies are apart."""
    if found["effect"] is None:
        return "There are no two policies with complete pairs to compare."
    out = f" Left out, since not complete: {', '.join(found['left_out'])}." if found["left_out"] else ""
    return (
        f"Between the largest and the smallest lie {number(float(found['effect']))} in the effect and "
        f"{number(float(found['neutral_rate']))} in the share of neutral branches that recover, of "
        f"{', '.join(found['policies'])}.{out}"
    )


def strata(material: Material) -> list[StratumLines]:
    """Each stratum with its arm and denominator."""
    found = material.decision.get("strata", {})
    line = number(material.decision["gate2"]["recovery_line"])
    return [StratumLines(name, list(_stratum(block, line))) for name, block in found.items()]


def _stratum(block: Mapping[str, Any], line: str) -> Iterator[str]:
    seats, budget = block["challengers"], block["budget"]
    yield (
        f"{bounded(block['agent'])} (model {bounded(block['model'])}) with "
        f"{counting(budget['experiments'], 'experiment')} and {counting(budget['candidates'], 'candidate')} a run, "
        "told nothing, like the challengers that decide."
        + (" Registered or changed after the first registration: exploratory." if block["exploratory"] else "")
    )
    yield (
        f"{seats['hits']} of {seats['independent']} independent challengers of this stratum reached the recovery line "
        f"{line}; the best scored {number(block['best_score'])}. {seats['registered']} were registered and "
        f"{seats['started']} started: {seats['model_failures']} failed, {seats['violations']} broke the contract, "
        f"{seats['infrastructure']} were lost, {seats['unresolved']} are unresolved."
    )
    if block["recovery_upper_bound"] is not None:
        yield (
            f"A fresh one reaches it with probability at most {number(block['recovery_upper_bound'])} at confidence "
            f"{1 - block['alpha']:g}, the stratum's own; no positive control shows that it could have."
        )
    if not block["complete"]:
        yield f"Not complete, so that it shows no bound: {bounded(block['reason'], LONG)}."


def _core(decision: Mapping[str, Any]) -> str:
    verdict, gate = decision["core"], decision["gate2"]
    if verdict["status"] == "certified":
        return (
            "The outcome is real in sealed scoring, and none of "
            f"{counting(gate['challengers']['independent'], 'fresh challenger')} reached it without this run's history."
        )
    if gate["witnesses"] and verdict["status"] == "refuted":
        seats = gate["challengers"]
        reached = f"{seats['hits']} of {seats['independent']} fresh challengers"
        return f"{reached} reached the outcome without this run's history."
    return _why(verdict)


def _evidence(decision: Mapping[str, Any]) -> str:
    verdict, gate = decision["evidence"], decision["gate3"]
    if verdict["status"] == "certified":
        return (
            f"With truthful feedback {gate['truthful_hits']} of {gate['pairs']['analysed']} branches reached "
            f"the outcome, with neutral feedback {gate['neutral_hits']} of {gate['pairs']['analysed']}."
        )
    return _why(verdict)


def _exploratory(verdict: Mapping[str, Any]) -> str:
    return ", exploratory" if verdict["exploratory"] else ""


def _why(verdict: Mapping[str, Any]) -> str:
    """The reason, and of an inconclusive status its class."""
    reason = bounded(verdict["reason"], LONG)
    if verdict["status"] != "inconclusive" or verdict["rule"] == "V17":
        return f"{reason[:1].upper()}{reason[1:]}."
    return f"Nothing is shown either way: {CLASSES[verdict['class']]}. The reason: {reason}."


def answers(material: Material) -> list[Answer]:
    """The three gates as three questions."""
    return [_gate1(material), _gate2(material), _gate3(material)]


def _gate1(material: Material) -> Answer:
    decision = material.decision
    gate, rule = decision["gate1"], decision["core"]["rule"]
    gain = gate["gain"]
    if gain["lower"] is None or rule in _BLOCKED or rule in {"V3", "V5", "V7", "V9"}:
        answer, stands = OPEN, None
    elif rule in {"V4", "V6", "V8"} or _falls_short(decision):
        answer, stands = NO, False
    else:
        answer, stands = YES, True
    units = counting(gate["units"], "sealed unit")
    lines = [
        f"The claimed artifact A* scores {number(gate['x'])} and the baseline {number(gate['baseline'])}, "
        f"each over {units}.",
        f"The gain lies in {interval(gain)}{_gain_confidence(material)}; registered: at least {gate['delta_min']:g}.",
    ]
    question = "Is the outcome real, and better than the baseline?"
    return Answer("Gate 1", question, answer, stands, [*lines, *_stands_in_the_way(answer, decision)])


def _falls_short(decision: Mapping[str, Any]) -> bool:
    """Whether Gate 1 says no, which a retrospective audit sets aside: too small a gain, or the baseline does it."""
    gate, line = decision["gate1"], decision["gate2"]["recovery_line"]
    if "retrospective" not in decision:
        return False
    return line is None or gate["gain"]["upper"] < gate["delta_min"] or gate["baseline"] >= line


_BLOCKED: Final = frozenset({"V1", "V2", "V10"})
"""Rules of Core after which no gate counts, whatever its numbers are."""


def _gate2(material: Material) -> Answer:
    decision = material.decision
    gate, core = decision["gate2"], decision["core"]
    seats = gate["challengers"]
    if gate["recovery"] == "recovered" or core["rule"] == "V12":
        answer, stands = YES, False
    elif gate["recovery"] == "not_recovered_within_scope" and core["rule"] not in _BLOCKED:
        answer, stands = NO, True
    else:
        answer, stands = OPEN, None
    lines = [
        f"{number(seats['hits'])} of {number(seats['independent'])} independent challengers reached the recovery line "
        f"{number(gate['recovery_line'])} (A*'s score less {gate['epsilon']:g}); the best scored "
        f"{number(gate['best_score'])}.",
        f"{seats['started']} were started: {seats['model_failures']} failed, {seats['violations']} broke the contract, "
        f"{seats['infrastructure']} were lost, {number(seats['unresolved'])} are unresolved.",
        *(f"Scores were {words}." for words in looked(gate, "challengers")),
    ]
    if gate["witnesses"]:
        lines.append(f"Recovered by {_witnesses(material)}.")
    elif gate["recovery_upper_bound"] is None:
        lines.append(f"No bound on the probability of recovery is computed: {bounded(gate['reason'], LONG)}.")
    else:
        without = gate["recovery_upper_bound_without_failures"]
        lines.append(
            f"A fresh challenger reaches it with probability at most {number(gate['recovery_upper_bound'])}"
            f"{_confidence(material, 'recovery')}; registered: at most {gate['rho']:g}."
            + (f" Without those that failed: {number(without)}." if seats["model_failures"] else "")
        )
    if core["rule"] == "V12":
        lines.append(f"{bounded(core['reason'], LONG)}.")
    lines += [f"Not adequate: {bounded(reason, LONG)}." for reason in gate["adequacy"]]
    question = "Can fresh runs of the same agent reach it without this run's history?"
    return Answer("Gate 2", question, answer, stands, [*lines, *_stands_in_the_way(answer, decision)])


def _gate3(material: Material) -> Answer:
    decision = material.decision
    question = "Did truthful feedback make the difference?"
    gate, verdict = decision["gate3"], decision["evidence"]
    if gate is None:
        return Answer("Gate 3", question, NOT_ASKED, None, ["Only Core was registered (grade core)."])
    answer, stands = {"certified": (YES, True), "refuted": (NO, False)}.get(verdict["status"], (OPEN, None))
    pairs, null = gate["pairs"], gate["null"]
    lines = [
        f"{gate['truthful_hits']} truthful and {gate['neutral_hits']} neutral branches reached the recovery line, "
        f"of {pairs['analysed']} analysed pairs ({pairs['registered']} registered, "
        f"{gate['replaced']['pairs']} replaced).",
        f"Truthful minus neutral is {number(gate['effect']['mean'])} in {interval(gate['effect'])}"
        f"{_confidence(material, 'evidence')}; less the null band of {gate['delta_sham']:g} that leaves at least "
        f"{number(gate['margin'])}; registered: at least {gate['delta_evidence']:g}.",
        f"Where neither channel can inform, the difference is {number(null['mean'])} in {interval(null)} over "
        f"{null['pairs']} null pairs{_confidence(material, 'sham')}; registered band: {gate['delta_sham']:g}.",
        *(
            f"Scores were {words}; the interval is by betting and holds at all looks."
            for words in looked(gate, "pairs")
        ),
    ]
    if verdict["status"] != "certified":
        lines.append(f"Evidence is {status(verdict)}: {bounded(verdict['reason'], LONG)}.")
    return Answer("Gate 3", question, answer, stands, lines)


def _stands_in_the_way(answer: str, decision: Mapping[str, Any]) -> list[str]:
    core = decision["core"]
    blocked = answer == OPEN and core["rule"] in _BLOCKED
    return [f"What stands in the way: {bounded(core['reason'], LONG)}."] if blocked else []


def controls(material: Material) -> str:
    """What the positive controls showed."""
    found = material.decision["controls"]
    return (
        f"{found['successes']} of {found['trials']} controls succeeded, so that a challenger who is given the missing "
        f"information uses it with probability at least {number(found['recall_lower_bound'])}"
        f"{_confidence(material, 'adequacy')}; registered: at least {found['recall_min']:g}."
    )


def not_shown(decision: Mapping[str, Any]) -> list[str]:
    """What a reader could take from these statuses, and must not; then what no audit of this kind claims."""
    core, evidence = decision["core"]["status"], decision["evidence"]["status"]
    first = {
        "certified": "that nobody else can reach the outcome: other agents, budgets or information were not tried"
        + (", those of the strata apart" if decision.get("strata") else ""),
        "refuted": "that the outcome is worthless: refuted is the claim as registered, for the reason given",
        "inconclusive": "that the claim is true, or that it is false: the audit is open",
    }[core]
    second = {
        "certified": "that feedback was necessary in every way: only this neutral channel was compared"
        + (", further ones without a calibration of their own" if decision.get("neutral_policies") else ""),
        "refuted": "that feedback never helps: refuted is the registered margin for this agent and channel",
    }.get(evidence, "that feedback made the difference: Evidence is " + status(decision["evidence"]))
    return [first, second, *(bounded(text, LONG) for text in decision["not_claimed"])]


def audited_by(decision: Mapping[str, Any]) -> str:
    """Who audited, and what certificate there is."""
    if "imported" in decision:
        made = decision["imported"]
        return (
            f"imported from a {made['format']} bundle ({bounded(made['profile'])}, {bounded(made['bundle'])}): "
            f"{decision['provenance']}, its checks are its author's word"
        )
    roles = decision["roles"]
    if roles["self_audited"]:
        return f"self-audited: {bounded(roles['claimant'])} are both claimant and auditor"
    return f"audited by {bounded(roles['auditor'])} for {bounded(roles['claimant'])}"


def place(material: Material) -> str:
    """Where this audit stands among the audits of its family."""
    named, roles = material.decision["claim"], material.decision["roles"]
    earlier = material.config("claim").get("earlier_audits", [])
    return (
        f"Audit {bounded(named['slot'])} of the family {bounded(named['family'])}; earlier audits named: "
        f"{bounded(', '.join(map(str, earlier)), LONG) or 'none'}; registry: {bounded(roles['registry'])}"
    )


def methods(material: Material) -> str:
    """A paragraph for the methods section of a paper."""
    decision = material.decision
    return " ".join(f"{sentence}." for sentence in _methods(material, decision))


def _methods(material: Material, decision: Mapping[str, Any]) -> Iterator[str]:
    found, registration, web = decision["scope"], decision["registration"], decision.get("web")
    gate1, gate2, gate3, checked = (decision[key] for key in ("gate1", "gate2", "gate3", "controls"))
    seats, budget = gate2["challengers"], found["budget"]
    yield (
        f"The claim {bounded(decision['claim']['id'])} was audited after the Discovery Certification Protocol "
        f"({PROTOCOL}) with dcpflow"
    )
    runs = f"The agent was {bounded(found['agent'])} with the model {bounded(found['model'])}"
    if budget["experiments"] is not None:
        alike = (
            "challengers and controls" if "retrospective" in decision else "target, challengers, controls and branches"
        )
        runs += (
            f", {counting(budget['experiments'], 'experiment')} and {counting(budget['candidates'], 'candidate')} an "
            f"episode, isolation {bounded(found['isolation'])}, the same for {alike}"
        )
    yield runs
    if material.hello:
        yield (
            f"Background K {material.seal['background']}, first observations E0 of the target run "
            f"{canonical.digest_of(material.hello['E0'])}, observed Web W_obs "
            + (f"{web['packet']} ({counting(len(web['fetched']), 'address', 'addresses')})" if web else "none")
        )
    yield f"Contract {registration['contract']}, registration {registration['digest']}"
    yield f"Amendments: {'not recorded' if 'imported' in decision else len(registration['amendments']) or 'none'}"
    if found := decision.get("retrospective"):
        yield (
            f"The audit is retrospective: no target was run, the artifact {found['artifact']} was there before; "
            f"background K {found['known']['background']}; what could be known was {BOUNDARIES[found['mode']]}, by the "
            "auditor's word"
        )
    else:
        started = decision["target_runs_started"]
        yield f"Target runs started: {'not recorded' if started is None else started}"
    yield (
        f"Gate 1: sealed score {number(gate1['x'])} against {number(gate1['baseline'])} of the baseline over "
        f"{counting(gate1['units'], 'unit')}, gain in {interval(gate1['gain'])}{_gain_confidence(material)}, "
        f"registered at least {gate1['delta_min']:g}"
    )
    bound = gate2["recovery_upper_bound"]
    yield (
        f"Gate 2: {number(seats['hits'])} of n = {number(seats['independent'])} independent challengers "
        f"({seats['started']} started) reached {number(gate2['recovery_line'])} (epsilon {gate2['epsilon']:g}), "
        + (
            f"probability of recovery at most {number(bound)}{_confidence(material, 'recovery')}"
            if bound is not None
            else "no bound on the probability of recovery"
        )
        + f", registered at most {gate2['rho']:g}"
    )
    yield (
        f"Positive controls: {checked['successes']} of {checked['trials']}, recall at least "
        f"{number(checked['recall_lower_bound'])}{_confidence(material, 'adequacy')}, registered at least "
        f"{checked['recall_min']:g}"
    )
    if gate3:
        null = gate3["null"]
        yield (
            f"Gate 3: {gate3['truthful_hits']} truthful against {gate3['neutral_hits']} neutral of "
            f"{gate3['pairs']['analysed']} pairs, effect in {interval(gate3['effect'])}"
            f"{_confidence(material, 'evidence')}, null study {null['pairs']} pairs in {interval(null)}"
            f"{_confidence(material, 'sham')}, margins {gate3['delta_evidence']:g} and {gate3['delta_sham']:g}, "
            f"checkpoint {bounded(gate3['checkpoint_scope'])}"
        )
    verdicts = ", ".join(
        f"{name} {status(verdict)}{_exploratory(verdict)} (rule {verdict['rule']})"
        for name, verdict in (("Core", decision["core"]), ("Evidence", decision["evidence"]))
    )
    yield f"Decision: {verdicts}, sha256 digest of the decision {material.digest}"
    yield f"The audit was {audited_by(decision)}; no certificate was issued"
    if exercise(decision):
        yield f"This is an {EXERCISE}"


def _gain_confidence(material: Material) -> str:
    exact = material.config("thresholds").get("inference", {}).get("method") == "finite_set_exact"
    return ", exact on these units" if exact else _confidence(material, "main")


def _confidence(material: Material, alpha: str) -> str:
    """The confidence of a bound, from its registered error; nothing where no registration is here."""
    known = material.config("thresholds").get("alpha", {}).get(alpha)
    return f" at confidence {1 - known:g}" if known is not None else ""


def _witnesses(material: Material) -> str:
    """Who recovered the outcome, each with its score."""
    best = material.best()
    scores = {
        f"challengers/{row['slot']}": best.get(row["record"], {}).get("score") for row in material.of("challengers")
    }
    names = material.decision["gate2"]["witnesses"]
    shown = [f"{bounded(name)} ({number(scores.get(name))})" for name in names[:MAX_NAMES]]
    return ", ".join(shown) + (f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else "")


def elsewhere(decision: Mapping[str, Any]) -> str:
    """What is known of target runs in other results folders: what a signed registry told, or nothing."""
    found = next((check for check in decision["checks"] if check["name"] == "all_target_runs_shown"), None)
    told = found["reason"].partition("; ")[2] if found and found["result"] == "pass" else ""
    return told or "runs elsewhere are not visible"
