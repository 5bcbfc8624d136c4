"""What to test on held-out people, and the lower value of a policy in their release. All post-processing of releases."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy import sparse

from confide.offline.policy_planning import Dynamics
from confide.offline.row_planning import Array, visits_of
from confide.offline.table_features import Bools, Table, step_ranges

LEVEL, Z = 0.95, 1.6449  # one-sided
BEHAVIOUR_Z = 2.24  # of what was done, which is subtracted: its upper value
CELL, ROW = 3.0, 2.0  # standard deviations of noise from which on a cell is seen, and a row known
SHARES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0)
CLIPS = (1.1, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 10.0, 20.0)
_TRIED, _STEPS = 6000, 400  # trajectories, and steps of each, that are rehearsed in the model
_SEED = 20221_06_01  # public: a rehearsal is a function of the release


@dataclass(frozen=True, slots=True, eq=False)
class Target:
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

    table: Table
    counts: Array = field(repr=False)
    totals: Array = field(repr=False)
    start: Array = field(repr=False)
    rewards: Array = field(repr=False)
    noise: float
    total_weight: float


def lower_mean(sum_: float, squares: float, noise: float, square_noise: float, users: int, z: float = Z) -> float:
    """mean - z sqrt(second moment / users + noise^2), the second moment raised by Z standard deviations of its own noise."""
    second = max(squares + Z * square_noise, 0.0) / users
    return sum_ / users - z * math.sqrt(second / users + (noise / users) ** 2)


def mixture_for(
    model: Dynamics, start: Array, target: Target, horizon: int, users: int, noise: Callable[[float], tuple[float, float]]
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
            bound = lower_mean(x.mean() * users, (x**2).mean() * users, std, square_std, users) * clip * highest
            if bound > best.predicted:
                best = Mixture(share, clip, float(bound))
    return best


def _rehearsed(model: Dynamics, start: Array, steps: int) -> tuple[np.ndarray, np.ndarray, Array]:
    """States and actions [trajectory, t] of the behaviour in the model, and whether the trajectory goes on [trajectory, t]."""
    rng, A = np.random.default_rng(_SEED), model.table.actions
    closed = ~model.table.support.open.reshape(model.states, A)[:, 0]
    state = np.searchsorted(np.cumsum(start), rng.random(_TRIED) * start.sum()).clip(0, len(start) - 1)
    acts = np.cumsum(model.behaviour, axis=1)
    P = model.P
    cells = np.append(0.0, np.cumsum(P.data))
    states, actions, going = np.zeros((_TRIED, steps), np.int64), np.zeros((_TRIED, steps), np.int64), np.zeros((_TRIED, steps))
    alive = np.ones(_TRIED, bool)
    for t in range(steps):
        action = (rng.random((_TRIED, 1)) * acts[state, -1:] > acts[state]).sum(axis=1).clip(0, A - 1)
        states[:, t], actions[:, t], going[:, t] = state, action, alive
        alive = alive & ~closed[state]
        if not alive.any():
            return states[:, : t + 1], actions[:, : t + 1], going[:, : t + 1]
        row = np.where(alive, state * A + action, 0)
        low, high = P.indptr[row], P.indptr[row + 1]
        found = np.searchsorted(cells, cells[low] + rng.random(_TRIED) * (cells[high] - cells[low]), side="right") - 1
        after = P.indices[np.clip(found, low, np.maximum(high - 1, low)).clip(0, len(P.indices) - 1)]
        state = np.where(alive & (high > low), after, state)
        alive = alive & (high > low)
    return states, actions, going


def lower_value(given: Counted, target: Target, horizon: int, pessimism: float) -> float:
    """The value of a policy over `horizon` steps, with all that is not seen for certain at the least that it can be worth.

    Cells of at most CELL standard deviations of noise are not seen; rows are divided by one standard deviation more visits than counted;
    rows of at most ROW standard deviations are worth the least; values are lowered by `pessimism` times their standard deviation.
    """
    table, support = given.table, given.table.support
    S, A = support.states, support.actions
    visits, std = visits_of(given.counts, given.totals, given.noise, given.total_weight, support)
    own = _Lower.of(sparse.csr_matrix((given.counts, support.successors, support.indptr), shape=(S * A, S)), visits, std, given.noise)
    every = sparse.csr_matrix((np.ones(S * A), np.arange(S * A), np.arange(S + 1) * A), shape=(S, S * A))
    together = every @ sparse.csr_matrix((given.counts, support.successors, support.indptr), shape=(S * A, S))
    pooled = _Lower.of(together, every @ visits, np.sqrt(every @ std**2), given.noise * math.sqrt(A))
    known = np.maximum(visits, 0.0).reshape(S, A)
    shares = known / np.maximum(known.sum(axis=1), 1e-300)[:, None]
    weights, changed, rewards = np.zeros((S, A)), np.zeros(S, bool), np.zeros((S, A))
    weights[: table.states], changed[: table.states], rewards[: table.states] = target.weights, target.changed, given.rewards
    pays = np.where(changed, (weights * rewards).sum(axis=1), (shares * rewards).sum(axis=1))
    closed = ~support.open.reshape(S, A)[:, 0]
    low, high = step_ranges(table, horizon)
    pays[closed] = rewards[closed].min(axis=1)
    V = np.zeros(S)
    for k in range(horizon):
        above, span = V - low[k], high[k] - low[k]
        mine = (weights * own.ahead(above, span, pessimism).reshape(S, A)).sum(axis=1)
        ahead = np.where(changed, mine, pooled.ahead(above, span, pessimism))
        before, V = V, np.where(closed, pays, pays + table.discount * (low[k] + ahead))
        if np.abs(V - before).max() <= 1e-9 * max(high[-1] - low[-1], 1e-300):
            break
    return float(given.start @ V[: table.states])


@dataclass(frozen=True, slots=True, eq=False)
class _Lower:
    """Rows of cells that are seen, divided by at least the visits."""

    P: sparse.csr_matrix
    known: Bools
    visits: Array
    noise: float

    @classmethod
    def of(cls, counts: sparse.csr_matrix, visits: Array, std: Array, noise: float) -> "_Lower":
        seen = counts.copy()
        seen.data = np.where(seen.data > CELL * noise, seen.data, 0.0)
        seen.eliminate_zeros()
        sums = np.asarray(seen.sum(axis=1)).ravel()
        under = np.maximum(np.maximum(visits + std, sums), 1e-300)
        return cls(sparse.diags(1 / under) @ seen, visits > ROW * std, np.maximum(visits, 1e-3), noise)

    def ahead(self, V: Array, span: float, pessimism: float) -> Array:
        """The lower value [row] of what follows, if V >= 0."""
        mean = self.P @ V
        if pessimism > 0:
            seen = self.P.copy()
            seen.data = np.ones_like(seen.data)
            variance = np.maximum(self.P @ V**2 - mean**2, 0.0) / self.visits
            spread = seen @ V**2 - 2 * mean * (seen @ V) + mean**2 * (seen @ np.ones(len(V)))
            noise = np.maximum(spread, 0.0) * (self.noise / self.visits) ** 2
            mean = mean - pessimism * np.sqrt(variance + noise + (span / (2 * self.visits)) ** 2)
        return np.where(self.known, np.clip(mean, 0.0, span), 0.0)
