"""What to test on held-out people, and the lower value of a policy in their release.

All of it is post-processing of releases, so everything here may be changed without an effect on
privacy. A change may make false bounds more frequent: then measure again
(benchmarks/improvement.py, benchmarks/improvement_level.py).

The mixture that is tested names the release in a ledger and is part of its certificate. It is
chosen in the released model alone, with random numbers of a public seed.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy import sparse

from confide.offline.policy_planning import Dynamics
from confide.offline.row_planning import Array, Ints, moves_of, visits_of
from confide.offline.table_features import Bools, LoggedTable, step_ranges

# The confidence of a bound, and the standard deviations that it is below the mean, one-sided. At
# the normal 1.645 the worst two-point law of gains has an error of .052. Computed:
# docs/results/policies.md.
LEVEL = 0.95
Z = 1.75
# Up to this loss of Gaussian noise (mu), and of noise without delta (epsilon), no two-point law of
# gains has a larger error than LEVEL allows. With less noise the few users with large losses are
# not seen. Computed on the same page.
MOST_MU = 1.6
MOST_EPSILON = 2.75
# Standard deviations for the method "model", which has no theorem: a little more than the level
# needs. Measured on docs/results/policies.md.
MODEL_Z = 2.0
# A cell is looked at if the learned model expects a count of more standard deviations of noise than
# this. Chosen by measurement on the same page.
LEAST_CELL_STDS = 0.25
# A row is looked at if its visits are more standard deviations than this. Chosen by measurement on
# the same page.
LEAST_ROW_STDS = 3.0
# A policy takes some actions rarely. Those that it takes less often than this share of an even
# share are pooled. No page compares other numbers.
LEAST_SHARE_ALONE = 0.5
# The mixtures and clips that are tried. Their number is a matter of taste: more of them take more
# time.
SHARES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0)
CLIPS = (1.1, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 10.0, 20.0)
# Trajectories that are rehearsed in the model, and the most steps of each. A matter of taste and of
# time.
REHEARSED_TRAJECTORIES = 3000
MAX_REHEARSED_STEPS = 400
# Public, because a rehearsal must be a function of the release. Any other number would do.
REHEARSAL_SEED = 18
# Sums below this are not divided by, and discounts below it are not worth another step.
_NEGLIGIBLE = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class CandidatePolicy:
    """The policy to test."""

    # The probabilities of actions [s, a].
    weights: Array = field(repr=False)
    # Where it differs from the logged policy [s]. Elsewhere it goes on as logged.
    changed: Bools = field(repr=False)


@dataclass(frozen=True, slots=True)
class Mixture:
    """A mixture of the policy with the logged one, and the clip of its importance weights."""

    # The policy is followed with this probability at each step. Otherwise it goes on as logged.
    share: float
    clip: float
    # The bound that the model predicts for this choice.
    predicted: float


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """The released counts of the held-out people; `rewards` [s, a] are public, or lower values.

    Counts [cell], cut rows [row], row totals [row] and first states [s] have noise of this standard
    deviation, the totals after division by `total_weight`.
    """

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
    total: float, squares: float, noise: float, square_noise: float, users: int, z: float = Z
) -> float:
    """The lower bound of a mean, from a noisy sum over users and a noisy sum of squares.

    It is mean - z sqrt(second moment / users + noise^2), all per user. The second moment is raised
    by Z standard deviations of its own noise, because bounds would be too high where it is
    underestimated.
    """
    second_moment = max(squares + Z * square_noise, 0.0) / users
    return total / users - z * math.sqrt(second_moment / users + (noise / users) ** 2)


def mixture_for(
    model: Dynamics,
    start: Array,
    target: CandidatePolicy,
    horizon: int,
    users: int,
    noise: Callable[[float], tuple[float, float]],
) -> Mixture:
    """The share and the clip with the largest bound that the model predicts for so many users.

    `noise(clip)` are the standard deviations of the noise on the sum of gains and on the sum of
    squares, in the units of `Gains`: gains are divided by clip times the most that a return can be.
    """
    rehearsal = _rehearse_logged_policy(model, start, min(horizon, MAX_REHEARSED_STEPS))
    max_return = float(step_ranges(model.table, horizon)[1][-1])
    discounts = model.table.discount ** np.arange(rehearsal.states.shape[1])
    rewards = model.rewards[rehearsal.states, rehearsal.actions] * rehearsal.going * discounts
    ratio, changed = _likelihood_ratios(model, target, rehearsal)
    best = Mixture(SHARES[0], clip=2.0, predicted=-math.inf)
    for share in SHARES:
        # At each step the mixture follows the target with probability `share` and the logged policy
        # otherwise.
        step_weights = np.where(changed, 1 - share + share * ratio, 1.0)
        trajectory_weights = np.cumprod(step_weights, axis=1)
        for clip in CLIPS:
            clipped_weights = np.minimum(trajectory_weights, clip)
            gains = (rewards * (clipped_weights - 1)).sum(axis=1) / (clip * max_return)
            std, square_std = noise(clip)
            total = gains.mean() * users
            squares = (gains**2).mean() * users
            bound = lower_mean(total, squares, std, square_std, users) * clip * max_return
            if bound > best.predicted:
                best = Mixture(share, clip, float(bound))
    return best


@dataclass(frozen=True, slots=True, eq=False)
class _Rehearsal:
    """Trajectories of the logged policy in the model. Axes: [trajectory, step]."""

    states: Ints
    actions: Ints
    # 1.0 at the steps of a trajectory, 0.0 after its end.
    going: Array


def _likelihood_ratios(
    model: Dynamics, target: CandidatePolicy, rehearsal: _Rehearsal
) -> tuple[Array, Bools]:
    """How much likelier the target takes each action than the logged policy [trajectory, step], and
    where it differs.
    """
    states = rehearsal.states
    logged = np.maximum(model.behaviour[states, rehearsal.actions], 1e-12)
    # The end has no row in the target.
    rows = np.minimum(states, model.table.states - 1)
    ratio = target.weights[rows, rehearsal.actions] / logged
    return ratio, target.changed[rows] & (states < model.table.states)


def _rehearse_logged_policy(model: Dynamics, start: Array, steps: int) -> _Rehearsal:
    """Simulate trajectories of the logged policy in the released model, with a public seed."""
    rng = np.random.default_rng(REHEARSAL_SEED)
    users = REHEARSED_TRAJECTORIES
    A = model.table.actions
    terminal = ~model.table.support.open.reshape(model.states, A)[:, 0]
    first_states = np.searchsorted(np.cumsum(start), rng.random(users) * start.sum())
    state = first_states.clip(0, len(start) - 1)
    action_limits = np.cumsum(model.behaviour, axis=1)
    cell_limits = np.append(0.0, np.cumsum(model.P.data))
    states = np.zeros((users, steps), np.int64)
    actions = np.zeros((users, steps), np.int64)
    going = np.zeros((users, steps))
    alive = np.ones(users, bool)
    for t in range(steps):
        draws = rng.random((users, 1)) * action_limits[state, -1:]
        action = (draws > action_limits[state]).sum(axis=1).clip(0, A - 1)
        states[:, t] = state
        actions[:, t] = action
        going[:, t] = alive
        alive = alive & ~terminal[state]
        if not alive.any():
            return _Rehearsal(states[:, : t + 1], actions[:, : t + 1], going[:, : t + 1])
        row = np.where(alive, state * A + action, 0)
        alive, state = _draw_next_states(model.P, cell_limits, row, alive, state, rng)
    return _Rehearsal(states, actions, going)


def _draw_next_states(
    P: sparse.csr_matrix,
    cell_limits: Array,
    row: Ints,
    alive: Bools,
    state: Ints,
    rng: np.random.Generator,
) -> tuple[Bools, Ints]:
    """Which trajectories go on, and their next states.

    Trajectories whose row has no cells stop where they are. In a model that noise has left without
    any cell, all of them do.
    """
    if not P.nnz:
        return np.zeros(len(row), bool), state
    first = P.indptr[row]
    last = P.indptr[row + 1]
    # One row is an interval of the running sum of all cells.
    draws = cell_limits[first] + rng.random(len(row)) * (cell_limits[last] - cell_limits[first])
    cell = np.searchsorted(cell_limits, draws, side="right") - 1
    cell = np.clip(cell, first, np.maximum(last - 1, first)).clip(0, len(P.indices) - 1)
    moves = alive & (last > first)
    return moves, np.where(moves, P.indices[cell], state)


@dataclass(frozen=True, slots=True, eq=False)
class Estimated:
    """The value of a policy in the release of held-out people, and its standard deviation: noise
    and sampling, to first order.
    """

    value: float
    std: float


def value_in(model: Dynamics, held: Counted, policy: Array, horizon: int, users: int) -> Estimated:
    """The value of a policy [s, a] over `horizon` steps in the counts of `users` held-out people.

    What is not seen is worth the least. What counts as seen was read off the learning part
    (`model`): the cells of its rows, and which rows stand alone. The other rows of a state that the
    policy takes are pooled. So the held-out counts are used as they are, without a threshold that
    their own noise could pass, and the value is nearly linear in them: errors of rows are
    independent, and add up as variances. Rows whose visits are fewer than LEAST_ROW_STDS standard
    deviations are worth the least.
    """
    table = held.table
    S = table.support.states
    rows = policy_rows(model, held, policy)
    low, high = step_ranges(table, horizon)
    rewards = np.zeros((S, table.actions))
    rewards[: table.states] = held.rewards
    terminal = ~table.support.open.reshape(rewards.shape)[:, 0]
    mean_rewards = np.where(terminal, rewards.min(axis=1), (policy * rewards).sum(axis=1))
    # Values [s] with k steps to go, above the least that k steps can pay.
    above_least = [np.zeros(S)]
    for k in range(horizon):
        ahead = rows.weights @ (rows.P @ above_least[-1])
        least = np.where(terminal, 0.0, table.discount * low[k]) - low[k + 1]
        value_of_states = mean_rewards + table.discount * ahead + least
        above_least.append(np.clip(value_of_states, 0.0, high[k + 1] - low[k + 1]))
    start = held.starts / users if table.start is None else table.start
    last = above_least[-1][: table.states]
    value = float(start @ last)
    worth = _worth_of_probabilities(rows, np.maximum(start, 0.0), above_least, table.discount)
    variance = rows.variance(worth)
    if table.start is None:
        spread = max(float(np.maximum(start, 0.0) @ last**2) - value**2, 0.0)
        variance += spread / users + held.noise**2 * float(last @ last) / users**2
    return Estimated(value + float(low[-1]), math.sqrt(variance))


@dataclass(frozen=True, slots=True, eq=False)
class PolicyRows:
    """The rows that a policy takes, in the counts of held-out people.

    A row is a state with one action, or a state with several actions together. `weights` [s, row]
    are the probabilities with which the policy takes it. `members` [row, (s, a)] are the rows of
    the table of which it consists.
    """

    weights: sparse.csr_matrix
    members: sparse.csr_matrix
    # Probabilities [row, s'] of the cells that are looked at (`seen`), and zero elsewhere.
    P: Array
    seen: Bools
    # Rows with enough visits whose next state is known, and with enough visits at all.
    enough_moves: Bools
    enough_visits: Bools
    # Visits [row] whose next state is known; 1 where they are too few.
    visits: Array
    # Standard deviation of the noise of a cell [row], and the number of cells [row].
    noise: Array
    cells: Array
    total_weight: float
    # Transition probabilities [row, s'] in the model that was learned from other people.
    learned: Array

    def variance(self, worth: Array) -> float:
        """The variance of sum P worth: noise of cells and totals, and multinomial sampling.

        `worth` [row, s'] says what a probability is worth in all.
        """
        total_weight = self.total_weight
        per_count = np.where(self.seen, worth, 0.0) / self.visits[:, None]
        mean_per_visit = (self.P * worth).sum(axis=1) / self.visits
        # The visits of a row are the inverse-variance mean of its total and of the sum of its
        # cells.
        precision = 1 / self.cells + total_weight**2
        by_cell = mean_per_visit / self.cells / precision
        of_seen = ((per_count - by_cell[:, None] * self.seen) ** 2).sum(axis=1)
        of_others = (self.cells - self.seen.sum(axis=1)) * by_cell**2
        of_total = (mean_per_visit * total_weight / precision) ** 2
        noise = self.noise**2 * (of_seen + of_others + of_total)
        P = np.maximum(self.P, 0.0)
        spread = (P * worth**2).sum(axis=1) - (P * worth).sum(axis=1) ** 2
        sampling = np.maximum(spread, 0.0) / self.visits
        return float((noise + sampling)[self.enough_moves].sum())


def policy_rows(model: Dynamics, held: Counted, policy: Array) -> PolicyRows:
    """The rows of a policy [s, a] for a lower value: those that it takes rarely are pooled in each
    state.
    """
    support = held.table.support
    probability = policy.ravel() * support.open
    alone = probability > LEAST_SHARE_ALONE / held.table.actions
    return counted_rows(model, held, probability, alone, least_cell=LEAST_CELL_STDS)


def counted_rows(
    model: Dynamics, held: Counted, probability: Array, alone: Bools, *, least_cell: float
) -> PolicyRows:
    """The rows (s, a) of positive probability: each of its own if it stands `alone`, else together
    with others of its state.

    Cells are looked at if their expected count in the learned model is above `least_cell` standard
    deviations of noise.
    """
    support = held.table.support
    S = support.states
    taken = np.flatnonzero(probability > 0)
    groups = _group_rows(taken, probability, alone, held.table.actions, S)
    members = groups.members
    # The counts of the held-out users, and those that the learned model expects [row, s'].
    counts = _counts_by_row(members, held)
    learned_visits = sparse.diags(np.maximum(model.visits.ravel(), 0.0))
    expected = (members @ learned_visits @ model.P).toarray()
    # Which rows have enough visits, and enough visits whose next state is known.
    all_visits, all_std = held.visits()
    visits_std = np.sqrt(np.asarray(members @ all_std**2))
    enough_visits = np.asarray(members @ all_visits) > LEAST_ROW_STDS * visits_std
    moves, moves_std = moves_of(held.cuts, all_visits, all_std, held.noise, support)
    visits = np.asarray(members @ moves)
    std = np.sqrt(np.asarray(members @ moves_std**2))
    enough_moves = visits > LEAST_ROW_STDS * std
    visits = np.where(enough_moves, visits, 1.0)
    noise = held.noise * np.sqrt(np.asarray(members.sum(axis=1)).ravel())
    seen = (expected > least_cell * noise[:, None]) & enough_moves[:, None]
    # E[1/n] is larger than 1/E[n].
    corrected_visits = visits * (1 + (std / visits) ** 2)
    # A row of a terminal state has no cells, and nothing of it is known.
    cells = np.maximum(np.diff(support.indptr)[groups.first_member], 1).astype(float)
    return PolicyRows(
        weights=groups.weights(S),
        members=members,
        P=np.where(seen, counts, 0.0) / corrected_visits[:, None],
        seen=seen,
        enough_moves=enough_moves,
        enough_visits=enough_visits,
        visits=visits,
        noise=noise,
        cells=cells,
        total_weight=held.total_weight,
        learned=expected / np.maximum(expected.sum(axis=1), _NEGLIGIBLE)[:, None],
    )


@dataclass(frozen=True, slots=True, eq=False)
class _RowGroups:
    """Rows (s, a) of the table that are counted together, by group."""

    # 1 where a row of the table belongs to a group [group, (s, a)].
    members: sparse.csr_matrix
    # The state of each group, the first row of the table in it, and its probability [group].
    state: Ints
    first_member: Ints
    probability: Array

    def weights(self, states: int) -> sparse.csr_matrix:
        """The probability with which the policy takes a group in each state [s, group]."""
        number = len(self.state)
        places = (self.state, np.arange(number))
        return sparse.csr_matrix((self.probability, places), shape=(states, number))


def _counts_by_row(members: sparse.csr_matrix, held: Counted) -> Array:
    """The noisy counts of groups of rows [group, s']."""
    support = held.table.support
    shape = (members.shape[1], support.states)
    cells = sparse.csr_matrix((held.counts, support.successors, support.indptr), shape=shape)
    counts: Array = (members @ cells).toarray()
    return counts


def _group_rows(
    taken: Ints, probability: Array, alone: Bools, actions: int, states: int
) -> _RowGroups:
    """Group the rows that are taken: one group for each that stands alone, one per state for the
    others.
    """
    pairs = states * actions
    row = np.arange(pairs)
    # A group of one row has the number of the row. That of a state stands after all rows.
    group = np.where(alone, row, pairs + row // actions)[taken]
    numbers, first, group_index = np.unique(group, return_index=True, return_inverse=True)
    members = sparse.csr_matrix(
        (np.ones(len(taken)), (group_index, taken)), shape=(len(numbers), pairs)
    )
    return _RowGroups(
        members=members,
        state=np.where(numbers < pairs, numbers // actions, numbers - pairs),
        first_member=taken[first],
        probability=np.asarray(members @ probability),
    )


def _worth_of_probabilities(
    rows: PolicyRows, start: Array, above_least: list[Array], discount: float
) -> Array:
    """What a probability [row, s'] is worth: how often the row is met times the value that follows,
    over all steps, discounted.
    """
    state_visits = np.zeros(rows.weights.shape[0])
    state_visits[: len(start)] = start
    worth = np.zeros_like(rows.P)
    P = np.maximum(rows.P, 0.0)
    discount_so_far = discount
    # `above_least` begins with no steps to go, and the first step has the most.
    for values_after in above_least[-2::-1]:
        row_visits = (rows.weights.T @ state_visits) * rows.enough_moves
        worth += discount_so_far * row_visits[:, None] * values_after
        state_visits = row_visits @ P
        # Noisy probabilities may add up to more than one.
        state_visits /= max(float(state_visits.sum()), 1.0)
        discount_so_far *= discount
        if discount_so_far < _NEGLIGIBLE:
            break
    return worth
