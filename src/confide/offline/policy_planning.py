"""Values and plans in a released model of a table. Arrays go in, policies come out.

All of it is post-processing of a release, so everything here may be changed without an effect on
privacy. The test that announces a policy has an error rate that was measured, not proved
(benchmarks/results/values_learn.md): after a change, measure again.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import ndtr

from confide.errors import InvalidParameter
from confide.offline.row_planning import EstimatedRows
from confide.offline.table_features import LoggedTable, value_ranges

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
# A plan is announced as better than the behaviour if its gain is so many standard deviations above
# what luck may give, times the pessimism if that is above one. Chosen by measurement
# (benchmarks/results/values_learn.md).
SURE = 2.0
# The most rounds of dropping choices that gain nothing. It ends earlier when none is left.
PRUNED = 20
# Values that differ by less, relative to the range of returns, are equal. A matter of taste.
NEAR = 1e-9
# Discounted visits at one step, of all states together, from which on steps are left out: they
# would change nothing that is printed.
FAINT = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Dynamics:
    """Transition probabilities [row, s'] of all rows (s, a) and their variances; rewards [s, a]
    with standard deviations; behaviour.

    `behaviour` [s, a] is how often each action was taken, from noisy visits; `behaviour_std` [s] of
    one of these shares. In the support's states, the end included.
    """

    table: LoggedTable
    P: sparse.csr_matrix = field(repr=False)
    variances: sparse.csr_matrix = field(repr=False)
    rewards: Array = field(repr=False)
    reward_std: Array = field(repr=False)
    behaviour: Array = field(repr=False)
    behaviour_std: Array = field(repr=False)
    # Noisy visits [s, a].
    visits: Array = field(repr=False)
    # The standard deviation [s, a] of the noise on the share of one successor.
    hidden: Array = field(repr=False)
    # Whether somebody was in a state [s], as far as noise tells.
    seen: npt.NDArray[np.bool_] = field(repr=False)

    @property
    def states(self) -> int:
        return self.table.support.states


def dynamics(
    table: LoggedTable, rows: EstimatedRows, rewards: Array, reward_std: Array
) -> Dynamics:
    """From rows; rewards [s, a] and their standard deviations are of all states of the support."""
    support = table.support
    S = support.states
    A = support.actions
    held = (rows.probabilities > 0) | (rows.variances > 0)
    # Most cells of a large table are zero, and sparse matrices spend no time on them.
    before = np.append(0, np.cumsum(held))
    P, variances = (
        sparse.csr_matrix(
            (part[held], support.successors[held], before[support.indptr]), shape=(S * A, S)
        )
        for part in (rows.probabilities, rows.variances)
    )
    visits = rows.visits.reshape(S, A)
    positive_visits = np.maximum(visits, 0.0)
    total = positive_visits.sum(axis=1)
    behaviour = np.where(
        total[:, None] > 0, positive_visits / np.where(total > 0, total, 1.0)[:, None], 1 / A
    )
    std = rows.visit_std.reshape(S, A).mean(axis=1)
    spread = np.minimum(std / np.maximum(np.maximum(total, std), 1e-300), 1.0)
    seen = visits.sum(axis=1) > np.linalg.norm(rows.visit_std.reshape(S, A), axis=1)
    return Dynamics(
        table,
        P,
        variances,
        rewards,
        reward_std,
        behaviour,
        spread,
        visits,
        rows.hidden.reshape(S, A),
        seen,
    )


def state_values(model: Dynamics, policy: Array, steps: int) -> Array:
    """V [s] of a policy [s, a] over so many steps, over the support's states."""
    return _step_values(model, policy, steps)[-1]


def _step_values(model: Dynamics, policy: Array, steps: int) -> list[Array]:
    """V [s] of a policy [s, a] with k steps to go, k = 0, 1, ...: at `steps`, or where more steps
    change nothing, the list ends.
    """
    P = _rows_of_policy(policy) @ model.P
    r = (policy * model.rewards).sum(axis=1)
    low, high = value_ranges(model.table, steps)
    near = NEAR * (high[-1] - low[-1])
    values = [np.zeros(len(r))]
    for k in range(1, steps + 1):
        # Returns lie within these bounds, so nothing is lost.
        after = np.clip(r + model.table.discount * (P @ values[-1]), low[k], high[k])
        done = np.abs(after - values[-1]).max() <= near
        values.append(after)
        if done:
            break
    return values


def _rows_of_policy(policy: Array) -> sparse.csr_matrix:
    """Probabilities of rows [s, (s, a)]."""
    S, A = policy.shape
    return sparse.csr_matrix(
        (policy.ravel(), np.arange(S * A), np.arange(S + 1) * A), shape=(S, S * A)
    )


@dataclass(frozen=True, slots=True, eq=False)
class PlannedChoices:
    """The best choice [s] among the actions and, as number A, what was logged.

    `gains` [s] are how much better the choice is than what was logged, in the model and without
    pessimism, then on with the plan: a mean over the steps at which the logged policy is in this
    state, in the model; `gain_std` their standard deviations given the release. `improvement` is
    the difference of the values of the plan and of the behaviour. `luck` is how large it would be
    on average if no action were better than another, because in every state the best one was chosen
    by the same data. `shown`: the improvement is so many standard deviations above this that the
    plan may be announced as better.
    """

    choices: Ints
    gains: Array
    gain_std: Array
    improvement: float
    improvement_std: float
    luck: float
    shown: bool


def plan_pessimistically(
    model: Dynamics, pessimism: float, start: Array, steps: int
) -> PlannedChoices:
    """Value iteration with A + 1 choices: each action, and going on as logged; each worth its mean
    minus `pessimism` standard deviations.

    Q = r + discount clip(P V - pessimism Gamma), Gamma^2 = Var(P V given the release) + (range /
    2n)^2, the latter for what n visits may not have shown; going on as logged has the least Gamma
    of all choices. A state in which nobody was seen is worth the least that it can be. An action
    without positive noisy visits is never chosen, a tie goes to what was logged, and so does a
    choice that gains nothing.

    Time runs forwards: V has as many steps to go as are left, and the one choice of a state is best
    on average over the steps at which the logged policy is there, in the model. So a transition
    that noise invented from a late state to an early one pays nothing twice.

    For the test the standard deviation of an action is not less than that of a single successor
    which noise may hide: the worst state that people were seen in, at its pessimistic value. What
    other rows say about this successor does not lower it.
    """
    visits = discounted_visits(model, model.behaviour, start, steps)
    choices, V = _iterate_values(model, pessimism, visits, steps)
    A = model.table.actions
    least = float(V[model.seen].min(initial=np.inf))
    worst = least if np.isfinite(least) else 0.0
    for _ in range(PRUNED):
        gains, std, logged_std = _gains(model, choices, worst, visits, steps)
        useless = (choices < A) & (gains <= 0)
        if not useless.any():
            break
        choices = np.where(useless, A, choices)
    logged_visits = visits.sum(axis=0)
    improvement = float(logged_visits @ gains)
    policy = policy_of_choices(model.behaviour, choices)
    plan_visits = discounted_visits(model, policy, start, steps).sum(axis=0)
    # The error of a value is that of each row times how often the policy takes it, so the errors of
    # the plan count with its own visits. Where it goes on as logged, the same row is in both
    # values.
    changed = choices < A
    errors = np.where(
        changed,
        np.hypot(plan_visits * std, logged_visits * logged_std),
        (plan_visits - logged_visits) * logged_std,
    )
    spread = float(np.linalg.norm(errors))
    # Whether there is a gain at all is a question about the choices where people are: a chain of
    # probabilities that are known badly may have a product that is far from certain, and is
    # positive.
    gain_std = np.where(changed, np.hypot(std, logged_std), 0.0)
    doubt = float(np.linalg.norm(logged_visits * gain_std))
    # The best of several actions that are alike looks better than they are, in every state.
    luck = largest_of(A) * float(logged_visits @ gain_std)
    shown = improvement > luck + SURE * max(pessimism, 1.0) * doubt
    return PlannedChoices(choices, gains, gain_std, improvement, spread, luck, shown)


def largest_of(number: int) -> float:
    """The mean of the largest of so many independent standard normal numbers."""
    x = np.linspace(-9.0, 9.0, 3600)
    below = ndtr(x) ** number
    return float(((x > 0) - below).sum() * (x[1] - x[0]))


def discounted_visits(model: Dynamics, policy: Array, start: Array, steps: int) -> Array:
    """discount^t times the probability of each state at step t under a policy [t, s]; it ends where
    next to nothing is left.
    """
    P = (_rows_of_policy(policy) @ model.P).T
    at = np.append(start, np.zeros(model.states - len(start)))
    visits = [at]
    while len(visits) < steps:
        at = model.table.discount * (P @ at)
        if at.sum() <= FAINT:
            break
        visits.append(at)
    return np.array(visits)


def _shares_of_steps(visits: Array, steps: int, longest: int) -> list[tuple[int, Array]]:
    """(k, share of a state's visits [s] at which k steps are left), k falling; `longest` also
    stands for all larger k.

    A state without visits has all of its share at the first step.
    """
    total = visits.sum(axis=0)
    nowhere = total <= 0
    shares = visits / np.where(nowhere, 1.0, total)
    shares[0, nowhere] = 1.0
    together = max(steps - longest, 0) + 1
    first = shares[:together].sum(axis=0)
    return [
        (min(steps, longest), first),
        *((steps - t, shares[t]) for t in range(together, len(shares))),
    ]


def _iterate_values(
    model: Dynamics, pessimism: float, visits: Array, steps: int
) -> tuple[Ints, Array]:
    """The choices [s] of pessimistic value iteration, and its values [s] at the first step."""
    table = model.table
    S = model.states
    A = table.actions
    low, high = value_ranges(table, steps)
    near = NEAR * max(high[-1] - low[-1], 1e-300)
    closed = ~table.support.open.reshape(S, A)[:, 0]
    allowed = (model.visits > 0) & (model.seen[:, None] | (pessimism == 0))
    paid = (model.behaviour * model.rewards).sum(axis=1)
    V = np.zeros(S)
    # Q [s, A + 1] with k = 1, 2, ... steps to go.
    rounds = []
    for k in range(1, steps + 1):
        outlook = _look_ahead(model, V, high[k - 1] - low[k - 1])
        spread = outlook.spread
        # Going on as logged is never the most uncertain choice.
        spread[:, A] = spread.min(axis=1)
        lower_ahead = np.clip(outlook.ahead - pessimism * spread, low[k - 1], high[k - 1])
        Q = outlook.rewards + table.discount * lower_ahead - pessimism * outlook.reward_std
        if pessimism > 0:
            least = model.rewards.min(axis=1) + table.discount * low[k - 1]
            Q[~model.seen, A] = least[~model.seen]
        Q[:, :A] = np.where(allowed, Q[:, :A], -np.inf)
        after = np.clip(Q.max(axis=1), low[k], high[k])
        after[closed] = paid[closed]
        rounds.append(Q)
        done = np.abs(after - V).max() <= near
        V = after
        if done:
            break
    Q = np.zeros((S, A + 1))
    for k, share in _shares_of_steps(visits, steps, len(rounds)):
        Q = Q + share[:, None] * np.where(share[:, None] > 0, rounds[k - 1], 0.0)
    best = Q[:, :A].argmax(axis=1)
    better = (Q[np.arange(S), best] > Q[:, A] + NEAR * (high[-1] - low[-1])) & ~closed
    return np.where(better, best, A), V


@dataclass(frozen=True, slots=True, eq=False)
class _Outlook:
    """What each choice [s, A + 1] pays at once and on average later; the last one is "as logged".

    `reward_std` and `spread` are standard deviations of the reward and of the value that follows.
    """

    rewards: Array
    ahead: Array
    reward_std: Array
    spread: Array


def _look_ahead(model: Dynamics, V: Array, span: float) -> _Outlook:
    """One step ahead of values V [s]; `span` is the range of the return that follows."""
    S, A = model.behaviour.shape
    behaviour = model.behaviour
    next_value = model.P @ V
    # sum_k v_k (V_k - P V)^2 for the variances v of a row, without a table of all cells.
    moments = model.variances @ np.column_stack([V**2, V, np.ones(S)])
    second, first, total_variance = moments.T
    of_cells = second - 2 * next_value * first + next_value**2 * total_variance
    cell_variance = np.maximum(of_cells, 0.0).reshape(S, A)
    own = next_value.reshape(S, A)
    # The last term is for what so many visits may not have shown.
    visits = np.maximum(model.visits, 1e-3)
    variance = cell_variance + (span / (2 * visits)) ** 2
    logged = (behaviour * own).sum(axis=1)
    logged_reward = (behaviour * model.rewards).sum(axis=1)
    # The shares of the logged actions are estimates themselves.
    of_shares = (model.behaviour_std[:, None] * (own - logged[:, None])) ** 2
    all_visits = np.maximum(model.visits.sum(axis=1), 1e-3)
    of_rows = behaviour**2 * cell_variance + of_shares * (behaviour > 0)
    logged_variance = of_rows.sum(axis=1) + (span / (2 * all_visits)) ** 2
    logged_reward_std = np.sqrt((behaviour**2 * model.reward_std**2).sum(axis=1))
    going = model.table.support.open.reshape(S, A)[:, :1]
    std = np.sqrt(np.column_stack([variance, logged_variance]))
    return _Outlook(
        rewards=np.column_stack([model.rewards, logged_reward]),
        ahead=np.column_stack([own, logged]),
        reward_std=np.column_stack([model.reward_std, logged_reward_std]),
        spread=np.where(going, std, 0.0),
    )


def _gains(
    model: Dynamics, choices: Ints, worst: float, visits: Array, steps: int
) -> tuple[Array, Array, Array]:
    """Gains [s] of the choices over what was logged, and the standard deviations of what a choice
    and of what the logged policy is worth [s]: means over the steps at which a state is met.
    """
    S, A = model.behaviour.shape
    values = _step_values(model, policy_of_choices(model.behaviour, choices), steps)
    low, high = value_ranges(model.table, steps)
    here = np.arange(S)
    changed = choices < A
    gains = np.zeros(S)
    spreads = np.zeros(S)
    logged_spreads = np.zeros(S)
    for k, share in _shares_of_steps(visits, steps, len(values) - 1):
        outlook = _look_ahead(model, values[k - 1], high[k - 1] - low[k - 1])
        spread = outlook.spread
        if k > 1:
            hidden = model.hidden * np.maximum(outlook.ahead[:, :A] - worst, 0.0)
            spread[:, :A] = np.maximum(spread[:, :A], hidden)
        Q = outlook.rewards + model.table.discount * outlook.ahead
        std = np.sqrt((model.table.discount * spread) ** 2 + outlook.reward_std**2)
        gains += share * (Q[here, choices] - Q[:, A])
        # Errors of a row at several steps are the same error, so they add up.
        spreads += share * std[here, choices]
        logged_spreads += share * std[:, A]
    return np.where(changed, gains, 0.0), spreads, logged_spreads


def policy_of_choices(behaviour: Array, choices: Ints) -> Array:
    """The policy [s, a] that takes the choices, and where that is number A, what was logged."""
    A = behaviour.shape[1]
    policy: Array = np.where((choices < A)[:, None], np.eye(A + 1)[choices, :A], behaviour)
    return policy


def checked_policy(name: str, policy: Array, states: int, actions: int) -> Array:
    """Probabilities [s, a] that add up to one."""
    if policy.shape != (states, actions):
        raise InvalidParameter.of(
            name, f"must have shape ({states}, {actions}), got {policy.shape}"
        )
    sums = policy.sum(axis=1)
    wrong = ~((policy >= 0).all(axis=1) & (np.abs(sums - 1) < 1e-8))
    if wrong.any():
        raise InvalidParameter(
            f"{name}[s={int(np.argmax(wrong))}] must be probabilities that sum to one"
        )
    exact: Array = policy / sums[:, None]
    return exact
