"""Returns against a plain twin: of whole trajectories, and from first visits on, with what is not
known.
"""

import math

import numpy as np
import pytest

from confide.evaluation.visit_contributions import FirstVisits
from confide.offline.return_contributions import TableReturns
from confide.offline.table_features import LoggedTable, step_ranges
from confide.tables.support_features import support_of
from confide.trajectory import LoggedUsers

STATES, ACTIONS, LONGEST, DISCOUNT = 4, 2, 6, 0.8
TERMINAL = np.arange(STATES) == 3


def table_with(*, ends):
    closed = np.append(TERMINAL, [True] * ends)
    support = support_of(None, layers=1, states=STATES + ends, actions=ACTIONS, terminal=closed)
    return LoggedTable(STATES, ACTIONS, DISCOUNT, support, TERMINAL, None, -0.5, 1.0, None, None)


def statistic(table, rest, *, whole):
    places = 1 if whole else STATES
    visits = 1 if whole else 2
    bound = FirstVisits(places, visits, 1, math.sqrt(0.75), 1.0)
    return TableReturns(bound, table, rest, 1.0, 4.0, whole)


def twin(paths, gaps, rest, *, ends, whole):
    """Sums of returns and of their squares, by the definition."""
    sums = np.zeros((3, 1 if whole else STATES))
    for path, skipped in zip(paths, gaps, strict=True):
        known, over = [], False
        for t, row in enumerate(path[:LONGEST]):
            if t and skipped[t]:
                break
            known.append(row)
            if TERMINAL[row[0]]:
                over = True
                break
        else:
            over = ends or len(known) == LONGEST
        returns = np.zeros(len(known) + 1)
        returns[-1] = 0.0 if over else rest[LONGEST - len(known)]
        for t in reversed(range(len(known))):
            returns[t] = min(max(known[t][2], -0.5), 1.0) + DISCOUNT * returns[t + 1]
        seen = {}
        for t, row in enumerate(known):
            if len(seen) < 2:
                seen.setdefault(row[0], returns[t])
        for place, value in {0: returns[0]}.items() if whole else seen.items():
            g = min(max((value - 1.0) / 4.0, -1.0), 1.0)
            sums[:, place] += 1, g, g**2
    return sums


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize("bound", [0, 1])
def test_returns_are_those_of_the_definition(whole, ends, bound):
    rng = np.random.default_rng(5)
    paths = [
        [
            (int(rng.integers(STATES)), int(rng.integers(ACTIONS)), float(2 * rng.normal()))
            for _ in range(int(rng.integers(1, 9)))
        ]
        for _ in range(60)
    ]
    gaps = [rng.random(len(path)) < 0.1 for path in paths]
    rows = [row for path in paths for row in path]
    states, actions, rewards = (
        np.array([row[i] for row in rows], kind) for i, kind in ((0, int), (1, int), (2, float))
    )
    users = LoggedUsers(
        states,
        rewards,
        np.append(0, np.cumsum([len(path) for path in paths])),
        np.arange(len(paths) + 1),
        np.ones(len(paths), bool),
        actions,
        gaps=np.concatenate(gaps),
    )
    table = table_with(ends=ends)
    rest = step_ranges(table, LONGEST)[bound]
    made = statistic(table, rest, whole=whole)
    found = made.bound.unpack(made.contribution(users).values)
    np.testing.assert_allclose(found, twin(paths, gaps, rest, ends=ends, whole=whole), atol=1e-4)


def test_a_user_whose_rows_make_no_sense_adds_nothing():
    table = table_with(ends=True)
    made = statistic(table, step_ranges(table, LONGEST)[0], whole=False)
    for state, action, reward in ((4, 0, 0.5), (0, 2, 0.5), (0, 0, np.nan), (-1, 0, 0.5)):
        users = LoggedUsers(
            np.array([0, state]),
            np.array([0.5, reward]),
            np.array([0, 2]),
            np.arange(2),
            np.ones(1, bool),
            np.array([0, action]),
        )
        assert not made.contribution(users).values.any()
