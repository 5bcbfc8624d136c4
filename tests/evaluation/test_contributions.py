"""Residuals in bands: whoever a user is, also nobody, what changes is within the sensitivity."""

import numpy as np
import pytest

from confide.evaluation.contributions import Bands, ResidualBands
from confide.privacy.request import Relation
from confide.trajectory import LoggedUsers


class Row:
    """One number per user: its reward; zero for a user whose data make no sense."""

    def per_user(self, users):
        return np.where(users.valid, users.rewards[users.trajectories[users.users[:-1]]], 0.0)[
            :, None
        ]


def user(reward, valid=True):
    ends = np.array([0, 1])
    return LoggedUsers(
        np.zeros(1, dtype=np.int64), np.array([reward]), ends, ends, np.array([valid])
    )


@pytest.mark.parametrize("relation", [Relation.REPLACE, Relation.NULL])
@pytest.mark.parametrize("offset", [-1.0, 0.0, 0.3, 1.0])
def test_a_user_who_contributes_zero_has_a_residual_too(relation, offset):
    """The second question of importance sampling is about g = row - mean.

    Of a user with no row that is minus the mean, not zero.
    """
    bound = Bands(8, 1)
    bands = ResidualBands(Row(), np.ones((1, 1)), np.array([offset]), 2.0, bound)
    nobody = bands.contribution(user(0.0, valid=False)).values
    apart = [
        np.linalg.norm(bands.contribution(user(g)).values - nobody) for g in np.linspace(-1, 1, 201)
    ]
    assert max(apart) <= bound.sensitivity(relation)
    assert max(
        np.abs(bands.contribution(user(1.0)).values - nobody).sum(), 0
    ) <= bound.l1_sensitivity(relation)
    if offset == 1.0:
        assert max(apart) > 0.999 * np.sqrt(2)
