"""The compiled loops of an import beside plain Python and NumPy."""

import numpy as np
import pyarrow as pa
import pytest

from confide.logs import _import_kernels as kernels
from confide.logs import identity
from confide.logs.identity import PseudonymTable, hash_ids


@pytest.mark.parametrize("bits", [1, 12, 40, 63])
def test_radix_order_is_the_stable_one(rng, bits):
    keys = rng.integers(0, 2**bits, 5000, dtype=np.uint64)
    assert np.array_equal(kernels.radix_order(keys), np.argsort(keys, kind="stable"))
    assert len(kernels.radix_order(keys[:0])) == 0


# Rows of a user: many, some, few.
@pytest.mark.parametrize("users", [2, 50, 1000])
def test_rows_by_user_and_time(rng, users):
    user, time = rng.integers(0, users, 5000, dtype=np.uint64), rng.integers(-50, 50, 5000)
    order = kernels.radix_order(user)
    kernels.order_times(user, time, order)
    assert np.array_equal(order, np.lexsort((time, user)))


def test_stays_by_their_first_row(rng):
    user, stay = (
        np.sort(rng.integers(0, 60, 2000, dtype=np.uint64)),
        rng.integers(0, 2**63, 5, dtype=np.uint64)[rng.integers(0, 5, 2000)],
    )
    order, number = np.arange(2000), np.empty(2000, np.int64)
    kernels.order_stays(user, stay, order, number)
    expected = []
    for each in range(60):
        rows = np.flatnonzero(user == each)
        # In the order in which they come.
        first = list(dict.fromkeys(stay[rows].tolist()))
        expected += [
            (int(row), place) for place, one in enumerate(first) for row in rows if stay[row] == one
        ]
    assert list(zip(order.tolist(), number.tolist(), strict=True)) == expected


def test_a_row_that_says_nothing_more(rng):
    starts = np.append(np.arange(0, 300, 3), 300)
    bits, missing = rng.integers(0, 2, (3, 300)), rng.random((3, 300)) < 0.3
    subsumed = np.zeros(300, np.bool_)
    kernels.mark_subsumed_rows(starts, bits, missing, 100, subsumed)

    def says(i, j):
        return all(
            missing[c, i] or (not missing[c, j] and bits[c, i] == bits[c, j]) for c in range(3)
        )

    for first in starts[:-1]:
        group = range(first, first + 3)
        kept = [row for row in group if not subsumed[row]]
        # nothing is lost
        assert kept and all(any(says(row, other) for other in kept) for row in group)
        # and nothing is left that could go
        assert not any(says(i, j) for i in kept for j in kept if i != j)
    untouched = np.zeros(300, np.bool_)
    kernels.mark_subsumed_rows(starts, bits, missing, 2, untouched)
    assert not untouched.any()


def test_hashes_tell_ids_apart_and_spaces_do_not_count():
    texts = ["", " ", "a", " a\t", "ab", "abcdefgh", "abcdefghi", "abcdefgh\0", None, "é"]
    hashes = hash_ids(pa.array(texts), 7, "x")
    assert (hashes == 0).tolist() == [True, True, *[False] * 6, True, False]
    assert hashes[2] == hashes[3] and len(set(hashes.tolist())) == 7
    assert np.array_equal(hash_ids(pa.array(texts).dictionary_encode(), 7, "x"), hashes)
    # A slice has an offset.
    assert np.array_equal(hash_ids(pa.array(["?", *texts])[1:], 7, "x"), hashes)
    many = hash_ids(pa.array(np.arange(200_000)), 7, "x")
    assert len(np.unique(many)) == 200_000 and not np.array_equal(
        many[:9], hash_ids(pa.array(np.arange(9)), 8, "x")
    )


def test_the_table_of_ids_grows_and_starts_anew(monkeypatch):
    monkeypatch.setattr(identity, "_MOST_SLOTS", 1 << 14)
    pseudonyms, expected = PseudonymTable(b"k" * 32), {}
    for first in range(0, 20_000, 1000):
        column = pa.array(np.arange(first, first + 1500))
        numbers, has_number = pseudonyms.numbers(column, "x")
        assert has_number.all()
        for number, each in zip(numbers.tolist(), column.to_pylist(), strict=True):
            assert expected.setdefault(each, number) == number
    assert len(set(expected.values())) == len(expected) == 20_500 and max(expected.values()) < 2**63
