"""Values and plans in a released model of a table. Arrays go in, policies come out.

`dynamics` turns estimated rows into probabilities of transitions, and `state_values` computes the
value of a policy in them. `plan_pessimistically` finds a policy, and tests whether it may be
announced.

All of it is post-processing of a release, so everything here may be changed without an effect on
privacy. Nothing leaves this file but arrays: `model.py` saves them. The test that announces a
policy has an error rate that was measured, not proved (benchmarks/results/values_learn.md): after a
change, measure again.

Letters in the code: P are transition probabilities, V values of states, Q values of choices. S and
A are the numbers of states (of the support, the end included) and of actions. k is the number of
steps to go, t the number of steps that are over.
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
ANNOUNCED_STDS = 2.0
# The most rounds of dropping choices that gain nothing. It ends earlier when none is left. A matter
# of taste: it only bounds the time.
MAX_PRUNING_ROUNDS = 20
# Values that differ by less, relative to the range of returns, are equal. A matter of taste.
EQUAL_VALUES = 1e-9
# Steps are left out from that step on at which the discounted visits of all states together are
# fewer. A matter of taste: such steps would change nothing that is printed.
NEGLIGIBLE_VISITS = 1e-9
# The least number of visits that is divided by, because noisy visits can be zero or negative. With
# so few visits the value that follows may be anything in its range, so the number hardly matters.
LEAST_VISITS = 1e-3


@dataclass(frozen=True, slots=True, eq=False)
class Dynamics:
    """What a release says about the transitions, the rewards and the logged policy of a table.

    States are those of the support, the end included. A row is a pair (s, a).
    """

    table: LoggedTable
    # Transition probabilities [row, s'], and their variances given the release.
    P: sparse.csr_matrix = field(repr=False)
    variances: sparse.csr_matrix = field(repr=False)
    # Mean rewards [s, a], and their standard deviations.
    rewards: Array = field(repr=False)
    reward_std: Array = field(repr=False)
    # How often each action was taken [s, a], from noisy visits.
    behaviour: Array = field(repr=False)
    # The standard deviation of one of these shares [s].
    behaviour_std: Array = field(repr=False)
    # Noisy visits [s, a].
    visits: Array = field(repr=False)
    # The standard deviation of the noise on the share of one successor [s, a].
    hidden: Array = field(repr=False)
    # Whether somebody was in a state [s], as far as noise tells.
    seen: npt.NDArray[np.bool_] = field(repr=False)

    @property
    def states(self) -> int:
        return self.table.support.states


def dynamics(
    table: LoggedTable, rows: EstimatedRows, rewards: Array, reward_std: Array
) -> Dynamics:
    """Make dynamics from estimated rows.

    Rewards [s, a] and their standard deviations are those of all states of the support.
    """
    support = table.support
    S = support.states
    A = support.actions
    # Most cells of a large table are zero, and sparse matrices spend no time on them.
    nonzero = (rows.probabilities > 0) | (rows.variances > 0)
    nonzero_before = np.append(0, np.cumsum(nonzero))
    successors = support.successors[nonzero]
    row_starts = nonzero_before[support.indptr]
    P, variances = (
        sparse.csr_matrix((cells[nonzero], successors, row_starts), shape=(S * A, S))
        for cells in (rows.probabilities, rows.variances)
    )
    visits = rows.visits.reshape(S, A)
    visit_std = rows.visit_std.reshape(S, A)
    positive_visits = np.maximum(visits, 0.0)
    state_visits = positive_visits.sum(axis=1)
    # In a state without visits, all actions count as equally frequent.
    divisor = np.where(state_visits > 0, state_visits, 1.0)[:, None]
    behaviour = np.where(state_visits[:, None] > 0, positive_visits / divisor, 1 / A)
    mean_std = visit_std.mean(axis=1)
    behaviour_std = np.minimum(
        mean_std / np.maximum(np.maximum(state_visits, mean_std), 1e-300), 1.0
    )
    seen = visits.sum(axis=1) > np.linalg.norm(visit_std, axis=1)
    return Dynamics(
        table=table,
        P=P,
        variances=variances,
        rewards=rewards,
        reward_std=reward_std,
        behaviour=behaviour,
        behaviour_std=behaviour_std,
        visits=visits,
        hidden=rows.hidden.reshape(S, A),
        seen=seen,
    )


def state_values(model: Dynamics, policy: Array, steps: int) -> Array:
    """V [s] of a policy [s, a] over so many steps, over the support's states."""
    return _step_values(model, policy, steps)[-1]


def _step_values(model: Dynamics, policy: Array, steps: int) -> list[Array]:
    """V [s] of a policy [s, a] with k steps to go, for k = 0, 1, ...

    The list ends at `steps`, or where more steps change nothing.
    """
    P = _rows_of_policy(policy) @ model.P
    mean_rewards = (policy * model.rewards).sum(axis=1)
    low, high = value_ranges(model.table, steps)
    tolerance = EQUAL_VALUES * (high[-1] - low[-1])
    values = [np.zeros(len(mean_rewards))]
    for k in range(1, steps + 1):
        next_values = mean_rewards + model.table.discount * (P @ values[-1])
        # Returns lie within these bounds, so nothing is lost.
        next_values = np.clip(next_values, low[k], high[k])
        largest_change = np.abs(next_values - values[-1]).max()
        values.append(next_values)
        if largest_change <= tolerance:
            break
    return values


def _rows_of_policy(policy: Array) -> sparse.csr_matrix:
    """The probability of each row (s, a) in each state [s, (s, a)], as a sparse matrix."""
    S, A = policy.shape
    return sparse.csr_matrix(
        (policy.ravel(), np.arange(S * A), np.arange(S + 1) * A), shape=(S, S * A)
    )


@dataclass(frozen=True, slots=True, eq=False)
class PlannedChoices:
    """The best choice in each state [s]: an action, or number A, which is to go on as logged."""

    choices: Ints
    # How much better the choice is than what was logged [s], if the plan goes on afterwards. It is
    # computed in the model without pessimism, as a mean over the steps at which the logged policy
    # is in this state.
    gains: Array
    # The standard deviations of the gains, given the release.
    gain_std: Array
    # The difference of the values of the plan and of the behaviour, and its standard deviation.
    improvement: float
    improvement_std: float
    # How large the improvement would be on average if no action were better than another, because
    # in every state the same data chose the best one.
    luck: float
    # Whether the improvement is so far above `luck` that the plan may be announced as better.
    shown: bool


def go_on_as_logged(model: Dynamics) -> PlannedChoices:
    """The plan that changes nothing. It stands for a plan that failed the test."""
    return PlannedChoices(
        choices=np.full(model.states, model.table.actions),
        gains=np.zeros(model.states),
        gain_std=np.zeros(model.states),
        improvement=0.0,
        improvement_std=0.0,
        luck=0.0,
        shown=False,
    )


def plan_pessimistically(
    model: Dynamics, pessimism: float, start: Array, steps: int
) -> PlannedChoices:
    """Find the best choices by pessimistic value iteration, and test whether they may be announced.

    There are A + 1 choices: each action, and going on as logged. Each is worth its mean minus
    `pessimism` standard deviations:

        Q = r + discount clip(P V - pessimism Gamma)
        Gamma^2 = Var(P V given the release) + (range / 2n)^2

    The second term of Gamma is for what n visits may not have shown. Going on as logged has the
    least Gamma of all choices. A state in which nobody was seen is worth the least that it can be.
    An action without positive noisy visits is never chosen. A tie goes to what was logged, and so
    does a choice that gains nothing.

    Time runs forwards: V has as many steps to go as are left, and the one choice of a state is best
    on average over the steps at which the logged policy is there, in the model. So a transition
    that noise invented from a late state to an early one pays nothing twice.
    """
    visits = discounted_visits(model, model.behaviour, start, steps)  # [t, s]
    choices, V = _iterate_values(model, pessimism, visits, steps)
    least = float(V[model.seen].min(initial=np.inf))
    worst_value = least if np.isfinite(least) else 0.0
    choices, gains = _drop_useless_choices(model, choices, worst_value, visits, steps)
    policy = policy_of_choices(model.behaviour, choices)
    logged_visits = visits.sum(axis=0)
    plan_visits = discounted_visits(model, policy, start, steps).sum(axis=0)
    improvement = float(logged_visits @ gains.gains)
    # Whether there is a gain at all is a question about the choices where people are: a chain of
    # probabilities that are known badly may have a product that is far from certain, and is
    # positive.
    changed = choices < model.table.actions
    gain_std = np.where(changed, np.hypot(gains.choice_std, gains.logged_std), 0.0)
    doubt = float(np.linalg.norm(logged_visits * gain_std))
    # The best of several actions that are alike looks better than they are, in every state.
    luck = largest_of(model.table.actions) * float(logged_visits @ gain_std)
    return PlannedChoices(
        choices=choices,
        gains=gains.gains,
        gain_std=gain_std,
        improvement=improvement,
        improvement_std=_improvement_std(gains, changed, plan_visits, logged_visits),
        luck=luck,
        shown=improvement > luck + ANNOUNCED_STDS * max(pessimism, 1.0) * doubt,
    )


def _drop_useless_choices(
    model: Dynamics, choices: Ints, worst_value: float, visits: Array, steps: int
) -> "tuple[Ints, _Gains]":
    """Go on as logged where a choice gains nothing, until every choice that is left gains.

    Dropping a choice changes what others gain, so this takes several rounds.
    """
    as_logged = model.table.actions
    for _ in range(MAX_PRUNING_ROUNDS):
        gains = _gains(model, choices, worst_value, visits, steps)
        useless = (choices < as_logged) & (gains.gains <= 0)
        if not useless.any():
            break
        choices = np.where(useless, as_logged, choices)
    return choices, gains


def _improvement_std(
    gains: "_Gains", changed: npt.NDArray[np.bool_], plan_visits: Array, logged_visits: Array
) -> float:
    """The standard deviation of the improvement, given the release.

    The error of a value is that of each row times how often the policy takes it, so the errors of
    the plan count with its own visits. Where the plan goes on as logged, the same row is in both
    values, and only the difference of the visits counts.
    """
    errors_if_changed = np.hypot(plan_visits * gains.choice_std, logged_visits * gains.logged_std)
    errors_if_logged = (plan_visits - logged_visits) * gains.logged_std
    return float(np.linalg.norm(np.where(changed, errors_if_changed, errors_if_logged)))


def largest_of(number: int) -> float:
    """The mean of the largest of so many independent standard normal numbers."""
    x = np.linspace(-9.0, 9.0, 3600)
    below = ndtr(x) ** number
    return float(((x > 0) - below).sum() * (x[1] - x[0]))


def discounted_visits(model: Dynamics, policy: Array, start: Array, steps: int) -> Array:
    """discount^t times the probability of each state at step t under a policy [t, s].

    The steps end where next to nothing is left.
    """
    P = (_rows_of_policy(policy) @ model.P).T
    state_visits = np.append(start, np.zeros(model.states - len(start)))
    visits = [state_visits]
    while len(visits) < steps:
        state_visits = model.table.discount * (P @ state_visits)
        if state_visits.sum() <= NEGLIGIBLE_VISITS:
            break
        visits.append(state_visits)
    return np.array(visits)


def _shares_of_steps(visits: Array, steps: int, longest: int) -> list[tuple[int, Array]]:
    """For each k, from the largest to the least: (k, the share of a state's visits [s] at which k
    steps are left).

    `longest` also stands for all larger k. A state without visits has all of its share at the first
    step.
    """
    total = visits.sum(axis=0)
    unvisited = total <= 0
    shares = visits / np.where(unvisited, 1.0, total)  # [t, s]
    shares[0, unvisited] = 1.0
    # The first steps have at least `longest` steps to go.
    first_steps = max(steps - longest, 0) + 1
    first_share = shares[:first_steps].sum(axis=0)
    return [
        (min(steps, longest), first_share),
        *((steps - t, shares[t]) for t in range(first_steps, len(shares))),
    ]


def _iterate_values(
    model: Dynamics, pessimism: float, visits: Array, steps: int
) -> tuple[Ints, Array]:
    """The choices [s] of pessimistic value iteration, and its values [s] at the first step."""
    S = model.states
    A = model.table.actions
    low, high = value_ranges(model.table, steps)
    tolerance = EQUAL_VALUES * max(high[-1] - low[-1], 1e-300)
    # In a terminal state nothing is chosen: it pays its reward once.
    terminal = ~model.table.support.open.reshape(S, A)[:, 0]
    terminal_rewards = (model.behaviour * model.rewards).sum(axis=1)[terminal]
    V = np.zeros(S)
    choice_values = []  # Q [s, A + 1] with k = 1, 2, ... steps to go
    for k in range(1, steps + 1):
        Q = _choice_values(model, V, pessimism, (float(low[k - 1]), float(high[k - 1])))
        next_values = np.clip(Q.max(axis=1), low[k], high[k])
        next_values[terminal] = terminal_rewards
        choice_values.append(Q)
        largest_change = np.abs(next_values - V).max()
        V = next_values
        if largest_change <= tolerance:
            break
    # A state has one choice for all steps, so its values are averaged over the steps.
    mean_values = np.zeros((S, A + 1))
    for k, share in _shares_of_steps(visits, steps, len(choice_values)):
        weights = share[:, None]
        # A value may be minus infinity where the share is zero.
        mean_values = mean_values + weights * np.where(weights > 0, choice_values[k - 1], 0.0)
    best = mean_values[:, :A].argmax(axis=1)
    least_to_win = mean_values[:, A] + EQUAL_VALUES * (high[-1] - low[-1])
    better = (mean_values[np.arange(S), best] > least_to_win) & ~terminal
    return np.where(better, best, A), V


def _choice_values(
    model: Dynamics, V: Array, pessimism: float, bounds: tuple[float, float]
) -> Array:
    """Q [s, A + 1]: the pessimistic value of each choice, if values V [s] follow.

    `bounds` are the least and the most that can follow.
    """
    low, high = bounds
    A = model.table.actions
    outlook = _look_ahead(model, V, high - low)
    spread = outlook.spread
    # Going on as logged is never the most uncertain choice.
    spread[:, A] = spread.min(axis=1)
    lower_ahead = np.clip(outlook.ahead - pessimism * spread, low, high)
    Q = outlook.rewards + model.table.discount * lower_ahead - pessimism * outlook.reward_std
    if pessimism > 0:
        worst_case = model.rewards.min(axis=1) + model.table.discount * low
        Q[~model.seen, A] = worst_case[~model.seen]
    allowed = (model.visits > 0) & (model.seen[:, None] | (pessimism == 0))
    Q[:, :A] = np.where(allowed, Q[:, :A], -np.inf)
    return Q


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
    """Look one step ahead of values V [s]. `span` is the range of the return that follows."""
    S, A = model.behaviour.shape
    behaviour = model.behaviour
    next_value = model.P @ V  # [row]
    ahead = next_value.reshape(S, A)
    cell_variance = _next_value_variances(model, V, next_value).reshape(S, A)
    # The last term is for what so many visits may not have shown.
    visits = np.maximum(model.visits, LEAST_VISITS)
    variance = cell_variance + (span / (2 * visits)) ** 2
    logged_ahead = (behaviour * ahead).sum(axis=1)
    logged_reward = (behaviour * model.rewards).sum(axis=1)
    # The shares of the logged actions are estimates themselves.
    share_variance = (model.behaviour_std[:, None] * (ahead - logged_ahead[:, None])) ** 2
    row_variance = behaviour**2 * cell_variance + share_variance * (behaviour > 0)
    state_visits = np.maximum(model.visits.sum(axis=1), LEAST_VISITS)
    logged_variance = row_variance.sum(axis=1) + (span / (2 * state_visits)) ** 2
    logged_reward_std = np.sqrt((behaviour**2 * model.reward_std**2).sum(axis=1))
    std = np.sqrt(np.column_stack([variance, logged_variance]))
    # Nothing follows a terminal state.
    has_successors = model.table.support.open.reshape(S, A)[:, :1]
    return _Outlook(
        rewards=np.column_stack([model.rewards, logged_reward]),
        ahead=np.column_stack([ahead, logged_ahead]),
        reward_std=np.column_stack([model.reward_std, logged_reward_std]),
        spread=np.where(has_successors, std, 0.0),
    )


def _next_value_variances(model: Dynamics, V: Array, next_value: Array) -> Array:
    """The variance of P V [row] given the release, from the variances of single cells.

    It is sum_k v_k (V_k - P V)^2 for the variances v of a row. Expanding the square avoids a table
    of all cells.
    """
    moments = model.variances @ np.column_stack([V**2, V, np.ones(model.states)])
    second, first, total_variance = moments.T
    variances = second - 2 * next_value * first + next_value**2 * total_variance
    positive_variances: Array = np.maximum(variances, 0.0)
    return positive_variances


@dataclass(frozen=True, slots=True, eq=False)
class _Gains:
    """What the choices of a plan gain over what was logged: means over the steps at which a state
    is met.
    """

    gains: Array  # [s]
    # The standard deviations of what the choice and what the logged policy is worth [s].
    choice_std: Array
    logged_std: Array


def _gains(model: Dynamics, choices: Ints, worst_value: float, visits: Array, steps: int) -> _Gains:
    """Compute the gains of the choices.

    The standard deviation of an action is not less than that of a single successor which noise may
    hide: the worst state that people were seen in, at its pessimistic value (`worst_value`). What
    other rows say about this successor does not lower it.
    """
    S, A = model.behaviour.shape
    discount = model.table.discount
    values = _step_values(model, policy_of_choices(model.behaviour, choices), steps)
    low, high = value_ranges(model.table, steps)
    states = np.arange(S)
    gains = np.zeros(S)
    choice_std = np.zeros(S)
    logged_std = np.zeros(S)
    for k, share in _shares_of_steps(visits, steps, len(values) - 1):
        outlook = _look_ahead(model, values[k - 1], high[k - 1] - low[k - 1])
        spread = outlook.spread
        if k > 1:
            hidden_loss = model.hidden * np.maximum(outlook.ahead[:, :A] - worst_value, 0.0)
            spread[:, :A] = np.maximum(spread[:, :A], hidden_loss)
        Q = outlook.rewards + discount * outlook.ahead
        std = np.sqrt((discount * spread) ** 2 + outlook.reward_std**2)
        gains += share * (Q[states, choices] - Q[:, A])
        # Errors of a row at several steps are the same error, so they add up.
        choice_std += share * std[states, choices]
        logged_std += share * std[:, A]
    return _Gains(np.where(choices < A, gains, 0.0), choice_std, logged_std)


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
