"""Dynamics of a linear system from noisy residuals of one leaf of users after another, and what to do about them. All post-processing.

Theta = [A B]^T ~ N(M, Cov x I_n), from the prior N(0, bound^2 / (n p) I). A leaf of users gives G = sum z r^T around a guess Theta_0, of
mean S (Theta - Theta_0) with S = sum z z^T; with noise of variance s^2 on each number it adds S (v S + s^2 I)^-1 S to the precision. S is
not known exactly, either: its block of states was released, and the rest follows from the gains, which are public (`leaf_moments`); v is
the variance of the system's noise plus what an error of S does to Theta - Theta_0, which vanishes as guesses get better.
"""

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from confide.planners import _lq_posterior_kernels as _kernels

Array = npt.NDArray[np.float64]
MODEL_ERROR = 0.1  # relative, of predicted second moments, however sure the model is
SAMPLES = 8  # of the posterior, for how far predictions may be off
USERS = 400  # made up, for clip and cap
QUANTILES = 0.75, 0.9  # of ||G|| for the clip, and of tr S for the cap


@dataclass(frozen=True, slots=True, eq=False)
class Costs:
    """What is public of a linear system. `first` and `noise` are second moments, `reach` is where steps cease to count."""

    Q: Array
    R: Array
    horizon: int
    noise_radius: float
    bound: float
    gain_bound: float
    reach: float = 2.0
    first: Array = field(init=False, repr=False)
    noise: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        n = len(self.Q)
        for name in ("Q", "R"):
            object.__setattr__(self, name, np.array(getattr(self, name), dtype=float))
        object.__setattr__(self, "first", np.eye(n) / n)
        object.__setattr__(self, "noise", self.noise_radius**2 / (n + 2) * np.eye(n))

    def within(self, theta: Array) -> Array:
        """Shortened to the public bound on ||Theta||_F."""
        return np.ascontiguousarray(theta * min(1.0, self.bound / max(float(np.linalg.norm(theta)), 1e-300)))

    def cost(self, theta: Array, covariance: Array, gains: Array) -> float:
        return _kernels.expected_cost(theta, covariance, self.Q, self.R, gains, self.first, self.noise)


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """One leaf of users as it was released, and how they were served. Public.

    sums S [p, p] and residuals G [p, n] in their own units, with the standard deviations of their noise; guess Theta_0; gains [g, h, d, n];
    users; kept: the share of S that the clip leaves, predicted; before: the covariance of Theta when the guess was made.
    """

    sums: Array
    residuals: Array
    sums_std: float
    std: float
    guess: Array
    gains: Array
    users: float
    kept: float
    before: Array


@dataclass(frozen=True, slots=True, eq=False)
class Belief:
    """Theta ~ N(mean, covariance x I_n). Public."""

    mean: Array
    covariance: Array

    def draws(self, spread: float, count: int, rng: np.random.Generator) -> Array:
        """[count, p, n], not yet within the bound."""
        p, n = self.mean.shape
        drawn = rng.multivariate_normal(np.zeros(p), self.covariance, size=(count, n), method="cholesky")
        moved: Array = self.mean + spread * drawn.swapaxes(1, 2)
        return moved


def prior(costs: Costs) -> Belief:
    n, p = len(costs.Q), len(costs.Q) + len(costs.R)
    return Belief(np.zeros((p, n)), costs.bound**2 / (n * p) * np.eye(p))


def posterior(leaves: list[Leaf], before: Belief, costs: Costs, rng: np.random.Generator) -> Belief:
    """From all leaves; twice, since what a leaf's S was is predicted with the estimate itself, at first with the one before."""
    first, believed = prior(costs), before
    n = len(costs.Q)
    system = costs.noise_radius**2 / (n + 2)
    for _ in range(2):
        samples = [costs.within(theta) for theta in believed.draws(1.0, SAMPLES, rng)]
        precision, information = np.linalg.inv(first.covariance), np.zeros_like(first.mean)
        for leaf in leaves:
            S, error = leaf_moments(leaf, believed.mean, samples, costs)
            v = system + (error**2 + (1 - leaf.kept) ** 2) * float(np.trace(S @ leaf.before))
            weighted = np.linalg.solve(v * S + (leaf.std**2 + 1e-9) * np.eye(len(S)), S)
            precision = precision + S @ weighted
            information = information + weighted.T @ leaf.residuals + S @ weighted @ leaf.guess
        precision = (precision + precision.T) / 2
        covariance = np.linalg.inv(precision)
        mean = costs.within(np.asarray(np.linalg.solve(precision, information), dtype=np.float64))
        believed = Belief(mean, np.asarray((covariance + covariance.T) / 2, dtype=np.float64))
    return believed


def leaf_moments(leaf: Leaf, theta: Array, samples: list[Array], costs: Costs) -> tuple[Array, float]:
    """S of a leaf, and its relative error. Without noise it is known. Otherwise the model's, turned so that its block of states is what was
    released, as far as that outweighs its noise: directions that no input tried stay without information."""
    n = len(costs.Q)
    if leaf.sums_std == 0:
        return leaf.sums, 0.0
    users, still = leaf.users * leaf.kept, np.eye(n)
    public = costs.first, costs.noise, costs.reach
    model = users * _kernels.second_moments(theta, leaf.gains, *public, still)[:n, :n]
    size = float(np.trace(model)) / n
    others = [users * np.trace(_kernels.second_moments(each, leaf.gains, *public, still)[:n, :n]) / n for each in samples]
    error = math.hypot(MODEL_ERROR, float(np.mean(np.abs(np.array(others) - size))) / size)
    w = leaf.sums_std**2 / (leaf.sums_std**2 + (error * size) ** 2)
    values, vectors = np.linalg.eigh(w * model + (1 - w) * leaf.sums[:n, :n])
    root = (vectors * np.sqrt(np.maximum(values, 0.05 * size))) @ vectors.T
    values, vectors = np.linalg.eigh(model)
    turn = root @ (vectors / np.sqrt(values)) @ vectors.T
    return users * _kernels.second_moments(theta, leaf.gains, *public, turn), math.sqrt(w) * error


def certainty_gains(believed: Belief, costs: Costs) -> Array:
    """The cautious gains of the belief, no longer than gamma."""
    return _projected(_kernels.cautious(believed.mean, believed.covariance, costs.Q, costs.R, costs.horizon), costs)


def sampled_gains(believed: Belief, costs: Costs, count: int, spread: float, rng: np.random.Generator) -> Array:
    """Gains [count, h, d, n] for draws of the belief, each moved to the cautious ones until it is expected to cost no more than u = 0."""
    safe, chosen = certainty_gains(believed, costs), []
    nothing = costs.cost(believed.mean, believed.covariance, np.zeros_like(safe))
    for theta in believed.draws(spread, count, rng):
        gains = _projected(_kernels.cautious(costs.within(theta), believed.covariance, costs.Q, costs.R, costs.horizon), costs)
        for _ in range(6):
            if costs.cost(believed.mean, believed.covariance, gains) <= nothing + 1e-12:
                break
            gains = (gains + safe) / 2
        else:
            gains = safe
        chosen.append(gains)
    return np.array(chosen)


def exploring_gains(costs: Costs, size: float, pairs: int, rng: np.random.Generator) -> Array:
    """+-size U for U with orthonormal rows (or columns): inputs in all directions, uncorrelated with states on average.

    Smaller where inputs cost more than states do, by the root of the ratio.
    """
    n, d, H = len(costs.Q), len(costs.R), costs.horizon
    size = min(size * min(1.0, math.sqrt(np.trace(costs.Q) / n / (np.trace(costs.R) / d))), costs.gain_bound)
    chosen = []
    for _ in range(pairs):
        left, _, right = np.linalg.svd(rng.uniform(-1, 1, size=(d, n)), full_matrices=False)
        gains = np.zeros((H, d, n))
        gains[: H - 1] = size * left @ right
        chosen += [gains, -gains]
    return np.array(chosen)


def limits(believed: Belief, gains: Array, costs: Costs, rng: np.random.Generator) -> tuple[float, float, float]:
    """(clip, cap, the share of S that they leave) for users who play these gains: by making users up. Public."""
    n, H = len(costs.Q), costs.horizon
    thetas = np.stack([costs.within(theta) for theta in believed.draws(1.0, USERS, rng)])
    directions = rng.multivariate_normal(np.zeros(n), np.eye(n), size=(USERS, H + 1), method="cholesky")
    directions /= np.linalg.norm(directions, axis=2, keepdims=True)
    shocks = costs.noise_radius * rng.random((USERS, H, 1)) ** (1 / n) * directions[:, 1:]
    starts = np.ascontiguousarray(directions[:, 0])
    sizes, traces = _kernels.rehearse(thetas, believed.mean, gains, starts, shocks, costs.reach)
    clip, cap = float(np.quantile(sizes, QUANTILES[0])), float(np.quantile(traces, QUANTILES[1]))
    f = np.minimum(1.0, np.minimum(clip / np.maximum(sizes, 1e-300), cap / traces))
    return max(clip, 1e-9), cap, float((f * traces).sum() / traces.sum())


def _projected(gains: Array, costs: Costs) -> Array:
    sizes = np.linalg.norm(gains, 2, axis=(1, 2))
    result: Array = gains * np.minimum(1.0, costs.gain_bound / np.maximum(sizes, 1e-300))[:, None, None]
    return result
