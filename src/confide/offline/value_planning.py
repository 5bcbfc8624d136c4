"""The value of a policy with a two-sided interval, from counts of users who did not choose the
policy.

All of it is post-processing of releases: noisy counts go in, a value with its interval comes out.
It may be changed without an effect on privacy, but whether the intervals still hold must then be
measured again (benchmarks/values_learn.py). Nothing of it is proved.

The policy was chosen in the release of other users, and so were the cells that are looked at. Noise
in the counts of these users is therefore as likely to raise the value as to lower it, and the
errors of rows add up as variances.

The value is computed twice. Rows that have too few visits pay the least that they can in the lower
computation, and the most in the upper one. The interval goes from z standard deviations below the
lower value to z above the upper.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from confide.offline.gain_planning import CandidatePolicy, Counted, PolicyRows, counted_rows
from confide.offline.policy_planning import Dynamics
from confide.offline.row_planning import Array
from confide.offline.table_features import Bools, step_ranges
from confide.release.value import Value, value_with

# A cell is looked at if the learned model expects a count of so many standard deviations of noise.
# With fewer cells intervals are narrower, but they failed too often where many next states are
# equally likely. Measured.
LEAST_CELL = 0.05
# Standard deviations are estimates themselves, and leave out products of errors. This factor was
# chosen on other seeds than those of docs/results/policies.md.
WIDER = 1.15
# Where discounted visits of all states together are fewer than this, later steps change nothing.
_NEGLIGIBLE_VISITS = 1e-12
# Smaller sums are not divided by.
_TINY = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class HeldOutCounts:
    """The release of the held-out users."""

    counted: Counted
    # Sums of rewards in [-1, 1], [row]. Empty if rewards are public.
    reward_sums: Array = field(repr=False)
    # The standard deviation of the noise on one of them.
    reward_noise: float
    users: int


@dataclass(frozen=True, slots=True, eq=False)
class RowRewards:
    """Mean rewards of the rows that a policy takes [row], with standard deviations."""

    means: Array = field(repr=False)
    std: Array = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class StartStates:
    """Where trajectories start."""

    # The probabilities of first states [s].
    probabilities: Array = field(repr=False)
    # How many users they were counted from, or None if they are public.
    total: float | None


@dataclass(frozen=True, slots=True)
class EndOfInterval:
    """A value in one of the two computations, and its standard deviation."""

    value: float
    std: float


def value_interval(
    model: Dynamics, held: HeldOutCounts, target: CandidatePolicy, horizon: int, z: float
) -> Value:
    """The value of a policy over `horizon` steps, with an interval of z standard deviations to each
    side.

    `model` is the release of the other users. Where the policy goes on as logged, all actions of a
    state are one row, so that the probabilities of logged actions need not be estimated.
    """
    table = held.counted.table
    probability = target.weights.ravel() * table.logged_rows
    alone = np.repeat(target.changed, table.actions)
    rows = counted_rows(model, held.counted, probability, alone, least_cell=LEAST_CELL)
    rewards = _row_rewards(held, rows)
    lower = _end_of_interval(held, rows, rewards, horizon, sign=1)
    upper = _end_of_interval(held, rows, rewards, horizon, sign=-1)
    low_range, high_range = step_ranges(table, horizon)
    least = float(low_range[-1])
    most = float(high_range[-1])
    floor, ceiling = sorted((lower.value, -upper.value))
    value = min(max((floor + ceiling) / 2, least), most)
    low = max(floor - WIDER * z * lower.std, least)
    high = min(ceiling + WIDER * z * upper.std, most)
    return value_with(value, min(low, value), max(high, value), least, most)


def _row_rewards(held: HeldOutCounts, rows: PolicyRows) -> RowRewards:
    """Rewards of rows are neither shrunk nor clipped: both would move the value to one side."""
    table = held.counted.table
    visits, visit_std = held.counted.visits()
    members = rows.members
    row_visits = np.maximum(np.asarray(members @ visits), _TINY)
    size = np.asarray(members.sum(axis=1)).ravel()
    if table.rewards is None:
        ratio = np.asarray(members @ held.reward_sums) / row_visits
        possible = np.clip(ratio, -1.0, 1.0)
        noise = size * held.reward_noise**2 + possible**2 * np.asarray(members @ visit_std**2)
        # The variance of a number in [-1, 1] is at most one minus the square of its mean.
        sampling = row_visits * (1 - possible**2)
        half = (table.reward_high - table.reward_low) / 2
        means = table.reward_low + half * (1 + ratio)
        return RowRewards(means, half * np.sqrt(noise + sampling) / row_visits)
    public = np.zeros(table.support.pairs)
    public[: table.rewards.size] = table.rewards.ravel()
    means = np.asarray(members @ (visits * public)) / row_visits
    squares = np.asarray(members @ (visits * public**2)) / row_visits
    means = np.clip(means, public.min(), public.max())
    # The noise of sum_a visits_a (reward_a - mean).
    noise = (
        np.asarray(members @ (visit_std**2 * public**2))
        - 2 * means * np.asarray(members @ (visit_std**2 * public))
        + means**2 * np.asarray(members @ visit_std**2)
    )
    sampling = row_visits * np.maximum(squares - means**2, 0.0)
    std = np.sqrt(np.maximum(noise, 0.0) + sampling) / row_visits
    single = size == 1
    return RowRewards(
        np.where(single, np.asarray(members @ public), means), np.where(single, 0.0, std)
    )


def _end_of_interval(
    held: HeldOutCounts, rows: PolicyRows, rewards: RowRewards, horizon: int, *, sign: int
) -> EndOfInterval:
    """The lower value (sign 1), or the upper one of the same problem with all rewards negated (sign
    -1).
    """
    table = held.counted.table
    S = table.support.states
    terminal = ~table.support.open.reshape(S, table.actions)[:, 0]
    low, high = step_ranges(table, horizon)
    least_reward = table.reward_low if table.rewards is None else float(table.rewards.min())
    most_reward = table.reward_high if table.rewards is None else float(table.rewards.max())
    if sign < 0:
        low, high = -high, -low
        least_reward = -most_reward
    # Rows with too few visits pay the least that they can.
    mean_rewards = rows.weights @ np.where(rows.enough_visits, sign * rewards.means, least_reward)
    # Nothing is paid at the end that follows the last row.
    mean_rewards[table.states :] = 0.0
    P = _complete_rows(rows)
    # Values [s] with k steps to go, above the least that k steps can pay.
    above_least = [np.zeros(S)]
    for k in range(horizon):
        ahead = rows.weights @ (P @ above_least[-1])
        least = np.where(terminal, 0.0, table.discount * low[k]) - low[k + 1]
        value = mean_rewards + least + np.where(terminal, 0.0, table.discount * ahead)
        above_least.append(np.clip(value, 0.0, high[k + 1] - low[k + 1]))
    start = _start(held)
    last = above_least[-1][: table.states]
    value_at_start = float(start.probabilities @ last)
    variance = _variance_of_rows(rows, rewards, P, start, above_least, table.discount)
    if start.total is not None:
        squares = (last - value_at_start) ** 2
        sampling = float(np.maximum(start.probabilities, 0.0) @ squares) / held.users
        noise = held.counted.noise**2 * float(squares.sum()) / start.total**2
        variance += sampling + noise
    return EndOfInterval(value_at_start + float(low[-1]), math.sqrt(variance))


def _complete_rows(rows: PolicyRows) -> Array:
    """Probabilities [row, s'] that add up to one in rows with enough visits, and to zero elsewhere.

    What is missing follows the row of the learned model. Without this, noise in the total of a row
    would count with the whole value, and not only with the differences between values of next
    states.
    """
    missing = np.where(rows.enough_moves, 1 - rows.P.sum(axis=1), 0.0)
    return np.where(rows.enough_moves[:, None], rows.P, 0.0) + missing[:, None] * rows.learned


def _start(held: HeldOutCounts) -> StartStates:
    """Public first states, or those of the noisy counts, which need not be positive."""
    counted = held.counted
    if counted.table.start is not None:
        return StartStates(counted.table.start, None)
    total = max(float(counted.starts.sum()), 1.0)
    return StartStates(counted.starts / total, total)


def _variance_of_rows(
    rows: PolicyRows,
    rewards: RowRewards,
    P: Array,
    start: StartStates,
    above_least: list[Array],
    discount: float,
) -> float:
    """Noise and sampling of all rows, to first order: an error of a row counts as often as the
    policy takes the row.
    """
    state_visits = np.zeros(rows.weights.shape[0])
    state_visits[: len(start.probabilities)] = np.maximum(start.probabilities, 0.0)
    state_visits /= max(float(state_visits.sum()), _TINY)
    # What an error of a probability is worth [row, s'], and how often each row is taken [row].
    worth = np.zeros_like(P)
    times_taken = np.zeros(len(P))
    positive_P = np.maximum(P, 0.0)
    discount_so_far = 1.0
    # `above_least` begins with no steps to go, and the first step has the most.
    for values_after in above_least[-2::-1]:
        row_visits = rows.weights.T @ state_visits
        times_taken += discount_so_far * row_visits
        discount_so_far *= discount
        # Rows are completed by the learned ones, so errors count with differences of values.
        differences = values_after - (rows.learned @ values_after)[:, None]
        known_visits = row_visits * rows.enough_moves
        worth += discount_so_far * known_visits[:, None] * differences
        state_visits = known_visits @ positive_P
        state_visits /= max(float(state_visits.sum()), 1.0)
        if discount_so_far * float(state_visits.sum()) < _NEGLIGIBLE_VISITS:
            break
    enough_visits: Bools = rows.enough_visits
    reward_errors = (times_taken * rewards.std)[enough_visits]
    return rows.variance(worth) + float((reward_errors**2).sum())
