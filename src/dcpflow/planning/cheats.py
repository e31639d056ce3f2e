"""Cheating claimants: what each does, which check notices, and how often. Nothing in the result is written down here.

What leaves a mark in records is played on a whole stand-in audit, whose checks and rules then run as they always do.
What changes nothing but what episodes come to is played on counts, many times, through the rules alone. Where neither
notices, nothing in the evidence can: such a move lies outside of what an audit sees, and is shown as not detectable,
with what would help.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from dcpflow.errors import UsageError
from dcpflow.evidence import checks, decision
from dcpflow.evidence.decision import Outcome
from dcpflow.planning import stand_in
from dcpflow.planning.moves import FALSE_CLAIM, MOVES, Move
from dcpflow.planning.simulation import Rate, Setup, Truth, check, drawn
from dcpflow.planning.stand_in import StandIn
from dcpflow.planning.synthetic import Counts, Synthesis
from dcpflow.protocol.decision import Decision, decide
from dcpflow.protocol.model import Status
from dcpflow.protocol.registration import FINITE_SET_EXACT
from dcpflow.protocol.verdicts import Verdict
from dcpflow.records import history

if TYPE_CHECKING:
    from dcpflow.protocol.config import Config

WHOLE_AUDITS: Final = 3
"""Stand-in audits for each cheat that leaves a mark in records."""

COUNTED_AUDITS: Final = 2_000
"""Audits for each cheat that changes counts alone."""

NONCES: Final = 100
"""That somebody tries who grinds."""

NOT_DETECTABLE: Final = "not detectable"


@dataclass(frozen=True, slots=True)
class Noticed:
    """What became of a move.

    Attributes:
        move: the move.
        by: the checks and rules that noticed it, the most frequent first; empty where nothing did.
        shown: what the decision shows of it without blocking anything.
        caught: audits in which something noticed it.
        paid: audits in which the claim was certified, and not as exploratory.
    """

    move: Move
    by: tuple[str, ...]
    shown: tuple[str, ...]
    caught: Rate
    paid: Rate

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "cheat": self.move.cheat,
            "how": self.move.how,
            "claim": self.move.claim,
            "caught_by": list(self.by) or NOT_DETECTABLE,
            "shown": list(self.shown),
            "caught": self.caught.to_json(),
            "certified": self.paid.to_json(),
            "audits": self.caught.audits,
            "helps": self.move.helps,
        }


def play(config: Config, setup: Setup, seed: int, moves: tuple[Move, ...] | None = None) -> Iterator[Noticed]:
    """Play every move.

    Args:
        config: the configuration that is registered.
        setup: the same as a simulation has it; its truth gives way to that of each move.
        seed: of all draws.
        moves: by default all; those for Evidence are left out where the grade does not ask for it.

    Raises:
        UsageError: The registered inference is not exact, or the audit is retrospective.
    """
    if config.claim.is_retrospective:
        raise UsageError(
            "cheats are about a target run, which a retrospective audit does not have",
            "Try them on a configuration with claim.mode prospective",
        )
    if setup.reg.interval_method != FINITE_SET_EXACT:
        raise UsageError(
            f"cheats are played on one exact sealed unit, and {setup.reg.interval_method} is registered",
            "Try them on a configuration with thresholds.inference.method finite_set_exact",
        )
    check(setup)
    for number, move in enumerate(MOVES if moves is None else moves):
        if move.claim == "evidence" and setup.reg.grade != "evidence":
            continue
        mine = replace(setup, truth=Truth(move.truth))
        if move.records is not None:
            yield _on_records(config, mine, move, [seed, number])
        else:
            yield _on_counts(mine, move, [seed, number])
    if moves is None:
        yield from _grinding(config, setup, [seed, len(MOVES)])


# --- on records --------------------------------------------------------------------------------------------


def _on_records(config: Config, setup: Setup, move: Move, seed: list[int]) -> Noticed:
    assert move.records is not None
    # a claim about Core alone needs no feedback experiment
    config = config.model_copy(update={"claim": config.claim.model_copy(update={"grade": move.claim})})
    noticed: Counter[str] = Counter()
    shown: list[str] = []
    before: Outcome | None = None
    caught = paid = 0
    for number, counts in enumerate(_counts(setup, seed, WHOLE_AUDITS)):
        honest = stand_in.build(config, counts, f"{seed}/{number}")
        altered = move.records(honest)
        if isinstance(altered, Exception):
            by, certified = [f"digests ({str(altered).partition(':')[0]})"], False
        else:
            after = altered.decided()
            if before is None:
                before = honest.decided()
                shown = _reasons(before, after)
            by, certified = _noticed(honest, altered, before, after, move.claim)
        noticed.update(by)
        caught += bool(by)
        paid += certified
    return Noticed(
        move,
        tuple(name for name, _ in noticed.most_common()),
        tuple(shown),
        Rate(caught, WHOLE_AUDITS),
        Rate(paid, WHOLE_AUDITS),
    )


def _noticed(honest: StandIn, altered: StandIn, before: Outcome, after: Outcome, claim: str) -> tuple[list[str], bool]:
    """What fails now and did not before, and whether the claim is certified all the same."""
    good = {check.name for check in before.checks if check.result == checks.PASS}
    by = [c.name for c in after.checks if c.result == checks.FAIL and c.name in good and c.needed_for != "report"]
    verdict = _verdict(after.decision, claim)
    document: dict[str, Any] = {"core": {}, "evidence": {}}
    changes = history.changes(honest.view.registered.parts, altered.view.registered.parts)
    amended = list(changes) if len(altered.registrations) > 1 else []
    decision.mark_exploratory(document, amended, altered.view.checkpoint.get("scope", ""))
    if document[claim]["exploratory"]:
        by.append("amendment on record: exploratory")
    elif not by and verdict.status is Status.INCONCLUSIVE:
        by.append(_why(after.decision, claim))
    return by, verdict.status is Status.CERTIFIED and not document[claim]["exploratory"]


def _reasons(before: Outcome, after: Outcome) -> list[str]:
    """Checks that block nothing, and say something else now."""
    said = {check.name: (check.result, check.reason) for check in before.checks}
    return [c.name for c in after.checks if c.needed_for == "report" and said.get(c.name) != (c.result, c.reason)]


def _verdict(found: Decision, claim: str) -> Verdict:
    return found.core if claim == "core" else found.evidence


def _why(found: Decision, claim: str) -> str:
    """The rule that keeps a claim open."""
    verdict, two, three = _verdict(found, claim), found.gate2, found.gate3
    if verdict.rule == "V15" and two is not None:
        first = two.adequacy_faults[0].check if two.adequacy_faults else ""
        straying = next((row.rule for row in two.attempts if row.status == "unresolved"), two.rule)
        return f"rule {first or straying}"
    if verdict.rule == "V2" and found.faults:
        return f"rule {verdict.rule} ({found.faults[0].check})"
    if verdict.rule == "E6" and three is not None and three.null is not None:
        return f"null study ({three.null.rule})"
    return f"rule {verdict.rule}"


# --- on counts ---------------------------------------------------------------------------------------------


def _counts(setup: Setup, seed: list[int], audits: int) -> list[Counts]:
    import numpy as np  # noqa: PLC0415

    return list(drawn(setup, np.random.default_rng(seed), audits))


def _on_counts(setup: Setup, move: Move, seed: list[int]) -> Noticed:
    """A claim that is kept open was noticed; one that is refuted was judged by what its episodes came to."""
    synthesis = Synthesis(setup.reg, setup.controls, setup.scores)
    noticed: Counter[str] = Counter()
    paid = 0
    for counts, times in Counter(map(move.counts, _counts(setup, seed, COUNTED_AUDITS))).items():
        found = decide(setup.reg, synthesis.gate1(), synthesis.gate2(counts), synthesis.gate3(counts))
        verdict = _verdict(found, move.claim)
        if verdict.status is Status.INCONCLUSIVE:
            noticed[_why(found, move.claim)] += times
        paid += times * (verdict.status is Status.CERTIFIED)
    by = tuple(name for name, _ in noticed.most_common())
    return Noticed(move, by, (), Rate(noticed.total(), COUNTED_AUDITS), Rate(paid, COUNTED_AUDITS))


def _grinding(config: Config, setup: Setup, seed: list[int]) -> Iterator[Noticed]:
    """Many nonces are tried out, and the audit that certifies is shown."""
    mine = replace(setup, truth=Truth(FALSE_CLAIM))
    synthesis = Synthesis(mine.reg, mine.controls, mine.scores)
    certified: dict[Counts, bool] = {}

    def certifies(counts: Counts) -> bool:
        if counts not in certified:
            found = decide(mine.reg, synthesis.gate1(), synthesis.gate2(counts), synthesis.gate3(counts))
            certified[counts] = found.core.status is Status.CERTIFIED
        return certified[counts]

    for public, how, tries in (
        ("", f"{NONCES} nonces tried, no public randomness", NONCES),
        ("a beacon's value", "public randomness given after registration: one try", 1),
    ):
        rounds = COUNTED_AUDITS // 10 if tries > 1 else COUNTED_AUDITS
        tried = list(map(certifies, _counts(mine, seed, rounds * tries)))
        paid = sum(any(tried[first : first + tries]) for first in range(0, len(tried), tries))
        counts = _counts(mine, seed, 1)[0]
        found = {c.name: c for c in stand_in.build(config, counts, "nonce", public).decided().checks}
        state = found["draws_not_grindable"].result
        helps = "public randomness after registration" if tries > 1 else ""
        move = Move("nonce grinding", how, "core", FALSE_CLAIM, helps)
        shown = (f"draws_not_grindable: {state}",)
        yield Noticed(move, (), shown, Rate(0, rounds), Rate(paid, rounds))
