"""Draws: reproducible, committed to beforehand, and moved by nothing but what they are for."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from dcpflow.errors import UsageError
from dcpflow.records import plan
from dcpflow.records.canonical import digest
from dcpflow.records.draws import Draws, Nonce

SECRET = hashlib.sha256(b"a secret").digest()
C = digest(b"contract")


@pytest.fixture
def draws() -> Draws:
    return Draws(Nonce(SECRET, ""), C, "beacon 7")


def nonce_file(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "audit.nonce"
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


def test_a_draw_is_what_it_was_for_everybody_who_has_the_nonce(draws: Draws) -> None:
    # written down once: another value here means that no earlier audit replays any more
    assert draws.hex("challengers", 17, "presentation") == (
        "0315c871eb744544b4955039a82723aa142408e6744c3306d42a2ec1735dbd80"
    )
    assert draws.nonce.derive("hidden", "main").hex() == (
        "4b794103d9d01fc37c3a271a3bef278498824b990496786770530a4356328fc5"
    )


def test_every_input_moves_a_draw(draws: Draws) -> None:
    values = [
        draws.bytes("challengers", 1, "presentation"),
        draws.bytes("controls", 1, "presentation"),
        draws.bytes("challengers", 2, "presentation"),
        draws.bytes("challengers", 1, "agent seed"),
        Draws(draws.nonce, digest(b"other contract"), "beacon 7").bytes("challengers", 1, "presentation"),
        Draws(draws.nonce, C, "beacon 8").bytes("challengers", 1, "presentation"),
        Draws(draws.nonce, C).bytes("challengers", 1, "presentation"),
        Draws(Nonce(b"\1" * 32, ""), C, "beacon 7").bytes("challengers", 1, "presentation"),
        # what is joined to one text could be taken apart in another way
        draws.bytes("challengers", 11, "presentation"),
        draws.bytes("challengers1", 1, "presentation"),
    ]
    assert len(set(values)) == len(values)
    assert {len(value) for value in values} == {32}


def test_more_slots_leave_the_draws_of_the_earlier_ones_where_they_were(draws: Draws) -> None:
    few = [plan.draw(draws, "challengers", slot) for slot in range(1, 4)]
    many = [plan.draw(draws, "challengers", slot) for slot in range(1, 50)]
    assert many[:3] == few
    assert len({plan.unit(drawn) for drawn in many}) == 49


def test_hidden_values_depend_on_the_nonce_alone(draws: Draws) -> None:
    other = Draws(draws.nonce, digest(b"another budget"), "another beacon")
    assert other.nonce.derive("hidden", "main") == draws.nonce.derive("hidden", "main")
    assert draws.nonce.derive("hidden", "main") != draws.nonce.derive("sealed")
    assert draws.nonce.derive("hidden", "main") != draws.nonce.derive("hidden", "controls-00001")


@pytest.mark.parametrize("stage", ["pairs", "null_pairs"])
def test_both_arms_of_a_pair_share_one_draw_and_run_in_a_drawn_order(draws: Draws, stage: str) -> None:
    drawn = [plan.draw(draws, stage, slot) for slot in range(1, 41)]
    orders = [[key.arm for key in plan.running_order(stage, slot, one)] for slot, one in enumerate(drawn, 1)]
    assert [order[0] for order in orders] == [one["first_arm"] for one in drawn]
    assert {tuple(order) for order in orders} == {plan.STAGES[stage].arms, plan.STAGES[stage].arms[::-1]}
    assert all([key.arm for key in plan.keys(stage, slot)] == list(plan.STAGES[stage].arms) for slot in (1, 2))


def test_an_order_is_a_permutation_that_the_purpose_decides(draws: Draws) -> None:
    order = draws.order(50, "scores challengers", "scoring order")
    assert sorted(order) == list(range(50))
    assert order != list(range(50))
    assert order != draws.order(50, "scores pairs", "scoring order")
    assert draws.order(0, "scores pairs", "scoring order") == []


def test_a_commitment_opens_to_its_material_alone_and_cannot_be_guessed_without_the_nonce() -> None:
    nonce = Nonce(SECRET, "")
    commitment = nonce.commit("hidden", b"few possible values")
    assert commitment == Nonce(SECRET, "").commit("hidden", b"few possible values")
    assert commitment != nonce.commit("hidden", b"few possible valueS")
    assert commitment != nonce.commit("sealed", b"few possible values")
    assert commitment != Nonce(b"\2" * 32, "").commit("hidden", b"few possible values")
    assert commitment != digest(b"few possible values")


def test_a_closed_nonce_file_is_read_whatever_its_comments(tmp_path: Path) -> None:
    nonce = Nonce.read(nonce_file(tmp_path, f"# keep this secret\n\n{SECRET.hex()}\n# until the last score\n"))
    assert (nonce.secret, nonce.public) == (SECRET, "")


def test_a_public_nonce_says_what_it_is_the_digest_of_and_may_be_readable(tmp_path: Path) -> None:
    text = "an exercise"
    digits = hashlib.sha256(text.encode()).hexdigest()
    nonce = Nonce.read(nonce_file(tmp_path, f"# public-demonstration: {text}\n{digits}\n", mode=0o644))
    assert (nonce.secret.hex(), nonce.public) == (digits, text)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644, 0o666])
def test_a_secret_nonce_that_others_can_reach_is_refused_with_the_command_that_closes_it(
    tmp_path: Path, mode: int
) -> None:
    path = nonce_file(tmp_path, SECRET.hex(), mode)
    with pytest.raises(UsageError, match="can be read by others") as caught:
        Nonce.read(path)
    assert f"chmod 600 {path}" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing but a comment\n",
        SECRET.hex()[:-1],
        SECRET.hex()[:-2],
        SECRET.hex() + "00",
        "g" * 64,
        f"# public-demonstration: another text\n{SECRET.hex()}\n",
        f"{SECRET.hex()}\n{SECRET.hex()}\n",
        "\u00e9" * 64,
    ],
    ids=range(9),
)
def test_a_wrong_nonce_file_is_named_with_the_command_that_makes_a_right_one(tmp_path: Path, text: str) -> None:
    path = nonce_file(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        Nonce.read(path)
    assert str(path) in str(caught.value)
    assert f"dcpflow nonce new {path}" in str(caught.value)


def test_a_missing_nonce_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="dcpflow nonce new"):
        Nonce.read(tmp_path / "none.nonce")


@pytest.mark.parametrize("wrap", [lambda nonce: nonce, lambda nonce: Draws(nonce, C)])
def test_a_nonce_does_not_show_its_secret_when_it_is_printed(wrap: Any) -> None:
    assert repr(SECRET)[2:-1] not in repr(wrap(Nonce(SECRET, "")))
