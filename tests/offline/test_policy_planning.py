"""Plans: optimal where everything is known, as logged where nothing is, and never for what gains
nothing.
"""

import numpy as np
import pytest

from confide.offline.policy_planning import (
    dynamics,
    plan_pessimistically,
    policy_of_choices,
    state_values,
)
from confide.offline.row_planning import EstimatedRows
from confide.offline.table_features import LoggedTable, value_ranges
from confide.tables.support_features import support_of

S, A = 5, 2
NO_END = np.zeros(S, bool)
STEPS = 150


def model(P, rewards, visits, std=1.0, variance=0.0, terminal=NO_END, discount=0.9, hidden=0.0):
    support = support_of(None, layers=1, states=S, actions=A, terminal=terminal)
    table = LoggedTable(S, A, discount, support, terminal, rewards, 0.0, 1.0, None, None)
    cells = P[~terminal].ravel()
    each = (np.full(S * A, value) for value in (std, hidden))
    rows = EstimatedRows(
        cells,
        np.full(cells.size, variance),
        visits.ravel(),
        *each,
        0.0,
        "empirical-bayes",
        visits.ravel(),
    )
    return dynamics(table, rows, rewards, np.zeros((S, A)))


@pytest.fixture
def world():
    rng = np.random.default_rng(0)
    return rng.dirichlet(np.ones(S), size=(S, A)), rng.random((S, A))


def optimal(P, r, discount=0.9):
    V = np.zeros(S)
    for _ in range(2000):
        V = (r + discount * P @ V).max(axis=1)
    return V


def test_a_plan_in_a_known_world_is_optimal(world):
    P, r = world
    known = model(P, r, np.full((S, A), 1e9))
    plan = plan_pessimistically(known, 0.0, np.full(S, 0.2), STEPS)
    assert plan.choices.max() < A
    V = state_values(known, policy_of_choices(known.behaviour, plan.choices), STEPS)
    np.testing.assert_allclose(V, optimal(P, r), atol=1e-6)


def test_gains_add_up_to_the_improvement(world):
    """The values of two policies differ by visits times gains: the performance difference lemma."""
    P, r = world
    known, start = model(P, r, np.full((S, A), 1e9)), np.full(S, 0.2)
    plan = plan_pessimistically(known, 1.0, start, STEPS)
    better = start @ (
        state_values(known, policy_of_choices(known.behaviour, plan.choices), STEPS)
        - state_values(known, known.behaviour, STEPS)
    )
    assert plan.improvement == pytest.approx(better, rel=1e-9) and better > 0


@pytest.mark.parametrize(("visits", "variance"), [(-1.0, 0.0), (3.0, 0.0), (1e9, 10.0)])
def test_what_is_not_known_stays_as_logged(world, visits, variance):
    """Nobody was there; few were; many were, and the rows are noise."""
    P, r = world
    plan = plan_pessimistically(
        model(P, r, np.full((S, A), visits), variance=variance, std=2.0),
        1.0,
        np.full(S, 0.2),
        STEPS,
    )
    assert not plan.shown


def test_ties_go_to_what_was_logged(world):
    P, _ = world
    plan = plan_pessimistically(
        model(P, np.ones((S, A)), np.full((S, A), 1e9)), 0.0, np.full(S, 0.2), STEPS
    )
    assert (plan.choices == A).all()


def test_nothing_is_planned_in_terminal_states(world):
    P, r = world
    terminal = np.arange(S) == 0
    known = model(P, r, np.where(terminal[:, None], 0.0, 1e9) * np.ones((S, A)), terminal=terminal)
    plan = plan_pessimistically(known, 0.0, np.full(S, 0.2), STEPS)
    assert plan.choices[0] == A
    V = state_values(known, policy_of_choices(known.behaviour, plan.choices), STEPS)
    assert r[0].min() <= V[0] <= r[0].max()


def test_value_ranges_are_the_least_and_the_most_that_steps_can_pay():
    r, terminal = np.array([[0.0, 0.0], [1.0, 1.0]]), np.array([False, True])
    support = support_of(None, layers=1, states=2, actions=2, terminal=terminal)

    def ranges(rewards, discount, ends=terminal, bounds=(None, None)):
        table = LoggedTable(2, 2, discount, support, ends, rewards, 0.0, 1.0, *bounds)
        return np.array(value_ranges(table, 3)).T.tolist()

    # paid once, at the end
    assert ranges(r, 1.0) == [[0, 0], [0, 1], [0, 1], [0, 1]]
    assert ranges(r, 0.5, ~terminal) == [[0, 0], [0, 1], [0, 1.5], [0, 1.75]]
    assert ranges(r, 0.5, np.zeros(2, bool)) == [[0, 0], [0, 1], [0, 1.5], [0, 1.75]]
    stated = ranges(r, 0.5, np.zeros(2, bool), (0.25, 1.25))
    assert stated == [[0, 0], [0, 1], [0, 1.25], [0, 1.25]]


def test_a_noisy_way_back_to_an_early_state_pays_nothing_twice():
    """Noise leads from the last step back to the first.

    The reward of the first step is paid once all the same.
    """
    P, r = np.zeros((S, A, S)), np.zeros((S, A))
    for s in range(S - 1):
        P[s, :, s + 1] = 1.0
    P[S - 1, 0, 0], P[S - 1, 1, S - 1] = 1.0, 1.0
    r[0] = 1.0
    known, start = model(P, r, np.full((S, A), 1e9), discount=1.0), np.eye(S)[0]
    plan = plan_pessimistically(known, 0.0, start, S)
    assert (plan.choices == A).all() and plan.improvement == 0
    assert state_values(known, known.behaviour, S)[0] == pytest.approx(1.0)


def test_values_without_a_discount_end_in_terminal_states():
    P = np.zeros((S, A, S))
    P[:, :, 0] = 1.0
    r, terminal = np.full((S, A), 0.0), np.arange(S) == 0
    r[0] = 1.0
    known = model(P, r, np.full((S, A), 1e9), terminal=terminal, discount=1.0)
    np.testing.assert_allclose(state_values(known, np.full((S, A), 0.5), STEPS), 1.0)


def test_noise_that_may_hide_the_way_to_a_bad_state_keeps_a_plan_from_passing():
    """The better action is known exactly, by the variances; its share of a bad state is not."""
    P, rewards = np.zeros((S, A, S)), np.zeros((S, A))
    P[:, :, 0], P[S - 1, :] = 1.0, np.eye(S)[S - 1]
    rewards[: S - 1] = [0.5, 0.6]
    start = np.eye(S)[0]
    sure, unsure = (
        plan_pessimistically(
            model(P, rewards, np.full((S, A), 1e9), hidden=share), 1.0, start, STEPS
        )
        for share in (1e-4, 0.05)
    )
    assert sure.choices[0] == 1 and sure.shown
    assert not unsure.shown
    assert (
        plan_pessimistically(
            model(P, rewards, np.full((S, A), 1e9), hidden=0.05), 0.0, start, STEPS
        ).choices[0]
        == 1
    )
