"""One backward induction for every bonus, against a plain one."""

import numpy as np
import pytest

from confide.problems import garnet
from confide.tables.bonus_planning import Bonus
from confide.tables.optimistic_planning import greedy_actions, optimistic_values

PROBLEM = garnet(states=6, actions=3, branches=3, horizon=5, rewarded=2)
H = 5
S = 6
A = 3
P = PROBLEM.transitions.dense()[0].reshape(S * A, S)
NONE = Bonus(np.zeros(S * A), np.zeros(S * A))
LEFT = np.arange(H, 0, -1.0)
ENDS = np.zeros(S, dtype=bool)


def values(probabilities, bonus, bonus_steps=LEFT, ceiling=LEFT, terminal=ENDS, policy=None):
    return optimistic_values(
        probabilities,
        PROBLEM.rewards,
        bonus,
        bonus_steps=bonus_steps,
        ceiling=ceiling,
        terminal=terminal,
        policy=policy,
    )


def plain(P, rewards, bonus, left, ceiling, policy=None):
    V = np.zeros(S)
    Q = np.zeros((H, S, A))
    for h in reversed(range(H)):
        mean = P @ V
        spread = np.sqrt(np.maximum(P @ V**2 - mean**2, 0))
        total = mean + left[h] * bonus.per_step + bonus.spread * spread
        Q[h] = np.clip(
            np.nan_to_num(rewards[h] + total.reshape(S, A), posinf=np.inf), 0, ceiling[h]
        )
        V = Q[h].max(axis=1) if policy is None else (Q[h] * policy[h]).sum(axis=1)
    return Q


def test_without_a_bonus_a_table_that_is_known_is_solved():
    Q = values(P, NONE)
    assert PROBLEM.start @ Q[0].max(axis=1) == pytest.approx(PROBLEM.optimal_value)


@pytest.mark.parametrize("with_policy", [False, True])
def test_every_part_of_a_bonus_is_added_and_cut(with_policy):
    rng = np.random.default_rng(0)
    bonus = Bonus(*(rng.exponential(0.1, size=S * A) for _ in range(2)))
    bonus.per_step[3] = np.inf
    policy = rng.dirichlet(np.ones(A), size=(H, S)) if with_policy else None
    Q = values(P, bonus, LEFT + 1, np.full(H, 4.0), policy=policy)
    np.testing.assert_allclose(
        Q, plain(P, PROBLEM.rewards, bonus, LEFT + 1, np.full(H, 4.0), policy)
    )
    assert (Q[:, 1, 0] == 4).all() and 0 < (Q == 4).mean() < 0.9


def test_layers_and_ends():
    """A table for each of the first four steps gives the values of one table for all steps.

    A state that ends an episode stays where it is.
    """
    layers = np.tile(P, (H - 1, 1))
    none = Bonus(np.zeros(len(layers)), np.zeros(len(layers)))
    np.testing.assert_allclose(values(layers, none), values(P, NONE))
    ends = ENDS.copy()
    ends[2] = True
    Q = values(P, Bonus(np.full(S * A, 9.0), NONE.spread), terminal=ends)
    np.testing.assert_allclose(Q[:, 2].max(axis=1), PROBLEM.rewards[0, 2].max() * LEFT)
    np.testing.assert_allclose(Q[:, 1], LEFT[:, None] + np.zeros(A))


def test_equal_actions_are_drawn():
    actions = greedy_actions(np.zeros((50, 4, 3)), np.random.default_rng(0))
    assert np.bincount(actions.ravel()) == pytest.approx(np.full(3, 200 / 3), rel=0.3)
    assert (greedy_actions(np.eye(3)[None], np.random.default_rng(0)) == [[0, 1, 2]]).all()
