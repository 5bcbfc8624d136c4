"""Estimates the mean rewards of a tabular MDP from noisy sums.

This is the public side of `TabularPSRL` and of the optimistic agents. Everything here is
post-processing, so constants and formulas may be changed without any effect on privacy.

Prior. Most states are usual: all their actions earn the common reward. A state is *alike* with
probability ALIKE_STATES. Then all its actions earn one other reward, which is uniform on [0, 1].
A state is *apart* with probability APART_STATES. Then each of its actions earns the common reward,
or with probability OWN_REWARDS one of its own, which is uniform on [0, 1]. Because of this prior,
an action that nobody tried may be worth as much as any other, and as much as the other actions of
its state. The common reward is one number, or one number for each action: the posterior uses the
version that explains the sums better.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp, ndtr, ndtri

from confide.tables.model_planning import Posterior
from confide.tables.support_features import Support

Array = npt.NDArray[np.float64]

# All constants below were chosen by measurement on the problems of benchmarks/results/tables.md.

# Prior probabilities: see the head of this file.
ALIKE_STATES = 0.1
APART_STATES = 0.2
OWN_REWARDS = 0.3
# So many standard deviations of noise are taken off a number of samples, because they may be none.
NOISE_STDS_WITHOUT_SAMPLES = 2.0
# The common reward is a weighted median. An estimate whose standard deviation is smaller than this
# weighs no more than one with this standard deviation.
LEAST_STD_OF_MEDIAN = 0.05
# Limits that keep logarithms and quotients finite.
MAX_STD = 1e3
MIN_STD = 1e-9
MIN_MASS = 1e-290


@dataclass(frozen=True, slots=True, eq=False)
class UnitNormals:
    """Independent normal distributions, truncated to [0, 1]. Both arrays have the same shape."""

    centres: Array
    stds: Array

    @property
    def mass(self) -> Array:
        """The probability of [0, 1] before the truncation."""
        low, high = self._tail_probabilities()
        return np.maximum(high - low, MIN_MASS)

    @property
    def mean(self) -> Array:
        density_at_0 = np.exp(-0.5 * (self.centres / self.stds) ** 2)
        density_at_1 = np.exp(-0.5 * ((1 - self.centres) / self.stds) ** 2)
        shift = self.stds * (density_at_0 - density_at_1) / np.sqrt(2 * np.pi) / self.mass
        means = self.centres + shift
        return np.asarray(np.clip(means, 0.0, 1.0))

    def draw(self, rng: np.random.Generator) -> Array:
        low, high = self._tail_probabilities()
        probability = low + (high - low) * rng.random(low.shape)
        quantile = ndtri(np.clip(probability, 1e-300, 1 - 1e-16))
        # Where the centre is not positive, the probabilities are those of the other tail.
        quantile = np.where(self.centres > 0, quantile, -quantile)
        return np.clip(self.centres + self.stds * quantile, 0.0, 1.0)

    def _tail_probabilities(self) -> tuple[Array, Array]:
        """Return the probabilities below 0 and below 1.

        Where the centre is below 0, they are the probabilities above 1 and above 0. So neither
        of the two tails loses digits to rounding.
        """
        to_0 = -self.centres / self.stds
        to_1 = (1 - self.centres) / self.stds
        low = np.where(to_0 < 0, ndtr(to_0), ndtr(-to_1))
        high = np.where(to_0 < 0, ndtr(to_1), ndtr(-to_0))
        return low, high


@dataclass(frozen=True, slots=True, eq=False)
class RewardPosterior:
    """The posterior of mean rewards.

    `chances` [3, state] are the probabilities that a state is usual, alike, or apart. In a state
    that is apart, an action has a reward of its own with probability `own` [state, action].
    """

    # The common reward [action].
    common: Array
    chances: Array
    # The reward of a state whose actions are alike [state].
    state_reward: UnitNormals
    own: Array
    # The reward of an action of its own [state, action].
    action_reward: UnitNormals

    @property
    def mean(self) -> Array:
        """The mean reward of each pair [pair]."""
        mean_if_apart = self.common + self.own * (self.action_reward.mean - self.common)
        is_usual, is_alike, is_apart = self.chances[:, :, None]
        mean = is_usual * self.common + is_alike * self.state_reward.mean[:, None]
        return np.asarray((mean + is_apart * mean_if_apart).ravel())

    def draw(self, rng: np.random.Generator) -> Array:
        """Draw the reward of each pair [pair]."""
        kind = rng.random(len(self.own))
        rewards_if_alike = self.state_reward.draw(rng)
        has_own = rng.random(self.own.shape) < self.own
        rewards_if_apart = np.where(has_own, self.action_reward.draw(rng), self.common)
        is_usual = kind < self.chances[0]
        is_usual_or_alike = kind < self.chances[0] + self.chances[1]
        same_for_all = np.where(is_usual[:, None], self.common, rewards_if_alike[:, None])
        return np.where(is_usual_or_alike[:, None], same_for_all, rewards_if_apart).ravel()


def reward_posterior(model: Posterior, support: Support, reward_scale: float) -> RewardPosterior:
    """Return the posterior of rewards, from their sums over effective samples.

    The noise of a sum of rewards is 1 / reward_scale times that of a count. A number of samples
    that is within its own noise may be zero. Therefore, the fewer samples a pair has, the less its
    sum of rewards says.
    """
    samples = model.totals
    count_noise = model.counts.noise
    sums = model.counts.rewards
    ratio = sums / np.maximum(samples, 1e-9)
    # The sampling variance of a reward in [0, 1] is at most that of a coin with the same mean.
    typical_reward = (np.clip(sums, 0.0, samples) + 1) / (samples + 2)
    sampling_variance = samples * typical_reward * (1 - typical_reward)
    sum_std = np.sqrt((count_noise / reward_scale) ** 2 + sampling_variance)
    sure_samples = np.maximum(samples - NOISE_STDS_WITHOUT_SAMPLES * count_noise, 1e-9)
    stds = np.minimum(sum_std / sure_samples, MAX_STD) + MIN_STD
    shape = (-1, support.actions)
    median_weights = np.where(support.open, 1 / (stds**2 + LEAST_STD_OF_MEDIAN**2), 0.0)
    median_weights = median_weights.reshape(shape)
    action_reward = UnitNormals(ratio.reshape(shape), stds.reshape(shape))
    centres = action_reward.centres

    common_median = _weighted_median(centres.ravel(), median_weights.ravel())
    one_reward = np.full(support.actions, common_median)
    reward_by_action = np.array(
        [_weighted_median(*column) for column in zip(centres.T, median_weights.T, strict=True)]
    )
    simple, simple_evidence = _posterior_given_common(one_reward, action_reward)
    detailed, detailed_evidence = _posterior_given_common(reward_by_action, action_reward)
    # What more parameters gain by fitting alone, as in the Bayesian information criterion.
    fitting_gain = (support.actions - 1) / 2 * np.log(len(centres))
    return detailed if detailed_evidence > simple_evidence + fitting_gain else simple


def _posterior_given_common(
    common: Array, action_reward: UnitNormals
) -> tuple[RewardPosterior, float]:
    """Return the posterior for these common rewards [action], and the logarithm of its evidence."""
    precision = 1 / action_reward.stds**2
    pooled_precision = precision.sum(axis=1)
    pooled_mean = (precision * action_reward.centres).sum(axis=1) / pooled_precision
    state_reward = UnitNormals(pooled_mean, 1 / np.sqrt(pooled_precision))

    log_common = _log_density(action_reward, common)
    log_own = np.log(action_reward.mass)
    log_apart = np.logaddexp(np.log1p(-OWN_REWARDS) + log_common, np.log(OWN_REWARDS) + log_own)
    log_alike = _log_density(action_reward, state_reward.centres[:, None]).sum(axis=1) + np.log(
        np.sqrt(2 * np.pi) * state_reward.stds * state_reward.mass
    )
    log_likelihood = np.stack([log_common.sum(axis=1), log_alike, log_apart.sum(axis=1)])
    prior = [[1 - ALIKE_STATES - APART_STATES], [ALIKE_STATES], [APART_STATES]]
    log_joint = log_likelihood + np.log(prior)
    log_evidence = logsumexp(log_joint, axis=0)
    posterior = RewardPosterior(
        common,
        np.exp(log_joint - log_evidence),
        state_reward,
        np.exp(np.log(OWN_REWARDS) + log_own - log_apart),
        action_reward,
    )
    return posterior, float(log_evidence.sum())


def _weighted_median(values: Array, weights: Array) -> float:
    """Return the weighted median, clipped to [0, 1], or 0 if all weights are zero."""
    order = np.argsort(np.where(weights > 0, values, 0.0))
    cumulative_weight = np.cumsum(weights[order])
    total_weight = cumulative_weight[-1]
    if total_weight <= 0:
        return 0.0
    middle = int(np.searchsorted(cumulative_weight, total_weight / 2))
    return float(np.clip(values[order[middle]], 0.0, 1.0))


def _log_density(normals: UnitNormals, values: Array) -> Array:
    """Return the logarithm of the normal densities, before the truncation."""
    squared_distance = ((normals.centres - values) / normals.stds) ** 2
    return np.asarray(-0.5 * squared_distance - np.log(normals.stds) - 0.5 * np.log(2 * np.pi))
