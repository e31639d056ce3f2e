"""The journal of an attempt: what was written is there after a kill, and a torn line never was."""

from __future__ import annotations

from pathlib import Path

from dcpflow.records.episodes import Claim, EpisodeKey, EpisodeStore
from dcpflow.records.journal import Journal

KEY = EpisodeKey("challengers", 1, "withheld")


def test_entries_of_all_that_held_the_attempt_come_back_in_order(tmp_path: Path) -> None:
    first = Journal(tmp_path, 1)
    assert first.earlier == []
    first.add({"heard": "a\nb"})
    first.add({"heard": "ü"})
    Journal(tmp_path, 2).add({"heard": "c"})
    assert Journal(tmp_path, 3).earlier == [{"heard": "a\nb"}, {"heard": "ü"}, {"heard": "c"}]


def test_a_line_that_a_kill_has_torn_is_left_out(tmp_path: Path) -> None:
    first = Journal(tmp_path, 1)
    first.add({"heard": "whole"})
    path = tmp_path / "journal-1.jsonl"
    path.write_bytes(path.read_bytes() + b'{"heard":"to')
    assert Journal(tmp_path, 2).earlier == [{"heard": "whole"}]


def test_whoever_takes_an_attempt_over_reads_its_journal(tmp_path: Path) -> None:
    store = EpisodeStore(tmp_path, "sha256:" + "1" * 64)
    claim = store.claim(KEY)
    assert isinstance(claim, Claim)
    claim.journal().add({"heard": "said"})
    holder = store.folder(KEY) / "holder-1.json"
    holder.write_bytes(holder.read_bytes().replace(b'"pid":', b'"pid":9999999,"was":'))
    taken = store.claim(KEY)
    assert isinstance(taken, Claim)
    assert taken.journal().earlier == [{"heard": "said"}]
