"""What was started in a look that an amendment ended before: outside of the ledger, unless it hides something."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dcpflow.evidence import folder
from dcpflow.evidence.view import AuditView
from dcpflow.records.canonical import digest
from dcpflow.records.episodes import EpisodeKey, EpisodeStore
from dcpflow.stages.evidence import unlisted

if TYPE_CHECKING:
    from tests.conftest import Audit

LATER = EpisodeKey("challengers", 3, "withheld")
ANOTHER = digest(b"another registration")


@pytest.fixture(scope="module")
def seen(finished_audit: Audit) -> AuditView:
    """Two of the six challengers are the first look, and were enough."""
    view = folder.load_view(finished_audit.job.layout, finished_audit.receipts, finished_audit.scores)
    parts = dict(view.registered.parts)
    parts["design"] = {"config": {**view.registered.config("design"), "gate2_looks": [2, 6]}}
    episodes = tuple(e for e in view.episodes if e.key.stage != "challengers" or e.key.slot <= 2)
    scores = {"target": view.scores["target"], "challengers-1": (), "challengers-2": ()}
    return replace(view, registered=replace(view.registered, parts=parts), episodes=episodes, scores=scores)


def found(seen: AuditView, store: EpisodeStore, *slots: int) -> list[str]:
    return unlisted(store, seen, {("challengers", slot) for slot in slots})


def started(tmp_path: Path, seen: AuditView, audit: Audit, registration: str = "", attempt: int = 1) -> EpisodeStore:
    """A store in which an attempt at the third slot was begun, and perhaps committed under a registration."""
    store = EpisodeStore(tmp_path, seen.registered.contract)
    path = store.record_path(LATER, attempt)
    path.parent.mkdir(parents=True)
    if registration:
        (one,) = [
            e for e in folder.load_view(audit.job.layout, audit.receipts, audit.scores).episodes if e.key == LATER
        ]
        path.write_bytes(replace(one.record, registration=registration, attempt=attempt).to_bytes())
    return store


def test_what_only_an_earlier_registration_called_for_or_was_merely_begun_is_no_hidden_attempt(
    tmp_path: Path, seen: AuditView, finished_audit: Audit
) -> None:
    for number, registration in enumerate(("", ANOTHER)):
        store = started(tmp_path / str(number), seen, finished_audit, registration)
        assert found(seen, store, 3, 4, 5, 6) == []
        assert found(seen, store) == [f"{LATER}, attempt 1"], "in a look that had to be run it is one"


def test_an_attempt_of_the_registration_in_force_is_named(
    tmp_path: Path, seen: AuditView, finished_audit: Audit
) -> None:
    store = started(tmp_path, seen, finished_audit, seen.registered.digest)
    assert found(seen, store, 3, 4, 5, 6) == [f"{LATER}, attempt 1"]


def test_a_first_attempt_behind_which_a_second_one_is_listed_is_named(
    tmp_path: Path, seen: AuditView, finished_audit: Audit
) -> None:
    """A recovery under another registration, and a miss that is listed in its place."""
    store = started(tmp_path, seen, finished_audit, ANOTHER)
    view = folder.load_view(finished_audit.job.layout, finished_audit.receipts, finished_audit.scores)
    (one,) = [e for e in view.episodes if e.key == LATER]
    forged = replace(one, record=replace(one.record, attempt=2))
    assert found(replace(seen, episodes=(*seen.episodes, forged)), store, 3, 4, 5, 6) == [f"{LATER}, attempt 1"]
