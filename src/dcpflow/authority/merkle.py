"""The Merkle tree of RFC 6962, section 2.1: its root, proofs that it holds a leaf or continues a smaller tree.

Nothing is signed here, and nothing is read: leaves, hashes and proofs are bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence


def leaf_hash(leaf: bytes) -> bytes:
    """Hash of one leaf: ``SHA-256(0x00 || leaf)``, which no node of two halves can have."""
    return hashlib.sha256(b"\x00" + leaf).digest()


def root(leaves: Sequence[bytes]) -> bytes:
    """The root of a tree (MTH in the RFC).

    Args:
        leaves: the data of its leaves, in order; of none, the root is the hash of nothing.
    """
    return _root([leaf_hash(leaf) for leaf in leaves])


def roots(leaves: Iterable[bytes]) -> Iterator[bytes]:
    """The roots of all trees that the leaves grow to, one leaf after another: as :func:`root` of each beginning."""
    whole: list[tuple[int, bytes]] = []  # subtrees without a gap, from the left, each with its height
    for leaf in leaves:
        height, found = 0, leaf_hash(leaf)
        while whole and whole[-1][0] == height:
            height, found = height + 1, _node(whole.pop()[1], found)
        whole.append((height, found))
        for _, left in reversed(whole[:-1]):
            found = _node(left, found)
        yield found


def inclusion_proof(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """The hashes from which a leaf's own and the root follow (PATH, section 2.1.1).

    Args:
        leaves: all leaves of the tree.
        index: of the leaf, from 0.

    Raises:
        ValueError: there is no such leaf.
    """
    if not 0 <= index < len(leaves):
        raise ValueError(f"a tree of {len(leaves)} leaves has none with index {index}")
    return _path([leaf_hash(leaf) for leaf in leaves], index)


def consistency_proof(leaves: Sequence[bytes], earlier: int) -> list[bytes]:
    """The hashes from which the root of a tree and that of its beginning follow (PROOF, section 2.1.2).

    Args:
        leaves: all leaves of the tree.
        earlier: how many of them the beginning has, at least 1.

    Raises:
        ValueError: it has none, or more than there are.
    """
    if not 1 <= earlier <= len(leaves):
        raise ValueError(f"a tree of {len(leaves)} leaves has no beginning of {earlier}")
    return _subproof([leaf_hash(leaf) for leaf in leaves], earlier, whole=True)


def includes(root_hash: bytes, size: int, leaf: bytes, index: int, proof: Sequence[bytes]) -> bool:
    """Whether a proof shows that the tree with this root has the leaf at this place (RFC 9162, section 2.1.3.2).

    Args:
        root_hash: the root.
        size: number of leaves.
        leaf: the leaf's data.
        index: its place, from 0.
        proof: what :func:`inclusion_proof` gave.
    """
    if not 0 <= index < size:
        return False
    place, last, found = index, size - 1, leaf_hash(leaf)
    for step in proof:
        if last == 0:
            return False
        if place % 2 or place == last:
            found = _node(step, found)
            while place % 2 == 0 and place:
                place, last = place >> 1, last >> 1
        else:
            found = _node(found, step)
        place, last = place >> 1, last >> 1
    return last == 0 and found == root_hash


def continues(root_hash: bytes, size: int, earlier_root: bytes, earlier: int, proof: Sequence[bytes]) -> bool:
    """Whether a proof shows that the tree begins with all leaves of an earlier one (RFC 9162, section 2.1.4.2).

    Args:
        root_hash: the root.
        size: number of leaves.
        earlier_root: the root that the earlier tree had.
        earlier: its number of leaves, at least 1.
        proof: what :func:`consistency_proof` gave.
    """
    if not 1 <= earlier <= size:
        return False
    if earlier == size:
        return not proof and earlier_root == root_hash
    # the beginning itself is no part of the proof where it is a whole subtree
    steps = [earlier_root, *proof] if earlier & (earlier - 1) == 0 else list(proof)
    if not steps:
        return False
    place, last = earlier - 1, size - 1
    while place % 2:
        place, last = place >> 1, last >> 1
    old = new = steps[0]
    for step in steps[1:]:
        if last == 0:
            return False
        if place % 2 or place == last:
            old, new = _node(step, old), _node(step, new)
            while place % 2 == 0 and place:
                place, last = place >> 1, last >> 1
        else:
            new = _node(new, step)
        place, last = place >> 1, last >> 1
    return last == 0 and old == earlier_root and new == root_hash


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


def _split(count: int) -> int:
    """The largest power of two below the number."""
    return int(1 << (count - 1).bit_length() - 1)


def _root(hashes: Sequence[bytes]) -> bytes:
    if not hashes:
        return hashlib.sha256(b"").digest()
    if len(hashes) == 1:
        return hashes[0]
    middle = _split(len(hashes))
    return _node(_root(hashes[:middle]), _root(hashes[middle:]))


def _path(hashes: Sequence[bytes], index: int) -> list[bytes]:
    if len(hashes) == 1:
        return []
    middle = _split(len(hashes))
    if index < middle:
        return [*_path(hashes[:middle], index), _root(hashes[middle:])]
    return [*_path(hashes[middle:], index - middle), _root(hashes[:middle])]


def _subproof(hashes: Sequence[bytes], earlier: int, *, whole: bool) -> list[bytes]:
    """As in the RFC; ``whole``: the hashes are the whole tree's, or its beginning's last part is known by its root."""
    if earlier == len(hashes):
        return [] if whole else [_root(hashes)]
    middle = _split(len(hashes))
    if earlier <= middle:
        return [*_subproof(hashes[:middle], earlier, whole=whole), _root(hashes[middle:])]
    return [*_subproof(hashes[middle:], earlier - middle, whole=False), _root(hashes[:middle])]
