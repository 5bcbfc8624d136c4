"""From sums of values and of squared values to the next round of UCRL-VTR+ [Luyo21, Alg. 3]: a plan, and weights for the rows of its users.

All post-processing.
"""

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from confide.mixtures.explorer_planning import served, targets, wider
from confide.mixtures.planning import optimistic
from confide.mixtures.regression_planning import RegressionSums
from confide.mixtures.value_features import SparseKernels, fitted
from confide.mixtures.variance_planning import (
    largest_plausible,
    largest_possible,
    moment,
    variance_weights,
)
from confide.planners.public_round import PublicRound
from confide.planners.regression import Repair, Shift, Width, mean_eigenvalue

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class WeightedRound:
    """A round, what its users' next states are regressed on, values and squares [h, s], and the weights [h, s, a] of the first."""

    public: PublicRound
    values: Array
    squares: Array
    weights: Array


@dataclass(frozen=True, slots=True, eq=False)
class PrintedProblem:
    """What is public before the first user; features are kernels / sqrt(d), values in [0, H]."""

    features: SparseKernels  # phi(s' | s, a), in raw coordinates
    rewards: Array = field(repr=False)
    shifts: tuple[float, float]
    bonus_scale: float

    @property
    def dimension(self) -> int:
        return self.features.feature_map.dimension


def plan_as_printed(
    problem: PrintedProblem,
    first: RegressionSums,
    second: RegressionSums,
    generation: int,
    widths: tuple[float, float, float],
) -> WeightedRound:
    """`widths` are those of [Luyo21, (6), (7)]: beta check, beta hat and beta tilde."""
    H, d, seen = len(problem.rewards), problem.dimension, problem.features
    check, hat, tilde = widths
    unit = H**4 / d  # of the second regression: its rows come as sqrt(d) / H^2 times phi_{V^2}
    weighted = Shift(problem.shifts[0], hat * problem.bonus_scale)
    squares = Shift(problem.shifts[1], tilde)
    estimate = weighted.estimate(first.gram, first.responses, noise_std=first.noise_std)
    second_estimate = squares.estimate(
        unit * second.gram, unit * second.responses, noise_std=unit * second.noise_std
    )
    coordinates = seen.feature_map
    plan = optimistic(
        seen,
        problem.rewards,
        estimate,
        feature_map=coordinates,
        width=weighted.width(noise_std=0.0),
        ceiling=np.full(H, float(H)),
    )
    later = plan.values[1 : len(first.gram) + 1]
    mean = moment(
        coordinates, seen, later, estimate, Width(check**2, 0.0, factor=1.0, cap=math.inf)
    )
    square = moment(coordinates, seen, later**2, second_estimate, squares.width(noise_std=0.0))
    variances = np.maximum(H**2 / d, largest_plausible(mean, square, H))  # sbar^2
    signal = mean_eigenvalue(first.gram) if generation else None
    public = PublicRound((plan.policy,), {}, signal)
    return WeightedRound(public, plan.values, plan.values**2, 1 / np.sqrt(variances))


@dataclass(frozen=True, slots=True, eq=False)
class VarianceProblem:
    """What is public before the first user."""

    features: SparseKernels
    rewards: Array = field(repr=False)
    regularizer: Repair
    balance: float  # of the first regression
    times: tuple[int, ...]  # of releases


def plan_round(
    problem: VarianceProblem, first: RegressionSums, second: RegressionSums, generation: int
) -> WeightedRound:
    """With the means of `UCRLVTR`: reduced features, public weights, repaired eigenvalues."""
    regularizer, seen = problem.regularizer, problem.features
    features = seen.feature_map
    estimate, second_estimate = (
        regularizer.estimate(sums.gram, sums.responses, noise_std=sums.noise_std)
        for sums in (first, second)
    )
    width, second_width = (regularizer.width(noise_std=sums.noise_std) for sums in (first, second))
    plan = optimistic(seen, problem.rewards, estimate, feature_map=features, width=width)
    explorer = optimistic(seen, problem.rewards, estimate, feature_map=features, width=wider(width))
    later = scaled(targets(plan.values, explorer.values)[1 : len(first.gram) + 1])
    mean = moment(features, seen, later, estimate, width)
    square = moment(features, seen, later**2, second_estimate, second_width)
    possible = largest_possible(seen, later)
    least = possible / len(features.origin)
    variances = np.clip(largest_plausible(mean, square, 1.0), least, possible)
    signal = np.maximum(np.trace(first.gram, axis1=1, axis2=2) / features.dimension, 1.0)
    rows, fitting = fitted(features, seen, later, balance=problem.balance)
    weights = variance_weights(fitting, rows.rows, variances, noise=width.noise / signal)
    policies, shares = served(plan.policy, explorer.policy, problem.times, generation)
    public = PublicRound(policies, {}, float(signal.mean()) if generation else None, shares)
    return WeightedRound(public, after_first(later), after_first(later**2), weights)


def scaled(values: Array) -> Array:
    """Each step's values [h, s] centred and scaled to [0, 1]: squares, and variances, are then on one scale."""
    low, span = values.min(axis=1, keepdims=True), np.ptp(values, axis=1)[:, None]
    return np.asarray((values - low) / np.where(span > 0, span, 1.0))


def after_first(later: Array) -> Array:
    """Values [h, s] after each step, with the value at the first step before them, which no regression looks at."""
    return np.concatenate([np.zeros_like(later[:1]), later])
