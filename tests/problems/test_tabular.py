"""Tables: what they refuse, Bellman's equation, and samplers against exact values.

Statistical tests fix their seeds. A z-test with |z| < 5.5 raises a false alarm once in 2.6e7.
Chi-square tests have the level 1e-7 per step.
"""

import numpy as np
import pytest
from scipy import stats

from confide.errors import InvalidParameter
from confide.policy import LinearPolicy, StochasticPolicy, TabularPolicy, uniform_policy
from confide.problems import TabularMDP, load_problem, lock

Z = 5.5


def random_table(seed=0, H=4, S=5, A=3, *, stochastic=False, layers=True):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(S, 0.4), size=(H, S, A) if layers else (S, A))
    P[P < 0.03] = 0.0
    P /= P.sum(axis=-1, keepdims=True)
    r = rng.random((H, S, A) if layers else (S, A))
    return TabularMDP(
        P,
        r,
        rng.dirichlet(np.ones(S)),
        horizon=None if layers else H,
        stochastic_rewards=stochastic,
    )


def random_policy(problem, seed=1):
    weights = np.random.default_rng(seed).dirichlet(
        np.full(problem.actions, 0.5), size=(problem.horizon, problem.states)
    )
    return StochasticPolicy(weights)


# What is refused.


def good():
    return np.full((2, 3, 2, 3), 1 / 3), np.full((2, 3, 2), 0.5), np.full(3, 1 / 3)


def change(which, index, value):
    arrays = list(good())
    arrays[which][index] = value
    return arrays


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            change(0, (1, 2, 0, 1), 0.5),
            r"transitions\[h=1, s=2, a=0\] must sum to one, got a sum of 1\.16667",
        ),
        (change(0, (1, 0, 1, 1), np.nan), r"transitions\[h=1, s=0, a=1\] must be finite"),
        (change(0, (0, 1, 1, 2), np.inf), r"transitions\[h=0, s=1, a=1\] must be finite"),
        (
            change(0, (0, 2, 1), [-0.5, 1.0, 0.5]),
            r"transitions\[h=0, s=2, a=1\] must not be negative",
        ),
        (change(1, (1, 2, 1), np.nan), r"rewards\[h=1, s=2, a=1\] must be in \[0, 1\]"),
        (change(1, (0, 1, 0), -0.1), r"rewards\[h=0, s=1, a=0\] must be in \[0, 1\], got -0\.1"),
        (change(2, 1, 0.5), "start must sum to one"),
        (change(2, 1, np.nan), "start must be finite"),
        (change(2, slice(None), [1.5, -0.5, 0]), "start must not be negative"),
        (
            (np.ones((2, 3, 2, 4)) / 4, *good()[1:]),
            r"transitions must have shape .* got \(2, 3, 2, 4\)",
        ),
        ((np.ones((3, 3)), *good()[1:]), "transitions must have shape"),
        (
            (good()[0], np.zeros((3, 3, 2)), good()[2]),
            r"rewards must have shape \(2, 3, 2\).* got \(3, 3, 2\)",
        ),
        ((*good()[:2], np.ones(4) / 4), r"start must have shape \(3,\), got \(4,\)"),
    ],
)
def test_bad_tables_are_refused_with_the_first_offending_row(arrays, message):
    with pytest.raises(InvalidParameter, match=message):
        TabularMDP(*arrays)


def test_the_first_offending_row_comes_first_whatever_is_wrong_with_it():
    P, r, start = good()
    P[0, 1, 0, 0] = 0.9
    P[1, 0, 0, 0] = np.nan
    P[1, 2, 1, 0] = -1.0
    with pytest.raises(InvalidParameter, match=r"transitions\[h=0, s=1, a=0\] must sum to one"):
        TabularMDP(P, r, start)
    P[0, 0, 1] = -1.0, 1.0, 1.0
    with pytest.raises(
        InvalidParameter, match=r"transitions\[h=0, s=0, a=1\] must not be negative"
    ):
        TabularMDP(P, r, start)


def test_homogeneous_tables_need_a_horizon_and_name_rows_without_steps():
    P, r, start = good()
    with pytest.raises(InvalidParameter, match="needs a horizon"):
        TabularMDP(P[0], r[0], start)
    with pytest.raises(InvalidParameter, match="horizon must be at least 1, got horizon=0"):
        TabularMDP(P[0], r[0], start, horizon=0)
    P[0, 1, 1, 0] = 0.0
    with pytest.raises(InvalidParameter, match=r"transitions\[s=1, a=1\] must sum to one"):
        TabularMDP(P[0], r[0], start, horizon=2)


def test_a_problem_is_a_value():
    """Nobody can change it from outside, and agents see parts of it that they cannot write into."""
    P, r, start = good()
    problem = TabularMDP(P, r, start)
    before = problem.optimal_value
    r[:] = 0.0
    assert problem.optimal_value == problem.value(problem.optimal_policy) == before
    with pytest.raises(ValueError, match="read-only"):
        problem.public.rewards[:] = 0.0


def test_rewards_are_in_the_unit_interval():
    P, r, start = good()
    r[1, 2, 0] = 1.5
    with pytest.raises(
        InvalidParameter,
        match=r"rewards\[h=1, s=2, a=0\] must be in \[0, 1\], got 1.5: scale the rewards",
    ):
        TabularMDP(P, r, start)
    with pytest.raises(InvalidParameter, match=r"rewards\[h=1, s=2, a=0\] must be in \[0, 1\]"):
        TabularMDP(P, r, start, stochastic_rewards=True)


@pytest.mark.parametrize(
    "policy", [TabularPolicy(np.zeros((4, 6), dtype=int), 3), LinearPolicy(np.zeros((4, 1, 1)))]
)
def test_policies_of_another_problem_are_refused(policy):
    with pytest.raises(InvalidParameter):
        random_table().value(policy)


# Exact values.


@pytest.mark.parametrize(
    "problem",
    [
        random_table(0),
        random_table(1, layers=False),
        random_table(2, stochastic=True),
        lock().truth,
    ],
)
def test_bellman_residuals(problem):
    P = np.broadcast_to(
        problem.transitions.dense(), (problem.horizon, *problem.transitions.dense().shape[1:])
    )
    r = problem.rewards
    policy = random_policy(problem)
    best = problem._optimum[0]
    values = problem.values(policy)
    for h in range(problem.horizon):
        Q = r[h] + np.einsum("sat,t->sa", P[h], best[h + 1])
        assert np.abs(Q.max(axis=1) - best[h]).max() < 1e-10
        chosen = problem.optimal_policy.actions[h]
        assert np.abs(Q[np.arange(problem.states), chosen] - best[h]).max() < 1e-10
        Q = r[h] + np.einsum("sat,t->sa", P[h], values[h + 1])
        assert np.abs((policy.weights[h] * Q).sum(axis=1) - values[h]).max() < 1e-10
    assert not best[-1].any() and not values[-1].any()
    assert problem.value(policy) <= problem.optimal_value + 1e-12
    assert problem.value(problem.optimal_policy) == pytest.approx(problem.optimal_value, abs=1e-12)


def test_value_by_adding_up_all_paths():
    problem = random_table(3, H=3, S=3, A=2)
    policy = random_policy(problem)
    P = problem.transitions.dense()

    def along(h, s):
        if h == 3:
            return 0.0
        choices = [
            policy.weights[h, s, a]
            * (problem.rewards[h, s, a] + sum(P[h, s, a, t] * along(h + 1, t) for t in range(3)))
            for a in (0, 1)
        ]
        return sum(choices)

    assert problem.value(policy) == pytest.approx(
        sum(problem.start[s] * along(0, s) for s in range(3)), abs=1e-12
    )


def test_homogeneous_and_layered_tables_are_the_same_problem():
    one = random_table(4, layers=False)
    layered = TabularMDP(
        np.repeat(one.transitions.dense(), one.horizon, axis=0), one.rewards, one.start
    )
    policy = random_policy(one)
    assert one.optimal_value == layered.optimal_value and one.value(policy) == layered.value(policy)
    first, second = (
        problem.sample(policy, 50, np.random.default_rng(0)) for problem in (one, layered)
    )
    assert np.array_equal(first.states, second.states)


def test_what_agents_may_know():
    with_rewards = random_table().public
    hidden = random_table(stochastic=True).public
    assert (
        (with_rewards.horizon, with_rewards.states, with_rewards.actions) == (4, 5, 3)
        and with_rewards.rewards is not None
        and hidden.rewards is None
    )


# Samplers.


def return_variance(problem, policy):
    """The variance of one user's return, by backward induction on the second moment."""
    P = np.broadcast_to(
        problem.transitions.dense(), (problem.horizon, *problem.transitions.dense().shape[1:])
    )
    r = problem.rewards
    V = problem.values(policy)
    second = np.zeros(problem.states)
    for h in reversed(range(problem.horizon)):
        square = r[h] if problem.stochastic_rewards else r[h] ** 2
        Q = (
            square
            + 2 * r[h] * np.einsum("sat,t->sa", P[h], V[h + 1])
            + np.einsum("sat,t->sa", P[h], second)
        )
        second = (policy.probabilities()[h] * Q).sum(axis=1)
    return problem.start @ second - problem.value(policy) ** 2


def occupancy(problem, policy):
    """P(s, a, s') at each step: [h, s, a, s']."""
    P = np.broadcast_to(
        problem.transitions.dense(), (problem.horizon, *problem.transitions.dense().shape[1:])
    )
    mass = problem.start
    steps = []
    for h in range(problem.horizon):
        steps.append(mass[:, None, None] * policy.probabilities()[h][:, :, None] * P[h])
        mass = steps[-1].sum(axis=(0, 1))
    return np.array(steps)


def chi_square(observed, expected):
    """The p-value of counts against their expectations; rare cells in one."""
    assert not observed[expected == 0].any()
    common = expected >= 8
    cells = [np.append(x[common], x[~common].sum()) for x in (observed, expected)]
    keep = cells[1] > 0
    statistic = ((cells[0] - cells[1])[keep] ** 2 / cells[1][keep]).sum()
    return stats.chi2.sf(statistic, keep.sum() - 1)


def tally(problem, seen):
    """Counts [h, s, a, s'] of either kind of sample."""
    counts = np.zeros((problem.horizon, problem.states, problem.actions, problem.states))
    if hasattr(seen, "count"):
        np.add.at(counts, (seen.step, seen.state, seen.action, seen.next_state), seen.count)
    else:
        steps = np.broadcast_to(np.arange(problem.horizon), seen.actions.shape)
        np.add.at(counts, (steps, seen.states[:, :-1], seen.actions, seen.states[:, 1:]), 1)
    return counts


PROBLEMS = {
    "random": random_table(5),
    "homogeneous": random_table(6, layers=False),
    "coins": random_table(7, stochastic=True),
    "lock": lock().truth,
}


@pytest.mark.parametrize("sampler", ["sample", "count"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_samplers_have_the_right_law(name, sampler):
    """At each step the transitions of independent users are multinomial: 2e5 users, p > 1e-7.
    Wrong probabilities are noticed.
    """
    problem = PROBLEMS[name]
    users = 200_000
    policy = random_policy(problem)
    counts = tally(problem, getattr(problem, sampler)(policy, users, np.random.default_rng(8)))
    expected = occupancy(problem, policy)
    assert (counts.sum(axis=(1, 2, 3)) == users).all()
    for h in range(problem.horizon):
        assert chi_square(counts[h], users * expected[h]) > 1e-7
    # who arrives goes on
    assert np.array_equal(counts[1:].sum(axis=(2, 3)), counts[:-1].sum(axis=(1, 2)))
    wrong = expected[-1] + 0.1 * (expected[-1] > 0) * expected[-1].mean()
    assert chi_square(counts[-1], users * wrong / wrong.sum()) < 1e-7


@pytest.mark.parametrize("sampler", ["sample", "count"])
@pytest.mark.parametrize("name", ["random", "coins", "lock"])
def test_batch_totals_have_the_right_mean_and_variance(name, sampler):
    """The variance of a batch's total sees the dependence between steps. 1500 batches of 20 users;
    a total wrong by 20 % is noticed.
    """
    problem = PROBLEMS[name]
    users = 20
    batches = 1500
    policy = random_policy(problem)
    rng = np.random.default_rng(9)
    totals = np.array(
        [total_reward(getattr(problem, sampler)(policy, users, rng)) for _ in range(batches)]
    )
    mean = users * problem.value(policy)
    variance = users * return_variance(problem, policy)
    assert abs(totals.mean() - mean) < Z * np.sqrt(variance / batches)
    # sums of 20 are a little heavier than Gaussian
    assert abs(totals.var(ddof=1) / variance - 1) < Z * np.sqrt(2.5 / batches)
    assert abs(totals.mean() - 1.2 * mean) > Z * np.sqrt(variance / batches)


def total_reward(seen):
    return seen.reward @ seen.count if hasattr(seen, "count") else seen.rewards.sum()


@pytest.mark.parametrize("which", ["optimal", "uniform"])
def test_lock_is_sampled_at_its_exact_value(which):
    problem = lock()
    policy = problem.optimal_policy if which == "optimal" else uniform_policy(5, 20, 4)
    returns = problem.sample(policy, 300_000, np.random.default_rng(10)).rewards.sum(axis=1)
    assert abs(returns.mean() - problem.value(policy)) < Z * returns.std() / np.sqrt(len(returns))
    assert returns.var() == pytest.approx(return_variance(problem.truth, policy), rel=0.05)


def test_stochastic_rewards_are_coins():
    problem = PROBLEMS["coins"]
    policy = random_policy(problem)
    users = problem.sample(policy, 100_000, np.random.default_rng(11))
    assert set(np.unique(users.rewards)) == {0.0, 1.0}
    means = problem.rewards[np.arange(problem.horizon), users.states[:, :-1], users.actions]
    assert abs((users.rewards - means).sum()) < Z * np.sqrt((means * (1 - means)).sum())
    counted = problem.count(policy, 100_000, np.random.default_rng(12))
    assert set(np.unique(counted.reward)) == {0.0, 1.0}
    means = problem.rewards[counted.step, counted.state, counted.action]
    assert abs((counted.reward - means) @ counted.count) < Z * np.sqrt(
        (means * (1 - means)) @ counted.count
    )


def test_counts_of_many_users_cost_no_more_and_none_cost_nothing():
    problem = lock()
    seen = problem.count(problem.optimal_policy, 10**10, np.random.default_rng(0))
    assert seen.count[seen.step == 4].sum() == 10**10
    assert (seen.reward @ seen.count) / 1e10 == pytest.approx(problem.optimal_value, abs=1e-3)
    assert problem.count(problem.optimal_policy, 0, np.random.default_rng(0)).count.size == 0


def test_policies_that_are_off_by_rounding_can_be_counted():
    weights = np.zeros((5, 20, 4))
    weights[..., :2] = 0.5, 0.5 + 5e-9
    assert lock().count(StochasticPolicy(weights), 100, np.random.default_rng(0)).count.sum() == 500


def test_same_seed_same_bits():
    problem = random_table(13, stochastic=True)
    policy = random_policy(problem)
    first, again = (problem.sample(policy, 100, np.random.default_rng(3)) for _ in range(2))
    assert np.array_equal(first.states, again.states) and np.array_equal(
        first.rewards, again.rewards
    )
    first, again = (problem.count(policy, 100, np.random.default_rng(3)) for _ in range(2))
    assert np.array_equal(first.count, again.count)


def test_terminal_states_lead_to_themselves_and_are_public(tmp_path):
    P = np.array([[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]])
    ends = np.array([False, True])
    problem = TabularMDP(P, np.zeros((2, 2)), [1.0, 0.0], horizon=3, terminal=ends)
    assert np.array_equal(problem.public.terminal, ends) and problem.public.stationary
    problem.save(tmp_path / "ends.npz")
    assert np.array_equal(load_problem(tmp_path / "ends.npz").public.terminal, ends)
    assert TabularMDP(P, np.zeros((2, 2)), [1.0, 0.0], horizon=3).public.terminal is None
    for wrong, message in (
        ([True, True], "s=0 must lead to itself"),
        ([0, 1], "boolean array of shape"),
        ([True], "boolean array"),
    ):
        with pytest.raises(InvalidParameter, match=message):
            TabularMDP(P, np.zeros((2, 2)), [1.0, 0.0], horizon=3, terminal=wrong)


def test_rewards_to_be_learned_that_change_over_time_are_not_stationary():
    table = np.full((2, 1, 2), 0.5)
    start = [1.0, 0.0]
    growing = np.arange(6.0).reshape(3, 2, 1) / 6
    assert TabularMDP(table, growing, start).public.stationary
    assert not TabularMDP(table, growing, start, stochastic_rewards=True).public.stationary
