"""Mean rewards of a table from noisy sums. All post-processing.

Prior. All actions of a state earn what is common in most of the table; or, with probability ALIKE, another reward, uniform on [0, 1] and
the same for all actions of the state; or, with probability APART, each action for itself earns the common one, or with probability OWN
one that is uniform on [0, 1]. So an action that nobody tried may be worth as much as any, and as the others of its state. What is common
is one reward, or one for each action: whichever explains the sums better.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp, ndtr, ndtri

from confide.tables.model_planning import Posterior
from confide.tables.support_features import Support

Array = npt.NDArray[np.float64]
ALIKE, APART, OWN = 0.1, 0.2, 0.3
FAINT = 2.0  # standard deviations of noise, within which a number of samples tells nothing
SURE = 0.05  # the common reward is a median, in which what is known better than this weighs no more
_WIDEST, _NEVER = 1e3, 1e-290


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """Normal distributions, of any shape, that are cut at 0 and 1."""

    centres: Array
    spreads: Array

    @property
    def mass(self) -> Array:
        """Within [0, 1], before the cut."""
        low, high = self._ends()
        return np.maximum(high - low, _NEVER)

    @property
    def mean(self) -> Array:
        density = (
            np.exp(-0.5 * (end / self.spreads) ** 2) for end in (self.centres, 1 - self.centres)
        )
        inside = (
            self.centres
            + self.spreads * (next(density) - next(density)) / np.sqrt(2 * np.pi) / self.mass
        )
        return np.asarray(np.clip(inside, 0.0, 1.0))

    def drawn(self, rng: np.random.Generator) -> Array:
        low, high = self._ends()
        z = ndtri(np.clip(low + (high - low) * rng.random(low.shape), 1e-300, 1 - 1e-16))
        return np.clip(self.centres + self.spreads * np.where(self.centres > 0, z, -z), 0.0, 1.0)

    def _ends(self) -> tuple[Array, Array]:
        """Probabilities below 0 and 1, or above 1 and 0 where the centre is below 0: rounding loses nothing in that tail."""
        a, b = -self.centres / self.spreads, (1 - self.centres) / self.spreads
        return np.where(a < 0, ndtr(a), ndtr(-b)), np.where(a < 0, ndtr(b), ndtr(-a))


@dataclass(frozen=True, slots=True, eq=False)
class RewardPosterior:
    """Mean rewards. States: [0] all actions common, [1] alike, [2] apart, with `chances` [3, state]; actions apart are `own` [state, a]."""

    common: Array  # [a]
    chances: Array
    state: Unit  # [state]
    own: Array
    action: Unit  # [state, a]

    @property
    def mean(self) -> Array:
        """[pair]"""
        apart = self.common + self.own * (self.action.mean - self.common)
        usual, alike, own = self.chances[:, :, None]
        return np.asarray(
            (usual * self.common + alike * self.state.mean[:, None] + own * apart).ravel()
        )

    def drawn(self, rng: np.random.Generator) -> Array:
        """[pair]"""
        level, alike = rng.random(len(self.own)), self.state.drawn(rng)
        apart = np.where(rng.random(self.own.shape) < self.own, self.action.drawn(rng), self.common)
        is_usual, is_alike = level < self.chances[0], level < self.chances[0] + self.chances[1]
        same = np.where(is_usual[:, None], self.common, alike[:, None])
        return np.where(is_alike[:, None], same, apart).ravel()


def reward_posterior(known: Posterior, support: Support, balance: float) -> RewardPosterior:
    """From sums of rewards over effective samples, whose noise is 1 / balance times that of a count.

    A number of samples that is within its own noise may be none. So the fewer samples, the less is said by what was earned in them.
    """
    N, s, y = known.totals, known.counts.noise, known.counts.rewards
    ratio, typical = y / np.maximum(N, 1e-9), (np.clip(y, 0.0, N) + 1) / (N + 2)
    deviation = np.sqrt((s / balance) ** 2 + N * typical * (1 - typical))
    spreads = np.minimum(deviation / np.maximum(N - FAINT * s, 1e-9), _WIDEST) + 1e-9
    shape = (-1, support.actions)
    weights = np.where(support.open, 1 / (spreads**2 + SURE**2), 0.0).reshape(shape)
    action = Unit(ratio.reshape(shape), spreads.reshape(shape))
    one = np.full(support.actions, _median(action.centres.ravel(), weights.ravel()))
    each = np.array([_median(*column) for column in zip(action.centres.T, weights.T, strict=True)])
    (first, simple), (second, detailed) = (_given(common, action) for common in (one, each))
    # what further numbers gain by fitting alone
    more = (support.actions - 1) / 2 * np.log(len(action.centres))
    return second if detailed > simple + more else first


def _given(common: Array, action: Unit) -> tuple[RewardPosterior, float]:
    """The posterior for these common rewards [a], and the logarithm of its evidence."""
    precision = 1 / action.spreads**2
    pooled = precision.sum(axis=1)
    state = Unit((precision * action.centres).sum(axis=1) / pooled, 1 / np.sqrt(pooled))
    spike, slab = _log_density(action, common), np.log(action.mass)
    alike = _log_density(action, state.centres[:, None]).sum(axis=1) + np.log(
        np.sqrt(2 * np.pi) * state.spreads * state.mass
    )
    mixed = np.logaddexp(np.log1p(-OWN) + spike, np.log(OWN) + slab)
    evidence = np.stack([spike.sum(axis=1), alike, mixed.sum(axis=1)]) + np.log(
        [[1 - ALIKE - APART], [ALIKE], [APART]]
    )
    total = logsumexp(evidence, axis=0)
    found = RewardPosterior(
        common, np.exp(evidence - total), state, np.exp(np.log(OWN) + slab - mixed), action
    )
    return found, float(total.sum())


def _median(values: Array, weights: Array) -> float:
    """Within [0, 1]; 0 where nothing has a weight."""
    order = np.argsort(np.where(weights > 0, values, 0.0))
    mass = np.cumsum(weights[order])
    return (
        float(np.clip(values[order[int(np.searchsorted(mass, mass[-1] / 2))]], 0.0, 1.0))
        if mass[-1] > 0
        else 0.0
    )


def _log_density(of: Unit, mean: Array) -> Array:
    return np.asarray(
        -0.5 * ((of.centres - mean) / of.spreads) ** 2
        - np.log(of.spreads)
        - 0.5 * np.log(2 * np.pi)
    )
