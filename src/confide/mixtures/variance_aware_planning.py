"""The next round of UCRL-VTR+ [Luyo21, Alg. 3], from sums of values and of squared values.

PUBLIC: everything here is post-processing of releases. What leaves is the round, and what the rows
of its users are made from: values, squares and weights. `plan_as_printed` must stay as the paper
prints it. The rest may be changed freely.
"""

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from confide.mixtures.explorer_planning import explorer_width, regression_values, with_explorer
from confide.mixtures.planning import optimistic
from confide.mixtures.regression_planning import RegressionSums
from confide.mixtures.value_features import SparseKernels, fitted_features
from confide.mixtures.variance_planning import (
    estimate_moment,
    largest_plausible,
    largest_possible,
    variance_weights,
)
from confide.planners.public_round import PublicRound
from confide.planners.regression import Repair, Shift, Width, mean_eigenvalue

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class WeightedRound:
    """A round, and what its users' next states are regressed on.

    Shapes: values and squares [h, s], and the weights [h, s, a] of the rows of values.
    """

    public: PublicRound
    values: Array
    squares: Array
    weights: Array


@dataclass(frozen=True, slots=True, eq=False)
class PrintedProblem:
    """What is public before the first user, as the paper has it.

    `features` are phi(s' | s, a) in raw coordinates, kernels / sqrt(d). Values are in [0, H].
    `shifts` are those of the regression of values, and of squares. Shapes: rewards [h, s, a].
    """

    features: SparseKernels
    rewards: Array = field(repr=False)
    shifts: tuple[float, float]
    bonus_scale: float

    @property
    def dimension(self) -> int:
        return self.features.feature_map.dimension


def plan_as_printed(
    problem: PrintedProblem,
    values_sums: RegressionSums,
    squares_sums: RegressionSums,
    generation: int,
    widths: tuple[float, float, float],
) -> WeightedRound:
    """`widths` are those of [Luyo21, (6), (7)]: beta check, beta hat and beta tilde."""
    H = len(problem.rewards)
    d = problem.dimension
    features = problem.features
    coordinates = features.feature_map
    beta_check, beta_hat, beta_tilde = widths
    values_shift = Shift(problem.shifts[0], beta_hat * problem.bonus_scale)
    squares_shift = Shift(problem.shifts[1], beta_tilde)
    # The rows of the second regression come as sqrt(d) / H^2 times phi_{V^2}.
    unit = H**4 / d
    estimate = values_shift.estimate(
        values_sums.gram, values_sums.responses, noise_std=values_sums.noise_std
    )
    squares_estimate = squares_shift.estimate(
        unit * squares_sums.gram,
        unit * squares_sums.responses,
        noise_std=unit * squares_sums.noise_std,
    )
    plan = optimistic(
        features,
        problem.rewards,
        estimate,
        feature_map=coordinates,
        width=values_shift.width(noise_std=0.0),
        ceiling=np.full(H, float(H)),
    )
    next_values = plan.values[1 : len(values_sums.gram) + 1]
    check_width = Width(beta_check**2, 0.0, factor=1.0, cap=math.inf)
    first = estimate_moment(coordinates, features, next_values, estimate, check_width)
    squares_width = squares_shift.width(noise_std=0.0)
    second = estimate_moment(coordinates, features, next_values**2, squares_estimate, squares_width)
    # sbar^2 of the paper.
    variances = np.maximum(H**2 / d, largest_plausible(first, second, H))
    signal = mean_eigenvalue(values_sums.gram) if generation else None
    public = PublicRound((plan.policy,), {}, signal)
    return WeightedRound(public, plan.values, plan.values**2, 1 / np.sqrt(variances))


@dataclass(frozen=True, slots=True, eq=False)
class VarianceProblem:
    """What is public before the first user, in the tight form.

    `balance` is that of the regression of values, and `release_times` are the numbers of users
    after which there is a release. Shapes: rewards [h, s, a].
    """

    features: SparseKernels
    rewards: Array = field(repr=False)
    regularizer: Repair
    balance: float
    release_times: tuple[int, ...]


def plan_round(
    problem: VarianceProblem,
    values_sums: RegressionSums,
    squares_sums: RegressionSums,
    generation: int,
) -> WeightedRound:
    """With the means of `UCRLVTR`: reduced features, public weights, repaired eigenvalues."""
    regularizer = problem.regularizer
    features = problem.features
    coordinates = features.feature_map
    estimate, squares_estimate = (
        regularizer.estimate(sums.gram, sums.responses, noise_std=sums.noise_std)
        for sums in (values_sums, squares_sums)
    )
    width = regularizer.width(noise_std=values_sums.noise_std)
    squares_width = regularizer.width(noise_std=squares_sums.noise_std)
    plan = optimistic(features, problem.rewards, estimate, feature_map=coordinates, width=width)
    explorer = optimistic(
        features,
        problem.rewards,
        estimate,
        feature_map=coordinates,
        width=explorer_width(width),
    )
    values = regression_values(plan.values, explorer.values)
    next_values = scale_values(values[1 : len(values_sums.gram) + 1])
    first = estimate_moment(coordinates, features, next_values, estimate, width)
    second = estimate_moment(coordinates, features, next_values**2, squares_estimate, squares_width)
    # A variance is at most what is possible at (s, a), and at least 1/d of that.
    possible = largest_possible(features, next_values)
    least = possible / len(coordinates.origin)
    variances = np.clip(largest_plausible(first, second, 1.0), least, possible)
    traces = np.trace(values_sums.gram, axis1=1, axis2=2)
    signal = np.maximum(traces / coordinates.dimension, 1.0)
    rows, fitting_weights = fitted_features(
        coordinates, features, next_values, balance=problem.balance
    )
    weights = variance_weights(fitting_weights, rows.rows, variances, noise=width.noise / signal)
    policies, shares = with_explorer(
        plan.policy, explorer.policy, problem.release_times, generation
    )
    mean_signal = float(signal.mean()) if generation else None
    public = PublicRound(policies, {}, mean_signal, shares)
    return WeightedRound(
        public, with_first_step(next_values), with_first_step(next_values**2), weights
    )


def scale_values(values: Array) -> Array:
    """Each step's values [h, s] moved and scaled to [0, 1], so squares are on the same scale."""
    low = values.min(axis=1, keepdims=True)
    span = np.ptp(values, axis=1)[:, None]
    return np.asarray((values - low) / np.where(span > 0, span, 1.0))


def with_first_step(next_values: Array) -> Array:
    """Values [h, s] after each step, with zeros before them.

    They stand for the values at the first step, which no regression looks at.
    """
    return np.concatenate([np.zeros_like(next_values[:1]), next_values])
