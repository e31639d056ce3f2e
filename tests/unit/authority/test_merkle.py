"""The Merkle tree of RFC 6962: the vectors of Certificate Transparency, and a naive tree."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpflow.authority import merkle

LEAVES = [
    bytes.fromhex(leaf)
    for leaf in (
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]
ROOTS = {
    0: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    1: "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    2: "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    3: "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    4: "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    5: "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    6: "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    7: "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    8: "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
}
SECOND = "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7"
THIRD_AND_FOURTH = "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e"
FIFTH = "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b"
FIFTH_AND_SIXTH = "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a"
LAST_FOUR = "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4"
LAST_TWO = "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0"
INCLUSION = {
    (0, 1): [],
    (0, 8): [SECOND, THIRD_AND_FOURTH, LAST_FOUR],
    (5, 8): [FIFTH, LAST_TWO, ROOTS[4]],
    (2, 3): [ROOTS[2]],
    (1, 5): [ROOTS[1], THIRD_AND_FOURTH, FIFTH],
}
CONSISTENCY = {
    (1, 1): [],
    (1, 8): [SECOND, THIRD_AND_FOURTH, LAST_FOUR],
    (6, 8): [FIFTH_AND_SIXTH, LAST_TWO, ROOTS[4]],
    (2, 5): [THIRD_AND_FOURTH, FIFTH],
}


def test_roots_are_the_published_ones() -> None:
    assert {size: merkle.root(LEAVES[:size]).hex() for size in ROOTS} == ROOTS


@pytest.mark.parametrize(("index", "size"), INCLUSION)
def test_inclusion_proofs_are_the_published_ones(index: int, size: int) -> None:
    proof = merkle.inclusion_proof(LEAVES[:size], index)
    assert [step.hex() for step in proof] == INCLUSION[index, size]
    assert merkle.includes(bytes.fromhex(ROOTS[size]), size, LEAVES[index], index, proof)


@pytest.mark.parametrize(("earlier", "size"), CONSISTENCY)
def test_consistency_proofs_are_the_published_ones(earlier: int, size: int) -> None:
    proof = merkle.consistency_proof(LEAVES[:size], earlier)
    assert [step.hex() for step in proof] == CONSISTENCY[earlier, size]
    roots = bytes.fromhex(ROOTS[size]), bytes.fromhex(ROOTS[earlier])
    assert merkle.continues(roots[0], size, roots[1], earlier, proof)


def naive(leaves: list[bytes]) -> bytes:
    """Level by level, the last of an odd level going up as it is: the same tree by another way."""
    level = [hashlib.sha256(b"\x00" + leaf).digest() for leaf in leaves]
    while len(level) > 1:
        pairs = [level[place : place + 2] for place in range(0, len(level), 2)]
        level = [hashlib.sha256(b"\x01" + b"".join(pair)).digest() if len(pair) == 2 else pair[0] for pair in pairs]
    return level[0]


@given(st.lists(st.binary(max_size=3), min_size=1, max_size=40), st.data())
def test_proofs_hold_for_their_own_leaf_place_and_beginning_alone(leaves: list[bytes], data: st.DataObject) -> None:
    size, found = len(leaves), naive(leaves)
    assert merkle.root(leaves) == found
    assert list(merkle.roots(leaves)) == [naive(leaves[:end]) for end in range(1, size + 1)]
    index = data.draw(st.integers(0, size - 1))
    proof = merkle.inclusion_proof(leaves, index)
    assert merkle.includes(found, size, leaves[index], index, proof)
    assert not merkle.includes(found, size, leaves[index] + b"x", index, proof)
    assert not merkle.includes(found, size, leaves[index], index, [*proof, found])
    assert not merkle.includes(found, size, leaves[index], size, proof)
    assert not proof or not merkle.includes(found, size, leaves[index], index, proof[:-1])
    earlier = data.draw(st.integers(1, size))
    before, steps = naive(leaves[:earlier]), merkle.consistency_proof(leaves, earlier)
    assert merkle.continues(found, size, before, earlier, steps)
    assert not merkle.continues(found, size, hashlib.sha256(before).digest(), earlier, steps)
    assert not merkle.continues(hashlib.sha256(found).digest(), size, before, earlier, steps)
    assert not merkle.continues(found, size, before, earlier, [*steps, found])
    assert not steps or not merkle.continues(found, size, before, earlier, steps[:-1])
    assert not merkle.continues(found, size, before, 0, steps)
    assert not merkle.continues(found, size, before, size + 1, steps)


@pytest.mark.parametrize("index", [-1, 8])
def test_there_is_no_proof_of_what_is_not_there(index: int) -> None:
    with pytest.raises(ValueError, match="has none"):
        merkle.inclusion_proof(LEAVES, index)


@pytest.mark.parametrize("earlier", [0, 9])
def test_nothing_and_more_than_all_is_no_beginning(earlier: int) -> None:
    with pytest.raises(ValueError, match="no beginning"):
        merkle.consistency_proof(LEAVES, earlier)
