"""The ledger of replaced pairs (G3.1 to G3.4).

A pair that was lost to infrastructure before any action may be replaced, within a registered total. The
ledger shows that nothing else was replaced: the order of the pairs is evidence, replaced pairs stay on
record, and only terminal pairs are analysed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from dcpflow.protocol.faults import NEUTRAL_DISCLOSURE, Fault, Stake
from dcpflow.protocol.model import Branch, FeedbackPair, NullPair, Outcome
from dcpflow.protocol.registration import TRANSPORT_REPLACEMENT


@dataclass(frozen=True, slots=True)
class Ledger:
    """The pairs of one family, sorted.

    Attributes:
        terminal: Positions of the pairs that were not replaced; these are analysed.
        replaced: Positions of the replaced pairs.
        faults: Where the ledger breaks G3.1 to G3.3.
    """

    terminal: tuple[int, ...]
    replaced: tuple[int, ...]
    faults: tuple[Fault, ...]

    @property
    def replacements(self) -> int:
        """Number of replaced pairs."""
        return len(self.replaced)


def read_ledger(
    pairs: Sequence[FeedbackPair | NullPair],
    *,
    registered: int,
    most_replacements: int,
    policy: str,
    place: str,
    blocks: frozenset[Stake] = NEUTRAL_DISCLOSURE,
) -> Ledger:
    """Sort pairs into terminal and replaced ones, and check G3.1 to G3.3.

    Args:
        pairs: All started pairs of the family, in the order of their start.
        registered: N, the registered number of pairs.
        most_replacements: The registered maximum of replacements, for the whole family together.
        policy: The registered replacement policy.
        place: How faults name the family.
        blocks: What a fault of this family blocks.
    """
    found: list[Fault] = []

    def fault(check: str, index: int | None, detail: str) -> None:
        where = place if index is None else f"{place}[{index}]"
        found.append(Fault(check, where, detail, blocks))

    # G3.1
    repeated = [pair_id for pair_id, n in Counter(pair.pair_id for pair in pairs).items() if n > 1]
    for pair_id in repeated:
        fault("pair_id_unique", None, f"{pair_id!r} names more than one pair")
    replaced: list[int] = []
    asked = 0
    for index, pair in enumerate(pairs):
        if not pair.replacement_of:
            continue
        asked += 1
        if policy != TRANSPORT_REPLACEMENT:
            fault("replacement_policy", index, f"replaces a pair under the policy {policy!r}")
        # "Immediately before" also makes the parent's child the only one, and chains free of cycles.
        if index == 0 or pairs[index - 1].pair_id != pair.replacement_of:
            fault("replacement_order", index, f"does not directly follow {pair.replacement_of!r}")
            continue
        if not lost_independently(pairs[index - 1]):
            fault("replacement_reason", index, "replaces a pair that was not lost to infrastructure")
        replaced.append(index - 1)
    terminal = tuple(index for index in range(len(pairs)) if index not in set(replaced))
    # G3.2
    if asked > most_replacements:
        fault("replacement_number", None, f"{asked} replacements, registered maximum {most_replacements}")
    if len(pairs) - asked != registered:
        fault("pair_number", None, f"{len(pairs) - asked} original pairs, registered {registered}")
    if len(terminal) != registered:
        fault("pair_number", None, f"{len(terminal)} terminal pairs, registered {registered}")
    # G3.3
    for index in terminal:
        if asked < most_replacements and lost_independently(pairs[index]):
            fault("replacement_missing", index, "lost to infrastructure, but not replaced although it could be")
    return Ledger(terminal, tuple(replaced), tuple(found))


def lost_independently(pair: FeedbackPair | NullPair) -> bool:
    """Whether a pair was lost to infrastructure, with nothing on record that could have steered the loss.

    At least one branch is infrastructure-invalid, and each such branch failed independently of the agent and
    has neither utility nor scores.
    """
    lost = [branch for branch in pair.branches if branch.outcome is Outcome.INFRASTRUCTURE_INVALID]
    return bool(lost) and all(is_clean_loss(branch) for branch in lost)


def is_clean_loss(branch: Branch) -> bool:
    """Whether a lost branch is shown to be lost independently of the agent, without results."""
    return branch.infrastructure_independent and branch.utility is None and branch.scores is None


def disclosure_faults(
    pairs: Sequence[FeedbackPair | NullPair],
    ledger: Ledger,
    *,
    all_started_disclosed: bool,
    no_replacements: bool,
    started: int,
    place: str,
    blocks: frozenset[Stake] = NEUTRAL_DISCLOSURE,
) -> tuple[Fault, ...]:
    """G3.4, and the statement that every started pair is on record."""
    found = []
    if not all_started_disclosed:
        found.append(Fault("pairs_disclosed", place, "not all started pairs are on record", blocks))
    if no_replacements != (not any(pair.replacement_of for pair in pairs)):
        detail = f"says {no_replacements} to 'no replacements', and has {ledger.replacements}"
        found.append(Fault("replacements_stated", place, detail, blocks))
    if started != len(pairs):
        detail = f"{started} pairs started, {len(pairs)} on record"
        found.append(Fault("pairs_started", place, detail, blocks))
    return tuple(found)
