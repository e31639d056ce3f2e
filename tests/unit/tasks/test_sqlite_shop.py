import hashlib
from collections import Counter
from pathlib import Path

import apsw
import pytest

from dcpflow.records.draws import Nonce
from dcpflow.stages import configuration
from dcpflow.tasks.sqlite_index import UNIT, index_sql
from dcpflow.tasks.sqlite_shop import COLUMNS, MEASURE, TABLE, SqliteShopTask

ROOT = Path(__file__).parents[3]


def bytes32(*parts: object) -> bytes:
    return hashlib.sha256(repr(parts).encode()).digest()


def test_the_published_score_and_the_lattice_below_it():
    task = SqliteShopTask({}, "dcpflow public seed 1")
    engine, sealed = task.open(task.public_material()), task.sealed(bytes32("sealed"))
    engine.warm(sealed)
    for draw in range(3):
        hidden, shown = task.hidden(bytes32(draw)), task.presentation(bytes32(draw))
        cold = [family for family in range(24) if family not in hidden["hot"]]
        scores = []
        for hot in range(7):
            families = hidden["hot"][:hot] + cold[: 6 - hot]
            sql = "".join(index_sql(shown["table"], shown["columns"][family]) for family in families)
            scores.append(round(engine.score(shown, sql, hidden, sealed)[UNIT], 4))
        assert scores[6] == 0.9433
        assert all(abs(score - (0.0175 + 0.15430 * hot)) < 0.0002 for hot, score in enumerate(scores))
        assert scores[5] < 0.9383


def test_names_are_the_shops_and_assigned_at_random():
    task = SqliteShopTask({}, "seed")
    hottest = Counter()
    for draw in range(1_200):
        shown = task.presentation(bytes32("names", draw))
        assert (shown["table"], shown["measure"]) == (TABLE, MEASURE)
        assert sorted(shown["columns"]) == sorted(COLUMNS)
        hottest[shown["columns"][0]] += 1
    assert len(hottest) == 24
    # Chi-square with 23 degrees of freedom: 56.0 is exceeded once in seven thousand.
    assert sum((count - 50) ** 2 / 50 for count in hottest.values()) < 56.0


def test_names_are_plain_words():
    words = {TABLE, MEASURE, *COLUMNS}
    assert len(words) == 26
    assert all(word.isalpha() and word.islower() for word in words)
    assert not words & {keyword.lower() for keyword in apsw.keywords}


def test_first_observations_speak_of_the_shop():
    task = SqliteShopTask({}, "seed")
    shown = task.presentation(bytes32("first"))
    first = task.first_observations(shown)
    assert first["schema"].startswith("CREATE TABLE orderlines (id INTEGER PRIMARY KEY, ")
    assert "6 of the 24" in first["note"]
    assert {item["family"] for item in first["families"]} == {f"by_{column}" for column in COLUMNS}
    assert "online shop" in task.background()
    assert "at most 6 statements" in task.background()


def test_there_are_24_names():
    with pytest.raises(ValueError, match="families"):
        SqliteShopTask({"families": 25}, "seed")
    small = SqliteShopTask({"families": 12, "hot_families": 4, "max_indexes": 4}, "seed").presentation(bytes(32))
    assert sorted(small["columns"]) == sorted(COLUMNS[:12])


def test_the_case_registers_what_was_published(monkeypatch):
    monkeypatch.chdir(ROOT)
    config = configuration.read([Path("config/cases/sqlite-core.yaml")]).config
    thresholds = config.thresholds
    assert (config.claim.grade, config.task.name, config.agent.name) == ("core", "sqlite_shop", "index_designer")
    assert (config.design.challengers, config.design.controls) == (80, 45)
    assert (thresholds.gate1.delta_min, thresholds.gate2.kappa, thresholds.gate2.rho) == (0.5, 0.01, 0.05)
    assert (thresholds.gate2.min_independent, thresholds.gate2.m_max, thresholds.alpha.recovery) == (77, 80, 0.02)
    assert Nonce.read(ROOT / config.execution.nonce_file).public == "dcpflow sqlite-core audit 1"
