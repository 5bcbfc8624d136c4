import math
import pickle

import numpy as np
import pytest

from confide.errors import InvalidParameter
from confide.evaluation.contributions import Bands, ResidualBands
from confide.evaluation.row_contributions import VisitRows, VisitSums, visit_rows
from confide.evaluation.temporal_contributions import TemporalSums, check_radius, longest_steps
from confide.mechanisms.symmetric import svec
from confide.privacy import Relation
from confide.privacy.bounded import L2Ball
from confide.trajectory import LoggedUsers


def users(*people, valid=None, **columns):
    """People are lists of trajectories, which are lists of (state, reward)."""
    trips = [trip for person in people for trip in person]
    rows = [row for trip in trips for row in trip]
    ends = np.cumsum([0, *map(len, trips)])
    return LoggedUsers(
        np.array([s for s, _ in rows], dtype=np.int64),
        np.array([r for _, r in rows], dtype=float),
        ends.astype(np.int64),
        np.cumsum([0, *map(len, people)]).astype(np.int64),
        np.ones(len(people), bool) if valid is None else np.array(valid),
        **columns,
    )


def visit_sums(table, scales, visits, balance, discount=1.0):
    table, scales = np.ascontiguousarray(table, dtype=float), np.asarray(scales, dtype=float)
    return VisitSums(
        visit_rows(table, scales, visits, balance), table, scales, visits, discount, 0.5, 0.5
    )


def temporal_sums(table, radius, discount=0.9):
    x = np.ascontiguousarray(table, dtype=float)
    reach = longest_steps(x, x, discount=discount, balance=1.0)
    d = x.shape[1]
    return TemporalSums(L2Ball(radius, d * d + d), x, x, reach, 1.0, discount, 0.5, 0.5)


def test_visits_are_regressed_as_by_hand():
    rng = np.random.default_rng(0)
    x, v = rng.normal(size=(4, 3)) / 3, rng.uniform(0.2, 1, size=4)
    statistic = visit_sums(x, v, 3, 1.5, discount=0.5)
    trip = [(2, 0.0), (2, 0.25), (0, 1.0), (1, 0.0), (3, 0.5)]
    # State 3 is the fourth, which is one too many.
    returns = {
        2: 0 + 0.5 * (0.25 + 0.5 * (1 + 0.5 * (0 + 0.5 * 0.5))),
        0: 1 + 0.5 * 0.5 * 0.5,
        1: 0.25,
    }
    A = sum(np.outer(x[s], x[s]) for s in returns)
    b = sum(v[s] * x[s] * np.clip((F - 0.5) / 0.5, -1, 1) for s, F in returns.items())
    got_A, got_b = statistic.bound.unpack(statistic.contribution(users([trip])).values)
    np.testing.assert_allclose(got_A, A, atol=1e-6)
    np.testing.assert_allclose(got_b, b, atol=1e-6)


def test_a_state_counts_once_for_a_user_and_an_empty_row_not_at_all():
    statistic = visit_sums(np.diag([1.0, 1.0, 0.0]), np.ones(3), 2, 1.0)
    twice = [[(2, 0.0), (0, 1.0)], [(0, 0.0), (1, 0.0), (1, 0.5)]]
    A, b = statistic.bound.unpack(statistic.contribution(users(twice)).values)
    np.testing.assert_allclose(A, np.diag([1.0, 1.0, 0.0]), atol=1e-6)
    np.testing.assert_allclose(b, [1.0, 0.0, 0.0], atol=1e-6)


def test_temporal_differences_are_those_of_the_equation():
    x = np.array([[0.5, 0.1], [-0.2, 0.4], [0.3, 0.3]])
    statistic = temporal_sums(x, 50.0)
    trip = [(0, 0.1), (1, 0.2), (1, 0.0), (2, 0.7)]
    A = sum(
        np.outer(x[s], x[s] - (0.9 * x[t] if t is not None else 0))
        for s, t in [(0, 1), (1, 1), (1, 2), (2, None)]
    )
    y = [(r - 0.5 + 0.45) / 0.5 for r in (0.1, 0.2, 0.0)] + [(0.7 - 0.5) / 0.5]
    b = sum(x[s] * g for (s, _), g in zip(trip, y, strict=True))
    got_A, got_b = statistic.unpack(statistic.contribution(users([trip])).values)
    np.testing.assert_allclose(got_A, A, atol=1e-5)
    np.testing.assert_allclose(got_b, b, atol=1e-5)


def test_steps_count_until_the_next_might_leave_the_ball():
    """Whether a step counts is known before it is made, and never comes back.

    A later short step does not count either.
    """
    statistic = temporal_sums([[1.0], [0.01]], 3.0)
    kept = statistic.contribution(users([[(0, 1.0)] * 50 + [(1, 0.0)] * 50])).values
    other = statistic.contribution(users([[(0, 1.0)] * 50 + [(0, -5.0), (1, 0.3)]])).values
    np.testing.assert_array_equal(kept, other)
    assert 0 < np.linalg.norm(kept) <= 3.0
    with pytest.raises(InvalidParameter, match="longest step"):
        check_radius(1.0, statistic.reach)


def test_many_states_are_bounded_without_looking_at_pairs():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(3000, 2))
    table /= np.linalg.norm(table, axis=1, keepdims=True)
    bound = visit_rows(table, np.ones(3000), 3, 1.0)
    exact = visit_rows(table[:1000], np.ones(1000), 3, 1.0)
    assert (
        exact.sensitivity(Relation.REPLACE)
        <= bound.sensitivity(Relation.REPLACE)
        <= math.sqrt(2) * 3 * 1.5 * (1 + 1e-5)
    )


HOSTILE = [
    [[(0, math.nan)]],
    [[(0, 0.5), (1, math.inf)]],
    [[(2**40, 0.5)]],
    [[(-1, 0.5)]],
    [[(0, 1.0)], [(-(2**60), 0.0)]],
]


@pytest.mark.parametrize(
    "statistic",
    [visit_sums(np.eye(2), np.ones(2), 2, 1.0), temporal_sums(np.eye(2), 9.0)],
    ids=["visits", "steps"],
)
def test_users_who_make_no_sense_contribute_zero_and_others_as_if_alone(statistic):
    good = [[(0, 0.3), (1, 0.9)]]
    alone = statistic.contribution(users(good)).values
    for bad in HOSTILE:
        np.testing.assert_array_equal(statistic.contribution(users(bad, good, bad)).values, alone)
    assert not statistic.contribution(users(good, valid=[False])).values.any()
    huge = statistic.contribution(users([[(0, 1e300), (1, -1e300), (0, 1e308), (1, 1e308)]])).values
    assert np.isfinite(huge).all()
    assert np.linalg.norm(huge) <= statistic.bound.sensitivity(Relation.NULL)


def test_sums_are_the_same_bits_for_any_partitioning():
    rng = np.random.default_rng(1)
    people = [
        [[(int(rng.integers(5)), float(rng.uniform())) for _ in range(9)] for _ in range(2)]
        for _ in range(40)
    ]
    x = rng.normal(size=(5, 3))
    visits, steps = visit_sums(x, np.ones(5), 4, 0.8), temporal_sums(x / 2, 6.0)
    bands = ResidualBands(visits, rng.normal(size=(9, 3)), np.zeros(3), 5.0, Bands(6, 3))
    for statistic in (visits, steps, bands):
        whole = statistic.contribution(users(*people))
        copy = pickle.loads(pickle.dumps(statistic))
        parts = copy.contribution(users(*people[:7])) + copy.contribution(users(*people[7:]))
        np.testing.assert_array_equal(whole.values, parts.values)
        assert whole.users == parts.users == 40


def banded(residuals, bands=6, top=4.0):
    """Bands of residuals that are given: the rows are the residuals."""

    class Given:
        bound = L2Ball(1e9, residuals.shape[1])

        def per_user(self, logged):
            return residuals[: logged.count]

    d = residuals.shape[1]
    statistic = ResidualBands(Given(), np.eye(d), np.zeros(d), top, Bands(bands, d))
    return statistic, statistic.contribution(users(*[[[(0, 0.0)]]] * len(residuals)))


def test_bands_add_up_to_the_second_moment():
    rng = np.random.default_rng(0)
    g = rng.normal(size=(500, 3)) * rng.choice([0.001, 0.1, 0.5], size=(500, 1))
    statistic, total = banded(g)
    np.testing.assert_allclose(statistic.sum_filled_bands(total.values, 1e-9), g.T @ g, rtol=1e-4)
    # All of it might be noise.
    assert not statistic.sum_filled_bands(total.values, 1e9).any()


def test_a_user_touches_one_band():
    """Users of every size and direction; whoever is not finite touches none."""
    rng = np.random.default_rng(0)
    g = rng.normal(size=(150, 2)) * 10 ** rng.uniform(-4, 4, size=(150, 1))
    g = np.vstack(
        [g, [[4.0, 0.0], [0.0, 4.0], [2.0, 0.0], [1e300, -1e300], [math.nan, 0.0], [math.inf, 1.0]]]
    )
    rows = np.stack([banded(row[None])[1].values for row in g])
    touched = np.count_nonzero(rows.reshape(len(g), 6, 3).any(axis=2), axis=1)
    assert touched.max() == 1
    assert not rows[-2:].any()


def test_rows_are_clipped_at_the_top_of_the_bands():
    statistic, total = banded(np.array([[30.0, 40.0]]), top=5.0)
    np.testing.assert_allclose(
        statistic.sum_filled_bands(total.values, 1e-9), np.outer([3, 4], [3, 4]), rtol=1e-5
    )
    np.testing.assert_allclose(total.values[:3], svec(np.outer([3, 4], [3, 4]) / 25), rtol=1e-5)


def test_parameters_are_checked():
    for wrong in (
        {"dimension": 0},
        {"trace": math.nan},
        {"design": 0.0},
        {"overlap": -1.0},
        {"balance": math.inf},
    ):
        with pytest.raises(InvalidParameter, match=next(iter(wrong))):
            VisitRows(
                **(
                    {"dimension": 2, "trace": 1.0, "design": 1.0, "response": 1.0, "overlap": 0.0}
                    | wrong
                )
            )
    for bands, dimension in ((0, 1), (1, 0), (1.5, 1)):
        with pytest.raises(InvalidParameter):
            Bands(bands, dimension)
