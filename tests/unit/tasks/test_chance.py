import subprocess
import sys
from collections import Counter
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcpflow.tasks.chance import Stream, secret_stream


def test_the_stream_is_pinned():
    # Any change here changes every published draw.
    stream = Stream(b"seed", "label")
    assert [stream.below(1000) for _ in range(8)] == [278, 27, 433, 192, 567, 120, 548, 733]
    assert Stream(b"seed", "label").shuffled("abcdef") == list("edbafc")


def test_no_dependence_on_hash_seed_or_global_random_state():
    code = (
        "import random; random.seed(__import__('os').getpid());"
        "from dcpflow.tasks.chance import Stream; print(Stream(b's', 'l').sample(range(1000), 20))"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "77")
    }
    assert len(runs) == 1


def test_labels_and_seeds_give_streams_of_their_own():
    draws = {
        tuple(Stream(seed, label).below(2**32) for _ in range(4))
        for seed in (b"a", b"b", b"ab")
        for label in ("x", "y", "xy", "")
    }
    assert len(draws) == 12


@settings(deadline=None, database=None)
@given(st.binary(min_size=1, max_size=40), st.integers(1, 2**32))
def test_below_stays_in_range(seed, bound):
    stream = Stream(seed, "range")
    assert all(0 <= stream.below(bound) < bound for _ in range(20))


@settings(deadline=None, database=None)
@given(st.binary(min_size=1, max_size=8), st.lists(st.integers(), max_size=30), st.data())
def test_sample_and_shuffle_keep_the_items(seed, items, data):
    stream = Stream(seed, "items")
    before = list(items)
    assert Counter(stream.shuffled(items)) == Counter(items)
    count = data.draw(st.integers(0, len(items)))
    drawn = stream.sample(items, count)
    assert len(drawn) == count
    assert not Counter(drawn) - Counter(items)
    assert items == before


def test_every_order_is_equally_likely():
    stream = Stream(b"fair", "orders")
    counts = Counter(tuple(stream.shuffled("abcd")) for _ in range(24_000))
    assert set(counts) == set(permutations("abcd"))
    # Chi-square with 23 degrees of freedom: 49.7 is exceeded once in a thousand.
    assert sum((count - 1_000) ** 2 / 1_000 for count in counts.values()) < 49.7


def test_a_bound_that_does_not_divide_the_word_is_unbiased():
    # Taking the remainder of a raw word would give the lower half of this range two thirds of the draws.
    bound = 3 * 2**30
    stream = Stream(b"fair", "bound")
    low = sum(stream.below(bound) < bound // 3 for _ in range(6_000))
    assert abs(low - 2_000) < 150


@pytest.mark.parametrize("bound", [0, -1, 2**32 + 1])
def test_below_refuses_other_bounds(bound):
    with pytest.raises(ValueError, match="bound"):
        Stream(b"s", "l").below(bound)


@pytest.mark.parametrize("count", [-1, 4])
def test_sample_refuses_other_counts(count):
    with pytest.raises(ValueError, match="cannot draw"):
        Stream(b"s", "l").sample("abc", count)


def test_seeds_have_a_length():
    with pytest.raises(ValueError, match="empty"):
        Stream(b"", "l")
    for length in (0, 31, 33):
        with pytest.raises(ValueError, match="32 bytes"):
            secret_stream(b"x" * length, "l")
    assert secret_stream(b"x" * 32, "l").below(10) == Stream(b"x" * 32, "l").below(10)
