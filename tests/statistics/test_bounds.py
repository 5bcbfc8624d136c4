import itertools
import math

import numpy as np
import pytest

from confide.errors import InvalidParameter
from confide.statistics.bounds import RegressionRows


def test_counts_are_the_same_bits_as_users():
    bound = RegressionRows(2, 3, row_norm=2.0, target=2.0, balance=1.4)
    X, y = np.array([[1.0, -2.0, 3.0], [0.1, 0.2, 0.3]]), np.array([1.5, -9.0])
    dense = bound.contribution(np.stack([X, X, X]), np.stack([y, y, y]))
    counted = bound.clip_and_add(np.arange(2), X, y, np.full(2, 3), users=3)
    np.testing.assert_array_equal(dense.values, counted.values)
    assert dense.users == counted.users == 3


def test_broken_data_contributes_zero():
    bound = RegressionRows(1, 2)
    for bad_X, bad_y in itertools.product((1.0, math.nan, math.inf), (1.0, math.nan, -math.inf)):
        if (bad_X, bad_y) != (1.0, 1.0):
            assert not bound.contribution(
                np.array([[[bad_X, 0.1]]]), np.array([[bad_y]])
            ).values.any()


def test_unpack_gives_design_and_response_back():
    bound = RegressionRows(3, 4, row_norm=10.0, target=10.0, balance=0.7)
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, size=(5, 3, 4)), rng.uniform(-1, 1, size=(5, 3))
    Lambda, u = bound.unpack(bound.contribution(X, y).values)
    # rounded to the grid
    np.testing.assert_allclose(Lambda, np.einsum("khi,khj->hij", X, X), atol=1e-4)
    np.testing.assert_allclose(u, np.einsum("khi,kh->hi", X, y), atol=1e-4)


def test_private_text_contributes_zero():
    for rows, targets in (([[["SSN 123", 0.0]]], [[0.0]]), ([[[0.1, 0.0]]], [["cancer"]])):
        assert not RegressionRows(1, 2).contribution(rows, targets).values.any()


def test_shapes_and_parameters_are_checked():
    with pytest.raises(
        InvalidParameter, match=r"\(users, 1, 2\) and \(users, 1\), got \(1, 1, 3\) and \(1, 1\)"
    ):
        RegressionRows(1, 2).contribution(np.zeros((1, 1, 3)), np.zeros((1, 1)))
    for wrong in (
        {"steps": 0},
        {"dimension": 0},
        {"row_norm": 0.0},
        {"target": math.nan},
        {"balance": math.inf},
    ):
        with pytest.raises(InvalidParameter, match=next(iter(wrong))):
            RegressionRows(**({"steps": 1, "dimension": 1} | wrong))
