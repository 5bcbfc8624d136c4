"""Sums of codes: whatever a user sends is a row of the table, and no two rows are farther apart
than stated.
"""

import numpy as np
import pytest

from confide.errors import InvalidParameter
from confide.mixtures.code_contributions import TableRows, TransitionSums
from confide.mixtures.code_features import best_codes, directions, measure_codes, responsibilities
from confide.privacy.request import Relation
from confide.problems import lock, rand

WORLDS = [
    lock(0),
    rand(0),
    lock(3, states=8, actions=3, horizon=3, jump=3),
    rand(7, states=5, actions=2, horizon=2, dimension=4),
]


@pytest.mark.parametrize("world", WORLDS, ids=lambda w: f"{w.name}-{w.states}")
@pytest.mark.parametrize("make", [directions, responsibilities])
def test_no_two_users_are_farther_apart_than_the_sensitivity_and_some_are_that_far(world, make):
    """Brute force over all transitions of one step: all others are copies of it, in coordinates of
    their own.
    """
    kernels = world.public.kernels
    H = world.horizon
    statistic = TransitionSums(measure_codes("x", make(kernels)), H - 1)
    S = world.states
    A = world.actions
    rows = np.vstack([statistic.table.reshape(S * A * S, -1), np.zeros(len(kernels))])
    squared = (rows**2).sum(axis=1)
    farthest = np.sqrt((squared[:, None] + squared[None] - 2 * rows @ rows.T).max() * (H - 1))
    stated = statistic.bound.sensitivity(Relation.REPLACE)
    assert 0.999 * stated < farthest <= stated
    l1 = max(np.abs(rows - row).sum(axis=1).max() for row in np.unique(rows, axis=0)) * (H - 1)
    assert (
        0.999 * statistic.bound.l1_sensitivity(Relation.REPLACE)
        < l1
        <= statistic.bound.l1_sensitivity(Relation.REPLACE)
    )
    assert np.sqrt(squared.max() * (H - 1)) <= statistic.bound.sensitivity(Relation.NULL)


def test_identical_kernels_leave_nothing_to_send():
    same = np.repeat(WORLDS[3].public.kernels[:1], 2, axis=0)
    statistic = TransitionSums(best_codes(same, size="diameter"), 1)
    assert not statistic.table.any()


def test_bad_sizes_are_refused():
    # sqrt(2) <= spread <= sqrt(2 x dimension)
    for bad in ((0, 3, 2.0), (3, 0, 2.0), (1, 3, 1.0), (1, 3, 2.5), (1, 1, np.inf)):
        with pytest.raises(InvalidParameter):
            TableRows(*bad)
