"""First-visit returns: against a plain twin, and attacks on the sensitivity."""

import math
import pickle

import numpy as np
import pytest

from confide.errors import InvalidParameter
from confide.evaluation.visit_contributions import FirstVisitReturns, FirstVisits
from confide.privacy.request import Relation
from confide.trajectory import LoggedUsers


def log(users):
    """users: a list of lists of trajectories, each a list of (state, reward)."""
    trajectories = [path for user in users for path in user]
    rows = [row for path in trajectories for row in path]
    states = np.array([s for s, _ in rows], dtype=np.int64)
    rewards = np.array([r for _, r in rows], dtype=float)
    ends = np.cumsum([0, *(len(path) for path in trajectories)])
    owners = np.cumsum([0, *(len(user) for user in users)])
    return LoggedUsers(
        states,
        rewards,
        ends.astype(np.int64),
        owners.astype(np.int64),
        np.ones(len(users), dtype=bool),
    )


def plain(users, statistic):
    """The definition.

    The return from the first visit on, one state and one trajectory at a time.
    """
    bound = statistic.bound
    expected = np.zeros((3 if bound.squares else 2, bound.states))
    for user in users:
        if any(not 0 <= s < bound.states or not math.isfinite(r) for path in user for s, r in path):
            continue
        for path in user[: bound.trajectories]:
            first = {}
            for t, (s, _) in enumerate(path):
                first.setdefault(s, t)
            for s, t in list(first.items())[: bound.visits]:
                F = sum(r * statistic.discount**i for i, (_, r) in enumerate(path[t:]))
                g = float(np.clip((F - statistic.centre) / statistic.radius, -1, 1))
                expected[:, s] += [bound.count_unit, g, bound.square_unit * (g * g - 0.5)][
                    : len(expected)
                ]
    return expected.ravel()


def random_users(rng, count, states, *, bad=0.0):
    def row():
        broken = rng.random() < bad
        return (int(rng.integers(states + 3) - 1) if broken else int(rng.integers(states))), (
            float(rng.choice([np.nan, np.inf, 1.0])) if broken else float(rng.normal())
        )

    return [
        [[row() for _ in range(rng.integers(0, 7))] for _ in range(rng.integers(0, 4))]
        for _ in range(count)
    ]


@pytest.mark.parametrize("squares", [0.0, 1.0])
@pytest.mark.parametrize(
    ("visits", "trajectories", "discount"), [(5, 1, 1.0), (2, 2, 0.9), (1, 3, 0.0)]
)
def test_matches_the_definition(visits, trajectories, discount, squares):
    rng = np.random.default_rng(visits)
    statistic = FirstVisitReturns(
        FirstVisits(5, visits, trajectories, 0.7, squares), discount, 0.2, 1.5
    )
    users = random_users(rng, 60, 5, bad=0.05)
    total = statistic.contribution(log(users))
    assert total.users == 60
    np.testing.assert_allclose(
        total.values, plain(users, statistic), atol=60 * trajectories * statistic.bound.grid
    )


def test_any_partitioning_gives_the_same_bits():
    rng = np.random.default_rng(1)
    statistic = pickle.loads(
        pickle.dumps(FirstVisitReturns(FirstVisits(5, 3, 2, math.sqrt(3), 1.0), 0.97, 0.5, 0.5))
    )
    users = random_users(rng, 90, 5)
    whole = statistic.contribution(log(users)).values
    for cut in (1, 17, 80):
        parts = statistic.contribution(log(users[:cut])) + statistic.contribution(log(users[cut:]))
        assert (parts.values == whole).all()


@pytest.mark.parametrize("bad", [(-1, 0.0), (7, 0.0), (0, math.nan), (0, math.inf), (0, -math.inf)])
def test_a_user_whose_data_make_no_sense_contributes_nothing(bad):
    statistic = FirstVisitReturns(FirstVisits(4, 4, 1), 1.0, 0.5, 0.5)
    # Also in a trajectory beyond the cap.
    user = [[(1, 1.0), (2, 1.0)], [bad]]
    assert not statistic.contribution(log([user])).values.any()
    users = log([[[(1, 1.0)]]])
    silent = LoggedUsers(
        users.states, users.rewards, users.trajectories, users.users, np.zeros(1, dtype=bool)
    )
    assert not statistic.contribution(silent).values.any()


def test_long_trajectories_and_huge_rewards_stay_in_the_clip():
    statistic = FirstVisitReturns(FirstVisits(2, 2), 0.5, 0.0, 1.0)
    rewards = [(0, 1e300)] * 20_000 + [(1, -1e300)] * 20_000
    values = statistic.contribution(log([[rewards]])).values
    assert values.tolist() == [1.0, 1.0, 1.0, -1.0]


def test_known_values():
    replace = Relation.REPLACE
    assert FirstVisits(716, 20).sensitivity(replace) == 2 * math.sqrt(20)
    assert FirstVisits(40, 40, 1, math.sqrt(3)).sensitivity(replace) == pytest.approx(
        2 * math.sqrt(40), rel=1e-7
    )
    assert FirstVisits(716, 20, 3).sensitivity(replace) == 6 * math.sqrt(20)
    assert FirstVisits(716, 20).sensitivity(Relation.NULL) == math.sqrt(40)


def test_parameters_are_checked():
    for wrong in (
        {"visits": 5},
        {"visits": 0},
        {"balance": 0.0},
        {"squares": 2.0},
        {"trajectories": 1.5},
    ):
        with pytest.raises(InvalidParameter):
            FirstVisits(**{"states": 4, "visits": 2, **wrong})
    with pytest.raises(InvalidParameter):
        FirstVisitReturns(FirstVisits(4, 2), 1.1, 0.0, 1.0)
