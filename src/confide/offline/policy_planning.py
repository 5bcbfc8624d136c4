"""Values and plans in a released model of a table. All post-processing: arrays in, policies out."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy import sparse

from confide.errors import InvalidParameter
from confide.offline.row_planning import Rows
from confide.offline.table_features import Table

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
# a plan must be better than the behaviour by so many standard deviations, times the pessimism
SURE = 2.5
PRUNED = 20  # rounds of dropping what gains nothing
# rounds of value iteration, and the change, relative to the range of returns, that ends them
ROUNDS, NEAR = 10_000, 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Dynamics:
    """Transition probabilities [row, s'] of all rows (s, a) and their variances; rewards [s, a] with standard deviations; behaviour.

    `behaviour` [s, a] is how often each action was taken, from noisy visits; `behaviour_std` [s] of one of these shares. In the support's
    states, the end included.
    """

    table: Table
    P: sparse.csr_matrix = field(repr=False)
    variances: sparse.csr_matrix = field(repr=False)
    rewards: Array = field(repr=False)
    reward_std: Array = field(repr=False)
    behaviour: Array = field(repr=False)
    behaviour_std: Array = field(repr=False)
    visits: Array = field(repr=False)  # [s, a], noisy
    # [s, a], the standard deviation of the noise on the share of one successor
    hidden: Array = field(repr=False)
    # [s], whether somebody was there, as far as noise tells
    seen: npt.NDArray[np.bool_] = field(repr=False)

    @property
    def states(self) -> int:
        return self.table.support.states


def dynamics(table: Table, rows: Rows, rewards: Array, reward_std: Array) -> Dynamics:
    """From rows; rewards [s, a] and their standard deviations are of all states of the support."""
    support = table.support
    S, A = support.states, support.actions
    held = (rows.probabilities > 0) | (rows.variances > 0)
    # most cells of a large table are zero: they need no time
    before = np.append(0, np.cumsum(held))
    P, variances = (
        sparse.csr_matrix(
            (part[held], support.successors[held], before[support.indptr]), shape=(S * A, S)
        )
        for part in (rows.probabilities, rows.variances)
    )
    visits = rows.visits.reshape(S, A)
    known = np.maximum(visits, 0.0)
    total = known.sum(axis=1)
    behaviour = np.where(
        total[:, None] > 0, known / np.where(total > 0, total, 1.0)[:, None], 1 / A
    )
    std = rows.visit_std.reshape(S, A).mean(axis=1)
    spread = np.minimum(std / np.maximum(total, std), 1.0)
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


def state_values(model: Dynamics, policy: Array) -> Array:
    """V [s] of a policy [s, a], over the support's states."""
    S, A = policy.shape
    chosen = sparse.csr_matrix(
        (policy.ravel(), np.arange(S * A), np.arange(S + 1) * A), shape=(S, S * A)
    )
    P, r, discount = chosen @ model.P, (policy * model.rewards).sum(axis=1), model.table.discount
    if discount < 1:
        return np.asarray(np.linalg.solve(np.eye(S) - discount * P.toarray(), r))
    V = np.zeros(S)
    for _ in range(ROUNDS):  # nothing is lost by the bounds: returns lie in them
        after = np.clip(r + P @ V, model.table.lowest, model.table.highest)
        done, V = np.abs(after - V).max() <= NEAR, after
        if done:
            break
    return V


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The best choice [s] among the actions and, as number A, what was logged.

    `gains` [s] are how much better the choice is than what was logged, in the model and without pessimism, then on with the plan;
    `gain_std` their standard deviations given the release. `improvement` is the difference of the values of the plan and of the behaviour.
    """

    choices: Ints
    gains: Array
    gain_std: Array
    improvement: float
    improvement_std: float


def pessimistic(model: Dynamics, pessimism: float, start: Array) -> Plan:
    """Value iteration with A + 1 choices: each action, and going on as logged; each worth its mean minus `pessimism` standard deviations.

    Q = r + discount clip(P V - pessimism Gamma), Gamma^2 = Var(P V given the release) + (range / 2n)^2, the latter for what n visits may
    not have shown; going on as logged has the least Gamma of all choices. A state in which nobody was seen is worth the least that it
    can be. An action without positive noisy visits is never chosen, a tie
    goes to what was logged, and so does a choice that gains nothing. Then the plan as a whole must be better than the behaviour by
    SURE `pessimism` standard deviations from the start [s]; otherwise everything stays as logged.

    For this check the standard deviation of an action is not less than that of a single successor which noise may hide: the worst state
    that people were seen in, at its pessimistic value. What other rows say about this successor does not lower it.
    """
    choices, V = _iterated(model, pessimism)
    A, worst = model.table.actions, float(V[model.seen].min(initial=model.table.highest))
    for _ in range(PRUNED):
        gains, std = _gains(model, choices, worst)
        useless = (choices < A) & (gains <= 0)
        if not useless.any():
            break
        choices = np.where(useless, A, choices)
    visits = _visits(model, start)
    improvement, spread = float(visits @ gains), float(np.linalg.norm(visits * std))
    if improvement <= SURE * pessimism * spread:
        nothing = np.zeros(len(choices))
        return Plan(np.full_like(choices, A), nothing, nothing, 0.0, 0.0)
    return Plan(choices, gains, std, improvement, spread)


def _iterated(model: Dynamics, pessimism: float) -> tuple[Ints, Array]:
    """The choices [s] of pessimistic value iteration, and its values [s]."""
    table = model.table
    low, high, S, A = table.lowest, table.highest, model.states, table.actions
    closed = ~table.support.open.reshape(S, A)[:, 0]
    known = (model.visits > 0) & (model.seen[:, None] | (pessimism == 0))
    V, Q = np.full(S, low), np.zeros((S, A + 1))
    V[closed], least = (
        model.rewards[closed].max(axis=1),
        model.rewards.min(axis=1) + table.discount * low,
    )
    for _ in range(ROUNDS):
        (rewards, ahead, reward_std), spread = _looked_ahead(model, V)
        spread[:, A] = spread.min(axis=1)
        Q = (
            rewards
            + table.discount * np.clip(ahead - pessimism * spread, low, high)
            - pessimism * reward_std
        )
        if pessimism > 0:
            Q[~model.seen, A] = least[~model.seen]
        Q[:, :A] = np.where(known, Q[:, :A], -np.inf)
        after = np.clip(Q.max(axis=1), low, high)
        after[closed] = V[closed]
        done, V = np.abs(after - V).max() <= NEAR * max(high - low, 1e-300), after
        if done:
            break
    best = Q[:, :A].argmax(axis=1)
    better = (Q[np.arange(S), best] > Q[:, A] + NEAR * (high - low)) & ~closed
    return np.where(better, best, A), V


def _visits(model: Dynamics, start: Array) -> Array:
    """Discounted visits [s] of the behaviour from the start [s]: a plan's value minus the behaviour's is sum_s visits(s) gains(s)."""
    S, A = model.behaviour.shape
    chosen = sparse.csr_matrix(
        (model.behaviour.ravel(), np.arange(S * A), np.arange(S + 1) * A), shape=(S, S * A)
    )
    P = (chosen @ model.P).T
    at = np.append(start, np.zeros(S - len(start)))
    if model.table.discount < 1:
        return np.asarray(np.linalg.solve(np.eye(S) - model.table.discount * P.toarray(), at))
    visits, moved = at.copy(), at
    for _ in range(ROUNDS):
        moved = P @ moved
        visits += moved
        if moved.sum() <= NEAR:
            break
    return visits


def _looked_ahead(model: Dynamics, V: Array) -> tuple[tuple[Array, Array, Array], Array]:
    """(rewards, P V, standard deviations of rewards) [s, A + 1], and Gamma [s, A + 1]."""
    S, A = model.behaviour.shape
    next_value = model.P @ V
    # sum_k v_k (V_k - P V)^2, without a table of all cells
    v = model.variances
    square, first, none = (v @ np.column_stack([V**2, V, np.ones(S)])).T
    spread = square - 2 * next_value * first + next_value**2 * none
    visits = np.maximum(model.visits, 1e-3)
    span = model.table.highest - model.table.lowest
    own = next_value.reshape(S, A)
    variance = np.maximum(spread, 0.0).reshape(S, A) + (span / (2 * visits)) ** 2
    b = model.behaviour
    logged, reward = (b * own).sum(axis=1), (b * model.rewards).sum(axis=1)
    # the shares themselves are estimates
    shares = (model.behaviour_std[:, None] * (own - logged[:, None])) ** 2
    total = np.maximum(model.visits.sum(axis=1), 1e-3)
    together = (b**2 * np.maximum(spread, 0.0).reshape(S, A) + shares * (b > 0)).sum(axis=1) + (
        span / (2 * total)
    ) ** 2
    reward_std = np.column_stack(
        [model.reward_std, np.sqrt((b**2 * model.reward_std**2).sum(axis=1))]
    )
    means = np.column_stack([model.rewards, reward]), np.column_stack([own, logged]), reward_std
    return means, np.sqrt(np.column_stack([variance, together]))


def _gains(model: Dynamics, choices: Ints, worst: float) -> tuple[Array, Array]:
    S, A = model.behaviour.shape
    V = state_values(model, followed(model.behaviour, choices))
    (rewards, ahead, reward_std), spread = _looked_ahead(model, V)
    spread[:, :A] = np.maximum(spread[:, :A], model.hidden * np.maximum(ahead[:, :A] - worst, 0.0))
    Q, here = rewards + model.table.discount * ahead, np.arange(S)
    std = np.sqrt((model.table.discount * spread) ** 2 + reward_std**2)
    changed = choices < A
    gains = np.where(changed, Q[here, choices] - Q[:, A], 0.0)
    return gains, np.where(changed, np.hypot(std[here, choices], std[:, A]), 0.0)


def followed(behaviour: Array, choices: Ints) -> Array:
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
