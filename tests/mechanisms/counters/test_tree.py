import math

import numpy as np
import pytest

from confide.mechanisms.counters import HonakerTree, Tree
from confide.privatizers import worst_std


@pytest.mark.parametrize(
    ("n", "expected"), [(1000, 9.49), (10_000, 13.49), (100_000, 16.49), (1_000_000, 19.49)]
)
def test_largest_noise_of_the_tree(n, expected):
    assert round(worst_std(Tree(n)), 2) == expected


@pytest.mark.parametrize("n", [1, 2, 3, 5, 31, 32, 33, 100, 255, 256, 1000])
@pytest.mark.parametrize("kind", [Tree, HonakerTree])
def test_worst_std_is_the_maximum_over_all_releases(kind, n):
    every = max(kind(n).row_norm(t) for t in range(1, n + 1))
    assert worst_std(kind(n)) == pytest.approx(kind(n).column_norm(2) * every, rel=1e-12)


def test_honaker_is_never_worse_and_approaches_half_the_variance():
    for t in range(1, 1024):
        assert HonakerTree(1023).row_norm(t) <= Tree(1023).row_norm(t)
    assert HonakerTree(2**20).row_norm(2**19) ** 2 == pytest.approx(0.5, abs=1e-5)


def test_levels():
    assert [Tree(n).levels for n in (1, 2, 3, 4, 7, 8)] == [1, 2, 2, 3, 3, 4]
    assert Tree(2**17 - 1).levels == math.ceil(np.log2(2**17))
