"""Replacements: each takes the first lost pair that none before it has taken, and none starts where none was lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dcpflow.records import plan, receipts
from dcpflow.records.canonical import digest
from dcpflow.records.episodes import EpisodeKey, EpisodeRecord
from dcpflow.stages import episodes
from dcpflow.stages.episodes import first_unreplaced

if TYPE_CHECKING:
    from tests.conftest import Audit


@pytest.fixture(scope="module")
def pair(finished_audit: Audit) -> Callable[..., list[EpisodeRecord]]:
    """Makes both records of a pair; ``lost`` names the arms that the infrastructure lost."""
    data = finished_audit.job.store.committed(EpisodeKey("pairs", 1, "truthful"))
    assert data is not None
    record = EpisodeRecord.from_bytes(data, "here")

    def make(stage: str, slot: int, lost: str = "", of: str = "") -> list[EpisodeRecord]:
        return [
            replace(
                record,
                stage=stage,
                slot=slot,
                arm=arm,
                replacement_of=of,
                outcome="infrastructure_invalid" if arm in lost else "artifact",
            )
            for arm in plan.STAGES["pairs"].arms
        ]

    return make


def test_the_first_lost_pair_in_registered_order_is_replaced_first(pair: Callable[..., list[EpisodeRecord]]) -> None:
    all_pairs = pair("pairs", 1) + pair("pairs", 2, "neutral") + pair("pairs", 3, "truthful")
    assert first_unreplaced([]) is None
    assert first_unreplaced(pair("pairs", 1)) is None
    assert first_unreplaced(all_pairs) == "pairs/2"
    one = pair("pair_replacements", 1, of="pairs/2")
    assert first_unreplaced(all_pairs + one) == "pairs/3"
    two = pair("pair_replacements", 2, of="pairs/3")
    assert first_unreplaced(all_pairs + one + two) is None


def test_a_pair_that_lost_both_arms_is_replaced_once(pair: Callable[..., list[EpisodeRecord]]) -> None:
    lost = pair("pairs", 1, "truthful neutral")
    assert first_unreplaced(lost) == "pairs/1"
    assert first_unreplaced(lost + pair("pair_replacements", 1, of="pairs/1")) is None


def test_a_replacement_that_is_lost_is_replaced_itself(pair: Callable[..., list[EpisodeRecord]]) -> None:
    lost = pair("pairs", 2, "neutral") + pair("pair_replacements", 1, "truthful", of="pairs/2")
    assert first_unreplaced(lost) == "pair_replacements/1"
    assert first_unreplaced(lost + pair("pair_replacements", 2, of="pair_replacements/1")) is None


def lose(audit: Audit, path: Path, key: EpisodeKey) -> None:
    """Make a committed episode one that the infrastructure lost, with the receipt that lists it."""
    job = audit.job
    lines = receipts.read(path, job.contract.digest)
    changed = []
    for line in lines:
        record = receipts.resolve(line, job.store, path)
        if line.key == key:
            record = replace(record, outcome="infrastructure_invalid", candidates=[])
            place = job.store.record_path(key)
            place.chmod(0o644)
            place.write_bytes(record.to_bytes())
        changed.append(record.to_bytes())
    receipts.write(path, job.contract.digest, changed)


def replace_pair(audit: Audit, slot: int, earlier: list[Path]) -> Path:
    output = audit.results / "pair_replacements" / f"b{slot:04d}.json"
    episodes.run_replacement(audit.job, "pair_replacements", slot, earlier, output)
    return output


def records(audit: Audit, path: Path) -> list[EpisodeRecord]:
    job = audit.job
    return [receipts.resolve(line, job.store, path) for line in receipts.read(path, job.contract.digest)]


def test_where_no_pair_was_lost_a_replacement_is_unused_and_starts_nothing(audit_copy: Audit) -> None:
    pairs = [path for path in audit_copy.receipts if path.parent.name == "pairs"]
    path = replace_pair(audit_copy, 1, pairs)
    body = receipts.read_body(path, audit_copy.job.contract.digest)
    assert body["episodes"] == []
    assert body["unused"]
    assert not (audit_copy.job.store.root / "pair_replacements").exists()


def test_a_chain_of_replacements_follows_the_registered_order(audit_copy: Audit) -> None:
    pairs = [path for path in audit_copy.receipts if path.parent.name == "pairs"]
    lose(audit_copy, pairs[0], EpisodeKey("pairs", 2, "neutral"))
    first = replace_pair(audit_copy, 1, pairs)
    both = records(audit_copy, first)
    assert [(record.arm, record.replacement_of, record.outcome) for record in both] == [
        ("truthful", "pairs/2", "artifact"),
        ("neutral", "pairs/2", "artifact"),
    ]
    assert both[0].draw == both[1].draw
    earlier = {record.draw["presentation"] for path in pairs for record in records(audit_copy, path)}
    assert both[0].draw["presentation"] not in earlier, "a replacement is a new draw"
    point = records(audit_copy, pairs[0])[0].prior_seal
    assert {record.prior_seal for record in both} == {point}
    lose(audit_copy, first, EpisodeKey("pair_replacements", 1, "truthful"))
    second = replace_pair(audit_copy, 2, [*pairs, first])
    assert {record.replacement_of for record in records(audit_copy, second)} == {"pair_replacements/1"}
    third = replace_pair(audit_copy, 3, [*pairs, first, second])
    assert receipts.read(third, audit_copy.job.contract.digest) == []


def test_a_replacement_that_stands_is_only_listed_again(audit_copy: Audit, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [path for path in audit_copy.receipts if path.parent.name == "pairs"]
    lose(audit_copy, pairs[0], EpisodeKey("pairs", 1, "truthful"))
    path = replace_pair(audit_copy, 1, pairs)
    before = path.read_bytes()
    path.unlink()
    monkeypatch.setattr(
        type(audit_copy.job), "laboratory", property(lambda _: pytest.fail("an episode was started again"))
    )
    assert replace_pair(audit_copy, 1, pairs).read_bytes() == before
    assert digest(before)
