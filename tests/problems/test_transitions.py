import numpy as np
import pytest

from confide.errors import InvalidParameter
from confide.problems.transitions import (
    check_probabilities,
    normalize_rows,
    sparse_rows,
    sparse_transitions,
)


def rows():
    """2 layers, 2 states, 1 action, each row to both states."""
    return {
        "indptr": np.array([0, 2, 4, 6, 8]),
        "successors": np.array([0, 1] * 4),
        "probabilities": np.full(8, 0.5),
    }


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"indptr": np.array([0, 2, 4, 8])}, "indptr must have"),
        (
            {"indptr": np.array([0, 2, 4, 6, 7])},
            "indptr must go from 0 to the number of successors",
        ),
        (
            {"indptr": np.array([0, 2, 4, 4, 8])},
            r"transitions\[h=1, s=0, a=0\] must have a successor",
        ),
        (
            {"successors": np.array([0, 1, 0, 2, 0, 1, 0, 1])},
            r"transitions\[h=0, s=1, a=0\] must lead to states 0\.\.1",
        ),
        (
            {"probabilities": np.array([0.5] * 6 + [np.nan, 0.5])},
            r"transitions\[h=1, s=1, a=0\] must be finite",
        ),
        (
            {"probabilities": np.array([0.5] * 4 + [-0.5, 1.5, 0.5, 0.5])},
            r"transitions\[h=1, s=0, a=0\] must be finite and not negative",
        ),
        (
            {"probabilities": np.array([0.5] * 2 + [0.3] * 2 + [0.5] * 4)},
            r"transitions\[h=0, s=1, a=0\] must sum to one, got a sum of 0\.6",
        ),
    ],
)
def test_bad_sparse_rows_are_refused(changed, message):
    with pytest.raises(InvalidParameter, match=message):
        sparse_rows(2, 1, **rows() | changed, layers=2)


def test_sparse_rows_drop_what_cannot_happen():
    P = sparse_rows(
        3, 1, [0, 3, 6, 9], [0, 1, 2] * 3, [0.5, 0.5, 0.0, 0.0, 0.0, 1.0, 0.2, 0.0, 0.8]
    )
    assert P.successors.tolist() == [0, 1, 2, 0, 2]
    assert P.dense()[0, :, 0].tolist() == [[0.5, 0.5, 0], [0, 0, 1], [0.2, 0, 0.8]]


def test_normalising_twice_changes_nothing():
    x = np.random.default_rng(0).dirichlet(np.ones(7), size=1000) * (1 + 1e-9)
    once = normalize_rows(x)
    assert np.abs(once.sum(axis=1) - 1).max() < 1e-15 and np.array_equal(normalize_rows(once), once)
    with pytest.raises(InvalidParameter, match=r"x\[s=0\] must sum to one"):
        check_probabilities(x * 1.1, "x", "s")


def test_what_is_certain_is_exactly_one():
    P = sparse_transitions([[[0.0, 1.0 - 1e-16]], [[0.1 + 0.2, 0.7]]])
    assert P.probabilities[0] == 1.0 and P.cumulative.tolist()[0::2] == [1.0, 1.0]


def test_expectations_and_pushes_are_those_of_the_dense_table():
    rng = np.random.default_rng(0)
    dense = rng.dirichlet(np.full(6, 0.3), size=(3, 6, 2))
    P = sparse_transitions(dense)
    values = rng.random(6)
    masses = rng.random((6, 2))
    for h in range(3):
        assert np.abs(P.expect(h, values) - dense[h] @ values).max() < 1e-14
        assert np.abs(P.push(h, masses) - np.einsum("sa,sat->t", masses, dense[h])).max() < 1e-14
    assert np.abs(P.dense() - dense).max() < 1e-15
