"""What to test on held-out people, and the lower value of a policy in their release. All post-processing of releases."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy import sparse

from confide.offline.policy_planning import Dynamics
from confide.offline.row_planning import Array, moves_of, visits_of
from confide.offline.table_features import Bools, LoggedTable, step_ranges

# one-sided; at the normal 1.645 the worst two-point law of gains has an error of .052
LEVEL, Z = 0.95, 1.75
# Up to this loss of Gaussian noise (mu), and of noise without delta (epsilon), no two-point law of gains has a larger error than LEVEL
# allows. With less noise the few users with large losses are not seen: benchmarks/improvement_level.py computes it.
MOST_MU, MOST_EPSILON = 1.6, 2.75
MODEL_Z = 2.0  # of the method "model", which has no theorem: a little more than the level needs
# standard deviations of noise: of a cell that is looked at, and of the visits to a row that is known
CELL, ROW = 0.25, 3.0
ALONE = 0.5  # of an even share: an action that the policy takes more often stands alone
_NOTHING = 1e-12
SHARES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0)
CLIPS = (1.1, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 10.0, 20.0)
_TRIED, _STEPS = 3000, 400  # trajectories, and steps of each, that are rehearsed in the model
_SEED = 18  # public: a rehearsal is a function of the release


@dataclass(frozen=True, slots=True, eq=False)
class CandidatePolicy:
    """The policy to test [s, a]; where `changed` [s] is False it goes on as logged."""

    weights: Array = field(repr=False)
    changed: Bools = field(repr=False)


@dataclass(frozen=True, slots=True)
class Mixture:
    """Follow the policy with probability `share` at each step, else go on as logged; weights are clipped at `clip`."""

    share: float
    clip: float
    predicted: float  # bound


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """The released counts of the held-out people; `rewards` [s, a] are known, or lower values."""

    table: LoggedTable
    counts: Array = field(repr=False)
    cuts: Array = field(repr=False)
    totals: Array = field(repr=False)
    starts: Array = field(repr=False)
    rewards: Array = field(repr=False)
    noise: float
    total_weight: float

    def visits(self) -> tuple[Array, Array]:
        """Visits of all rows (s, a) that people can be in, and their standard deviations."""
        return visits_of(
            self.counts,
            self.totals,
            self.noise,
            self.total_weight,
            self.table.support,
            self.cuts,
            self.table.logged_rows,
        )


def lower_mean(
    sum_: float, squares: float, noise: float, square_noise: float, users: int, z: float = Z
) -> float:
    """mean - z sqrt(second moment / users + noise^2), the second moment raised by Z standard deviations of its own noise."""
    second = max(squares + Z * square_noise, 0.0) / users
    return sum_ / users - z * math.sqrt(second / users + (noise / users) ** 2)


def mixture_for(
    model: Dynamics,
    start: Array,
    target: CandidatePolicy,
    horizon: int,
    users: int,
    noise: Callable[[float], tuple[float, float]],
) -> Mixture:
    """The share and the clip with the largest bound in the model, for so many users and noise(clip) on the sum and on the squares.

    Trajectories of the behaviour are drawn in the model; in units of clip * highest, as `Gains` are.
    """
    s, a, going = _rehearsed(model, start, min(horizon, _STEPS))
    pay = model.rewards[s, a] * going * model.table.discount ** np.arange(s.shape[1])
    highest = float(step_ranges(model.table, horizon)[1][-1])
    logged = np.maximum(model.behaviour[s, a], 1e-12)
    S = model.table.states
    rows = np.minimum(s, S - 1)
    ratio, changed = target.weights[rows, a] / logged, target.changed[rows] & (s < S)
    best = Mixture(SHARES[0], 2.0, -math.inf)
    for share in SHARES:
        rho = np.cumprod(np.where(changed, 1 - share + share * ratio, 1.0), axis=1)
        for clip in CLIPS:
            x = (pay * (np.minimum(rho, clip) - 1)).sum(axis=1) / (clip * highest)
            std, square_std = noise(clip)
            bound = (
                lower_mean(x.mean() * users, (x**2).mean() * users, std, square_std, users)
                * clip
                * highest
            )
            if bound > best.predicted:
                best = Mixture(share, clip, float(bound))
    return best


def _rehearsed(model: Dynamics, start: Array, steps: int) -> tuple[np.ndarray, np.ndarray, Array]:
    """States and actions [trajectory, t] of the behaviour in the model, and whether the trajectory goes on [trajectory, t]."""
    rng, A = np.random.default_rng(_SEED), model.table.actions
    closed = ~model.table.support.open.reshape(model.states, A)[:, 0]
    state = np.searchsorted(np.cumsum(start), rng.random(_TRIED) * start.sum()).clip(
        0, len(start) - 1
    )
    acts = np.cumsum(model.behaviour, axis=1)
    P = model.P
    cells = np.append(0.0, np.cumsum(P.data))
    states, actions, going = (
        np.zeros((_TRIED, steps), np.int64),
        np.zeros((_TRIED, steps), np.int64),
        np.zeros((_TRIED, steps)),
    )
    alive = np.ones(_TRIED, bool)
    for t in range(steps):
        action = (
            (rng.random((_TRIED, 1)) * acts[state, -1:] > acts[state]).sum(axis=1).clip(0, A - 1)
        )
        states[:, t], actions[:, t], going[:, t] = state, action, alive
        alive = alive & ~closed[state]
        if not alive.any():
            return states[:, : t + 1], actions[:, : t + 1], going[:, : t + 1]
        row = np.where(alive, state * A + action, 0)
        low, high = P.indptr[row], P.indptr[row + 1]
        found = (
            np.searchsorted(
                cells, cells[low] + rng.random(_TRIED) * (cells[high] - cells[low]), side="right"
            )
            - 1
        )
        after = P.indices[
            np.clip(found, low, np.maximum(high - 1, low)).clip(0, len(P.indices) - 1)
        ]
        state = np.where(alive & (high > low), after, state)
        alive = alive & (high > low)
    return states, actions, going


@dataclass(frozen=True, slots=True, eq=False)
class Estimated:
    """The value of a policy in the release of held-out people, and its standard deviation: noise and sampling, to first order."""

    value: float
    std: float


def value_in(model: Dynamics, held: Counted, policy: Array, horizon: int, users: int) -> Estimated:
    """The value of a policy [s, a] over `horizon` steps, from the counts of `users` held-out people; what is not seen is worth the least.

    What counts as seen was read off the learning part (`model`): the cells of its rows, and which rows stand alone; the others of a state
    that the policy takes are pooled. So the held-out counts are used as they are, without a threshold that their own noise could pass, and
    the value is nearly linear in them: errors of rows are independent, and add up as variances. Rows of fewer than ROW standard deviations
    of visits are worth the least.
    """
    table, n = model.table, held.table.support.states * held.table.actions
    rows = policy_rows(model, held, policy)
    low, high = step_ranges(table, horizon)
    rewards = np.zeros((n // table.actions, table.actions))
    rewards[: table.states] = held.rewards
    closed = ~table.support.open.reshape(rewards.shape)[:, 0]
    pays = np.where(closed, rewards.min(axis=1), (policy * rewards).sum(axis=1))
    V = [np.zeros(len(pays))]  # less than k steps: above the least
    for k in range(horizon):
        ahead = rows.weights @ (rows.P @ V[-1])
        least = np.where(closed, 0.0, table.discount * low[k]) - low[k + 1]
        V.append(np.clip(pays + table.discount * ahead + least, 0.0, high[k + 1] - low[k + 1]))
    start = held.starts / users if table.start is None else table.start
    last = V[-1][: table.states]
    value = float(start @ last)
    variance = rows.variance(_paths(rows, np.maximum(start, 0.0), V, table.discount))
    if table.start is None:
        spread = max(float(np.maximum(start, 0.0) @ last**2) - value**2, 0.0)
        variance += spread / users + held.noise**2 * float(last @ last) / users**2
    return Estimated(value + float(low[-1]), math.sqrt(variance))


@dataclass(frozen=True, slots=True, eq=False)
class PolicyRows:
    """The rows that a policy takes, in the counts of held-out people.

    A row is a state with one action, or a state with several actions together. `weights` [s, row] are the
    probabilities with which the policy takes it. `members` [row, (s, a)] are the rows of the table of which it
    consists.
    """

    weights: sparse.csr_matrix
    members: sparse.csr_matrix
    # Probabilities [row, s'] of the cells that are looked at (`seen`), and zero elsewhere.
    P: Array
    seen: Bools
    # Rows with enough visits whose next state is known, and with enough visits at all.
    known: Bools
    paying: Bools
    # Visits [row] whose next state is known; 1 where they are too few.
    visits: Array
    # Standard deviation of the noise of a cell [row], and the number of cells [row].
    noise: Array
    cells: Array
    total_weight: float
    # Transition probabilities [row, s'] in the model that was learned from other people.
    learned: Array

    def variance(self, W: Array) -> float:
        """Of sum P W, W [row, s'] what a probability is worth in all: noise of cells and totals, and multinomial sampling."""
        w, a = self.total_weight, np.where(self.seen, W, 0.0) / self.visits[:, None]
        worth = (self.P * W).sum(axis=1)
        mean = worth / self.visits
        precision = 1 / self.cells + w**2
        share = mean / self.cells / precision
        noise = ((a - share[:, None] * self.seen) ** 2).sum(axis=1) + (
            self.cells - self.seen.sum(axis=1)
        ) * share**2
        noise = self.noise**2 * (noise + (mean * w / precision) ** 2)
        P = np.maximum(self.P, 0.0)
        sampling = np.maximum((P * W**2).sum(axis=1) - (P * W).sum(axis=1) ** 2, 0.0) / self.visits
        return float((noise + sampling)[self.known].sum())


def policy_rows(model: Dynamics, held: Counted, policy: Array) -> PolicyRows:
    """The rows of a policy [s, a] for a lower value: those that it takes rarely are pooled in each state."""
    support = held.table.support
    probability = policy.ravel() * support.open
    alone = probability > ALONE / held.table.actions
    return counted_rows(model, held, probability, alone, least_cell=CELL)


def counted_rows(
    model: Dynamics, held: Counted, probability: Array, alone: Bools, *, least_cell: float
) -> PolicyRows:
    """The rows (s, a) of positive probability: each of its own if it stands `alone`, else together with others of its state.

    Cells are looked at if their expected count in the learned model is above `least_cell` standard deviations of noise.
    """
    table, support = held.table, held.table.support
    S, A = support.states, table.actions
    n = S * A
    taken = np.flatnonzero(probability > 0)
    group = np.where(alone, np.arange(n), n + np.arange(n) // A)[taken]
    names, first, row = np.unique(group, return_index=True, return_inverse=True)
    R = len(names)
    members = sparse.csr_matrix((np.ones(len(taken)), (row, taken)), shape=(R, n))
    state = np.where(names < n, names // A, names - n)
    weights: sparse.csr_matrix = sparse.csr_matrix(
        (np.asarray(members @ probability), (state, np.arange(R))), shape=(S, R)
    )
    counts = (
        members @ sparse.csr_matrix((held.counts, support.successors, support.indptr), shape=(n, S))
    ).toarray()
    expected = (members @ sparse.diags(np.maximum(model.visits.ravel(), 0.0)) @ model.P).toarray()
    all_visits, all_std = held.visits()
    paying = np.asarray(members @ all_visits) > ROW * np.sqrt(np.asarray(members @ all_std**2))
    visits, std = moves_of(held.cuts, all_visits, all_std, held.noise, support)
    visits, std = np.asarray(members @ visits), np.sqrt(np.asarray(members @ std**2))
    noise = held.noise * np.sqrt(np.asarray(members.sum(axis=1)).ravel())
    known = visits > ROW * std
    visits = np.where(known, visits, 1.0)
    seen = (expected > least_cell * noise[:, None]) & known[:, None]
    # E[1/n] is larger than 1/E[n]
    P = np.where(seen, counts, 0.0) / (visits * (1 + (std / visits) ** 2))[:, None]
    # A row of a terminal state has no cells, and nothing of it is known.
    cells = np.maximum(np.diff(support.indptr)[taken[first]], 1).astype(float)
    learned = expected / np.maximum(expected.sum(axis=1), _NOTHING)[:, None]
    return PolicyRows(
        weights,
        members,
        P,
        seen,
        known,
        paying,
        visits,
        noise,
        cells,
        held.total_weight,
        learned,
    )


def _paths(rows: PolicyRows, start: Array, V: list[Array], discount: float) -> Array:
    """What a probability [row, s'] is worth: discounted, times how often the row is met and the value after it, over all steps."""
    met = np.zeros(rows.weights.shape[0])
    met[: len(start)] = start
    W, P, power = np.zeros_like(rows.P), np.maximum(rows.P, 0.0), discount
    for after in V[-2::-1]:
        taken = (rows.weights.T @ met) * rows.known
        W += power * taken[:, None] * after
        met = taken @ P
        met /= max(float(met.sum()), 1.0)
        power *= discount
        if power < _NOTHING:
            break
    return W
