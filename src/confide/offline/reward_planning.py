"""Rewards of a table: public ones, or estimates from noisy sums.

All of it is post-processing of a release: arrays go in, arrays come out. It may be changed without
an effect on privacy, but then values must be measured again (benchmarks/results/offline.md).

Without noise the estimate of a row is the mean of its rewards. With noise it is shrunk on two
levels, by empirical Bayes with scale mixtures of normal priors (adaptive shrinkage): the mean of a
state towards a common reward, and an action towards its state. How far rewards differ on each level
is read off the estimates and their variances. So the estimate of a row comes closer to its mean as
users are added.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from confide.offline.row_planning import Array, EstimatedRows
from confide.offline.table_features import LoggedTable

Bools = npt.NDArray[np.bool_]
# Where nothing else is said, no page compares other numbers than these. None matters for privacy.
# Standard deviations of a prior go from this share of the smallest standard error up to the range
# of rewards, by factors of PRIOR_STEP.
SMALLEST_PRIOR = 0.25
PRIOR_STEP = 2.0
EM_ROUNDS = 50
# So many estimates count as met before by the prior without differences, and as many by all others
# together.
PRIOR_ESTIMATES = 1.0
# The common reward is taken to be the usual one within so many standard errors of the median.
USUAL_WITHIN_STDS = 2.5
# Ratios of noisy numbers are clipped here. Rewards in their units lie in [-1, 1].
_LARGEST_RATIO = 5.0
_TINY = 1e-300


def rewards_of(
    table: LoggedTable, rows: EstimatedRows, sums: Array, noise: float
) -> tuple[Array, Array]:
    """Mean rewards [s, a] of all states of the support, and their standard deviations; the end pays
    nothing.

    Learned rewards: sums [row] of (r - centre)/radius in [-1, 1] over noisy visits. Standard
    deviations are those of the posterior: they include what noise, chance and shrinkage may have
    moved.
    """
    S = table.support.states
    A = table.actions
    rewards = np.zeros((S, A))
    std = np.zeros((S, A))
    if table.rewards is not None:
        rewards[: table.states] = table.rewards
        return rewards, std
    logged = table.states * A
    mean, spread = _estimates(rows, sums, noise)
    span = table.reward_high - table.reward_low
    if noise == 0:
        mean, deviation = _fill_unvisited(mean[:logged], spread[:logged], rows.visits[:logged])
    else:
        # Zero is the usual reward. This is where it lies in the range of rewards.
        zero_reward = -table.reward_low / span
        shape = (table.states, A)
        mean, deviation = shrink_rewards(
            mean[:logged].reshape(shape), spread[:logged].reshape(shape), zero_reward
        )
    rewards[: table.states] = table.reward_low + span * np.clip(mean, 0, 1).reshape(-1, A)
    std[: table.states] = span * deviation.reshape(-1, A)
    return rewards, std


def _estimates(rows: EstimatedRows, sums: Array, noise: float) -> tuple[Array, Array]:
    """Mean rewards [row] in units of their range, not shrunk, and their standard errors: noise, and
    chance.

    The variance of one reward in [0, 1] with mean m is at most m (1 - m), which two-valued rewards
    have. m is taken as near to 1/2 as its noise allows.
    """
    visits = np.maximum(np.maximum(rows.visits, rows.visit_std / 2), 1e-9)
    ratio = np.clip(sums / visits, -_LARGEST_RATIO, _LARGEST_RATIO)
    noisy = np.hypot(noise, np.clip(np.abs(ratio), 0, 1) * rows.visit_std) / visits / 2
    mean = (1 + ratio) / 2
    near = np.clip(mean, 0.0, 1.0)
    near = near + np.sign(0.5 - near) * np.minimum(noisy, np.abs(0.5 - near))
    near = (near * visits + 0.5) / (visits + 1)
    return mean, np.minimum(np.sqrt(noisy**2 + near * (1 - near) / visits), _LARGEST_RATIO)


def _fill_unvisited(mean: Array, spread: Array, visits: Array) -> tuple[Array, Array]:
    """Exact means; a row that nobody was in has that of all rows, and nothing is known about it."""
    total = float(visits.sum())
    everywhere = float((mean * visits).sum()) / total if total > 0 else 0.5
    nobody = visits <= 0
    return np.where(nobody, everywhere, mean), np.where(nobody, 0.5, spread)


def shrink_rewards(mean: Array, spread: Array, usual: float) -> tuple[Array, Array]:
    """Posterior means and standard deviations [s, a] of rewards in [0, 1], from estimates with
    their standard errors.

    A state's mean differs from the common reward, and an action's from its state's. The common
    reward is the weighted median of states; or `usual`, if it is in [0, 1] and not contradicted.
    """
    precision = 1 / spread**2
    total = precision.sum(axis=1)
    state_mean = (mean * precision).sum(axis=1) / total
    state_spread = 1 / np.sqrt(total)
    common = _common(state_mean, state_spread, usual)
    of_state = Shrinkage.fit(state_mean - common, state_spread)
    state, state_std = of_state.posterior(state_mean - common, state_spread)
    if mean.shape[1] == 1:
        return common + state[:, None], state_std[:, None]
    within = np.sqrt(np.maximum(spread**2 - state_spread[:, None] ** 2, 1e-12))
    of_action = Shrinkage.fit((mean - state_mean[:, None]).ravel(), within.ravel())
    centre = common + state[:, None]
    error = np.hypot(spread, state_std[:, None])
    action, action_std = of_action.posterior((mean - centre).ravel(), error.ravel())
    return (
        np.clip(centre + action.reshape(mean.shape), 0.0, 1.0),
        np.hypot(state_std[:, None], action_std.reshape(mean.shape)),
    )


def _common(mean: Array, spread: Array, usual: float) -> float:
    """The common reward: the weighted median of states, or `usual` if that is near."""
    order = np.argsort(mean)
    precision = np.cumsum(1 / spread[order] ** 2)
    middle = int(np.searchsorted(precision, precision[-1] / 2))
    median = float(np.clip(mean[order[middle]], 0.0, 1.0))
    error = USUAL_WITHIN_STDS / np.sqrt(precision[-1])
    is_usual = 0 <= usual <= 1 and abs(median - usual) <= error
    return usual if is_usual else median


@dataclass(frozen=True, slots=True)
class Shrinkage:
    """A prior of differences: normal around zero with one of these standard deviations, the first
    of which is zero.
    """

    std: Array
    weights: Array

    @classmethod
    def fit(cls, differences: Array, errors: Array) -> "Shrinkage":
        """By maximum likelihood, as if a few differences had been met before."""
        least = SMALLEST_PRIOR * float(errors.min())
        halvings = max(int(np.ceil(np.log(1 / least) / np.log(PRIOR_STEP))), 0) if least < 1 else 0
        std = np.append(0.0, PRIOR_STEP ** -np.arange(halvings + 1.0))
        each = PRIOR_ESTIMATES / (halvings + 1)
        before = np.append(PRIOR_ESTIMATES, np.full(halvings + 1, each))
        weights = before / before.sum()
        density = _density(differences, errors, std)
        for _ in range(EM_ROUNDS):
            share = density * weights
            share /= np.maximum(share.sum(axis=1), _TINY)[:, None]
            weights = share.sum(axis=0) + before
            weights /= weights.sum()
        return cls(std, weights)

    def posterior(self, differences: Array, errors: Array) -> tuple[Array, Array]:
        """Means and standard deviations of the true differences [i]."""
        share = _density(differences, errors, self.std) * self.weights
        share /= np.maximum(share.sum(axis=1), _TINY)[:, None]
        keep = self.std**2 / (self.std**2 + errors[:, None] ** 2)
        centre = keep * differences[:, None]
        mean = (share * centre).sum(axis=1)
        square = (share * (centre**2 + keep * errors[:, None] ** 2)).sum(axis=1)
        return mean, np.sqrt(np.maximum(square - mean**2, 0.0))


def _density(differences: Array, errors: Array, std: Array) -> Array:
    """The density of each difference under each standard deviation [i, k], relative to the largest
    of the difference.
    """
    variance = std**2 + errors[:, None] ** 2
    logarithm = -0.5 * (differences[:, None] ** 2 / variance + np.log(variance))
    density: Array = np.exp(logarithm - logarithm.max(axis=1, keepdims=True))
    return density


def _ratios(rows: EstimatedRows, sums: Array, noise: float) -> tuple[Array, Array]:
    """Sums over visits [row], in [-1, 1] but for noise, and their standard deviations, noise and
    sampling together.
    """
    visits = np.maximum(np.maximum(rows.visits, rows.visit_std / 2), 1e-9)
    ratio = np.clip(sums / visits, -_LARGEST_RATIO, _LARGEST_RATIO)
    spread = np.sqrt(
        (noise / visits) ** 2
        + (np.clip(np.abs(ratio), 0, 1) * rows.visit_std / visits) ** 2
        + 1 / visits
    )
    return ratio, spread


def lower_rewards(
    table: LoggedTable,
    chosen: npt.NDArray[np.bool_],
    rows: EstimatedRows,
    sums: Array,
    noise: float,
    z: float,
) -> Array:
    """Rewards [s, a] that are z standard deviations below what these sums say in `chosen` rows [s,
    a], and the least reward elsewhere.

    Rows are chosen by other people's data, so that no noise of these sums is chosen for being
    large. With many rows even a lower value, cut at the least reward, is too large on average: the
    cut keeps what noise adds, and drops what it takes away.
    """
    ratio, spread = _ratios(rows, sums, noise)
    low = table.reward_low
    half = (table.reward_high - table.reward_low) / 2
    lower = np.clip(low + half * (1 + ratio - z * spread), low, table.reward_high).reshape(
        chosen.shape
    )
    logged = table.logged_rows.reshape(chosen.shape)
    return np.where(logged, np.where(chosen, lower, low), 0.0)
